"""Options: URLs and keywords become frozen dataclasses, checked when they are made."""

from shoal.config.connection import ConnectionConfig, parse_url
from shoal.config.norm import NormConfig

__all__ = ["ConnectionConfig", "NormConfig", "parse_url"]
