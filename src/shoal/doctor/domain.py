"""What is heard of the domain: the doctor joins it for a while, as any program does."""

import threading
import time
from dataclasses import dataclass

import shoal
from shoal.config import ConnectionConfig
from shoal.errors import ShoalError


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of joining the domain."""

    #: Other members.
    members: int = 0
    #: What could not be read, and why: each reason once.
    unreadable: tuple[str, ...] = ()
    #: Names of stores that said that they are there.
    stores: tuple[str, ...] = ()
    #: Why the domain could not be joined.
    error: str = ""


class Listener:
    """Is in the domain while other checks run."""

    def __init__(self, config: ConnectionConfig, wait_s: float) -> None:
        self._config, self._until = config, time.monotonic() + wait_s
        self._heard = Heard()
        self._thread = threading.Thread(target=self._listen, name="shoal-doctor", daemon=True)
        self._thread.start()

    def heard(self) -> Heard:
        """What was heard, when the time is over."""
        self._thread.join()
        return self._heard

    def _listen(self) -> None:
        options = {
            name: value
            for name, value in vars(self._config).items()
            if value != type(self._config).__dataclass_fields__[name].default
        }
        options.pop("when_no_multicast", None)
        options.pop("seeds", None)
        scheme = options.pop("scheme", "norm")
        try:
            with shoal.connect(f"{scheme}://", **options) as bus:
                self._heard = self._gather(bus)
        except (ShoalError, OSError) as error:
            self._heard = Heard(error=" ".join(str(error).split()))

    def _gather(self, bus: shoal.Bus) -> Heard:
        unreadable: dict[str, None] = {}
        stores: dict[str, None] = {}
        with bus.subscribe("_store/here", queue_full="drop_old") as heard:
            while (left_s := self._until - time.monotonic()) > 0:
                for event in bus.events(timeout_s=min(left_s, 0.2)):
                    if isinstance(event, shoal.Unreadable):
                        unreadable[event.why] = None
                    if time.monotonic() >= self._until:
                        break
                while (message := heard.receive(0)) is not None:
                    body = message.body
                    if isinstance(body, dict) and body.get("memory") is not True:
                        stores[str(body.get("name"))] = None
            return Heard(len(bus.members), tuple(unreadable), tuple(stores))
