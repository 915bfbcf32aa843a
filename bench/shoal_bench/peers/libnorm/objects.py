"""What travels: streams, data objects and files, on either side of a session.

A `NormObject` keeps libnorm's object alive (it retains the handle) until it is released, its session closes,
or, when sent, libnorm says that it has purged it.
"""

import ctypes
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .abi import EventType, FlushMode, LibnormError, ObjectType, load

if TYPE_CHECKING:
    from .session import Session


class NormObject:
    """One NORM object; see the subclasses for what it carries."""

    def __init__(self, session: "Session", handle: int) -> None:
        self.session = session
        self._norm = load()
        self._handle: int | None = handle
        self._norm.NormObjectRetain(handle)

    @property
    def handle(self) -> int:
        """libnorm's handle; raises once the object has been released."""
        if self._handle is None:
            raise LibnormError(
                f"this {type(self).__name__} has been released: it was purged or its session closed"
            )
        return self._handle

    @property
    def info(self) -> bytes | None:
        """The content of the object's NORM_INFO, or `None` while none has arrived."""
        if not self._norm.NormObjectHasInfo(self.handle):
            return None
        length = self._norm.NormObjectGetInfoLength(self.handle)
        buffer = ctypes.create_string_buffer(max(1, length))
        self._norm.NormObjectGetInfo(self.handle, buffer, length)
        return buffer.raw[:length]

    @property
    def size_bytes(self) -> int:
        """The object's size; of a stream, its buffer's."""
        return int(self._norm.NormObjectGetSize(self.handle))

    @property
    def pending_bytes(self) -> int:
        """How much is still to be received."""
        return int(self._norm.NormObjectGetBytesPending(self.handle))

    def cancel(self) -> None:
        """Stop sending or receiving this object."""
        self._norm.NormObjectCancel(self.handle)

    def release(self) -> None:
        """Let libnorm forget the object; done for you when the session closes."""
        if self._handle is not None:
            self._norm.NormObjectRelease(self._handle)
            self.session.forget(self._handle)
            self._handle = None


class Data(NormObject):
    """NORM_OBJECT_DATA: a piece of memory."""

    #: libnorm sends from our memory, so a sent object has to keep it.
    sent_bytes: bytes | None = None

    @property
    def content(self) -> bytes:
        """The bytes received; whole once RX_OBJECT_COMPLETED has been reported."""
        address = self._norm.NormDataAccessData(self.handle)
        if not address:
            raise LibnormError("libnorm holds no memory for this data object yet")
        return ctypes.string_at(address, self.size_bytes)


class File(NormObject):
    """NORM_OBJECT_FILE; received below the instance's `cache_directory`."""

    @property
    def path(self) -> Path:
        """Where the file is."""
        buffer = ctypes.create_string_buffer(4096)
        if not self._norm.NormFileGetName(self.handle, buffer, len(buffer)):
            raise LibnormError("libnorm has no name for this file object")
        return Path(buffer.value.decode())


class Stream(NormObject):
    """NORM_OBJECT_STREAM: bytes in order, with message starts marked."""

    _read_buffer: "ctypes.Array[ctypes.c_char] | None" = None

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write what fits in the stream's buffer and return how many bytes that was."""
        pointer = (
            ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p) if isinstance(data, bytes) else _address(data)
        )
        return int(self._norm.NormStreamWrite(self.handle, pointer, len(data)))

    def write(self, data: bytes, *, timeout_s: float = 30.0) -> None:
        """Write all of `data`, waiting for room; events met while waiting stay for `Instance.next_event`."""
        deadline = time.monotonic() + timeout_s
        written = 0
        while True:
            rest = data if written == 0 else data[written:]
            written += self.write_nowait(rest)
            if written == len(data):
                return
            left_s = deadline - time.monotonic()
            # Vacancy is reported once, and may have been before this call: look again now and then.
            if left_s <= 0:
                raise LibnormError(
                    f"no room for {len(data) - written} of {len(data)} bytes within {timeout_s} s"
                )
            self.session.instance.wait_for(EventType.TX_QUEUE_VACANCY, timeout_s=min(left_s, 0.05))

    def mark_eom(self) -> None:
        """Say that a message ends here: the next byte written starts a message."""
        self._norm.NormStreamMarkEom(self.handle)

    def flush(self, mode: FlushMode = FlushMode.PASSIVE, *, eom: bool = False) -> None:
        """Send the segment being filled.

        Only `ACTIVE` follows it with NORM_CMD(FLUSH): with `PASSIVE` a receiver that loses the last segment
        does not learn of it until more is sent.
        """
        self._norm.NormStreamFlush(self.handle, eom, mode)

    def set_push(self, enable: bool) -> None:
        """With push, writing never waits: the oldest unsent or unrepaired data is dropped instead."""
        self._norm.NormStreamSetPushEnable(self.handle, enable)

    def close(self, *, graceful: bool = True) -> None:
        """End the stream; graceful sends all that was written and marks the end for receivers."""
        self._norm.NormStreamClose(self.handle, graceful)

    def read(self, bytes_max: int = 65536) -> bytes | None:
        """Up to `bytes_max` bytes, empty when none are there yet; `None` says that the stream broke.

        After a break libnorm lost bytes: `seek_message_start` finds the next message.
        """
        view = self.read_view(bytes_max)
        return None if view is None else bytes(view)

    def read_view(self, bytes_max: int = 65536) -> memoryview | None:
        """As `read`, in memory that the next read overwrites."""
        if self._read_buffer is None or len(self._read_buffer) < bytes_max:
            self._read_buffer = ctypes.create_string_buffer(bytes_max)
        count = ctypes.c_uint(bytes_max)
        if not self._norm.NormStreamRead(self.handle, self._read_buffer, ctypes.byref(count)):
            return None
        return memoryview(self._read_buffer)[: count.value].cast("B")

    def seek_message_start(self) -> bool:
        """Skip to the next message start; false when none has arrived yet.

        In the segment where a message starts, libnorm goes back to that start, even if it was read already.
        """
        return bool(self._norm.NormStreamSeekMsgStart(self.handle))


_CLASSES = {ObjectType.DATA: Data, ObjectType.FILE: File, ObjectType.STREAM: Stream}


def wrap(session: "Session", handle: int) -> NormObject:
    """The Python object for a handle met in an event."""
    kind = ObjectType(load().NormObjectGetType(handle))
    return _CLASSES.get(kind, NormObject)(session, handle)


def _address(data: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(data))
