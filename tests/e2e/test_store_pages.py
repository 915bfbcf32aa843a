"""What the pages on recording and on reading history show works as it stands there."""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import PATIENCE_S
from store_program import StoreProgram

import shoal
from shoal.processes.store import StoreProcess

ROOT = Path(__file__).parents[2]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in one language."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """What a page types into a shell."""
    typed = "\n".join(blocks(page, "console")).replace("\\\n", " ")
    return re.findall(r"^\$ (.*)$", typed, re.MULTILINE)


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment in which nobody else on this machine hears a page's programs."""
    (tmp_path / "shoal").write_text(f'#!/bin/sh\nexec {sys.executable} -m shoal.cli "$@"\n')
    (tmp_path / "shoal").chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)
    return {
        **os.environ,
        "SHOAL_DOMAIN": f"pages-{secrets.token_hex(4)}",
        "SHOAL_URL": "norm://?interface=lo",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }


def run(program: str, place: Path, shell: dict[str, str]) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=place, env=shell, timeout=90, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def started(command: str, place: Path, shell: dict[str, str]) -> str:
    """Run a store until it records; what it says then."""
    with subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command}"], cwd=place, env=shell, stderr=subprocess.PIPE, text=True
    ) as store:
        assert store.stderr is not None
        said = next(
            (line for line in store.stderr if "keeping queues and durable subscriptions" in line), "it ended"
        )
        store.send_signal(signal.SIGINT)
        store.communicate(timeout=PATIENCE_S)
        assert store.returncode == 0, said
    return said


def test_the_page_on_recording(tmp_path: Path, shell: dict[str, str]) -> None:
    page = "docs/how-to/record-topics.md"
    [program] = blocks(page, "python")
    assert run(program, tmp_path, shell) == "1000 messages\n"
    record, keep, config, status, verify = (
        command for command in [*commands(page)[:2], "shoal store --config store.toml", *commands(page)[2:]]
    )
    assert "recording prices/>, orders/* into data" in started(record, tmp_path, shell)
    assert "recording prices/>, orders/* into data" in started(keep, tmp_path, shell)
    [file] = blocks(page, "toml")
    (tmp_path / "store.toml").write_text(file)
    assert tomllib.loads(file)["connection"]["domain"] == "desk"
    assert "recording prices/>, orders/* into" in started(config, tmp_path, shell)
    for command, first in ((status, "store"), (verify, "store")):
        said = subprocess.run(
            ["/bin/sh", "-c", command], cwd=tmp_path, env=shell, check=True, capture_output=True, text=True
        ).stdout
        assert said.startswith(first)
        assert "offsets      0 to 1000" in said


@pytest.fixture
def store(tmp_path: Path, shell: dict[str, str]) -> Iterator[StoreProgram]:
    store = StoreProgram(tmp_path / "data", shell["SHOAL_DOMAIN"])
    yield store
    store.stop()


def test_the_page_on_reading_history(store: StoreProgram, shell: dict[str, str]) -> None:
    page, place = "docs/how-to/read-history.md", store.path.parent
    with shoal.connect(domain=store.domain, interface="lo") as bus:
        assert bus.wait_for_subscribers("prices/1", 1, PATIENCE_S)
        for number in range(100):
            properties = {"region": "EU" if number % 10 == 0 else "US"}
            bus.publish(f"prices/{number % 7}", {"bid": number}, properties=properties)
    store.wait_for_end(100)
    examples = blocks(page, "python")
    assert len(examples) >= 7
    for number, example in enumerate(examples):
        if ".follow(" in example:
            limited = '.follow("prices/>", start=0, limit=100)'
            examples[number] = example.replace('.follow("prices/>")', limited)
        elif "prices =" in example and "duckdb" not in example:
            examples[number] += "\nassert len(prices) in (10, 100)\n"
    # The last one writes two orders, once however often it runs.
    run("\n".join(f"exec({example!r}, {{}})" for example in [*examples, examples[-1]]), place, shell)
    assert store.history.read("orders/*").num_rows == 2
    for command in commands(page)[2:]:
        limited = command.replace("--follow", "--follow --from 0 --limit 10")
        ran = subprocess.run(
            ["/bin/sh", "-c", limited], cwd=place, env=shell, check=True, capture_output=True, text=True
        )
        assert ("prices/0" in ran.stdout) == ("--count" not in command and "--export" not in command)
    assert (place / "prices.parquet").exists()


def test_a_status_for_programs_is_json(store: StoreProgram, shell: dict[str, str]) -> None:
    command = "shoal store status --data data --json"
    said = subprocess.run(
        ["/bin/sh", "-c", command], cwd=store.path.parent, env=shell, check=True, capture_output=True
    ).stdout
    assert json.loads(said)["state"] == "recording"


@pytest.mark.parametrize(
    ("page", "prints"),
    [
        (
            "docs/how-to/queues.md",
            [
                "{'order': 0} 1\n{'order': 1} 1\n{'order': 2} 1\n",
                "a letter True\n",
                "another letter\n",
                "['urgent']\n",
                "42\n",
                "first\n",
                "42\n",
            ],
        ),
        ("docs/how-to/lose-nothing.md", ["", "", "11\n", "", ""]),
    ],
)
def test_what_a_store_keeps_is_used_as_the_page_shows(
    page: str, prints: list[str], tmp_path: Path, shell: dict[str, str]
) -> None:
    programs = blocks(page, "python")
    assert [run(program, tmp_path, shell) for program in programs] == prints


def test_the_tutorial_loses_nothing(tmp_path: Path, shell: dict[str, str]) -> None:
    reader, writer, worker, boss = blocks("docs/tutorial/nothing-lost.md", "python")
    domain = shell["SHOAL_DOMAIN"]
    with StoreProcess(tmp_path / "data", domain=domain, record="nothing"):

        def start(program: str) -> "subprocess.Popen[str]":
            command = [sys.executable, "-c", program]
            return subprocess.Popen(command, cwd=tmp_path, env=shell, stdout=subprocess.PIPE, text=True)

        def lines(process: "subprocess.Popen[str]", count: int) -> list[str]:
            assert process.stdout is not None
            return [process.stdout.readline().strip() for _ in range(count)]

        with shoal.connect(domain=domain, interface="lo", client_id="reader") as bus:
            bus.subscribe("numbers", durable="all").close()
        run(writer, tmp_path, shell)
        with start(reader) as reading:
            assert lines(reading, 20) == [str(number) for number in range(20)]
            reading.kill()
        run(boss, tmp_path, shell)
        with start(worker) as working:
            assert lines(working, 2) == ["working on 0", "working on 1"]
            working.kill()
