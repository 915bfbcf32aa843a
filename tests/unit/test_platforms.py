"""Shoal without what only Linux or Unix has, as far as this machine can show it.

A child process runs without the modules and calls that Windows and macOS lack. The extension itself is
Linux's here: `scripts/check` compiles the Rust crates for the other systems.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from shoal import system

#: What Windows has not.
WITHOUT = """
import os, select, signal, sys
# The standard library of this system uses what is taken away below.
import asyncio, concurrent.futures.thread, logging, multiprocessing, random, selectors, subprocess, threading

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("resource", "fcntl", "pwd", "grp", "termios"):
            raise ModuleNotFoundError(f"No module named {name!r}")

for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
lacks = {select: ("poll", "epoll"), os: ("register_at_fork",), signal: ("SIGHUP",)}
for module, names in lacks.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""


def run_without(program: str, tmp_path: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=90,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_programs_of_one_process_and_by_tcp_talk(tmp_path: Path) -> None:
    program = """
        import shoal

        def talk(one, other):
            with other.subscribe("a") as heard:
                one.wait_for_subscribers("a")
                one.publish("a", "hello")
                print(heard.receive(30).body)

        with shoal.connect("inproc://p") as one, shoal.connect("inproc://p") as other:
            talk(one, other)
        with shoal.listen("tcp://127.0.0.1:0") as one, shoal.connect(one.links[0].url) as other:
            talk(one, other)
    """
    assert run_without(program, tmp_path) == "hello\nhello\n"


def test_asyncio_and_jms_work(tmp_path: Path) -> None:
    program = """
        import asyncio
        from shoal import aio, jms

        async def main():
            async with aio.connect("inproc://p") as bus:
                heard = bus.subscribe("a")
                await bus.publish("a", "hello")
                print((await heard.receive(30)).body)

        asyncio.run(main())
        factory = jms.ConnectionFactory("inproc://q", default_delivery_mode=jms.DeliveryMode.NON_PERSISTENT)
        with factory.create_context() as context:
            topic = context.create_topic("a")
            consumer = context.create_consumer(topic)
            context.create_producer().send(topic, "hello")
            print(consumer.receive_body(str, timeout_s=30))
    """
    assert run_without(program, tmp_path) == "hello\nhello\n"


def test_a_store_and_its_history_work(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    program = """
        import shoal
        from shoal import history
        with shoal.connect("inproc://p", store="data", flight="127.0.0.1:0") as bus:
            bus.publish("a", "hello", persistent=True)
            with history.connect("data") as past:
                print(past.read("a").num_rows)
    """
    assert run_without(program, tmp_path) == "1\n"


@pytest.mark.parametrize(
    "module",
    ["cli.app", "cli.store", "cli.queue", "daemon.service", "doctor", "history", "link", "norm", "spark"],
)
def test_every_package_can_be_imported(module: str, tmp_path: Path) -> None:
    if module == "spark":
        pytest.importorskip("pyspark")
    assert run_without(f"import shoal.{module}\nprint('imported')", tmp_path) == "imported\n"


def test_waiting_without_poll_ends_with_a_byte_or_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import select

    monkeypatch.delattr(select, "poll")
    reading, writing = os.pipe()
    try:
        readable = system.Readable(reading)
        assert readable.wait(0.0) is False
        os.write(writing, b"x")
        assert readable.wait() is True
    finally:
        os.close(reading)
        os.close(writing)


def test_without_limits_there_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system, "resource", None)
    assert system.descriptor_limits() == (float("inf"), float("inf"))
    assert system.stack_bytes() == 0
    system.raise_descriptor_limit()
    assert system.free_bytes(tmp_path) > 0


def test_what_a_process_reads_is_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    before = system.bytes_read()
    (tmp_path / "file").read_bytes()
    assert system.bytes_read() - before >= 1 << 20
