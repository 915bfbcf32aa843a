"""The options of a connection that decide how fast and with what parity it sends do what they say."""

import time
from typing import Any

import pytest
from programs import loopback_url

import shoal
from shoal.errors import ConfigError

PATIENCE_S = 30.0


def transfer(count: int, body: bytes, **options: Any) -> tuple[float, dict[str, int], "list[float | None]"]:
    """Publish with some options to a member without: seconds, counters, and the rate before and after."""
    url = loopback_url()
    with shoal.connect(url) as member, shoal.connect(url, **options) as publisher:
        subscription = member.subscribe("load", queue_bytes_max=64 << 20)
        assert publisher.wait_for_subscribers("load", 1, PATIENCE_S)
        rates = [publisher.rate_bytes_per_s]
        began_s = time.monotonic()
        for _ in range(count):
            publisher.publish("load", body)
        publisher.flush(PATIENCE_S)
        took_s = time.monotonic() - began_s
        rates.append(publisher.rate_bytes_per_s)
        stats = publisher.stats()
        received = [subscription.receive(PATIENCE_S) for _ in range(count)]
    assert all(message is not None and message.body == body for message in received)
    return took_s, stats, rates


def test_without_options_there_is_no_rate_and_no_parity() -> None:
    _, stats, rates = transfer(100, bytes(10_000))
    assert rates == [None, None]
    assert stats["parity_sent"] == 0


def test_a_fixed_rate_is_kept() -> None:
    took_s, _, rates = transfer(100, bytes(10_000), rate_bytes_per_s=2e6)
    assert rates == [2e6, 2e6]
    assert took_s > 0.4, "a megabyte at two a second"


def test_norm_cc_finds_a_rate_of_its_own() -> None:
    _, _, (before, after) = transfer(1000, bytes(10_000), congestion="norm_cc")
    assert before is not None
    assert after is not None
    assert after > before, "nothing is in its way"


@pytest.mark.parametrize("congestion", ["nack_driven", "norm_cc"])
def test_rate_control_stays_below_its_bound(congestion: str) -> None:
    took_s, _, rates = transfer(100, bytes(10_000), congestion=congestion, rate_bytes_per_s=2e6)
    assert all(rate is not None and rate <= 2e6 for rate in rates)
    assert took_s > 0.4


def test_a_least_rate_is_where_norm_cc_starts() -> None:
    _, _, (slow, _) = transfer(1, b"", congestion="norm_cc")
    _, _, (fast, _) = transfer(1, b"", congestion="norm_cc", rate_min_bytes_per_s=50e6)
    assert slow is not None
    assert fast is not None
    assert slow < 50e6 <= fast


def test_parity_follows_each_block() -> None:
    options = {"parity_symbols": 8, "auto_parity": 2, "block_symbols": 16, "segment_bytes": 1000}
    _, stats, _ = transfer(100, bytes(10_000), **options)
    blocks = stats["segments_sent"] // 16
    assert stats["parity_sent"] >= 2 * (blocks - 10), "blocks of other lanes may be unfinished"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"congestion": "cubic"},
            "congestion is 'cubic', and must be fixed, nack_driven, norm_cc or delivery",
        ),
        ({"rate_min_bytes_per_s": 9, "rate_bytes_per_s": 5}, "rate_min_bytes_per_s is 9"),
        ({"rate_min_bytes_per_s": 2, "rate_bytes_per_s": 5}, "0 beside a fixed rate_bytes_per_s"),
        ({"parity_symbols": 250}, "parity_symbols is 250, and must be from 0 to 191"),
        ({"auto_parity": 1}, "auto_parity is 1, and must be at most parity_symbols"),
        ({"block_symbols": 0}, "block_symbols is 0, and must be from 1 to 255"),
        ({"cache_bytes": 1 << 36}, "cache_bytes is 68719476736, and must be from 65536 to 4294967296"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        shoal.connect(loopback_url(), **options)
    assert said in str(refusal.value)
