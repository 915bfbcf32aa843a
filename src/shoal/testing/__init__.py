"""Public test kit: the deterministic simulator, its faults and its checkers.

`Domain` runs whole nodes, as `shoal.connect` makes them, on a simulated network, and `Simulation` runs NORM
sessions; `Link`, `Port` and `Clock` say what goes wrong there; `shoal.testing.domain_checkers` and
`shoal.testing.checkers` say what must hold all the same. Nothing in `shoal` uses this package.
"""

from shoal._core import RawBody
from shoal.testing.checkers import CheckError, check_all, numbered
from shoal.testing.domain import Domain
from shoal.testing.domain_checkers import DomainCheckError, check_domain
from shoal.testing.domain_history import DomainHistory
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
    "Domain",
    "DomainCheckError",
    "DomainHistory",
    "Event",
    "History",
    "Link",
    "Node",
    "NodeOptions",
    "NodeRecord",
    "ObjectKey",
    "Port",
    "RawBody",
    "SentObject",
    "Simulation",
    "StreamKey",
    "check_all",
    "check_domain",
    "numbered",
]
