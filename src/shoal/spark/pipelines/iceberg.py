"""An archive as an Iceberg table: the files stay where they are, and the table lists them.

The catalogue is an SQLite file inside the archive. Needs `pip install 'shoal[iceberg]'`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from shoal.errors import ConfigError
from shoal.spark.pipelines import archive


@dataclass(frozen=True)
class Target:
    """A table that may not be there yet: its columns are known once there is a file.

    Attributes:
        name: the table's name, with its namespace.
        catalogue: pyiceberg's catalogue.
    """

    name: str
    catalogue: Any


def open_table(name: str, directory: str | Path) -> Target:
    """The table `name` over the archive in `directory`."""
    namespace, _, table = name.rpartition(".")
    if not (namespace and table):
        raise ConfigError(f"an Iceberg table is named NAMESPACE.TABLE, not {name!r}")
    try:
        from pyiceberg.catalog.sql import SqlCatalog
    except ImportError:
        raise ConfigError("an Iceberg table needs pyiceberg: pip install 'shoal[iceberg]'") from None
    place = Path(directory).absolute() / "_iceberg"
    place.mkdir(parents=True, exist_ok=True)
    catalogue = SqlCatalog("shoal", uri=f"sqlite:///{place}/catalogue.db", warehouse=f"file://{place}")
    catalogue.create_namespace_if_not_exists(namespace)
    return Target(name, catalogue)


def refresh(target: Target, directory: str | Path) -> int:
    """Have the table list exactly the files of the archive; returns how many there are."""
    from pyiceberg.expressions import AlwaysTrue

    files = [f"file://{file}" for file in archive.parquet_files(Path(directory).absolute())]
    if not files:
        return 0
    schema = pq.read_schema(files[0].removeprefix("file://"))
    table = target.catalogue.create_table_if_not_exists(target.name, schema=schema)
    listed = set(table.inspect.files()["file_path"].to_pylist())
    if listed - set(files):  # a compaction replaced files: the table changes over in one step
        with table.transaction() as change:
            change.delete(AlwaysTrue())
            change.add_files(files)
    elif new := [file for file in files if file not in listed]:
        table.add_files(new)
    return len(files)
