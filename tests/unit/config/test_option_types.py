"""A type checker finds options that there are not, and values of wrong types."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PROGRAM = """
import shoal

shoal.connect("norm://", window_bytes=1 << 20, when_full="drop")
shoal.connect(windw_bytes=1)
shoal.aio.connect(window_bytes="1")
shoal.norm.Session(lans=1)
shoal.connect(when_full="grow")
"""


def test_mypy_finds_misspelt_options_and_wrong_values(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checker = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--hide-error-context"]
    checker += ["--cache-dir", str(ROOT / ".mypy_cache"), str(program)]
    told = subprocess.run(checker, capture_output=True, text=True, timeout=100, cwd=tmp_path).stdout
    errors = [line.split(" error: ")[1] for line in told.splitlines() if " error: " in line]
    assert len(errors) == 4, told
    assert 'Unexpected keyword argument "windw_bytes" for "connect"; did you mean "window_bytes"' in errors[0]
    assert 'Argument "window_bytes" to "connect" has incompatible type "str"; expected "int"' in errors[1]
    assert 'Unexpected keyword argument "lans" for "Session"' in errors[2]
    assert 'Argument "when_full" to "connect" has incompatible type' in errors[3]
