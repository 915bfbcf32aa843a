"""The programs that newcomers copy do what the text beside them says."""

import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def programs(page: str) -> list[str]:
    """The page's programs, on a domain of their own: nobody else on this machine is to hear them."""
    domain = f"domain={secrets.token_hex(8)!r}"
    text = (ROOT / page).read_text()
    return [code.replace("shoal.connect()", f"shoal.connect({domain})") for code in FENCE.findall(text)]


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("README.md", ["prices/ACME {'bid': 10.25}"]),
        ("docs/tutorial/first-messages.md", [f"prices/ACME {{'bid': {bid}}}" for bid in range(100)]),
    ],
)
def test_the_subscriber_prints_what_the_publisher_sends(page: str, lines: list[str]) -> None:
    listen, publish = programs(page)[:2]
    with subprocess.Popen(
        [sys.executable, "-u", "-c", listen], stdout=subprocess.PIPE, text=True
    ) as subscriber:
        try:
            subprocess.run([sys.executable, "-c", publish], check=True, timeout=30)
            assert subscriber.stdout is not None
            assert [subscriber.stdout.readline().rstrip() for _ in lines] == lines
        finally:
            subscriber.kill()


def test_a_file_goes_from_the_sending_program_to_the_receiving_one(tmp_path: Path) -> None:
    receive, send = FENCE.findall((ROOT / "docs/how-to/send-files.md").read_text())
    # A group of their own, which nobody else on this machine hears.
    here = f"shoal.norm.Session(interface='lo', group='239.192.74.{secrets.randbelow(200) + 20}', "
    receive, send = (code.replace("shoal.norm.Session(", here) for code in (receive, send))
    (tmp_path / "inbox").mkdir()
    (tmp_path / "report.pdf").write_bytes(b"a report")
    with subprocess.Popen(
        [sys.executable, "-u", "-c", receive], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as receiver:
        try:
            done = subprocess.run(
                [sys.executable, "-c", send],
                check=True,
                timeout=30,
                cwd=tmp_path,
                capture_output=True,
                text=True,
            )
            assert done.stdout == "(1001,) have it, (1002,) do not answer\n"
            assert receiver.stdout is not None
            name, path = receiver.stdout.readline().rstrip().split(" is in ")
            assert (name, (tmp_path / path).read_bytes()) == ("report.pdf", b"a report")
        finally:
            receiver.kill()
