"""The layer rules that import-linter cannot see, because the extension module is no Python source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import shoal
import shoal_bench

ROOTS = [Path(package.__path__[0]).parent for package in (shoal, shoal_bench)]
LEAVES = ("shoal/registry", "shoal/gateway", "shoal/spark", "shoal/cli", "shoal/processes", "shoal_bench")
#: These show or measure the engine itself, below the public API.
ENGINE_USERS = {
    "shoal/cli/demo_transfer.py",
    "shoal_bench/fec.py",
    "shoal_bench/norm_sides.py",
    "shoal_bench/persistent.py",
    "shoal_bench/history_sides.py",
    "shoal_bench/locate_sides.py",
    "shoal_bench/selectors.py",
    "shoal_bench/seeds/sides.py",
    "shoal_bench/sharing_sides.py",
}


def modules(*packages: str) -> Iterator[tuple[str, Path]]:
    for root in ROOTS:
        for package in packages:
            for path in sorted((root / package).rglob("*.py")):
                yield path.relative_to(root).as_posix(), path


def uses_the_extension(source: str) -> bool:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(name.name.startswith("shoal._core") for name in node.names):
            return True
        if isinstance(node, ast.ImportFrom):
            names = {name.name for name in node.names}
            if node.module == "shoal._core" or (node.module == "shoal" and "_core" in names):
                return True
    return False


def test_leaf_applications_use_only_the_public_api() -> None:
    using = {name for name, path in modules(*LEAVES) if uses_the_extension(path.read_text())}
    assert using == ENGINE_USERS


def test_every_way_of_importing_the_extension_is_noticed() -> None:
    assert uses_the_extension("import shoal._core")
    assert uses_the_extension("from shoal import _core")
    assert uses_the_extension("from shoal._core import NormLink")
    assert not uses_the_extension("import shoal\nfrom shoal_bench import norm")
