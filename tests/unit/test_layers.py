"""The layer rules that import-linter cannot see, because the extension module is no Python source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import shoal

SOURCE = Path(shoal.__file__).parent
LEAVES = ("registry", "gateway", "spark", "bench", "cli")
#: Measure the engine itself, below the public API.
ENGINE_EXPERIMENTS = {
    "bench/fec.py",
    "bench/norm_sides.py",
    "bench/persistent.py",
    "bench/history_sides.py",
    "bench/selectors.py",
    "bench/sharing_sides.py",
}


def modules(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((SOURCE / package).rglob("*.py"))


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
    using = {
        path.relative_to(SOURCE).as_posix()
        for path in modules(*LEAVES)
        if uses_the_extension(path.read_text())
    }
    assert using <= ENGINE_EXPERIMENTS


def test_every_way_of_importing_the_extension_is_noticed() -> None:
    assert uses_the_extension("import shoal._core")
    assert uses_the_extension("from shoal import _core")
    assert uses_the_extension("from shoal._core import NormLink")
    assert not uses_the_extension("import shoal\nfrom shoal.bench import norm")
