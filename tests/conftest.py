"""For all tests: they run with the extension module that the sources describe."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: `scripts/build` touches it; an installed wheel has none.
BUILT = ROOT / ".venv/built"


def pytest_configure() -> None:
    """Refuse to test an extension module that is older than its sources: its failures would mislead."""
    if not BUILT.exists():
        return
    built_s = BUILT.stat().st_mtime
    newer = next((path for path in (ROOT / "crates").rglob("*.rs") if path.stat().st_mtime > built_s), None)
    if newer is not None:
        pytest.exit(f"{newer.relative_to(ROOT)} is newer than the extension module: run `make build`", 2)
