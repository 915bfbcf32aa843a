"""The programs that newcomers copy do what the text beside them says."""

import itertools
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from programs import loopback_url

import shoal

ROOT = Path(__file__).parents[2]
TUTORIAL = "docs/tutorial/first-messages.md"
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def own_domain() -> str:
    """The argument that makes a domain which nobody else on this machine hears."""
    return f"domain={secrets.token_hex(8)!r}"


def programs(page: str, domain: str | None = None) -> list[str]:
    """The page's programs, on a domain of their own."""
    text, domain = (ROOT / page).read_text(), domain or own_domain()
    return [code.replace("shoal.connect()", f"shoal.connect({domain})") for code in FENCE.findall(text)]


@pytest.mark.parametrize(
    ("listener", "publisher", "lines"),
    [
        ("README.md", "README.md", ["prices/ACME {'bid': 10.25}"]),
        (TUTORIAL, TUTORIAL, [f"prices/ACME {{'bid': {bid}}}" for bid in range(100)]),
        (TUTORIAL, "docs/index.md", ["prices/ACME {'bid': 10.25}"]),
    ],
)
def test_the_subscriber_prints_what_the_publisher_sends(
    listener: str, publisher: str, lines: list[str]
) -> None:
    domain = own_domain()
    listen = programs(listener, domain)[0]
    publish = next(code for code in programs(publisher, domain) if "bus.publish(" in code)
    with subprocess.Popen(
        [sys.executable, "-u", "-c", listen], stdout=subprocess.PIPE, text=True
    ) as subscriber:
        try:
            subprocess.run([sys.executable, "-c", publish], check=True, timeout=30)
            assert subscriber.stdout is not None
            assert [subscriber.stdout.readline().rstrip() for _ in lines] == lines
        finally:
            subscriber.kill()


#: Pages whose programs each run by themselves, and what the first of them print.
ALONE = {
    "docs/index.md": ["", "{'item': 'tea'}\n"],
    "README.md": ["", "", "42\n", "{'quantity': 100}\n{'item': 'tea'}\n"],
    "docs/how-to/coming-from.md": ["{'order': 7}\n", "[0, 1, 2]\n3 messages in the log\n"],
    "docs/how-to/asyncio.md": ["prices/ACME {'bid': 10.25}\n", "nothing came\n"],
    "docs/how-to/own-links.md": ["hello\n"],
    "docs/how-to/last-values.md": ["10.5\n10.75\n"],
    "docs/how-to/notice-problems.md": [r"(\d+ is here\n\d+ left\n)", ""],
    "docs/how-to/test-your-program.md": ["", ""],
    "docs/how-to/rate-control.md": [r"[\d.]+\n", ""],
    "docs/how-to/simulate.md": [r"[\d.]+ s, \d+ repairs\n", r"\[Event\(.*watermark_done.*\]\n"],
    "docs/how-to/jms.md": [
        "{'bid': 10.25}\n",
        "order 1\n",
        "done\n",
        "an offer in no known format from offers\n",
        "ACME 10.5\n",
        "ACME is 10.25\n",
    ],
    "docs/how-to/jms-from-java.md": [""],
    "docs/reference/jms.md": ["", ""],
    "docs/reference/norm.md": [""],
    "docs/reference/selectors.md": ["['prices/ACME']\n", "True\nTrue\n"],
    "docs/tutorial/ask-and-answer.md": ["", "", r"\[0, 1, 2, 'done'\]\n"],
}


@pytest.mark.parametrize("page", ALONE)
def test_programs_of_a_page_run_and_print_what_it_says(page: str, tmp_path: Path) -> None:
    codes = programs(page)
    assert len(codes) >= len(ALONE[page])
    for code, prints in itertools.zip_longest(codes, ALONE[page], fillvalue="(?s:.*)"):
        if "shoal.connect(domain=" in code or "shoal.spark" in code:
            # One of two that talk to each other, which have a test of their own; tests/spark has Spark's.
            continue
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "SHOAL_DOMAIN": secrets.token_hex(8)},
        )
        # A store that other hosts reach says that it asks for no token, and what travels in clear.
        said = [line for line in ran.stderr.splitlines() if not line.startswith(("SHOAL-3040", "SHOAL-3041"))]
        assert (ran.returncode, said) == (0, []), code
        assert re.fullmatch(prints, ran.stdout) or ran.stdout == prints, code


def test_the_program_that_asks_is_answered_and_told_of_a_failure() -> None:
    answer, ask = programs("docs/tutorial/ask-and-answer.md")[:2]
    with subprocess.Popen([sys.executable, "-c", answer], stderr=subprocess.PIPE, text=True) as answering:
        try:
            asked = [sys.executable, "-c", ask]
            ran = subprocess.run(asked, capture_output=True, text=True, timeout=60)
            assert (ran.returncode, ran.stdout, ran.stderr) == (0, "10.25\n", "")
            asked[-1] = ask.replace("ACME", "NONE")
            ran = subprocess.run(asked, capture_output=True, text=True, timeout=60)
            assert ran.returncode == 1
            told = r"shoal\.errors\.RemoteError: member \d+ could not answer: KeyError: 'NONE'\n$"
            assert re.search(told, ran.stderr)
        finally:
            answering.kill()


