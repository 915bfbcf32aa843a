"""Checks between two machines: D10, D11, D12, D13 and the clocks of D14, with an `Answerer` on the other one.

The two talk by TCP, a JSON object a line, and measure by UDP. Each measurement lasts half a second.
"""

import contextlib
import errno
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shoal.doctor.machine import Interface, Machine, member, sender
from shoal.doctor.report import Finding

#: Where an answerer listens: beside the ports of domains and their links.
PORT = 7476
#: How long each measurement sends, and how much longer its receiver listens.
MEASURE_S, SETTLE_S = 0.5, 0.3
#: A flood is no faster than a machine receives with a few per cent of a processor.
FLOOD_PER_S = 10_000
#: Less than any MTU: how long packets may be is another question.
_DATAGRAM_BYTES = 1200
_LINE_BYTES_MAX = 65_536
#: Multicast that is slower than unicast by more than this is limited on the way.
_SHARE_MIN = 0.5
#: Below this nothing can be said of a limit.
_ENOUGH_BIT_S = 1e6
#: The share of processor time that groups may take which no program here joined.
_SOFTIRQ_MAX = 0.2
_CLOCKS_APART_S = 1.0


@dataclass(frozen=True, slots=True)
class Count:
    """What a receiver got."""

    datagrams: int = 0
    bytes: int = 0
    #: From the first to the last.
    seconds: float = 0.0
    longest: int = 0

    @property
    def bit_s(self) -> float:
        """What came through, in bits per second; 0 if too little came to tell."""
        return 8 * self.bytes / self.seconds if self.seconds > 0 else 0.0


def receive(hears: socket.socket, word: bytes, seconds: float) -> Count:
    """Count the datagrams that begin with a word."""
    datagrams = total = longest = 0
    first = last = 0.0
    until = time.monotonic() + seconds
    hears.settimeout(0.05)
    while (now := time.monotonic()) < until:
        with contextlib.suppress(TimeoutError):
            datagram = hears.recv(65_535)
            if datagram.startswith(word):
                last = now
                first = first or now
                datagrams += 1
                total += len(datagram)
                longest = max(longest, len(datagram))
    return Count(datagrams, total, last - first, longest)


def send(
    sends: socket.socket,
    to: tuple[str, int],
    word: bytes,
    seconds: float,
    *,
    size: int = _DATAGRAM_BYTES,
    per_s: float | None = None,
) -> int:
    """Send datagrams that begin with a word, as fast as they go or at a rate: how many."""
    datagram = word.ljust(size, b"\0")
    began = time.monotonic()
    sent = 0
    while (passed := time.monotonic() - began) < seconds:
        if per_s is not None and sent > per_s * passed:
            time.sleep(0.001)
            continue
        try:
            sends.sendto(datagram, to)
            sent += 1
        except OSError as error:
            # The queue of the interface is full: the receiver tells what came through.
            if error.errno != errno.ENOBUFS:
                raise
    return sent


