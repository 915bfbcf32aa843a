"""A status as Prometheus reads it: the text format 0.0.4, or OpenMetrics 1.0.

Names follow Prometheus' conventions: base units, `_total` behind counters. A label's values are bounded:
`SERIES_MAX` links and backlogs have lines of their own, and the others one together, `other`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.monitor.link_series import OTHER, LinkSeries

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text"
OPEN_CONTENT_TYPE = f"{OPEN_METRICS}; version=1.0.0; charset=utf-8"
#: The name in a status, of the metric, its kind and what it is.
_Row = tuple[str, str, str, str]
_OWN: tuple[_Row, ...] = (
    ("uptime_s", "uptime_seconds", "gauge", "How long the connection is open."),
    ("members", "members", "gauge", "Nodes of the domain that it knows."),
    ("rss_bytes", "resident_memory_bytes", "gauge", "Memory of the process."),
    ("cpu_s", "cpu_seconds_total", "counter", "Processor time of the process."),
    ("filters_evaluated", "filters_evaluated_total", "counter", "Filters looked at for messages."),
    ("reloads", "reloads_total", "counter", "Files that were read again and used."),
    ("events_lost", "messages_lost_events_total", "counter", "Times that messages were told as lost here."),
    ("slow_members", "slow_members_total", "counter", "Times that a member was too slow for this publisher."),
)
#: Of each lane in `load`: what the node counted of messages.
_LANE: tuple[_Row, ...] = (
    ("received", "received_messages_total", "counter", "Messages received from links or published here."),
    ("evaluated", "evaluated_filters_total", "counter", "Filters looked at for these messages."),
    ("matched", "matched_messages_total", "counter", "Messages that a subscription wanted."),
    ("delivered", "delivered_messages_total", "counter", "Copies sent over links or put into queues here."),
    (
        "dropped_at_source",
        "dropped_at_source_messages_total",
        "counter",
        "Messages published here that no subscription wants.",
    ),
    ("bytes_in", "received_message_bytes_total", "counter", "Bytes of messages received or published."),
    ("bytes_out", "delivered_message_bytes_total", "counter", "Bytes of copies sent or put into queues."),
)
#: Of `capacity`: what the daemon estimates from its counters.
_CAPACITY: tuple[_Row, ...] = (
    ("load", "capacity_load_ratio", "gauge", "The share of a core that the process used."),
    ("received_msg_s", "capacity_received_messages_per_second", "gauge", "Messages received in a second."),
    ("processing_s", "capacity_processing_seconds", "gauge", "What a message costs the process."),
    ("headroom", "capacity_headroom_ratio", "gauge", "How many times this traffic one core carries."),
    ("mean_wait_s", "capacity_mean_wait_seconds", "gauge", "How long a message waits at this load."),
    ("low", "capacity_low", "gauge", "Whether the load has been above 80 % for 30 s."),
)
#: Of `statistics`: what iBus counted.
_STATISTICS: tuple[_Row, ...] = (
    ("messages_sent", "multicast_sent_messages_total", "counter", "Messages sent by multicast."),
    ("datagrams_sent", "multicast_sent_datagrams_total", "counter", "Datagrams of data sent once."),
    (
        "retransmit_requests",
        "retransmit_requests_total",
        "counter",
        "Datagrams that members asked for again.",
    ),
    (
        "epochs_acknowledged",
        "epochs_acknowledged_total",
        "counter",
        "Requests that every member acknowledged.",
    ),
    ("epoch_ack_total_s", "epoch_ack_seconds_total", "counter", "How long these acknowledgements took."),
    ("slept_s", "pacing_seconds_total", "counter", "How long data waited for the rate or the send delay."),
    ("send_delay_s", "send_delay_seconds", "gauge", "The least time from one datagram to the next now."),
)
_LINK: tuple[_Row, ...] = (
    ("up", "link_up", "gauge", "Whether the link carries messages."),
    ("bytes_sent", "link_sent_bytes_total", "counter", "Bytes sent over the link."),
    ("bytes_received", "link_received_bytes_total", "counter", "Bytes received over the link."),
    ("messages_sent", "link_sent_messages_total", "counter", "Messages sent over the link."),
    ("messages_received", "link_received_messages_total", "counter", "Messages received over the link."),
    ("repairs_sent", "link_repairs_sent_total", "counter", "Segments or parity sent again."),
    ("unacknowledged_bytes", "link_unacknowledged_bytes", "gauge", "Bytes sent that were not acknowledged."),
    ("unsent_bytes", "link_unsent_bytes", "gauge", "Bytes that wait to be sent."),
    ("round_trip_s", "link_round_trip_seconds", "gauge", "How long an answer takes."),
    ("rate_bytes_per_s", "link_rate_bytes_per_second", "gauge", "What rate control allows."),
    ("connections", "link_connections", "gauge", "Connections that a listener has."),
    ("turned_away", "link_turned_away_total", "counter", "Connections that a listener closed at once."),
    ("refused", "link_refused_total", "counter", "Connections that a listener refused: why is in the log."),
)
_STORE: tuple[_Row, ...] = (
    ("log_bytes", "store_log_bytes", "gauge", "What the store's log takes on its disk."),
    ("free_bytes", "store_free_bytes", "gauge", "What is free on that disk."),
    ("queues_count", "store_queues", "gauge", "Queues of the store."),
    ("subscriptions_count", "store_subscriptions", "gauge", "Durable subscriptions of the store."),
    ("sessions_count", "store_sessions", "gauge", "Clients of the store."),
    ("unpublished_rows", "store_unpublished_messages", "gauge", "Stored messages that wait for multicast."),
)
#: Of each queue and each durable subscription.
_BACKLOG: tuple[_Row, ...] = (
    ("messages", "messages", "gauge", "Messages that are not acknowledged."),
    ("bytes", "bytes", "gauge", "Their bytes."),
    ("in_flight", "in_flight_messages", "gauge", "Messages that consumers have."),
    ("consumers", "consumers", "gauge", "Consumers."),
    ("oldest_s", "oldest_age_seconds", "gauge", "How long the oldest message is kept."),
)
_Sample = tuple[Mapping[str, str], float]


class Exposition:
    """The metrics of one process, for as long as it is asked for them. May be shared between threads."""

    def __init__(self) -> None:
        self._links = LinkSeries()

    def text(self, status: Mapping[str, Any], *, open_metrics: bool = False) -> str:
        """All of it."""
        lines = _Lines(open_metrics)
        labels = {"name": status["name"], "domain": status["domain"], "version": status["version"]}
        lines.add("info", "gauge", "Which node this is.", [(labels, 1)])
        _plain(lines, _OWN, status)
        load = status.get("load") or {"lanes": ()}
        if "cpu_ns" in load:
            about = "Processor time of the node's threads."
            lines.add("node_cpu_seconds_total", "counter", about, [({}, load["cpu_ns"] / 1e9)])
        _series(lines, _LANE, [({"lane": lane["lane"]}, lane) for lane in load["lanes"]])
        _plain(lines, _CAPACITY, status.get("capacity") or {})
        _plain(lines, _STATISTICS, status.get("statistics", {}))
        _series(lines, _LINK, self._links.rows(status["links"]))
        if (store := status.get("store")) is not None:
            _store(lines, store)
        return lines.text()


def _store(lines: "_Lines", store: Mapping[str, Any]) -> None:
    _plain(lines, _STORE, store)
    _plain(lines, (("messages", "store_recorded_messages_total", "counter", "Recorded."),), store["recorded"])
    for kind, label in (("queues", "queue"), ("subscriptions", "subscription")):
        found = [({label: each["name"]}, each) for each in store[kind]]
        if (others := store.get(f"other_{kind}")) is not None:
            found.append(({label: OTHER}, others))
        _series(lines, [(key, f"{label}_{name}", form, what) for key, name, form, what in _BACKLOG], found)


def _plain(lines: "_Lines", rows: Iterable[_Row], found: Mapping[str, Any]) -> None:
    for key, name, kind, what in rows:
        if found.get(key) is not None:
            lines.add(name, kind, what, [({}, found[key])])


def _series(
    lines: "_Lines", rows: Iterable[_Row], found: Sequence[tuple[Mapping[str, str], Mapping[str, Any]]]
) -> None:
    """A family for each row, with a line for each series."""
    for key, name, kind, what in rows:
        samples = [(labels, each[key]) for labels, each in found if each.get(key) is not None]
        if samples:
            lines.add(name, kind, what, samples)


class _Lines:
    """The text as it grows."""

    def __init__(self, open_metrics: bool) -> None:
        self._open, self._lines = open_metrics, list[str]()

    def add(self, name: str, kind: str, what: str, samples: Iterable[_Sample]) -> None:
        """One family."""
        family = name.removesuffix("_total") if self._open and kind == "counter" else name
        self._lines.append(f"# HELP shoal_{family} {what}")
        self._lines.append(f"# TYPE shoal_{family} {kind}")
        for labels, value in samples:
            told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items() if text)
            self._lines.append(f"shoal_{name}{f'{{{told}}}' if told else ''} {float(value):.10g}")

    def text(self) -> str:
        """All lines."""
        return "\n".join([*self._lines, *(["# EOF"] if self._open else []), ""])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
