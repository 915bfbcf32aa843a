"""A store in a process of its own, which a test kills, suspends and starts again."""

import secrets
import signal
import subprocess
import sys
from pathlib import Path

from waiting import until

from shoal import jms

PATIENCE_S = 30.0
HERE = Path(__file__).parent


class KilledStore:
    """A store in a process of its own, which can be killed and started again on its directory."""

    def __init__(self, directory: Path) -> None:
        self.domain = f"kill-{secrets.token_hex(4)}"
        self._command = [sys.executable, str(HERE / "store_node.py"), "norm", str(directory), self.domain]
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Begin, and wait until it is there."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip(), "the store did not start"

    def suspend(self) -> None:
        """It answers nothing from now on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self._process.pid}/task")
        until(lambda: all(_state(task) == "T" for task in tasks.iterdir()))

    def resume(self) -> None:
        """It answers again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a power failure does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None

    def factory(self, **options: object) -> jms.ConnectionFactory:
        """Makes connections to its domain."""
        return jms.ConnectionFactory("norm://", domain=self.domain, interface="lo", **options)


def _state(task: Path) -> str:
    """The letter for what a thread does."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]
