"""A store that is killed; `make kill-tests` does it a few hundred times."""

import kill_store


def test_what_a_killed_store_had_promised_is_there() -> None:
    floor, end = kill_store.run(5)
    assert end > floor
