"""A Spark home whose Python workers start fast.

Spark puts `python/lib/pyspark.zip` on the path of its workers, and Python keeps no compiled files for what it
imports from an archive: each worker compiles PySpark anew. In the home made here the archives are directories
that hold a link to the installed packages. Everything else links to Spark's own home.
"""

import hashlib
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path


def cache_directory() -> Path:
    """Where what is made once for each environment is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal" / "spark"


def fast_home(cache: Path, spark_home: Path | None = None) -> Path:
    """A Spark home beside the installed PySpark, made now if it is not there yet."""
    original = spark_home or _package("pyspark")
    version = (original / "version.py").stat().st_mtime_ns
    name = hashlib.sha256(f"{original} {version}".encode()).hexdigest()[:16]
    home = cache / f"home-{name}"
    if not (home / "python").is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="home-", dir=cache))
        _fill(draft, original)
        try:
            draft.rename(home)
        except OSError:  # another process was faster
            shutil.rmtree(draft)
    return home


def _fill(home: Path, original: Path) -> None:
    for entry in original.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    libraries = home / "python" / "lib"
    libraries.mkdir(parents=True)
    for archive in (original / "python" / "lib").iterdir():
        package = _package(archive.name.split("-")[0].removesuffix(".zip"))
        replacement = libraries / archive.name
        replacement.mkdir()
        (replacement / package.name).symlink_to(package)


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ImportError(f"the package {name} is not installed: pip install 'shoal[spark]'", name=name)
    return Path(spec.origin).resolve().parent
