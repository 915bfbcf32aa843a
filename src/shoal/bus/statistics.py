"""How a publisher fares, in the figures that iBus//MessageBus printed with `NAK(statistics=1)`."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Statistics:
    """What a connection sent by multicast, and how members took it. All figures but `send_delay_s` only grow.

    Printed, it has the six lines of iBus.
    """

    #: Messages that went out over multicast links.
    messages_sent: int = 0
    #: Datagrams of data that were sent for the first time.
    datagrams_sent: int = 0
    #: Datagrams that members asked for again.
    retransmit_requests: int = 0
    #: How often every member acknowledged what a request for acknowledgement asked for.
    epochs_acknowledged: int = 0
    #: How long those took from the request to the last answer, in all.
    epoch_ack_total_s: float = 0.0
    #: How long data waited for `rate_bytes_per_s`, `send_delay_s` or the rate control, in all.
    slept_s: float = 0.0
    #: From the first datagram of data to the last, without pauses in which nothing waited to be sent.
    gap_total_s: float = 0.0
    #: Datagrams that another one followed.
    gaps: int = 0
    #: The least time from one full datagram to the next, as it is now.
    send_delay_s: float = 0.0

    @property
    def retransmit_share(self) -> float:
        """Datagrams that members asked for again, as a share of those sent."""
        return self.retransmit_requests / self.datagrams_sent if self.datagrams_sent else 0.0

    @property
    def epoch_ack_s(self) -> float | None:
        """The mean time until every member acknowledged; `None` if none was asked."""
        return self.epoch_ack_total_s / self.epochs_acknowledged if self.epochs_acknowledged else None

    @property
    def gap_s(self) -> float | None:
        """The mean time between two datagrams of data; `None` before the second one."""
        return self.gap_total_s / self.gaps if self.gaps else None

    def since(self, earlier: "Statistics") -> "Statistics":
        """The same between an earlier look and this one."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "send_delay_s"]
        grown = {name: getattr(self, name) - getattr(earlier, name) for name in names}
        return dataclasses.replace(self, **grown)

    def __str__(self) -> str:
        return "\n".join(
            (
                f"messages sent: {self.messages_sent}",
                f"retransmit req: {self.retransmit_requests} ({100 * self.retransmit_share:.4f}%)",
                f"epoch ack ave ms: {_ms(self.epoch_ack_s)}",
                f"current send delay: {_ms(self.send_delay_s)}",
                f"ms slept: {_ms(self.slept_s)}",
                f"average elapsed btwn sends: {_ms(self.gap_s)}",
            )
        )


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.5g}"


def statistics_of(stats: Mapping[str, int], messages_sent: int, send_delay_s: float) -> Statistics:
    """The statistics of a session's counters."""
    return Statistics(
        messages_sent=messages_sent,
        datagrams_sent=stats.get("segments_sent", 0),
        retransmit_requests=stats.get("repairs_requested", 0),
        epochs_acknowledged=stats.get("epochs_acknowledged", 0),
        epoch_ack_total_s=stats.get("epoch_ack_ns", 0) / 1e9,
        slept_s=stats.get("pacing_ns", 0) / 1e9,
        gap_total_s=stats.get("send_gap_ns", 0) / 1e9,
        gaps=stats.get("send_gap_datagrams", 0),
        send_delay_s=send_delay_s,
    )


def of_links(stats: Mapping[str, int], links: list[Mapping[str, Any]]) -> Statistics:
    """The statistics of a node, whose multicast links are as the extension tells of them."""
    messages = sum(int(link.get("messages_sent", 0)) for link in links)
    delay_s = max((float(link.get("send_delay_s", 0.0)) for link in links), default=0.0)
    return statistics_of(stats, messages, delay_s)
