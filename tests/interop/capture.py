"""What was on the wire, as Wireshark understands it.

`with capture(port) as wire:` records everything on `lo` to or from a UDP port; afterwards `wire.packets`
holds what tshark's NORM dissector made of each datagram. Start and end are certain: a datagram of ours with a
unique text is sent until it shows up in the recording, before the test's traffic and after it.

Of libnorm's FEC encodings Wireshark 4.0 understands only 129 in every message: with 5 it takes DATA with a
header extension for malformed, with 2 the commands and NACKs that carry a payload id. A SQUELCH that names
invalid objects is malformed to it in all of them: it reads four bytes for each number, which has two (RFC
5740 section 4.2.3).
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PATIENCE_S = 60.0
TYPES = {1: "INFO", 2: "DATA", 3: "CMD", 4: "NACK", 5: "ACK", 6: "REPORT"}
FLAVORS = {1: "FLUSH", 2: "EOT", 3: "SQUELCH", 4: "CC", 5: "REPAIR_ADV", 6: "ACK_REQ", 7: "APPLICATION"}
FIELDS = (
    "norm.type",
    "norm.flavor",
    "_ws.malformed",
    "_ws.expert.message",
    "udp.srcport",
    "norm.flags",
    "norm.ack.type",
    "norm.hexext",
    "rmt-fec.esi",
    "rmt-fec.sbl",
    "ip.dst",
    "ip.ttl",
)
FILE, STREAM = 0x10, 0x20


@dataclass(frozen=True)
class Packet:
    """One datagram: its NORM message type (and command flavor), and what the dissector complained about."""

    type: str | None
    flavor: str | None
    malformed: bool
    complaints: str
    source_port: int
    flags: int = 0
    ack_type: int | None = None
    extensions: int = 0
    """How many header extensions the dissector read."""
    parity: bool = False
    """Whether it carries a parity symbol, as far as its payload id tells (fec_id 129 only)."""
    to: str = ""
    ttl: int = 0

    @property
    def object_kind(self) -> str:
        """`file`, `stream` or `data`, for INFO and DATA."""
        return "file" if self.flags & FILE else "stream" if self.flags & STREAM else "data"

    @property
    def kind(self) -> str:
        """`DATA`, `CMD FLUSH` and so on; `?` for what is not NORM."""
        return " ".join(part for part in (self.type or "?", self.flavor) if part)


@dataclass
class Capture:
    """A recording; `packets` is filled when it ends."""

    port: int
    packets: list[Packet] = field(default_factory=list)

    def kinds(self) -> set[str]:
        """Every kind of message seen."""
        return {packet.kind for packet in self.packets}

    def malformed(self) -> list[Packet]:
        """What is not well-formed NORM."""
        return [packet for packet in self.packets if packet.malformed or packet.type is None]


@contextlib.contextmanager
def capture(port: int) -> Iterator[Capture]:
    """Record the traffic of `port` on `lo` while the block runs."""
    _need_tools()
    wire = Capture(port)
    with (
        tempfile.TemporaryDirectory() as directory,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as marker,
    ):
        recording = Path(directory) / "wire.pcapng"
        marker.bind(("127.0.0.1", 0))
        # To standard output dumpcap writes every packet at once; a file of its own it fills in larger steps.
        command = ["dumpcap", "-q", "-B", "32", "-i", "lo", "-f", f"udp port {port}", "-w", "-"]
        with recording.open("wb") as output:
            recorder = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE)
            try:
                _mark(marker, port, recording, recorder)
                yield wire
                _mark(marker, port, recording, recorder)
            finally:
                recorder.terminate()
                recorder.communicate(timeout=PATIENCE_S)
        wire.packets += _dissect(recording, port, without_port=marker.getsockname()[1])


def _mark(marker: socket.socket, port: int, recording: Path, recorder: "subprocess.Popen[bytes]") -> None:
    """Send a unique text to the port until it is in the recording: then all sent before it is there too."""
    text = secrets.token_hex(16).encode()
    deadline = time.monotonic() + PATIENCE_S
    while text not in recording.read_bytes():
        if recorder.poll() is not None:
            said = recorder.stderr.read().decode() if recorder.stderr else ""
            raise RuntimeError(f"dumpcap ended with status {recorder.returncode}: {said}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"dumpcap recorded nothing on lo within {PATIENCE_S} s")
        marker.sendto(text, ("127.0.0.1", port))
        time.sleep(0.02)


def _dissect(recording: Path, port: int, *, without_port: int) -> list[Packet]:
    command = ["tshark", "-n", "-r", str(recording), "-d", f"udp.port=={port},norm"]
    command += ["-Y", f"udp.srcport != {without_port}", "-T", "fields", "-E", "occurrence=a"]
    command += [part for name in FIELDS for part in ("-e", name)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [_packet(*line.split("\t")) for line in lines]


def _packet(
    kind: str,
    flavor: str,
    malformed: str,
    complaints: str,
    source_port: str,
    flags: str,
    ack_type: str,
    extensions: str,
    symbol: str,
    block_length: str,
    to: str,
    ttl: str,
) -> Packet:
    return Packet(
        type=TYPES.get(int(kind), kind) if kind else None,
        flavor=FLAVORS.get(int(flavor), flavor) if flavor else None,
        malformed=bool(malformed),
        complaints=complaints,
        source_port=int(source_port),
        flags=int(flags, 16) if flags else 0,
        ack_type=int(ack_type) if ack_type else None,
        extensions=int(extensions) if extensions else 0,
        parity=bool(symbol and block_length) and _first(symbol) >= _first(block_length),
        to=to,
        ttl=int(ttl) if ttl else 0,
    )


def _first(numbers: str) -> int:
    """The first of several, of which NACKs have one for each item."""
    return int(numbers.partition(",")[0], 0)


def _need_tools() -> None:
    missing = [tool for tool in ("dumpcap", "tshark") if shutil.which(tool) is None]
    if missing:
        message = f"{' and '.join(missing)} missing: install Debian's tshark"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
