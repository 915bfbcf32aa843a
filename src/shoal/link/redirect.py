"""The addresses that a daemon which is full or leaves sends programs to."""

import contextlib

from shoal.config.target import HOSTS, Target, target_of
from shoal.errors import ConfigError


def places_of(text: str, like: Target) -> list[Target]:
    """The addresses that a daemon sends a program to. One that is reached in another way is left out.

    So a daemon reached by `tls://` cannot send a program to `tcp://`.
    """
    found = []
    for url in text.split():
        with contextlib.suppress(ConfigError):
            target = target_of(url, 0)
            if target.scheme == like.scheme and target.scheme in HOSTS and target.port:
                found.append(target)
    return found
