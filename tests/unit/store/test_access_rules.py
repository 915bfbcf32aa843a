"""Access rules at a store: every request that a client can make, allowed and denied, at both doors."""

import logging
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from secured_site import Site

import shoal
import shoal.history
from shoal.errors import ConfigError, HistoryError, StoreDeniedError
from shoal.store.config import resolve

RULES = """
[[rule]]
name = "ann uses a"
principals = ["ann"]
actions = ["all"]
topics = ["a/>", "_queue/a"]

[[rule]]
name = "bob looks"
principals = ["bob"]
actions = ["subscribe", "browse"]
topics = ["a/>", "_queue/a"]

[[rule]]
name = "no secrets"
principals = ["*"]
actions = ["all"]
topics = ["a/secret/>"]
effect = "deny"

[[quota]]
name = "few"
principals = ["bob"]
connections = 1
backlog_bytes = 1000
"""

Act = Callable[[shoal.Bus], object]
ACTS: dict[str, Act] = {
    "publish": lambda bus: bus.publish("a/1", "x", persistent=True),
    "commit": lambda bus: _commit(bus),
    "send": lambda bus: bus.queue("a").send("x"),
    "consume": lambda bus: bus.queue("a").receive(timeout_s=0.1),
    "browse": lambda bus: list(bus.queue("a").browse()),
    "declare": lambda bus: bus.queue("a").declare(deliveries_max=3),
    "purge": lambda bus: bus.queue("a").purge(),
    "subscribe": lambda bus: bus.subscribe("a/*", durable="d").close(),
}
MAY = {
    "ann": set(ACTS),
    "bob": {"browse", "subscribe"},
    "chief": set(ACTS),
}


def _commit(bus: shoal.Bus) -> None:
    with bus.transaction() as tx:
        tx.publish("a/1", "x")
        tx.send("a", "y")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "rules.toml").write_text(RULES)
    made = Site(
        tmp_path, f"rules-{secrets.token_hex(4)}", access=tmp_path / "rules.toml", flight="127.0.0.1:0"
    )
    yield made
    made.store.close()


def connect(site: Site, who: str) -> shoal.Bus:
    return site.connect(token_file=site.token(who), client_id=who)


@pytest.mark.parametrize("who", list(MAY))
def test_each_principal_does_what_the_rules_allow_and_nothing_else(site: Site, who: str) -> None:
    with connect(site, "chief") as bus:
        bus.queue("a").send("first")
    with connect(site, who) as bus:
        for name, act in ACTS.items():
            if name in MAY[who]:
                act(bus)
            else:
                with pytest.raises(StoreDeniedError, match=f"'{who}' may not"):
                    act(bus)


def test_a_denied_publish_reaches_no_live_subscriber_and_names_the_rule(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with connect(site, "ann") as bus:
        heard = bus.subscribe("a/>")
        with pytest.raises(StoreDeniedError, match=r"the rule 'no secrets' of .*rules\.toml denies it"):
            bus.publish("a/secret/plan", "x", persistent=True)
        bus.publish("a/open", "y", persistent=True)
        found = heard.receive(timeout_s=5)
        assert found is not None
        assert found.topic == "a/open"
    assert "SHOAL-3045" in caplog.text
    assert site.store.status()["denied"] >= 1


def test_a_pattern_that_covers_a_denied_topic_cannot_be_subscribed_to(site: Site) -> None:
    with connect(site, "ann") as bus:
        with pytest.raises(StoreDeniedError, match="no secrets"):
            bus.subscribe("a/>", durable="all")
        bus.subscribe("a/*", durable="all").close()


def test_temporary_queues_need_no_rule(site: Site) -> None:
    with connect(site, "ann") as bus:
        answers = bus.temporary_queue()
        answers.send("x")
        found = answers.receive(timeout_s=5)
        assert found is not None
        assert found.body == "x"


def test_a_principal_has_as_many_connections_as_its_quota_allows(site: Site) -> None:
    with connect(site, "bob") as one:
        one.subscribe("a/*", durable="d").close()
        with (
            site.connect(token_file=site.token("bob"), client_id="bob-2") as two,
            pytest.raises(StoreDeniedError, match="quota 'few' allows 1"),
        ):
            two.subscribe("a/*", durable="e")


def test_the_backlog_of_a_durable_subscription_is_bounded_by_the_quota(site: Site) -> None:
    with connect(site, "bob") as bus:
        bus.subscribe("a/*", durable="d", backlog_max_bytes=1 << 30).close()
    with connect(site, "ann") as bus:
        bus.publish("a/1", "x" * 100, persistent=True)
        with pytest.raises(shoal.StoreFullError):
            bus.publish("a/1", "x" * 2000, persistent=True)


def test_history_is_read_and_written_by_the_same_rules(site: Site) -> None:
    endpoint = site.store.status()["flight"]
    with connect(site, "ann") as bus:
        bus.publish("a/1", "x", persistent=True)
        bus.queue("a").send("y")

    def history(who: str) -> shoal.history.History:
        return shoal.history.connect(endpoint, token=site.token(who).read_text())

    rows = pa.table({"topic": ["a/1"]})
    with history("bob") as bob:
        assert bob.read(topics=["a/*"]).num_rows == 1
        assert bob.read(topics=["_queue/a"]).num_rows == 1
        for call in (
            bob.read,
            lambda: bob.read(topics=["a/>"]),
            lambda: bob.read(topics=["_queue/b"]),
            lambda: bob.latest(topics=["b"]),
            lambda: bob.stage("s", rows),
        ):
            with pytest.raises(HistoryError, match="'bob' may not"):
                call()
    with history("ann") as ann:
        ann.stage("s", rows)
        with pytest.raises(HistoryError, match="'ann' may not publish b"):
            ann.stage("t", pa.table({"topic": ["b"]}))
    with history("chief") as chief:
        assert chief.read().num_rows == 2


def test_rules_without_tokens_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    with pytest.raises(ConfigError, match="given beside tokens"):
        resolve(tmp_path / "data", access=tmp_path / "rules.toml")
