"""What an agent may run, and with which options."""

from typing import Any

import pytest

from shoal_bench.roles import RoleRefusedError, parse
from shoal_bench.seeds import fiorano

NODE = {"every_s": 1.0, "address": "10.0.0.1"}
LOAD = {"cell": fiorano.joint(True)[0].to_json(), "urls": ["tcp://10.0.0.1:7"], "seconds": 3.0}
SAY = {"address": "10.0.0.1", "targets": ["10.0.0.2"], "port": 7, "count": 5}


def test_registered_roles_are_parsed() -> None:
    assert parse("node", NODE) == ("shoal_bench.seeds.sides", {**NODE, "core": None})
    assert parse("load", LOAD)[1]["urls"] == ["tcp://10.0.0.1:7"]
    assert parse("say", SAY)[0] == "shoal_bench.check_sides"


@pytest.mark.parametrize(
    ("role", "options", "said"),
    [
        ("shell", {}, "there is no role 'shell'"),
        (None, {}, "there is no role None"),
        ("os", {"command": "rm"}, "there is no role"),
        ("node", None, "no mapping"),
        ("node", {**NODE, "within": ["sh"]}, "no option 'within'"),
        ("node", {"every_s": 1.0}, "address"),
        ("node", {**NODE, "every_s": "1"}, "every_s must be float"),
        ("node", {**NODE, "every_s": float("nan")}, "out of range"),
        ("node", {**NODE, "every_s": True}, "every_s must be float"),
        ("node", {**NODE, "core": [1]}, "core must be int"),
        ("load", {**LOAD, "seconds": 1e9}, "seconds|range"),
        ("load", {**LOAD, "urls": ["file:///etc/passwd"]}, "urls must begin with tcp://"),
        ("load", {**LOAD, "cell": {"name": "c"}}, "load"),
        ("load", {**LOAD, "cell": 7}, "cell must be dict"),
        ("say", {**SAY, "count": 10**9}, "range|count"),
    ],
)
def test_everything_else_is_refused(role: Any, options: Any, said: str) -> None:
    with pytest.raises(RoleRefusedError, match=said):
        parse(role, options)