class Talk:
    """JSON objects over a TCP connection, one a line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._received = connection, b""

    def say(self, **what: object) -> None:
        """Send an object."""
        self._connection.sendall(json.dumps(what).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next object; raises `OSError` if none comes, `ValueError` if it makes no sense."""
        while b"\n" not in self._received:
            if len(self._received) > _LINE_BYTES_MAX:
                raise ValueError("a line without an end")
            more = self._connection.recv(4096)
            if not more:
                raise ConnectionError("the other end closed the connection")
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        what = json.loads(line)
        if not isinstance(what, dict):
            raise ValueError(f"not an object: {line[:40]!r}")
        return what

    def ask(self, **what: object) -> dict[str, Any]:
        """Send an object, and take the answer."""
        self.say(**what)
        return self.hear()


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two machines that measure: how they talk, and where they send."""

    talk: Talk
    interface: Interface
    address: str
    group: str
    port: int

    def towards(self, how: str, size: int = _DATAGRAM_BYTES, seconds: float = MEASURE_S) -> Count:
        """Send to the peer: what it got."""
        ready = self.talk.ask(ask="receive", how=how, seconds=seconds + SETTLE_S)
        to = (self.group if how == "multicast" else self.address, int(ready["port"]))
        with sender(self.interface) as sends:
            send(sends, to, bytes.fromhex(ready["word"]), seconds, size=size)
        told = self.talk.hear()
        return Count(int(told["datagrams"]), int(told["bytes"]), float(told["seconds"]), int(told["longest"]))

    def back(self, how: str) -> Count:
        """Have the peer send: what came."""
        with contextlib.ExitStack() as stack:
            hears = stack.enter_context(self._hearing(how))
            port, word = hears.getsockname()[1], time.monotonic_ns().to_bytes(8, "big")
            self.talk.say(ask="send", how=how, port=port, word=word.hex(), seconds=SETTLE_S)
            count = receive(hears, word, 2 * SETTLE_S)
            self.talk.hear()
            return count

    @contextlib.contextmanager
    def _hearing(self, how: str) -> Iterator[socket.socket]:
        if how == "multicast":
            with member(self.interface, self.group, self.port) as hears:
                yield hears
        else:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hears:
                hears.bind((self.interface.address or "", 0))
                yield hears


def measure(
    machine: Machine, chosen: Interface, peer: tuple[str, int], group: tuple[str, int]
) -> list[Finding]:
    """Run the checks that need a second machine."""
    name = peer[0]
    try:
        with socket.create_connection(peer, 3.0) as connection:
            connection.settimeout(5.0)
            talk = Talk(connection)
            hello = talk.ask(ask="hello")
            apart_s = abs(float(hello["time"]) - time.time())
            there = Meeting(talk, chosen, connection.getpeername()[0], *group)
            return [*_checks(machine, there, name, int(hello["mtu"])), *clocks(name, apart_s)]
    except (OSError, ValueError, KeyError) as error:
        text = f"cannot measure with {name}:{peer[1]}: {error}"
        advice = f"run `shoal doctor --answer` on {name}, and allow TCP port {peer[1]} there"
        return [Finding("D11", "FAIL", text, advice)] + [
            Finding(each, "skip", "the peer does not answer: see D11") for each in ("D12", "D13")
        ]


def _checks(machine: Machine, there: Meeting, name: str, mtu: int) -> list[Finding]:
    unicast, multicast = there.towards("unicast"), there.towards("multicast")
    came = {how: there.back(how).datagrams for how in ("unicast", "multicast")}
    full = there.towards("unicast", there.interface.payload_bytes, 0.05)
    return [
        paths(name, there.port, unicast.datagrams, came),
        goodput(name, unicast, multicast, came["multicast"]),
        _unjoined(machine, there),
        packets(name, there.interface, mtu, full),
    ]


def clocks(name: str, apart_s: float) -> list[Finding]:
    """D14: do the two machines have the same time? If they do, the check of this machine alone stands."""
    if apart_s <= _CLOCKS_APART_S:
        return []
    text = f"the clock of {name} is {apart_s:.1f} s apart from ours: messages with a ttl expire wrongly"
    return [Finding("D14", "warn", text, "synchronise the clocks (chrony, systemd-timesyncd)")]


def paths(name: str, port: int, out: int, came: dict[str, int]) -> Finding:
    """D11: does unicast pass in both directions, and multicast at all?"""
    rules = f"allow UDP port {port} in, UDP from the others to any port, and UDP out, on both machines"
    if not out:
        return Finding("D11", "FAIL", f"UDP from here does not reach {name}, TCP does: a firewall", rules)
    if not came["unicast"]:
        return Finding("D11", "FAIL", f"UDP of {name} does not come here, TCP does: a firewall", rules)
    return Finding("D11", "ok", f"UDP passes to {name} and back")


def goodput(name: str, unicast: Count, multicast: Count, came: int) -> Finding:
    """D12: does multicast reach the peer, and as fast as unicast?"""
    advice = "check snooping and its querier (D07), and storm control, on every switch between; or use tcp://"
    if unicast.datagrams and not multicast.datagrams:
        return Finding("D12", "FAIL", f"multicast from here does not reach {name}, unicast does", advice)
    if unicast.datagrams and not came:
        return Finding("D12", "FAIL", f"multicast of {name} does not come here", advice)
    if unicast.bit_s < _ENOUGH_BIT_S:
        return Finding("D12", "skip", f"too little came through to {name} to compare")
    rates = f"{multicast.bit_s / 1e6:.0f} Mbit/s by multicast, {unicast.bit_s / 1e6:.0f} by unicast"
    if multicast.bit_s < _SHARE_MIN * unicast.bit_s:
        text = f"a switch limits multicast to {multicast.bit_s / 1e6:.0f} Mbit/s ({rates} to {name})"
        return Finding("D12", "warn", text, "turn storm control for multicast off, or raise its limit")
    return Finding("D12", "ok", f"{name} gets {rates}")


def packets(name: str, chosen: Interface, theirs: int, full: Count) -> Finding:
    """D10: does a full packet of this machine arrive?"""
    if not full.datagrams:
        text = f"packets of {chosen.mtu} bytes do not reach {name}, whose MTU is {theirs}"
        return Finding("D10", "FAIL", text, "use the same MTU on all machines and switches")
    if theirs != chosen.mtu:
        text = f"{chosen.name} has an MTU of {chosen.mtu}, {name} one of {theirs}"
        return Finding("D10", "warn", text, "use the same MTU on all machines and switches")
    return Finding("D10", "ok", f"packets of {chosen.mtu} bytes reach {name}")


def _unjoined(machine: Machine, there: Meeting) -> Finding:
    """Have the peer flood a group that we are not in, and see what it costs here."""
    before = _jiffies(machine.read("/proc/stat")), _arrived(machine, there.interface)
    there.talk.ask(ask="flood", seconds=MEASURE_S)
    after = _jiffies(machine.read("/proc/stat")), _arrived(machine, there.interface)
    if before[0] is None or after[0] is None:
        return Finding("D13", "skip", "/proc/stat cannot be read")
    total = after[0][1] - before[0][1]
    share = (after[0][0] - before[0][0]) / total if total > 0 else 0.0
    return unjoined(share, after[1] - before[1])


def unjoined(share: float, arrived: int) -> Finding:
    """D13: do groups that no program here joined take processor time?"""
    if arrived < FLOOD_PER_S * MEASURE_S / 2:
        return Finding("D13", "ok", "groups that this machine did not join do not reach it")
    text = f"groups that this machine did not join reach it, and take {share:.0%} of its processors"
    if share > _SOFTIRQ_MAX:
        return Finding("D13", "warn", text, "turn IGMP snooping on, with a querier, in the switch")
    return Finding("D13", "ok", text)


def _jiffies(stat: str | None) -> tuple[int, int] | None:
    """Time in software interrupts, and all time."""
    words = (stat or "").partition("\n")[0].split()
    if len(words) < 8 or words[0] != "cpu":
        return None
    counts = list(map(int, words[1:9]))
    return counts[6], sum(counts)


def _arrived(machine: Machine, chosen: Interface) -> int:
    """Packets that an interface received."""
    for line in (machine.read("/proc/net/dev") or "").splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == chosen.name:
            return int(counts.split()[1])
    return 0
