"""Checks that send and listen on this machine: D04, D05, D07, D11 and D14."""

from shoal.doctor.domain import Heard
from shoal.doctor.machine import Interface, Machine
from shoal.doctor.report import Finding

#: A query comes every 125 s (RFC 3376 8.2), and a little later.
QUERY_S = 130.0
#: A program that is woken so late may be taken for dead.
_LATE_S = 0.25


def loopback(machine: Machine, group: str) -> Finding:
    """D04: do programs of this machine hear each other by `lo`?"""
    lo = next((each for each in machine.interfaces() if each.loopback), None)
    if lo is None or not lo.up:
        return Finding("D04", "FAIL", "the loopback interface is switched off", "ip link set lo up")
    probe = machine.echo(lo, group)
    if probe.heard:
        return Finding("D04", "ok", f"multicast on {lo.name} comes back")
    why = f" ({probe.error})" if probe.error else ""
    text = f"multicast on {lo.name} does not come back{why}"
    return Finding("D04", "FAIL", text, "allow UDP on the loopback interface in the firewall of this machine")


def group(machine: Machine, address: str, port: int, heard: Heard) -> Finding:
    """D05: is the port free for the group, and do all programs there have our key and version?"""
    problem = machine.bind_problem(address, port)
    if problem is not None:
        text = f"another program has port {port} for itself: {problem}"
        return Finding(
            "D05", "FAIL", text, f"end it (ss -lunp 'sport = :{port}' names it), or use another `port`"
        )
    if heard.error:
        return Finding(
            "D05", "FAIL", f"cannot connect to the domain: {heard.error}", "correct the option it names"
        )
    for why in heard.unreadable:
        if "key" in why:
            return Finding("D05", "FAIL", why, "give all members the same key file (SHOAL_KEY_FILE)")
        if "version" in why:
            return Finding("D05", "FAIL", why, "run the same version of Shoal everywhere")
    if heard.unreadable:
        advice = "find that program: docs, Look at the traffic; or use another `domain`"
        return Finding("D05", "warn", f"heard what is not Shoal's: {heard.unreadable[0]}", advice)
    if not heard.members:
        return Finding("D05", "ok", f"port {port} can be shared; no other member was heard")
    return Finding("D05", "ok", f"heard {heard.members} members with our key and version")


def querier(machine: Machine, chosen: Interface, wait_s: float | None) -> Finding:
    """D07: is there an IGMP querier, without which a switch with snooping forgets the group?"""
    if wait_s is None:
        return Finding("D07", "skip", "a querier asks every 125 s: use --long to wait for it")
    if chosen.loopback:
        return Finding("D07", "skip", "no switch is involved on loopback")
    heard = machine.hears_query(wait_s)
    if heard is None:
        # An old querier shows in the version that the system speaks.
        table = machine.read("/proc/net/igmp") or ""
        old = any(
            f"{chosen.name} " in line and (" V2" in line or " V1" in line) for line in table.splitlines()
        )
        if old:
            return Finding("D07", "ok", f"an IGMPv2 querier was heard on {chosen.name} lately")
        return Finding("D07", "skip", "hearing IGMP queries needs CAP_NET_RAW: run it as root")
    if heard:
        return Finding("D07", "ok", f"an IGMP querier asks on {chosen.name}")
    text = f"no IGMP query came within {wait_s:g} s: a switch with snooping forgets the group"
    return Finding("D07", "warn", text, "enable the querier of a switch or router, or turn IGMP snooping off")


def firewall(machine: Machine, chosen: Interface, group: str, port: int) -> Finding:
    """D11: does the firewall of this machine let the domain's multicast out and in?"""
    if machine.bind_problem(group, port) is not None:
        return Finding("D11", "skip", f"another program has port {port}: see D05")
    probe = machine.echo(chosen, group, port)
    rules = f"allow UDP port {port} in, UDP from the others to any port, and UDP out"
    if probe.heard:
        return Finding("D11", "ok", f"multicast at port {port} leaves and enters by {chosen.name}")
    if probe.forbidden:
        text = f"the firewall forbids multicast out of {chosen.name}: {probe.error}"
        return Finding("D11", "FAIL", text, rules)
    if probe.error:
        return Finding("D11", "FAIL", f"multicast cannot leave by {chosen.name}: {probe.error}", rules)
    text = f"multicast at port {port} leaves by {chosen.name}, and does not enter: a firewall drops it"
    return Finding("D11", "FAIL", text, rules)


def timing(machine: Machine, heartbeat_s: float) -> Finding:
    """D14: is this program woken in time to say that it lives?"""
    late_s = machine.lateness_s(20, 0.01)
    if late_s > min(_LATE_S, heartbeat_s / 2):
        text = f"this program is woken up to {late_s * 1000:.0f} ms late: the machine is overloaded"
        return Finding("D14", "warn", text, "give it more processors, or use profile=busy")
    return Finding("D14", "ok", f"this program is woken at most {late_s * 1000:.1f} ms late")
