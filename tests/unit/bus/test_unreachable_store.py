"""What a program reads if the store that it chose does not answer."""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

import shoal
from shoal import aio
from shoal.bus import store_channel
from shoal.bus.store_errors import no_store


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address where no program listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for a store ends soon."""
    monkeypatch.setattr(store_channel, "LOOK_S", 0.3)


def test_a_caller_in_a_hurry_reads_why_the_store_is_not_reached(nowhere: str) -> None:
    with shoal.connect("inproc://hurry", store=nowhere) as bus:
        with pytest.raises(shoal.StoreUnavailableError, match=rf"'orders' \({nowhere}: .*refused"):
            bus.queue("orders").send("tea", timeout_s=0.5)
        with pytest.raises(shoal.StoreUnavailableError, match=rf"'orders' \({nowhere}: .*refused"):
            bus.queue("orders").consume(timeout_s=0.5)


def test_the_same_with_asyncio(nowhere: str) -> None:
    async def send() -> None:
        async with aio.connect("inproc://hurry-aio", store=nowhere) as bus:
            await bus.queue("orders").send("tea", timeout_s=0.5)

    with pytest.raises(shoal.StoreUnavailableError, match=rf"'orders' \({nowhere}: .*refused"):
        asyncio.run(send())


@pytest.mark.usefixtures("soon")
def test_a_program_that_names_its_store_is_not_told_to_name_one(nowhere: str) -> None:
    with (
        shoal.connect("inproc://named", store=nowhere) as bus,
        pytest.raises(shoal.NoStoreError, match="refused") as told,
    ):
        bus.publish("trades/ACME", 1, persistent=True)
    assert f"needs the store at {nowhere}, which has not answered within 0.3 s" in str(told.value)
    assert "connect(store=" not in str(told.value)


@pytest.mark.usefixtures("soon")
def test_a_program_that_is_no_store_is_said_to_be_there() -> None:
    with shoal.listen("tcp://127.0.0.1:0", domain="other") as other:
        url = other.links[0].url
        with (
            shoal.connect("inproc://other", store=url) as bus,
            pytest.raises(shoal.NoStoreError, match=f"a program listens at {url}, and no store"),
        ):
            bus.publish("trades/ACME", 1, persistent=True)


def test_a_store_that_refuses_the_program_is_not_waited_for() -> None:
    with shoal.listen("tcp://127.0.0.1:0", domain="another") as other:
        url = other.links[0].url
        with shoal.connect("inproc://refused", store=url) as bus:
            began = time.monotonic()
            with pytest.raises(shoal.NoStoreError, match="refuses us"):
                bus.publish("trades/ACME", 1, persistent=True)
    assert time.monotonic() - began < store_channel.LOOK_S


@pytest.mark.usefixtures("soon")
def test_a_program_whose_domain_is_in_its_memory_is_not_told_to_start_a_process() -> None:
    with (
        shoal.connect("inproc://memory") as bus,
        pytest.raises(
            shoal.NoStoreError, match=r"make this program one with connect\(store=DIRECTORY\)"
        ) as told,
    ):
        bus.publish("trades/ACME", 1, persistent=True)
    assert "shoal store --data" not in str(told.value)
    assert "shoal store --data" in str(no_store("publishing on 'trades/ACME'"))
