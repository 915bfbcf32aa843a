"""What a store can be told."""

from pathlib import Path

import pytest

import shoal
from shoal.config import ConnectionConfig
from shoal.errors import ConfigError, InvalidDestinationError, InvalidTopicError
from shoal.store import Store
from shoal.store.config import Rule, load_toml, parse_duration, parse_size, resolve


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("12h", 43_200), ("7d", 604_800), ("1.5h", 5400), (3, 3)]
)
def test_times_are_written_with_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("500MB", 500_000_000), ("10GB", 10**10), ("1.5 KB", 1500), ("7", 7), (7, 7)]
)
def test_sizes_are_written_with_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"keep": "7 years"}, "keep is '7 years', and must be a time such as 90s"),
        ({"keep_bytes": "many"}, "keep_bytes is 'many', and must be a size such as 500MB"),
        ({"segment_bytes": 5}, "segment_bytes is 5, and must be from 16384"),
        ({"recrod": []}, "unknown option 'recrod'"),
        ({"record": [{"pattern": "a", "kep": "1d"}]}, "unknown option 'kep' in record: did you mean 'keep'"),
        ({"record": [{"keep": "1d"}]}, "which names no pattern"),
        ({"record": ["a", "a"]}, "and must be patterns that differ"),
        ({"patterns": ["a", "_queue/jobs"]}, "a store keeps a queue by its name, 'jobs'"),
        ({"flight": "here"}, "flight is 'here', and must be HOST:PORT"),
        ({"warn_free_bytes": 1}, "warn_free_bytes is 1, and must be at least"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, options: dict[str, object], wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        resolve(tmp_path, **options)


def test_a_file_says_the_same_as_keywords(tmp_path: Path) -> None:
    file = tmp_path / "store.toml"
    file.write_text(
        """
        data = "data"
        keep = "7d"
        keep_bytes = "10GB"
        [connection]
        domain = "desk"
        [[record]]
        pattern = "prices/>"
        [[record]]
        pattern = "orders/*"
        keep = "90d"
        keep_bytes = "1GB"
        """
    )
    config, connection = load_toml(file)
    orders = Rule(pattern="orders/*", keep_s=90 * 86_400.0, keep_bytes=10**9)
    assert config == resolve(tmp_path / "data", ["prices/>", orders], keep="7d", keep_bytes="10GB")
    assert connection == {"domain": "desk"}


def test_a_file_without_a_directory_or_with_a_mistake_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "store.toml"
    file.write_text("keep = '1d'")
    with pytest.raises(ConfigError, match="names no directory"):
        load_toml(file)
    file.write_text("keep = ")
    with pytest.raises(ConfigError, match="is no TOML"):
        load_toml(file)


def test_options_of_a_store_mean_nothing_without_one() -> None:
    with pytest.raises(ConfigError, match="record means nothing without store=DIRECTORY"):
        shoal.connect("inproc://x", record=["a"])


def test_a_pattern_that_is_none_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidTopicError, match="the level at position 2 is empty"):
        resolve(tmp_path / "data", "a//b")
    assert not (tmp_path / "data").exists()


def test_a_file_says_where_dead_letters_of_queues_go(tmp_path: Path) -> None:
    file = tmp_path / "store.toml"
    file.write_text(
        """
        data = "data"
        [[queues]]
        name = "orders"
        deliveries_max = 2
        dead_letter = "bad-orders"
        backoff_s = "1s"
        backlog_max_bytes = "1MB"
        """
    )
    config, _ = load_toml(file)
    with Store(config, ConnectionConfig(scheme="inproc", domain="queues-by-file")) as store:
        (queue,) = store.status()["queues"]
        told = {name: queue[name] for name in ("name", "deliveries_max", "dead_letter", "backoff_s")}
        assert told == {"name": "orders", "deliveries_max": 2, "dead_letter": "bad-orders", "backoff_s": 1.0}
        assert queue["backlog_max_bytes"] == 1_000_000


@pytest.mark.parametrize(
    ("queues", "match"),
    [
        ("orders", "a list of tables"),
        (["orders"], "tables with a name"),
        ([{"deliveries_max": 3}], "tables with a name"),
        ([{"name": "orders", "deliveries": 3}], "unknown option 'deliveries'"),
        ([{"name": "orders", "deliveries_max": -1}], "deliveries_max"),
        ([{"name": "a//b"}], "no name of a queue"),
    ],
)
def test_queues_that_make_no_sense_are_refused(tmp_path: Path, queues: object, match: str) -> None:
    with pytest.raises((ConfigError, InvalidDestinationError), match=match):
        resolve(tmp_path / "data", queues=queues)
