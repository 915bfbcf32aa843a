"""What a process is and takes."""

import os
import socket
from typing import Any

from shoal import _core
from shoal.system import memory_bytes, processor_s


def process_status() -> dict[str, Any]:
    """Where this process runs, and what it took so far."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": _core.__version__,
        "rss_bytes": memory_bytes(),
        "cpu_s": processor_s(),
    }
