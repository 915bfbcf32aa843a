"""Where health and metrics are served."""

import ipaddress
from dataclasses import dataclass

from shoal.config.checks import Checked


@dataclass(frozen=True, kw_only=True)
class HttpConfig(Checked):
    """Health and metrics over HTTP."""

    #: Where, such as `127.0.0.1:7480`; port 0 is a free one.
    listen: str = "127.0.0.1:7480"
    #: Whether an address that other machines reach is meant: what is shown names nodes and addresses.
    beyond_loopback: bool = False

    def __post_init__(self) -> None:
        self.check_types()
        host, _ = self.address()
        fine = self.beyond_loopback or ipaddress.ip_address(host).is_loopback
        self.check("listen", fine, "an address of this machine alone, unless beyond_loopback = true")

    def address(self) -> tuple[str, int]:
        """The host and the port."""
        host, _, port = self.listen.rpartition(":")
        wanted = "ADDRESS:PORT, such as 127.0.0.1:7480 or [::1]:7480"
        self.check("listen", port.isdecimal() and int(port) < 65_536, wanted)
        try:
            return str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))), int(port)
        except ValueError:
            self.check("listen", False, wanted)
            raise
