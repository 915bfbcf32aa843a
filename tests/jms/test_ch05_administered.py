"""Sections 5.1 to 5.3: factories and destinations by name."""

from pathlib import Path

import pytest

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
