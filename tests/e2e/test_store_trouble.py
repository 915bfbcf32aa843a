"""Stores among neighbours that are many, loud, dead, or want the same: real processes."""

import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from programs import PATIENCE_S

import shoal
import shoal.bus.store_session
import shoal.store.machine
from shoal.processes.store import StoreProcess
from shoal_bench.norm import free_port

HOLDER = """
import sys, time, shoal
bus = shoal.connect("inproc://" + sys.argv[1], store=sys.argv[2], client_id="desk")
subscription = bus.subscribe("news", durable="all")
print("has it", flush=True)
time.sleep(600)
"""


def test_a_store_with_few_descriptors_outlives_a_crowd_and_noise(tmp_path: Path) -> None:
    port = free_port()
    listen = ("--listen", f"127.0.0.1:{port}")
    few = ("prlimit", "--nofile=64")
    with (
        StoreProcess(tmp_path / "data", record="none", options=listen, within=few) as store,
        shoal.connect(domain=store.domain, interface="lo") as bus,
    ):
        bus.queue("jobs").send("before", timeout_s=PATIENCE_S)
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(100)]
        for number, one in enumerate(crowd):
            # Those that it has no descriptor for are let go sooner or later.
            try:
                one.sendall(secrets.token_bytes(1 + number * 50))
            except OSError:
                continue
        for one in crowd:
            one.close()
        bus.queue("jobs").send("after", timeout_s=PATIENCE_S)
        with shoal.connect(f"inproc://{store.domain}", store=f"tcp://127.0.0.1:{port}") as late:
            got = [late.queue("jobs").receive(PATIENCE_S) for _ in range(2)]
    assert [message.body for message in got if message is not None] == ["before", "after"]


def test_many_clients_at_once_are_all_served(tmp_path: Path) -> None:
    port = free_port()
    with StoreProcess(tmp_path / "data", record="none", options=("--listen", f"127.0.0.1:{port}")) as store:
        failed: list[BaseException] = []

        def send(number: int) -> None:
            try:
                url = f"tcp://127.0.0.1:{port}"
                with shoal.connect(f"inproc://{store.domain}", store=url) as bus:
                    bus.queue("jobs").send(number, timeout_s=PATIENCE_S)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=send, args=[number]) for number in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        with shoal.connect(domain=store.domain, interface="lo") as bus:
            sent = sorted(message.body for message in bus.queue("jobs").browse(timeout_s=PATIENCE_S))
    assert sent == list(range(100))


def test_a_second_store_is_refused_by_its_directory_and_by_what_it_would_keep(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "data", record="none") as store:
        for data, domain, why in (
            ("data", f"{store.domain}-other", "belongs to the store"),
            ("another", store.domain, "keeps"),
        ):
            command = [sys.executable, "-m", "shoal.cli", "store", "--data", str(tmp_path / data)]
            command += ["--domain", domain, "--interface", "lo"]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            assert ended.returncode != 0
            assert why in ended.stderr, ended.stderr
        with shoal.connect(domain=store.domain, interface="lo") as bus:
            bus.queue("jobs").send("x", timeout_s=PATIENCE_S)


def test_a_client_id_is_free_when_the_lease_of_one_that_died_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (shoal.store.machine, shoal.bus.store_session):
        monkeypatch.setattr(module, "LEASE_S", 1.0)
    domain = secrets.token_hex(8)
    with shoal.connect(f"inproc://{domain}", store=tmp_path, store_listen="127.0.0.1:0") as keeper:
        keeper.store.wait_open(PATIENCE_S)
        command = [sys.executable, "-c", HOLDER, domain, keeper.store.urls[0]]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "has it\n"
            with (
                shoal.connect(f"inproc://{domain}", client_id="desk") as bus,
                pytest.raises(shoal.InUseError, match="the client id 'desk' is in use by 'process"),
            ):
                bus.subscribe("news", durable="all")
            assert "s: the client id 'desk' is in use by 'process" in caplog.text
            keeper.publish("news", 1, persistent=True)
        finally:
            holder.kill()
            holder.communicate()
        with (
            shoal.connect(f"inproc://{domain}", client_id="desk") as bus,
            bus.subscribe("news", durable="all", timeout_s=PATIENCE_S) as news,
        ):
            message = news.receive(PATIENCE_S)
            assert message is not None
            assert message.body == 1
