"""A key's line is found, however the file writes it."""

import pytest

from shoal.daemon.places import line_of

TEXT = """\
name = "x"      # 1

[roles]
router = true   # 4
"store"= true   # 5

[ link . lan ]
url = "a = b"   # 8
[link."far.off"]
url = "y"       # 10
[http]          # 11
a.b = 1         # 12
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("name", 1),
        ("roles.router", 4),
        ("roles.store", 5),
        ("roles.gateway", 3),
        ("link.lan.url", 8),
        ("link.lan", 7),
        ("http.listen", 11),
        ("http.a.b", 12),
        ("log.format", None),
    ],
)
def test_the_line_of_a_key_or_of_its_table(key: str, line: int | None) -> None:
    assert line_of(TEXT, key) == line
