"""How fast libnorm moves one reliable stream: a sender and a receiver, each for a process of its own.

The sender never runs further ahead than the stream's buffer: it sets watermarks, and writes on when the
receiver has acknowledged them, so nothing is lost to a slow reader. The content repeats a random pattern that
both sides know, and the receiver compares every byte with it.
"""

import random
import resource
import time
from dataclasses import dataclass

from .abi import AckingStatus, EventType, FlushMode, LibnormError, ProbingMode, SyncPolicy
from .instance import Instance
from .objects import Stream
from .session import Session

SENDER_ID, RECEIVER_ID = 1, 2
#: A prime, so that the pattern never lines up with segments, blocks or buffers.
_PATTERN_BYTES = 1_048_573
_CHUNK_BYTES = 1 << 17


@dataclass(frozen=True, kw_only=True)
class TransferOptions:
    """One transfer; both sides need the same. The defaults are the fastest found for libnorm on loopback."""

    group: str = "239.192.74.201"
    port: int
    interface: str = "lo"
    total_bytes: int
    segment_bytes: int = 1400
    #: Share of messages dropped by libnorm at the receiver.
    loss_percent: float = 0.0
    rate_gbit_s: float = 10.0
    buffer_bytes: int = 6 << 20
    socket_buffer_bytes: int = 4 << 20
    block_symbols: int = 64
    #: All of it follows its block unasked.
    parity_symbols: int = 0
    grtt_s: float = 0.0002
    backoff_factor: float = 0.0
    timeout_s: float = 60.0


@dataclass(frozen=True)
class TransferResult:
    """What one side did: at the receiver `seconds` runs from the first to the last byte.

    Processor time is what the transfer took, without the interpreter's start.
    """

    bytes: int
    seconds: float
    gbit_s: float
    cpu_s: float


def send(options: TransferOptions) -> TransferResult:
    """Send the whole content and return when the receiver has acknowledged all of it."""
    pattern = _pattern()
    cpu_began_s = _cpu_s()
    with Instance() as instance, _session(instance, options, SENDER_ID) as session:
        # Otherwise libnorm's thread spends its time on reading back what it sent itself.
        session.set_tx_only(True)
        session.set_congestion_control(False)
        session.set_tx_rate(options.rate_gbit_s * 1e9)
        session.set_grtt(options.grtt_s)
        # A measured round trip time would contain the receiver's queue and slow down watermarks and repair.
        session.set_grtt_probing(ProbingMode.NONE)
        session.set_backoff_factor(options.backoff_factor)
        session.set_group_size(10)
        session.add_acking_node(RECEIVER_ID)
        session.start_sender(
            instance_id=random.randrange(1, 1 << 16),
            buffer_bytes=options.buffer_bytes,
            segment_bytes=options.segment_bytes,
            block_symbols=options.block_symbols,
            parity_symbols=options.parity_symbols,
        )
        session.set_auto_parity(options.parity_symbols)
        session.set_tx_socket_buffer(options.socket_buffer_bytes)
        session.set_flow_control(0.0)
        stream = session.open_stream(buffer_bytes=options.buffer_bytes)
        window = _Window(session, stream, options)
        began = time.monotonic()
        while window.written_bytes < options.total_bytes:
            at = window.written_bytes % _PATTERN_BYTES
            wanted = min(_CHUNK_BYTES, options.total_bytes - window.written_bytes, window.room_bytes)
            window.write(pattern[at : at + wanted])
        stream.flush(FlushMode.ACTIVE)
        window.wait_all_acknowledged()
        seconds = time.monotonic() - began
    return _result(options.total_bytes, seconds, _cpu_s() - cpu_began_s)


