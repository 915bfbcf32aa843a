"""One end of a flow through a bottleneck, by NORM or TCP, for a process of its own (see `workers`).

A sender sends as much as its control lets it for as long as it is told; a receiver notes how much came when.
Times are of the machine's one monotonic clock, so that those of several processes compare.
"""

import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from shoal._core import NormLink
from shoal.errors import ClosedError
from shoal.processes.worker import Report, Role, is_told, run_role, wait_told
from shoal_bench.errors import ExperimentError

BODY = bytes(16_384)
SAMPLE_S = 0.02
TRACE_S = 0.1
PATIENCE_S = 20.0


class Arrivals:
    """How many bytes had come at which time."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, int]] = [(time.monotonic(), 0)]
        self._bytes = 0

    def add(self, count: int) -> None:
        """So many more came."""
        self._bytes += count
        now = time.monotonic()
        if now - self.samples[-1][0] >= SAMPLE_S:
            self.samples.append((now, self._bytes))

    def result(self) -> dict[str, Any]:
        """What the parent gets."""
        return {"samples": [*self.samples, (time.monotonic(), self._bytes)]}


def _link(options: dict[str, Any], **more: Any) -> NormLink:
    return NormLink(
        options["node"],
        group=options["group"],
        port=options["port"],
        interface="eth0",
        seed=options["seed"],
        **more,
    )


def norm_send(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Send for as long as asked, and note what rate control did meanwhile."""
    link = _link(options, receive=False, segment_bytes=options["segment_bytes"], **options["norm"])
    report(1)
    wait_told()
    began_s = time.monotonic()
    sending = threading.Thread(target=_send_all, args=(link.send,))
    sending.start()
    trace = []
    while (now := time.monotonic()) < began_s + options["seconds"]:
        stats = link.stats()
        trace.append(
            {
                "at_s": now - began_s,
                "rate_bytes_per_s": link.rate_bytes_per_s,
                "grtt_s": link.grtt_s,
                "segments_sent": stats["segments_sent"],
                "repairs_sent": stats["repairs_sent"],
            }
        )
        time.sleep(TRACE_S)
    link.close(0.0)
    sending.join()
    return {"began_s": began_s, "trace": trace, "stats": link.stats()}


def _send_all(send: Callable[[bytes], None]) -> None:
    try:
        while True:
            send(BODY)
    except ClosedError:
        pass


def norm_receive(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Count what comes until the parent says that it is over."""
    link = _link(options, sync="start", lanes=0)
    report(1)
    arrivals = Arrivals()
    while not is_told():
        for kind, fields in link.receive(timeout_s=SAMPLE_S):
            if kind == "message":
                arrivals.add(len(fields["body"]))
            elif kind in ("gap", "broken"):
                raise ExperimentError(f"the stream lost something: {kind} {fields}")
    link.close(0.0)
    return arrivals.result()


def tcp_send(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Send for as long as asked, as the kernel's congestion control lets us."""
    report(1)
    wait_told()
    with socket.create_connection((options["to"], options["port"]), timeout=PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, options["control"].encode())
        began_s = time.monotonic()
        while time.monotonic() < began_s + options["seconds"]:
            connection.sendall(BODY)
    return {"began_s": began_s}


def tcp_receive(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Count what comes until the connection ends."""
    with socket.create_server(("", options["port"])) as server:
        server.settimeout(PATIENCE_S)
        report(1)
        connection, _ = server.accept()
    arrivals = Arrivals()
    with connection:
        connection.settimeout(PATIENCE_S)
        while piece := connection.recv(1 << 16):
            arrivals.add(len(piece))
    return arrivals.result()


ROLES: dict[str, Role] = {
    "norm send": norm_send,
    "norm receive": norm_receive,
    "tcp send": tcp_send,
    "tcp receive": tcp_receive,
}

if __name__ == "__main__":
    run_role(ROLES)
