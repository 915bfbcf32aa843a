"""A network as a picture: Graphviz's language, or SVG that any browser shows."""

import itertools
import math
from xml.sax.saxutils import escape, quoteattr

from shoal.daemon.network import Line, Network, Place

#: Of the picture, in pixels.
WIDTH, HEIGHT, MARGIN = 900, 600, 90
#: Between two places, at the least.
GAP = 14
#: Steps until the drawing stands still.
STEPS = 300
_FILL = {"daemon": "#cfe3f5", "node": "#ffffff", "lan": "#f3ecd2"}


def dot(network: Network) -> str:
    """For `dot -Tpng`."""
    lines = ["graph shoal {", "  overlap=false; splines=true;"]
    shapes = {"daemon": "box", "node": "ellipse", "lan": "hexagon"}
    for place in network.places.values():
        label = _quoted("\n".join(_labels(place)))
        lines.append(f"  {_quoted(place.key)} [label={label}, shape={shapes[place.kind]}];")
    for line in network.lines:
        style = "solid" if line.up else "dashed"
        label = _quoted(_of_line(line))
        lines.append(f"  {_quoted(line.near)} -- {_quoted(line.far)} [label={label}, style={style}];")
    return "\n".join([*lines, "}"]) + "\n"


def svg(network: Network) -> str:
    """A whole SVG file."""
    at = _apart(network)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for line in network.lines:
        (x1, y1), (x2, y2) = at[line.near], at[line.far]
        dashes = "" if line.up else ' stroke-dasharray="6 5"'
        parts.append(
            f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#555"{dashes}>'
            f"<title>{escape(_of_line(line))}</title></line>"
        )
    for place in network.places.values():
        parts.append(_shape(place, *at[place.key]))
    # Above all the rest, and readable on top of it.
    halo = 'paint-order="stroke" stroke="white" stroke-width="3"'
    for line in network.lines:
        (x1, y1), (x2, y2) = at[line.near], at[line.far]
        label = escape(_of_line(line))
        middle = f'x="{(x1 + x2) / 2:.0f}" y="{(y1 + y2) / 2 + 4:.0f}"'
        parts.append(f'<text {middle} text-anchor="middle" fill="#555" font-size="11" {halo}>{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _size(labels: list[str]) -> tuple[int, int]:
    """Width and height of what stands for a place."""
    return max(40, 8 * max(map(len, labels)) + 16), 16 * len(labels) + 12


def _inside(place: Place, x: float, y: float) -> tuple[float, float]:
    """The nearest point at which the whole of a place is in the picture."""
    width, height = _size(_labels(place))
    return (
        min(max(x, width / 2 + 2), max(WIDTH - width / 2 - 2, WIDTH / 2)),
        min(max(y, height / 2 + 2), HEIGHT - height / 2 - 2),
    )


def _apart(network: Network) -> dict[str, tuple[float, float]]:
    """Where everything stands so that nothing covers anything else, as long as there is room for it."""
    places = network.places
    at = {key: _inside(places[key], *where) for key, where in layout(network).items()}
    sizes = {key: _size(_labels(place)) for key, place in places.items()}
    for _ in range(STEPS):
        covered = False
        for one, other in itertools.combinations(sorted(at), 2):
            (x1, y1), (x2, y2) = at[one], at[other]
            across = (sizes[one][0] + sizes[other][0]) / 2 + GAP - abs(x2 - x1)
            down = (sizes[one][1] + sizes[other][1]) / 2 + GAP - abs(y2 - y1)
            if across <= 0 or down <= 0:
                continue
            covered = True
            # The shorter way; both go half of it.
            dx = math.copysign(across / 2, x2 - x1) if across < down else 0.0
            dy = 0.0 if across < down else math.copysign(down / 2, y2 - y1)
            at[one] = _inside(places[one], x1 - dx, y1 - dy)
            at[other] = _inside(places[other], x2 + dx, y2 + dy)
        if not covered:
            break
    return at


def _shape(place: Place, x: float, y: float) -> str:
    labels = _labels(place)
    width, height = _size(labels)
    rounded = {"daemon": 4, "node": height // 2, "lan": 0}[place.kind]
    texts = "".join(
        f'<text x="{x:.0f}" y="{y - height / 2 + 19 + 16 * row:.0f}" text-anchor="middle">'
        f"{escape(label)}</text>"
        for row, label in enumerate(labels)
    )
    return (
        f"<g data-node={quoteattr(place.key)}>"
        f'<rect x="{x - width / 2:.0f}" y="{y - height / 2:.0f}" width="{width}" height="{height}" '
        f'rx="{rounded}" fill="{_FILL[place.kind]}" stroke="#333"/>{texts}</g>'
    )


def _labels(place: Place) -> list[str]:
    if place.kind != "daemon":
        return [place.name]
    return [place.name, " ".join(place.status.get("roles", ())) or "no role"]


def _of_line(line: Line) -> str:
    trip = line.state.get("round_trip_s")
    far = "" if trip is None else f", {1000 * float(trip):.1f} ms"
    return f"{line.name}: {line.kind}{far if line.up else ', down'}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


def layout(network: Network) -> dict[str, tuple[float, float]]:
    """Where everything stands: places push each other away, and lines pull. It is the same each time."""
    keys = sorted(network.places)
    count = max(len(keys), 1)
    at = {
        key: [math.cos(2 * math.pi * number / count), math.sin(2 * math.pi * number / count) * 0.97]
        for number, key in enumerate(keys)
    }
    wanted = 1.2 / math.sqrt(count)
    for step in range(STEPS):
        reach = 0.1 * (1 - step / STEPS)
        push = {key: [0.0, 0.0] for key in keys}
        for number, one in enumerate(keys):
            for other in keys[number + 1 :]:
                _force(push, at, one, other, -(wanted**2))
        for line in network.lines:
            _force(push, at, line.near, line.far, None, wanted)
        for key in keys:
            length = math.hypot(*push[key]) or 1.0
            for axis in (0, 1):
                at[key][axis] += push[key][axis] / length * min(length, reach)
    return _fitted(at)


def _force(
    push: dict[str, list[float]],
    at: dict[str, list[float]],
    one: str,
    other: str,
    repulsion: float | None,
    wanted: float = 1.0,
) -> None:
    dx, dy = at[other][0] - at[one][0], at[other][1] - at[one][1]
    distance = math.hypot(dx, dy) or 1e-3
    strength = repulsion / distance if repulsion is not None else distance**2 / wanted
    for axis, part in ((0, dx / distance), (1, dy / distance)):
        push[one][axis] += strength * part
        push[other][axis] -= strength * part


def _fitted(at: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    """Into the picture."""
    if not at:
        return {}
    spans = []
    for axis, size in ((0, WIDTH), (1, HEIGHT)):
        values = [place[axis] for place in at.values()]
        least, most = min(values), max(values)
        scale = (size - 2 * MARGIN) / (most - least) if most > least else 0.0
        spans.append((least, scale, MARGIN if scale else size / 2))
    return {
        key: (
            spans[0][2] + (place[0] - spans[0][0]) * spans[0][1],
            spans[1][2] + (place[1] - spans[1][0]) * spans[1][1],
        )
        for key, place in at.items()
    }
