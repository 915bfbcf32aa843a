"""The whole picture of a domain: looks come in, the state's tables go out. Sees no network and no clock."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from shoal.bus.events import MemberLeft
from shoal.console import alarms as conditions
from shoal.console.alarms import Alarms
from shoal.console.backlogs import Backlogs
from shoal.console.look import Look, rounded
from shoal.console.nodes import Nodes
from shoal.console.state import Row, State
from shoal.console.topics import Topics

TABLES = ("overview", "nodes", "links", "topics", "queues", "subscriptions", "stores", "alarms")
#: Seconds of the series that charts begin with.
SERIES_MAX = 600


class Picture:
    """What the console knows. For one thread at a time."""

    def __init__(self, run: str, domain: str) -> None:
        self.state = State(run, TABLES)
        self.domain = domain
        self.alarms = Alarms()
        self._nodes, self._topics, self._backlogs = Nodes(), Topics(), Backlogs()
        #: One sample a second: time, messages and bits sent in a second, messages that wait, messages stored
        #: in a second.
        self.series: deque[tuple[float, float, float, float, float]] = deque(maxlen=SERIES_MAX)
        self._faults: Mapping[str, str] = {}

    def update(self, look: Look) -> bool:
        """Take a look: whether anything changed for viewers."""
        self._nodes.update(look)
        self._topics.update(look)
        self._backlogs.update(look)
        self._faults = look.faults
        self._nodes.know_stores(self._topics.stores(), self._backlogs.stores())
        nodes, queues, stores = self._nodes.rows(), self._backlogs.queues(), self._backlogs.stores()
        holding = {
            **dict(conditions.of_nodes(nodes)),
            **dict(conditions.of_stores(stores)),
            **dict(conditions.of_queues(queues, self.alarms)),
        }
        # A node whose silence is an alarm needs no second one.
        known = frozenset(event.node for event in look.events if isinstance(event, MemberLeft)) & frozenset(
            int(key) for key in nodes
        )
        self.alarms.update(look.wall_s, holding, conditions.of_events(look.events, known))
        state = self.state
        state.replace("nodes", nodes)
        state.replace("links", self._nodes.links())
        state.replace("topics", self._topics.rows())
        state.replace("queues", queues)
        state.replace("subscriptions", self._backlogs.subscriptions())
        state.replace("stores", stores)
        state.replace("alarms", self.alarms.rows())
        state.replace("overview", {"domain": self._overview(look.wall_s, nodes, queues, stores)})
        return state.commit()

    @property
    def is_unsure(self) -> bool:
        """Whether a node missed a question, and is asked again soon: it may have failed."""
        return self._nodes.is_unsure

    def acknowledge(self, wall_s: float, key: str, who: str) -> bool:
        """Acknowledge an alarm, for every viewer at once; false if there is none of that key."""
        if not self.alarms.acknowledge(wall_s, key, who):
            return False
        self.state.replace("alarms", self.alarms.rows())
        self.state.commit()
        return True

    def _overview(
        self, wall_s: float, nodes: Mapping[str, Row], queues: Mapping[str, Row], stores: Mapping[str, Row]
    ) -> dict[str, Any]:
        sent = sum(row["sent_s"] or 0.0 for row in nodes.values())
        bits = sum(row["out_bps"] or 0.0 for row in nodes.values())
        backlog = sum(row["messages"] for row in queues.values())
        stored = sum(row["stored_s"] or 0.0 for row in stores.values())
        # At the first look no rate is known.
        if self.state.version:
            self.series.append((round(wall_s, 1), sent, bits, backlog, stored))
        levels = [alarm.line.notice.level for alarm in self.alarms.open]
        return {
            "domain": self.domain,
            "at": round(wall_s, 1),
            "nodes": len(nodes),
            "answering": sum(row["answers"] for row in nodes.values()),
            "down": sum(row["state"] in ("silent", "failed") for row in nodes.values()),
            "sent_s": rounded(sent),
            "out_bps": rounded(bits),
            "stored_s": rounded(stored),
            "backlog": backlog,
            "queues": len(queues),
            "stores": len(stores),
            "alarms": len(levels),
            "worst": max(levels, default=0),
            "faults": dict(self._faults),
        }
