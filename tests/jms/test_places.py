"""The places that `conftest` makes are those that their names say."""

import pytest
from conftest import World

import shoal

#: The links that a node has to others, by the name of the place.
SCHEMES = {"inproc": "inproc", "norm": "norm", "tcp": "tcp", "router": "tcp"}


def schemes_of(bus: shoal.Bus) -> set[str]:
    """How a node is joined to others; within a process there are no links to see."""
    links = {link.url.partition(":")[0] for link in bus.links if link.role != "accept"}
    return {bus.config.scheme} | links


@pytest.mark.every_link
def test_a_program_reaches_its_store_over_the_link_that_was_asked_for(
    bus: shoal.Bus, place: tuple[str, str]
) -> None:
    assert schemes_of(bus) == {SCHEMES[place[0]]}
    assert (bus._connection.store is None) == (place[1] == "process" or place[0] in ("tcp", "router"))


@pytest.mark.every_link
def test_programs_reach_each_other_over_the_link_that_was_asked_for(
    world: World, place: tuple[str, str]
) -> None:
    assert schemes_of(world.receiving) == {SCHEMES[place[0]]}
