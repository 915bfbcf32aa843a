"""Orders to hosts: only fresh ones of its operators are obeyed, and each once."""

from pathlib import Path
from typing import Any

import pytest

from shoal.config.orders import (
    NONCES_MAX,
    WINDOW_S,
    HostKey,
    OrderRefusedError,
    Orders,
    answer,
    order,
    told_by,
)
from shoal.errors import ConfigError

KEY = HostKey.new("rack-3")


def test_an_order_of_the_key_is_obeyed_once() -> None:
    orders, given = Orders(KEY), order(KEY, "start", "edge", "ada", 1000.0)
    found = orders.check(1000.0, given)
    assert (found.order, found.daemon, found.who) == ("start", "edge", "ada")
    with pytest.raises(OrderRefusedError, match="given before"):
        orders.check(1001.0, given)


@pytest.mark.parametrize(
    "change",
    [
        {"daemon": "other"},
        {"order": "stop"},
        {"who": "eve"},
        {"at": 1001.0},
        {"nonce": "0" * 32},
        {"code": b"x" * 32},
        {"code": "text"},
        {"host": "rack-4"},
    ],
)
def test_an_order_that_was_changed_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(OrderRefusedError, match="another key"):
        Orders(KEY).check(1000.0, order(KEY, "start", "edge", "ada", 1000.0) | change)


def test_an_order_with_another_key_or_for_another_host_is_refused() -> None:
    with pytest.raises(OrderRefusedError, match="another key"):
        Orders(KEY).check(1000.0, order(HostKey.new("rack-3"), "start", "edge", "ada", 1000.0))
    same_secret = HostKey("rack-4", KEY.secret)
    with pytest.raises(OrderRefusedError, match="rack-4"):
        Orders(KEY).check(1000.0, order(same_secret, "start", "edge", "ada", 1000.0))


@pytest.mark.parametrize("late_s", [-WINDOW_S - 1, WINDOW_S + 1, float("inf")])
def test_an_order_of_another_time_is_refused(late_s: float) -> None:
    with pytest.raises(OrderRefusedError, match="clock"):
        Orders(KEY).check(1000.0 + late_s, order(KEY, "start", "edge", "ada", 1000.0))


def test_a_nonce_is_remembered_for_as_long_as_its_order_could_be_obeyed() -> None:
    orders = Orders(KEY)
    # The console's clock is ahead: the order stays fresh for two windows.
    given = order(KEY, "start", "edge", "ada", 1000.0 + WINDOW_S)
    orders.check(1000.0, given)
    with pytest.raises(OrderRefusedError, match="given before"):
        orders.check(1000.0 + 2 * WINDOW_S, given)
    with pytest.raises(OrderRefusedError, match="clock"):
        orders.check(1000.1 + 2 * WINDOW_S, given)


def test_strangers_fill_no_memory_and_operators_only_so_much() -> None:
    orders, stranger = Orders(KEY), HostKey.new("rack-3")
    for _ in range(100):
        with pytest.raises(OrderRefusedError):
            orders.check(1000.0, order(stranger, "list", "", "eve", 1000.0))
    assert len(orders._seen) == 0
    for number in range(NONCES_MAX):
        orders.check(1000.0, order(KEY, "list", "", "ada", 1000.0, f"{number:032x}"))
    with pytest.raises(OrderRefusedError, match="too many"):
        orders.check(1000.0, order(KEY, "list", "", "ada", 1000.0))
    orders.check(1000.1 + 2 * WINDOW_S, order(KEY, "list", "", "ada", 1000.0 + 2 * WINDOW_S))


@pytest.mark.parametrize("body", [None, 5, {}, {"host": "rack-3"}, [1], "start"])
def test_what_is_no_order_is_refused(body: object) -> None:
    with pytest.raises(OrderRefusedError, match="no order"):
        Orders(KEY).check(1000.0, body)


def test_an_answer_is_about_one_order_and_of_the_host() -> None:
    given = answer(KEY, "n1", {"ok": True})
    assert told_by(KEY, "n1", given) == {"ok": True}
    assert told_by(KEY, "n2", given) is None
    assert told_by(HostKey.new("rack-3"), "n1", given) is None
    for body in (None, {}, {"told": "{}"}, {"told": 5, "code": b""}):
        assert told_by(KEY, "n1", body) is None


def test_a_key_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "host.key"
    KEY.write(path)
    assert HostKey.read(path) == KEY
    assert "secret" not in repr(KEY)
    with pytest.raises(ConfigError, match="not overwritten"):
        KEY.write(path)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        HostKey.read(path)
    path.chmod(0o600)
    path.write_text("shoal-host-1:rack-3:short\n")
    with pytest.raises(ConfigError, match="host init"):
        HostKey.read(path)
    with pytest.raises(ConfigError, match="letters"):
        HostKey.new("a b")
