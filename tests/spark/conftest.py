"""One Spark session for all tests of this tier, and real stores."""

import json
import secrets

import pyarrow as pa
import pytest

import shoal.spark
from shoal import history
from shoal.config import resolve as resolve_connection
from shoal.processes.store import StoreProcess
from shoal.store import Store, resolve


@pytest.fixture(scope="session")
def spark():
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss8m"
    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": java,
        "spark.sql.shuffle.partitions": "2",
    }
    session = shoal.spark.session("tests", master="local[2,4]", conf=conf, quiet=True)
    yield session
    session.stop()


class LocalStore:
    """A store in this process, which is there at once; Spark reaches it as any other."""

    def __init__(self, directory):
        self.directory = directory
        self.domain = f"spark-{secrets.token_hex(4)}"
        config = resolve(directory, ">", flight="127.0.0.1:0", segment_bytes="4MB")
        self._store = Store(config, resolve_connection(None, {"domain": self.domain, "interface": "lo"}))
        self.address = self._store.endpoint

    def close(self):
        self._store.close()


@pytest.fixture(scope="session")
def any_store(tmp_path_factory):
    """One for tests that do not care what is in it."""
    started = LocalStore(tmp_path_factory.mktemp("any") / "store")
    yield started
    started.close()


@pytest.fixture
def store(tmp_path):
    started = LocalStore(tmp_path / "store")
    yield started
    started.close()


@pytest.fixture
def mortal_store(tmp_path):
    """One in a process of its own, which can be killed."""
    with StoreProcess(tmp_path / "store") as started:
        yield started


@pytest.fixture
def client(store):
    with history.connect(store.address) as connected:
        yield connected


def finish(query, seconds=240):
    """Wait for the end of a query; one that fails, or takes too long, fails the test here and not later."""
    assert query.awaitTermination(seconds), f"the query did not end within {seconds} s: {query.status}"


def prices(count, topic="prices", start=0):
    """Mappings on three topics, with a region and a size."""
    numbers = range(start, start + count)
    regions = pa.struct([("region", pa.string()), ("size", pa.int64())])
    return pa.table(
        {
            "topic": [f"{topic}/{number % 3}" for number in numbers],
            "body": [json.dumps({"n": number, "bid": number / 4}) for number in numbers],
            "body_kind": ["mapping"] * count,
            "properties": pa.array(
                [{"region": "EU" if number % 10 == 0 else "US", "size": number} for number in numbers],
                regions,
            ),
        }
    )


def pytest_collection_modifyitems(items):
    """JVMs start slowly on a busy machine: a hanging test is told after five minutes, not two."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))
