"""The wheel that `make wheel` builds: installed into an empty environment, it sends a message."""

import re
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from programs import loopback_url

pytestmark = pytest.mark.timeout(700)

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys, shoal
with shoal.connect(sys.argv[1]) as bus, bus.subscribe("a") as subscription:
    bus.publish("a", {"bid": 10.25})
    print(subscription.receive(10).body, shoal.__file__)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / "scripts/wheel", out], check=True, timeout=600, cwd=ROOT)
    return out


def test_it_works_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert re.fullmatch(r"shoal-[\d.]+-cp311-abi3-manylinux_2_\d+_\w+\.whl", wheel.name)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run(install, check=True, timeout=120)
    ran = subprocess.run(
        [python, "-c", PROGRAM, loopback_url()], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("{'bid': 10.25} ")
    assert str(tmp_path) in ran.stdout


def test_it_has_what_users_need_and_no_more(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"shoal/py.typed", "shoal/_core.pyi"} <= set(names)
    assert {"pyspark_shoal/__init__.py", "shoal/spark/log4j2.properties"} <= set(names)
    assert not [name for name in names if "bench" in name]


def test_the_source_distribution_has_everything_to_build_it(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Cargo.lock", "crates/pycore/Cargo.toml", "crates/norm/src/lib.rs"} <= names
