"""What a link is told is used or refused: the refusal names the option, its value and what would do."""

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest

from shoal._core import NormLink, Simulation
from shoal.errors import ConfigError

NODE = 1


def open_link(**options: Any) -> NormLink:
    where = {"node": NODE, "group": "239.192.74.211", "port": 7411, "interface": "lo"}
    return NormLink(**(where | options))


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("node", -1, "from 0 to 4294967295"),
        ("node", 0, "from 1 to 4294967294"),
        ("port", 0, "from 1 to 65535"),
        ("port", -1, "from 0 to 65535"),
        ("seed", -1, "from 0 on"),
        ("seed", 1 << 70, "64 bits"),
        ("lanes", -1, "from 0 on"),
        ("lanes", 17, "from 0 to 16"),
        ("lanes", 1 << 34, "from 0 to 16"),
        ("cache_bytes", 1 << 36, "from 65536 to 4294967296"),
        ("cache_bytes", 1 << 62, "from 65536 to 4294967296"),
        ("window_bytes", 0, "from 1 to cache_bytes"),
        ("window_bytes", 1 << 62, "from 1 to cache_bytes"),
        ("drop_received", -1, "a share from 0 to 1"),
        ("drop_received", 5, "a share from 0 to 1"),
        ("message_bytes_max", 0, "from 1 to 268435455"),
        ("message_bytes_max", 1 << 62, "from 1 to 268435455"),
        ("receive_buffer_bytes", 0, "from 4096 to 2147483647"),
        ("listen_port", 5, "left out on a multicast group"),
        ("ackers", [0], "ids of other nodes"),
        ("ackers", [NODE], "which is our own"),
        ("ackers", [1 << 32], "a list of node ids"),
        ("interleave_blocks", 16, "1 without parity_symbols"),
        ("grtt_min_s", 0, "from 0.000001 to 1000"),
        ("grtt_min_s", 100, "at most grtt_max_s"),
        ("probe_interval_s", 0, "from 0.001 to 1000000000"),
        ("receive", "no", "True or False"),
        ("info", "text", "bytes"),
    ],
)
def test_an_option_that_cannot_work_is_refused(option: str, value: object, wanted: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        open_link(**{option: value})
    assert str(refusal.value).startswith(f"{option} is {value!r}, and must be ")
    assert wanted in str(refusal.value)


def test_no_number_is_refused_as_a_share() -> None:
    with pytest.raises(ConfigError, match="drop_received is NaN, and must be a share"):
        open_link(drop_received=math.nan)


@pytest.mark.parametrize("path", ["/nonexistent", "", __file__])
def test_received_files_need_a_directory_that_exists(path: str) -> None:
    with pytest.raises(ConfigError, match=r"files_directory is .* a directory that exists"):
        open_link(files_directory=path)


def test_a_bound_that_contradicts_a_default_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"^grtt_min_s must be at most grtt_max_s$"):
        open_link(grtt_max_s=0.00001)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError, match="colour is no option of a NORM session"):
        open_link(colour="blue")


def test_the_simulator_refuses_in_the_same_words() -> None:
    simulation = Simulation(1)
    with pytest.raises(ConfigError, match="grtt_min_s is 100, and must be at most grtt_max_s"):
        simulation.add_node(1, {"grtt_min_s": 100}, (0.0, 0.0), (None, None, 0))


def test_what_can_work_is_taken() -> None:
    with tempfile.TemporaryDirectory() as directory:
        options = {"files_directory": Path(directory), "lanes": 2, "cache_bytes": 1 << 16, "ackers": [7, 7]}
        open_link(**options, parity_symbols=8, interleave_blocks=4, drop_received=1.0).close(0.0)
