"""Every named situation of whole nodes, with a few seeds. A failure prints its seed and how to repeat it."""

import pytest

import shoal.testing.domain_chaos
import shoal.testing.domain_graphs
import shoal.testing.domain_routers
import shoal.testing.domain_scenarios  # noqa: F401  they register their scenarios
from shoal.testing.domain_scenarios import DomainScenario
from shoal.testing.scenarios import SCENARIOS

#: Beside the first ones, those that failed once: members that returned were not told what they missed (19 to
#: 117), or had never heard their welcome (1855). Routers lost what nobody had asked them for yet (67, 896),
#: told of one loss for ever (573), and answered for what they had put aside (692). Flushes were over a
#: moment before what was said again on another way had come (6, 11, 12). What was not sent to somebody who
#: was taken for gone was not told, because the chain came from elsewhere by then (joined by anything, 12), or
#: because a router skipped it before its welcome came (joined by anything, 1046; any graph, 1031). A router
#: answered in place of one that was dead, or stood still (short publishers). Routers skipped, or called lost,
#: what others brought on a network that they had served (joined by anything, 6096 and 7125; shared LANs,
#: 8169), a socket that took no more left no time to anybody (7107), a new link between routers lost what
#: lay on the old one (joined by TCP, 7033), and flushes were over before what was said again, or put aside,
#: had come (4039, 7281), or while routers did not agree who is on their network (7289, 8358).
SEEDS = {
    "fifty_routers": (),
    "fifty_routers_joined_by_tcp": (0,),
    "routers_joined_by_tcp": (*range(4), 6, 11, 12, 7033),
    "routers_joined_by_anything": (*range(4), 12, 1046, 4039, 6096, 7107, 7125, 7281, 7289, 8358, 910082),
    "routers_on_shared_lans": (*range(4), 8169),
    "routers_in_any_graph": (*range(6), 67, 573, 692, 896, 1031),
    "short_publishers_beside_a_router_that_returns": (9, 27, 30, 44, 75),
    "domain_chaos": (*range(20), 65, 109, 117, 1666, 1855, 2357, 2481, 2554, 8331, 8593, 13855, 14288),
}

CASES = [
    pytest.param(name, seed, id=f"{name}-{seed}")
    for name, made in SCENARIOS.items()
    if isinstance(made, DomainScenario)
    for seed in SEEDS.get(name, range(4))
]


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_scenario(name, seed):
    print(f"repeat with: {SCENARIOS[name].repeat_command(seed)}")
    SCENARIOS[name](seed)


def test_a_failing_seed_fails_again_in_the_same_way_byte_for_byte(monkeypatch):
    """Losses are not told: the run of a paused host fails, and the same each time."""
    monkeypatch.setattr("shoal.testing.domain_history.Life.losses", [])
    scenario = SCENARIOS["a_paused_host"]
    runs = [scenario.prepare(3, trace=True) for _ in range(2)]
    failures = []
    for run in runs:
        with pytest.raises(AssertionError, match="accounted") as raised:
            scenario.play(run)
        failures.append(str(raised.value))
    assert failures[0] == failures[1]
    assert "--scenario a_paused_host --seed 3" in failures[0]
    assert runs[0].trace == runs[1].trace
    assert runs[0].digest == runs[1].digest
