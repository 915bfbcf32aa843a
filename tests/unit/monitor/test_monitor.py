"""What a connection tells of itself: status, metrics over HTTP, and answers to `shoal nodes`."""

import asyncio
import gc
import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.errors import ClosedError, ConfigError, LinkError
from shoal.monitor import link_series, metrics
from shoal.monitor.answers import TOPIC
from shoal.monitor.backlogs import LISTED_MAX

LINE = re.compile(r'shoal_[a-z_]+(\{([a-z]+="[^"\n]*",?)+\})? -?[0-9.e+-]+')


def families(text: str) -> dict[str, dict[str, float]]:
    """The samples of each family, checked as a scraper would."""
    found: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("#"):
            assert LINE.fullmatch(line), line
            name, _, labels = line.rpartition(" ")[0].partition("{")
            assert kinds[name] == ("counter" if name.endswith("_total") else "gauge")
            assert "{" + labels not in found.setdefault(name, {})
            found[name]["{" + labels] = float(line.rpartition(" ")[2])
    return found


def get(url: str, **headers: str) -> tuple[str, str]:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_metrics_of_a_connection_are_served_while_it_is_open() -> None:
    with shoal.connect("inproc://metrics", metrics="127.0.0.1:0") as bus:
        url = bus.metrics_url
        assert url is not None
        kind, text = get(f"{url}/metrics")
        assert kind == metrics.CONTENT_TYPE
        found = families(text)
        assert found["shoal_members"] == {"{": 0.0}
        assert found["shoal_resident_memory_bytes"]["{"] > 1e6
        assert found["shoal_retransmit_requests_total"] == {"{": 0.0}
        assert json.loads(get(f"{url}/status")[1])["kind"] == "program"
        assert get(f"{url}/health")[1] == "ok\n"
    with pytest.raises(urllib.error.URLError):
        get(f"{url}/metrics")


def test_the_same_as_a_text_without_a_server() -> None:
    with shoal.connect("inproc://metrics") as bus:
        assert bus.metrics_url is None
        assert "shoal_uptime_seconds" in families(bus.metrics())
    with pytest.raises(ClosedError):
        bus.metrics()


def test_asyncio_has_them_too() -> None:
    async def run() -> tuple[str | None, str]:
        async with shoal.aio.connect("inproc://metrics", metrics="127.0.0.1:0", answer=True) as bus:
            return bus.metrics_url, bus.metrics()

    url, text = asyncio.run(run())
    assert url is not None
    assert "shoal_members" in families(text)


