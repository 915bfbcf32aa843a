"""A program that asks a registry for a daemon and says what it sees: `locate_program.py URL DOMAIN`."""

import json
import sys
from typing import Any

import shoal
from shoal.link.events import LinkDown
from shoal.link.registry_client import RegistryClient


def main() -> None:
    client = RegistryClient(sys.argv[1], sys.argv[2])
    while not (found := _located(client)):
        pass
    lost = 0
    with shoal.connect(found, domain=sys.argv[2]) as bus:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            lost += sum(isinstance(event, LinkDown) and not event.left for event in bus.events(timeout_s=0))
            print(json.dumps(_answer(bus, json.loads(line), lost)), flush=True)


def _located(client: RegistryClient) -> str | None:
    try:
        return client.locate().candidates[0].endpoint.target.url
    except shoal.LinkError:
        return None


def _answer(bus: shoal.Bus, order: dict[str, Any], lost: int) -> dict[str, Any]:
    return {"routers": sum(node.router for node in bus.network), "lost": lost}


if __name__ == "__main__":
    main()
