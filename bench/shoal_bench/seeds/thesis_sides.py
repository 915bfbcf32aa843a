"""Sides of the thesis's experiments, a process each: bare UDP from Python and C, and Shoal's bus and JMS."""

import json
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import shoal
from shoal import jms
from shoal.processes.worker import Report, Role, run_role, wait_told
from shoal_bench.bodies import Bodies
from shoal_bench.cpu import CpuClock
from shoal_bench.errors import ExperimentError

TOPIC = "thesis/data"
PATIENCE_S = 60.0
#: A receiver of UDP ends after this much silence.
SILENCE_S = 0.5
RECEIVE_BUFFER_BYTES = 8 << 20
#: Messages between two looks at the clock.
RUN = 64


def udp_send(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Send as fast as it goes, one message a call."""
    report(1)
    wait_told()
    if options["native"]:
        return _native("send", options, options["seconds"])
    body, where = bytes(options["size"]), (options["address"], options["port"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(options["interface"]))
        sent, began = 0, time.monotonic()
        while (now := time.monotonic()) < began + options["seconds"]:
            for _ in range(RUN):
                opened.sendto(body, where)
            sent += RUN
    return {"sent": sent, "seconds": now - began}


def udp_receive(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Count what arrives, one message a call, until nothing does."""
    if options["native"]:
        return _native("receive", options, PATIENCE_S, report)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        opened.bind((options["address"], options["port"]))
        if options["multicast"]:
            wanted = socket.inet_aton(options["address"]) + socket.inet_aton(options["interface"])
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, wanted)
        report(1)
        opened.settimeout(PATIENCE_S)
        received, first, last = 0, 0.0, 0.0
        try:
            while True:
                opened.recvfrom(65536)
                last = time.monotonic()
                if not received:
                    first = last
                    opened.settimeout(SILENCE_S)
                received += 1
        except TimeoutError:
            return {"received": received, "seconds": last - first}


def _native(
    role: str, options: Mapping[str, Any], seconds: float, report: Report | None = None
) -> Mapping[str, Any]:
    words = [options[name] for name in ("address", "port", "interface", "size")]
    command = [options["native"], role, *map(str, (*words, seconds))]
    said: Mapping[str, Any] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line)
            if report is not None and "ready" in said:
                report(1)
    if process.returncode:
        raise ExperimentError(f"{Path(options['native']).name} {role} ended with status {process.returncode}")
    return said


def _connect(options: Mapping[str, Any]) -> shoal.Bus:
    make = shoal.listen if options.get("listens") else shoal.connect
    return make(options["url"], **options.get("connection", {}))


def publish(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish numbered bodies as fast as they are taken, for the time asked for, through the bus or JMS."""
    bodies = Bodies(options["size"])
    with _connect(options) as bus:
        if not bus.wait_for_subscribers(TOPIC, options["subscribers"], PATIENCE_S):
            raise ExperimentError(f"only {len(bus.members)} of {options['subscribers']} subscribers came")
        with jms.ConnectionFactory(bus=bus).create_connection() as connection:
            session = connection.create_session()
            producer = session.create_producer(session.create_topic(TOPIC))
            producer.delivery_mode = jms.DeliveryMode.NON_PERSISTENT
            report(1)
            wait_told()
            used, count, began = CpuClock(), 0, time.monotonic()
            resident_mb = [_resident_mb()]
            while (now := time.monotonic()) < began + options["seconds"]:
                for _ in range(RUN):
                    if options["api"] == "jms":
                        producer.send(session.create_bytes_message(bodies[count]))
                    else:
                        bus.publish(TOPIC, bodies[count])
                    count += 1
                if now > began + len(resident_mb) * options["seconds"] / 4:
                    resident_mb.append(_resident_mb())
        bus.flush(PATIENCE_S)
        took_s = time.monotonic() - began
        stats, members = dict(bus.stats()), len(bus.members)
        return {
            "sent": count,
            "seconds": took_s,
            "cpu_s": used.elapsed_s(),
            "rss_growth_mb": _resident_mb() - resident_mb[min(1, len(resident_mb) - 1)],
            "stats": stats,
            "members": members,
        }


def listen(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Count and check what a listener is called with, until the parent says that all was sent."""
    check = _Check(Bodies(options["size"]))
    with _connect(options) as bus:
        if options["api"] == "jms":
            with jms.ConnectionFactory(bus=bus).create_context() as context:
                consumer = context.create_consumer(context.create_topic(TOPIC))
                consumer.message_listener = lambda message: check.take(message.body)
                report(1)
                wait_told(PATIENCE_S + 2 * options["seconds"])
                check.wait_quiet()
        else:
            bus.subscribe(TOPIC, lambda message: check.take(message.body))
            report(1)
            wait_told(PATIENCE_S + 2 * options["seconds"])
            check.wait_quiet()
        lost = sum(
            event.last - event.first + 1
            for event in bus.events(timeout_s=0.0)
            if isinstance(event, shoal.MessagesLost)
        )
    return {"received": check.count, "seconds": check.last_s - check.first_s, "lost": lost, "bad": check.bad}


class _Check:
    """Counts bodies in order; `bad` are those that are not the next."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.count = self.bad = 0
        self.first_s = self.last_s = 0.0
        self._lock = threading.Lock()

    def take(self, body: object) -> None:
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s
        if body != self._bodies[self.count]:
            self.bad += 1
        self.count += 1

    def wait_quiet(self) -> None:
        """Wait until a listener has taken all that its node has."""
        while time.monotonic() - self.last_s < SILENCE_S:
            time.sleep(0.05)


def _resident_mb() -> float:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize() / 1e6


ROLES: dict[str, Role] = {
    "udp send": udp_send,
    "udp receive": udp_receive,
    "publish": publish,
    "listen": listen,
}

if __name__ == "__main__":
    run_role(ROLES)