def test_a_slow_subscriber_does_not_stop_the_others(tmp_path: Path) -> None:
    slow, fast, flood = programs(TUTORIAL)[2:5]
    command = [sys.executable, "-u", "-c"]
    with (
        subprocess.Popen([*command, slow], stdout=subprocess.DEVNULL) as slow_reader,
        subprocess.Popen([*command, fast], stdout=subprocess.PIPE, text=True) as fast_reader,
    ):
        try:
            ran = subprocess.run([*command, flood], capture_output=True, text=True, timeout=100)
            assert fast_reader.stdout is not None
            read = [int(fast_reader.stdout.readline()) for _ in range(6)]
        finally:
            slow_reader.kill()
            fast_reader.kill()
    assert read == list(range(0, 50_001, 10_000))
    assert ran.returncode == 0
    assert ran.stderr.count("SHOAL-2107 ") == 1
    assert "SHOAL-2114 " in ran.stderr or "SHOAL-2119 " in ran.stderr


def test_every_page_with_programs_is_run() -> None:
    # tests/spark runs the programs of the two pages about Spark, where Spark is.
    elsewhere = {
        "docs/tutorial/first-messages.md",
        "docs/tutorial/spark.md",
        "docs/how-to/send-files.md",
        "docs/how-to/spark.md",
        # test_store_pages runs what these show.
        "docs/how-to/read-history.md",
        "docs/how-to/record-topics.md",
        "docs/how-to/queues.md",
        "docs/how-to/lose-nothing.md",
        "docs/tutorial/nothing-lost.md",
        # And test_tcp_links this one.
        "docs/how-to/tcp.md",
        # And the test after this one.
        "docs/how-to/join-networks.md",
        # And test_group this one.
        "docs/tutorial/lose-a-machine.md",
        # And test_stomp_clients this one.
        "docs/how-to/gateway.md",
        # tests/unit/test_blocks.py type-checks every block, and this one needs nothing that runs.
        "docs/how-to/capacity.md",
    }
    # Addresses and daemons that are not here: what these show is Python at least.
    shown = {
        "docs/design/link-driver.md",
        "docs/how-to/best-effort.md",
        "docs/how-to/choose-options.md",
        "docs/how-to/containers.md",
        "docs/how-to/doctor.md",
        "docs/how-to/forward-between-stores.md",
        "docs/how-to/groups.md",
        "docs/how-to/join-networks.md",
        "docs/how-to/metrics.md",
        "docs/how-to/priorities.md",
        "docs/how-to/registry.md",
        "docs/how-to/secure-a-store.md",
        "docs/how-to/survive-a-lost-machine.md",
        "docs/how-to/tls.md",
        "docs/how-to/traces.md",
        "docs/how-to/websockets.md",
        "docs/reference/connection.md",
        "docs/reference/spark.md",
        "docs/tutorial/three-sites.md",
    }
    for page in shown:
        for code in FENCE.findall((ROOT / page).read_text()):
            compile(code, page, "exec")
    pages = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        if FENCE.search(path.read_text())
    }
    assert pages - set(ALONE) - elsewhere - shown == set()


def test_networks_are_joined_as_the_page_shows(port: int) -> None:
    links = FENCE.findall((ROOT / "docs/how-to/join-networks.md").read_text())
    [route] = [
        code for code in FENCE.findall((ROOT / "docs/how-to/tcp.md").read_text()) if "router=True" in code
    ]

    def placed(code: str, lans: tuple[str, ...] = ("", ""), port: int = port) -> str:
        code = re.sub(r"tcp://[\w.]+:7474", f"tcp://127.0.0.1:{port}", code)
        for interface, lan in zip(("eth0", "eth1"), lans, strict=True):
            code = code.replace(f"norm://?interface={interface}", lan)
        return "import shoal\n" + code.replace('"norm://"', repr(lans[0]))

    def crosses(here: str, there: str) -> None:
        """What is published here is read there."""
        with shoal.connect(here) as publisher, shoal.connect(there) as reader:
            messages = reader.subscribe("prices/*", selector="region = 'EU'")
            assert publisher.wait_for_subscribers("prices/ACME", timeout_s=60)
            publisher.publish("prices/ACME", 1, properties={"region": "US"})
            publisher.publish("prices/ACME", 2, properties={"region": "EU"})
            received = messages.receive(60)
            assert received is not None
            assert received.body == 2

    with subprocess.Popen([sys.executable, "-u", "-c", placed(route)]) as router:
        try:
            crosses(f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port}")
        finally:
            router.kill()
    north, south, both = links
    lans = loopback_url(), loopback_url()
    names: dict[str, shoal.Bus] = {}
    exec(placed(north, (lans[0], ""), port + 1), names)
    exec(placed(south, (lans[1], ""), port + 1), names)
    crosses(*lans)
    for name in ("north", "south"):
        names[name].close()
    exec(placed(both, lans), names)
    crosses(*lans)
    names["both"].close()


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


@pytest.mark.parametrize("picture", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda path: path.stem)
def test_no_text_of_a_picture_is_cut_off(picture: Path) -> None:
    drawing = picture.read_text()
    width = float(re.search(r'viewBox="0 0 (\d+) ', drawing)[1])  # type: ignore[index]
    texts = re.findall(r'<text ([^>]*)x="([\d.]+)"([^>]*)>([^<]*)<', drawing)
    assert texts
    for before, x, after, words in texts:
        style = before + after
        # A letter of the widest font that a reader may have.
        letter = 6.8 if 'class="s' in style else 8.5
        share = 0.5 if "middle" in style else 0.0 if 'anchor="end"' in style else 1.0
        assert float(x) + share * letter * len(words) <= width, words
