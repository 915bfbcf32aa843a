"""What went wrong, in one sentence: Spark wraps the errors of sources and sinks into long traces."""

import re

_OURS = re.compile(r"^(?:\w+: )*shoal\.errors\.\w+: (.*)$", re.MULTILINE)
_PYTHONS = re.compile(r"^(\w+(?:\.\w+)*(?:Error|Exception)): (.*)$", re.MULTILINE)


def sentence(error: BaseException) -> str:
    """The last error of ours that a trace holds, or else the last of Python's, or else its first line."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    others = _PYTHONS.findall(text)
    if others:
        return ": ".join(others[-1]).strip()
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
