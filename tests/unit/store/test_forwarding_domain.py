"""Two stores in one domain: one keeps a destination, the other takes it while that one is away."""

import secrets
import time
from pathlib import Path

import shoal
from shoal.bus.store_finder import Finder
from shoal.config import ConnectionConfig
from shoal.store import Store, resolve

PATIENCE_S = 30.0


def here(store: str, patterns: list[str], forwards: list[str]) -> dict[str, object]:
    texts = {"run": "r", "name": store, "domain": "d", "state": "open", "store": store}
    return texts | {"urls": [], "term": 1, "patterns": patterns, "forwards": forwards}


def test_a_store_that_keeps_a_destination_is_chosen_before_one_that_forwards_it() -> None:
    finder = Finder()
    finder.on_here(0.0, here("a", ["own/>"], ["orders/>"]))
    finder.on_here(0.0, here("b", ["orders/>"], []))
    chosen = finder.choose(0.0, "a", destination="orders/1")
    assert chosen is not None
    assert chosen.store == "b"
    # The one that keeps it is not heard any more.
    finder.on_here(6.0, here("a", ["own/>"], ["orders/>"]))
    chosen = finder.choose(6.0, "b", destination="orders/1")
    assert chosen is not None
    assert chosen.store == "a"
    assert finder.choose(6.0, "a", destination="other") is None


def test_a_publisher_goes_on_with_the_store_that_forwards_while_the_other_one_is_away(
    tmp_path: Path,
) -> None:
    domain = secrets.token_hex(6)
    connection = ConnectionConfig(scheme="inproc", domain=domain)

    def hq(listen: str) -> Store:
        config = resolve(
            tmp_path / "hq", name="hq", patterns="orders/>", listen=listen, segment_bytes=1 << 20
        )
        store = Store(config, connection)
        assert store.wait_open(PATIENCE_S)
        return store

    kept = hq("127.0.0.1:0")
    forward = [{"name": "hq", "patterns": ["orders/>"], "to": kept.urls[0], "publish": False}]
    config = resolve(
        tmp_path / "branch", name="branch", patterns="own/>", segment_bytes=1 << 20, forward=forward
    )
    with Store(config, connection) as branch, shoal.connect(f"inproc://{domain}") as bus:
        assert branch.wait_open(PATIENCE_S)
        try:
            bus.publish("orders/1", "a", persistent=True)
            assert (kept.log.durable_end, branch.log.durable_end) == (1, 0)
            kept.close()
            bus.publish("orders/1", "b", persistent=True)
            assert branch.log.durable_end == 1
            kept = hq(kept.urls[0].removeprefix("tcp://"))
            deadline = time.monotonic() + PATIENCE_S
            while branch.status()["forwards"][0]["messages"]:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            bus.publish("orders/1", "c", persistent=True)
            found = kept.log.rows(0, kept.log.durable_end) + branch.log.rows(1, branch.log.durable_end)
            assert {row[4] for row in found} == {1, 2, 3}
        finally:
            kept.close()
