"""Commands at an address where no program listens."""

import socket

import pytest
from typer.testing import CliRunner

from shoal.cli.app import app

run = CliRunner()


@pytest.fixture
def nowhere() -> str:
    """An address at which no program listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    "command",
    [
        ["nodes"],
        ["links"],
        ["members"],
        ["top", "--once"],
        ["pub", "a", "1"],
        ["request", "a", "1"],
        ["queue", "list"],
        ["queue", "send", "q", "1"],
        ["queue", "receive", "q"],
    ],
    ids=" ".join,
)
def test_a_command_that_asks_or_sends_fails_in_one_line(command: list[str], nowhere: str) -> None:
    ran = run.invoke(app, [*command, "--url", nowhere])
    name = " ".join(command[:2] if command[0] == "queue" else command[:1])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == f"shoal {name}: cannot reach {nowhere}: Connection refused\n"


def test_a_command_that_waits_for_messages_goes_on_trying(nowhere: str) -> None:
    ran = run.invoke(app, ["sub", "a", "--timeout", "0.1", "--url", nowhere])
    assert ran.exit_code == 1
    assert (
        f"SHOAL-2023 warning: Not connected to {nowhere}: Connection refused. Trying again in" in ran.stderr
    )
    assert "no message on a within 0.1 s" in ran.stderr
