"""What `norm send` and `norm receive` share: where the group is, and how nodes are named."""

import ipaddress
from typing import Annotated

import typer

from shoal.norm import NormConfig

DEFAULTS = NormConfig()

Group = Annotated[
    str,
    typer.Option(help="Multicast group, or the address of the one other end.", rich_help_panel="Network"),
]
Port = Annotated[int, typer.Option(min=1, max=65535, help="UDP port.", rich_help_panel="Network")]
Interface = Annotated[
    str,
    typer.Option(help="Network interface, by name or address; auto chooses.", rich_help_panel="Network"),
]
Node = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Our node id: a number, or an IPv4 address as libnorm has it.",
        rich_help_panel="Network",
    ),
]


def node_from_text(text: str) -> int:
    """A node id as people write it."""
    try:
        return int(text, 0) if not text.count(".") else int(ipaddress.IPv4Address(text))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no node id: give a number such as 1001, or an IPv4 address"
        ) from None


def optional_node(text: str | None) -> int | None:
    """As `node_from_text`; none chooses one at random."""
    return None if text is None else node_from_text(text)
