"""iBus's tuning procedure: find the send delay at which members ask for few datagrams again.

The procedure measures nothing itself: a function measures each setting. The guide of iBus//MessageBus says:

1. If members ask for more than 20 % again, set the send delay (SD) to its first step.
2. While they ask for more than 10 %, take the next step.
3. If that is so at 10 ms, ask for acknowledgement after 50 messages (ES), with half that delay.
4. If nothing helps, the network card, a switch or a router is at fault.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shoal.bus.statistics import Statistics

#: Shares of datagrams that members ask for again.
TOO_MUCH, FEW = 0.20, 0.10
#: The longest delay that is tried, and what is tried then.
DELAY_MAX_S = 0.010
EPOCH_MESSAGES, EPOCH_DELAY_S = 50, 0.005
#: iBus's step; a millisecond a datagram is at most 11 Mbit/s, so ours begin at 10 µs and double.
IBUS_STEP_S, FIRST_STEP_S = 0.001, 0.000_01


@dataclass(frozen=True, slots=True)
class Setting:
    """What is tried."""

    send_delay_s: float = 0.0
    epoch_messages: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """As options of `connect`, without what is the default."""
        found: dict[str, Any] = {}
        if self.send_delay_s:
            found["send_delay_s"] = self.send_delay_s
        if self.epoch_messages is not None:
            found["epoch_messages"] = self.epoch_messages
        return found

    def __str__(self) -> str:
        epoch = "" if self.epoch_messages is None else f", ES {self.epoch_messages}"
        return f"SD {1000 * self.send_delay_s:g} ms{epoch}"


@dataclass(frozen=True, slots=True)
class Step:
    """A setting that was measured."""

    setting: Setting
    statistics: Statistics
    #: What follows from it.
    then: str
    #: Whether it is the last.
    ends: bool
    #: Whether the setting is good.
    good: bool

    def __str__(self) -> str:
        found = self.statistics
        asked = f"{found.retransmit_requests} of {found.datagrams_sent} datagrams asked for again"
        return f"{self.setting}: {asked} ({found.retransmit_share:.1%}): {self.then}"


def delays(ibus: bool) -> Iterator[float]:
    """The delays to try, one after the other."""
    if ibus:
        yield from (
            round(number * IBUS_STEP_S, 6) for number in range(1, round(DELAY_MAX_S / IBUS_STEP_S) + 1)
        )
        return
    delay_s = FIRST_STEP_S
    while delay_s < DELAY_MAX_S:
        yield round(delay_s, 6)
        delay_s *= 2
    yield DELAY_MAX_S


def plan(ibus: bool) -> list[Setting]:
    """Every setting that may be measured, in order."""
    tried = [Setting(), *(Setting(delay_s) for delay_s in delays(ibus))]
    return [*tried, Setting(EPOCH_DELAY_S, EPOCH_MESSAGES)]


def walk(measure: Callable[[Setting], Statistics], *, ibus: bool = False) -> Iterator[Step]:
    """Measure settings until one is good, or none is left; each step as it is done."""
    settings = plan(ibus)
    for number, setting in enumerate(settings):
        found = measure(setting)
        share = found.retransmit_share
        good = share <= (TOO_MUCH if number == 0 else FEW)
        if good:
            yield Step(setting, found, "good", True, True)
            return
        last = number == len(settings) - 1
        if last:
            then = "the network card, a switch or a router is at fault"
        elif settings[number + 1].epoch_messages is not None:
            then = "too much at the longest delay, try shorter epochs"
        else:
            then = f"more than {TOO_MUCH if number == 0 else FEW:.0%}, send more slowly"
        yield Step(setting, found, then, last, False)
