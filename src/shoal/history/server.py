"""The history server: Arrow Flight in front of a store. `start` is what a store calls.

Every call runs on a thread of the Flight library; what it does is in `reader` and `staging`.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from shoal._core import HistoryScan, StagedRows
from shoal.bus.store_protocol import QUEUES
from shoal.config.access import Action
from shoal.config.tokens import STORE_ROLES, Principal, Principals
from shoal.errors import (
    ClosedError,
    DiffersError,
    HistoryError,
    InvalidDestinationError,
    InvalidTopicError,
    LinkError,
    MessageFormatError,
    StoreError,
    StoreFullError,
    StoreRefusedError,
    StoreUnavailableError,
    TrimmedError,
)
from shoal.history import faults, query
from shoal.history.caller import Caller, Free, Rules
from shoal.history.descriptors import Admission
from shoal.history.options import DEFAULT_PORT, ServerOptions
from shoal.history.query import OFFSET_MAX, Query
from shoal.history.reader import PARTITIONS_MAX, WAIT_S_MAX, OpenScan, Reader
from shoal.history.staging import MakeRows, Stagings
from shoal.history.store import Store

#: How long running calls may go on when the server closes, before their connections are cut.
CLOSE_LINGER_S = 2.0
#: Names in one commit or discard.
STAGINGS_PER_CALL_MAX = 100_000
#: Actions that read what a query names, and those on a queue.
_READS = ("latest", "wait", "plan", "gaps")
_OF_QUEUES: dict[str, Action] = {"shown": "browse", "reserve": "consume"}
#: Messages of a reservation.
RESERVED_MAX = 100_000


def start(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    principals: Principals | None = None,
    rules: Rules | None = None,
    certificate: tuple[bytes, bytes] | None = None,
    **bounds: Any,
) -> "HistoryServer":
    """Serve a store's history until `close`; `bounds` are those of `ServerOptions`.

    Args:
        store: whose history it is.
        host: where to listen.
        port: where to listen.
        principals: owners of tokens that are let in; none lets in every client that reaches the port.
        rules: what principals may read and write; none lets each do everything.
        certificate: a certificate and its key (PEM), for TLS.
        bounds: others of `ServerOptions`.
    """
    options = ServerOptions(host=host, port=port, **bounds)
    return HistoryServer(
        store,
        options,
        open_scan=HistoryScan,
        make_rows=StagedRows,
        principals=principals,
        rules=rules,
        certificate=certificate,
    )


class HistoryServer:
    """A running server."""

    def __init__(
        self,
        store: Store,
        options: ServerOptions,
        *,
        open_scan: OpenScan,
        make_rows: MakeRows,
        principals: Principals | None = None,
        rules: Rules | None = None,
        certificate: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._reader = Reader(store, options, open_scan)
        service = _Actions(store, self._reader, Stagings(store, options, make_rows))
        try:
            self._flight = _Flight(service, options, principals, rules or Free(), certificate)
        except pa.ArrowException as error:
            where = f"{options.host}:{options.port}"
            raise LinkError(f"history cannot be served on {where}: {error}; is the port taken?") from None
        self.port: int = self._flight.port
        #: Where clients connect.
        scheme = "grpc" if certificate is None else "grpc+tls"
        self.endpoint = f"{scheme}://{_url_host(options.host)}:{self.port}"
        self._closing = threading.Event()

    def close(self) -> None:
        """End every call and stop listening. Calls that do not end by themselves lose their connection."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._reader.close()
        stopping = threading.Thread(target=self._flight.shutdown, name="shoal-history-stop", daemon=True)
        stopping.start()
        stopping.join(CLOSE_LINGER_S)
        while stopping.is_alive():
            # A client that reads no more holds its call for ever; without a connection it cannot.
            _cut_connections(self.port)
            stopping.join(0.1)

    def __enter__(self) -> "HistoryServer":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Actions:
    """The actions by name; each takes a JSON object and returns one."""

    def __init__(self, store: Store, reader: Reader, stagings: Stagings) -> None:
        self.reader, self.stagings, self._store = reader, stagings, store
        self.table: dict[str, tuple[Callable[..., dict[str, Any]], str]] = {
            "info": (self._info, "which store this is, its first and its next offset"),
            "status": (self._status, "what the store says of itself"),
            "latest": (self._latest, "how far a batch within limits reaches"),
            "wait": (self._wait, "the same, once something matches or time is over"),
            "plan": (self._plan, "ranges that can be read in parallel"),
            "offset_at": (self._offset_at, "the first offset at or after a time"),
            "topics": (self._topics, "topics with counts and offsets"),
            "gaps": (self._gaps, "what could not be recorded"),
            "hold": (self._hold, "keep what a subscription has not read yet"),
            "release": (self._release, "keep it no longer"),
            "holds": (self._holds, "what is held, and from which offset"),
            "shown": (self._shown, "which messages a queue has, by their offsets"),
            "reserve": (self._reserve, "set messages of a queue aside under a name"),
            "reserved": (self._reserved, "which messages those are, by their offsets"),
            "commit": (self._commit, "make stagings visible, at once and only once"),
            "forget": (self._forget, "remember nothing of a scope any more"),
            "discard": (self._discard, "forget stagings"),
        }

    def call(self, name: str, body: bytes, caller: Caller, gone: Callable[[], bool]) -> dict[str, Any]:
        """Do an action."""
        if name not in self.table:
            known = ", ".join(self.table)
            raise faults.bad_query(f"there is no action {name!r}; there are {known}", action=name)
        order = query.versioned(query.load(body or b'{"v": 1}', "the action's body"), "the action's body")
        self._check(name, order, caller)
        return self.table[name][0](order, gone)

    def _check(self, name: str, order: dict[str, Any], caller: Caller) -> None:
        """Refuse what the store's rules do not let a caller read or take."""
        if name in _READS:
            caller.check_query(self._query(order))
        elif name == "topics":
            pattern = query.text(order, "pattern")
            caller.check_reads([] if pattern is None else [pattern])
        elif name in _OF_QUEUES:
            caller.check(_OF_QUEUES[name], QUEUES + _named(order, "queue"))

    def _query(self, order: dict[str, Any]) -> Query:
        return Query.from_json(order.get("query") or {"v": query.VERSION})

    def _info(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        return self.reader.info()

    def _status(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        return self._store.status()

    def _latest(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        limits = [query.whole(order, name, most=OFFSET_MAX) for name in ("max_rows", "max_bytes")]
        max_rows, max_bytes = (OFFSET_MAX if limit is None else limit for limit in limits)
        return self.reader.latest(self._query(order), max_rows, max_bytes)

    def _wait(self, order: dict[str, Any], gone: Callable[[], bool]) -> dict[str, Any]:
        timeout_s = query.number(order, "timeout_s", most=WAIT_S_MAX, default=WAIT_S_MAX)
        return self.reader.wait(self._query(order), timeout_s, gone)

    def _plan(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        partitions = query.whole(order, "partitions", most=PARTITIONS_MAX, default=1) or 1
        rows_max = query.whole(order, "rows_max", most=OFFSET_MAX) or None
        return self.reader.plan(self._query(order), partitions, rows_max)

    def _offset_at(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        time_us = query.whole(order, "time_us", most=OFFSET_MAX)
        by = query.text(order, "by") or "stored"
        if time_us is None:
            raise faults.bad_query("offset_at needs time_us, microseconds since 1970", field="time_us")
        if by not in ("stored", "published"):
            raise faults.bad_query(f"by is {by!r}, and must be stored or published", field="by")
        return self.reader.offset_at(time_us, by)

    def _topics(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        pattern = query.text(order, "pattern")
        return self.reader.topics([] if pattern is None else [pattern])

    def _gaps(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        return self.reader.gaps(self._query(order))

    def _hold(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        offset = query.whole(order, "offset", most=OFFSET_MAX)
        if offset is None:
            raise faults.bad_query("hold needs an offset", field="offset")
        self._store.hold(_named(order, "subscription"), offset)
        return {}

    def _release(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        return {"released": bool(self._store.release(_named(order, "subscription")))}

    def _holds(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        return {"holds": dict(self._store.holds())}

    def _shown(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        start = query.whole(order, "start", most=OFFSET_MAX, default=0)
        selector = query.text(order, "selector")
        return self._asked(
            ("runs", "next"), "shown", queue=_named(order, "queue"), start=start, selector=selector
        )

    def _reserve(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        start = query.whole(order, "start", most=OFFSET_MAX)
        limits = {name: query.whole(order, name, most=OFFSET_MAX) for name in ("messages", "bytes")}
        limits["messages"] = None if limits["messages"] is None else min(limits["messages"], RESERVED_MAX)
        return self._asked(
            ("start", "end", "messages", "behind"),
            "reserve",
            name=_named(order, "subscription"),
            queue=_named(order, "queue"),
            start=-1 if start is None else start,
            selector=query.text(order, "selector"),
            **{name: limit for name, limit in limits.items() if limit is not None},
        )

    def _reserved(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        start = query.whole(order, "start", most=OFFSET_MAX, default=0)
        name = _named(order, "subscription")
        return self._asked(("runs", "end", "messages"), "reserved", name=name, start=start)

    def _asked(self, wanted: tuple[str, ...], op: str, **fields: Any) -> dict[str, Any]:
        try:
            answer = self._store.ask(op, **fields)
        except InvalidDestinationError as error:
            raise HistoryError(faults.NO_QUEUE, str(error), {}) from None
        return {name: answer[name] for name in wanted}

    def _commit(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        scope = query.text(order, "scope")
        number = query.whole(order, "number", most=OFFSET_MAX, default=None if scope else 0)
        if number is None:
            raise faults.bad_query("a commit in a scope needs a number, higher than the last", field="number")
        return self.stagings.commit(scope, number, self._named_stagings(order))

    def _forget(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        return {"forgotten": self._store.log.forget(_named(order, "scope"))}

    def _discard(self, order: dict[str, Any], gone: object) -> dict[str, Any]:
        return self.stagings.discard(self._named_stagings(order))

    def _named_stagings(self, order: dict[str, Any]) -> list[str]:
        return query.texts(order, "stagings", most=STAGINGS_PER_CALL_MAX)


class _Flight(flight.FlightServerBase):  # type: ignore[misc]
    """The Flight methods: parse, hand over, translate errors."""

    def __init__(
        self,
        service: _Actions,
        options: ServerOptions,
        principals: Principals | None,
        rules: Rules,
        certificate: tuple[bytes, bytes] | None,
    ) -> None:
        self._service, self._rules = service, rules
        self._admission = Admission()
        middleware = {} if principals is None else {"token": _TokenCheck(principals)}
        if certificate is None:
            super().__init__((options.host, options.port), middleware=middleware)
        else:
            place = flight.Location.for_grpc_tls(options.host, options.port)
            super().__init__(place, tls_certificates=[certificate], middleware=middleware)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        with self._call(context) as caller:
            asked = Query.from_json(query.load(ticket.ticket, "the ticket"))
            caller.check_query(asked)
            batches = self._service.reader.batches(asked)
            return flight.GeneratorStream(self._service.reader.schema(asked), _translating(batches))

    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        with _translated():
            return flight.SchemaResult(self._service.reader.schema(self._described(descriptor)))

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        """One endpoint with the query as its ticket; `plan` divides it."""
        with _translated():
            asked = self._described(descriptor)
            ticket = flight.Ticket(json.dumps(asked.to_json()).encode())
            schema = self._service.reader.schema(asked)
            return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(ticket, [])], -1, -1)

    def do_put(self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any) -> None:
        with self._call(context) as caller:
            order = query.versioned(query.load(descriptor.command or b"", "the descriptor"), "the descriptor")
            staging, topic = _named(order, "staging"), query.text(order, "topic")
            batches = (chunk.data for chunk in reader if chunk.data is not None)
            answer = self._service.stagings.put(
                staging, context.peer(), topic, reader.schema, batches, caller.check_publishes
            )
            writer.write(pa.py_buffer(json.dumps(answer).encode()))

    def do_action(self, context: Any, action: flight.Action) -> Iterator[flight.Result]:
        with self._call(context) as caller:
            body = b"" if action.body is None else action.body.to_pybytes()
            answer = self._service.call(action.type, body, caller, context.is_cancelled)
            return iter([flight.Result(pa.py_buffer(json.dumps(answer).encode()))])

    @contextlib.contextmanager
    def _call(self, context: Any) -> Iterator[Caller]:
        with _translated():
            self._admission.admit(context.peer())
            shown = context.get_middleware("token")
            if shown is None:
                yield Caller(self._rules)
            else:
                yield Caller(self._rules, shown.principal.name, shown.principal.is_operator)

    def list_actions(self, context: Any) -> list[flight.ActionType]:
        return [flight.ActionType(name, what) for name, (_, what) in self._service.table.items()]

    def _described(self, descriptor: flight.FlightDescriptor) -> Query:
        return Query.from_json(query.load(descriptor.command or b"", "the descriptor"))


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in only calls that carry the token of a principal."""

    def __init__(self, principals: Principals) -> None:
        self._principals = principals

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> "_Shown":
        """Called first for every call."""
        given = next(iter(headers.get("authorization") or [""]))
        text = given.decode(errors="replace") if isinstance(given, bytes) else given
        principal = self._principals.check(text.removeprefix("Bearer "))
        if principal is None or principal.role not in STORE_ROLES:
            what = "wrong" if given else "missing"
            sentence = f"The token is {what}: use one that `shoal token new` added to the store's token file."
            error = HistoryError(faults.DENIED, sentence, {})
            raise flight.FlightUnauthenticatedError(faults.to_text(error))
        return _Shown(principal)


class _Shown(flight.ServerMiddleware):  # type: ignore[misc]
    """The principal whose token a call carries."""

    def __init__(self, principal: Principal) -> None:
        self.principal = principal


def _named(order: dict[str, Any], name: str) -> str:
    value = query.text(order, name)
    if value is None:
        raise faults.bad_query(f"{name} is missing", field=name)
    return value


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """What goes wrong becomes an error that clients understand."""
    try:
        yield
    except HistoryError as error:
        raise _flight_error(error) from None
    except TrimmedError as error:
        detail = {"floor": error.floor}
        raise _flight_error(HistoryError(faults.TRIMMED, str(error), detail)) from None
    except InvalidTopicError as error:
        raise _flight_error(faults.bad_query(f"topics: {error}", field="topics")) from None
    except (StoreRefusedError, DiffersError) as error:
        raise _flight_error(faults.bad_query(str(error))) from None
    except StoreFullError as error:
        raise _flight_error(HistoryError(faults.FULL, str(error), {})) from None
    except (ClosedError, StoreUnavailableError) as error:
        raise _flight_error(HistoryError(faults.CLOSED, str(error), {})) from None
    except (StoreError, MessageFormatError) as error:
        raise _flight_error(HistoryError(faults.BROKEN, str(error), {})) from None


def _flight_error(error: HistoryError) -> flight.FlightError:
    kind = flight.FlightUnavailableError if error.code == faults.CLOSED else flight.FlightServerError
    return kind(faults.to_text(error))


def _translating(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with _translated():
        yield from batches


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _cut_connections(port: int) -> None:
    """Shut down this process's connections at a port: Flight cannot end a call that its client holds."""
    for entry in Path("/proc/self/fd").iterdir():
        with (
            contextlib.suppress(OSError),
            socket.fromfd(int(entry.name), socket.AF_INET, socket.SOCK_STREAM) as connection,
        ):
            if connection.getsockname()[1:2] == (port,):
                connection.shutdown(socket.SHUT_RDWR)
