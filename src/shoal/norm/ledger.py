"""What a session remembers of what it was told, so that each event can say all about its object."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.norm.events import Event, WatermarkDone, from_core

#: A remote object: sender, instance, number.
_Remote = tuple[int, int, int]
#: As many NORM_INFO as a sender has numbers for objects are remembered: not every object is ever completed.
_INFOS_MAX = 1 << 16


class Ledger:
    """Entered in order, by one thread at a time, while others send."""

    def __init__(self) -> None:
        #: NORM_INFO of what is not complete yet, the oldest first.
        self._infos: dict[_Remote, bytes] = {}
        #: The last outcome of each watermark that a caller waits for.
        self._outcomes: dict[int, WatermarkDone | None] = {}
        #: Objects of ours that are kept, in the order in which they were sent.
        self._kept: dict[int, None] = {}
        self._keeping = threading.Lock()

    def enter(self, kind: str, fields: dict[str, Any]) -> Event:
        """The event that the extension module tells of."""
        remote: _Remote = (fields.get("sender", 0), fields.get("instance", 0), fields.get("stream", 0))
        info, path = b"", None
        match kind:
            case "info":
                self._infos[remote] = fields["content"]
                if len(self._infos) > _INFOS_MAX:
                    del self._infos[next(iter(self._infos))]
            case "file_received":
                path = Path(fields["path"]) if "path" in fields else None
                info = self._infos.pop(remote, b"")
            case "data_received":
                info = self._infos.pop(remote, b"")
            case "object_aborted" | "stream_closed":
                self._infos.pop(remote, None)
            case "sender_gone":
                for other in [other for other in self._infos if other[:2] == remote[:2]]:
                    del self._infos[other]
            case "object_released":
                self.forget(fields["stream"])
        event = from_core(kind, fields, info, path)
        if isinstance(event, WatermarkDone) and event.object in self._outcomes:
            self._outcomes[event.object] = event
        return event

    def keep(self, send: Callable[[], int | None]) -> int | None:
        """Send an object of ours, and know it before an event tells of it; `None` if there is no room."""
        with self._keeping:
            number = send()
            if number is not None:
                # A number comes again in time; then it is the newest.
                self._kept.pop(number, None)
                self._kept[number] = None
            return number

    def forget(self, object: int) -> None:
        """An object of ours is no longer kept."""
        with self._keeping:
            self._kept.pop(object, None)

    @property
    def newest(self) -> int | None:
        """The object of ours that was sent last, of those that are kept."""
        with self._keeping:
            return next(reversed(self._kept), None)

    def expect(self, objects: set[int]) -> None:
        """Watermarks of these are waited for, and no others."""
        self._outcomes = dict.fromkeys(objects)

    def outcomes(self) -> list[WatermarkDone] | None:
        """What became of the watermarks that are waited for; `None` as long as one of them is not settled."""
        settled = [outcome for outcome in self._outcomes.values() if outcome is not None]
        return settled if len(settled) == len(self._outcomes) else None
