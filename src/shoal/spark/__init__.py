"""Topics in Spark: sources, sinks and pipelines. Needs `pip install 'shoal[spark]'`.

Parts are imported when they are asked for, because Spark's workers import this package often and need little
of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.spark.launch import session
    from shoal.spark.source import ShoalSource

__all__ = ["ShoalSource", "session"]

_MODULES = {
    "ShoalSource": "shoal.spark.source",
    "session": "shoal.spark.launch",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
