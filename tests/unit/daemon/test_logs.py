"""What a daemon logs: one line each, for people or as JSON."""

import json
import logging
import re
from pathlib import Path

import pytest

from shoal.daemon.config import LogConfig
from shoal.daemon.logs import Logs
from shoal.messages import daemon as notices

log = logging.getLogger("shoal.daemon")


TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} "


@pytest.fixture(autouse=True)
def no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)


def without_time(line: str) -> str:
    assert re.match(TIME, line)
    return re.sub("^" + TIME, "", line)


def test_json_lines_have_time_level_logger_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    logs = Logs(LogConfig(format="json"))
    try:
        log.info("link %s is up\nagain", "lan")
        try:
            raise ValueError("ä")
        except ValueError:
            log.exception("it failed")
    finally:
        logs.close()
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"], first["message"]) == (
        "info",
        "shoal.daemon",
        "link lan is up\nagain",
    )
    assert first["time"].endswith("Z")
    assert second["error"] == "ValueError('ä')"
    assert "Traceback" in second["traceback"]


def test_json_lines_of_notices_have_the_id_and_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    logs = Logs(LogConfig(format="json"))
    try:
        notices.READY(name="d", what=Path("/data")).log(log)
    finally:
        logs.close()
    line = json.loads(capsys.readouterr().err)
    assert (line["id"], line["args"]) == ("SHOAL-5001", {"name": "d", "what": "/data"})
    assert line["message"] == "Daemon d is ready: /data."


def test_a_notice_names_its_exception_once(capsys: pytest.CaptureFixture[str]) -> None:
    logs = Logs(LogConfig())
    try:
        notices.RELOAD_FAILED(path="a.toml", why="bad").log(log, exc_info=ValueError("bad"))
    finally:
        logs.close()
    assert without_time(capsys.readouterr().err) == (
        "error   shoal.daemon: SHOAL-5004 Ignored the changes in a.toml: bad. "
        "Correct the file, then send SIGHUP.\n"
    )


def test_text_lines_are_one_line_and_the_level_can_change(capsys: pytest.CaptureFixture[str]) -> None:
    logs = Logs(LogConfig(level="warning"))
    try:
        log.info("too much")
        logs.use(LogConfig(level="info"))
        log.info("two\nlines")
    finally:
        logs.close()
    log.info("nobody listens")
    assert without_time(capsys.readouterr().err) == "info    shoal.daemon: two lines\n"


def test_text_lines_have_a_time_unless_the_journal_adds_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(LogConfig())
    try:
        log.warning("one")
        monkeypatch.setenv("JOURNAL_STREAM", "9:1")
        log.warning("two")
    finally:
        logs.close()
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(TIME + "warning shoal.daemon: one", first)
    assert second == "warning shoal.daemon: two"
