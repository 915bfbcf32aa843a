"""The reference of the HTTP interface is what the code describes."""

import pytest
from reference_page import PAGE, described, page


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/unit/registry/reference_page.py"


@pytest.mark.parametrize(("path", "methods"), sorted(described()["paths"].items()))
def test_every_request_is_described(path: str, methods: dict[str, dict[str, str]]) -> None:
    assert path.startswith("/v1/")
    assert all(operation["description"] for operation in methods.values())
