"""Two stores, one of which forwards to the other, on simulated disks and links: each message arrives once."""

import pytest

from shoal.testing.forward_run import ForwardRun


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_each_message_that_was_stored_is_forwarded_once_whatever_breaks(start: int) -> None:
    for seed in range(start, start + 40):
        try:
            run = ForwardRun(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert run.branch.starts > 1
        assert run.stored


def test_a_run_is_the_same_every_time() -> None:
    assert ForwardRun(3).at_hq() == ForwardRun(3).at_hq()


@pytest.mark.parametrize("seed", [15, 51])
def test_seeds_that_failed_once(seed: int) -> None:
    ForwardRun(seed)
