"""The reference pages list every option with its default, and every event with its fields."""

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from shoal import norm
from shoal.config import ConnectionConfig, ConnectionOptions, NormConfig, NormOptions
from shoal.errors import ConfigError

REFERENCE = Path(__file__).parents[3] / "docs/reference"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
#: What a URL says in another place, or the page in other words.
ELSEWHERE = {"scheme", "group", "host"}


def rows(page: str) -> dict[str, str]:
    """The second cell of each row, by each name in its first one; two names there share two values here."""
    found: dict[str, str] = {}
    for line in (REFERENCE / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) >= 3:
            first, second = cells[:2]
            names = re.findall(r"`(\w+)`", first)
            values = second.split(", ") if len(names) > 1 else [second]
            found |= zip(names, values, strict=True)
    return found


def default_of(text: str) -> Any:
    text = text.strip("`")
    if text in ("none", "None", "empty"):
        return None
    if text in ("true", "false"):
        return text == "true"
    number, _, unit = text.partition(" ")
    try:
        return float(number) * UNITS.get(unit, 1)
    except ValueError:
        return text


@pytest.mark.parametrize(("config", "page"), [(ConnectionConfig, "connection.md"), (NormConfig, "norm.md")])
def test_every_option_is_listed_with_its_default(config: type[Any], page: str) -> None:
    listed = rows(page)
    for field in dataclasses.fields(config):
        if field.name in ELSEWHERE:
            continue
        assert field.name in listed, f"{field.name} is missing in {page}"
        told = default_of(listed[field.name])
        assert (told or None) == (field.default or None), f"{field.name} is {field.default!r}, not {told!r}"


def test_ranges_on_the_page_are_those_of_the_engine() -> None:
    listed = re.findall(
        r"^\| `(\w+)` \|.*?\b([\d,]+) to ([\d,]+);", (REFERENCE / "norm.md").read_text(), re.M
    )
    assert {name for name, *_ in listed} == {"node", "segment_bytes"}
    for name, *ends in listed:
        least, most = (int(end.replace(",", "")) for end in ends)
        for value in (least - 1, most + 1):
            with pytest.raises(ConfigError, match=f"^{name} is {value}, and must be from {least} to {most}$"):
                NormConfig(**{name: value})
        for value in (least, most):
            assert getattr(NormConfig(**{name: value}), name) == value


def test_every_event_is_listed_with_its_fields() -> None:
    listed = rows("norm.md")
    for event in get_args(norm.Event):
        told = set(re.findall(r"`(\w+)`", listed[event.__name__]))
        fields = {field.name for field in dataclasses.fields(event)}
        assert fields - {"sender", "instance", "object"} <= told, f"{event.__name__} has {fields}, not {told}"
        assert told <= fields, f"{event.__name__} has {fields}, not {told}"


@pytest.mark.parametrize(
    ("options", "config"), [(ConnectionOptions, ConnectionConfig), (NormOptions, NormConfig)]
)
def test_type_checkers_know_every_option_and_no_other(options: Any, config: Any) -> None:
    fields = {field.name: field.type for field in dataclasses.fields(config)}
    assert get_type_hints(options) == fields
