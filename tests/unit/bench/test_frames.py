"""Frames between coordinator and agent: what is not from the other side, now, is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal_bench.frames import FRAME_BYTES_MAX, Channel, FrameRefusedError

SECRET = b"sixteen bytes or more"


def pair() -> tuple[Channel, Channel]:
    """A coordinator and an agent that have begun a session."""
    coordinator, agent = fresh()
    nonce = coordinator.announced(agent.seal({"announced": "h1"}))
    assert nonce == agent.nonce
    agent.open(coordinator.seal({"do": "ping"}, to=nonce))
    coordinator.open(agent.seal({"here": "10.0.0.1"}))
    return coordinator, agent


def fresh(name: str = "h1") -> tuple[Channel, Channel]:
    return Channel(SECRET, name, is_agent=False), Channel(SECRET, name, is_agent=True)


def test_a_session_carries_bodies_both_ways() -> None:
    coordinator, agent = pair()
    assert agent.open(coordinator.seal({"do": "tell", "id": "a"})) == {"do": "tell", "id": "a"}
    assert coordinator.open(agent.seal({"id": "a", "progress": 3})) == {"id": "a", "progress": 3}


def test_a_frame_is_accepted_once_and_in_order() -> None:
    coordinator, agent = pair()
    first, second = coordinator.seal({"number": 1}), coordinator.seal({"number": 2})
    agent.open(second)
    for again in (first, second):
        with pytest.raises(FrameRefusedError, match="came before"):
            agent.open(again)


def test_frames_of_another_session_agent_direction_or_secret_are_refused() -> None:
    coordinator, agent = pair()
    frame = coordinator.seal({"do": "start"})
    with pytest.raises(FrameRefusedError, match="another session"):
        pair()[1].open(frame)
    with pytest.raises(FrameRefusedError, match="seal"):
        fresh("h2")[1].open(frame)
    with pytest.raises(FrameRefusedError, match="seal"):
        # Its own frame, sent back.
        agent.open(agent.seal({"do": "start"}))
    with pytest.raises(FrameRefusedError, match="seal"):
        Channel(b"another secret, as long", "h1", is_agent=True).open(frame)


def test_a_second_coordinator_does_not_get_a_session_that_has_one() -> None:
    _, agent = pair()
    other = Channel(SECRET, "h1", is_agent=False)
    with pytest.raises(FrameRefusedError, match="another session"):
        agent.open(other.seal({"do": "start"}, to=agent.nonce))


def test_a_replayed_announcement_begins_no_session() -> None:
    old = Channel(SECRET, "h1", is_agent=True).seal({"announced": "h1"})
    coordinator, agent = fresh()
    assert coordinator.announced(old) is not None
    assert coordinator.peer == ""
    nonce = coordinator.announced(agent.seal({"announced": "h1"}))
    agent.open(coordinator.seal({"do": "ping"}, to=nonce))
    assert coordinator.open(agent.seal({"here": "x"})) == {"here": "x"}


def test_a_changed_frame_is_refused() -> None:
    coordinator, agent = pair()
    fields = json.loads(coordinator.seal({"do": "ping"}))
    for name, value in {"number": 99, "body": '{"do": "start"}', "mac": "0" * 64, "from": "x"}.items():
        with pytest.raises(FrameRefusedError, match="seal"):
            agent.open(json.dumps(fields | {name: value}).encode())
    # It is still good itself: what was refused changed nothing.
    assert agent.open(json.dumps(fields).encode()) == {"do": "ping"}


@given(
    st.one_of(
        st.binary(),
        st.text(),
        st.none(),
        st.dictionaries(
            st.sampled_from(["from", "to", "number", "body", "mac"]),
            st.one_of(st.text(), st.integers(), st.none()),
        ).map(lambda made: json.dumps(made).encode()),
    )
)
def test_whatever_comes_is_refused_by_name(frame: object) -> None:
    with pytest.raises(FrameRefusedError):
        fresh()[1].open(frame)


@pytest.mark.parametrize("field", ["from", "to", "body", "mac"])
def test_half_a_character_is_no_frame(field: str) -> None:
    fields = {"from": "a", "to": "b", "number": 1, "body": "{}", "mac": "c", field: "\ud800"}
    with pytest.raises(FrameRefusedError, match="no frame"):
        fresh()[1].open(json.dumps(fields).encode())


def test_a_frame_that_is_too_long_is_refused_unread() -> None:
    with pytest.raises(FrameRefusedError, match="no frame"):
        fresh()[1].open(b" " * (FRAME_BYTES_MAX + 1))
    with pytest.raises(FrameRefusedError, match="no frame"):
        fresh()[1].open(b"[" * 100_000)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        Channel(b"short", "h1", is_agent=True)
