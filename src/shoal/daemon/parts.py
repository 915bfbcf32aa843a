"""What stands beside a daemon's node: each part where the daemon's file asks for it.

A part not every daemon has is imported where it is opened: a small gateway does without its memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from shoal.daemon.config import DaemonConfig
from shoal.errors import ConfigError
from shoal.monitor.answers import Answers

if TYPE_CHECKING:
    from shoal.console.service import ConsoleServer
    from shoal.daemon.daemon import Daemon
    from shoal.daemon.host import Host
    from shoal.daemon.registering import Registering
    from shoal.gateway.server import GatewayThread
    from shoal.monitor.http import HttpEndpoint
    from shoal.registry.service import Registry
    from shoal.store import Store


class Part(Protocol):
    """A part that runs."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class Kind:
    """One kind of part."""

    #: The field of the daemon's configuration that describes it; a daemon has none where that is empty.
    field: str
    open: Callable[[DaemonConfig, "Daemon"], Part]
    #: What a reload says once it is open, from its configuration and itself.
    opened: Callable[[Any, Any], str]
    #: The same once it is closed for good.
    closed: str


class Parts:
    """The parts of one daemon that are open. The daemon's lock protects it."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[object, Part]] = {}

    def change(self, config: DaemonConfig, daemon: "Daemon") -> list[str]:
        """Open, close and open again what a configuration changes: what was done.

        Raises:
            ShoalError: a part cannot be opened. It stays closed, and the next change tries it again.
        """
        done = []
        for kind in KINDS:
            wanted = getattr(config, kind.field) or None
            known, part = self._open.get(kind.field, (None, None))
            if wanted == known:
                continue
            if part is not None:
                del self._open[kind.field]
                part.close()
            if wanted is not None:
                part = kind.open(config, daemon)
                self._open[kind.field] = (wanted, part)
            done.append(kind.opened(wanted, part) if wanted is not None else kind.closed)
        return done

    def find(self, field: str) -> Any:
        """The part that a field of the configuration describes; none if it is not open."""
        return self._open.get(field, (None, None))[1]

    def close(self) -> None:
        """Close every part, the last that was opened first."""
        while self._open:
            _, (_, part) = self._open.popitem()
            part.close()


def _open_store(config: DaemonConfig, _daemon: "Daemon") -> "Store":
    """The store, a member of its own on the first LAN."""
    from shoal.store import Store

    assert config.store is not None
    lan = config.lan()
    if lan is None:
        raise ConfigError("the role store needs a link with a multicast group, such as url = 'norm://'")
    return Store(config.store, lan)


def _open_gateway(config: DaemonConfig, daemon: "Daemon") -> "GatewayThread":
    from shoal.daemon.gateways import open_gateway

    assert config.gateway is not None
    return open_gateway(config, config.gateway, daemon.bus._connection)


def _open_answers(_config: DaemonConfig, daemon: "Daemon") -> Answers:
    return Answers(daemon.bus._connection, daemon.status)


def _open_http(config: DaemonConfig, daemon: "Daemon") -> "HttpEndpoint":
    from shoal.monitor.http import HttpEndpoint

    assert config.http is not None
    return HttpEndpoint(config.http, daemon.status)


def _open_directory(config: DaemonConfig, _daemon: "Daemon") -> "Registry":
    from shoal.registry import open_registry

    assert config.directory is not None
    return open_registry(config.directory)


def _open_console(config: DaemonConfig, daemon: "Daemon") -> "ConsoleServer":
    from shoal.daemon.consoles import open_beside

    assert config.console is not None
    return open_beside(config, config.console, daemon.bus._connection)


def _open_registering(config: DaemonConfig, daemon: "Daemon") -> "Registering":
    from shoal.daemon.registering import Mesh, Registering

    assert config.registry is not None
    assert daemon.guard is not None
    mesh = Mesh(daemon.bus._connection.keeper(), f"{daemon.bus.publisher:016x}")
    clients = config.registry.clients(config.domain)
    return Registering(clients, mesh, daemon.guard, daemon.record, config.domain)


def _open_host(config: DaemonConfig, daemon: "Daemon") -> "Host":
    from shoal.daemon.host import Host

    assert config.host is not None
    return Host(daemon.bus._connection, config.host, config.file)


#: In the order in which they are opened: a daemon may register with the registry beside it.
KINDS = (
    Kind("store", _open_store, lambda config, _: f"store in {config.path}", "store off"),
    Kind("gateway", _open_gateway, lambda _, part: f"gateway at {', '.join(part.urls)}", "gateway off"),
    Kind("answer", _open_answers, lambda *_: "answers on", "answers off"),
    Kind("http", _open_http, lambda _, part: f"http at {part.url}", "http off"),
    Kind("directory", _open_directory, lambda _, part: f"registry at {part.url}", "registry off"),
    Kind(
        "registry",
        _open_registering,
        lambda config, _: f"registered with {', '.join(config.urls)}",
        "registered nowhere",
    ),
    Kind("console", _open_console, lambda _, part: f"console at {part.url}", "console off"),
    Kind("host", _open_host, lambda config, _: f"host of {config.directory}", "host off"),
)
