"""Whatever is sent to the port, the server answers the next honest question."""

import contextlib
import json
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore
from pyarrow import flight
from serving import Serve
from test_server import prices

from shoal._core import StagedRows
from shoal.history import History, connect
from shoal.history.query import Query

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_at_the_port_change_nothing(seed: int, history: History, serve: Serve) -> None:
    chance = random.Random(seed)
    address = ("127.0.0.1", int(history.endpoint.rpartition(":")[2]))
    for _ in range(20):
        with socket.create_connection(address) as connection:
            noise = chance.randbytes(chance.randrange(1, 5000))
            connection.sendall(PREFACE + noise if chance.random() < 0.5 else noise)
    assert history.info()["end"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_random_tickets_orders_and_tables_are_refused_one_by_one(
    seed: int, store: MemoryStore, history: History
) -> None:
    store.log.append(*prices(5))
    chance = random.Random(seed)
    honest = json.dumps(Query().to_json()).encode()
    actions = ["info", "latest", "wait", "plan", "topics", "gaps", "hold", "commit", "discard", "nonsense"]
    with flight.connect(history.endpoint) as client:
        for _ in range(60):
            body = bytearray(honest if chance.random() < 0.5 else json.dumps(random_json(chance, 3)).encode())
            for _ in range(chance.randrange(4)):
                body[chance.randrange(len(body))] = chance.randrange(256)
            call = chance.choice(("get", "action", "put"))
            with pytest.raises((pa.ArrowException, OSError)) if call == "put" else tolerant():
                if call == "get":
                    client.do_get(flight.Ticket(bytes(body))).read_all()
                elif call == "action":
                    list(client.do_action(flight.Action(chance.choice(actions), bytes(body))))
                else:
                    described = flight.FlightDescriptor.for_command(bytes(body))
                    writer, _ = client.do_put(described, pa.schema([("topic", pa.string())]))
                    writer.close()
    assert history.read().num_rows == 5


class tolerant:  # noqa: N801 - reads like a function
    """Lets a refusal pass."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, pa.ArrowException | OSError)


def random_json(chance: random.Random, depth: int) -> object:
    kinds = [None, True, -1, 2**70, 1.5, "x", "earliest", [], {}]
    if depth == 0 or chance.random() < 0.3:
        return chance.choice(kinds)
    names = [
        "v",
        "query",
        "topics",
        "from",
        "to",
        "selector",
        "columns",
        "stagings",
        "scope",
        "number",
        "offset",
    ]
    return {"v": 1, **{chance.choice(names): random_json(chance, depth - 1) for _ in range(3)}}


BUFFERS = st.binary(max_size=20)
TEXTS = st.tuples(st.none() | BUFFERS, BUFFERS, BUFFERS, st.integers(0, 2**64 - 1) | st.integers(0, 3))
NUMBERS = st.tuples(st.none() | BUFFERS, BUFFERS, st.integers(0, 3))
MAPS = st.tuples(st.none() | BUFFERS, BUFFERS, st.integers(0, 3), TEXTS, TEXTS)


@settings(deadline=None)
@given(rows=st.integers(0, 5), topic=TEXTS, body=TEXTS, priority=NUMBERS, ttl_ms=NUMBERS, properties=MAPS)
def test_columns_that_claim_anything_are_rows_or_a_mistake(rows: int, **columns: Any) -> None:
    with contextlib.suppress(ValueError):
        assert StagedRows(timestamp_us=0, rows=rows, **columns).count == rows


def test_offsets_that_lead_nowhere_are_refused_by_column() -> None:
    topic = (None, b"\x00\x00\x00\x00\xff\xff\xff\x7f", b"a", 0)
    with pytest.raises(ValueError, match="the column topic is shorter than the batch says"):
        StagedRows(timestamp_us=0, rows=1, topic=topic)


def test_two_hundred_readers_at_once_all_get_everything(store: MemoryStore, serve: Serve) -> None:
    store.log.append(*prices(50))
    endpoint = serve().endpoint

    def read(_: int) -> int:
        with connect(endpoint) as history:
            return int(history.read(columns=["offset"]).num_rows)

    with ThreadPoolExecutor(200) as pool:
        assert list(pool.map(read, range(200))) == [50] * 200
