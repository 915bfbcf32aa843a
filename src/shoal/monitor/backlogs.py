"""What waits in a store: how much in each queue and subscription, and for how long."""

import time
from typing import Any

#: How old the list of a store's topics may be.
TOPICS_OLDER_S = 60.0
#: Queues, and subscriptions, that are told one by one: those in which most waits.
LISTED_MAX = 50


def store_status(store: Any) -> dict[str, Any]:
    """What a store is and has, without its lists of topics and sessions; `store` is a `shoal.store.Store`."""
    status = store.status(TOPICS_OLDER_S)
    kept = (
        "name",
        "state",
        "recorded",
        "rate",
        "sync",
        "floor",
        "end",
        "unpublished_rows",
        "flight",
        "fingerprint",
    )
    now_us = time.time_ns() // 1000
    return {
        **{name: status[name] for name in kept},
        **{
            kind: [_backlog(store.log, each, now_us) for each in _longest(status[kind])]
            for kind in ("queues", "subscriptions")
        },
        **{f"{kind}_count": len(status[kind]) for kind in ("queues", "subscriptions")},
        "sessions_count": len(status["sessions"]),
        "record": [rule["pattern"] for rule in status["record"]],
        "log_bytes": status["disk_bytes"]["log"],
        "free_bytes": status["disk_bytes"]["free"],
    }


def _longest(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda each: -int(each["messages"]))[:LISTED_MAX]


def _backlog(log: Any, told: dict[str, Any], now_us: int) -> dict[str, Any]:
    names = ("name", "messages", "bytes", "in_flight", "consumers", "expired", "dropped")
    found = {name: told[name] for name in names if name in told}
    found["oldest_s"] = _age_s(log, int(told["cursor"]), now_us) if told["messages"] else 0.0
    return found


def _age_s(log: Any, offset: int, now_us: int) -> float | None:
    """For how long the oldest message is kept; `None` if retention removed it."""
    rows = log.rows(offset, offset + 1, rows_max=1)
    return max(0.0, (now_us - rows[0][1]) / 1e6) if rows else None
