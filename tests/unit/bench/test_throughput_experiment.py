import subprocess
import sys
from typing import Any

import pytest

from shoal_bench import throughput
from shoal_bench.contestant import Load
from shoal_bench.errors import ExperimentError
from shoal_bench.peers import servers
from shoal_bench.rounds import alternate
from shoal_bench.throughput import ThroughputOptions, Transfer

SPEEDS = {"shoal_loop": 4e6, "shoal_callback": 3e6, "zenoh": 2e6, "zmq": 1e6}


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Load]]:
    """Transfers without a network: each contestant always reaches its speed."""
    made: list[tuple[str, Load]] = []

    def transfer(name: str, load: Load, _seconds: float, *, link: str) -> Transfer:
        assert link == "norm"
        made.append((name, load))
        cpu_s = load.count * load.subscribers / 1e6
        return Transfer(messages=load.count, msg_s=SPEEDS[name], cpu_s=cpu_s, subscribers=load.subscribers)

    monkeypatch.setattr(throughput, "transfer", transfer)
    return made


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", 7),
        ("size", 1 << 30),
        ("subscribers", 0),
        ("rounds", 0),
        ("seconds", 0.0),
        ("count", 1),
        ("link", "smoke"),
        ("peers", ("smoke",)),
    ],
)
def test_an_option_that_cannot_work_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field} must be .*, not "):
        ThroughputOptions(**{field: value})


def test_a_peer_whose_program_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "nats_server", lambda: None)
    with pytest.raises(ValueError, match="the peer nats cannot run here: run scripts/peers"):
        ThroughputOptions(peers=("nats",))


def test_the_better_of_our_two_receivers_is_compared_with_the_best_peer(
    transfers: list[tuple[str, Load]],
) -> None:
    result = throughput.run(ThroughputOptions(size=1000, subscribers=4, rounds=3, count=1000))
    assert result["shoal"]["msg_s"] == 4e6
    assert result["shoal"]["receiver"] == "loop"
    assert result["shoal"]["gbit_s"] == pytest.approx(32.0)
    assert result["shoal"]["cpu_s_per_million"] == pytest.approx(1.0)
    assert result["shoal_callback"]["msg_s"] == 3e6
    assert result["best_peer"] == "zenoh"
    assert result["ratio_to_best_peer"] == pytest.approx(2.0)
    assert [name for name, _ in transfers] == list(SPEEDS) * 3


def test_the_warm_up_decides_how_many_messages_fill_the_time(transfers: list[tuple[str, Load]]) -> None:
    throughput.run(ThroughputOptions(rounds=1, seconds=2.0))
    counts = {name: load.count for name, load in transfers[len(SPEEDS) :]}
    assert counts == {name: 2 * speed for name, speed in SPEEDS.items()}


def test_without_peers_there_is_no_ratio(transfers: list[tuple[str, Load]]) -> None:
    result = throughput.run(ThroughputOptions(rounds=1, peers=(), count=100))
    assert "ratio_to_best_peer" not in result
    assert "zmq" not in result


def test_a_round_that_fails_says_whose_it_was() -> None:
    def measure(name: str) -> float:
        raise ExperimentError("messages were lost")

    with pytest.raises(ExperimentError, match="zmq, round 1: messages were lost"):
        alternate(["zmq"], 2, measure, str, lambda *_: None)


def test_a_peer_whose_package_is_missing_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zmq", None)
    with pytest.raises(ValueError, match="pip install pyzmq"):
        ThroughputOptions(peers=("zmq",))


def test_the_command_does_not_need_the_peers() -> None:
    script = "import sys, shoal.cli.app; sys.exit(bool({'zmq', 'zenoh', 'nats'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
