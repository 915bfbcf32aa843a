"""The tables `stores`, `queues` and `subscriptions`: what stores keep, and what waits in them.

Two sources tell of a store. Its node answers every second with the longest queues, and how long their oldest
message waits. The store itself lists all queues when it is asked, which costs more and is done less often.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from shoal.bus.store_protocol import QUEUES
from shoal.console.look import Look, count, mapping, mappings, number, rounded, text, texts
from shoal.console.rates import Rates
from shoal.console.state import Row

#: The time at which an oldest message was stored is the same if it moves by less.
_SAME_S = 3.0
#: How long rows of a store that does not answer stay in view.
KEPT_S = 120.0
#: Stores that are shown; any member can claim to be one.
STORES_MAX = 1000
#: What a queue may be told, as the store says it.
_OPTIONS = (
    "dead_letter",
    "deliveries_max",
    "backlog_max_bytes",
    "on_full",
    "expires_after_s",
    "dead_letter_expired",
)


class Backlogs:
    """The stores of a domain."""

    def __init__(self) -> None:
        self._stores: dict[str, dict[str, Any]] = {}
        self._queues: dict[str, dict[str, Any]] = {}
        self._subscriptions: dict[str, dict[str, Any]] = {}
        #: What the stores said of each queue, for rows that need not be made again.
        self._told: dict[str, Mapping[str, Any]] = {}
        #: Of queues, since when the oldest message waits; of subscriptions, since when no consumer is there.
        self._since: dict[str, float] = {}
        self._rates = Rates()
        self._node_rates = Rates()
        #: When each store listed its queues last.
        self._listed_s: dict[str, float] = {}
        #: How many messages came into each queue in a second, where a history tells.
        self._arrivals: dict[str, float | None] = {}
        self._arrival_rates = Rates()

    def update(self, look: Look) -> None:
        """Take what a look found."""
        told = {
            text(store.get("name")): (status, store)
            for status in look.statuses
            if (store := mapping(status.get("store")))
        }
        if look.topics is not None:
            self._count_arrivals(look, look.topics)
        if look.stores is not None:
            self._listed(look, look.stores)
        self._node_rates.turn()
        known = {*told, *(look.stores or ()), *self._stores}
        for name in known:
            if name not in self._stores and len(self._stores) >= STORES_MAX:
                continue
            if name in told:
                self._stores[name] = self._store(look, name, *told[name])
            elif look.stores is not None and name in look.stores:
                self._stores[name] = {
                    **_blank(name),
                    **self._stores.get(name, {}),
                    **_sums(look.stores[name]),
                }
            elif look.stores is not None:
                # Neither its node nor the store itself answers.
                self._stores[name] = {**self._stores[name], "state": "silent"}
        for name, (_, store) in told.items():
            self._ages(look, name, mappings(store.get("queues"), 1000))

    def _count_arrivals(self, look: Look, topics: Mapping[str, Mapping[str, int]]) -> None:
        self._arrival_rates.turn()
        self._arrivals = {
            key: self._arrival_rates.of(key, look.at_s, messages)
            for store, counts in topics.items()
            for topic, messages in counts.items()
            if (key := f"{store}/{topic.removeprefix(QUEUES)}") and topic.startswith(QUEUES)
        }

    def _listed(self, look: Look, stores: Mapping[str, Mapping[str, Any]]) -> None:
        self._rates.turn()
        queues: dict[str, dict[str, Any]] = {}
        told: dict[str, Mapping[str, Any]] = {}
        subscriptions: dict[str, dict[str, Any]] = {}
        for name, status in stores.items():
            listed = mappings(status.get("queues"))
            dead = {text(each.get("dead_letter")) for each in listed}
            for each in listed:
                key = f"{name}/{text(each.get('queue'))}"
                row = self._queue(look, key, name, each)
                is_dead = row["name"] in dead
                queues[key] = row if row.get("dead") is is_dead else {**row, "dead": is_dead}
                told[key] = each
            for each in mappings(status.get("subscriptions")):
                key = f"{name}/{text(each.get('key'))}"
                subscriptions[key] = self._subscription(look, key, name, each)
            self._listed_s[name] = look.at_s
        self._keep_silent(look.at_s, stores, self._queues, queues)
        self._keep_silent(look.at_s, stores, self._subscriptions, subscriptions)
        self._queues, self._subscriptions, self._told = queues, subscriptions, told
        self._since = {key: at for key, at in self._since.items() if key in queues or key in subscriptions}

    def _keep_silent(
        self,
        at_s: float,
        stores: Mapping[str, Mapping[str, Any]],
        before: Mapping[str, dict[str, Any]],
        rows: dict[str, dict[str, Any]],
    ) -> None:
        """Rows of a store that does not answer stay for a while: it may be busy, or start again."""
        for key, row in before.items():
            name = row["store"]
            if name not in stores and at_s - self._listed_s.get(name, at_s - KEPT_S) < KEPT_S:
                rows.setdefault(key, row)

    def _queue(self, look: Look, key: str, store: str, told: Mapping[str, Any]) -> dict[str, Any]:
        name, messages = text(told.get("queue")), count(told.get("messages"))
        growth = self._rates.of(key, look.at_s, messages, falls=True)
        in_s = self._arrivals.get(key)
        if not messages:
            self._since.pop(key, None)
        last = self._queues.get(key)
        is_same = last is not None and last["growth_s"] == growth and last["in_s"] == in_s
        if last is not None and is_same and self._told.get(key) == told:
            return last
        return {
            "store": store,
            "name": name,
            "messages": messages,
            "bytes": count(told.get("bytes")),
            "waiting": count(told.get("waiting")),
            "in_flight": count(told.get("in_flight")),
            "consumers": count(told.get("consumers")),
            "growth_s": growth,
            "in_s": in_s,
            "out_s": None if in_s is None or growth is None else rounded(max(0.0, in_s - growth)),
            "expired": count(told.get("expired")),
            "dropped": count(told.get("dropped")),
            "since": self._since.get(key),
            **{option: told.get(option) for option in _OPTIONS if _is_plain(told.get(option))},
        }

    def _subscription(self, look: Look, key: str, store: str, told: Mapping[str, Any]) -> dict[str, Any]:
        consumers = count(told.get("consumers"))
        if consumers:
            self._since.pop(key, None)
        else:
            self._since.setdefault(key, round(look.wall_s))
        return {
            "store": store,
            "name": text(told.get("name")),
            "client_id": text(told.get("client_id")),
            "patterns": texts(told.get("patterns"), 20),
            "selector": text(told.get("selector"), 1000),
            "shared": bool(told.get("shared")),
            "durable": bool(told.get("durable")),
            "messages": count(told.get("messages")),
            "bytes": count(told.get("bytes")),
            "in_flight": count(told.get("in_flight")),
            "lag": count(told.get("lag")),
            "consumers": consumers,
            "dropped": count(told.get("dropped")),
            "growth_s": self._rates.of((key, "depth"), look.at_s, count(told.get("messages")), falls=True),
            "away": None if consumers else self._since[key],
        }

    def _ages(self, look: Look, store: str, told: Iterable[Mapping[str, Any]]) -> None:
        changed: dict[str, dict[str, Any]] = {}
        for each in told:
            key, age_s = f"{store}/{text(each.get('name'))}", number(each.get("oldest_s"))
            row = self._queues.get(key)
            if row is None or age_s is None:
                continue
            since = round(look.wall_s - age_s) if row["messages"] else None
            before = self._since.get(key)
            if since is not None and before is not None and abs(since - before) < _SAME_S:
                since = int(before)
            if since is not None:
                self._since[key] = since
            if row["since"] != since:
                changed[key] = {**row, "since": since}
        if changed:
            self._queues = {**self._queues, **changed}

    def _store(
        self, look: Look, name: str, status: Mapping[str, Any], store: Mapping[str, Any]
    ) -> dict[str, Any]:
        sync, rate = mapping(store.get("sync")), mapping(store.get("rate"))
        recorded = mapping(store.get("recorded"))
        messages = self._node_rates.of((name, "recorded"), look.at_s, number(recorded.get("messages")))
        end = self._node_rates.of((name, "end"), look.at_s, number(store.get("end")))
        return {
            **_blank(name),
            **{key: self._stores.get(name, {}).get(key, 0) for key in _SUMMED},
            "state": text(store.get("state")),
            "node": text(status.get("node")),
            "host": text(status.get("host")),
            "end": count(store.get("end")),
            "floor": count(store.get("floor")),
            "stored_s": end,
            "recorded_s": messages,
            "bytes_s": rounded(number(rate.get("bytes_s"))),
            "sync_mean_ms": rounded(number(sync.get("mean_ms"))),
            "sync_last_ms": rounded(number(sync.get("last_ms"))),
            "sync_longest_ms": rounded(number(sync.get("longest_ms"))),
            "log_bytes": count(store.get("log_bytes")),
            "free_bytes": count(store.get("free_bytes")) // 100_000_000 * 100_000_000,
            "queues": count(store.get("queues_count")),
            "subscriptions": count(store.get("subscriptions_count")),
            "sessions": count(store.get("sessions_count")),
            "unpublished": count(store.get("unpublished_rows")),
            "flight": text(store.get("flight")),
            "record": texts(store.get("record"), 50),
        }

    # --- getters ---

    def stores(self) -> dict[str, Row]:
        """The table `stores`."""
        return dict(self._stores)

    def queues(self) -> dict[str, Row]:
        """The table `queues`."""
        return cast(dict[str, Row], self._queues)

    def subscriptions(self) -> dict[str, Row]:
        """The table `subscriptions`."""
        return cast(dict[str, Row], self._subscriptions)


#: What only the store's own list tells.
_SUMMED = ("retained", "denied", "mistakes")


def _sums(status: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "state": "open",
        "queues": len(mappings(status.get("queues"))),
        "subscriptions": len(mappings(status.get("subscriptions"))),
        "sessions": len(mappings(status.get("sessions"))),
        **{name: count(status.get(name)) for name in _SUMMED},
    }


def _blank(name: str) -> dict[str, Any]:
    numbers: dict[str, Any] = dict.fromkeys(
        (
            "end",
            "floor",
            "log_bytes",
            "free_bytes",
            "queues",
            "subscriptions",
            "sessions",
            "unpublished",
            *_SUMMED,
        ),
        0,
    )
    measures: dict[str, Any] = dict.fromkeys(
        ("stored_s", "recorded_s", "bytes_s", "sync_mean_ms", "sync_last_ms", "sync_longest_ms"), None
    )
    return (
        numbers
        | measures
        | {
            "name": name,
            "state": "",
            "node": "",
            "host": "",
            "flight": "",
            "record": [],
        }
    )


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | str) or number(value) is not None
