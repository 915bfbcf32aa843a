"""Options: URLs and keywords become frozen dataclasses, checked when they are made."""

from shoal.config.connection import (
    ConnectionConfig,
    ConnectionOptions,
    QueueFull,
    WhenFull,
    parse_url,
    resolve,
)
from shoal.config.norm import NormConfig, NormOptions

__all__ = [
    "ConnectionConfig",
    "ConnectionOptions",
    "NormConfig",
    "NormOptions",
    "QueueFull",
    "WhenFull",
    "parse_url",
    "resolve",
]
