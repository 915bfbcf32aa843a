"""Group keys: where they are read from, and how a new one is made."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from shoal.errors import ConfigError

#: What a key begins with where it is written; 64 hexadecimal digits follow.
PREFIX = "shoal-key-1:"
#: Names a key file for connections without the option.
ENVIRONMENT = "SHOAL_KEY_FILE"
_KEY_BYTES = 32


def new_key() -> str:
    """A new key, as `connect(key=…)` and a key file take it."""
    return PREFIX + secrets.token_hex(_KEY_BYTES)


def check_key(key: str) -> str:
    """The key, if it is one."""
    digits = key.strip().removeprefix(PREFIX)
    if not key.strip().startswith(PREFIX) or len(digits) != 2 * _KEY_BYTES or not _is_hex(digits):
        raise ConfigError(
            f"key must be {PREFIX} and 64 hexadecimal digits, as `shoal keys new` prints it: this one is not"
        )
    return key.strip()


def read_keys(path: str | os.PathLike[str]) -> str:
    """The keys of a file, one in a line: the first seals, all of them open."""
    try:
        status, text = Path(path).stat(), Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"key_file is {os.fspath(path)!r}, and cannot be read: {error}") from None
    if status.st_mode & 0o077:
        raise ConfigError(
            f"key_file is {os.fspath(path)!r}, which others than its owner can read: chmod 600 it"
        )
    lines = [line.strip() for line in text.splitlines()]
    keys = [check_key(line) for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ConfigError(f"key_file is {os.fspath(path)!r}, and has no key: `shoal keys new` makes one")
    return "\n".join(keys)


def keys_of(
    key: str | None, key_file: str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """The keys that a configuration asks for; none is without encryption."""
    if key is not None:
        return check_key(key)
    path = key_file or environment.get(ENVIRONMENT)
    return None if not path else read_keys(path)


def _is_hex(digits: str) -> bool:
    return all(digit in "0123456789abcdefABCDEF" for digit in digits)
