"""A ticker: one program publishes prices, any number watch those of a region.

python examples/ticker.py publish [COUNT]
python examples/ticker.py watch REGION [COUNT]
"""

import itertools
import random
import sys
import time

import shoal

REGIONS = {"ACME": "EU", "EMCA": "US", "MACE": "EU"}


def publish(count: int | None) -> None:
    with shoal.connect() as bus:
        bus.wait_for_subscribers("prices/ACME")
        for number in itertools.count() if count is None else range(count):
            name = random.choice(list(REGIONS))
            price = {"bid": round(random.uniform(10, 11), 2), "number": number}
            bus.publish(f"prices/{name}", price, properties={"region": REGIONS[name]})
            time.sleep(0.01)


def watch(region: str, count: int | None) -> None:
    with shoal.connect() as bus, bus.subscribe("prices/*", selector=f"region = '{region}'") as prices:
        for message in itertools.islice(prices, count):
            print(message.topic, message.body["bid"], flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["publish", *rest]:
            publish(int(rest[0]) if rest else None)
        case ["watch", region, *rest]:
            watch(region, int(rest[0]) if rest else None)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
