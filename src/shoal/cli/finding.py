"""How a command finds the store that it needs, and what it says if the domain has none."""

import time

import shoal
from shoal.bus.store_protocol import WHO
from shoal.bus.store_waits import Pause
from shoal.errors import NoStoreError, StoreDeniedError

#: A store answers a question in a few milliseconds. After this a command gives up, unless it knows a member
#: that answers such questions and has not yet.
LOOK_S = 1.0
#: How long a store that is there may take to answer, unless `--timeout` says otherwise.
ANSWER_S = 10.0
_GLANCE_S = 0.02


def find_store(bus: shoal.Bus, timeout_s: float | None, *, kept: bool = True) -> None:
    """Wait until a store answers.

    Without `kept`, a program that holds queues in memory will do.

    Args:
        timeout_s: how long to look; `None` looks for a second, and longer only if a store is known to be
            there.

    Raises:
        NoStoreError: no store answered; the text says what to start.
    """
    connection = bus._connection
    channel, found = connection.channel(), Pause()
    channel.when_ready("this command", found, patience_s=ANSWER_S if timeout_s is None else timeout_s)
    began = time.monotonic()
    while not found.wait(_GLANCE_S) and not (not kept and channel.is_ready(memory=True)):
        waited_s = time.monotonic() - began
        look_s = timeout_s
        if look_s is None:
            look_s = ANSWER_S if connection.node.subscribers(WHO) else LOOK_S
        if waited_s >= look_s:
            raise _none(bus, look_s)
    if found.is_over():
        try:
            found.outcome()
        except StoreDeniedError:
            raise
        except NoStoreError as error:
            raise _none(bus, time.monotonic() - began) from error


def _none(bus: shoal.Bus, waited_s: float) -> NoStoreError:
    where = f"domain {bus.config.domain!r}" if not bus.config.has_links else bus.config.where()
    option = f" --domain {bus.config.domain}" if bus.config.domain != "default" else ""
    return NoStoreError(
        f"No store answered within {waited_s:.1f} s ({where}). Start one: shoal store --data ./data{option}. "
        "If one runs elsewhere, name it: --url tcp://HOST:PORT."
    )