def receive(options: TransferOptions) -> TransferResult:
    """Receive and compare the whole content; raises when a byte is wrong or missing."""
    pattern = _pattern()
    cpu_began_s = _cpu_s()
    with Instance() as instance, _session(instance, options, RECEIVER_ID) as session:
        session.set_sync_policy(SyncPolicy.ALL)
        session.set_unicast_nack(True)
        session.set_rx_loss(options.loss_percent)
        session.start_receiver(buffer_bytes=options.buffer_bytes)
        session.set_rx_socket_buffer(options.socket_buffer_bytes)
        received_bytes, began, ended = 0, 0.0, 0.0
        while received_bytes < options.total_bytes:
            event = instance.next_event(options.timeout_s)
            if event is None:
                raise LibnormError(f"nothing came for {options.timeout_s} s, at byte {received_bytes}")
            if not isinstance(event.object, Stream):
                continue
            while view := event.object.read_view(_CHUNK_BYTES):
                began = began or time.monotonic()
                at = received_bytes % _PATTERN_BYTES
                if view != pattern[at : at + len(view)]:
                    raise LibnormError(f"wrong content between bytes {received_bytes} and +{len(view)}")
                received_bytes += len(view)
                ended = time.monotonic()
            if view is None:
                raise LibnormError(f"libnorm lost data: the stream broke at byte {received_bytes}")
        if received_bytes != options.total_bytes:
            raise LibnormError(f"{received_bytes} bytes came, {options.total_bytes} were sent")
        result = _result(received_bytes, ended - began, _cpu_s() - cpu_began_s)
        _stay_until_the_sender_is_done(instance)
    return result


class _Window:
    """Bytes written and not yet acknowledged, kept below the stream's buffer by watermarks."""

    def __init__(self, session: Session, stream: Stream, options: TransferOptions) -> None:
        self._session, self._stream, self._timeout_s = session, stream, options.timeout_s
        # libnorm rounds the buffer to whole blocks and keeps one for itself.
        block_bytes = options.segment_bytes * options.block_symbols
        self._size_bytes = max(block_bytes, options.buffer_bytes - 4 * block_bytes)
        self.written_bytes = 0
        self._marked_bytes = 0
        self._acknowledged_bytes = 0

    @property
    def room_bytes(self) -> int:
        """How much may be written now."""
        return self._size_bytes - (self.written_bytes - self._acknowledged_bytes)

    def write(self, data: memoryview) -> None:
        """Write what fits; wait for an acknowledgement when nothing does."""
        count = self._stream.write_nowait(data) if data else 0
        self.written_bytes += count
        none_is_open = self._marked_bytes == self._acknowledged_bytes
        if none_is_open and self.written_bytes - self._acknowledged_bytes >= self._size_bytes // 4:
            self._mark()
        self._take_events(timeout_s=0.0 if count else 0.01)

    def wait_all_acknowledged(self) -> None:
        """Wait for the acknowledgement of the last byte."""
        deadline = time.monotonic() + self._timeout_s
        while self._acknowledged_bytes < self.written_bytes:
            if self._marked_bytes == self._acknowledged_bytes:
                self._mark()
            self._take_events(timeout_s=0.1)
            if time.monotonic() > deadline:
                raise LibnormError(
                    f"the receiver acknowledged {self._acknowledged_bytes} of {self.written_bytes} bytes"
                )

    def _mark(self) -> None:
        self._session.set_watermark(self._stream, override_flush=True)
        self._marked_bytes = self.written_bytes

    def _take_events(self, timeout_s: float) -> None:
        while (event := self._session.instance.next_event(timeout_s)) is not None:
            timeout_s = 0.0
            if event.type == EventType.TX_WATERMARK_COMPLETED:
                if self._session.acking_status() == AckingStatus.SUCCESS:
                    self._acknowledged_bytes = self._marked_bytes
                else:
                    self._session.set_watermark(self._stream, override_flush=True)


def _session(instance: Instance, options: TransferOptions, node_id: int) -> Session:
    return instance.session(options.group, options.port, node_id, interface=options.interface)


def _pattern() -> memoryview:
    """The pattern and the beginning of its repetition, so that any chunk is one slice."""
    pattern = random.Random("libnorm").randbytes(_PATTERN_BYTES)
    return memoryview(bytearray(pattern + pattern[:_CHUNK_BYTES]))


def _stay_until_the_sender_is_done(instance: Instance) -> None:
    """The last acknowledgement may be lost, and then the sender asks again."""
    instance.wait_for(EventType.REMOTE_SENDER_INACTIVE, EventType.RX_OBJECT_COMPLETED, timeout_s=0.5)


def _result(count: int, seconds: float, cpu_s: float) -> TransferResult:
    return TransferResult(count, seconds, count * 8 / seconds / 1e9, cpu_s)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
