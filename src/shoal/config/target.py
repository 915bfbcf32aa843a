"""Where a link leads: a target, from a URL."""

from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from shoal.errors import ConfigError

#: Where nothing else is asked for, only this machine can connect.
LOOPBACK = "127.0.0.1"
#: Links whose URLs name a host and a port.
HOSTS = ("tcp", "tls", "ws", "wss")
#: Of these, the ones whose URLs may have a path.
_PATHS = ("ws", "wss")


@dataclass(frozen=True, slots=True)
class Target:
    """What the URL of a link names."""

    #: What carries the link, such as `tcp`.
    scheme: str
    #: A name or an address; may be empty where the scheme has no hosts.
    host: str
    #: The port; means nothing where the scheme has none.
    port: int = 0
    #: What follows in the URL, as `/mnt/exchange`; may be empty.
    path: str = ""

    @property
    def url(self) -> str:
        """As a URL."""
        # A list of registries has its ports in it.
        host = f"[{self.host}]" if ":" in self.host and self.scheme != "locate" else self.host
        port = f":{self.port}" if self.scheme in HOSTS or self.port else ""
        return f"{self.scheme}://{host}{port}{quote(self.path)}"

    def at(self, port: int) -> "Target":
        """The same at another port."""
        return Target(self.scheme, self.host, port, self.path)


def check_host(host: str | None) -> None:
    """Refuse `*`, which other systems listen at, and which the system takes for a name of this machine."""
    if host == "*":
        raise ConfigError("'*' is no host: shoal.listen('tcp://0.0.0.0:7474') listens at every address")


def target_of(url: str, default_port: int) -> Target:
    """What a URL without options names."""
    parts = urlsplit(url)
    if not parts.scheme or "://" not in url:
        raise ConfigError(f"{url!r} is not the URL of a link: it must look like tcp://host:port")
    if parts.query or parts.fragment:
        raise ConfigError(f"{url!r} may only say where: options belong to the connection")
    has_hosts = parts.scheme in HOSTS
    if has_hosts and parts.scheme not in _PATHS and parts.path not in ("", "/"):
        raise ConfigError(f"{url!r} may only name a host and a port: it has a path, {parts.path!r}")
    try:
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{url!r}: {error}") from None
    check_host(parts.hostname)
    path = "" if parts.path == "/" else unquote(parts.path)
    if not has_hosts:
        return Target(parts.scheme, parts.hostname or "", port or 0, path)
    return Target(parts.scheme, parts.hostname or LOOPBACK, default_port if port is None else port, path)
