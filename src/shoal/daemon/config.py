"""What a daemon can be told, in a TOML file. Every key is checked before anything is opened."""

import dataclasses
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from shoal.config import ConnectionConfig, resolve, resolve_listening
from shoal.config.checks import Checked, unknown_option
from shoal.config.connection import DEFAULT_DOMAIN
from shoal.config.schemes import SCHEMES
from shoal.console.config import ConsoleConfig
from shoal.daemon.host_config import HostConfig
from shoal.daemon.places import line_of
from shoal.errors import ConfigError, ShoalError
from shoal.link.admission import Allowed
from shoal.monitor.config import HttpConfig
from shoal.registry.config import RegistryConfig
from shoal.store import StoreConfig
from shoal.store import resolve as resolve_store
from shoal.store.config import with_paths

if TYPE_CHECKING:
    from shoal.gateway.config import GatewayConfig
    from shoal.link.registry_client import RegistryClient

#: What a link, or a daemon, may be called: it becomes part of metrics and log lines.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
#: Tables and keys of a file.
_KEYS = (
    "name",
    "domain",
    "roles",
    "connection",
    "link",
    "http",
    "log",
    "store",
    "gateway",
    "console",
    "answer",
    "registry",
    "host",
)
#: Options that are paths.
_PATHS = ("key_file", "tls_ca", "tls_cert", "tls_key", "token_file", "ca", "access")
#: The same of a gateway, a registry and a console, and those that are lists of texts.
_SERVER_PATHS = ("tls_cert", "tls_key", "tokens", "access", "token_file", "audit", "data")
_SERVER_LISTS = ("stomp", "origins", "proxies", "sites", "names", "host_keys")
#: Links of one daemon, at the most.
LINKS_MAX = 256

_Table = TypeVar("_Table", bound=Checked)


@dataclass(frozen=True, kw_only=True)
class Roles(Checked):
    """What the node does beyond being a member."""

    #: Forwards between its links what programs behind the others want.
    router: bool = True
    #: Lets others connect where a link says `listen`; false leaves those links closed.
    listener: bool = True
    #: Keeps messages on disk, as the table `[store]` says.
    store: bool = False
    #: Starts and stops the daemons of a directory, on a console's signed orders, as the table `[host]` says.
    host: bool = False
    #: Lets STOMP clients take part, as the table `[gateway]` says.
    gateway: bool = False
    #: Shows the domain to browsers, as the table `[console]` says.
    console: bool = False
    #: Serves a directory of daemons, as the table `[registry.server]` says.
    registry: bool = False

    def __post_init__(self) -> None:
        self.check_types()


@dataclass(frozen=True, kw_only=True)
class LinkConfig:
    """One link: an address to connect to or a group to join, or an address to listen at."""

    #: What the file calls it.
    name: str
    #: Whether others connect to it.
    listens: bool
    #: How; its options are those of `shoal.connect`.
    connection: ConnectionConfig
    #: Whether it is opened; one that is not is checked all the same.
    enabled: bool = True
    #: Programs that may connect: names of certificates, and networks. Empty admits all.
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LogConfig(Checked):
    """What is logged to standard error."""

    #: Lines for people, or one JSON object a line.
    format: Literal["text", "json"] = "text"
    #: The least severe to log.
    level: Literal["debug", "info", "warning", "error"] = "info"

    def __post_init__(self) -> None:
        self.check_types()


@dataclass(frozen=True, kw_only=True)
class RegistryOptions(Checked):
    """The table `[registry]`: where the registries are. Everything else is found through them."""

    #: One URL for each registry, such as `https://reg:7480`.
    urls: tuple[str, ...]
    #: A file with the daemon's token, of the role `daemon`.
    token_file: str | None = None
    #: The authority (PEM) that signed the registries' certificates; the system's, if not given.
    ca: str | None = None
    #: The host or address under which others reach this daemon; the one that leads to the registry, if not
    #: given.
    advertise: str | None = None

    def __post_init__(self) -> None:
        self.check_types()
        fine = all(isinstance(url, str) and re.match(r"https?://[^/]+/?$", url) for url in self.urls)
        self.check("urls", fine and bool(self.urls), "a list of URLs such as https://reg:7480")

    def clients(self, domain: str) -> "list[RegistryClient]":
        """The registries, each with the token of the file or of the environment."""
        # A small gateway without registries does without HTTP and its memory.
        from shoal.config.tokens import TokenSource
        from shoal.link.registry_client import RegistryClient

        return [
            RegistryClient(url, domain, token=TokenSource(self.token_file), ca=self.ca) for url in self.urls
        ]


