"""Sides of `shoal bench check`: one host sends numbered datagrams, the other counts what comes, by path."""

import select
import socket
import time
from collections.abc import Mapping
from typing import Any

from shoal.processes.worker import Report, Role, is_told, run_role, wait_told

PATIENCE_S = 60.0
#: Between datagrams: a check looks for paths, not for speed.
GAP_S = 0.001


def hear(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Count datagrams to this host and to the group, until told and quiet."""
    group = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    alone = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with group, alone:
        group.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        group.bind((options["group"], options["port"]))
        wanted = socket.inet_aton(options["group"]) + socket.inet_aton(options["address"])
        group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, wanted)
        alone.bind((options["address"], options["port"]))
        report(1)
        counts = {group: 0, alone: 0}
        deadline = time.monotonic() + options["seconds"] + PATIENCE_S
        while time.monotonic() < deadline:
            readable, _, _ = select.select([group, alone], [], [], 0.3)
            if not readable and is_told():
                break
            for opened in readable:
                opened.recv(2048)
                counts[opened] += 1
    return {"multicast": counts[group], "unicast": counts[alone]}


def say(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Send datagrams to each target."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(options["address"]))
        report(1)
        wait_told(PATIENCE_S)
        for number in range(options["count"]):
            for target in options["targets"]:
                opened.sendto(number.to_bytes(8, "big"), (target, options["port"]))
            time.sleep(GAP_S)
    return {"sent": options["count"]}


ROLES: dict[str, Role] = {"hear": hear, "say": say}

if __name__ == "__main__":
    run_role(ROLES)
