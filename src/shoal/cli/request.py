"""`shoal request`: ask, and print the answer."""

import time
from typing import Annotated

import typer

from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.message_text import body_from_text, body_text, for_programs
from shoal.errors import NoReplyError

EPILOG = """
Examples:

  shoal request time/now

  shoal request convert '{"from": "EUR", "to": "USD"}' --json-body --timeout 2
"""


def request(
    topic: Annotated[str, typer.Argument(help="Where to ask.")],
    body: Annotated[str | None, typer.Argument(help="What to ask: text, unless --json-body.")] = None,
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for an answer.")] = 5.0,
    json_body: Annotated[bool, typer.Option("--json-body", help="The body is JSON.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the whole answer as a JSON object.")] = False,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Publish a question and print the first answer."""
    with plain_endings("request"), connect(url, domain, interface) as bus:
        question = None if body is None else body_from_text(body, json_body)
        began_s = time.monotonic()
        if not bus.wait_for_subscribers(topic, 1, timeout):
            raise NoReplyError(f"nobody subscribes to {topic!r}: no answer within {timeout:g} s")
        left_s = max(0.0, timeout - (time.monotonic() - began_s))
        answer = bus.request(topic, question, timeout_s=left_s)
        print(for_programs(answer) if json else body_text(answer.body), flush=True)
