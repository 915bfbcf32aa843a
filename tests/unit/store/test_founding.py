"""What a member of a group knows before its log is open."""

import json
from pathlib import Path

import pytest

from shoal.errors import ConfigError
from shoal.store.founding import NAME, Founding, Record, is_member
from shoal.store.group import GroupConfig, token_from
from shoal.store.peers import Seal


def test_a_member_keeps_its_id_and_what_its_group_was_founded_with(tmp_path: Path) -> None:
    made = Record.open(tmp_path, "g")
    founding = Founding.begin("g", [made.member, 7, 8])
    made.with_founding(founding).begun()
    found = Record.open(tmp_path, "g")
    assert (found.member, found.founding, found.has_begun) == (made.member, founding, True)
    assert is_member(tmp_path)


def test_two_empty_directories_are_two_members(tmp_path: Path) -> None:
    assert Record.open(tmp_path / "a", "g").member != Record.open(tmp_path / "b", "g").member


def test_a_directory_belongs_to_one_group(tmp_path: Path) -> None:
    Record.open(tmp_path, "g")
    with pytest.raises(ConfigError, match="belongs to a member of the group 'g'"):
        Record.open(tmp_path, "other")


def test_the_log_of_a_store_that_is_alone_is_no_members(tmp_path: Path) -> None:
    (tmp_path / "0000000001.log").touch()
    with pytest.raises(ConfigError, match="begins with an empty directory"):
        Record.open(tmp_path, "g")
    assert not (tmp_path / NAME).exists()


@pytest.mark.parametrize(
    "change",
    [
        {"group": 7},
        {"store": -1},
        {"store": 1 << 64},
        {"members": []},
        {"members": [0]},
        {"members": list(range(1, 9))},
        {"incarnation": "no"},
        {"incarnation": "00"},
        {"at_us": None},
    ],
)
def test_what_makes_no_sense_founds_nothing(change: dict[str, object]) -> None:
    said = Founding.begin("g", [1, 2, 3]).said()
    assert Founding.of(json.loads(json.dumps(said))) is not None
    assert Founding.of({**said, **change}) is None


def test_only_the_groups_token_proves_bytes() -> None:
    seal = Seal(b"0123456789abcdef", "g")
    sealed = seal.close(b"content")
    assert seal.open(sealed) == b"content"
    assert Seal(b"0123456789abcdef", "other").open(sealed) is None
    assert Seal(b"another token 16", "g").open(sealed) is None
    for at in range(len(sealed)):
        assert seal.open(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]) is None
    assert seal.open(sealed[:20]) is None
    assert Seal(None, "g").open(b"content") == b"content"


def test_a_group_says_what_is_wrong_with_its_options(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name is 'a/b'"):
        GroupConfig(name="a/b")
    with pytest.raises(ConfigError, match="bootstrap"):
        GroupConfig(name="g", bootstrap=1)
    with pytest.raises(ConfigError, match="listen is 'here', and must be HOST:PORT"):
        GroupConfig(name="g", listen="here")
    with pytest.raises(ConfigError, match="cannot be read"):
        token_from(tmp_path / "none")
    (tmp_path / "short").write_text("short\n")
    with pytest.raises(ConfigError, match="has 5 bytes, and must have 16 or more"):
        token_from(tmp_path / "short")
