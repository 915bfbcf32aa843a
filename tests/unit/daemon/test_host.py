"""The role host: daemons of its directory are started, reloaded and stopped, on signed orders alone."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from shoal.config.orders import HostKey, Order, OrderRefusedError, order
from shoal.console.hosts import Hosts
from shoal.daemon.children import Children
from shoal.daemon.config import parse
from shoal.daemon.host import Daemons, Host
from shoal.daemon.host_config import HostConfig
from shoal.errors import ConfigError, InvalidDestinationError, NoReplyError

RIGHT = 'domain = "host-tests"\n[link.lan]\nlisten = "tcp://127.0.0.1:0"\n'


def ordered(what: str, daemon: str = "") -> Order:
    return Order(what, daemon, "ada", "nonce")


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    found = Children(tmp_path.resolve())
    yield found
    for child in found._children.values():
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()


@pytest.fixture
def daemons(tmp_path: Path, children: Children) -> Daemons:
    (tmp_path / "edge.toml").write_text(RIGHT)
    (tmp_path / "wrong.toml").write_text("nothing = true\n")
    (tmp_path / "own.toml").write_text(RIGHT)
    return Daemons(tmp_path, tmp_path / "own.toml", children)


def test_a_daemon_is_started_reloaded_and_stopped(daemons: Daemons, tmp_path: Path) -> None:
    told = daemons.obey(ordered("list"))["daemons"]
    assert [(each["name"], each["running"]) for each in told] == [("edge", False), ("wrong", False)]
    started = daemons.obey(ordered("start", "edge"))["daemon"]
    assert started["running"]
    with pytest.raises(OrderRefusedError, match="runs already"):
        daemons.obey(ordered("start", "edge"))
    # The next run of the host finds it by its pid file.
    later = Daemons(tmp_path, None)
    assert later._about("edge")["pid"] == started["pid"]
    daemons.obey(ordered("reload", "edge"))
    stopped = daemons.obey(ordered("stop", "edge"))["daemon"]
    assert not stopped["running"]
    assert later._about("edge")["pid"] is None
    with pytest.raises(OrderRefusedError, match="does not run"):
        daemons.obey(ordered("stop", "edge"))


@pytest.mark.parametrize(
    "name", ["own", "../edge", "/etc/passwd", "", "edge.toml", "missing", "edge/../edge"]
)
def test_an_order_leads_to_no_file_but_those_of_the_directory(daemons: Daemons, name: str) -> None:
    for what in ("start", "stop", "reload", "check", "log"):
        with pytest.raises(OrderRefusedError, match="there is no"):
            daemons.obey(ordered(what, name))


def test_a_wrong_file_is_not_started(daemons: Daemons) -> None:
    for what in ("start", "check"):
        with pytest.raises(OrderRefusedError, match="its file is wrong"):
            daemons.obey(ordered(what, "wrong"))
    assert daemons.obey(ordered("check", "edge"))["links"] == ["lan"]
    assert daemons.obey(ordered("log", "edge")) == {"lines": []}


def test_a_pid_file_of_another_process_means_nothing(daemons: Daemons, tmp_path: Path) -> None:
    (tmp_path / "edge.pid").write_text(str(os.getpid()))
    assert not daemons._about("edge")["running"]


def test_a_console_orders_a_host_over_the_bus(tmp_path: Path) -> None:
    (tmp_path / "edge.toml").write_text(RIGHT)
    key = HostKey.new("rack")
    key.write(tmp_path / "host.key")
    config = HostConfig(directory=str(tmp_path), key_file=str(tmp_path / "host.key"))
    with shoal.connect("inproc://host-orders") as bus, shoal.connect("inproc://host-orders") as console:
        host = Host(bus._connection, config, None)
        console.wait_for_subscribers(key.topic, timeout_s=10.0)
        hosts = Hosts(console, [key])
        assert hosts.daemons("ada") == [
            {
                "host": "rack",
                "daemons": [
                    {"name": "edge", "running": False, "pid": None, "since": None, "ended_with": None}
                ],
                "why": "",
            }
        ]
        with pytest.raises(InvalidDestinationError, match="there is no"):
            hosts.order("rack", "start", "missing", "ada")
        with pytest.raises(InvalidDestinationError, match="no key"):
            hosts.order("other", "list", "", "ada")
        # A stranger gets no answer.
        stranger = Hosts(console, [HostKey.new("rack")])
        with pytest.raises(NoReplyError):
            stranger.order("rack", "start", "edge", "eve", timeout_s=0.3)
        # An answer without the key is none.
        replay = order(key, "list", "", "ada", 0.0)
        with pytest.raises(NoReplyError):
            console.request(key.topic, replay, timeout_s=0.3)
        host.close()


def test_the_table_needs_the_role_and_the_role_needs_its_files(tmp_path: Path) -> None:
    links = {"lan": {"url": "norm://"}}
    with pytest.raises(ConfigError, match="means nothing without the role"):
        parse({"host": {}, "link": links}, tmp_path)
    with pytest.raises(ConfigError, match="key_file"):
        parse({"roles": {"host": True}, "host": {"key_file": 5}, "link": links}, tmp_path)
    found = parse({"roles": {"host": True}, "link": links}, tmp_path).host
    assert found == HostConfig(directory=str(tmp_path), key_file=str(tmp_path / "host.key"))
    with (
        shoal.connect("inproc://host-files") as bus,
        pytest.raises(ConfigError, match="cannot be read"),
    ):
        Host(bus._connection, found, None)
