"""`shoal request`: ask, and print the answer."""

import time
from collections.abc import Iterable
from typing import Annotated

import typer

import shoal
from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.message_text import body_from_text, for_programs, message_body_text
from shoal.errors import NoReplyError

EPILOG = """
Examples:

  shoal request time/now

  shoal request who --many

  shoal request convert '{"from": "EUR", "to": "USD"}' --json-body --timeout 2
"""


def request(
    topic: Annotated[str, typer.Argument(help="Where to ask.")],
    body: Annotated[str | None, typer.Argument(help="What to ask: text, unless --json-body.")] = None,
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for an answer.")] = 5.0,
    json_body: Annotated[bool, typer.Option("--json-body", help="The body is JSON.")] = False,
    many: Annotated[
        bool,
        typer.Option("--many", help="Print all answers of all subscribers."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the whole answer as a JSON object.")] = False,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Publish a question and print the answer, or answers."""
    with plain_endings("request"), connect(url, domain, interface) as bus:
        question = None if body is None else body_from_text(body, json_body)
        began_s = time.monotonic()
        if not bus.wait_for_subscribers(topic, 1, timeout):
            raise NoReplyError(f"no program subscribes to {topic!r}: no answer within {timeout:g} s")
        left_s = max(0.0, timeout - (time.monotonic() - began_s))
        answers: Iterable[shoal.Message] = (
            bus.request_many(topic, question, timeout_s=left_s)
            if many
            else [bus.request(topic, question, timeout_s=left_s)]
        )
        for answer in answers:
            print(for_programs(answer) if json else message_body_text(answer), flush=True)
