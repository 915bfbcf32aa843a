"""Administered objects: factories and destinations by name, from a file that somebody else may write.

```toml
[factories.desk]
url = "norm://"
client_id = "desk-7"
default_delivery_mode = "NON_PERSISTENT"

[topics]
prices = "prices/>"

[queues]
orders = "orders/eu"
```
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal._core import Message as BusMessage
from shoal.bus.arguments import check_pattern
from shoal.bus.persistent import check_queue_name
from shoal.errors import InvalidArgumentError, InvalidDestinationError, ShoalError
from shoal.jms.destination import Destination, Queue, Topic
from shoal.jms.factory import ConnectionFactory
from shoal.jms.message import DeliveryMode

#: Names the file where a call does not.
FILE_VARIABLE = "SHOAL_JMS_FILE"
#: Where it is looked for where neither does.
DEFAULT_FILE = "jms.toml"

_KINDS = ("factories", "topics", "queues")


def lookup(name: str, file: str | Path | None = None) -> ConnectionFactory | Destination:
    """The factory, topic or queue of this name.

    Args:
        name: as the file has it.
        file: the file; without one `SHOAL_JMS_FILE` in the environment names it, and else it is `jms.toml`
            in the working directory.

    Raises:
        ConfigError: the file cannot be read, or has a mistake.
        LookupError: nothing there has this name.
    """
    path = Path(file or os.environ.get(FILE_VARIABLE) or DEFAULT_FILE)
    found = _objects(path)
    if name not in found:
        known = ", ".join(sorted(found)) or "nothing"
        raise InvalidDestinationError(f"{path} has no {name!r}; it has {known}")
    return found[name]


def _objects(path: Path) -> dict[str, ConnectionFactory | Destination]:
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(
            f"{path} cannot be read as a file of administered objects: {error}"
        ) from error
    unknown = tables.keys() - set(_KINDS)
    if unknown:
        raise InvalidArgumentError(f"{path} has a table {min(unknown)!r}; the tables are {', '.join(_KINDS)}")
    found: dict[str, ConnectionFactory | Destination] = {}
    for kind in _KINDS:
        for name, what in _table(path, kind, tables.get(kind, {})).items():
            if name in found:
                raise InvalidArgumentError(f"{path} has two objects of the name {name!r}")
            found[name] = _made(path, kind, name, what)
    return found


def _table(path: Path, kind: str, table: Any) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        raise InvalidArgumentError(f"{path}: {kind} must be a table")
    return table


def _check_name(destination: Destination) -> None:
    if destination.is_queue:
        check_queue_name(destination.bus_name)
    else:
        check_pattern(destination.bus_name)
        BusMessage(destination.bus_name.replace("*", "x").replace(">", "x"))


def _made(path: Path, kind: str, name: str, what: Any) -> ConnectionFactory | Destination:
    if kind != "factories":
        if not isinstance(what, str):
            raise InvalidArgumentError(
                f"{path}: {kind}.{name} is {what!r}, and must be the destination's name"
            )
        try:
            made = Topic(what) if kind == "topics" else Queue(what)
            # A mistake is told now, and not when somebody sends.
            _check_name(made)
        except ShoalError as error:
            raise InvalidArgumentError(f"{path}: {kind}.{name}: {error}") from error
        return made
    options = dict(_table(path, f"factories.{name}", what))
    mode = options.get("default_delivery_mode")
    if isinstance(mode, str):
        if mode not in DeliveryMode.__members__:
            known = " or ".join(repr(each) for each in DeliveryMode.__members__)
            raise InvalidArgumentError(
                f"{path}: factories.{name}.default_delivery_mode is {mode!r}, and must be {known}"
            )
        options["default_delivery_mode"] = DeliveryMode[mode]
    try:
        return ConnectionFactory(**options)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{path}: factories.{name}: {error}") from error
