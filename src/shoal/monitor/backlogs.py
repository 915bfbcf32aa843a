"""What waits in a store: how much in each queue and subscription, and for how long."""

import time
from typing import Any

#: How old the list of a store's topics may be.
TOPICS_OLDER_S = 60.0
#: Queues, and subscriptions, that a status tells one by one: those in which most waits.
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
    backlogs: dict[str, Any] = {}
    for kind in ("queues", "subscriptions"):
        longest = sorted(status[kind], key=lambda each: -int(each["messages"]))
        backlogs[kind] = [_backlog(store.log, each, now_us) for each in longest[:LISTED_MAX]]
        if len(longest) > LISTED_MAX:
            backlogs[f"other_{kind}"] = _together(store.log, longest[LISTED_MAX:], now_us)
    return {
        **{name: status[name] for name in kept},
        **backlogs,
        **{f"{kind}_count": len(status[kind]) for kind in ("queues", "subscriptions")},
        "sessions_count": len(status["sessions"]),
        "record": [rule["pattern"] for rule in status["record"]],
        "log_bytes": status["disk_bytes"]["log"],
        "free_bytes": status["disk_bytes"]["free"],
    }


def _together(log: Any, told: list[dict[str, Any]], now_us: int) -> dict[str, Any]:
    """What several backlogs have, as if they were one."""
    found: dict[str, Any] = {
        name: sum(each.get(name, 0) for each in told)
        for name in ("messages", "bytes", "in_flight", "consumers")
    }
    # A store numbers all its messages in the order in which it stored them.
    oldest = min((int(each["cursor"]) for each in told if each["messages"]), default=None)
    return found | {"oldest_s": 0.0 if oldest is None else _age_s(log, oldest, now_us)}


def _backlog(log: Any, told: dict[str, Any], now_us: int) -> dict[str, Any]:
    names = ("name", "messages", "bytes", "in_flight", "consumers", "expired", "dropped")
    found = {name: told[name] for name in names if name in told}
    found["oldest_s"] = _age_s(log, int(told["cursor"]), now_us) if told["messages"] else 0.0
    return found


def _age_s(log: Any, offset: int, now_us: int) -> float | None:
    """For how long the oldest message is kept; `None` if retention removed it."""
    rows = log.rows(offset, offset + 1, rows_max=1)
    return max(0.0, (now_us - rows[0][1]) / 1e6) if rows else None
