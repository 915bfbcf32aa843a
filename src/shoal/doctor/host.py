"""Checks of this machine: D01, D02, D03, D06, D08, D09, D10, D15 and D16."""

import socket
from collections.abc import Sequence

from shoal.doctor.machine import Interface, Machine
from shoal.doctor.report import Finding

#: The least receive buffer that a window of a publisher fits into.
_RECEIVE_BYTES_MIN = 1 << 20
#: Datagrams that may be dropped for want of room; fewer are repaired without trouble.
_DROPPED_MAX = 0.001
#: What a datagram has beside the data of its segment: IP, UDP and NORM headers, and a seal.
_HEADER_BYTES = 120
#: One group for each of sixteen sets of destinations, and a few besides.
_MEMBERSHIPS_MIN = 20
#: What a machine of a cloud calls its maker (DMI).
_CLOUDS = {
    "Amazon EC2": "Amazon EC2",
    "Google": "Google Cloud",
    "Microsoft Corporation": "Azure",
    "DigitalOcean": "DigitalOcean",
    "Hetzner": "Hetzner Cloud",
    "Alibaba Cloud": "Alibaba Cloud",
    "OpenStack Foundation": "OpenStack",
}


def choose(machine: Machine, wanted: str) -> Interface | None:
    """The interface that Shoal takes: the one named, or by itself as `interface=auto` says."""
    found = machine.interfaces()
    if wanted != "auto":
        return next((each for each in found if wanted in (each.name, each.address)), None)
    usable = [each for each in found if each.up and each.address]
    candidates = [each for each in usable if each.multicast and not each.loopback]
    route = machine.source_address("203.0.113.1")
    by_route = [each for each in candidates if each.address == route]
    loopback = [each for each in usable if each.loopback]
    return next(iter(by_route + candidates + loopback), None)


def interface(chosen: Interface | None, wanted: str, found: Sequence[Interface]) -> Finding:
    """D01: is there an interface, switched on, with a cable and multicast?"""
    there = ", ".join(each.name for each in found)
    if chosen is None and wanted != "auto":
        return Finding(
            "D01", "FAIL", f"there is no interface {wanted}; this machine has {there}", "correct `interface`"
        )
    if chosen is None or (chosen.loopback and wanted == "auto"):
        off = [each.name for each in found if not each.loopback and not each.up]
        remedy = f"ip link set {off[0]} up" if off else "connect this machine to a network"
        text = f"no interface can reach other machines ({there})"
        return Finding("D01", "FAIL", text, f"{remedy}; on this machine alone, interface=lo works")
    name = chosen.name
    if not chosen.up:
        return Finding("D01", "FAIL", f"{name} is switched off", f"ip link set {name} up")
    if not chosen.running:
        return Finding("D01", "FAIL", f"{name} has no carrier", "check its cable, and the switch's port")
    if chosen.address is None:
        return Finding("D01", "FAIL", f"{name} has no IPv4 address", "give it one, or start DHCP")
    if not chosen.multicast and not chosen.loopback:
        advice = f"ip link set {name} multicast on, or choose another with `interface`"
        return Finding("D01", "FAIL", f"{name} cannot do multicast", advice)
    return Finding("D01", "ok", f"{name} is up, {chosen.address}, multicast")


def several(chosen: Interface, wanted: str, found: Sequence[Interface]) -> Finding:
    """D02: may another interface have been meant?"""
    others = [
        each.name
        for each in found
        if each.up and each.running and each.address and each.multicast and not each.loopback
        if each.name != chosen.name
    ]
    if not others or wanted != "auto":
        return Finding("D02", "ok", f"{chosen.name} is taken")
    text = f"{chosen.name} is taken, and {', '.join(others)} could do multicast, too"
    return Finding(
        "D02", "warn", text, f"give interface={chosen.name} or another, the same network on all hosts"
    )


