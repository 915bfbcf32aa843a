"""The part of `shoal demo` that moves bulk data by NORM between two processes, and compares every byte."""

import socket
from collections.abc import Callable, Mapping
from typing import Any

from shoal import _core
from shoal.errors import ProcessFailedError
from shoal.processes.worker import Report, Worker, run_role

GROUP = "239.192.74.202"
SENDER, RECEIVER = 1, 2
MESSAGE_BYTES = 1 << 16
WINDOW_BYTES = 8 << 20
PATIENCE_S = 10.0


def run(count: int, watch: Callable[[Worker], None]) -> float:
    """Move `count` bytes; `watch` follows the receiver while it runs. Returns the goodput in Gbit/s."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port = int(probe.getsockname()[1])
    with Worker(__name__, "receive", port=port) as receiver:
        receiver.wait_ready()
        with Worker(__name__, "send", port=port, count=count) as sender:
            watch(receiver)
            sent, received = sender.result(), receiver.result()
    if sent["bytes"] != received["bytes"]:
        raise ProcessFailedError(f"{sent['bytes']} bytes were sent, {received['bytes']} arrived")
    return float(received["bytes"] * 8 / received["seconds"] / 1e9)


def _session(port: int) -> dict[str, Any]:
    return {
        "group": GROUP,
        "port": port,
        "interface": "lo",
        "segment_bytes": 1400,
        # A single receiver has no other receiver's NACK to wait for.
        "backoff_factor": 0,
        "sync": "start",
        "receive_buffer_bytes": 4 * WINDOW_BYTES,
        "window_bytes": WINDOW_BYTES,
        "cache_bytes": 2 * WINDOW_BYTES,
    }


def _send(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    return _checked(
        _core.norm_send_bulk(
            SENDER,
            options["count"],
            MESSAGE_BYTES,
            linger_s=PATIENCE_S,
            progress=report,
            ackers=[RECEIVER],
            **_session(options["port"]),
        )
    )


def _receive(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    return _checked(
        _core.norm_receive_bulk(
            RECEIVER, MESSAGE_BYTES, patience_s=PATIENCE_S, progress=report, **_session(options["port"])
        )
    )


def _checked(report: dict[str, Any]) -> dict[str, Any]:
    if report["fault"] is not None:
        raise ProcessFailedError(report["fault"])
    return report


if __name__ == "__main__":
    run_role({"send": _send, "receive": _receive})
