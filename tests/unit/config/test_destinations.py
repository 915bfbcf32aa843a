"""Options of destinations: which rule counts, what is refused, and that messages have them."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shoal
import shoal.jms
from shoal.config import ConnectionConfig
from shoal.config.destinations import Destinations
from shoal.errors import ConfigError

RULES: dict[str, Any] = {
    ">": {"priority": 1},
    "fx/>": {"priority": 7, "ttl_s": 5, "queue_full": "drop_old"},
    "fx/*/spot": {"priority": 8},
    "fx/EUR/spot": {"priority": 9, "queue_bytes_max": 1000},
    "fx/EUR/*": {"priority": 6},
}


@pytest.mark.parametrize(
    ("topic", "pattern"),
    [
        ("fx/EUR/spot", "fx/EUR/spot"),
        ("fx/EUR/forward", "fx/EUR/*"),
        ("fx/USD/spot", "fx/*/spot"),
        ("fx/USD", "fx/>"),
        ("bonds", ">"),
        # Patterns, of subscriptions.
        ("fx/>", "fx/>"),
        ("fx/*/spot", "fx/*/spot"),
        ("fx/EUR/*", "fx/EUR/*"),
        ("*/EUR", ">"),
        (">", ">"),
    ],
)
def test_the_most_specific_pattern_counts(topic: str, pattern: str) -> None:
    assert Destinations.of(RULES).matching(topic)[0][0] == pattern


def test_reserved_topics_have_no_options_unless_they_are_named() -> None:
    assert Destinations.of(RULES).matching("_reply/1") == []
    assert Destinations.of({"_own/>": {}}).matching("_own/1")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fx/>": {"prioriti": 7}}, "destination 'fx/>': unknown option 'prioriti': did you mean 'priority'"),
        ({"fx/>": {"send_delay_s": 1}}, "has send_delay_s, which a connection has for all"),
        ({"fx/>": {"multicast_ttl": 3}}, "has multicast_ttl, which a connection has for all"),
        ({"fx/>": {"priority": 10}}, "destination 'fx/>': priority is 10, and must be from 0 to 9"),
        ({"fx/>": {"ttl_s": 0}}, "ttl_s is 0"),
        ({"fx/>": {"persistent": "yes"}}, "persistent is 'yes'"),
        ({"fx/>": {"queue_full": "drop"}}, "queue_full is 'drop'"),
        ({"fx/>": {"queue_bytes_max": 0}}, "queue_bytes_max is 0"),
        ({"fx//x": {}}, "destination 'fx//x'"),
        ({"fx": 7}, "must be a table"),
        (7, "must be a mapping"),
        ("/no/such/file", "cannot be read"),
    ],
)
def test_what_cannot_work_is_refused_by_name(given: Any, words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        shoal.connect("inproc://destinations", destinations=given)
    assert words in str(refusal.value)


def test_messages_have_the_options_of_their_destination_unless_they_are_given() -> None:
    with shoal.connect("inproc://destinations", destinations=RULES) as bus, bus.subscribe(">") as got:
        for topic, options in (
            ("fx/USD", {}),
            ("bonds", {}),
            ("fx/USD", {"priority": 4, "ttl_s": None}),
        ):
            bus.publish(topic, 1, **options)
        found = [got.receive(30) for _ in range(3)]
        told = [(each.topic, each.priority, each.ttl_s is not None) for each in found if each]
    # By priority class, as the bus delivers them.
    assert sorted(told) == [("bonds", 1, False), ("fx/USD", 4, False), ("fx/USD", 7, True)]


def test_subscriptions_have_the_queue_of_their_destination() -> None:
    rules = {"fx/>": {"queue_full": "drop_old", "queue_bytes_max": 2000}}
    with shoal.connect("inproc://destined", destinations=rules, when_full="error") as bus:
        with bus.subscribe("fx/>") as got:
            for number in range(200):
                bus.publish("fx/USD", number)
            assert got.dropped > 0, "it drops, and does not block"
        with bus.subscribe("fx/USD", queue_full="drop_new") as got:
            for number in range(200):
                bus.publish("fx/USD", number)
            first = got.receive(30)
            assert first is not None
            assert first.body == 0, "what is given counts"


def test_a_persistent_destination_needs_a_store(tmp_path: Path) -> None:
    rules = {"orders/>": {"persistent": True}}
    with shoal.connect("inproc://kept", store=tmp_path / "data", destinations=rules) as bus:
        receipt = bus.publish("orders/7", 1)
        assert isinstance(receipt, shoal.Receipt)
        assert isinstance(bus.publish("orders/8", 1, persistent=False), int)


def test_asyncio_has_them_too() -> None:
    async def run() -> int:
        async with shoal.aio.connect("inproc://destinations-aio", destinations=RULES) as bus:
            got = bus.subscribe("fx/>")
            await bus.publish("fx/USD", 1)
            message = await got.receive(30)
            assert message is not None
            return int(message.priority)

    assert asyncio.run(run()) == 7


def test_jms_refuses_them() -> None:
    with pytest.raises(ConfigError, match=r"destinations is for shoal\.connect"):
        shoal.jms.ConnectionFactory("inproc://x", destinations=RULES)


def test_a_file_and_the_command_that_explains_it(tmp_path: Path) -> None:
    path = tmp_path / "destinations.toml"
    path.write_text('[destination."fx/>"]\npriority = 7\n[destination.">"]\nttl_s = 5\n')
    with shoal.connect("inproc://destinations", destinations=path) as bus, bus.subscribe("fx/*") as got:
        bus.publish("fx/USD", 1)
        message = got.receive(30)
        assert message is not None
        assert message.priority == 7
    command = [sys.executable, "-m", "shoal.cli", "destination", "explain", "fx/USD", "--file", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [
        "fx/USD: fx/>",
        "  priority = 7",
        "  > matches as well, and is less specific",
    ]
    path.write_text("[connection]\n")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "has connection" in done.stderr) == (2, True)


def test_a_destination_has_a_group_of_the_connection() -> None:
    rules = Destinations.of(
        {"fx/>": {"group": 3, "priority": 7}, "orders": {"group": 0}, "*": {"priority": 2}}
    )
    placed = rules.placed(ConnectionConfig(groups=8, assigned_groups="a=1"))
    assert placed.group_levels() == [("a", 1), ("orders", 0), ("fx", 3)]
    assert Destinations.of({"fx/>": {"priority": 7}}).placed(ConnectionConfig()) == ConnectionConfig()
    assert "group" not in rules.publishing("fx/USD")
    with pytest.raises(ConfigError, match="give it groups"):
        rules.placed(ConnectionConfig())
    with pytest.raises(ConfigError, match="groups below 2"):
        rules.placed(ConnectionConfig(groups=2))
    for pattern in ("fx/USD", "*/USD", ">", "fx/*"):
        with pytest.raises(ConfigError, match="which all topics of a first level have"):
            Destinations.of({pattern: {"group": 1}})
