"""The gateway with STOMP clients as they are released, and with the client for JavaScript."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shoal
import shoal.aio
from shoal.gateway.config import GatewayConfig
from shoal.gateway.server import GatewayThread
from shoal.processes.gateway import GatewayProcess
from shoal.processes.store import StoreProcess

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "js"
TEST_S = 60


def missing(what: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="module")
def node() -> str:
    """Node, with the packages that the tests need."""
    found = shutil.which("node")
    if found is None:
        missing("there is no Node: install Node 20 or newer")
    assert found is not None
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < 20:
        missing(f"Node is {version.strip()}, and must be 20 or newer")
    if not (CLIENT / "node_modules" / "ws").is_dir():
        missing("the packages of clients/js are not installed: run scripts/setup")
    return found


@pytest.fixture
def domain() -> str:
    """One of this process that no other test uses."""
    return f"inproc://stomp-{uuid.uuid4().hex}"


@pytest.fixture
def gateway(tmp_path: Path, domain: str) -> Iterator[GatewayThread]:
    """A gateway beside a store, both in this process."""
    config = GatewayConfig(stomp=("ws://127.0.0.1:0", "tcp://127.0.0.1:0"))
    with (
        shoal.connect(domain, store=tmp_path / "store") as keeper,
        GatewayThread(config, lambda: shoal.aio.connect(domain)) as gateway,
    ):
        keeper.subscribe("python", answer)
        yield gateway


def answer(message: shoal.Message) -> None:
    if message.body == "fail":
        raise ValueError("it does")
    message.reply(f"python:{message.body}")


def run(node: str, script: str, *arguments: str) -> str:
    done = subprocess.run(
        [node, CLIENT / "test" / script, *arguments],
        capture_output=True,
        text=True,
        timeout=TEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_client_for_javascript_does_what_it_says(node: str, gateway: GatewayThread) -> None:
    out = run(node, "client.mjs", gateway.urls[0])
    assert out.split() == [
        word
        for name in ("topics", "bodies", "queues", "requests", "durable", "values", "errors", "close")
        for word in ("ok", name)
    ]


def test_stompjs_is_served(node: str, gateway: GatewayThread) -> None:
    assert run(node, "stompjs.mjs", gateway.urls[0]).count("ok") == 3


def test_the_types_of_the_client_for_javascript_are_right(node: str) -> None:
    compiler = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        [node, compiler, "--project", CLIENT / "test" / "tsconfig.json"],
        capture_output=True,
        text=True,
        timeout=TEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_program_of_the_page_publishes(gateway: GatewayThread, domain: str) -> None:
    if importlib.util.find_spec("stomp") is None:
        missing("stomp.py is not installed")
    page = (ROOT / "docs/how-to/gateway.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    port = gateway.urls[1].rpartition(":")[2]
    with shoal.connect(domain) as bus, bus.subscribe("prices/*", selector="region = 'EU'") as prices:
        program = code.replace("61613", port)
        done = subprocess.run([sys.executable, "-c", program], timeout=TEST_S, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        price = prices.receive(TEST_S)
        assert price is not None
        assert price.body == {"bid": 10.25}


def test_stomp_py_is_served(gateway: GatewayThread) -> None:
    stomp = pytest.importorskip("stomp")
    host, _, port = gateway.urls[1].removeprefix("tcp://").rpartition(":")
    got: list[tuple[dict[str, str], str]] = []
    receipts: set[str] = set()
    changed = threading.Condition()

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_message(self, frame: object) -> None:
            with changed:
                got.append((frame.headers, frame.body))  # type: ignore[attr-defined]
                changed.notify_all()

        def on_receipt(self, frame: object) -> None:
            with changed:
                receipts.add(frame.headers["receipt-id"])  # type: ignore[attr-defined]
                changed.notify_all()

    def until(condition: Callable[[], object]) -> None:
        with changed:
            assert changed.wait_for(condition, TEST_S)

    client = stomp.Connection12([(host, int(port))], heartbeats=(10_000, 10_000))
    client.set_listener("", Listener())
    client.connect(wait=True)
    client.subscribe("/topic/t/*", id="1", headers={"selector": "n = '2'", "receipt": "s1"})
    until(lambda: "s1" in receipts)
    for number in ("1", "2"):
        client.send("/topic/t/a", f"text {number}", content_type="text/plain", headers={"n": number})
    until(lambda: len(got) == 1)
    assert got[0][1] == "text 2"
    client.send(
        "/queue/q", json.dumps({"a": 1}), content_type="application/json", headers={"persistent": "true"}
    )
    client.subscribe("/queue/q", id="2", ack="client-individual")
    until(lambda: len(got) == 2)
    client.nack(got[1][0]["ack"])
    until(lambda: len(got) == 3)
    assert got[2][0]["redelivered"] == "true"
    transaction = client.begin()
    client.ack(got[2][0]["ack"], transaction=transaction)
    client.send("/queue/out", "out", transaction=transaction, headers={"persistent": "true"})
    client.commit(transaction)
    client.subscribe("/queue/out", id="3", ack="auto")
    until(lambda: len(got) == 4)
    assert got[3][1] == "out"
    client.disconnect(receipt="bye")
    until(lambda: "bye" in receipts)


def test_the_client_for_javascript_repeats_what_it_has_no_receipt_for_and_nothing_is_doubled(
    node: str, tmp_path: Path
) -> None:
    count = 150
    with StoreProcess(tmp_path / "store") as store, GatewayProcess(store.domain) as gateway:
        said = []
        kills = iter([30, 60, 90])
        kill_at = next(kills)
        command = [node, CLIENT / "test" / "repeat.mjs", gateway.web_url, str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            for line in program.stdout:
                said.append(line.strip())
                if sum(each.startswith("receipt") for each in said) == kill_at and line.startswith("receipt"):
                    # The store is killed once, the gateway twice.
                    victim = store if kill_at == 60 else gateway
                    victim.kill()
                    victim.start()
                    kill_at = next(kills, 0)
        assert program.returncode == 0, said[-20:]
        assert said.count("state up") == 3, said
        assert sorted(int(each.split()[1]) for each in said if each.startswith("receipt")) == list(
            range(1, count + 1)
        )
        assert "heard after" in said, "the subscription was restored"
        with shoal.connect(domain=store.domain, interface="lo") as bus:
            numbers = [message.body for message in bus.queue("numbers").browse()]
            copies = [message.body for message in bus.queue("copies").browse()]
        assert sorted(numbers) == list(range(1, count + 1))
        assert sorted(copies) == list(range(5, count + 1, 5))
