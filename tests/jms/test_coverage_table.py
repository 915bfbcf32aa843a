"""The documentation's table of what is tested is the one that the tests make."""

from coverage_table import PAGE, asked, page_with_table, promises


def test_the_table_is_up_to_date() -> None:
    assert PAGE.read_text() == page_with_table(PAGE.read_text()), (
        "run python tests/jms/coverage_table.py, and commit the page"
    )


def test_every_chapter_that_clients_see_has_tests() -> None:
    chapters = {section.split(".")[0] for section, _, _ in promises()}
    assert {"3", "4", "5", "6", "7", "8", "10"} <= chapters


def test_every_promise_of_the_specification_names_tests_that_are_there() -> None:
    known = {promise for _, promise, _ in promises()}
    missing = {test for each in asked() for test in each["tests"]} - known
    assert not missing
    assert all(each["tests"] and each["force"] in ("must", "should", "may") for each in asked())
