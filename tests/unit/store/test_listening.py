"""What a store hears on the bus for its subscriptions."""

import itertools

import shoal
from shoal import _core
from shoal._core import split_rows
from shoal.store.listening import Listening

_names = itertools.count()
MESSAGES = 1000


def test_all_that_waits_is_heard_though_the_bell_rings_no_more() -> None:
    """A subscription gives about 256 KiB at once, and its bell rings again only when nothing was left."""
    url = f"inproc://listening-{next(_names)}"
    with shoal.connect(url) as store, shoal.connect(url) as sender:
        bell = _core.Bell()
        listening = Listening(store, bell)
        listening.follow({("prices/>", None)})
        for number in range(MESSAGES):
            sender.publish("prices/ACME", bytes(600), properties={"number": number})
        sender.flush()
        listening.rang(bell.take())
        heard = [rows for _ in range(MESSAGES) for rows in listening.take(1 << 16)]
        assert sum(len(split_rows(rows)) for rows in heard) == MESSAGES
        assert not listening.has_more
        sender.publish("prices/ACME", b"the next")
        sender.flush()
        listening.rang(bell.take())
        assert listening.has_more


def test_what_was_heard_before_a_subscription_ended_is_still_taken() -> None:
    url = f"inproc://listening-{next(_names)}"
    with shoal.connect(url) as store, shoal.connect(url) as sender:
        listening = Listening(store, _core.Bell())
        listening.follow({("prices/>", None)})
        for _ in range(MESSAGES):
            sender.publish("prices/ACME", bytes(600))
        sender.flush()
        listening.follow(set())
        heard = [rows for _ in range(MESSAGES) for rows in listening.take(1 << 16)]
        assert sum(len(split_rows(rows)) for rows in heard) == MESSAGES
        assert not listening.has_more
