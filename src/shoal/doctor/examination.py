"""Runs the checks in turn, and skips those that make no sense here."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from shoal.config import ConnectionConfig
from shoal.doctor import host, services, traffic
from shoal.doctor.domain import Heard, Listener
from shoal.doctor.machine import PROBE_GROUP, Interface, Machine, is_ipv4
from shoal.doctor.peer import PORT, measure
from shoal.doctor.report import Finding, Report, ordered


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to examine."""

    #: Another machine on which `shoal doctor --answer` runs.
    peer: str | None = None
    #: Where it listens.
    peer_port: int = PORT
    #: How long to wait for an IGMP query; `None` does not wait.
    querier_s: float | None = None
    #: How long to listen to the domain; by default long enough for two heartbeats.
    listen_s: float | None = None


def examine(
    config: ConnectionConfig,
    options: Options = Options(),
    machine: Machine | None = None,
    listen: Callable[[ConnectionConfig, float], Heard] | None = None,
) -> Report:
    """Run every check.

    Args:
        config: the connection that has to work, as `shoal.config.resolve` makes it.
        options: how to examine.
        machine: the system; this one unless a test gives another.
        listen: what hears the domain; joins it unless a test gives another.
    """
    machine = machine or Machine()
    found = machine.interfaces()
    chosen = host.choose(machine, config.interface)
    findings = [host.interface(chosen, config.interface, found)]
    usable = chosen is not None and findings[0].verdict == "ok"
    wait_s = options.listen_s if options.listen_s is not None else min(2 * config.heartbeat_s + 0.5, 8.5)
    # It listens while the other checks run.
    hears: Callable[[], Heard] = Heard
    if usable:
        hears = Listener(config, wait_s).heard if listen is None else lambda: listen(config, wait_s)
    findings += _of_the_machine(machine, config)
    group = config.group_address()
    if not is_ipv4(group):
        skipped = ("D02", "D03", "D06", "D07", "D10", "D11", "D12", "D13", "D15")
        findings += [Finding(each, "skip", "the group is of IPv6, this check of IPv4") for each in skipped]
    elif chosen is None or not usable:
        skipped = ("D02", "D03", "D06", "D07", "D10", "D11", "D12", "D13", "D15")
        findings += [Finding(each, "skip", "there is no interface: see D01") for each in skipped]
    else:
        findings += _of_the_network(machine, config, chosen, options)
    heard = hears()
    if usable and is_ipv4(group):
        findings.append(traffic.group(machine, group, config.port, heard))
    else:
        findings.append(Finding("D05", "skip", "there is no interface: see D01"))
    now = datetime.datetime.now(datetime.UTC)
    findings.append(services.services(machine, config, heard, now))
    return ordered(findings)


def _of_the_machine(machine: Machine, config: ConnectionConfig) -> list[Finding]:
    """What does not depend on an interface."""
    return [
        traffic.loopback(machine, PROBE_GROUP),
        host.buffers(machine, config.receive_buffer_bytes),
        host.offloads(machine),
        traffic.timing(machine, config.heartbeat_s),
        host.limits(machine),
    ]


def _of_the_network(
    machine: Machine, config: ConnectionConfig, chosen: Interface, options: Options
) -> list[Finding]:
    """What depends on the interface."""
    port = config.port
    findings = [
        host.several(chosen, config.interface, machine.interfaces()),
        host.route(machine, chosen, config.group_address()),
        host.igmp(machine, chosen, PROBE_GROUP),
        traffic.querier(machine, chosen, options.querier_s),
        host.place(machine, chosen),
    ]
    local = [
        host.mtu(machine, chosen, PROBE_GROUP, config.segment_bytes),
        traffic.firewall(machine, chosen, PROBE_GROUP, port),
    ]
    if options.peer is None or any(finding.verdict == "FAIL" for finding in local):
        why = "needs --peer" if options.peer is None else "multicast does not leave this machine: see D11"
        return findings + local + [Finding(each, "skip", why) for each in ("D12", "D13")]
    return findings + local + measure(machine, chosen, (options.peer, options.peer_port), (PROBE_GROUP, port))
