"""Public test kit: the deterministic simulator, its faults and its checkers.

`Simulation` runs nodes on a simulated network; `Link`, `Port` and `Clock` say what goes wrong there; the
functions of `shoal.testing.checkers` say what must hold all the same. Nothing in `shoal` uses this package.
"""

from shoal.testing.checkers import CheckError, check_all, numbered
from shoal.testing.faults import Clock, Link, Port
from shoal.testing.history import (
    Datagram,
    Delivery,
    Event,
    History,
    NodeRecord,
    ObjectKey,
    SentObject,
    StreamKey,
)
from shoal.testing.simulation import Node, NodeOptions, Simulation

__all__ = [
    "CheckError",
    "Clock",
    "Datagram",
    "Delivery",
    "Event",
    "History",
    "Link",
    "Node",
    "NodeOptions",
    "NodeRecord",
    "ObjectKey",
    "Port",
    "SentObject",
    "Simulation",
    "StreamKey",
    "check_all",
    "numbered",
]
