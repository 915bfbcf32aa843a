"""The console: an operator's view of a domain in a browser (`shoal console`).

It is a member of the domain. `state`, `picture`, `alarms`, `sessions` and `audit` see no network and no
clock; `source` asks the domain, `app` and `routes` speak HTTP, `service` runs them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal.errors import ConfigError

if TYPE_CHECKING:
    import shoal
    from shoal.console.config import ConsoleConfig
    from shoal.console.service import ConsoleServer


def open_console(config: "ConsoleConfig", connect: "Callable[..., shoal.Bus]") -> "ConsoleServer":
    """Open a console, with connections to its domain that `connect` makes.

    Raises:
        ConfigError: the extra is not installed, or the address, the certificate, a key or the token file
            cannot be used.
    """
    try:
        from shoal.console.service import ConsoleServer
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed, which a console needs: pip install 'shoal[console]'"
        ) from None
    return ConsoleServer(config, connect)
