"""libnorm's engine and thread, and the events it reports.

Not for sharing between Python threads: libnorm runs on a thread of its own, and an instance's events are read
by whoever calls `next_event` or one of the `wait_*`.
"""

import os
import select
import time
from collections import deque
from collections.abc import Callable
from ctypes import byref, c_int
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from .abi import DESCRIPTOR_INVALID, EventType, LibnormError, RawEvent, load
from .objects import NormObject
from .session import Session


@dataclass(frozen=True)
class Event:
    """Something libnorm reports: of which kind, in which session, from which sender, about which object."""

    type: EventType
    session: Session | None
    sender_id: int | None
    object: NormObject | None


def version() -> tuple[int, int, int]:
    """The version the library says it has."""
    parts = (c_int(), c_int(), c_int())
    load().NormGetVersion(*(byref(part) for part in parts))
    return parts[0].value, parts[1].value, parts[2].value


class Instance:
    """One libnorm engine with its thread; a context manager that closes its sessions as well."""

    def __init__(self, *, cache_directory: Path | None = None) -> None:
        self._norm = load()
        handle = self._norm.NormCreateInstance(False)
        if not handle:
            raise LibnormError("libnorm could not create an instance")
        self._handle: int | None = handle
        self._sessions: dict[int, Session] = {}
        self._put_back: deque[Event] = deque()
        self._descriptor: int = self._norm.NormGetDescriptor(handle)
        if self._descriptor == DESCRIPTOR_INVALID:
            raise LibnormError("libnorm gave no descriptor to wait for events on")
        # libnorm puts the path and a file's name together without a separator of its own.
        if cache_directory and not self._norm.NormSetCacheDirectory(
            handle, os.fsencode(f"{cache_directory}/")
        ):
            raise LibnormError(f"libnorm cannot receive files into {cache_directory}")

    @property
    def handle(self) -> int:
        """libnorm's handle; raises once closed."""
        if self._handle is None:
            raise LibnormError("this libnorm instance is closed")
        return self._handle

    def session(
        self,
        group: str,
        port: int,
        node_id: int,
        *,
        interface: str | None = "lo",
        listen_on: str | None = None,
    ) -> Session:
        """Join `group` as node `node_id`; see `Session`."""
        session = Session(self, group, port, node_id, interface=interface, listen_on=listen_on)
        self._sessions[session.handle] = session
        return session

    def forget(self, session_handle: int) -> None:
        """Called by a session that closes."""
        self._sessions.pop(session_handle, None)
        self._put_back = deque(event for event in self._put_back if event.session in self._sessions.values())

    def next_event(self, timeout_s: float) -> Event | None:
        """The oldest unread event, or `None` when none came within `timeout_s`."""
        return self._put_back.popleft() if self._put_back else self._read_event(time.monotonic() + timeout_s)

    def wait_for(self, *kinds: EventType, timeout_s: float) -> Event | None:
        """The first event of one of these kinds, or `None`; others are kept for `next_event`."""
        for event in self._put_back:
            if event.type in kinds:
                self._put_back.remove(event)
                return event
        deadline = time.monotonic() + timeout_s
        while (met := self._read_event(deadline)) is not None:
            if met.type in kinds:
                return met
            self._put_back.append(met)
        return None

    def wait_until(self, condition: Callable[[], bool], *, timeout_s: float) -> None:
        """Wait, reading events, until `condition` holds; raises when it does not in time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise LibnormError(f"what was waited for did not happen within {timeout_s} s")
            met = self._read_event(min(deadline, time.monotonic() + 0.05))
            if met is not None:
                self._put_back.append(met)

    def close(self) -> None:
        """Close every session, stop libnorm's thread and free what it holds."""
        if self._handle is None:
            return
        for session in list(self._sessions.values()):
            session.close()
        self._norm.NormStopInstance(self._handle)
        self._norm.NormDestroyInstance(self._handle)
        self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_event(self, deadline: float) -> Event | None:
        raw = RawEvent()
        while True:
            if self._norm.NormGetNextEvent(self.handle, byref(raw), False) and raw.type:
                return self._translate(raw)
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._descriptor], [], [], left_s)[0]:
                return None

    def _translate(self, raw: RawEvent) -> Event:
        kind = EventType(raw.type)
        session = self._sessions.get(raw.session)
        sender_id = int(self._norm.NormNodeGetId(raw.sender)) if raw.sender else None
        item = session.object_of(raw.object) if session and raw.object else None
        if item and kind == EventType.TX_OBJECT_PURGED:
            item.release()
        return Event(kind, session, sender_id, item)
