"""Hand-written stubs of the Rust extension module (`crates/pycore`)."""

__version__: str

from collections.abc import Callable
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
