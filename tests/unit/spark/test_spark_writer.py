import pickle

import pyarrow as pa
import pytest

from shoal.errors import ConfigError, HistoryError, StoreUnavailableError
from shoal.spark import store, writer
from shoal.spark.ddl import parse_schema
from shoal.spark.options import write_options

SCHEMA = parse_schema("x", "body STRING")


class FakeStore:
    """Stagings and commits as a store keeps them; fails when it is told to."""

    def __init__(self):
        self.staged = {}
        self.scopes = {}
        self.visible = []
        self.failing = []

    def _maybe_fail(self, what, when):
        if (what, when) in self.failing:
            self.failing.remove((what, when))
            raise StoreUnavailableError("gone")

    def info(self):
        return {"domain": "default"}

    def stage(self, staging, rows, *, topic):
        self._maybe_fail("stage", "before")
        self.staged[staging] = [(topic, body) for body in rows.column("body").to_pylist()]
        self._maybe_fail("stage", "after")

    def commit(self, scope, number, stagings):
        self._maybe_fail("commit", "before")
        if scope is not None and self.scopes.get(scope, -1) >= number:
            return {"repeated": True}
        if missing := [each for each in stagings if each not in self.staged]:
            raise HistoryError("NO-STAGING", "expired", {"stagings": missing})
        for each in stagings:
            self.visible += self.staged.pop(each)
        if scope is not None:
            self.scopes[scope] = number
        self._maybe_fail("commit", "after")
        return {"repeated": False}

    def forget(self, scope):
        if "forget" in self.failing:
            raise HistoryError("BROKEN", "the disk is gone")
        return self.scopes.pop(scope, None) is not None

    def discard(self, stagings):
        for each in stagings:
            self.staged.pop(each, None)

    def close(self):
        pass


class Task:
    """What a task knows of itself."""

    def __init__(self, partition, attempt, query="q"):
        self._partition, self._attempt, self._query = partition, attempt, query

    def partitionId(self):  # noqa: N802
        return self._partition

    def taskAttemptId(self):  # noqa: N802
        return self._attempt

    def getLocalProperty(self, name):  # noqa: N802
        return {"sql.streaming.queryId": self._query}[name]


@pytest.fixture
def fake(monkeypatch):
    made = FakeStore()
    monkeypatch.setattr(store.history, "connect", lambda *_, **__: made)
    monkeypatch.setattr(store.time, "sleep", lambda _: None)
    return made


def rows(*bodies):
    return iter([pa.record_batch({"body": pa.array(bodies, pa.string())})])


