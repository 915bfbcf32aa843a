"""Options: URLs and keywords become frozen dataclasses, checked when they are made."""

from shoal.config.connection import ConnectionConfig, parse_url

__all__ = ["ConnectionConfig", "parse_url"]
