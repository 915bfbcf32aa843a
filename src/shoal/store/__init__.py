"""The store role: records topics, keeps them as long as it is told, and publishes what is committed to it.

`shoal.connect(store=…)` and `shoal store` use it; it may use the bus, and nothing above.
"""

from shoal.store.config import Rule, StoreConfig, load_toml, resolve
from shoal.store.role import Store

__all__ = ["Rule", "Store", "StoreConfig", "load_toml", "resolve"]
