"""What a store recorded, as Arrow data: `shoal.history.connect`. Needs pyarrow (`shoal[history]`)."""

from shoal.errors import ConfigError

try:
    import pyarrow.flight  # noqa: F401
except ImportError as error:
    raise ConfigError(f"shoal.history needs pyarrow: pip install 'shoal[history]' ({error})") from error

from shoal.history.client import History, connect
from shoal.history.schema import SCHEMA_VERSION

__all__ = ["SCHEMA_VERSION", "History", "connect"]
