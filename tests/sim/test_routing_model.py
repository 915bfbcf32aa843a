"""The routing model holds its invariants with all rules, and each rule is there for a reason.

`make routing-model SEEDS=3000` searches on.
"""

import pytest
from routing_model import search
from routing_model.network import Network, Violation
from routing_model.program import Program
from routing_model.records import Applied, LinkState
from routing_model.rules import NAMES, Rules
from routing_model.run import Run, play
from routing_model.tree import Tree

#: For each rule a seed that breaks an invariant without it, the faults of the run, and the invariant.
NEEDED = {
    "C1": (22, None, "accounted"),
    "C2": (53, 10, "accounted"),
    "C3": (31, None, "flush"),
    "C5": (28, 6, "needless"),
    "C6": (62, None, "accounted"),
    "C7": (39, None, "flush"),
    "C8": (132, 5, "flush"),
    "C9": (72, None, "flush"),
    "C10": (37, 8, "ends"),
    "C11": (58, None, "ends"),
    "C12": (138, 5, "flush"),
    "C13": (5042, 5, "ends"),
}
#: Rules for which no such seed is known here.
NOT_SHOWN = {"C4"}


#: Beside the first ones, seeds that a program with two links broke: it said skips of one link on the other.
@pytest.mark.parametrize(("seed", "faults"), [*((seed, None) for seed in range(30)), (6536, 5), (51, 6)])
def test_with_all_rules_every_invariant_holds(seed, faults):
    assert play(seed, faults=faults).violations == []


@pytest.mark.parametrize("rule", NEEDED)
def test_without_a_rule_an_invariant_breaks(rule):
    seed, faults, invariant = NEEDED[rule]
    broken = play(seed, Rules().without(NAMES[rule]), faults=faults).violations
    assert broken[0].invariant == invariant
    assert play(seed, faults=faults).violations == []


def test_every_rule_is_shown_to_be_needed_or_listed_as_not_shown():
    assert NEEDED.keys() | NOT_SHOWN == NAMES.keys()
    assert not NEEDED.keys() & NOT_SHOWN


def test_a_run_is_the_same_twice():
    one, two = play(3), play(3)
    assert (one.network.counts, one.network.work) == (two.network.counts, two.network.work)


def test_runs_have_programs_with_two_links_publishers_that_crash_and_short_memories():
    runs = [play(seed) for seed in range(12)]
    programs = [program for run in runs for program in (*run.publishers, *run.subscribers)]
    assert any(len(program.links) == 2 for program in programs)
    assert any(publisher.is_dead and not publisher.has_left for run in runs for publisher in run.publishers)
    assert {node.applied_max for run in runs for node in run.network.nodes.values()} == {3, 64}
    assert sum(run.network.counts["flushes confirmed"] for run in runs) > 10
    assert sum(run.network.counts["wanted"] for run in runs) > 300


# --- parts ---


def states(*links: tuple[int, int, tuple[int, ...]]) -> dict[int, LinkState]:
    """Link states of routers: (router, link, routers heard there)."""
    found: dict[int, set[tuple[int, frozenset[int]]]] = {}
    for router, link, heard in links:
        found.setdefault(router, set()).add((link, frozenset(heard)))
    return {router: LinkState(router, 0.0, frozenset(own)) for router, own in found.items()}


def test_of_two_routers_between_two_lans_one_serves_and_all_agree():
    known = states((1, 0, (2,)), (1, 1, (2,)), (2, 0, (1,)), (2, 1, (1,)))
    tree = Tree(("lan", 0), known, frozenset({0, 1}))
    assert [tree.serves(1, 1), tree.serves(2, 1)].count(True) == 1
    assert tree.upstream(1) == (0, None)
    assert tree.digest == Tree(("lan", 0), dict(reversed(known.items())), frozenset({0, 1})).digest


def test_a_link_that_one_end_does_not_report_is_not_used():
    tree = Tree(("router", 1), states((1, 0, (2,)), (2, 0, ())), frozenset())
    assert tree.next_routers(1) == []
    tree = Tree(("router", 1), states((1, 0, (2,)), (2, 0, (1,))), frozenset())
    assert tree.next_routers(1) == [(2, 0)]
    assert tree.branches(1) == {0: frozenset({2})}


def test_a_node_forgets_the_oldest_of_what_a_neighbour_applied():
    node = Program(Network(1, Rules()), 7)
    node.applied_max = 3
    run = Run(1, Rules())
    link = run.network.links[0]
    for version in range(1, 6):
        node.on_applied(link, 9, Applied(10 * version, 7, version))
    assert node.applied[link.number, 9] == {3: 30, 4: 40, 5: 50}
    node.on_applied(link, 9, Applied(60, 7, 0))
    assert node.applied[link.number, 9] == {}


def test_a_sync_waits_for_every_router_on_the_tree():
    run = Run(1, Rules(), 0)
    subscriber = run.subscribers[0]
    run.network.run_until(0.2)
    subscriber.subscribe(0, (1, None))
    run.network.run_until(0.21)
    assert subscriber.confirmed_at_s == {}
    run.network.run_until(3.0)
    assert subscriber.confirmed_at_s[0] > 0.2
    known = {router.id: dict(each) for router in run.routers for each in [_versions(router)]}
    assert all(versions.get(subscriber.id, 0) >= 2 for versions in known.values()), known


def _versions(router):
    return [entry for record in router.interests.values() for entry in record.versions]


def test_the_search_prints_a_seed_that_fails(capsys):
    assert search.main(["--first", "3", "--seeds", "2", "--jobs", "1"]) == 0
    assert "2 runs, 0 failed" in capsys.readouterr().out
    assert search.main(["--first", "22", "--seeds", "1", "--jobs", "1", "--without", "C1"]) == 1
    assert f"FAILED seed 22: {Violation.__name__}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        search.main(["--without", "C99"])
    assert "no rule C99" in capsys.readouterr().err
