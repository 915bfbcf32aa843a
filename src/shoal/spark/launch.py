"""A Spark session in which the format `shoal` answers quickly.

Any session can use the format: Spark finds it by its name. What is set here is what makes it fast, and what
Spark needs to start at all: a Java, and the right Python for its workers.
"""

import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.errors import ConfigError
from shoal.spark import home, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = Path(__file__).with_name("log4j2.properties")
_PLAIN = Path(__file__).with_name("log4j2-session.properties")

#: All cores of this machine; a task that fails is tried four times, as on a cluster.
LOCAL_MASTER = "local[*,4]"

_AT_ANY_TIME = {
    # Without it Spark filters rows itself that the store need not have sent.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

_LOCAL = {
    # JVM and Python workers meet on this machine: a socket of the file system saves 46 ms for each task.
    "spark.python.unix.domain.socket.enabled": "true",
    # Spark's own choice for local checkpoints starts about twenty processes for each micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Nothing listens beyond this machine unless asked.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}

#: What keeps the formats of a session.
_FORMATS_LOGGER = "org.apache.spark.sql.execution.datasources.DataSourceManager"


def session(
    name: str = "shoal",
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
    quiet: bool = False,
    spark: "SparkSession | None" = None,
) -> "SparkSession":
    """A Spark session for the format `shoal`.

    Args:
        name: what the application is called in Spark's lists.
        master: where it runs; all cores of this machine (`local[*,4]`) by default, or a cluster
            (`spark://host:7077`). A running session is used as it is, whatever its master.
        remote: the address of a Spark Connect server (`sc://host:15002`), instead of `master`.
        conf: Spark settings, which go before those chosen here.
        quiet: Spark's JVM writes errors only; what ends a query is raised in Python in any case.
        spark: a session that exists already: only what can still be set is set in it. A thread that writes
            with a session which another thread made calls this first.
    """
    if spark is not None:
        if master or remote or conf:
            raise ConfigError("a session that exists already takes neither master, remote nor conf")
        for key, value in _AT_ANY_TIME.items():
            spark.conf.set(key, value)
        _enter(spark)
        return spark
    if master and remote:
        raise ConfigError("master and remote exclude each other: a Connect server has its own master")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if remote:
        builder = builder.remote(remote)
        settings = _AT_ANY_TIME | dict(conf or {})
    else:
        chosen = master or LOCAL_MASTER
        prepare_environment(local=chosen.startswith("local"))
        builder = builder.master(chosen)
        settings = default_settings(chosen, quiet=quiet) | dict(conf or {})
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    if quiet and not remote:
        made.sparkContext.setLogLevel("ERROR")
    _enter(made)
    return made


def _enter(spark: "SparkSession") -> None:
    """Make the format usable by the calling thread.

    A sink's format is looked up in the session of the calling thread, and Spark gives one only to the thread
    that made the session.
    """
    # One of Spark Connect has none: its server looks formats up.
    local = hasattr(spark, "_jsparkSession")
    if local:
        _expect_twice(spark)
    register(spark)
    if local:
        assert spark._jvm is not None
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)


def _expect_twice(spark: "SparkSession") -> None:
    """Have Spark log no warning that the format, which Spark found by itself, is registered once more."""
    assert spark._jvm is not None
    log4j = spark._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(_FORMATS_LOGGER, log4j.Level.ERROR)


def register(spark: "SparkSession") -> None:
    """Make the format known to a session.

    Spark looks for formats by itself, in a process of its own; where that process fails, or takes longer to
    start than Spark waits for it, Spark goes on without them and says so in its log only.
    """
    from pyspark.errors import AnalysisException

    from shoal.spark.source import ShoalSource

    try:
        spark.dataSource.register(ShoalSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def default_settings(master: str, *, quiet: bool = False) -> dict[str, str]:
    """The Spark settings that `session` chooses for a master."""
    settings = _AT_ANY_TIME | {"spark.ui.showConsoleProgress": "false"}
    # A query that is stopped inside foreachBatch has Spark search a long text by a deep recursion.
    java_options = ["-Xss8m"]
    if quiet or (master.startswith("local") and not _logs_as_set_up()):
        java_options.append(f"-Dlog4j2.configurationFile=file:{_QUIET if quiet else _PLAIN}")
    settings["spark.driver.extraJavaOptions"] = " ".join(java_options)
    if master.startswith("local"):
        settings |= _LOCAL
        settings["spark.sql.shuffle.partitions"] = str(local_cores(master))
        settings["spark.pyspark.python"] = sys.executable
    return settings


def _logs_as_set_up(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this machine's Spark has log settings of its own."""
    places = (
        environ.get("SPARK_CONF_DIR"),
        f"{environ['SPARK_HOME']}/conf" if "SPARK_HOME" in environ else None,
    )
    return any(place is not None and Path(place, "log4j2.properties").exists() for place in places)


def local_cores(master: str) -> int:
    """How many tasks a local master runs at once."""
    inside = master.partition("[")[2].rstrip("]").split(",")[0]
    if inside == "*":
        return os.cpu_count() or 1
    return int(inside) if inside.isdigit() else 1


def prepare_environment(environ: MutableMapping[str, str] = os.environ, *, local: bool = True) -> None:
    """Set what Spark reads from the environment when it starts its JVM; what is set already stays."""
    cache = home.cache_directory()
    environ["JAVA_HOME"] = str(java.find_home(cache, environ))
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if local:
        environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "SPARK_HOME" not in environ:
        environ["SPARK_HOME"] = str(home.fast_home(cache))