def route(machine: Machine, chosen: Interface, group: str) -> Finding:
    """D03: does the routing table lead to the group by that interface?"""
    source = machine.source_address(group)
    add = f"ip route add {group}/32 dev {chosen.name}"
    if source is None:
        text = (
            f"no route leads to {group}: Shoal names {chosen.name} itself, other programs cannot send there"
        )
        return Finding("D03", "warn", text, add)
    if source != chosen.address and not chosen.loopback:
        text = f"the route to {group} leaves from {source}, not from {chosen.name} ({chosen.address})"
        return Finding("D03", "warn", text, f"{add}, or give `interface` in every program")
    return Finding("D03", "ok", f"the route to {group} leads by {chosen.name}")


def igmp(machine: Machine, chosen: Interface, group: str) -> Finding:
    """D06: does the system join the group, and in which version of IGMP?"""
    try:
        with machine.joined(chosen, group):
            table = machine.read("/proc/net/igmp")
    except OSError as error:
        why = error.strerror or str(error)
        return Finding("D06", "FAIL", f"cannot join {group} on {chosen.name}: {why}", "see D16 and D01")
    if table is None:
        return Finding("D06", "skip", "/proc/net/igmp cannot be read")
    version, groups = _memberships(table).get(chosen.name, ("", frozenset()))
    if group not in groups:
        advice = "check that the kernel has CONFIG_IP_MULTICAST"
        return Finding("D06", "FAIL", f"{chosen.name} did not join {group}", advice)
    if version == "V1":
        advice = "replace the querier of this network: IGMPv1 cannot say that a host leaves"
        return Finding("D06", "warn", f"{chosen.name} speaks IGMPv1", advice)
    return Finding("D06", "ok", f"{chosen.name} joins groups, IGMP{version.lower()}")


