"""An agent refuses and logs what is not from its coordinator, and runs registered roles."""

import logging
import secrets
from collections.abc import Iterator

import pytest

import shoal
from shoal_bench.agent import FRAMES_BYTES_MAX, FRAMES_MAX, REFUSED_LINES_MAX, SILENT_S, Agent, Waiting
from shoal_bench.frames import FRAME_BYTES_MAX, Channel

SECRET = b"sixteen bytes or more"


@pytest.fixture
def agent() -> Iterator[Agent]:
    with shoal.connect(f"inproc://{secrets.token_hex(4)}") as bus:
        made = Agent(bus, "h1", SECRET, "10.0.0.1", None)
        yield made
        made.end_session()


def begun(agent: Agent) -> Channel:
    """A coordinator with a session."""
    coordinator = Channel(SECRET, "h1", is_agent=False)
    agent.handle(0.0, coordinator.seal({"do": "ping"}, to=agent._channel.nonce))
    coordinator.peer = agent._channel.nonce
    return coordinator


def test_hostile_frames_are_refused_and_logged(agent: Agent, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    forged = Channel(b"another secret, as long", "h1", is_agent=False)
    for frame in (b"", b"{}", "text", None, forged.seal({"do": "start"}, to=agent._channel.nonce)):
        agent.handle(0.0, frame)
    assert agent.refused == 5
    assert "Refused a frame: its seal is wrong." in caplog.text
    assert agent._channel.peer == ""


def test_a_flood_of_hostile_frames_does_not_fill_the_log(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1000):
        agent.handle(0.0, b"x")
    assert agent.refused == 1000
    assert len(caplog.records) == REFUSED_LINES_MAX


def test_frames_that_wait_take_a_bounded_amount_of_memory(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = Waiting()
    for frame in (b"x" * (FRAME_BYTES_MAX + 1), None, *[b"x" * FRAME_BYTES_MAX] * 20):
        waiting.put(frame)
    assert len(waiting.take(0.0)) == FRAMES_BYTES_MAX // FRAME_BYTES_MAX
    assert waiting.take_dropped() == 2 + 20 - FRAMES_BYTES_MAX // FRAME_BYTES_MAX
    for _ in range(FRAMES_MAX + 5):
        agent._frames.put(b"x")
    agent.turn(0.0)
    assert agent.refused == FRAMES_MAX + 1
    assert agent._frames.take(0.0) == []
    assert len(caplog.records) == REFUSED_LINES_MAX


def test_roles_and_commands_that_are_not_registered_are_refused(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator = begun(agent)
    agent.handle(0.0, coordinator.seal({"do": "start", "id": "a", "role": "shell", "options": {}}))
    agent.handle(0.0, coordinator.seal({"do": "eval", "code": "1"}))
    assert agent.refused == 2
    assert "there is no role 'shell'" in caplog.text
    assert "there is no command 'eval'" in caplog.text


def test_a_silent_coordinator_loses_its_session(agent: Agent) -> None:
    coordinator = begun(agent)
    nonce = agent._channel.nonce
    agent.turn(SILENT_S + 1)
    assert agent._channel.nonce != nonce
    agent.handle(SILENT_S + 1, coordinator.seal({"do": "ping"}))
    assert agent.refused == 1


def test_names_that_are_no_topic_level_are_refused() -> None:
    with shoal.connect(f"inproc://{secrets.token_hex(4)}") as bus, pytest.raises(ValueError, match="letters"):
        Agent(bus, "a/b", SECRET, "10.0.0.1", None)
