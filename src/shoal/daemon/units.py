"""Daemons of one directory as units of systemd, `shoald@NAME.service`, through systemctl and journalctl."""

import contextlib
import re
import subprocess
from pathlib import Path
from typing import Any, Literal

from shoal.config.orders import OrderRefusedError

#: How long systemctl may take: a daemon may need some seconds to end.
ANSWER_S = 13.0
#: Lines of a log that an answer has.
LOG_LINES = 200
#: What systemd shows of a unit.
_PROPERTIES = "LoadState,ActiveState,MainPID,ExecMainStatus"
#: Names that are the same in a unit's name.
_PLAIN = re.compile(r"[A-Za-z0-9:_.-]+")


class Units:
    """The units of the daemons of one directory. For one thread at a time."""

    def __init__(self, manager: Literal["system", "user"]) -> None:
        self._manager = f"--{manager}"

    def about(self, name: str) -> dict[str, Any]:
        """How a daemon is."""
        shown = self._run("systemctl", "show", f"--property={_PROPERTIES}", _unit(name))
        told = dict(line.partition("=")[::2] for line in shown.splitlines())
        running = told.get("ActiveState") in ("active", "activating", "reloading", "deactivating")
        pid = int(told.get("MainPID") or 0) or None
        began = None
        with contextlib.suppress(OSError):
            began = None if pid is None else Path(f"/proc/{pid}").stat().st_mtime
        status = None if running else int(told.get("ExecMainStatus") or 0)
        return {"running": running, "pid": pid, "since": began, "ended_with": status}

    def start(self, name: str) -> None:
        """Start a unit, and wait until it is ready."""
        self._run("systemctl", "start", _unit(name))

    def stop(self, name: str) -> None:
        """End a unit, and wait until it has."""
        self._run("systemctl", "stop", _unit(name))

    def reload(self, name: str) -> None:
        """Have a daemon read its file again."""
        self._run("systemctl", "reload", _unit(name))

    def log(self, name: str) -> list[str]:
        """The last lines that a daemon logged."""
        lines = f"--lines={LOG_LINES}"
        return self._run(
            "journalctl", "--no-pager", "--quiet", "--output=cat", lines, f"--unit={_unit(name)}"
        ).splitlines()

    def _run(self, command: str, *arguments: str) -> str:
        """What a command printed.

        Raises:
            OrderRefusedError: it failed.
        """
        try:
            done = subprocess.run(
                [command, self._manager, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=ANSWER_S,
                check=False,
            )
        except FileNotFoundError:
            raise OrderRefusedError(f"this host has no {command}: set units = 'none'") from None
        except subprocess.TimeoutExpired:
            raise OrderRefusedError(f"{command} did not answer within {ANSWER_S:g} s") from None
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            raise OrderRefusedError(f"{command}: {said[0]}")
        return done.stdout


def _unit(name: str) -> str:
    if not _PLAIN.fullmatch(name):
        raise OrderRefusedError(f"{name!r} cannot be a unit's name: use letters, digits, - _ . and :")
    return f"shoald@{name}.service"
