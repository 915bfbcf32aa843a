"""Tokens, and the file in which a store knows its principals."""

import os
from pathlib import Path

import pytest

from shoal.config import ClientConfig
from shoal.config.tokens import (
    Principal,
    Principals,
    Token,
    read_principals,
    token_of,
    transcript_of,
    write_principals,
)
from shoal.errors import ConfigError

TRANSCRIPT = transcript_of("desk", "s", "7", "r", b"a" * 32, b"b" * 32)


def test_a_token_is_its_text_and_shown_nowhere_else() -> None:
    token = Token.new("desk")
    assert Token.parse(token.text + "\n") == token
    secret = token.text.rpartition(":")[2]
    shown = repr(token) + repr(token.verifier) + repr(ClientConfig(token=token.text))
    assert secret not in shown
    assert token.secret.hex() not in shown
    assert token.verifier.stored_key.hex() not in shown


@pytest.mark.parametrize("text", ["", "x", "shoal-token-1:desk", "shoal-token-1:de sk:" + "A" * 43, "\ud800"])
def test_what_is_no_token_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ConfigError, match="the token is none") as raised:
        Token.parse(text)
    assert len(text) < 10 or text not in str(raised.value)


def test_each_side_proves_itself_about_one_transcript() -> None:
    token = Token.new("desk")
    verifier = token.verifier
    assert verifier.accepts(token.proof(TRANSCRIPT), TRANSCRIPT)
    assert token.is_known_to(verifier.proof(TRANSCRIPT), TRANSCRIPT)
    other = TRANSCRIPT[:-1] + b"c"
    assert not verifier.accepts(token.proof(other), TRANSCRIPT)
    assert not token.is_known_to(verifier.proof(other), TRANSCRIPT)
    assert not verifier.accepts(verifier.proof(TRANSCRIPT), TRANSCRIPT), "a proof sent back proves nothing"
    assert not token.is_known_to(token.proof(TRANSCRIPT), TRANSCRIPT)
    for forged in (b"", b"x" * 32, None, 7, "x" * 32):
        assert not verifier.accepts(forged, TRANSCRIPT)
        assert not token.is_known_to(forged, TRANSCRIPT)


def test_a_file_is_written_and_read_and_noticed_when_it_changes(tmp_path: Path) -> None:
    path, desk, chief = tmp_path / "tokens", Token.new("desk"), Token.new("chief")
    write_principals(path, [Principal("desk", "client", desk.verifier)])
    assert path.stat().st_mode & 0o777 == 0o600
    known = Principals(path)
    found = known.check(desk.text)
    assert found is not None
    assert (found.name, found.is_operator) == ("desk", False)
    assert known.check(chief.text) is None
    assert known.check(Token("desk", chief.secret).text) is None
    write_principals(path, [Principal("chief", "operator", chief.verifier)])
    assert known.refresh() is None
    assert known.check(desk.text) is None
    assert known.check(chief.text) == Principal("chief", "operator", chief.verifier)
    path.write_text("nonsense")
    os.utime(path, ns=(1, 1))
    assert "line 1" in str(known.refresh())
    assert known.check(chief.text) is not None, "the former file counts"


GOOD = Principal("a", "client", Token.new("a").verifier).line


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a client", "2 words"),
        (GOOD.replace("client", "king"), "the role is 'king', and must be client or operator"),
        (GOOD.replace("a client", "* client"), "no principal"),
        ("a client sha256:00:00", "the hash is none"),
        ("a client md5:00", "the hash is none"),
        (f"{GOOD}\n# said\n\n{GOOD}", "line 4: the principal 'a' is there twice"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="line") as raised:
        read_principals(path)
    assert wrong in str(raised.value)


def test_files_that_others_can_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(Token.new("a").text)
    path.chmod(0o644)
    for read in (lambda: token_of(None, path), lambda: Principals(path)):
        with pytest.raises(ConfigError, match="others than its owner can read"):
            read()


def test_the_environment_names_a_token_or_a_file(tmp_path: Path) -> None:
    one, other = Token.new("one"), Token.new("other")
    path = tmp_path / "token"
    path.write_text(other.text)
    path.chmod(0o600)
    assert token_of(None, None, {}) is None
    assert token_of(None, None, {"SHOAL_TOKEN": one.text, "SHOAL_TOKEN_FILE": str(path)}) == one
    assert token_of(None, None, {"SHOAL_TOKEN_FILE": str(path)}) == other
    assert token_of(one.text, None, {"SHOAL_TOKEN_FILE": str(path)}) == one
    with pytest.raises(ConfigError, match="give one of them"):
        token_of(one.text, path, {})
