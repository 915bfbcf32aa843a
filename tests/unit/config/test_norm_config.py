"""A NORM session's options are checked when given; errors name the field, the value, and what would do."""

import dataclasses
import math
from typing import Any

import pytest

from shoal.config import NormConfig
from shoal.errors import ConfigError


def test_the_defaults_work() -> None:
    config = NormConfig()
    assert (config.group, config.port, config.interface) == ("239.192.74.2", 7474, "auto")


def test_a_configuration_cannot_be_changed_but_others_can_be_made_of_it() -> None:
    config = NormConfig(port=9000)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.port = 1  # type: ignore[misc]
    assert config.with_options(interface="lo") == NormConfig(port=9000, interface="lo")


def test_ackers_are_listed_once() -> None:
    assert NormConfig(ackers=[7, 5, 7]).ackers == (5, 7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"group": "everybody"}, "an IP address such as 239.192.74.2"),
        ({"port": 0}, "from 1 to 65535"),
        ({"port": "7474"}, "a whole number"),
        ({"listen_port": 9000}, "left out on a multicast group"),
        ({"node": 0}, "from 1 to 4294967294, or None"),
        ({"rate_bytes_per_s": 0}, "at least 1, or None"),
        ({"rate_bytes_per_s": math.nan}, "a number"),
        ({"rate_min_bytes_per_s": -1}, "at least 0"),
        ({"rate_min_bytes_per_s": 5, "rate_bytes_per_s": 10}, "0 beside a fixed rate_bytes_per_s"),
        ({"congestion": "cubic"}, "fixed, nack_driven, norm_cc or delivery"),
        ({"segment_bytes": 3}, "from 64 to 65400, or None"),
        ({"fec": "raptor"}, "reed_solomon_8, small_block or no_code"),
        ({"parity_symbols": 200}, "at most 191"),
        ({"parity_symbols": 8, "fec": "no_code"}, "0 with fec='no_code'"),
        ({"auto_parity": 1}, "at most parity_symbols"),
        ({"interleave_blocks": 4}, "1 without parity_symbols"),
        ({"grtt_min_s": 20.0}, "at most grtt_max_s"),
        ({"grtt_initial_s": 20.0}, "from grtt_min_s to grtt_max_s"),
        ({"grtt_max_s": 1e9}, "from 1e-06 to 1000"),
        ({"probe_interval_max_s": 0.01}, "from probe_interval_s to 1e9"),
        ({"robust_factor": 0}, "from 1 to 1000"),
        ({"lanes": 17}, "from 0 to 16"),
        ({"cache_bytes": 1 << 36}, "from 65536 to 4294967296"),
        ({"window_bytes": 1 << 30}, "from 1 to cache_bytes, or None"),
        ({"info": "text"}, "bytes"),
        ({"info": bytes(1401)}, "no longer than segment_bytes"),
        ({"info": b"x", "lanes": 0}, "left out without lanes"),
        ({"receive": 1}, "True or False"),
        ({"receive_window_bytes": 1 << 30}, "at most receive_bytes_max"),
        ({"ackers": (0,)}, "ids of other nodes"),
        ({"ackers": (5,), "node": 5}, "ids of other nodes"),
        ({"ackers": 5}, "ids of other nodes"),
        ({"message_bytes_max": 0}, "from 1 to 268435455"),
        ({"files_directory": 5}, "a path, or None"),
        ({"drop_received": 5}, "from 0 to 1"),
    ],
)
def test_an_option_that_cannot_work_is_refused(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        NormConfig(**options)
    option, value = next(iter(options.items()))
    assert str(refusal.value).startswith(f"{option} is {value!r}, and must be ")
    assert wanted in str(refusal.value)


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown option 'colour': the options are .*congestion.*window_bytes"
    ):
        NormConfig().with_options(colour="blue")
