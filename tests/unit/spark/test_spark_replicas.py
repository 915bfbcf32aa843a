"""Tasks read what members that follow have, and the rest from the store."""

from typing import ClassVar

import pyarrow as pa
import pytest

from shoal.errors import ConfigError, StoreUnavailableError
from shoal.spark import reading
from shoal.spark.ddl import parse_schema
from shoal.spark.options import read_options
from shoal.spark.reading import Range, Reading
from shoal.spark.store import Query

STORE, NEAR, FAR = "grpc://owner:1", "grpc://near:1", "grpc://far:1"


class FakeStore:
    """One that has rows up to an offset, and breaks after so many."""

    ends: ClassVar[dict[str, int]] = {}
    breaks: ClassVar[dict[str, int]] = {}
    read: ClassVar[list[tuple[str, int]]] = []

    def __init__(self, options, known_at=None):
        self.address = options.store

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def info(self):
        if self.address not in self.ends:
            raise StoreUnavailableError("nobody is there")
        return {"incarnation": "one", "end": self.ends[self.address]}

    def batches(self, query, start, end, incarnation):
        for offset in range(start, end):
            if offset >= self.breaks.get(self.address, end):
                raise StoreUnavailableError("it went away")
            self.read.append((self.address, offset))
            yield pa.RecordBatch.from_pydict({"offset": [offset], "topic": ["t"]})


@pytest.fixture
def rows(monkeypatch):
    FakeStore.ends, FakeStore.breaks, FakeStore.read = {STORE: 10}, {}, []
    monkeypatch.setattr(reading, "Store", FakeStore)

    def read(replica=f"{NEAR}, {FAR}"):
        options = read_options({"subscribe": "t", "store": STORE, "replica": replica})
        reader = Reading(options, parse_schema("x", "topic STRING"))
        part = Range(Query(("t",), None), "one", 0, 4, STORE)
        assert sum(batch.num_rows for batch in reader.rows(part)) == 4
        return [name.partition("//")[2].partition(":")[0] for name, _ in FakeStore.read]

    return read


def test_a_replica_that_has_the_range_is_read_alone(rows):
    FakeStore.ends |= {NEAR: 4, FAR: 10}
    assert rows() == ["near"] * 4


def test_one_that_is_away_or_behind_is_left_out(rows):
    FakeStore.ends |= {NEAR: 3}
    assert rows() == ["owner"] * 4


def test_where_one_breaks_the_next_goes_on(rows):
    FakeStore.ends |= {NEAR: 4, FAR: 4}
    FakeStore.breaks = {NEAR: 1, FAR: 3}
    assert rows() == ["near", "far", "far", "owner"]
    assert [offset for _, offset in FakeStore.read] == [0, 1, 2, 3]


def test_a_replica_is_an_address(rows):
    with pytest.raises(ConfigError, match="option replica must list addresses"):
        rows("near:1")
