"""What made-up situations do with objects, and what a node can be told to do with them."""

from collections import Counter

import pytest

import shoal.testing.chaos  # noqa: F401  it registers its scenario
from shoal.testing import Link, ObjectKey, Simulation, check_all
from shoal.testing.checkers import objects_complete
from shoal.testing.scenarios import SCENARIOS


def test_chaos_delivers_acknowledges_and_gives_up_objects_and_repeats_commands():
    seen: Counter[str] = Counter()
    for seed in range(40):
        print(f"repeat with: {SCENARIOS['chaos'].repeat_command(seed)}")
        for node in SCENARIOS["chaos"](seed).nodes.values():
            seen.update(event.kind for event in node.events)
            seen["acked"] += sum(bool(done.fields["acked"]) for done in node.events_of("watermark_done"))
    print(seen)
    assert seen["data_received"] > 1_000
    assert seen["info"] > 500
    for kind in ("object_aborted", "acked", "command_received", "object_released"):
        assert seen[kind] > 20, kind


@pytest.mark.parametrize("seed", range(3))
def test_objects_of_a_sender_that_started_over_are_told_apart(seed):
    print(f"seed {seed}")
    simulation = Simulation(seed=seed, link=Link(loss=0.1, delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=1e6, send_objects_max=1)
    receiver = simulation.add_node(sync="all")
    assert sender.send_data(b"before" * 1_000) == 0
    assert simulation.run_until_holds(objects_complete(receiver.id), within_s=10.0)
    simulation.run_for(1.0)
    assert sender.send_data(b"makes room") == 1
    sender.restart()
    assert sender.send_data(b"after" * 1_000) == 0
    assert simulation.run_until_holds(
        objects_complete(receiver.id, objects=[ObjectKey(sender.id, 2, 0)]), within_s=10.0
    )
    check_all(simulation.history())
    assert ObjectKey(sender.id, 1, 0) in sender.released, "also what was let go in a former life is known"
    assert ObjectKey(sender.id, 2, 0) not in sender.released


def test_an_object_for_which_there_is_no_room_is_refused_and_not_expected():
    simulation = Simulation(seed=1, link=Link(delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=1e6, send_objects_max=1)
    receiver = simulation.add_node(sync="all")
    assert sender.send_data(b"taken") == 0
    assert sender.send_data(b"refused") is None
    assert simulation.run_until_holds(objects_complete(receiver.id), within_s=10.0)
    assert [event.fields["content"] for event in receiver.events_of("data_received")] == [b"taken"]


def test_a_command_is_refused_while_the_last_one_is_repeated():
    simulation = Simulation(seed=1, link=Link(delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=1e6)
    receiver = simulation.add_node()
    assert sender.send_command(b"first", times=3)
    assert not sender.send_command(b"second")
    simulation.run_for(5.0)
    assert sender.send_command(b"third")
    simulation.run_for(1.0)
    check_all(simulation.history())
    heard = [event.fields["content"] for event in receiver.events_of("command_received")]
    assert heard == [b"first"] * 3 + [b"third"]


def test_a_checker_that_never_holds_is_waited_for_only_so_long():
    simulation = Simulation(seed=1)
    sender, receiver = simulation.add_nodes(2)
    simulation.cut([sender], [receiver])
    sender.send_data(b"nobody hears this")
    assert not simulation.run_until_holds(objects_complete(receiver.id), within_s=3.0)
    assert simulation.now_s == pytest.approx(3.0)


def test_wrong_objects_are_refused():
    sender = Simulation(seed=1).add_node()
    with pytest.raises(ValueError, match="at least one byte"):
        sender.send_data(b"")
    with pytest.raises(ValueError, match="does not fit into one segment"):
        sender.send_data(b"x", info=bytes(2_000))
    assert not sender.objects
    assert not sender.cancel_object(0)
