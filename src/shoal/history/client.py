"""Reading a store's history and writing batches into it, from any process: with pyarrow, without a bus."""

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pyarrow as pa
from pyarrow import flight

from shoal.config.tokens import Token, token_of
from shoal.errors import ConfigError, HistoryError, ShoalError, StoreError, StoreUnavailableError
from shoal.history import faults
from shoal.history.pinning import pinned
from shoal.history.query import VERSION, Query, Start
from shoal.history.reader import WAIT_S_MAX
from shoal.history.schema import DEFAULT_COLUMNS

#: What a time may be given as: microseconds since 1970, or a datetime with a time zone.
Time = int | datetime

ENDPOINT_FILE = "endpoint.json"

#: How long a store may take to answer a new connection; one without a free file descriptor never does.
CONNECT_S = 10.0


class QueryOptions(TypedDict, total=False):
    """What a question about history may ask for; `History.batches` describes each."""

    selector: str | None
    columns: Sequence[str] | None
    properties: Mapping[str, str] | None
    start: Start | None
    end: int | None
    from_time: Time | None
    to_time: Time | None
    limit: int | None
    incarnation: str | None
    only: Sequence[tuple[int, int]] | None


def connect(
    store: str | Path,
    *,
    token: str | None = None,
    token_file: str | Path | None = None,
    ca: str | Path | None = None,
    fingerprint: str | None = None,
) -> "History":
    """A store's history: `grpc://host:port`, or the directory of a store that runs on this machine.

    Nothing is sent before the first question.

    Args:
        store: `grpc://host:port`, `grpc+tls://host:port`, or a directory.
        token: what the store asks for; better in a file.
        token_file: a file with the token. `SHOAL_TOKEN` and `SHOAL_TOKEN_FILE` name them, too.
        ca: over TLS, a file with the certificates of the authorities that sign the store's.
        fingerprint: over TLS, the store's certificate itself, as `shoal store --tls` prints it.

    Raises:
        ConfigError: `store` is neither an address nor a directory.
        StoreUnavailableError: no store serves the history in this directory; the message says what to start.
    """
    endpoint, known = endpoint_of(store)
    return History(
        endpoint, token=token_of(token, token_file), ca=ca, fingerprint=None if ca else fingerprint or known
    )


def endpoint_of(store: str | Path) -> tuple[str, str | None]:
    """Where a store listens, and its certificate's fingerprint; a directory is asked what its store wrote."""
    if isinstance(store, str) and "://" in store:
        if not store.startswith(("grpc://", "grpc+tcp://", "grpc+tls://")):
            raise ConfigError(f"store is {store!r}, and must be grpc://host:port or a store's directory")
        return store, None
    if not Path(store).is_dir():
        raise _no_directory(str(store))
    try:
        told = json.loads((Path(store) / ENDPOINT_FILE).read_text())
        return str(told["flight"]), told.get("fingerprint")
    except (OSError, ValueError, KeyError):
        raise _unserved(Path(store)) from None


def _no_directory(store: str) -> ConfigError:
    """What is wrong with the name of a store that is no directory."""
    if re.fullmatch(r"[\w.-]+:\d+|\[[\da-fA-F:]+\]:\d+", store):
        return ConfigError(f"store is {store!r}, which is no directory: did you mean grpc://{store}?")
    problem = "is no directory" if Path(store).exists() else "does not exist"
    return ConfigError(
        f"store is {store!r}, which {problem}: give the directory of a store, or grpc://host:port. {_NEW}"
    )


#: How to start a store whose history can be read.
_NEW = "To start a store: shoal store --data DIRECTORY --flight 127.0.0.1:7475"


def _unserved(directory: Path) -> StoreUnavailableError:
    """What to start where no store serves the history in a directory."""
    command = f"shoal store --data {directory} --flight 127.0.0.1:7475"
    # Few readers need it.
    from shoal.store.status import read_status

    try:
        status = read_status(directory)
    except (StoreError, KeyError, TypeError):
        if any(directory.iterdir()):
            return StoreUnavailableError(
                f"{str(directory)!r} is not the directory of a store: give one, or grpc://host:port. {_NEW}"
            )
    else:
        if status.get("state") != "closed" and not status["stale"]:
            return StoreUnavailableError(
                f"the store in {str(directory)!r} (process {status.get('pid')}) serves no history. Stop it, "
                f"and start it with --flight: {command}"
            )
    return StoreUnavailableError(f"no store serves the history in {str(directory)!r}. Start one: {command}")


