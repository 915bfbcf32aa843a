"""Sensor fan-in: many sensors publish blocks of samples as arrays, one program collects and notices silence.

python examples/sensors.py sense NAME [BLOCKS]
python examples/sensors.py collect [SENSORS]       ends when this number of sensors is done
"""

import sys
import time

import numpy

import shoal


def sense(name: str, blocks: int) -> None:
    random = numpy.random.default_rng()
    with shoal.connect() as bus:
        bus.wait_for_subscribers(f"sensors/{name}/samples")
        for _ in range(blocks):
            samples = random.normal(20.0, 0.5, size=256).astype("f4")
            bus.publish(f"sensors/{name}/samples", samples, properties={"unit": "°C"})
            time.sleep(0.01)
        bus.publish(f"sensors/{name}/done", blocks)


def collect(sensors: int) -> None:
    blocks: dict[str, list[numpy.ndarray]] = {}
    done = 0
    with shoal.connect() as bus, bus.subscribe("sensors/*/*") as subscription:
        print("collecting", flush=True)
        while done < sensors:
            message = subscription.receive(timeout_s=10)
            if message is None:
                sys.exit("no sensor said anything for ten seconds")
            _, name, what = message.topic.split("/")
            if what == "samples":
                blocks.setdefault(name, []).append(message.body)
                continue
            done += 1
            # Messages of one publisher come in order, so this is all of it.
            samples = numpy.concatenate(blocks[name])
            print(
                f"{name}: {len(blocks[name])} of {message.body} blocks, mean {samples.mean():.1f}", flush=True
            )


def main() -> None:
    match sys.argv[1:]:
        case ["sense", name, *rest]:
            sense(name, int(rest[0]) if rest else 100)
        case ["collect", *rest]:
            collect(int(rest[0]) if rest else 1)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
