"""What Spark's processes say is shown, but not that a worker's socket was closed."""

import os
import subprocess
import sys

import pytest

from shoal.spark.stderr import Phrases, filtered

FAREWELL = b"""Traceback (most recent call last):
  File "/x/pyspark/daemon.py", line 264, in manager
    code = worker(sock, authenticated)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
BrokenPipeError: [Errno 32] Broken pipe
"""

CHAINED = b"""Traceback (most recent call last):
  File "/x/pyspark/sql/streaming/python_streaming_source_runner.py", line 265, in main
EOFError

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
BrokenPipeError: [Errno 32] Broken pipe
"""


def shown(text: bytes) -> bytes:
    phrases = Phrases()
    lines = [each for line in text.splitlines(keepends=True) for each in phrases.take(line)]
    return b"".join([*lines, *phrases.rest()])


def test_greetings_and_farewells_are_left_out_and_everything_else_is_shown() -> None:
    other = FAREWELL.replace(b"BrokenPipeError: [Errno 32] Broken pipe", b"KeyError: 'n'")
    of_user = FAREWELL.replace(b"pyspark/daemon.py", b"my/program.py")
    unfinished = b"Traceback (most recent call last):\n  File x\n"
    before, after = b"a warning\n", b"another\n"
    assert shown(before + FAREWELL + FAREWELL + after) == before + after
    assert shown(before + CHAINED + after + FAREWELL) == before + after
    assert shown(CHAINED + other) == other
    chained_other = CHAINED.replace(b"BrokenPipeError: [Errno 32] Broken pipe", b"KeyError: 'n'")
    assert shown(chained_other + after) == chained_other + after
    assert shown(b'Setting default log level to "WARN".\n' + after) == after
    for text in (other, of_user, unfinished, before):
        assert shown(before + text) == before + text


def test_processes_started_meanwhile_write_through_the_filter(capfd: pytest.CaptureFixture[str]) -> None:
    script = f"import os; os.write(2, {b'first' + bytes([10]) + FAREWELL + b'last' + bytes([10])!r})"
    with filtered():
        started = subprocess.Popen([sys.executable, "-c", script])
    started.wait(30)
    os.write(2, b"mine\n")
    told = ""
    while "last" not in told:
        told += capfd.readouterr().err
    assert sorted(told.split()) == ["first", "last", "mine"]
