"""A store that a group of three keeps, simulated with its disks and network: clients see no difference."""

import pytest

from shoal.testing.group_run import GroupRun


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_everything_that_was_stored_is_delivered_whoever_owns_the_group(start: int) -> None:
    cuts = elections = replaced = 0
    for seed in range(start, start + 10):
        try:
            run = GroupRun(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert run.history.deliveries
        assert run.history.acks
        cuts, elections = cuts + run.cuts, elections + len(run.served)
        replaced += run.replaced
    # An owner that was cut off from the others had appended what nobody else has.
    assert cuts > 0
    assert elections > 20
    # Lost disks were replaced while clients went on.
    assert replaced > 2


@pytest.mark.parametrize("seed", [2, 42, 95, 1042, 1109, 5051, 5245, 5263])
def test_seeds_that_failed_once(seed: int) -> None:
    GroupRun(seed)


def test_a_run_is_the_same_every_time() -> None:
    assert GroupRun(7).history == GroupRun(7).history
