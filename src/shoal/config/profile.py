"""Profiles: named sets of options, and iBus's QoS strings as such a set.

A profile is a TOML file with a `description` and a table `[options]`. Shoal brings some; a file in
`~/.config/shoal/profiles` adds one, or takes the place of one. An option that the program gives itself wins.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError

_OWN = Path(__file__).parent / "profiles"
#: In this order they are listed.
_FIRST = ("lan", "busy", "large", "wifi", "wan")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
#: What stands before the options that a part of an iBus stack takes.
_PART = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True)
class Profile:
    """A named set of options."""

    name: str
    description: str
    #: As keywords of `connect`.
    options: Mapping[str, Any] = field(default_factory=dict)

    def as_toml(self) -> str:
        """As the file that makes it."""
        lines = [f"description = {_toml(self.description)}", "", "[options]"]
        return "\n".join([*lines, *(f"{name} = {_toml(value)}" for name, value in self.options.items()), ""])


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)


def user_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user's own profiles are."""
    home = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".config"
    return Path(home) / "shoal" / "profiles"


def names(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Every profile, Shoal's own first."""
    own = {path.stem for path in user_folder(environment).glob("*.toml")}
    return [*_FIRST, *sorted(own - set(_FIRST))]


def load(name: str, environment: Mapping[str, str] = os.environ) -> Profile:
    """The profile of a name; an unknown one is refused with those there are."""
    known = names(environment)
    if not isinstance(name, str) or name not in known or not _NAME.fullmatch(name):
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"unknown profile {name!r}: {hint}the profiles are {', '.join(known)}")
    path = user_folder(environment) / f"{name}.toml"
    if not path.is_file():
        path = _OWN / f"{name}.toml"
    try:
        with path.open("rb") as file:
            read = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the profile {path} cannot be read: {error}") from error
    unknown = read.keys() - {"description", "options"}
    options = read.get("options", {})
    if unknown or not isinstance(options, dict):
        wrong = ", ".join(sorted(unknown)) or "options"
        raise ConfigError(
            f"the profile {path} has {wrong}: it must have `description` and a table `[options]`"
        )
    for refused in ("profile", "scheme", "key"):
        if refused in options:
            raise ConfigError(
                f"the profile {path} has {refused}, which belongs to a connection, not to a profile"
            )
    return Profile(name, str(read.get("description", "")), options)


def save(profile: Profile, environment: Mapping[str, str] = os.environ) -> Path:
    """Write a profile of the user's own: the file. One that exists is left alone."""
    if not _NAME.fullmatch(profile.name):
        raise ConfigError(
            f"{profile.name!r} cannot be the name of a profile: use up to 64 small letters, digits, - and _"
        )
    path = user_folder(environment) / f"{profile.name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(profile.as_toml())
    except FileExistsError:
        raise ConfigError(f"the profile {path} exists: remove it first, or use another name") from None
    return path


@dataclass(frozen=True)
class Translation:
    """What an iBus stack asks for, in Shoal's words."""

    options: Mapping[str, Any]
    #: What needs no option here, and why.
    notes: tuple[str, ...]


#: Parameters of iBus's protocols: Shoal's option, and how to reckon it from iBus's number.
_PARAMETERS: dict[tuple[str, str], tuple[str, float]] = {
    ("NAK", "epochsz"): ("epoch_messages", 1),
    ("REACH", "hbeat"): ("heartbeat_s", 0.001),
    ("REACH", "timeoutheartbeats"): ("missed_heartbeats_max", 1),
    ("IPMCAST", "senddelay"): ("send_delay_s", 0.001),
    ("IPMCAST", "ttl"): ("multicast_ttl", 1),
}
#: What Shoal does anyway, or in another place.
_NOTES = {
    ("DISPATCH", "threadPerChannel"): "each subscription with a callback has a thread of its own",
    ("DISPATCH", "highmark"): "`subscribe(queue_bytes_max=…)` bounds what waits for a reader",
    ("NAK", "statistics"): "`print(bus.statistics())` prints the same figures",
}
_PROTOCOLS = ("DISPATCH", "FRAG", "FIFO", "NAK", "REACH", "IPMCAST")


def from_ibus(stack: str) -> Translation:
    """The options that an iBus QoS string means, such as `NAK(epochsz=50):IPMCAST(senddelay=5)`."""
    text = stack.strip().removeprefix("ibusjms.topic.qos=")
    options: dict[str, Any] = {}
    notes = []
    for part in text.split(":"):
        found = _PART.fullmatch(part)
        if found is None or found[1] not in _PROTOCOLS:
            known = ", ".join(_PROTOCOLS)
            raise ConfigError(f"{part.strip()!r} is no part of an iBus stack: use {known}, with : between")
        for given in filter(None, (found[2] or "").split(",")):
            name, _, value = (text.strip() for text in given.partition("="))
            if (found[1], name) in _NOTES:
                notes.append(f"{found[1]}({name}): {_NOTES[found[1], name]}")
                continue
            option, factor = _parameter(found[1], name)
            if not value.isdigit():
                raise ConfigError(f"{found[1]}({name}={value}) has no whole number")
            options[option] = int(value) if factor == 1 else int(value) * factor
    return Translation(options, tuple(notes))


def _parameter(protocol: str, name: str) -> tuple[str, float]:
    """What a parameter of iBus is here; one that there is not is refused with those there are."""
    if (protocol, name) in _PARAMETERS:
        return _PARAMETERS[protocol, name]
    there = [each for of, each in (*_PARAMETERS, *_NOTES) if of == protocol]
    known = f"it has {', '.join(there)}" if there else "it has none"
    raise ConfigError(f"{protocol} has no parameter {name!r} that Shoal knows: {known}")
