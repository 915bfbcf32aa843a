"""The store role: records topics, keeps them as long as it is told, and publishes what is committed to it.

`shoal.connect(store=…)` and `shoal store` use it; it may use the bus, and nothing above.

The role itself is imported when it is first used: a daemon without one only checks its file.
"""

from typing import TYPE_CHECKING, Any

from shoal.store.config import Rule, StoreConfig, load_toml, resolve

if TYPE_CHECKING:
    from shoal.store.role import Store

__all__ = ["Rule", "Store", "StoreConfig", "load_toml", "resolve"]


def __getattr__(name: str) -> Any:
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shoal.store.role import Store

    return Store
