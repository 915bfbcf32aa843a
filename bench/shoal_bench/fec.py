"""How fast the Reed-Solomon code runs: the thesis's table, and blocks as a stream sends them, beside zfec.

Rates count source data and processor time of one thread, so that other programs on the machine do not count.
Decoding recovers as many symbols as there is parity: the worst case.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, TypeAlias

from shoal._core import CodingLoad, ReedSolomon

SOURCE_KIB = (1, 2, 4, 8, 16, 32, 64)
SYMBOL_BYTES = (512, 1024, 1440)
PARITY_PERCENT = (10, 20)
STREAM_SOURCE_SYMBOLS = 64
STREAM_PARITY_SYMBOLS = (4, 8, 16)
STREAM_SYMBOL_BYTES = 1400

#: Codes a block as often as it is told.
Task: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A block: how many source and parity symbols of which size."""

    source_symbols: int
    parity_symbols: int
    symbol_bytes: int

    @property
    def source_bytes(self) -> int:
        """The block's source data."""
        return self.source_symbols * self.symbol_bytes


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a block of one shape is coded, in Gbit/s of source data."""

    encode_gbit_s: float
    decode_gbit_s: float


def thesis_shapes() -> Iterator[tuple[int, int, Shape]]:
    """The thesis's table: source size in KiB, parity in percent, and the block that makes."""
    for kib in SOURCE_KIB:
        for symbol_bytes in SYMBOL_BYTES:
            source = math.ceil(kib * 1024 / symbol_bytes)
            for percent in PARITY_PERCENT:
                parity = math.ceil(source * percent / 100)
                yield (
                    kib,
                    percent,
                    Shape(source_symbols=source, parity_symbols=parity, symbol_bytes=symbol_bytes),
                )


def stream_shapes() -> Iterator[Shape]:
    """Blocks as a NORM stream with full segments has them."""
    for parity in STREAM_PARITY_SYMBOLS:
        yield Shape(
            source_symbols=STREAM_SOURCE_SYMBOLS, parity_symbols=parity, symbol_bytes=STREAM_SYMBOL_BYTES
        )


def measure(shape: Shape, *, rounds: int, round_s: float, kernel: str | None = None) -> Speed:
    """The median of `rounds` rounds of about `round_s` each, encoding and decoding in turn."""
    code = ReedSolomon(shape.source_symbols, shape.parity_symbols, kernel=kernel)
    load = CodingLoad(code, shape.symbol_bytes)
    return _measure_tasks(shape, load.encode, load.decode, rounds=rounds, round_s=round_s)


def has_zfec() -> bool:
    """Whether the PyPI package zfec is installed."""
    return find_spec("zfec") is not None


def measure_zfec(shape: Shape, *, rounds: int, round_s: float) -> Speed | None:
    """As `measure`, of the PyPI package zfec; `None` when it is not installed."""
    try:
        import zfec
    except ImportError:
        return None
    k, total, parity = shape.source_symbols, shape.source_symbols + shape.parity_symbols, shape.parity_symbols
    encoder, decoder = zfec.Encoder(k, total), zfec.Decoder(k, total)
    source = [bytes([index]) * shape.symbol_bytes for index in range(k)]
    parity_places = list(range(k, total))
    # As in our load, the first symbols are lost; zfec takes any k symbols, and where they belong.
    kept = encoder.encode(source, parity_places) + source[parity:]
    places = parity_places + list(range(parity, k))

    def encode(blocks: int) -> None:
        for _ in range(blocks):
            encoder.encode(source, parity_places)

    def decode(blocks: int) -> None:
        for _ in range(blocks):
            decoder.decode(kept, places)

    return _measure_tasks(shape, encode, decode, rounds=rounds, round_s=round_s)


def run(*, rounds: int = 5, round_s: float = 0.02) -> dict[str, Any]:
    """All shapes with the fastest kernel; the stream's shapes with every kernel, and beside zfec."""
    thesis = [
        {"source_kib": kib, "parity_percent": percent, **_row(shape, rounds, round_s)}
        for kib, percent, shape in thesis_shapes()
    ]
    stream, peer = [], []
    for shape in stream_shapes():
        stream.append(_kernels_row(shape, rounds, round_s))
        speed = measure_zfec(shape, rounds=rounds, round_s=round_s)
        if speed is not None:
            peer.append(asdict(shape) | asdict(speed))
    result: dict[str, Any] = {
        "shoal": {
            "kernel": ReedSolomon.kernels()[-1],
            "rounds": rounds,
            "thesis": thesis,
            "stream": stream,
        }
    }
    if peer:
        result["zfec"] = {"stream": peer}
        result["ratio_to_best_peer"] = {
            task: min(
                ours[f"{task}_gbit_s"] / theirs[f"{task}_gbit_s"]
                for ours, theirs in zip(stream, peer, strict=True)
            )
            for task in ("encode", "decode")
        }
    return result


def _measure_tasks(shape: Shape, encode: Task, decode: Task, *, rounds: int, round_s: float) -> Speed:
    tasks = (encode, decode)
    blocks = [_blocks_lasting(task, round_s) for task in tasks]
    taken_s = [
        [_cpu_s(task, count) / count for task, count in zip(tasks, blocks, strict=True)]
        for _ in range(rounds)
    ]
    encode_s, decode_s = (statistics.median(column) for column in zip(*taken_s, strict=True))
    block_gbit = shape.source_bytes * 8 / 1e9
    return Speed(encode_gbit_s=block_gbit / encode_s, decode_gbit_s=block_gbit / decode_s)


def _row(shape: Shape, rounds: int, round_s: float) -> dict[str, float]:
    return asdict(shape) | asdict(measure(shape, rounds=rounds, round_s=round_s))


def _kernels_row(shape: Shape, rounds: int, round_s: float) -> dict[str, Any]:
    speeds = {
        kernel: measure(shape, rounds=rounds, round_s=round_s, kernel=kernel)
        for kernel in ReedSolomon.kernels()
    }
    slowest, fastest = (list(speeds.values())[index] for index in (0, -1))
    return {
        **asdict(shape),
        **asdict(fastest),
        "ratio_to_scalar": {
            "encode": fastest.encode_gbit_s / slowest.encode_gbit_s,
            "decode": fastest.decode_gbit_s / slowest.decode_gbit_s,
        },
        "kernels": {kernel: asdict(speed) for kernel, speed in speeds.items()},
    }


def _cpu_s(task: Task, blocks: int) -> float:
    began_s = time.thread_time()
    task(blocks)
    return time.thread_time() - began_s


def _blocks_lasting(task: Task, round_s: float) -> int:
    """How many blocks take about `round_s`, found by doubling; warms the caches as well."""
    blocks = 1
    while (taken_s := _cpu_s(task, blocks)) < round_s / 4:
        blocks *= 2
    return max(1, round(blocks * round_s / taken_s))


def table_rows(result: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    """The rows of the table people read: block, symbol size, symbols, encoding, decoding, times scalar."""
    for row in result["shoal"]["thesis"]:
        yield (f"{row['source_kib']} KiB", *_cells(row), "")
    for row in result["shoal"]["stream"]:
        ratio = row["ratio_to_scalar"]
        yield ("stream", *_cells(row), f"{ratio['encode']:.0f}, {ratio['decode']:.0f}")
    for row in result.get("zfec", {}).get("stream", ()):
        yield ("zfec", *_cells(row), "")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(row["symbol_bytes"]),
        f"{row['source_symbols']} + {row['parity_symbols']}",
        f"{row['encode_gbit_s']:.1f}",
        f"{row['decode_gbit_s']:.1f}",
    )