@pytest.mark.parametrize(
    ("listen", "words"),
    [("0.0.0.0:0", "of this machine alone"), ("x", "ADDRESS:PORT"), ("127.0.0.1:99999", "ADDR")],
)
def test_an_address_that_cannot_be_meant_is_refused(listen: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        shoal.connect("inproc://metrics", metrics=listen)


def test_a_port_that_is_taken_is_named() -> None:
    with shoal.connect("inproc://metrics", metrics="127.0.0.1:0") as bus:
        assert bus.metrics_url is not None
        with pytest.raises(LinkError, match="cannot be listened at"):
            shoal.connect("inproc://metrics", metrics=bus.metrics_url.removeprefix("http://"))


def test_a_connection_that_was_dropped_serves_nothing() -> None:
    bus = shoal.connect("inproc://metrics", metrics="127.0.0.1:0")
    url = bus.metrics_url
    del bus
    gc.collect()
    with pytest.raises(urllib.error.URLError):
        get(f"{url}/metrics")


def test_open_metrics_if_that_is_asked_for() -> None:
    with shoal.connect("inproc://metrics", metrics="127.0.0.1:0") as bus:
        accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
        kind, text = get(f"{bus.metrics_url}/metrics", Accept=accept)
    assert kind == metrics.OPEN_CONTENT_TYPE
    assert text.endswith("\n# EOF\n")
    assert "# TYPE shoal_retransmit_requests counter\n" in text
    assert "\nshoal_retransmit_requests_total 0\n" in text


def status(**more: Any) -> dict[str, Any]:
    return {"name": "a", "domain": "d", "version": "1", "links": [], **more}


def test_of_ten_thousand_links_fifty_have_lines_and_the_rest_one() -> None:
    links = [
        {"name": f"tcp://{peer}", "role": "connect", "up": 1, "bytes_sent": 10, "round_trip_s": peer / 1e6}
        for peer in range(10_000)
    ]
    exposition = metrics.Exposition()
    found = families(exposition.text(status(links=links)))
    sent = found["shoal_link_sent_bytes_total"]
    assert len(sent) == link_series.SERIES_MAX + 1
    assert sent['{link="other"}'] == 10 * (10_000 - link_series.SERIES_MAX)
    assert found["shoal_link_round_trip_seconds"]['{link="other"}'] == 9_999 / 1e6
    assert '{link="other"}' not in found["shoal_link_up"]
    # Other links do not take the lines of those that had one.
    again = families(exposition.text(status(links=links[::-1])))
    assert again == found


def test_programs_that_come_and_go_at_a_listener_make_no_new_series_and_no_counter_goes_back() -> None:
    exposition, url = metrics.Exposition(), "tcp://0.0.0.0:7474"

    def link(peer: int, sent: int) -> dict[str, Any]:
        return {
            "name": url,
            "role": "accept",
            "up": 1,
            "peer": str(peer),
            "bytes_sent": sent,
            "unsent_bytes": 1,
        }

    listener = {"name": url, "role": "listen", "up": 1, "connections": 1, "refused": 0}
    accepted, totals = f'{{link="{url}",role="accept"}}', []
    for peer in range(1000):
        found = families(exposition.text(status(links=[listener, link(peer, 100), link(peer + 1, 40)])))
        totals.append(found["shoal_link_sent_bytes_total"].pop(accepted))
        assert found["shoal_link_sent_bytes_total"] == {}
        assert found["shoal_link_unsent_bytes"] == {accepted: 2.0}
    # Each program sent 40 bytes and then 60; the first was met when it had sent 100.
    assert totals == [140.0 + 100.0 * number for number in range(1000)]
    assert found["shoal_link_up"] == {f'{{link="{url}",role="listen"}}': 1.0}
    empty = families(exposition.text(status(links=[listener])))
    assert empty["shoal_link_sent_bytes_total"] == {accepted: totals[-1]}


def test_queues_beyond_those_that_are_listed_are_told_together(tmp_path: Path) -> None:
    with shoal.connect("inproc://metrics-store", store=tmp_path / "data") as bus:
        for number in range(LISTED_MAX + 10):
            bus.queue(f"q{number:02}").send(b"12345")
        bus.queue("q00").send(b"one more")
        found = families(bus.metrics())
        waiting = found["shoal_queue_messages"]
        assert (len(waiting), waiting['{queue="q00"}'], waiting['{queue="other"}']) == (51, 2.0, 10.0)
        assert sum(waiting.values()) == LISTED_MAX + 11
        assert found["shoal_queue_oldest_age_seconds"]['{queue="other"}'] > 0


def test_a_store_tells_how_much_waits_and_for_how_long(tmp_path: Path) -> None:
    with shoal.connect("inproc://metrics-store", store=tmp_path / "data", metrics="127.0.0.1:0") as bus:
        queue = bus.queue("orders")
        for number in range(3):
            queue.send({"id": number})
        time.sleep(0.2)
        found = families(get(f"{bus.metrics_url}/metrics")[1])
        assert found["shoal_queue_messages"] == {'{queue="orders"}': 3.0}
        assert 0.2 <= found["shoal_queue_oldest_age_seconds"]['{queue="orders"}'] < 60
        assert found["shoal_store_log_bytes"]["{"] > 0
        assert found["shoal_store_queues"] == {"{": 1.0}
        with queue.consume() as consumer:
            for _ in range(3):
                message = consumer.receive(30)
                assert message is not None
                message.ack()
        deadline = time.monotonic() + 30
        while (found := families(bus.metrics()))["shoal_queue_messages"]['{queue="orders"}']:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert found["shoal_queue_oldest_age_seconds"] == {'{queue="orders"}': 0.0}


def test_a_program_that_answers_says_what_it_is() -> None:
    with shoal.connect("inproc://nodes") as asks, shoal.connect("inproc://nodes", answer=True) as answers:
        told = asks.request(TOPIC, timeout_s=30).body
        assert (told["node"], told["kind"], told["domain"]) == (answers.node, "program", "nodes")
        assert told["statistics"]["messages_sent"] == 0


def test_a_program_that_does_not_answer_is_not_asked() -> None:
    with (
        shoal.connect("inproc://quiet") as asks,
        shoal.connect("inproc://quiet"),
        pytest.raises(shoal.NoReplyError),
    ):
        asks.request(TOPIC, timeout_s=0.5)
