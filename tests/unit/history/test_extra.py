"""Arrow is for history alone: everything else works without it, and history says what it lacks."""

import subprocess
import sys


def run(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


def test_messages_go_without_arrow() -> None:
    program = """
import sys
import shoal
with shoal.connect("inproc://without-arrow") as bus, bus.subscribe("a") as subscription:
    bus.publish("a", {"bid": 1})
    assert subscription.receive(10).body == {"bid": 1}
assert "pyarrow" not in sys.modules
"""
    ran = run(program)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_history_names_the_extra_it_needs() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import shoal.history
"""
    assert "ConfigError: shoal.history needs pyarrow: pip install 'shoal[history]'" in run(program).stderr


def test_the_command_names_it_in_one_line() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
sys.argv = ["shoal", "history"]
from shoal.cli import main
main()
"""
    ran = run(program)
    assert ran.returncode == 1
    assert ran.stderr.startswith("shoal history: shoal.history needs pyarrow: pip install 'shoal[history]'")
    assert len(ran.stderr.splitlines()) == 1
