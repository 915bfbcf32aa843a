"""The `shoal` command: one module per sub-command, wired together in `app`."""

from shoal.cli.app import main

__all__ = ["main"]
