"""What a connection tells of itself: its status on the bus, and its metrics over HTTP."""

import dataclasses
import sys
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.bus.events import MemberSlow, MessagesLost
from shoal.errors import ClosedError
from shoal.link.state import LinkState
from shoal.monitor.backlogs import store_status
from shoal.monitor.config import HttpConfig
from shoal.monitor.load import load_status
from shoal.monitor.metrics import Exposition
from shoal.monitor.process import process_status

if TYPE_CHECKING:
    from shoal.bus.connection import Connection
    from shoal.monitor.answers import Answers
    from shoal.monitor.http import HttpEndpoint


class Monitor:
    """The status of a connection, which it does not keep alive. May be shared between threads."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = weakref.ref(connection)
        self._began_s = time.monotonic()
        self._http: HttpEndpoint | None = None
        self._answers: Answers | None = None
        self._exposition = Exposition()

    def serve(self, listen: str) -> None:
        """Serve `/metrics`, `/status` and `/health` at an address of this machine."""
        from shoal.monitor.http import HttpEndpoint

        self._http = HttpEndpoint(HttpConfig(listen=listen), self.status)

    def answer(self) -> None:
        """Answer `shoal nodes` and `shoal top`."""
        from shoal.monitor.answers import Answers

        connection = self._connection()
        if connection is not None:
            self._answers = Answers(connection, self.status)

    @property
    def url(self) -> str | None:
        """Where metrics are served; `None` if nowhere."""
        return None if self._http is None else self._http.url

    def status(self) -> dict[str, Any]:
        """What the connection is, and how it fares."""
        connection = self._connection()
        if connection is None or connection.closed:
            raise ClosedError("the connection is closed: it has no status")
        node, counts = connection.node, connection.events.counts
        found = {
            "name": Path(sys.argv[0] or "python").stem,
            "kind": "program",
            "domain": connection.config.domain,
            "node": node.node,
            "publisher": f"{node.publisher:016x}",
            **process_status(),
            "roles": [] if connection.store is None else ["store"],
            "uptime_s": time.monotonic() - self._began_s,
            "healthy": True,
            "trouble": "",
            "members": len(node.members),
            "links": [_link(state) for state in connection.link_states()],
            "filters_evaluated": node.stats()["filters_evaluated"],
            "load": load_status(node.load()),
            "events_lost": counts[MessagesLost],
            "slow_members": counts[MemberSlow],
            "statistics": dataclasses.asdict(connection.statistics()),
        }
        if connection.store is not None:
            found["store"] = store_status(connection.store)
        return found

    def metrics(self) -> str:
        """The status as Prometheus reads it."""
        return self._exposition.text(self.status())

    def close(self) -> None:
        """Tell nothing more."""
        for part in (self._answers, self._http):
            if part is not None:
                part.close()


def _link(state: LinkState) -> dict[str, Any]:
    return {
        "name": state.url,
        "role": state.role,
        "state": state.state,
        "up": int(state.state in ("up", "listening")),
        "peer": str(state.node) if state.node else "",
        "address": state.address,
        "why": state.why,
        **{
            name: getattr(state, name)
            for name in (
                *("bytes_sent", "bytes_received", "messages_sent", "messages_received"),
                *("unsent_bytes", "unacknowledged_bytes", "round_trip_s", "connections"),
                *("turned_away", "refused"),
            )
        },
    }
