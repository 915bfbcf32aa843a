"""Gateways as processes: as a command, and as the role of a daemon."""

import asyncio
import json
import re
import secrets
import signal
import urllib.request
from pathlib import Path

import pytest
from programs import unique_group
from stomp_program import LostError, StompProgram

import shoal
from shoal.gateway.frames import encode
from shoal.processes.daemon import DaemonProcess
from shoal.processes.gateway import GatewayProcess
from shoal.processes.store import StoreProcess
from shoal.system import raise_descriptor_limit


def exchange(url: str, bus: shoal.Bus) -> None:
    """A client and a program of the bus get each other's messages."""
    heard = bus.subscribe("to/bus")
    client = StompProgram(url)
    client.call("SUBSCRIBE", id="1", destination="/topic/to/stomp")
    assert bus.wait_for_subscribers("to/stomp")
    bus.publish("to/stomp", "hello")
    message = client.message()
    assert message is not None
    assert message.body == b"hello"
    client.call("SEND", b"back", destination="/topic/to/bus", content_type="text/plain")
    answer = heard.receive(30)
    assert answer is not None
    assert answer.body == "back"
    client.close()


def gateway_url(daemon: DaemonProcess) -> str:
    found = re.search(r"STOMP clients at (tcp://[\d.]+:\d+)", daemon.said)
    assert found is not None, daemon.said
    return found[1]


def test_a_daemon_with_a_lan_is_a_gateway_until_its_file_says_otherwise() -> None:
    lan = f'[link.lan]\nurl = "norm://{unique_group()}?interface=lo"\n'
    text = lan + '[roles]\ngateway = true\n[gateway]\nstomp = ["tcp://127.0.0.1:0"]\n'
    with DaemonProcess(text) as daemon, shoal.connect(re.findall(r'"(norm.*)"', lan)[0]) as bus:
        url = gateway_url(daemon)
        exchange(url, bus)
        client = StompProgram(url)
        daemon.reload(lan)
        assert "gateway off" in daemon.said
        with pytest.raises(LostError, match="closing"):
            client.message()
        with pytest.raises(LostError):
            StompProgram(url)
        client.close()
        assert daemon.end() == 0


def test_a_daemon_without_a_lan_joins_its_gateway_with_its_router() -> None:
    text = (
        '[link.clients]\nlisten = "tcp://127.0.0.1:0"\n[roles]\ngateway = true\n'
        '[gateway]\nstomp = ["tcp://127.0.0.1:0"]\n[log]\nformat = "json"\nlevel = "info"\n'
        '[http]\nlisten = "127.0.0.1:0"\n'
    )
    with DaemonProcess(text) as daemon:
        lines = [json.loads(line)["message"] for line in daemon.said.splitlines()]
        http = next(
            re.search(r"http at (\S+?)\.?$", line)
            for line in lines
            if "is ready:" in line or "http at" in line
        )
        assert http is not None
        with urllib.request.urlopen(http[1] + "/status", timeout=10) as answer:
            status = json.load(answer)
        assert status["gateway"]["connections"] == 0
        with shoal.connect(status["links"][0]["url"]) as bus:
            exchange(status["gateway"]["urls"][0], bus)


def test_nothing_with_a_receipt_is_lost_when_gateway_and_store_are_killed(tmp_path: Path) -> None:
    with (
        StoreProcess(tmp_path / "store") as store,
        GatewayProcess(store.domain) as gateway,
    ):
        done = 0
        for number in range(6):
            try:
                client = StompProgram(gateway.url, shoal_publisher="p")
                for _ in range(3):
                    done += 1
                    client.call("BEGIN", transaction="t", shoal_id=str(done))
                    for part in ("a", "b"):
                        client.call(
                            "SEND",
                            b"%d" % done,
                            destination=f"/queue/{part}",
                            persistent="true",
                            transaction="t",
                        )
                    client.call("COMMIT", transaction="t")
                client.close()
            except LostError:
                done -= 1
            if number == 1:
                gateway.kill()
                gateway.start()
            elif number == 3:
                store.kill()
                store.start()
        assert done == 18
        client = StompProgram(gateway.url)
        for part in ("a", "b"):
            client.call("SUBSCRIBE", id=part, destination=f"/queue/{part}", ack="client")
            got = [client.message() for _ in range(done)]
            assert [message and message.body for message in got] == [b"%d" % n for n in range(1, done + 1)]
        client.close()
        gateway_process = gateway._process
        assert gateway_process is not None
        gateway_process.send_signal(signal.SIGTERM)
        assert gateway_process.wait(20) == 0


async def open_client(port: int, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, subscribe, and return when both were answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode("CONNECT", [("accept-version", "1.2")]))
    writer.write(encode("SUBSCRIBE", [("id", "1"), ("destination", "/topic/all"), ("receipt", f"r{number}")]))
    await reader.readuntil(f"receipt-id:r{number}\n\n\0".encode())
    return reader, writer


def test_a_thousand_clients_get_a_message_each() -> None:
    count, domain = 1000, f"thousand-{secrets.token_hex(4)}"

    async def clients(port: int, bus: shoal.Bus) -> None:
        opened = []
        for first in range(0, count, 50):
            batch = [open_client(port, number) for number in range(first, first + 50)]
            opened += await asyncio.gather(*batch)
        assert bus.wait_for_subscribers("all")
        bus.publish("all", "hello")
        for reader, _ in opened:
            assert (await reader.readuntil(b"hello\0")).count(b"MESSAGE") == 1
        for _, writer in opened:
            writer.transport.abort()

    raise_descriptor_limit()
    with (
        GatewayProcess(domain) as gateway,
        shoal.connect(domain=domain, interface="lo") as bus,
    ):
        asyncio.run(asyncio.wait_for(clients(gateway.port, bus), 100))
        exchange(gateway.url, bus)
