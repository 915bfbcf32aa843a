"""A program that asks a registry for a daemon and says what it sees: `locate_program.py URL DOMAIN`.

`connect` opens `count` more connections, each to the daemon that the registry names, and answers to which;
`listing` answers with the addresses to which clients are sent.
"""

import contextlib
import json
import sys
import time
from typing import Any

import shoal
from shoal.link.events import LinkDown
from shoal.link.registry_client import RegistryClient


def main() -> None:
    client = RegistryClient(sys.argv[1], sys.argv[2])
    while not (found := _located(client)):
        pass
    lost = 0
    with contextlib.ExitStack() as stack:
        bus = stack.enter_context(shoal.connect(found, domain=sys.argv[2]))
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            lost += sum(isinstance(event, LinkDown) and not event.left for event in bus.events(timeout_s=0))
            order = json.loads(line)
            if order["do"] == "connect":
                answer: dict[str, Any] = {"used": [_connected(stack, client) for _ in range(order["count"])]}
            elif order["do"] == "listing":
                listing = client.listing()
                records = () if listing is None else listing.records
                answer = {"addresses": [url.target.url for each in records for url in each.endpoints]}
            else:
                answer = {"routers": sum(node.router for node in bus.network), "lost": lost}
            print(json.dumps(answer), flush=True)


def _connected(stack: contextlib.ExitStack, client: RegistryClient) -> str:
    """Connect where the registry says: the address of the daemon."""
    while not (found := _located(client)):
        time.sleep(0.05)
    stack.enter_context(shoal.connect(found, domain=sys.argv[2]))
    return found


def _located(client: RegistryClient) -> str | None:
    try:
        return client.locate().candidates[0].endpoint.target.url
    except shoal.LinkError:
        return None


if __name__ == "__main__":
    main()
