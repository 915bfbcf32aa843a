"""Profiles, and what iBus's QoS strings mean here."""

import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal.config import parse_url, profile
from shoal.errors import ConfigError

#: As iBus's tuning guide recommends them for high load, and for more than 50 subscribers.
HIGH_LOAD = (
    "ibusjms.topic.qos=DISPATCH(threadPerChannel=1,highmark=10):FRAG:FIFO:NAK:"
    "REACH(timeoutheartbeats=10):IPMCAST"
)
MANY = (
    "ibusjms.topic.qos=DISPATCH(threadPerChannel=1,highmark=10):FRAG:FIFO:NAK:"
    "REACH(hbeat=8000,timeoutheartbeats=10):IPMCAST"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own profiles, empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "shoal" / "profiles"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lan", {}),
        ("busy", {"missed_heartbeats_max": 10}),
        ("large", {"heartbeat_s": 8.0, "missed_heartbeats_max": 10}),
        ("wifi", {"parity_symbols": 16, "auto_parity": 4, "when_no_multicast": "tcp"}),
        ("wan", {"congestion": "norm_cc"}),
    ],
)
def test_a_profile_sets_its_options_and_no_other(
    folder: Path, name: str, expected: dict[str, object]
) -> None:
    assert parse_url("norm://", profile=name) == parse_url("norm://", **expected)
    assert parse_url(f"norm://?profile={name}") == parse_url("norm://", **expected)
    assert profile.load(name).description


def test_an_option_that_is_given_wins(folder: Path) -> None:
    config = parse_url("norm://?heartbeat_s=1", profile="large")
    assert (config.heartbeat_s, config.missed_heartbeats_max) == (1.0, 10)


def test_an_unknown_profile_is_refused_with_those_there_are(folder: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'busy'"):
        parse_url("norm://?profile=bussy")
    with pytest.raises(ConfigError, match="the profiles are lan, busy, large, wifi, wan"):
        shoal.connect("inproc://x", profile="../../etc/passwd")


def test_two_profiles_contradict_each_other(folder: Path) -> None:
    with pytest.raises(ConfigError, match="profile is 'busy' and 'wan': give one"):
        parse_url("norm://?profile=busy", profile="wan")


def test_a_profile_that_means_nothing_there_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(ConfigError, match="with profile 'wan': congestion means nothing on tcp://"):
        parse_url("tcp://", profile="wan")


def test_a_file_of_the_user_takes_the_place_of_a_profile_or_adds_one(folder: Path) -> None:
    (folder / "busy.toml").write_text("[options]\nmissed_heartbeats_max = 20\n")
    (folder / "desk.toml").write_text('description = "Ours."\n[options]\nslow_after_s = 2\n')
    assert parse_url("norm://", profile="busy").missed_heartbeats_max == 20
    assert parse_url("norm://", profile="desk").slow_after_s == 2
    assert profile.names() == ["lan", "busy", "large", "wifi", "wan", "desk"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[options\n", "cannot be read"),
        ("heartbeat_s = 1\n", "has heartbeat_s: it must have"),
        ("options = 7\n", "must have `description` and a table"),
        ("[options]\nheart_beat = 1\n", "unknown option 'heart_beat'"),
        ('[options]\nkey = "x"\n', "belongs to a connection"),
        ("[options]\nheartbeat_s = -1\n", "with profile 'mine': heartbeat_s is -1"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(folder: Path, text: str, words: str) -> None:
    (folder / "mine.toml").write_text(text)
    with pytest.raises(ConfigError, match=words.replace("[", r"\[")):
        parse_url("norm://", profile="mine")


def test_what_is_saved_is_loaded_and_never_overwritten(folder: Path) -> None:
    made = profile.Profile(
        "mine", 'A "quoted" \\ text.', {"send_delay_s": 0.005, "router": True, "domain": "d"}
    )
    assert profile.save(made) == folder / "mine.toml"
    assert profile.load("mine") == made
    with pytest.raises(ConfigError, match="exists"):
        profile.save(made)
    with pytest.raises(ConfigError, match="cannot be the name"):
        profile.save(profile.Profile("../x", "", {}))


def test_ibus_s_recommendations_are_profiles() -> None:
    assert profile.from_ibus(HIGH_LOAD).options == profile.load("busy").options
    assert profile.from_ibus(MANY).options == profile.load("large").options
    assert len(profile.from_ibus(MANY).notes) == 2


def test_epoch_size_and_send_delay_of_ibus() -> None:
    told = profile.from_ibus("DISPATCH:FRAG:FIFO:NAK(statistics=1,epochsz=50):REACH:IPMCAST(senddelay=5)")
    assert told.options == {"epoch_messages": 50, "send_delay_s": 0.005}
    assert told.notes == ("NAK(statistics): `print(bus.statistics())` prints the same figures",)
    config = parse_url("norm://", **told.options)
    assert (config.epoch_messages, config.send_delay_s) == (50, 0.005)


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ("NAK:TCP", "'TCP' is no part of an iBus stack"),
        ("NAK(epoch=5)", "NAK has no parameter 'epoch' that Shoal knows: it has epochsz, statistics"),
        ("FIFO(x=1)", "FIFO has no parameter 'x' that Shoal knows: it has none"),
        ("IPMCAST(senddelay=fast)", "has no whole number"),
        ("", "'' is no part"),
        ("NAK((", "is no part"),
    ],
)
def test_what_is_not_ibus_is_refused_by_name(stack: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        profile.from_ibus(stack)


def shoal_profile(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "shoal.cli", "profile", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_lists_shows_translates_and_saves(folder: Path) -> None:
    listed = shoal_profile("list").stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["lan", "busy", "large", "wifi", "wan"]
    assert "missed_heartbeats_max = 10" in shoal_profile("show", "busy").stdout
    told = shoal_profile("from-ibus", "NAK(epochsz=50):IPMCAST(senddelay=5)", "--save", "old")
    assert told.returncode == 0, told.stderr
    assert "epoch_messages = 50\nsend_delay_s = 0.005\n" in told.stdout
    assert profile.load("old").options == {"epoch_messages": 50, "send_delay_s": 0.005}
    refused = shoal_profile("show", "old2")
    assert (refused.returncode, "did you mean 'old'" in refused.stderr) == (2, True)
