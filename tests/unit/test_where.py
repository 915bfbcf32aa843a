"""Pages that send a reader to a file of the tree name one that is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
#: A name in capitals stands for any.
NAMED = re.compile(r"`((?:src/shoal|crates|scripts|examples)/[\w./-]*[\w/]|\.importlinter)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    missing = [
        name
        for name in NAMED.findall(page.read_text())
        if not any(ROOT.glob(name.replace("NAME", "*").rstrip("/")))
    ]
    assert missing == []
