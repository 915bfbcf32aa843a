import sys

import pytest
from pyspark import cloudpickle
from pyspark.errors import AnalysisException

from shoal.errors import ConfigError
from shoal.spark import home, launch
from shoal.spark.source import ShoalSource


def test_a_local_master_gets_what_low_latency_needs():
    settings = launch.default_settings("local[3,4]")
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.pyspark.python"] == sys.executable


def test_a_local_session_logs_warnings_without_those_of_every_start(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    options = launch.default_settings("local[2]")["spark.driver.extraJavaOptions"]
    assert "log4j2-session.properties" in options
    assert "log4j2" not in launch.default_settings("spark://host:7077")["spark.driver.extraJavaOptions"]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert "log4j2" not in launch.default_settings("local[2]")["spark.driver.extraJavaOptions"]


def test_a_cluster_keeps_its_own_addresses_and_checkpoints():
    settings = launch.default_settings("spark://host:7077")
    assert settings["spark.sql.python.filterPushdown.enabled"] == "true"
    assert "spark.driver.bindAddress" not in settings
    assert "spark.sql.streaming.checkpointFileManagerClass" not in settings


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[7]", 7), ("local[2,4]", 2)])
def test_cores_are_read_from_the_master(master, cores):
    assert launch.local_cores(master) == cores


def test_what_the_environment_says_already_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environ = {"PYSPARK_PYTHON": "/other/python", "SPARK_HOME": "/other/spark", "PATH": "/usr/bin:/bin"}
    launch.prepare_environment(environ)
    assert (environ["PYSPARK_PYTHON"], environ["SPARK_HOME"]) == ("/other/python", "/other/spark")
    assert environ["JAVA_HOME"]


def test_options_that_exclude_each_other_are_refused():
    with pytest.raises(ConfigError, match=r"master and remote exclude each other"):
        launch.session(master="local", remote="sc://x")
    with pytest.raises(ConfigError, match=r"takes neither master, remote nor conf"):
        launch.session(spark=object(), master="local")


def test_the_fast_home_holds_packages_where_spark_has_archives(tmp_path):
    made = home.fast_home(tmp_path)
    assert (made / "bin" / "spark-submit").exists()
    archive = made / "python" / "lib" / "pyspark.zip"
    assert (archive / "pyspark" / "worker.py").exists()
    assert [entry.name for entry in archive.iterdir()] == ["pyspark"]
    assert home.fast_home(tmp_path) == made
    assert [entry.name for entry in tmp_path.iterdir()] == [made.name]


def test_discovery_offers_the_format(monkeypatch):
    monkeypatch.delitem(sys.modules, "pyspark_shoal", raising=False)
    import pyspark_shoal

    assert pyspark_shoal.DefaultSource.name() == "shoal"
    assert pyspark_shoal.DefaultSource is ShoalSource


def test_a_format_that_cannot_be_imported_says_why_to_whoever_uses_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "pyspark_shoal", raising=False)
    monkeypatch.setitem(sys.modules, "shoal.spark.source", None)
    import pyspark_shoal

    # As Spark does it: looked up in one process, used in another.
    made = cloudpickle.loads(cloudpickle.dumps(pyspark_shoal.DefaultSource))({})
    assert made.name() == "shoal"
    for use in (
        made.schema,
        lambda: made.reader(None),
        lambda: made.streamReader(None),
        lambda: made.writer(None, False),
        lambda: made.streamWriter(None, False),
    ):
        with pytest.raises(
            ImportError, match=r"cannot import shoal\.spark \(ModuleNotFoundError: .*pip install"
        ):
            use()


class Sources:
    """What `spark.dataSource` does."""

    def __init__(self, condition=None):
        self.registered = []
        self._condition = condition

    def register(self, source):
        if self._condition is not None:
            raise AnalysisException(self._condition, errorClass=self._condition)
        self.registered.append(source)


class Session:
    def __init__(self, sources):
        self.dataSource = sources


def test_a_format_that_spark_did_not_find_is_registered():
    sources = Sources()
    launch.register(Session(sources))
    assert sources.registered == [ShoalSource]


def test_one_that_it_found_is_left_as_it_is():
    launch.register(Session(Sources("DATA_SOURCE_ALREADY_EXISTS")))
    with pytest.raises(AnalysisException):
        launch.register(Session(Sources("SOMETHING_ELSE")))
