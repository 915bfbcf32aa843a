"""Servers of an experiment end with it, however it ends."""

import shutil
from collections.abc import Sequence


def ending_with_us(command: Sequence[str]) -> list[str]:
    """A command that the kernel kills when the process that started it dies, on Linux."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else [*command]
