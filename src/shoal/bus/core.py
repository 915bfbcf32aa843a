"""What the sync and the asyncio connection have in common: making a node, and closing all of them at exit."""

import atexit
import os
import secrets
import weakref
from typing import Any

from shoal import _core
from shoal.config import ConnectionConfig
from shoal.errors import FlushError
from shoal.selector import CorrelationFilter, Selector

os.register_at_fork(after_in_child=_core.mark_forked)

_open: "weakref.WeakSet[Node]" = weakref.WeakSet()


class Node(_core.Node):
    """A node made from a configuration, closed at the latest when the interpreter exits."""

    config: ConnectionConfig

    def __new__(cls, config: ConnectionConfig) -> "Node":
        """Open the link that the configuration describes."""
        node = super().__new__(cls, secrets.randbelow(0xFFFF_FFFE) + 1, **_options(config))
        node.config = config
        _open.add(node)
        return node

    def __init__(self, config: ConnectionConfig) -> None:
        super().__init__()


def _options(config: ConnectionConfig) -> dict[str, Any]:
    seed = secrets.randbits(63)
    if config.scheme == "inproc":
        return {
            "inproc": config.domain,
            "seed": seed,
            "when_full": config.when_full,
            "message_bytes_max": config.message_bytes_max,
            "patience_s": config.slow_after_s,
        }
    return {
        "domain": config.domain_number(),
        "group": config.group_address(),
        "port": config.port,
        "interface": config.interface,
        "seed": seed,
        "heartbeat_s": config.heartbeat_s,
        "missed_heartbeats_max": config.missed_heartbeats_max,
        "patience_s": config.slow_after_s,
        **(
            {"fit_segments": True}
            if config.segment_bytes is None
            else {"segment_bytes": config.segment_bytes}
        ),
        "window_bytes": config.window_bytes,
        "cache_bytes": config.cache_bytes,
        "receive_window_bytes": config.receive_window_bytes,
        "receive_buffer_bytes": config.receive_buffer_bytes,
        "rate_bytes_per_s": config.rate_bytes_per_s,
        "rate_min_bytes_per_s": config.rate_min_bytes_per_s,
        "congestion": config.congestion,
        "parity_symbols": config.parity_symbols,
        "auto_parity": config.auto_parity,
        "block_symbols": config.block_symbols,
        "message_bytes_max": config.message_bytes_max,
        "assembly_bytes_max": config.assembly_bytes_max,
        "backoff_factor": config.backoff_factor,
        "when_full": config.when_full,
    }


def filters(selector: str | Selector | None, correlation: str | CorrelationFilter | None) -> dict[str, Any]:
    """What a subscription filters by, as the extension module takes it."""
    if isinstance(selector, str):
        selector = Selector(selector)
    if isinstance(correlation, str):
        correlation = CorrelationFilter(correlation)
    return {
        "selector": selector and selector.core,
        "correlation": correlation and correlation.core,
    }


def check_flushed(silent: list[int] | None, timeout_s: float | None) -> None:
    """Raise what a flush that did not succeed raises."""
    if silent is None:
        raise FlushError(f"not every member acknowledged everything within {timeout_s} s")
    if silent:
        names = ", ".join(f"{node:08x}" for node in silent)
        raise FlushError(f"these members did not acknowledge everything: {names}", tuple(silent))


@atexit.register
def _close_all() -> None:
    _core.mark_exiting()
    for node in list(_open):
        node.shut_down(0.2)
    _core.wait_for_waiting_threads(1.0)