@dataclass(frozen=True, kw_only=True)
class DaemonConfig:
    """One daemon."""

    #: What it calls itself; the host's name if not given.
    name: str
    #: The set of nodes it belongs to.
    domain: str
    #: Options of its node, and of all its links with single programs: TLS, heartbeats, windows, how many.
    connection: ConnectionConfig
    roles: Roles = field(default_factory=Roles)
    #: By name.
    links: Mapping[str, LinkConfig]
    #: The store beside it, if it has the role.
    store: StoreConfig | None = None
    #: The gateway beside it, if it has the role.
    gateway: "GatewayConfig | None" = None
    #: The console beside it, if it has the role.
    console: ConsoleConfig | None = None
    #: The registry beside it, if it has the role.
    directory: RegistryConfig | None = None
    #: The registries through which it finds other daemons; none finds none.
    registry: RegistryOptions | None = None
    #: The daemons it starts and stops, if it has the role.
    host: HostConfig | None = None
    #: Health and metrics; none if not given.
    http: HttpConfig | None = None
    log: LogConfig = field(default_factory=LogConfig)
    #: Whether it answers programs that ask the domain for its nodes and links: `shoal nodes`, `shoal links`.
    answer: bool = True
    #: The file it is from.
    file: Path | None = None

    def open_links(self) -> dict[str, LinkConfig]:
        """The links that are to be open, by name."""
        return {
            name: link
            for name, link in self.links.items()
            if link.enabled and (self.roles.listener or not link.listens)
        }

    def lan(self) -> ConnectionConfig | None:
        """The first multicast group that it joins."""
        links = (link.connection for link in self.open_links().values())
        return next((each for each in links if each.scheme == "norm" and not each.is_unicast), None)


def load(path: Path) -> DaemonConfig:
    """The configuration in a file.

    Raises:
        ConfigError: it cannot be read, or a key in it cannot work; the message names file, line, key,
            its value and what would be accepted.
    """
    try:
        text = path.read_text(encoding="utf-8")
        options = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no UTF-8 text: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}") from None
    try:
        return dataclasses.replace(parse(options, path.parent), file=path)
    except _KeyError as error:
        line = line_of(text, error.key)
        where = f"{path}, line {line}" if line else f"{path}"
        raise ConfigError(f"{where}: {error}") from None


class _KeyError(ConfigError):
    """What is wrong with a key of the file."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key


def parse(options: Mapping[str, Any], beside: Path) -> DaemonConfig:
    """The configuration that a file's content describes; paths in it are relative to `beside`."""
    for name in options:
        if name not in _KEYS:
            raise _KeyError(name, str(unknown_option(name, _KEYS)))
    domain = _text(options, "domain", DEFAULT_DOMAIN)
    name = _text(options, "name", socket.gethostname().partition(".")[0] or "shoald")
    if not _NAME.fullmatch(name):
        raise _KeyError("name", f"name is {name!r}, and must be letters, digits, '.', '_' and '-', up to 63")
    roles = _roles(options)
    answer = options.get("answer", True)
    if not isinstance(answer, bool):
        raise _KeyError("answer", f"answer is {answer!r}, and must be true or false")
    connection, links = _connection(options, domain, roles, beside), _links(options, domain, beside)
    _check_names(links, connection)
    return DaemonConfig(
        name=name,
        domain=domain,
        connection=connection,
        roles=roles,
        links=links,
        store=_store(options, roles, beside),
        gateway=_gateway(options, roles, beside),
        console=_console(options, roles, beside),
        directory=_directory(options, roles, beside),
        registry=_registry(options, beside),
        host=_host(options, roles, beside),
        http=_checked(HttpConfig, "http", _table(options, "http")) if "http" in options else None,
        log=_checked(LogConfig, "log", _table(options, "log")),
        answer=answer,
    )


