"""What went wrong, in one sentence: Spark wraps the errors of sources and sinks into long traces."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isfunction
from typing import TypeVar

from shoal.errors import ConfigError, ShoalError

_OURS = re.compile(r"\bshoal\.errors\.(\w+): (.+)$", re.MULTILINE)
_PYTHONS = re.compile(r"^(\w+(?:\.\w+)*(?:Error|Exception)): (.*)$", re.MULTILINE)

#: What a user wrote that cannot work.
_WRONG = ("ConfigError", "InvalidTopicError", "InvalidSelectorError")

Class = TypeVar("Class", bound=type)


def sentence(error: BaseException) -> str:
    """The last error of ours that a trace holds, or else the last of Python's, or else its first line."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1][1]).strip()
    others = _PYTHONS.findall(text)
    if others:
        return ": ".join(others[-1]).strip()
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


def plain(error: BaseException) -> ShoalError:
    """Spark's error as one of ours: a `ConfigError` if an option is wrong, otherwise something failed."""
    ours = _OURS.findall(str(error))
    is_wrong = bool(ours) and ours[-1][0] in _WRONG
    return (ConfigError if is_wrong else ShoalError)(sentence(error))


@contextmanager
def plainly() -> Iterator[None]:
    """Have Spark show an error of ours as its sentence, without a trace.

    Only those of Shoal, which say what to do: of any other the place where it happened is of interest.
    """
    try:
        yield
    except ShoalError:
        if any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ):
            # Spark's worker asks for this when it sends the error, and ends then.
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def speaks_plainly(made: Class) -> Class:
    """Have each public method of a class raise `plainly`."""
    for name, method in list(vars(made).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(made, name, plainly()(method))
    return made
