"""Hand-written stubs of the Rust extension module (`crates/pycore`)."""

__version__: str

from collections.abc import Callable, Sequence
from typing import Any

class NormLink:
    """A NORM link on real sockets that carries messages in streams. May be shared between threads."""

    def __init__(
        self, node: int, *, group: str, port: int, interface: str = "auto", seed: int = 0, **options: Any
    ) -> None: ...
    def send(self, body: bytes, lane: int = 0, timeout_s: float | None = None) -> None: ...
    def receive(self, timeout_s: float | None = None) -> list[tuple[str, dict[str, Any]]]: ...
    def set_ackers(self, nodes: list[int]) -> None: ...
    def request_watermark(self, lane: int = 0) -> None: ...
    def stats(self) -> dict[str, int]: ...
    @property
    def grtt_s(self) -> float: ...
    def close(self, linger_s: float = 1.0) -> bool: ...

def norm_send_bulk(
    node: int,
    bytes: int,
    message_bytes: int,
    *,
    group: str,
    port: int,
    interface: str = "lo",
    linger_s: float = 10.0,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> dict[str, Any]: ...
def norm_receive_bulk(
    node: int,
    message_bytes: int,
    *,
    group: str,
    port: int,
    interface: str = "lo",
    patience_s: float = 10.0,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> dict[str, Any]: ...
def raw_send(
    segment_bytes: int, duration_s: float, *, group: str, port: int, interface: str = "lo"
) -> tuple[int, float]: ...
def raw_receive(
    *, group: str, port: int, interface: str = "lo", patience_s: float = 10.0
) -> tuple[int, float]: ...

class ReedSolomon:
    """A Reed-Solomon code over GF(2^8), as NORM's fec_id 5 and 129 use it; may be shared between threads."""

    def __init__(self, source_symbols: int, parity_symbols: int, *, kernel: str | None = None) -> None: ...
    @staticmethod
    def kernels() -> list[str]:
        """The kernels of this processor, slowest first."""

    @property
    def kernel(self) -> str: ...
    @property
    def source_symbols(self) -> int: ...
    @property
    def parity_symbols(self) -> int: ...
    def encode(self, source: Sequence[bytes]) -> list[bytes]:
        """The block's parity symbols, each as long as its longest source symbol."""

    def decode(self, source: Sequence[bytes | None], parity: Sequence[bytes | None]) -> list[bytes]:
        """All source symbols; those given as `None` are recovered, zero-padded to the parity's length."""

class CodingLoad:
    """One block coded over and over, to measure a code; not for sharing between threads."""

    def __init__(self, code: ReedSolomon, symbol_bytes: int) -> None: ...
    def encode(self, blocks: int) -> None:
        """Compute all parity of the block, `blocks` times."""

    def decode(self, blocks: int) -> None:
        """Recover as many source symbols as there is parity, `blocks` times; checks the last result."""
