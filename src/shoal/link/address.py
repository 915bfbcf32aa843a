"""Addresses of hosts, from their names."""

import ipaddress
import socket

from shoal.errors import LinkError


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
