"""How fast the Reed-Solomon code runs: in the thesis's table, and for blocks as a stream sends them.

Rates count source data and processor time of one thread, so that other programs on the machine do not count.
Decoding recovers as many symbols as there is parity: the worst case.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from shoal._core import CodingLoad, ReedSolomon

SOURCE_KIB = (1, 2, 4, 8, 16, 32, 64)
SYMBOL_BYTES = (512, 1024, 1440)
PARITY_PERCENT = (10, 20)
STREAM_SOURCE_SYMBOLS = 64
STREAM_PARITY_SYMBOLS = (4, 8, 16)
STREAM_SYMBOL_BYTES = 1400


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
    tasks = (load.encode, load.decode)
    blocks = [_blocks_lasting(task, round_s) for task in tasks]
    taken_s = [
        [_cpu_s(task, count) / count for task, count in zip(tasks, blocks, strict=True)]
        for _ in range(rounds)
    ]
    encode_s, decode_s = (statistics.median(column) for column in zip(*taken_s, strict=True))
    block_gbit = shape.source_bytes * 8 / 1e9
    return Speed(encode_gbit_s=block_gbit / encode_s, decode_gbit_s=block_gbit / decode_s)


def run(*, rounds: int = 5, round_s: float = 0.02) -> dict[str, Any]:
    """All shapes with the fastest kernel, the stream's shapes with every kernel too."""
    return {
        "shoal": {
            "kernel": ReedSolomon.kernels()[-1],
            "rounds": rounds,
            "thesis": [
                {"source_kib": kib, "parity_percent": percent, **_row(shape, rounds, round_s)}
                for kib, percent, shape in thesis_shapes()
            ],
            "stream": [_kernels_row(shape, rounds, round_s) for shape in stream_shapes()],
        }
    }


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


def _cpu_s(task: Callable[[int], None], blocks: int) -> float:
    began_s = time.thread_time()
    task(blocks)
    return time.thread_time() - began_s


def _blocks_lasting(task: Callable[[int], None], round_s: float) -> int:
    """How many blocks take about `round_s`, found by doubling; warms the caches as well."""
    blocks = 1
    while (taken_s := _cpu_s(task, blocks)) < round_s / 4:
        blocks *= 2
    return max(1, round(blocks * round_s / taken_s))


def table_rows(result: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    """The rows of the table people read: block, symbols, parity, encoding, decoding, beside scalar."""
    for row in result["shoal"]["thesis"]:
        yield (f"{row['source_kib']} KiB", *_cells(row), "")
    for row in result["shoal"]["stream"]:
        ratio = row["ratio_to_scalar"]
        yield ("stream", *_cells(row), f"{ratio['encode']:.0f}x, {ratio['decode']:.0f}x")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(row["symbol_bytes"]),
        f"{row['source_symbols']} + {row['parity_symbols']}",
        f"{row['encode_gbit_s']:.1f}",
        f"{row['decode_gbit_s']:.1f}",
    )
