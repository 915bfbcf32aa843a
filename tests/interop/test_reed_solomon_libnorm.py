"""Our Reed-Solomon code against libnorm's: the same parity, and losses recovered from what libnorm sent."""

import functools
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from shoal._core import ReedSolomon
from shoal_bench.peers.libnorm import FlushMode, Instance, Session

GROUP = "239.192.74.205"
NORM_DATA, NORM_CMD, CMD_FLUSH = 2, 3, 1


@dataclass
class Block:
    """The symbols of one source block, by their place in it."""

    source_count: int
    symbols: dict[int, bytes] = field(default_factory=dict)

    @property
    def source(self) -> list[bytes]:
        return [self.symbols[index] for index in range(self.source_count)]

    @property
    def parity(self) -> list[bytes]:
        return [self.symbols[index] for index in sorted(self.symbols) if index >= self.source_count]


@dataclass(frozen=True)
class Sent:
    """What libnorm is asked to send, and how."""

    fec_id: int
    block_symbols: int
    parity_symbols: int
    segment_bytes: int
    content: bytes

    def block_lengths(self) -> list[int]:
        """How many source symbols each block has, as RFC 5052 §9.1 divides an object."""
        symbols = -(-len(self.content) // self.segment_bytes)
        blocks = -(-symbols // self.block_symbols)
        larger = symbols % blocks
        return [symbols // blocks + (index < larger) for index in range(blocks)]


@functools.cache
def blocks_on_the_wire(sent: Sent) -> tuple[Block, ...]:
    """Let libnorm send an object with all its parity, and read the symbols from its NORM_DATA messages."""
    blocks = tuple(Block(length) for length in sent.block_lengths())
    with listening() as listener, sending(sent, listener) as sender:
        sender.enqueue_data(sent.content)
        for block, symbol, payload in symbols_until_flush(listener, sent.fec_id):
            blocks[block].symbols[symbol] = payload
    return blocks


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A plain socket in the group, on a port of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        listener.bind((GROUP, 0))
        membership = socket.inet_aton(GROUP) + socket.inet_aton("127.0.0.1")
        listener.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        listener.settimeout(10.0)
        yield listener


@contextmanager
def sending(sent: Sent, listener: socket.socket) -> Iterator[Session]:
    """libnorm, sending all parity without being asked, to where the socket listens."""
    with Instance() as instance:
        sender = instance.session(GROUP, listener.getsockname()[1], node_id=1)
        sender.set_grtt(0.001)
        sender.set_tx_rate(20e6)
        sender.set_auto_parity(sent.parity_symbols)
        sender.start_sender(
            segment_bytes=sent.segment_bytes,
            block_symbols=sent.block_symbols,
            parity_symbols=sent.parity_symbols,
            fec_id=sent.fec_id,
        )
        yield sender


def symbols_until_flush(listener: socket.socket, fec_id: int) -> Iterator[tuple[int, int, bytes]]:
    """Block, place in it and payload of each NORM_DATA, until NORM_CMD(FLUSH) says that this was all."""
    while True:
        message = listener.recv(65536)
        kind = message[0] & 0x0F
        if kind == NORM_DATA:
            yield (*fec_payload_id(message, fec_id), message[4 * message[1] :])
        elif kind == NORM_CMD and message[12] == CMD_FLUSH:
            return


def fec_payload_id(message: bytes, fec_id: int) -> tuple[int, int]:
    """Block and symbol of a NORM_DATA message (RFC 5740 §4.2.1; RFC 5510 §5.1 and RFC 5445 §5.1)."""
    assert message[13] == fec_id
    if fec_id == 5:
        (both,) = struct.unpack_from(">I", message, 16)
        return both >> 8, both & 0xFF
    block, _, symbol = struct.unpack_from(">IHH", message, 16)
    return block, symbol


@pytest.fixture(
    params=[
        Sent(5, 3, 3, 4, b"NORM57405510"),
        Sent(5, 8, 4, 64, random.Random(1).randbytes(64 * 21 + 10)),
        Sent(129, 8, 4, 64, random.Random(2).randbytes(64 * 21 + 10)),
        Sent(5, 64, 16, 1400, random.Random(3).randbytes(1400 * 150)),
        Sent(5, 200, 55, 100, random.Random(4).randbytes(100 * 390 + 1)),
    ],
    ids=lambda sent: f"fec_id {sent.fec_id}, {sent.block_symbols}+{sent.parity_symbols}",
)
def captured(request: pytest.FixtureRequest) -> tuple[ReedSolomon, tuple[Block, ...], bytes]:
    sent: Sent = request.param
    code = ReedSolomon(sent.block_symbols, sent.parity_symbols)
    return code, blocks_on_the_wire(sent), sent.content


def test_our_parity_is_libnorms(captured: tuple[ReedSolomon, tuple[Block, ...], bytes]) -> None:
    code, blocks, content = captured
    assert b"".join(symbol for block in blocks for symbol in block.source) == content
    for block in blocks:
        assert len(block.parity) == code.parity_symbols
        assert code.encode(block.source) == block.parity


def test_we_recover_from_libnorms_parity(captured: tuple[ReedSolomon, tuple[Block, ...], bytes]) -> None:
    code, blocks, _ = captured
    chance = random.Random(5)
    for block in blocks:
        count = min(code.parity_symbols, block.source_count)
        lost = chance.sample(range(block.source_count), count)
        used = chance.sample(range(code.parity_symbols), count)
        source = [None if index in lost else symbol for index, symbol in enumerate(block.source)]
        parity = [symbol if index in used else None for index, symbol in enumerate(block.parity)]
        recovered = code.decode(source, parity)
        for symbol, sent in zip(recovered, block.source, strict=True):
            assert symbol[: len(sent)] == sent
            assert not any(symbol[len(sent) :])


def test_a_streams_payload_header_is_part_of_the_symbol() -> None:
    sent = Sent(5, 4, 3, 100, random.Random(6).randbytes(330))
    block = Block(sent.block_symbols)
    with listening() as listener, sending(sent, listener) as sender:
        stream = sender.open_stream(buffer_bytes=1 << 16)
        stream.write(sent.content)
        stream.flush(FlushMode.ACTIVE)
        for _, symbol, payload in symbols_until_flush(listener, sent.fec_id):
            block.symbols[symbol] = payload
    assert [len(symbol) for symbol in block.source] == [108, 108, 108, 38]
    code = ReedSolomon(sent.block_symbols, sent.parity_symbols)
    assert code.encode(block.source) == block.parity
    assert code.decode([None, block.source[1], None, None], block.parity) == [
        symbol.ljust(108, b"\0") for symbol in block.source
    ]
