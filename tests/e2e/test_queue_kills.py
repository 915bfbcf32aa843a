"""A few kills of publishers, store, subscriber and workers; `make kill-tests` has hundreds."""

import kill_queues


def test_nothing_promised_is_lost_whoever_is_killed() -> None:
    messages, _ = kill_queues.run(4, 0.5)
    assert messages > 0
