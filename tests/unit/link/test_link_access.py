"""Access rules at listeners: every kind of link, every action, allowed and denied."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tls_options import shown, trusting
from typer.testing import CliRunner

import shoal
from shoal import _core
from shoal.cli.app import app
from shoal.config.access import Access
from shoal.errors import ConfigError, LinkError

SCHEMES = ["tcp", "tls", "ws", "wss"]
PATIENCE_S = 20.0
RULES = """
[[rule]]
name = "open to all"
principals = ["*"]
actions = ["all"]
topics = ["open/>", "_queue/open"]

[[rule]]
name = "no drafts"
principals = ["*"]
actions = ["publish", "subscribe"]
topics = ["open/draft/>"]
effect = "deny"

[[rule]]
name = "the leaf has more"
principals = ["leaf"]
actions = ["publish", "subscribe", "route"]
topics = ["leaf/>"]
"""


def until(true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def denials(bus: shoal.Bus, ours: bool) -> list[str]:
    """What was denied until now, by rules of this end or of the other."""
    found = [event for event in bus.events(timeout_s=0) if isinstance(event, shoal.LinkDenied)]
    assert all(event.ours == ours for event in found)
    return [event.why for event in found]


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def hub(scheme: str, certs: Path, tmp_path: Path) -> Iterator[shoal.Bus]:
    (tmp_path / "rules.toml").write_text(RULES)
    secure = {**shown(certs, "localhost"), **trusting(certs)} if scheme in ("tls", "wss") else {}
    url = f"{scheme}://127.0.0.1:0"
    with shoal.listen(url, router=True, access=str(tmp_path / "rules.toml"), **secure) as made:
        yield made


@pytest.fixture
def connect(hub: shoal.Bus, scheme: str, certs: Path) -> Callable[..., shoal.Bus]:
    def made(name: str = "leaf", **options: Any) -> shoal.Bus:
        secure = {**shown(certs, name), **trusting(certs)} if scheme in ("tls", "wss") else {}
        return shoal.connect(hub.links[-1].url, required=True, **secure, **options)

    return made


@pytest.fixture
def principal(scheme: str) -> str:
    return "leaf" if scheme in ("tls", "wss") else "anonymous"


def test_messages_and_subscriptions_pass_only_where_a_rule_allows_them(
    hub: shoal.Bus, connect: Callable[..., shoal.Bus], principal: str, caplog: pytest.LogCaptureFixture
) -> None:
    topics = ["open/a", "open/draft/a", "leaf/a", "other/a"]
    allowed = {"open/a", "leaf/a"} if principal == "leaf" else {"open/a"}
    with connect() as leaf:
        here = hub.subscribe(">")
        there = {topic: leaf.subscribe(topic) for topic in (*topics, "open/end")}
        leaf.wait_for_subscribers("open/end", 2)
        hub.wait_for_subscribers("open/end", 2)
        for turn in range(3):
            for topic in topics:
                leaf.publish(topic, f"leaf {turn}")
                hub.publish(topic, f"hub {turn}")
        for bus in (leaf, hub):
            bus.publish("open/end", "end")
        # Each hears itself, too.
        got: list[tuple[str, str]] = []
        ends = 0
        while ends < 2 and (message := here.receive(PATIENCE_S)) is not None:
            ends += message.body == "end"
            got.append((message.topic, message.body))
        wanted = [(topic, f"leaf {turn}") for turn in range(3) for topic in topics if topic in allowed]
        assert [each for each in got if each[1].startswith("leaf")] == wanted
        for _ in range(2):
            assert there["open/end"].receive(PATIENCE_S) is not None
        for topic in topics:
            bodies = [message.body for message in iter(lambda s=there[topic]: s.receive(0), None)]
            theirs = [body for body in bodies if body.startswith("hub")]
            assert theirs == ([f"hub {turn}" for turn in range(3)] if topic in allowed else []), topic
        words = {
            f"{principal!r} may not {action} {topic}: "
            + (
                "the rule 'no drafts' of {} denies it"
                if topic == "open/draft/a"
                else "no rule of {} allows it"
            ).format(hub.config.access)
            for topic in set(topics) - allowed
            for action in ("publish", "subscribe")
        }
        told: set[str] = set()
        until(lambda: told.update(denials(leaf, ours=False)) or words <= told)
        assert told == words
        assert set(denials(hub, ours=True)) == words
        (link,) = [each for each in hub.links if each.role == "accept"]
        assert link.denied == len(words) // 2 * 3 + len(words) // 2
        assert not [event for event in hub.events(timeout_s=0) if isinstance(event, shoal.MessagesLost)]
    assert "SHOAL-2025" in caplog.text
    assert "SHOAL-2026" in caplog.text


def test_questions_are_answered_and_no_program_hears_the_answers_of_others(
    hub: shoal.Bus, connect: Callable[..., shoal.Bus]
) -> None:
    with connect() as asker, connect("elsewhere") as spy:
        spied = spy.subscribe("_reply/>")
        hub.subscribe("open/sum", callback=lambda message: hub.reply(message, sum(message.body)))
        asker.subscribe("open/mine", callback=lambda message: asker.reply(message, message.body * 2))
        hub.wait_for_subscribers("open/mine")
        told: list[str] = []
        until(lambda: told.extend(denials(spy, ours=False)) or told)
        assert "may not route _reply/>" in told[0]
        assert asker.request("open/sum", [1, 2], timeout_s=PATIENCE_S).body == 3
        assert hub.request("open/mine", 4, timeout_s=PATIENCE_S).body == 8
        assert spied.receive(0.2) is None


def test_a_changed_file_counts_for_links_that_are_up_and_a_wrong_one_does_not(
    hub: shoal.Bus, connect: Callable[..., shoal.Bus], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = tmp_path / "rules.toml"
    with connect() as leaf:
        there, here = leaf.subscribe("new/a"), hub.subscribe("new/a")
        until(lambda: denials(leaf, ours=False))
        rules.write_text(RULES.replace("open/>", "new/>"))
        assert hub.wait_for_subscribers("new/a", timeout_s=PATIENCE_S, count=2)
        hub.publish("new/a", 1)
        assert there.receive(PATIENCE_S).body == 1  # type: ignore[union-attr]
        assert here.receive(PATIENCE_S).body == 1  # type: ignore[union-attr]
        rules.write_text("nonsense")
        until(lambda: "SHOAL-2027" in caplog.text)
        leaf.publish("new/a", 2)
        assert here.receive(PATIENCE_S).body == 2  # type: ignore[union-attr]
        rules.write_text("")
        until(lambda: leaf.publish("new/a", 3) or denials(leaf, ours=False))


def test_a_program_forwards_only_what_it_may_route(
    hub: shoal.Bus, connect: Callable[..., shoal.Bus], principal: str
) -> None:
    with connect(router=True) as between, shoal.listen("tcp://127.0.0.1:0", router=True) as behind:
        between.connect(behind.links[-1].url)
        here, there = hub.subscribe(">"), behind.subscribe("leaf/b")
        until(lambda: behind.members)
        got: set[str] = set()

        def hears(bus: shoal.Bus, topics: tuple[str, ...], subscription: Any) -> bool:
            for topic in topics:
                bus.publish(topic, 1)
            while (message := subscription.receive(0.05)) is not None:
                got.add(message.topic)
            return "leaf/a" in got

        # What the program in between publishes itself shows that the link is up.
        until(lambda: hears(between, ("open/ready",), here) or "open/ready" in got)
        if principal == "leaf":
            until(lambda: hears(behind, ("open/a", "leaf/a"), here))
            until(lambda: hub.publish("leaf/b", 3) or there.receive(0.1))
            assert len(hub.network) == 3
        else:
            for _ in range(10):
                assert not hears(behind, ("open/a", "leaf/a"), here)
            assert not hub.wait_for_subscribers("leaf/b", 2, timeout_s=0.3)
            assert len(hub.network) <= 1
        assert "open/a" not in got, "it may not route that"


def test_a_quota_bounds_connections_and_bytes_in_a_second(
    hub: shoal.Bus, connect: Callable[..., shoal.Bus], tmp_path: Path
) -> None:
    quota = '[[quota]]\nname = "few"\nprincipals = ["*"]\nconnections = 1\nbytes_per_s = 200_000\n'
    (tmp_path / "rules.toml").write_text(RULES + quota)
    time.sleep(1.5)
    here = hub.subscribe("open/a")
    with connect(window_bytes=65_536, when_full="block") as leaf:
        with pytest.raises(LinkError, match="as many as the quota 'few'"):
            connect(connect_timeout_s=2.0)
        leaf.wait_for_subscribers("open/a")
        began = time.monotonic()
        for _ in range(100):
            leaf.publish("open/a", bytes(10_000))
        for _ in range(100):
            assert here.receive(PATIENCE_S) is not None
        # A megabyte, of which a second's worth and the windows come at once.
        assert 1.5 <= time.monotonic() - began <= 15


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "cannot be read"),
        ('[[rule]]\nprincipals = ["a"]\nactions = ["fly"]\ntopics = [">"]', "actions"),
    ],
)
def test_rules_that_cannot_be_read_are_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(ConfigError, match=words):
        shoal.listen("tcp://127.0.0.1:0", access=str(tmp_path / "rules.toml"))


def test_a_command_that_publishes_fails_where_that_is_denied(scheme: str, hub: shoal.Bus) -> None:
    if scheme != "tcp":
        pytest.skip("the command is the same over every link")
    url, heard = hub.links[-1].url, hub.subscribe(">")
    assert CliRunner().invoke(app, ["pub", "open/a", "x", "--url", url]).exit_code == 0
    denied = CliRunner().invoke(app, ["pub", "other/a", "x", "--url", url])
    assert denied.exit_code == 1
    assert "'anonymous' may not publish other/a: no rule of" in denied.output
    assert [message.topic for message in iter(lambda: heard.receive(0.2), None)] == ["open/a"]


def test_links_decide_as_shoal_access_explain_does(hub: shoal.Bus, tmp_path: Path) -> None:
    access = Access.read(tmp_path / "rules.toml")
    assert not access.decide("leaf", "subscribe", "open/>").is_allowed
    assert access.decide("leaf", "subscribe", "open/*").is_allowed
    assert not access.decide("leaf", "route", "open/a").is_allowed, "all is what programs do"
    assert isinstance(_core.Rights("leaf", "x", [("r", True, ["browse"], ["a"])], None), _core.Rights)
