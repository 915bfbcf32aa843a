import json
from typing import Any

import pytest
from typer.testing import CliRunner

from shoal.cli.app import app
from shoal_bench import availability, norm, throughput
from shoal_bench.errors import ExperimentError
from shoal_bench.peers import servers
from shoal_bench.throughput import ThroughputOptions

RUNNER = CliRunner()


def test_the_list_names_every_experiment_with_a_sentence() -> None:
    listed = RUNNER.invoke(app, ["bench", "list"]).stdout.splitlines()
    assert any(line.startswith("norm ") and line.endswith(".") for line in listed)
    assert not any(line.startswith("list") for line in listed)


def test_options_reach_the_experiment_and_json_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[norm.NormOptions] = []

    def run(options: norm.NormOptions, follow: norm.Follow) -> dict[str, Any]:
        given.append(options)
        follow(1, "shoal", 3.0)
        return {"ratio": 5.0}

    monkeypatch.setattr(norm, "run", run)
    command = "bench norm --segment 1000 --loss 1 --peers libnorm --rounds 7 --bytes 99 --json -"
    done = RUNNER.invoke(app, command.split())
    assert json.loads(done.stdout) == {"ratio": 5.0}
    assert given == [
        norm.NormOptions(segment_bytes=1000, loss_percent=1.0, peers=("libnorm",), rounds=7, bytes=99)
    ]


def test_a_wrong_option_says_what_would_be_accepted() -> None:
    done = RUNNER.invoke(app, ["bench", "norm", "--rounds", "0"])
    assert done.exit_code == 2
    assert "rounds must be at least 1, not 0" in done.stderr


def test_an_experiment_that_fails_says_why_and_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_options: norm.NormOptions, _follow: norm.Follow) -> dict[str, Any]:
        raise ExperimentError("no multicast arrived")

    monkeypatch.setattr(norm, "run", run)
    done = RUNNER.invoke(app, ["bench", "norm"])
    assert done.exit_code == 1
    assert "no multicast arrived" in done.stderr
    assert done.stdout == ""


def test_a_default_peer_that_is_missing_is_skipped_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[ThroughputOptions] = []

    def run(options: ThroughputOptions, _follow: object) -> dict[str, Any]:
        given.append(options)
        return {"shoal": {"msg_s": 1.0}}

    missing = availability.Need(lambda: False, "pip install pyzmq")
    present = availability.Need(lambda: True, "")
    monkeypatch.setattr(availability, "PUBSUB", {"zmq": (missing,), "zenoh": (present,)})
    monkeypatch.setattr(throughput, "check_peers", lambda *_: None)
    monkeypatch.setattr(throughput, "run", run)
    done = RUNNER.invoke(app, ["bench", "throughput", "--size", "64"])
    assert done.exit_code == 0
    assert "Skipping the peer pyzmq: to compare with it, pip install pyzmq." in done.stderr
    assert given[0].peers == ("zenoh",)


def test_a_peer_asked_for_by_name_must_be_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "nats_server", lambda: None)
    done = RUNNER.invoke(app, ["bench", "latency", "--peers", "nats"])
    assert done.exit_code == 2
    assert "the peer nats cannot run here: run scripts/peers, which fetches nats-server" in done.stderr
