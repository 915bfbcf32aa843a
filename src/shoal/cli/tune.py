"""`shoal tune`: walks iBus's tuning procedure on the live network."""

import time
from typing import Annotated

import typer

import shoal
from shoal.cli.connection import FAILED, Domain, Interface, Url, connect, end_on_sigterm, plain_endings
from shoal.config import profile as profiles
from shoal.config import resolve
from shoal.doctor import examine
from shoal.errors import NoRespondersError
from shoal.monitor.tuning import Setting, Step, plan, walk

EPILOG = """
Subscribe to the topic on other machines first, such as with: shoal sub tune --json > /dev/null

Examples:

  shoal tune tune --size 1000

  shoal tune fx/test --rate 20000 --save desk

  shoal tune --dry-run
"""


def tune(
    topic: Annotated[str, typer.Argument(help="The topic to publish test messages to.")] = "tune",
    size: Annotated[int, typer.Option(min=1, max=1 << 20, help="Bytes of a message.")] = 1000,
    rate: Annotated[
        float | None, typer.Option(min=1.0, help="Messages a second; without it, as fast as they go.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each step publishes.")] = 2.0,
    ibus: Annotated[bool, typer.Option("--ibus", help="Steps of 1 ms, as iBus has them.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the steps, and publish nothing.")] = False,
    save: Annotated[str | None, typer.Option(help="Save the result as a profile of this name.")] = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Publish test messages, and find the send delay at which members ask for few datagrams again.

    The status is 1 if no delay helps.
    """
    if dry_run:
        for setting in plan(ibus):
            print(f"{setting}: publish {size} bytes to {topic} for {seconds:g} s")
        return
    end_on_sigterm()
    with plain_endings("tune"):

        def measure(setting: Setting) -> shoal.Statistics:
            with connect(url, domain, interface, **setting.options) as bus:
                if not bus.wait_for_subscribers(topic, timeout_s=5.0):
                    raise NoRespondersError(
                        f"no program subscribes to {topic!r}: run `shoal sub {topic}` on other machines"
                    )
                return _publish(bus, topic, bytes(size), rate, seconds)

        step: Step | None = None
        for step in walk(measure, ibus=ibus):
            print(step, flush=True)
        assert step is not None
        if not step.good:
            print("Checking this machine:", flush=True)
            given = {"domain": domain, "interface": interface}
            config = resolve(url, {name: value for name, value in given.items() if value is not None})
            for line in examine(config).lines():
                print(line, flush=True)
            raise typer.Exit(FAILED)
        made = profiles.Profile(save or "tuned", f"shoal tune: {step}", step.setting.options)
        print()
        print(made.as_toml(), end="")
        if save is not None:
            typer.echo(f"shoal tune: saved {profiles.save(made)}", err=True)


def _publish(bus: shoal.Bus, topic: str, body: bytes, rate: float | None, seconds: float) -> shoal.Statistics:
    """What members asked for again while messages went out."""
    before, began, sent = bus.statistics(), time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        if rate is not None and sent >= rate * passed:
            time.sleep(0.001)
            continue
        bus.publish(topic, body)
        sent += 1
    bus.flush()
    return bus.statistics().since(before)
