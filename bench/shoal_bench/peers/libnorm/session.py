"""One libnorm node in one group: its settings, what it sends, how it receives."""

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from .abi import NODE_ANY, AckingStatus, LibnormError, NackingMode, ProbingMode, SyncPolicy, load
from .objects import Data, File, NormObject, Stream, wrap

if TYPE_CHECKING:
    from .instance import Instance

_Kind = TypeVar("_Kind", bound=NormObject)


class Session:
    """One node in one group: made by `Instance.session`, a context manager.

    Settings may be changed before and after starting; the socket buffers only after.
    """

    def __init__(
        self,
        instance: "Instance",
        group: str,
        port: int,
        node_id: int,
        *,
        interface: str | None = "lo",
        listen_on: str | None = None,
    ) -> None:
        """`group` may be one peer's unicast address; `listen_on` is then this node's own."""
        self.instance = instance
        self.node_id = node_id
        self._norm = load()
        self._objects: dict[int, NormObject] = {}
        handle = self._norm.NormCreateSession(instance.handle, group.encode(), port, node_id)
        if not handle:
            raise LibnormError(f"libnorm could not create a session for {group} port {port}")
        self._handle: int | None = handle
        # Bound to the group, several nodes of one machine share the port and other groups are not heard.
        bind_to = listen_on if self._norm.NormIsUnicastAddress(group.encode()) else group
        self._norm.NormSetRxPortReuse(handle, True, bind_to.encode() if bind_to else None, None, 0)
        if interface is not None and not self._norm.NormSetMulticastInterface(handle, interface.encode()):
            raise LibnormError(f"libnorm refused the interface {interface!r}")

    @property
    def handle(self) -> int:
        """libnorm's handle; raises once closed."""
        if self._handle is None:
            raise LibnormError("this libnorm session is closed")
        return self._handle

    # --- both sides -----------------------------------------------------------------------------------------

    def set_ttl(self, hops: int) -> None:
        """How many routers multicast may pass."""
        self._must(self._norm.NormSetTTL(self.handle, hops), f"the TTL {hops}")

    def set_loopback(self, enable: bool) -> None:
        """Whether this session hears itself."""
        self._must(self._norm.NormSetLoopback(self.handle, enable), "the loopback setting")

    def set_multicast_loopback(self, enable: bool) -> None:
        """Whether other programs on this machine hear this session."""
        self._must(self._norm.NormSetMulticastLoopback(self.handle, enable), "the multicast loopback setting")

    def set_tx_loss(self, percent: float) -> None:
        """Drop this share of the messages that would be sent, whatever their type."""
        self._norm.NormSetTxLoss(self.handle, percent)

    def set_rx_loss(self, percent: float) -> None:
        """Drop this share of the messages received, whatever their type."""
        self._norm.NormSetRxLoss(self.handle, percent)

    def set_message_trace(self, enable: bool) -> None:
        """Print every message sent and received, for finding out what happened."""
        self._norm.NormSetMessageTrace(self.handle, enable)

    # --- sender ---------------------------------------------------------------------------------------------

    def start_sender(
        self,
        *,
        instance_id: int = 1,
        buffer_bytes: int = 4 << 20,
        segment_bytes: int = 1400,
        block_symbols: int = 64,
        parity_symbols: int = 0,
        fec_id: int | None = None,
    ) -> None:
        """Begin to send; `fec_id` is 2, 5 or 129, or libnorm's own choice for the block size."""
        started = self._norm.NormStartSender(
            self.handle, instance_id, buffer_bytes, segment_bytes, block_symbols, parity_symbols, fec_id or 0
        )
        self._must(
            started,
            f"starting a sender with {segment_bytes}-byte segments, {block_symbols}+{parity_symbols} blocks",
        )

    def stop_sender(self) -> None:
        """Stop sending at once."""
        self._norm.NormStopSender(self.handle)

    def set_tx_only(self, enable: bool) -> None:
        """Do not listen to the group, set before starting: receivers must then use unicast feedback."""
        self._norm.NormSetTxOnly(self.handle, enable, False)

    @property
    def tx_rate_bit_s(self) -> float:
        """The rate at which libnorm sends at present."""
        return float(self._norm.NormGetTxRate(self.handle))

    def set_tx_rate(self, bit_s: float) -> None:
        """Send at this rate; congestion control forgets it, see `set_tx_rate_min`."""
        self._norm.NormSetTxRate(self.handle, bit_s)

    def set_tx_rate_min(self, bit_s: float) -> None:
        """Where congestion control begins and what it never goes below, set before starting.

        Without it libnorm begins with one segment per second, whatever the rate and the round trip time.
        """
        self._norm.NormSetTxRateBounds(self.handle, bit_s, -1.0)

    def set_tx_socket_buffer(self, size_bytes: int) -> None:
        """Ask the kernel for this much room for sending."""
        self._must(
            self._norm.NormSetTxSocketBuffer(self.handle, size_bytes),
            "the send buffer (start the sender first)",
        )

    def set_congestion_control(self, enable: bool, *, adjust_rate: bool = True) -> None:
        """TCP-friendly congestion control; without `adjust_rate` it only measures."""
        self._norm.NormSetCongestionControl(self.handle, enable, adjust_rate)

    def set_flow_control(self, factor: float) -> None:
        """How long sent data stays protected from being overwritten after a NACK; 0 turns this off."""
        self._norm.NormSetFlowControl(self.handle, factor)

    def set_tx_cache(self, *, bytes_max: int, objects_min: int, objects_max: int) -> None:
        """How much sent data is kept for repair."""
        self._norm.NormSetTxCacheBounds(self.handle, bytes_max, objects_min, objects_max)

    def set_auto_parity(self, symbols: int) -> None:
        """Send this many parity symbols per block without being asked."""
        self._norm.NormSetAutoParity(self.handle, symbols)

    @property
    def grtt_s(self) -> float:
        """The sender's estimate of the group round trip time."""
        return float(self._norm.NormGetGrttEstimate(self.handle))

    def set_grtt(self, estimate_s: float, *, max_s: float | None = None) -> None:
        """The estimate to begin with, and its bound."""
        if max_s is not None:
            self._norm.NormSetGrttMax(self.handle, max_s)
        self._norm.NormSetGrttEstimate(self.handle, estimate_s)

    def set_grtt_probing(
        self, mode: ProbingMode, *, interval_min_s: float | None = None, interval_max_s: float | None = None
    ) -> None:
        """How, and how often, the round trip time is measured."""
        self._norm.NormSetGrttProbingMode(self.handle, mode)
        if interval_min_s is not None and interval_max_s is not None:
            self._norm.NormSetGrttProbingInterval(self.handle, interval_min_s, interval_max_s)

    def set_backoff_factor(self, factor: float) -> None:
        """How many round trip times receivers spread their NACKs over; 0 means they answer at once."""
        self._norm.NormSetBackoffFactor(self.handle, factor)

    def set_group_size(self, receivers: int) -> None:
        """The group size receivers assume when they draw their back-off."""
        self._norm.NormSetGroupSize(self.handle, receivers)

    def set_tx_robust_factor(self, factor: int) -> None:
        """How often commands such as FLUSH are repeated."""
        self._norm.NormSetTxRobustFactor(self.handle, factor)

    def open_stream(self, *, buffer_bytes: int = 4 << 20, info: bytes = b"") -> Stream:
        """Begin a stream; `info` travels as its NORM_INFO."""
        return self._sent(Stream, self._norm.NormStreamOpen(self.handle, buffer_bytes, info, len(info)))

    def enqueue_data(self, content: bytes, *, info: bytes = b"") -> Data:
        """Send a piece of memory as one object."""
        handle = self._norm.NormDataEnqueue(self.handle, content, len(content), info, len(info))
        item = self._sent(Data, handle)
        item.sent_bytes = content
        return item

    def enqueue_file(self, path: Path, *, info: bytes = b"") -> File:
        """Send a file as one object."""
        return self._sent(File, self._norm.NormFileEnqueue(self.handle, os.fsencode(path), info, len(info)))

    def add_acking_node(self, node_id: int) -> None:
        """Ask this node to acknowledge watermarks."""
        self._must(self._norm.NormAddAckingNode(self.handle, node_id), f"the acking node {node_id}")

    def remove_acking_node(self, node_id: int) -> None:
        """Ask this node no longer."""
        self._norm.NormRemoveAckingNode(self.handle, node_id)

    def set_watermark(self, item: NormObject, *, override_flush: bool = False) -> None:
        """Ask the acking nodes to acknowledge everything sent up to now, or to the end of an object.

        A libnorm receiver acknowledges a stream's bytes only after its program has read them.
        """
        self._must(self._norm.NormSetWatermark(self.handle, item.handle, override_flush), "the watermark")

    def acking_status(self, node_id: int = NODE_ANY) -> AckingStatus:
        """How far the watermark has come, with one node or with all of them."""
        return AckingStatus(self._norm.NormGetAckingStatus(self.handle, node_id))

    def wait_acknowledged(self, *, timeout_s: float) -> None:
        """Wait until every acking node has confirmed the watermark; raises when one did not."""
        self.instance.wait_until(lambda: self.acking_status() != AckingStatus.PENDING, timeout_s=timeout_s)
        if (status := self.acking_status()) != AckingStatus.SUCCESS:
            raise LibnormError(f"the watermark was not acknowledged: {status.name}")

    # --- receiver -------------------------------------------------------------------------------------------

    def start_receiver(self, *, buffer_bytes: int = 4 << 20) -> None:
        """Begin to receive; the buffer is per sender."""
        self._must(self._norm.NormStartReceiver(self.handle, buffer_bytes), "starting a receiver")

    def stop_receiver(self) -> None:
        """Stop receiving."""
        self._norm.NormStopReceiver(self.handle)

    def set_rx_socket_buffer(self, size_bytes: int) -> None:
        """Ask the kernel for this much room for receiving."""
        self._must(
            self._norm.NormSetRxSocketBuffer(self.handle, size_bytes), "the receive buffer (start first)"
        )

    def set_silent(self, silent: bool, *, delay_max_blocks: int = -1) -> None:
        """A silent receiver sends nothing, ever."""
        self._norm.NormSetSilentReceiver(self.handle, silent, delay_max_blocks)

    def set_unicast_nack(self, enable: bool) -> None:
        """Send feedback to the sender's address instead of to the group."""
        self._norm.NormSetDefaultUnicastNack(self.handle, enable)

    def set_sync_policy(self, policy: SyncPolicy) -> None:
        """Where to begin with a sender met in the middle."""
        self._norm.NormSetDefaultSyncPolicy(self.handle, policy)

    def set_nacking_mode(self, mode: NackingMode) -> None:
        """What to ask repair for."""
        self._norm.NormSetDefaultNackingMode(self.handle, mode)

    # --- life cycle -----------------------------------------------------------------------------------------

    def object_of(self, handle: int) -> NormObject:
        """The one Python object for a libnorm handle of this session."""
        item = self._objects.get(handle)
        if item is None:
            item = self._objects[handle] = wrap(self, handle)
        return item

    def forget(self, object_handle: int) -> None:
        """Called by an object that is released."""
        self._objects.pop(object_handle, None)

    def close(self) -> None:
        """Leave the group at once and release every object."""
        if self._handle is None:
            return
        self._norm.NormStopSender(self._handle)
        self._norm.NormStopReceiver(self._handle)
        for item in list(self._objects.values()):
            item.release()
        self._norm.NormDestroySession(self._handle)
        self.instance.forget(self._handle)
        self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _sent(self, kind: type[_Kind], handle: int | None) -> _Kind:
        self._must(
            bool(handle), f"sending a {kind.__name__.lower()} (is the sender started, is its queue full?)"
        )
        assert handle is not None
        item = kind(self, handle)
        self._objects[handle] = item
        return item

    def _must(self, succeeded: bool, what: str) -> None:
        if not succeeded:
            raise LibnormError(f"libnorm refused {what}")
