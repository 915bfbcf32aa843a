"""Names of test modules: pytest imports those of a tier by their last name, so two of one name cannot run."""

from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("tier", sorted(each.name for each in TESTS.iterdir() if each.is_dir()))
def test_modules_of_a_tier_have_names_of_their_own(tier: str) -> None:
    shared = ("__init__.py", "conftest.py")
    names = Counter(path.name for path in (TESTS / tier).rglob("*.py") if path.name not in shared)
    assert [name for name, count in names.items() if count > 1] == []
