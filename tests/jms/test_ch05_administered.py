"""Sections 5.1 to 5.3: factories and destinations by name."""

import pickle
import threading
from pathlib import Path

import pytest
from conftest import NON_PERSISTENT, PATIENCE_S

from shoal import jms
from shoal.errors import ConfigError

FILE = """
[factories.desk]
url = "inproc://administered"
client_id = "desk-7"
default_delivery_mode = 1

[topics]
prices = "prices/>"
cities = "/country=DK/city=*"

[queues]
orders = "orders/eu"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "objects.toml"
    path.write_text(FILE)
    return path


def test_objects_are_found_by_name(file: Path) -> None:
    assert jms.lookup("prices", file) == jms.Topic("prices/>")
    assert jms.lookup("orders", file) == jms.Queue("orders/eu")
    cities = jms.lookup("cities", file)
    assert isinstance(cities, jms.Topic)
    assert cities.bus_name == "country=DK,city=*"
    factory = jms.lookup("desk", file)
    assert isinstance(factory, jms.ConnectionFactory)
    with factory.create_connection() as connection:
        assert connection.client_id == "desk-7"


def test_a_delivery_mode_is_written_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "objects.toml"
    path.write_text("[factories.desk]\nurl = 'inproc://x'\ndefault_delivery_mode = 'NON_PERSISTENT'")
    factory = jms.lookup("desk", path)
    assert isinstance(factory, jms.ConnectionFactory)
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer(jms.Topic("x"))
        assert producer.delivery_mode is jms.DeliveryMode.NON_PERSISTENT


def test_the_environment_names_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_JMS_FILE", str(file))
    assert jms.lookup("orders") == jms.Queue("orders/eu")


def test_a_name_that_is_not_there_is_refused_with_those_that_are(file: Path) -> None:
    with pytest.raises(LookupError, match="has no 'bonds'; it has cities, desk, orders, prices"):
        jms.lookup("bonds", file)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = [", "cannot be read"),
        ("[brokers]\na = 1", "has a table 'brokers'"),
        ("[topics]\na = 5", r"topics\.a is 5"),
        ("[topics]\na = 'x'\n[queues]\na = 'y'", "two objects of the name 'a'"),
        ("[factories.a]\nurl = 'inproc://x'\nspeed = 5", r"factories\.a: .*speed"),
        ("topics = 5", "topics must be a table"),
        ("[topics]\na = 'a//b'", r"topics\.a: "),
        ("[queues]\na = 'a/*'", r"queues\.a: .* is no name of a queue"),
        (
            "[factories.a]\ndefault_delivery_mode = 'x'",
            r"default_delivery_mode is 'x', and must be 'NON_PERSIS",
        ),
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "objects.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=why):
        jms.lookup("a", path)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        jms.lookup("a", tmp_path / "none.toml")


def test_looking_up_opens_nothing(file: Path) -> None:
    """Section 5.1."""
    before = set(threading.enumerate())
    factory = jms.lookup("desk", file)
    jms.lookup("orders", file)
    assert set(threading.enumerate()) <= before
    # Its client id is not taken by that.
    with jms.ConnectionFactory("inproc://administered", client_id="desk-7").create_connection():
        assert isinstance(factory, jms.ConnectionFactory)


def test_objects_can_be_stored_and_brought_back(url: str) -> None:
    """Section 5.1."""
    topic, queue = pickle.loads(pickle.dumps((jms.Topic("/country=DK"), jms.Queue("orders"))))
    assert (topic, queue) == (jms.Topic("/country=DK"), jms.Queue("orders"))
    factory = pickle.loads(pickle.dumps(jms.ConnectionFactory(url, client_id="desk")))
    with factory.create_connection() as connection:
        assert connection.client_id == "desk"


def test_threads_share_factories_and_destinations(url: str) -> None:
    """Sections 5.2 and 5.3."""
    factory, topic = jms.ConnectionFactory(url, default_delivery_mode=NON_PERSISTENT), jms.Topic("shared")
    with factory.create_context() as context:
        consumer = context.create_consumer(topic)

        def send(number: int) -> None:
            with factory.create_context() as own:
                own.create_producer().send(topic, str(number))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        found = {consumer.receive_body(str, timeout_s=PATIENCE_S) for _ in threads}
        for thread in threads:
            thread.join(PATIENCE_S)
        assert found == {str(number) for number in range(8)}
