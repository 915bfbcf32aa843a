"""`shoal reply`: answer questions from the command line."""

import contextlib
import itertools
import os
import queue
import subprocess
from string import Template
from typing import Annotated, Any

import typer

import shoal
from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.message_text import body_from_text, body_text, for_people, message_body_text
from shoal.signals import SIGNAL_S

EPILOG = """
Examples:

  shoal reply ping pong

  shoal reply time/now --command 'date -Is'

  shoal reply upper --command 'tr a-z A-Z'             (the question's body is its standard input)

  shoal reply 'price/*' '{"topic": "$topic", "bid": 10.25}' --json-body
"""

#: What a command may take to answer.
_COMMAND_S = 60.0


def reply(
    pattern: Annotated[str, typer.Argument(help="Topics to answer on: * is one level, > all that follow.")],
    body: Annotated[
        str | None,
        typer.Argument(help="The answer; $topic, $body and $correlation stand for those of the question."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(help="Run this in a shell; what it prints is the answer, and a failure is one too."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many answers.")] = None,
    json_body: Annotated[bool, typer.Option("--json-body", help="The answer is JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print the questions.")] = False,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Answer questions until Ctrl-C, and print each."""
    if (body is None) == (command is None):
        raise typer.BadParameter("give an answer, or --command")
    with plain_endings("reply"), connect(url, domain, interface, patient=True) as bus:
        #: For each question, why it could not be printed, if it could not.
        answered: queue.SimpleQueue[OSError | None] = queue.SimpleQueue()

        def answer(question: shoal.Message) -> None:
            if question.reply_to is None:
                return
            failure = None if quiet else _print(question)
            try:
                text = _filled(body, question) if body is not None else _output_of(command or "", question)
                bus.reply(question, body_from_text(text, json_body))
            finally:
                answered.put(failure)

        bus.subscribe(pattern, answer)
        for _ in itertools.count() if count is None else range(count):
            failure = _next(answered)
            if failure is not None:
                raise failure


def _next(answered: "queue.SimpleQueue[OSError | None]") -> OSError | None:
    while True:
        with contextlib.suppress(queue.Empty):
            return answered.get(timeout=SIGNAL_S)


def _print(question: shoal.Message) -> OSError | None:
    """Print a question, or return why that cannot be: the answer goes out first."""
    try:
        print(for_people(question), flush=True)
    except OSError as failure:
        return failure
    return None


def _filled(template: str, question: shoal.Message) -> str:
    values: dict[str, Any] = {
        "topic": question.topic,
        "body": message_body_text(question),
        "correlation": question.correlation_id,
    }
    return Template(template).safe_substitute(values)


def _output_of(command: str, question: shoal.Message) -> str:
    """What a command prints. It gets the body on its standard input, and the topic as `SHOAL_TOPIC`."""
    given = question.body
    content = given if isinstance(given, bytes) else body_text(given).encode()
    done = subprocess.run(
        command,
        shell=True,
        input=content,
        capture_output=True,
        env={**os.environ, "SHOAL_TOPIC": question.topic},
        timeout=_COMMAND_S,
        check=False,
    )
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
        raise RuntimeError(f"the command failed: {why}")
    return done.stdout.decode(errors="replace").rstrip("\n")
