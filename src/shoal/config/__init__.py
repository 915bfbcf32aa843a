"""Options: URLs and keywords become frozen dataclasses, checked when they are made."""

from shoal.config.connection import (
    ConnectionConfig,
    ConnectionOptions,
    QueueFull,
    WhenFull,
    WhenSlow,
)
from shoal.config.norm import NormConfig, NormOptions
from shoal.config.roles import (
    ClientConfig,
    ClientOptions,
    ConnectOptions,
    RoleOptions,
    split_client,
    split_roles,
)
from shoal.config.url import parse_url, resolve, resolve_listening

__all__ = [
    "ClientConfig",
    "ClientOptions",
    "ConnectOptions",
    "ConnectionConfig",
    "ConnectionOptions",
    "NormConfig",
    "NormOptions",
    "QueueFull",
    "RoleOptions",
    "WhenFull",
    "WhenSlow",
    "parse_url",
    "resolve",
    "resolve_listening",
    "split_client",
    "split_roles",
]