def _memberships(table: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Of each interface the IGMP version and the groups that it joined."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    name = ""
    for line in table.splitlines()[1:]:
        words = line.replace(":", " : ", 1).split() if not line[:1].isspace() else line.split()
        if not line[:1].isspace() and len(words) >= 5:
            name = words[1]
            found[name] = (words[4], frozenset())
        elif name and words:
            version, groups = found[name]
            group = socket.inet_ntoa(int(words[0], 16).to_bytes(4, "little"))
            found[name] = (version, groups | {group})
    return found


def buffers(machine: Machine, wanted: int) -> Finding:
    """D08: is the receive buffer long enough, and does the kernel drop what programs do not read?"""
    granted = machine.granted_receive_bytes(wanted)
    if granted < min(wanted, _RECEIVE_BYTES_MIN):
        text = f"a program gets a receive buffer of {granted:,} bytes, and asks for {wanted:,}"
        return Finding("D08", "warn", text, f"sysctl -w net.core.rmem_max={max(wanted, 8 << 20)}")
    # Not the drops of /proc/net/udp: those count what a socket's filter leaves out, as Shoal's do.
    counts = _udp_counts(machine.read("/proc/net/snmp") or "")
    received, dropped = counts.get("InDatagrams", 0), counts.get("RcvbufErrors", 0)
    if dropped > _DROPPED_MAX * (received + dropped):
        share = dropped / (received + dropped)
        text = f"the kernel dropped {share:.1%} of what came by UDP since the start: programs read too slowly"
        return Finding(
            "D08", "warn", text, "read faster, or raise `receive_buffer_bytes` and net.core.rmem_max"
        )
    return Finding("D08", "ok", f"receive buffers of {granted:,} bytes, hardly anything dropped")


def _udp_counts(table: str) -> dict[str, int]:
    """The kernel's counters of UDP, by name."""
    lines = [line.split()[1:] for line in table.splitlines() if line.startswith("Udp:")]
    return dict(zip(lines[0], map(int, lines[1]), strict=True)) if len(lines) == 2 else {}


def offloads(machine: Machine) -> Finding:
    """D09: does the kernel cut and join datagrams?"""
    cuts, joins = machine.offloads()
    missing = [name for name, there in (("GSO", cuts), ("GRO", joins)) if not there]
    if missing:
        advice = "use Linux 5.0 or later; Shoal works, with a fraction of the throughput"
        return Finding("D09", "warn", f"the kernel has no UDP {' and no '.join(missing)}", advice)
    return Finding("D09", "ok", "the kernel has UDP GSO and GRO")


def mtu(machine: Machine, chosen: Interface, group: str, segment_bytes: int | None) -> Finding:
    """D10: does a full packet leave, and does a segment fit into one?"""
    if segment_bytes is not None and segment_bytes + _HEADER_BYTES > chosen.mtu:
        text = f"segment_bytes={segment_bytes} does not fit into a packet of {chosen.name} (MTU {chosen.mtu})"
        return Finding(
            "D10", "warn", text, "leave `segment_bytes` out; a lost fragment loses the whole datagram"
        )
    sent = machine.echo(chosen, group, size=chosen.payload_bytes)
    if sent.error:
        text = f"a packet of {chosen.mtu} bytes, the MTU of {chosen.name}, cannot be sent: {sent.error}"
        return Finding("D10", "warn", text, f"lower the MTU: ip link set {chosen.name} mtu 1500")
    return Finding("D10", "ok", f"{chosen.name} has an MTU of {chosen.mtu}")


def place(machine: Machine, chosen: Interface) -> Finding:
    """D15: is this a place where multicast usually does not work?"""
    maker = (machine.read("/sys/class/dmi/id/sys_vendor") or "").strip()
    product = (machine.read("/sys/class/dmi/id/product_name") or "").strip()
    tcp = "use tcp:// between machines: docs, Containers and clouds"
    cloud = _CLOUDS.get(maker) if maker != "Microsoft Corporation" or product == "Virtual Machine" else None
    if cloud is not None:
        return Finding("D15", "warn", f"this machine is in {cloud}, which carries no multicast", tcp)
    in_container = machine.exists("/.dockerenv") or machine.exists("/run/.containerenv")
    in_container = in_container or machine.environment("KUBERNETES_SERVICE_HOST") is not None
    if in_container and _is_virtual(machine, chosen):
        text = f"{chosen.name} is the network of a container, which carries no multicast to other hosts"
        return Finding("D15", "warn", text, f"run the container with the host's network, or {tcp}")
    if machine.exists(f"/sys/class/net/{chosen.name}/wireless"):
        text = f"{chosen.name} is Wi-Fi, which sends multicast slowly and without repair"
        return Finding("D15", "warn", text, "use a cable, or profile=wifi")
    return Finding("D15", "ok", "no container, cloud or Wi-Fi is in the way")


def _is_virtual(machine: Machine, chosen: Interface) -> bool:
    """Whether it is one end of a pair, whose other end is outside."""
    own = machine.read(f"/sys/class/net/{chosen.name}/ifindex")
    other = machine.read(f"/sys/class/net/{chosen.name}/iflink")
    return own is not None and other is not None and own.strip() != other.strip()


def limits(machine: Machine) -> Finding:
    """D16: how many groups may a program join?"""
    folder = "/proc/sys/net/ipv4"
    told = {name: machine.read(f"{folder}/{name}") for name in ("igmp_max_memberships", "igmp_max_msf")}
    memberships = told["igmp_max_memberships"]
    if memberships is None:
        return Finding("D16", "skip", f"{folder}/igmp_max_memberships cannot be read")
    if int(memberships) < _MEMBERSHIPS_MIN:
        text = f"a program may join {int(memberships)} groups"
        advice = f"sysctl -w net.ipv4.igmp_max_memberships={_MEMBERSHIPS_MIN}"
        return Finding("D16", "warn", text, advice)
    sources = "" if told["igmp_max_msf"] is None else f", {int(told['igmp_max_msf'])} sources in each"
    return Finding("D16", "ok", f"a program may join {int(memberships)} groups{sources}")
