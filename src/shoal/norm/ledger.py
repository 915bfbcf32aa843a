"""What a session remembers of what it was told, so that each event can say all about its object."""

from pathlib import Path
from typing import Any

from shoal.norm.events import Event, WatermarkDone, from_core

#: A remote object: sender, instance, number.
_Remote = tuple[int, int, int]


class Ledger:
    """Entered in order, by one thread at a time."""

    def __init__(self) -> None:
        #: NORM_INFO of what is not complete yet; as many as a session receives at once.
        self._infos: dict[_Remote, bytes] = {}
        #: The last outcome of each watermark that somebody waits for.
        self._outcomes: dict[int, WatermarkDone | None] = {}
        #: Objects of ours that are kept, in the order in which they were sent.
        self._kept: dict[int, None] = {}

    def enter(self, kind: str, fields: dict[str, Any]) -> Event:
        """The event that the extension module tells of."""
        remote: _Remote = (fields.get("sender", 0), fields.get("instance", 0), fields.get("stream", 0))
        info, path = b"", None
        match kind:
            case "info":
                self._infos[remote] = fields["content"]
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
                self._kept.pop(fields["stream"], None)
        event = from_core(kind, fields, info, path)
        if isinstance(event, WatermarkDone) and event.object in self._outcomes:
            self._outcomes[event.object] = event
        return event

    def keep(self, object: int) -> None:
        """An object of ours is being sent."""
        self._kept[object] = None

    def forget(self, object: int) -> None:
        """An object of ours was cancelled."""
        self._kept.pop(object, None)

    @property
    def newest(self) -> int | None:
        """The object of ours that was sent last, of those that are kept."""
        return next(reversed(self._kept), None)

    def expect(self, objects: set[int]) -> None:
        """Watermarks of these are waited for, and no others."""
        self._outcomes = dict.fromkeys(objects)

    def outcomes(self) -> list[WatermarkDone] | None:
        """What became of the watermarks that are waited for; none as long as one of them is not settled."""
        settled = [outcome for outcome in self._outcomes.values() if outcome is not None]
        return settled if len(settled) == len(self._outcomes) else None