def _registry(options: Mapping[str, Any], beside: Path) -> RegistryOptions | None:
    table = _with_paths(_table(options, "registry"), beside)
    is_server_alone = "server" in table and len(table) == 1
    table.pop("server", None)
    if "registry" not in options or is_server_alone:
        return None
    urls = table.get("urls")
    if not isinstance(urls, list) or not urls:
        wanted = "a list of URLs such as ['https://reg:7480']"
        raise _KeyError("registry.urls", f"registry.urls is {urls!r}, and must be {wanted}")
    return _checked(RegistryOptions, "registry", table | {"urls": tuple(urls)})


def _directory(options: Mapping[str, Any], roles: Roles, beside: Path) -> RegistryConfig | None:
    key = "registry.server"
    tables = _table(options, "registry")
    if not roles.registry:
        if "server" in tables:
            raise _KeyError(key, f"[{key}] means nothing without the role: add registry = true to [roles]")
        return None
    return _checked(RegistryConfig, key, _server_table(tables, "server", key, beside))


def _host(options: Mapping[str, Any], roles: Roles, beside: Path) -> HostConfig | None:
    if not roles.host:
        if "host" in options:
            raise _KeyError("host", "[host] means nothing without the role: add host = true to [roles]")
        return None
    table = _table(options, "host")
    paths = {
        name: table.get(name, default) for name, default in (("directory", "."), ("key_file", "host.key"))
    }
    for name, value in paths.items():
        if not isinstance(value, str) or not value:
            raise _KeyError(f"host.{name}", f"host.{name} is {value!r}, and must be a path")
    return _checked(HostConfig, "host", table | {name: str(beside / value) for name, value in paths.items()})


def _text(options: Mapping[str, Any], key: str, default: str) -> str:
    value = options.get(key, default)
    if not isinstance(value, str) or not value:
        raise _KeyError(key, f"{key} is {value!r}, and must be a text that is not empty")
    return value


