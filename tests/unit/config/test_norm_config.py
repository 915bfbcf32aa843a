"""A NORM session's options are checked when given; errors name the field, the value, and what would do."""

import dataclasses
import math
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from shoal import _core
from shoal.config import NormConfig
from shoal.config.norm import EngineOptions
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
        ({"node": 0}, "from 1 to 4294967294"),
        ({"rate_bytes_per_s": 0}, "at least 1, or None"),
        ({"rate_bytes_per_s": math.nan}, "a number"),
        ({"rate_min_bytes_per_s": -1}, "at least 0"),
        ({"rate_min_bytes_per_s": 5, "rate_bytes_per_s": 10}, "0 beside a fixed rate_bytes_per_s"),
        ({"congestion": "cubic"}, "fixed, nack_driven, norm_cc or delivery"),
        ({"segment_bytes": 3}, "from 16 to 65400"),
        ({"fec": "raptor"}, "reed_solomon_8, small_block or no_code"),
        ({"parity_symbols": 200}, "from 0 to 191"),
        ({"parity_symbols": 8, "fec": "no_code"}, "0 with no_code"),
        ({"auto_parity": 1}, "at most parity_symbols"),
        ({"interleave_blocks": 4}, "1 without parity_symbols"),
        ({"grtt_min_s": 20.0}, "at most grtt_max_s"),
        ({"grtt_initial_s": 20.0}, "from grtt_min_s to grtt_max_s"),
        ({"grtt_max_s": 1e9}, "from 0.000001 to 1000"),
        ({"probe_interval_max_s": 0.01}, "from probe_interval_s to 1e9"),
        ({"robust_factor": 0}, "from 1 to 1000"),
        ({"lanes": 17}, "from 0 to 16"),
        ({"cache_bytes": 1 << 36}, "from 65536 to 4294967296"),
        ({"window_bytes": 1 << 30}, "from 1 to cache_bytes, or None"),
        ({"info": "text"}, "bytes"),
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


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"info": bytes(1401)}, "info is 1401 bytes long, and must be no longer than segment_bytes"),
        ({"info": b"x", "lanes": 0}, "info is 1 bytes long, and must be left out without lanes"),
    ],
)
def test_information_is_shown_by_its_length(options: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal):
        NormConfig(**options)


def test_what_a_session_draws_when_it_begins_is_no_acker_of_its_own() -> None:
    assert NormConfig(ackers=(1, 2, 3)).node is None


def test_the_engine_has_the_options_and_the_choices_that_type_checkers_know() -> None:
    of_other_classes = {"instance", "seed", "segment_bytes", "send_streams_max"}
    kinds = get_type_hints(EngineOptions)
    assert set(kinds) == set(_core.norm_defaults()) - of_other_classes
    for option, kind in kinds.items():
        if get_origin(kind) is Literal:
            with pytest.raises(ConfigError) as refusal:
                _core.check_norm_options(1, group="239.192.74.2", port=7474, **{option: "?"})
            names = str(refusal.value).removeprefix(f"{option} is '?', and must be one of ").split(", ")
            assert names == list(get_args(kind))


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown option 'colour': the options are .*congestion.*window_bytes"
    ):
        NormConfig().with_options(colour="blue")
