"""Where keys come from, and what is no key."""

from pathlib import Path

import pytest

from shoal.config import NormConfig, parse_url
from shoal.config.keys import check_key, keys_of, new_key, read_keys
from shoal.errors import ConfigError


def key_file(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "group.key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_new_key_is_a_key_and_never_the_same() -> None:
    first, second = new_key(), new_key()
    assert check_key(first) == first != second


@pytest.mark.parametrize(
    "text", ["secret", "shoal-key-1:12", "shoal-key-1:" + "g" * 64, "shoal-key-2:" + "0" * 64]
)
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError, match="64 hexadecimal digits") as refusal:
        parse_url("norm://", key=text)
    assert text not in str(refusal.value)


def test_a_file_may_hold_several_keys_and_comments(tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    path = key_file(tmp_path, f"# the new one first\n{new}\n\n{old}\n")
    assert read_keys(path).split("\n") == [new, old]


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        read_keys(key_file(tmp_path, new_key(), 0o644))


def test_a_file_without_a_key_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shoal keys new"):
        read_keys(key_file(tmp_path, "# nothing\n"))
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keys(tmp_path / "missing.key")


def test_the_environment_names_a_file_where_nothing_else_is_given(tmp_path: Path) -> None:
    own, other = new_key(), new_key()
    environment = {"SHOAL_KEY_FILE": str(key_file(tmp_path, other))}
    assert keys_of(None, None, environment) == other
    assert keys_of(own, None, environment) == own
    assert keys_of(None, None, {}) is None


def test_a_key_and_a_file_at_once_are_refused_and_a_key_is_not_shown() -> None:
    key = new_key()
    for make in (lambda **options: parse_url("norm://", **options), lambda **options: NormConfig(**options)):
        with pytest.raises(ConfigError, match="key_file"):
            make(key=key, key_file="group.key")
        assert key not in repr(make(key=key))


def test_a_key_does_not_belong_into_a_url() -> None:
    with pytest.raises(ConfigError, match="others see"):
        parse_url(f"norm://?key={new_key()}")
    assert parse_url("norm://?key_file=/etc/group.key").key_file == "/etc/group.key"
