"""What went wrong with a link, in the system's words."""

import re

#: What Rust adds to them.
_NUMBER = re.compile(r" \(os error \d+\)")


def plain(why: str) -> str:
    """A reason of the extension's, without the error's number."""
    return _NUMBER.sub("", why)


def words(error: Exception) -> str:
    """An error, without its number."""
    return plain((error.strerror if isinstance(error, OSError) else "") or str(error)) or type(error).__name__