def run(made, task, *bodies):
    """What a task leaves, on its way from a worker to the driver."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer.TaskContext, "get", staticmethod(lambda: task))
        return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(made)).write(rows(*bodies))))


def stream(**given):
    return writer.ShoalStreamWriter(write_options({"topic": "t", **given}), SCHEMA, False)


def batch(**given):
    return writer.ShoalWriter(write_options({"topic": "t", **given}), SCHEMA, False)


def bodies(fake):
    return [body for _, body in fake.visible]


def test_nothing_is_visible_before_the_commit_and_then_in_the_order_of_tasks(fake):
    made = stream()
    left = [run(made, Task(1, 11), "c", "d"), run(made, Task(0, 10), "a", "b")]
    assert fake.visible == []
    made.commit(left, 0)
    assert fake.visible == [("t", "a"), ("t", "b"), ("t", "c"), ("t", "d")]
    assert fake.scopes == {"spark-q": 0}
    assert fake.staged == {}


@pytest.mark.parametrize("made", [stream, batch])
def test_a_store_that_is_not_there_fails_the_write_before_any_task(fake, monkeypatch, made):
    def away():
        raise StoreUnavailableError("gone")

    monkeypatch.setattr(fake, "info", away)
    with pytest.raises(StoreUnavailableError, match=r"no store answered at grpc://127.0.0.1:7475"):
        made(storeTimeout="1ms")


@pytest.mark.parametrize("made", [stream, batch])
def test_a_store_of_another_domain_is_refused(fake, made):
    made(domain="default")
    with pytest.raises(
        ConfigError, match=r"option domain says 'desk', but the store .* belongs to 'default'"
    ):
        made(domain="desk")


def test_only_attempts_that_spark_counts_are_committed(fake):
    made = stream()
    run(made, Task(0, 10), "a")  # killed before Spark heard of it
    made.commit([run(made, Task(0, 12), "a"), None], 0)
    assert bodies(fake) == ["a"]
    assert len(fake.staged) == 1, "the other expires"


def test_a_micro_batch_that_is_done_again_changes_nothing_and_leaves_nothing(fake):
    made = stream()
    made.commit([run(made, Task(0, 10), "a")], 7)
    again = stream()
    again.commit([run(again, Task(0, 99), "a")], 7)
    assert bodies(fake) == ["a"]
    assert fake.staged == {}


def test_what_is_committed_does_not_fail_because_the_store_cannot_tidy_up(fake, caplog):
    fake.failing = ["forget"]
    made = batch()
    made.commit([run(made, Task(0, 10), "a")])
    assert bodies(fake) == ["a"]
    assert "The rows are committed" in caplog.text


def test_a_micro_batch_without_rows_commits_nothing(fake):
    made = stream()
    made.commit([run(made, Task(0, 10))], 0)
    made.commit([], 1)
    assert fake.scopes == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_store_that_dies_while_it_stages_or_commits_takes_each_row_once(fake, when):
    for made, scope in ((stream(), "spark-q"), (batch(), None)):
        fake.visible.clear()
        fake.failing = [("stage", when), ("commit", when)]
        left = [run(made, Task(0, 10), "a", "b")]
        made.commit(left, *(() if scope is None else (0,)))
        assert bodies(fake) == ["a", "b"]
        assert fake.failing == []


def test_a_batch_without_an_id_leaves_nothing_to_remember(fake):
    made = batch()
    made.commit([run(made, Task(0, 1), "a")])
    assert bodies(fake) == ["a"]
    assert fake.scopes == {}


def test_one_with_an_id_is_remembered_by_it(fake):
    for _ in range(2):
        made = batch(writeId="mine", writeNumber="3")
        made.commit([run(made, Task(0, 1), "a")])
    assert bodies(fake) == ["a"]
    assert fake.scopes == {"mine": 3}


def test_at_least_once_needs_no_common_commit(fake):
    made = stream(deliveryGuarantee="at-least-once")
    left = run(made, Task(0, 10), "a")
    assert bodies(fake) == ["a"]
    made.commit([left], 0)
    assert bodies(fake) == ["a"]
    assert fake.scopes == {}


def test_what_is_aborted_is_discarded(fake):
    for made, more in ((stream(), (0,)), (batch(), ())):
        made.abort([run(made, Task(0, 10), "a"), None], *more)
        assert fake.staged == {}
        assert fake.visible == []


def test_stagings_that_expired_are_told_not_taken_for_committed(fake):
    made = stream()
    left = [run(made, Task(0, 10), "a")]
    fake.staged.clear()
    with pytest.raises(HistoryError, match="expired"):
        made.commit(left, 0)


def test_two_queries_do_not_share_their_numbers(fake):
    made = stream()
    made.commit([run(made, Task(0, 1, "q"), "a")], 5)
    made.commit([run(made, Task(0, 1, "r"), "b")], 0)
    assert bodies(fake) == ["a", "b"]


def test_rows_are_sent_in_portions(fake, monkeypatch):
    monkeypatch.setattr(writer, "STAGING_ROWS", 2)
    monkeypatch.setattr(writer.TaskContext, "get", staticmethod(lambda: Task(0, 1)))
    made = stream()
    several = (pa.record_batch({"body": [f"{at}"]}) for at in range(5))
    left = made.write(several)
    assert len(left.stagings) == 3
    made.commit([left], 0)
    assert bodies(fake) == ["0", "1", "2", "3", "4"]


def test_a_stream_takes_no_id_and_needs_one_from_spark(fake):
    with pytest.raises(ConfigError, match=r"option writeId is for df\.write"):
        stream(writeId="x")
    with pytest.raises(ConfigError, match="Spark told no id of the query"):
        run(stream(), Task(0, 1, query=None), "a")
    with pytest.raises(ConfigError, match="cannot be overwritten"):
        writer.ShoalWriter(write_options({"topic": "t"}), SCHEMA, True)
