"""The node of a connection, made as its configuration says: with multicast, or with what stands in for it."""

import secrets
from typing import Any

from shoal import _core
from shoal.config import ConnectionConfig
from shoal.config.connection import UDP_SEGMENT_BYTES
from shoal.config.keys import keys_of
from shoal.errors import LinkError
from shoal.link.address import resolve
from shoal.link.fallback import StandIn, stand_in
from shoal.link.probe import is_loopback, multicast_problem

#: Before the data in a datagram of `udp`.
_UDP_HEADER_BYTES = 36
#: A program that registries sent to a daemon has a heartbeat this often: it suspects a silent daemon soon.
_LOCATED_HEARTBEAT_S = 0.4


def made(config: ConnectionConfig) -> tuple[_core.Node, StandIn | None]:
    """The node, with multicast; or with what stands in for it, where that is asked for.

    Raises:
        LinkError: there is no multicast, and nothing stands in for it.
    """
    cause: LinkError | None = None
    try:
        node = _node(config)
    except LinkError as error:
        if config.when_no_multicast == "error":
            raise
        why, cause = str(error), error
    else:
        problem = None if config.when_no_multicast == "error" or config.is_unicast else _problem(config, node)
        if problem is None:
            return node, None
        node.shut_down(0.0)
        why = problem
    try:
        instead = stand_in(config, why)
    except LinkError as error:
        raise error from cause
    instead.say(why)
    return _node(instead.config), instead


def _problem(config: ConnectionConfig, node: _core.Node) -> str | None:
    """Why multicast does not work, if that can be seen here."""
    described = node.describe_link()
    if described is None:
        return None
    interface, local, _ = described
    # What leads nowhere is used where it is asked for.
    if config.interface == "auto" and is_loopback(local):
        return f"only {interface} can do it, which norm://?interface={interface} uses"
    return multicast_problem(config.group_address(), interface, local)


def heartbeat_s(config: ConnectionConfig) -> float:
    """How often links with single programs have a heartbeat."""
    located = config.scheme == "locate"
    return min(config.heartbeat_s, _LOCATED_HEARTBEAT_S) if located else config.heartbeat_s


def _node(config: ConnectionConfig) -> _core.Node:
    return _core.Node(secrets.randbelow(0xFFFF_FFFE) + 1, **options(config))


def options(config: ConnectionConfig) -> dict[str, Any]:
    """The options of a node, or of a group that a node joins, as the extension module takes them."""
    seed = secrets.randbits(63)
    if config.scheme == "inproc":
        return {
            "inproc": config.domain,
            "seed": seed,
            "when_full": config.when_full,
            "message_bytes_max": config.message_bytes_max,
            "patience_s": config.patience_s(),
        }
    if config.has_links:
        return {
            "tcp": (config.domain, config.resume_s, config.connections_max),
            "domain": config.domain_number(),
            "seed": seed,
            "heartbeat_s": config.heartbeat_s,
            "missed_heartbeats_max": config.missed_heartbeats_max,
            "patience_s": config.patience_s(),
            "window_bytes": config.window_bytes,
            "message_bytes_max": config.message_bytes_max,
            "assembly_bytes_max": config.assembly_bytes_max,
            "when_full": config.when_full,
            "router": config.router,
        }
    if config.scheme == "udp":
        place = config.group_address() if config.host is None else resolve(config.host, config.port)[0]
        datagram_bytes = (config.segment_bytes or UDP_SEGMENT_BYTES) + _UDP_HEADER_BYTES
        rate, most = config.rate_bytes_per_s, config.connections_max
        return {
            "udp": (
                *(config.listen, datagram_bytes, rate, most),
                *(config.receive_buffer_bytes, config.multicast_ttl, config.class_marks()),
            ),
            "domain": config.domain_number(),
            "group": place,
            "port": config.port,
            "interface": config.interface,
            "seed": seed,
            "heartbeat_s": config.heartbeat_s,
            "missed_heartbeats_max": config.missed_heartbeats_max,
            "message_bytes_max": config.message_bytes_max,
            "assembly_bytes_max": config.assembly_bytes_max,
            "when_full": config.when_full,
        }
    return {
        "domain": config.domain_number(),
        "group": config.group_address(),
        "port": config.port,
        "interface": config.interface,
        "listen_port": config.listen_port,
        "multicast_ttl": config.multicast_ttl,
        "marks": config.class_marks(),
        "groups": config.groups_addresses() if config.groups else [],
        "assigned": config.group_levels(),
        "seed": seed,
        "heartbeat_s": config.heartbeat_s,
        "missed_heartbeats_max": config.missed_heartbeats_max,
        "patience_s": config.patience_s(),
        "segment_bytes": config.segment_bytes,
        "window_bytes": config.window_bytes,
        "cache_bytes": config.cache_bytes,
        "receive_window_bytes": config.receive_window_bytes,
        "receive_buffer_bytes": config.receive_buffer_bytes,
        "rate_bytes_per_s": config.rate_bytes_per_s,
        "rate_min_bytes_per_s": config.rate_min_bytes_per_s,
        "congestion": config.congestion,
        "send_delay_s": config.send_delay_s,
        "epoch_messages": config.epoch_messages,
        "parity_symbols": config.parity_symbols,
        "auto_parity": config.auto_parity,
        "block_symbols": config.block_symbols,
        "message_bytes_max": config.message_bytes_max,
        "assembly_bytes_max": config.assembly_bytes_max,
        "backoff_factor": config.backoff_factor,
        "when_full": config.when_full,
        "router": config.router,
        "keys": keys_of(config.key, config.key_file),
        "drop_received": config.drop_received,
    }
