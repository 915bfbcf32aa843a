"""A few kills of publishers, store, subscriber and workers; `make kill-tests` has hundreds."""

import kill_queues
import pytest


# Longer than everything that `kill_queues` waits for: what is missing is told there.
@pytest.mark.timeout(5 * kill_queues.PATIENCE_S)
def test_nothing_promised_is_lost_whoever_is_killed() -> None:
    messages, _ = kill_queues.run(4, 0.5)
    assert messages > 0
