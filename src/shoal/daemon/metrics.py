"""A daemon's status as Prometheus reads it (text format 0.0.4)."""

from collections.abc import Iterable, Mapping
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Of the daemon: the name in its status, of the metric, its kind and what it is.
_OWN = (
    ("uptime_s", "uptime_seconds", "gauge", "How long the daemon runs."),
    ("members", "members", "gauge", "Nodes of the domain that it knows."),
    ("rss_bytes", "resident_memory_bytes", "gauge", "Memory of the process."),
    ("cpu_s", "cpu_seconds_total", "counter", "Processor time of the process."),
    ("filters_evaluated", "filters_evaluated_total", "counter", "Filters looked at for messages."),
    ("reloads", "reloads_total", "counter", "Files that were read again and used."),
    ("events_lost", "messages_lost_events_total", "counter", "Times that messages were told as lost here."),
)
#: Of each link.
_LINK = (
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


def text(status: Mapping[str, Any]) -> str:
    """All of it."""
    lines: list[str] = []
    labels = {"name": status["name"], "domain": status["domain"], "version": status["version"]}
    _add(lines, "info", "gauge", "Which daemon this is.", [(labels, 1)])
    for key, name, kind, what in _OWN:
        if status.get(key) is not None:
            _add(lines, name, kind, what, [({}, status[key])])
    for key, name, kind, what in _LINK:
        samples = [
            ({"link": link["name"], "peer": link.get("peer") or ""}, link[key])
            for link in status["links"]
            if link.get(key) is not None
        ]
        if samples:
            _add(lines, name, kind, what, samples)
    return "\n".join(lines) + "\n"


def _add(
    lines: list[str], name: str, kind: str, what: str, samples: Iterable[tuple[Mapping[str, str], float]]
) -> None:
    lines.append(f"# HELP shoal_{name} {what}")
    lines.append(f"# TYPE shoal_{name} {kind}")
    for labels, value in samples:
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items() if text)
        lines.append(
            f"shoal_{name}{{{told}}} {float(value):.10g}" if told else f"shoal_{name} {float(value):.10g}"
        )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
