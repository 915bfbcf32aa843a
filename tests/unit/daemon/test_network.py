"""Daemons' answers become one network, and a network becomes a picture."""

import itertools
import re
from typing import Any
from xml.etree import ElementTree

from shoal.daemon.network import network_of
from shoal.daemon.picture import HEIGHT, WIDTH, dot, layout, svg

LAN = {"name": "lan", "kind": "norm", "state": "up", "up": 1, "lan": "239.192.74.1:7474 on 10.0.0.0/24"}
FAR = {
    "name": "paris",
    "kind": "tcp",
    "state": "up",
    "up": 1,
    "peer": "2",
    "role": "connect",
    "round_trip_s": 0.04,
}
CLIENT = {"name": "clients", "kind": "tcp", "state": "waiting", "up": 0, "peer": "9", "role": "accept"}
LISTENER = {"name": "clients", "kind": "tcp", "state": "listening", "up": 1, "role": "listen"}
BACK = {"name": "clients", "kind": "tcp", "state": "up", "up": 1, "peer": "1", "role": "accept"}


def status(node: int, name: str, links: list[dict[str, Any]]) -> dict[str, Any]:
    return {"node": node, "name": name, "roles": ["router"], "links": links}


def network() -> Any:
    return network_of(
        [status(1, "rome", [LAN, FAR, CLIENT, LISTENER]), status(2, "paris", [BACK])], [1, 2, 9, 12]
    )


def test_nodes_lans_and_links_are_each_there_once() -> None:
    found = network()
    assert {(place.key, place.kind) for place in found.places.values()} == {
        ("1", "daemon"),
        ("2", "daemon"),
        ("9", "node"),
        ("12", "node"),
        (LAN["lan"], "lan"),
    }
    # Both ends tell of the link between them.
    assert [(line.near, line.far, line.up) for line in found.lines] == [
        ("1", LAN["lan"], True),
        ("1", "2", True),
        ("1", "9", False),
    ]


def test_a_link_in_standby_joins_nothing() -> None:
    standby = {
        "name": "registry",
        "kind": "tcp",
        "state": "standby",
        "role": "connect",
        "up": 0,
        "peer": "",
        "url": "tcp://10.0.0.2:7501",
    }
    found = network_of(
        [status(1, "rome", [standby, BACK | {"peer": "2"}]), status(2, "paris", [FAR | {"peer": "1"}])], []
    )
    assert set(found.places) == {"1", "2"}
    assert [(line.near, line.far, line.up) for line in found.lines] == [("1", "2", True)]


def test_whoever_asks_is_no_part_of_the_picture() -> None:
    found = network_of([status(1, "rome", [LAN, CLIENT])], [1], 9)
    assert {place.key for place in found.places.values()} == {"1", LAN["lan"]}


def test_norm_between_two_ends_joins_the_daemons_that_have_the_addresses() -> None:
    one = {"name": "far", "kind": "norm", "up": 1, "far": "10.0.0.2", "address": "10.0.0.1:7474"}
    two = {"name": "far", "kind": "norm", "up": 1, "far": "10.0.0.1", "address": "10.0.0.2:7474"}
    found = network_of([status(1, "rome", [one]), status(2, "paris", [two])], [])
    assert [(line.near, line.far) for line in found.lines] == [("1", "2")]


def test_dot_names_everything_and_quotes_it() -> None:
    text = dot(network_of([status(1, 'ro"me\\', [LAN])], []))
    assert text.startswith("graph shoal {")
    assert r'"1" [label="ro\"me\\\nrouter", shape=box];' in text
    assert '"1" -- "239.192.74.1:7474 on 10.0.0.0/24"' in text
    assert "style=dashed" in dot(network())


def test_svg_is_xml_with_every_place_inside_and_names_escaped() -> None:
    drawn = svg(network_of([status(1, "<rome> & co", [LAN, CLIENT])], [7]))
    tree = ElementTree.fromstring(drawn)
    texts = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "<rome> & co" in texts
    assert "stroke-dasharray" in drawn
    for x, y in re.findall(r'<text x="(\d+)" y="(\d+)"', drawn):
        assert 0 < int(x) < WIDTH
        assert 0 < int(y) < HEIGHT
    boxes = [box.attrib for box in tree.iter("{http://www.w3.org/2000/svg}rect") if "rx" in box.attrib]
    assert len(boxes) == 4
    for box in boxes:
        assert 0 <= int(box["x"]) <= int(box["x"]) + int(box["width"]) <= WIDTH
        assert 0 <= int(box["y"]) <= int(box["y"]) + int(box["height"]) <= HEIGHT


def test_a_picture_is_the_same_each_time_and_keeps_places_apart() -> None:
    statuses = [status(node, f"d{node}", [LAN, FAR | {"peer": str(node % 20 + 1)}]) for node in range(1, 21)]
    first, second = layout(network_of(statuses, [])), layout(network_of(statuses, []))
    assert first == second
    places = sorted(first.values())
    closest = min(
        abs(ax - bx) + abs(ay - by) for i, (ax, ay) in enumerate(places) for bx, by in places[i + 1 :]
    )
    assert closest > 20, "two places lie on each other"


def test_an_empty_network_and_one_node_can_be_drawn() -> None:
    ElementTree.fromstring(svg(network_of([], [])))
    assert "data-node" in svg(network_of([], [5]))


def test_nothing_covers_anything_else() -> None:
    lans = [
        dict(LAN, name=f"lan{number}", lan=f"239.192.74.{number}:7474 on 10.0.{number}.0/24")
        for number in range(4)
    ]
    daemons = [status(node, f"gateway-number-{node}", [lans[node - 1], lans[node]]) for node in (1, 2, 3)]
    drawn = ElementTree.fromstring(svg(network_of(daemons, [1, 2, 3, 7, 8])))
    rects = [box.attrib for box in drawn.iter("{http://www.w3.org/2000/svg}rect") if "rx" in box.attrib]
    boxes = [tuple(float(box[name]) for name in ("x", "y", "width", "height")) for box in rects]
    assert len(boxes) == 9
    for (x1, y1, w1, h1), (x2, y2, w2, h2) in itertools.combinations(boxes, 2):
        assert x1 + w1 <= x2 or x2 + w2 <= x1 or y1 + h1 <= y2 or y2 + h2 <= y1
