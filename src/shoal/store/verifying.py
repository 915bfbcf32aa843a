"""Whether a log is whole: reads every frame, and says what is damaged. Changes nothing."""

import os
import socket
from pathlib import Path
from typing import Any

from shoal._core import verify_log
from shoal.errors import StoreError


def verify(path: Path) -> dict[str, Any]:
    """What a log has and what is damaged in it. Nobody may have the store open.

    The answer has `segments`, `missing` (numbers of segments), `damages` (file, bytes, offsets, why),
    `messages` that can be read, `torn_bytes` that a crash left and the next start removes, and `whole`.
    """
    if not any(path.glob("[0-9]*.log")):
        raise StoreError(f"{path} has no log")
    found = verify_log(path, f"process {os.getpid()} on {socket.gethostname()}, which verifies it")
    segments = found["segments"]
    return {
        "path": str(path.resolve()),
        **found,
        "first": segments[0]["first"],
        "end": segments[-1]["end"],
        "messages": sum(segment["messages"] for segment in segments),
        "bytes": sum(segment["bytes"] for segment in segments),
        "torn_bytes": sum(segment["torn_bytes"] for segment in segments),
        "whole": not found["damages"] and not found["missing"],
    }