def _unreachable(endpoint: str, sentence: str) -> str:
    """What gRPC says of a server that is not there, in fewer words."""
    if "failed to connect to all addresses" not in sentence:
        return f"the store cannot be reached: {sentence}"
    why = sentence.rpartition(": ")[2]
    return (
        f"no store serves history at {endpoint}: {why}. Start one: "
        f"shoal store --data ./data --flight {endpoint.partition('://')[2]}"
    )


class History:
    """A connection to one store. May be shared between threads; a forked child makes its own."""

    def __init__(
        self,
        endpoint: str,
        *,
        token: Token | None = None,
        ca: str | Path | None = None,
        fingerprint: str | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._ca, self._fingerprint = ca, fingerprint
        self._options = flight.FlightCallOptions(
            headers=[] if token is None else [(b"authorization", f"Bearer {token.text}".encode())]
        )
        self._client: flight.FlightClient | None = None

    def _connected(self) -> flight.FlightClient:
        if self._client is None:
            try:
                patience = [("grpc.min_reconnect_backoff_ms", int(CONNECT_S * 1000))]
                self._client = flight.FlightClient(self.endpoint, generic_options=patience, **self._trust())
            except pa.ArrowInvalid as error:
                raise ConfigError(f"store is {self.endpoint!r}, which is no address: {error}") from None
        return self._client

    def _trust(self) -> dict[str, Any]:
        """Whose certificate is accepted."""
        if self._ca is not None:
            return {"tls_root_certs": Path(self._ca).read_bytes()}
        if self._fingerprint is None or not self.endpoint.startswith("grpc+tls://"):
            return {}
        certificate, name = pinned(self.endpoint, self._fingerprint, CONNECT_S)
        return {"tls_root_certs": certificate, "override_hostname": name}

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Reading

    def info(self) -> dict[str, Any]:
        """Which store this is (`incarnation`, `name`, `domain`) and its offsets, from `floor` up to `end`."""
        return self._act("info")

    def read(self, topics: str | Sequence[str] = (), **query: Unpack[QueryOptions]) -> pa.Table:
        """All rows that match; arguments as for `batches`."""
        reader = self._reader(_query(topics, **query))
        with self._understood():
            return reader.read_all()

    def batches(
        self, topics: str | Sequence[str] = (), **query: Unpack[QueryOptions]
    ) -> Iterator[pa.RecordBatch]:
        """Rows in the order of their offsets, as record batches.

        Args:
            topics: one pattern or several, of which one must match; none means everything.
            query: `selector`; `columns` (names, in this order); `properties` (property name to type, each a
                column of its own: string, text, int64, float64, bool); `start` (an offset, "earliest" or
                "latest"); `end` (the offset after the last); `from_time` and `to_time` (when stored:
                microseconds since 1970, or datetimes); `limit` (rows); `incarnation` (of the store that the
                offsets are from); `only` (runs of offsets, (first, last), beside which nothing is meant).
        """
        reader = self._reader(_query(topics, **query))
        with self._understood():
            for chunk in reader:
                yield chunk.data

    def reader(self, topics: str | Sequence[str] = (), **query: Unpack[QueryOptions]) -> pa.RecordBatchReader:
        """The same rows as something that DuckDB, polars and pyarrow read batch by batch."""
        asked = _query(topics, **query)
        stream = self._reader(asked)
        with self._understood():
            return stream.to_reader()

    def follow(
        self, topics: str | Sequence[str] = (), **query: Unpack[QueryOptions]
    ) -> Iterator[pa.RecordBatch]:
        """Rows as `batches` gives them, then those that come. From the latest on by default.

        It ends where `limit`, `end` or `to_time` says, and otherwise never.
        """
        query.setdefault("start", "latest")
        asked = _query(topics, **query)
        info = self.info()
        incarnation = asked.incarnation or info["incarnation"]
        start: Start = asked.start if isinstance(asked.start, int) else self._first(asked)
        left = asked.limit
        while left is None or left > 0:
            here = _changed(asked, start=start, incarnation=incarnation, limit=None, from_time_us=None)
            found = self._act("wait", query=here.to_json(), timeout_s=WAIT_S_MAX)
            if found["over"]:
                return
            if not found["rows"]:
                continue
            for batch in self._batches(_changed(here, end=found["end"], limit=left)):
                left = None if left is None else left - batch.num_rows
                yield batch
            start = found["end"]

    def _first(self, asked: Query) -> int:
        return int(self._act("latest", query=asked.to_json(), max_rows=0)["from"])

    def latest(
        self,
        topics: str | Sequence[str] = (),
        *,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        **query: Unpack[QueryOptions],
    ) -> dict[str, Any]:
        """How far a batch within these limits reaches.

        `end` is the offset after its last row (`from` if there is none), `rows` and `bytes` what it has,
        `more` whether rows behind it match too, `high` the offset up to which was looked.
        """
        asked = _query(topics, **query).to_json()
        return self._act("latest", query=asked, max_rows=max_rows, max_bytes=max_bytes)

    def wait(
        self,
        topics: str | Sequence[str] = (),
        *,
        timeout_s: float = WAIT_S_MAX,
        **query: Unpack[QueryOptions],
    ) -> dict[str, Any]:
        """As `latest`, once something matches; after the time with `rows` 0."""
        return self._act("wait", query=_query(topics, **query).to_json(), timeout_s=timeout_s)

    def plan(
        self,
        topics: str | Sequence[str] = (),
        *,
        partitions: int = 1,
        rows_max: int | None = None,
        **query: Unpack[QueryOptions],
    ) -> list[tuple[int, int, int]]:
        """Ranges (first offset, the one after the last, about how many rows) that can be read in parallel."""
        asked = _query(topics, **query).to_json()
        answer = self._act("plan", query=asked, partitions=partitions, rows_max=rows_max)
        return [(first, end, rows) for first, end, rows in answer["ranges"]]

    def offset_at(self, time: Time, *, by: str = "stored") -> int:
        """The first offset stored (or `by="published"`) at or after a time; the end if there is none."""
        return int(self._act("offset_at", time_us=_time_us("time", time), by=by)["offset"])

    def topics(self, pattern: str | None = None) -> list[dict[str, Any]]:
        """Topics with `count`, and `first` and `last` offset."""
        return list(self._act("topics", pattern=pattern)["topics"])

    def gaps(self, **query: Unpack[QueryOptions]) -> list[dict[str, Any]]:
        """What the store could not record, each with the offset before which it would have been."""
        return list(self._act("gaps", query=_query((), **query).to_json())["gaps"])

    def status(self) -> dict[str, Any]:
        """What the store says of itself."""
        return self._act("status")

    # Queues

    def shown(
        self, queue: str, *, start: int = 0, selector: str | None = None
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Which messages a queue has, as runs of offsets with both ends included; and where to go on.

        `batches` reads them with `only`, from the topic `_queue/NAME`.
        """
        answer = self._act("shown", queue=queue, start=start, selector=selector)
        return _pairs(answer["runs"]), answer["next"]

    def reserve(
        self,
        subscription: str,
        queue: str,
        *,
        start: int | None = None,
        messages: int | None = None,
        bytes: int | None = None,
        selector: str | None = None,
    ) -> dict[str, Any]:
        """Set messages of a queue aside under a name: `start`, `end`, `messages`, and how many are `behind`.

        The same start gives the same messages. The end of a reservation as the start acknowledges it and
        reserves the next ones; without a start it goes on where it is.
        """
        order = {"subscription": subscription, "queue": queue, "start": start, "selector": selector}
        return self._act("reserve", **order, messages=messages, bytes=bytes)

    def reserved(self, subscription: str, start: int) -> tuple[list[tuple[int, int]], int]:
        """Which messages a reservation has, as runs of offsets with both ends included; and its end."""
        answer = self._act("reserved", subscription=subscription, start=start)
        return _pairs(answer["runs"]), int(answer["end"])

    # Retention

    def hold(self, subscription: str, offset: int) -> None:
        """Keep everything from an offset on, until the subscription moves its hold or releases it."""
        self._act("hold", subscription=subscription, offset=offset)

    def release(self, subscription: str) -> bool:
        """Give up a hold; returns whether there was one."""
        return bool(self._act("release", subscription=subscription)["released"])

    def holds(self) -> dict[str, int]:
        """Every hold with its offset."""
        return dict(self._act("holds")["holds"])

    # Writing

    def stage(
        self,
        staging: str,
        rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        *,
        topic: str | None = None,
    ) -> dict[str, int]:
        """Send rows to the store, invisible until a commit; returns how many `rows` and `bytes` it took.

        A staging of that name that was not committed begins anew. `topic` is for rows without one.
        """
        schema, batches = _batches_of(rows)
        order = json.dumps({"v": VERSION, "staging": staging, "topic": topic}).encode()
        descriptor = flight.FlightDescriptor.for_command(order)
        with self._understood():
            writer, answers = self._connected().do_put(descriptor, schema, self._options)
            try:
                for batch in batches:
                    writer.write_batch(batch)
                writer.done_writing()
                answer = answers.read()
            finally:
                # Where the store refused the rows, closing says why.
                writer.close()
        if answer is None:
            raise StoreUnavailableError("the connection ended before the store said that it has the rows")
        return dict(json.loads(answer.to_pybytes()))

    def commit(self, scope: str | None, number: int, stagings: Sequence[str]) -> dict[str, Any]:
        """Make stagings visible, in this order, at once; returns `first`, `end`, `rows` and `repeated`.

        A scope remembers its highest number: the same commit again changes nothing and says `repeated`.
        Without a scope nothing is remembered.
        """
        return self._act("commit", scope=scope, number=number, stagings=list(stagings))

    def forget(self, scope: str) -> bool:
        """Have the store remember nothing of a scope that commits no more; returns whether it did."""
        return bool(self._act("forget", scope=scope)["forgotten"])

    def discard(self, stagings: Sequence[str]) -> int:
        """Forget stagings; returns how many there were."""
        return int(self._act("discard", stagings=list(stagings))["discarded"])

    def write(
        self,
        rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        *,
        topic: str | None = None,
        scope: str | None = None,
        number: int = 0,
        id: str | None = None,
    ) -> dict[str, Any]:
        """Stage and commit in one step. With a scope, a number that was committed before changes nothing."""
        staging = id or uuid.uuid4().hex
        self.stage(staging, rows, topic=topic)
        answer = self.commit(scope, number, [staging])
        if answer["repeated"]:
            self.discard([staging])
        return answer

    # The transport

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Flight's errors as Shoal's."""
        try:
            yield
        except ShoalError:
            raise
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            told = faults.from_text(str(error))
            if told is not None and "descriptors" in told.detail:
                # It was not let in: the next client may have its place.
                self.close()
            if told is not None and told.code != faults.CLOSED:
                raise told from None
            sentence = faults.sentence_of(str(error)) if told is None else told.sentence
            if isinstance(error, flight.FlightUnavailableError | flight.FlightCancelledError):
                raise StoreUnavailableError(_unreachable(self.endpoint, sentence)) from None
            raise HistoryError(faults.BROKEN, sentence, {}) from error

    def _act(self, name: str, **order: Any) -> dict[str, Any]:
        body = json.dumps({"v": VERSION, **order}).encode()
        with self._understood():
            [answer] = self._connected().do_action(flight.Action(name, body), self._options)
            return dict(json.loads(answer.body.to_pybytes()))

    def _reader(self, query: Query) -> flight.FlightStreamReader:
        ticket = flight.Ticket(json.dumps(query.to_json()).encode())
        with self._understood():
            return self._connected().do_get(ticket, self._options)

    def _batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        reader = self._reader(query)
        with self._understood():
            for chunk in reader:
                yield chunk.data


def _query(
    topics: str | Sequence[str] = (),
    *,
    selector: str | None = None,
    columns: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    start: Start | None = None,
    end: int | None = None,
    from_time: Time | None = None,
    to_time: Time | None = None,
    limit: int | None = None,
    incarnation: str | None = None,
    only: Sequence[tuple[int, int]] | None = None,
) -> Query:
    return Query(
        topics=(topics,) if isinstance(topics, str) else tuple(topics),
        selector=selector,
        columns=DEFAULT_COLUMNS if columns is None else tuple(columns),
        properties=dict(properties or {}),
        start="earliest" if start is None else start,
        end=end,
        from_time_us=None if from_time is None else _time_us("from_time", from_time),
        to_time_us=None if to_time is None else _time_us("to_time", to_time),
        limit=limit,
        incarnation=incarnation,
        only=None if only is None else tuple((first, last) for first, last in only),
    )


def _pairs(runs: list[int]) -> list[tuple[int, int]]:
    return list(zip(runs[::2], runs[1::2], strict=True))


def _changed(query: Query, **changes: Any) -> Query:
    return Query(**{**vars(query), **changes})


def _time_us(name: str, time: Time) -> int:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ConfigError(f"{name} is {time}, which has no time zone: use datetime(..., tzinfo=UTC)")
        since = time - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return time


def _batches_of(
    rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    if isinstance(rows, pa.RecordBatch):
        return rows.schema, [rows]
    if isinstance(rows, pa.Table):
        return rows.schema, rows.to_batches()
    if isinstance(rows, pa.RecordBatchReader):
        return rows.schema, rows
    batches = iter(rows)
    first = next(batches, None)
    if first is None:
        raise ConfigError("rows is empty, and must hold at least one record batch, which may have no rows")
    return first.schema, _chain(first, batches)


def _chain(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others
