"""shoald: a node with no application, told what to be by a TOML file. `shoal daemon` runs it.

It uses connections and stores as any program does. What passes a message on is the node itself.
"""

from shoal.daemon.config import DaemonConfig, LinkConfig, LogConfig, Roles, load
from shoal.daemon.daemon import Daemon
from shoal.monitor.config import HttpConfig

__all__ = ["Daemon", "DaemonConfig", "HttpConfig", "LinkConfig", "LogConfig", "Roles", "load"]
