"""Addresses of TCP links: from a URL, and from the names in it."""

import ipaddress
import socket
from urllib.parse import urlsplit

from shoal.errors import ConfigError, LinkError

#: Where nothing else is asked for, only this machine can connect.
LOOPBACK = "127.0.0.1"


def host_and_port(url: str, default_port: int) -> tuple[str, int]:
    """The host and the port of a `tcp://` URL without options."""
    parts = urlsplit(url)
    if parts.scheme != "tcp" or "://" not in url:
        raise ConfigError(f"{url!r} is not the URL of a TCP link: it must look like tcp://host:port")
    if parts.query or parts.fragment or parts.path not in ("", "/"):
        raise ConfigError(f"{url!r} may only name a host and a port: options belong to the connection")
    try:
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{url!r}: {error}") from None
    return parts.hostname or LOOPBACK, default_port if port is None else port


def text_of(host: str, port: int) -> str:
    """The URL of a host and a port."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def is_address(host: str) -> bool:
    """Whether a host is an address already."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, in the order in which to try them. Takes as long as the system takes."""
    if is_address(host):
        return [host]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LinkError(f"{host!r} cannot be found: {error.strerror or error}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
