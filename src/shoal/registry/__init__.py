"""A directory of daemons over HTTP: daemons find each other in it, and clients the best daemon.

Needs the extra `shoal[registry]`. Nothing depends on a registry that is away: connections stay.
"""

from typing import TYPE_CHECKING

from shoal.errors import ConfigError

if TYPE_CHECKING:
    from shoal.registry.config import RegistryConfig
    from shoal.registry.service import Registry


def open_registry(config: "RegistryConfig") -> "Registry":
    """Open a registry.

    Raises:
        ConfigError: the extra is not installed, or the address, the certificate or the token file cannot be
            used.
    """
    try:
        from shoal.registry.service import Registry
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed, which a registry needs: pip install 'shoal[registry]'"
        ) from None
    return Registry(config)
