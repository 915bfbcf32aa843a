"""Whatever a request to a registry has, the answer is one that the description has, and never a failure."""

import asyncio
import random

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import allow_header_conformance, positive_data_acceptance

from shoal.link.directory import Endpoint
from shoal.registry.app import make_app
from shoal.registry.desk import Desk
from shoal.registry.directory import Directory


async def no_proof(endpoint: Endpoint, domain: str, secret: bytes) -> str | None:
    """Half of the addresses are proved, without a connection."""
    return None if endpoint.port % 2 else "nobody answers"


async def is_there(endpoint: Endpoint) -> bool:
    return True


class QuickDesk(Desk):
    """Waits for nothing: each request is answered at once."""

    async def wait_for_change(self, domain: str, since: int, wait_s: float) -> bool:
        return self.directory.stamp(domain) != since


class Clock:
    """Moves so far with each look that no rate is a limit."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


async def made() -> QuickDesk:
    directory = Directory(0.0, wall=Clock(), chance=random.Random(1))
    return QuickDesk(directory, clock=Clock(), reach=is_there, prove=no_proof)


#: 503 is an answer: no daemon has room. FastAPI names one method of a path in `Allow`. 7.0 is an integer for
#: JSON Schema, and none for the registry.
EXCLUDED = [not_a_server_error, allow_header_conformance, positive_data_acceptance]

schema = schemathesis.openapi.from_asgi("/openapi.json", make_app(asyncio.run(made())))


# The stream of events has no end; tests/unit/registry reads it.
@schema.exclude(path_regex="events$").parametrize()
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_is_described(case: schemathesis.Case) -> None:
    response = case.call()
    assert response.status_code != 500
    case.validate_response(response, excluded_checks=EXCLUDED)
