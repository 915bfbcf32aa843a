"""libnorm (NRL's NORM, Debian's `libnorm1`) driven from Python: the peer our wire is proven against.

`Instance` → `Session` → `Stream`, `Data`, `File`; events by `Instance.next_event`. As a program,
`python -m shoal_bench.peers.libnorm send|receive` moves bytes as fast as libnorm can, for the benchmark.
"""

from .abi import (
    AckingStatus,
    EventType,
    FlushMode,
    LibnormError,
    NackingMode,
    ObjectType,
    ProbingMode,
    SyncPolicy,
)
from .instance import Event, Instance, version
from .objects import Data, File, NormObject, Stream
from .session import Session

__all__ = [
    "AckingStatus",
    "Data",
    "Event",
    "EventType",
    "File",
    "FlushMode",
    "Instance",
    "LibnormError",
    "NackingMode",
    "NormObject",
    "ObjectType",
    "ProbingMode",
    "Session",
    "Stream",
    "SyncPolicy",
    "version",
]