def _table(options: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = options.get(key, {})
    if not isinstance(value, dict):
        raise _KeyError(key, f"{key} is {value!r}, and must be a table: [{key}]")
    return dict(value)


def _checked(kind: type[_Table], key: str, options: Mapping[str, Any]) -> _Table:
    known = [each.name for each in dataclasses.fields(kind)]
    for name in options:
        if name not in known:
            raise _KeyError(f"{key}.{name}", str(unknown_option(name, known, f" in [{key}]")))
    try:
        return kind(**options)
    except ConfigError as error:
        wrong = str(error).partition(" ")[0]
        raise _KeyError(f"{key}.{wrong}", f"{key}.{error}") from None


def _roles(options: Mapping[str, Any]) -> Roles:
    roles = _table(options, "roles")
    return _checked(Roles, "roles", roles)


def _connection(options: Mapping[str, Any], domain: str, roles: Roles, beside: Path) -> ConnectionConfig:
    """The options of the node. It begins without links, and is given those of the file."""
    table = _with_paths(_table(options, "connection"), beside)
    for name in ("domain", "router", "cost", "host", "port", "path", "seeds"):
        if name in table:
            raise _KeyError(f"connection.{name}", f"connection.{name} means nothing there: leave it out")
    try:
        return resolve("tcp://", {**table, "domain": domain, "router": roles.router}, {})
    except (ShoalError, TypeError) as error:
        raise _KeyError(f"connection.{_field_of(error)}", f"[connection] {error}") from None


def _with_paths(table: dict[str, Any], beside: Path) -> dict[str, Any]:
    """Paths are relative to the file."""
    return {
        name: str(beside / value) if name in _PATHS and isinstance(value, str) else value
        for name, value in table.items()
    }


def _field_of(error: Exception) -> str:
    """The option that an error begins with, or names as unknown."""
    found = re.match(r"(?:unknown option ')?(\w+)", str(error))
    return found[1] if found else ""


def _links(options: Mapping[str, Any], domain: str, beside: Path) -> dict[str, LinkConfig]:
    tables = _table(options, "link")
    if not tables:
        raise _KeyError("link", "there is no link: add a table such as [link.lan] with url = 'norm://'")
    if len(tables) > LINKS_MAX:
        raise _KeyError("link", f"there are {len(tables)} links, and may be {LINKS_MAX}")
    links = {}
    for name, table in tables.items():
        key = f"link.{name}"
        if not _NAME.fullmatch(name):
            raise _KeyError(key, f"[{key}]: a link is called by letters, digits, '.', '_' and '-', up to 63")
        if not isinstance(table, dict):
            raise _KeyError(key, f"{key} is {table!r}, and must be a table: [{key}]")
        links[name] = _link(name, dict(table), domain, beside)
    _refuse_twins(links)
    return links


def _link(name: str, table: dict[str, Any], domain: str, beside: Path) -> LinkConfig:
    key = f"link.{name}"
    if ("url" in table) == ("listen" in table):
        wanted = "url (to connect to, or a group to join) or listen (an address for others), one of them"
        raise _KeyError(key, f"[{key}] must have {wanted}")
    listens = "listen" in table
    enabled = table.pop("enabled", True)
    if not isinstance(enabled, bool):
        raise _KeyError(f"{key}.enabled", f"{key}.enabled is {enabled!r}, and must be true or false")
    allow = _allow(key, table.pop("allow", None), listens)
    url = table.pop("listen" if listens else "url")
    if not isinstance(url, str) or not url:
        field_ = "listen" if listens else "url"
        raise _KeyError(f"{key}.{field_}", f"{key}.{field_} is {url!r}, and must be a URL")
    if table.setdefault("domain", domain) != domain:
        raise _KeyError(
            f"{key}.domain",
            f"{key}.domain is {table['domain']!r}, and the daemon's is {domain!r}: a node has one domain",
        )
    where = f"{key}.{'listen' if listens else 'url'}"
    try:
        connection = (resolve_listening if listens else resolve)(url, _with_paths(table, beside), {})
    except (ShoalError, TypeError) as error:
        word = _field_of(error)
        place = f"{key}.{word}" if word in table else where
        raise _KeyError(place, f"[{key}] {url!r}: {error}") from None
    if connection.scheme not in ("norm", *SCHEMES):
        wanted = "norm://, tcp://, tls://, ws:// or wss://"
        why = (
            ": what is lost on udp:// would be missing behind all others"
            if connection.scheme == "udp"
            else ""
        )
        raise _KeyError(where, f"{where} is {url!r}, and a daemon's link must be {wanted}{why}")
    plain = ConnectionConfig(
        scheme=connection.scheme,
        domain=domain,
        host=connection.host if connection.has_links else None,
        port=connection.port,
        path=connection.path if connection.has_links else None,
        cost=connection.cost,
    )
    if connection.has_links and connection != plain:
        others = [each.name for each in dataclasses.fields(plain) if _differs(each.name, connection, plain)]
        raise _KeyError(
            f"{key}.{others[0]}",
            f"[{key}] {url!r}: {', '.join(others)} is for all links of this kind: put it into [connection]",
        )
    return LinkConfig(name=name, listens=listens, connection=connection, enabled=enabled, allow=allow)


def _allow(key: str, entries: object, listens: bool) -> tuple[str, ...]:
    where = f"{key}.allow"
    if entries is None:
        return ()
    if not listens:
        raise _KeyError(where, f"{where} says who may connect, and [{key}] has no listen: leave it out")
    texts = entries if isinstance(entries, list) else []
    if not texts or not all(isinstance(one, str) and one for one in texts):
        wanted = "a list of names of certificates, such as 'sensor*', and networks, such as '10.0.0.0/8'"
        raise _KeyError(where, f"{where} is {entries!r}, and must be {wanted}")
    try:
        Allowed(texts)
    except ConfigError as error:
        raise _KeyError(where, f"{where}: {error}") from None
    return tuple(texts)


def _check_names(links: Mapping[str, LinkConfig], connection: ConnectionConfig) -> None:
    """Names are proved by certificates, and those have to be asked for."""
    for name, link in links.items():
        if not Allowed(link.allow).names:
            continue
        scheme = link.connection.scheme
        if scheme not in ("tls", "wss"):
            how = f"{scheme}:// asks for no certificate: use tls:// or wss://, or name networks"
        elif connection.tls_ca is None:
            how = "without tls_ca in [connection] no program is asked for a certificate"
        else:
            continue
        names = ", ".join(map(repr, Allowed(link.allow).names))
        raise _KeyError(f"link.{name}.allow", f"link.{name}.allow has {names}, and {how}")


def _differs(name: str, one: ConnectionConfig, other: ConnectionConfig) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def _refuse_twins(links: Mapping[str, LinkConfig]) -> None:
    """Two links to one place would be one link twice."""
    seen: dict[tuple[Any, ...], str] = {}
    for name, link in links.items():
        connection = link.connection
        place = (
            link.listens,
            connection.scheme,
            connection.host or connection.group_address(),
            connection.port if connection.port or not link.listens else name,
            connection.interface,
            connection.listen_port,
            connection.path,
        )
        if (other := seen.setdefault(place, name)) != name:
            raise _KeyError(
                f"link.{name}", f"[link.{name}] leads to the same place as [link.{other}]: leave one out"
            )


def _store(options: Mapping[str, Any], roles: Roles, beside: Path) -> StoreConfig | None:
    if not roles.store:
        if "store" in options:
            raise _KeyError("store", "[store] means nothing without the role: add store = true to [roles]")
        return None
    table = _table(options, "store")
    data = table.pop("data", None)
    if not isinstance(data, str) or not data:
        raise _KeyError("store.data", f"store.data is {data!r}, and must be the store's directory")
    try:
        return resolve_store(beside / data, table.pop("record", ()), **with_paths(table, beside))
    except (ShoalError, TypeError, ValueError) as error:
        word = str(error).partition(" ")[0]
        raise _KeyError(f"store.{word}", f"[store] {error}") from None


def _gateway(options: Mapping[str, Any], roles: Roles, beside: Path) -> "GatewayConfig | None":
    if not roles.gateway:
        if "gateway" in options:
            raise _KeyError(
                "gateway", "[gateway] means nothing without the role: add gateway = true to [roles]"
            )
        return None
    # A daemon without the role does without its memory.
    from shoal.gateway.config import GatewayConfig

    return _checked(GatewayConfig, "gateway", _server_table(options, "gateway", "gateway", beside))


def _console(options: Mapping[str, Any], roles: Roles, beside: Path) -> ConsoleConfig | None:
    if not roles.console:
        if "console" in options:
            raise _KeyError(
                "console", "[console] means nothing without the role: add console = true to [roles]"
            )
        return None
    table = _server_table(options, "console", "console", beside)
    if "host_keys" in table:
        table["host_keys"] = tuple(beside / key for key in table["host_keys"])
    config = _checked(ConsoleConfig, "console", table)
    if config.tokens is None:
        wanted = "a token file that `shoal token new` made: a daemon prints no token for one run"
        raise _KeyError("console.tokens", f"console.tokens is None, and must be {wanted}")
    return config


def _server_table(options: Mapping[str, Any], name: str, key: str, beside: Path) -> dict[str, Any]:
    """The table of a server: its paths are relative to the file, and its lists are tuples."""
    table = _table(options, name)
    for option, value in table.items():
        if option in _SERVER_PATHS and isinstance(value, str):
            table[option] = beside / value
        elif option in _SERVER_LISTS:
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise _KeyError(
                    f"{key}.{option}", f"{key}.{option} is {value!r}, and must be a list of texts"
                )
            table[option] = tuple(value)
    return table
