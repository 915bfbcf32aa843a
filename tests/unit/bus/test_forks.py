"""What a forked child may do with what its parent receives from a store: nothing."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

import pytest
from plain_store import PlainStore

import shoal
from shoal import aio
from shoal.errors import ForkedError

PATIENCE_S = 10.0

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def refused_in_child(*calls: Callable[[], object]) -> int:
    """How many of the calls are refused in a forked child."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # Nothing here may wait.
    signal.alarm(int(PATIENCE_S))
    refused = 0
    for call in calls:
        try:
            call()
        except ForkedError as error:
            refused += "connect in the process that uses it" in str(error)
        except BaseException:
            break
    os._exit(refused)


def test_a_child_gets_nothing_that_is_here_already(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    for number in range(40):
        queue.send(number)
    with queue.consume(ack="manual") as consumer:
        first = consumer.receive(PATIENCE_S)
        assert first is not None
        calls: list[Callable[[], object]] = [
            lambda: consumer.receive(0),
            lambda: consumer.receive_nowait(),
            lambda: next(iter(consumer)),
            lambda: consumer.ack(first),
            lambda: consumer.ack_through(first),
            lambda: consumer.release(first),
            lambda: consumer.recover(),
            lambda: consumer.pending,
            lambda: consumer.closed,
        ]
        assert refused_in_child(*calls) == len(calls)
        assert refused_in_child(consumer.close, lambda: consumer.receive(0)) == 1
        consumer.ack(first)
        rest = [consumer.receive(PATIENCE_S) for _ in range(39)]
        assert [message.body for message in rest if message is not None] == list(range(1, 40))


def test_a_child_gets_nothing_of_the_lot_of_a_fast_reader(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    for number in range(100):
        queue.send(number)
    with queue.consume() as consumer:
        got = []
        while not any(consumer._inbox.lots.values()):
            message = consumer.receive(PATIENCE_S)
            assert message is not None
            got.append(message.body)
        assert refused_in_child(lambda: consumer.receive(0)) == 1
        assert got == list(range(len(got)))


def test_a_child_gets_nothing_of_its_parents_event_loop(domain: str, store: PlainStore) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            queue = bus.queue("orders")
            for number in range(3):
                await queue.send(number)
            async with await queue.consume(ack="manual") as consumer:
                assert await consumer.receive(PATIENCE_S) is not None

                def receive() -> object:
                    return consumer.receive(0).send(None)

                assert refused_in_child(consumer.receive_nowait, receive) == 2

    asyncio.run(main())


def test_a_child_does_not_wait_for_what_a_thread_of_its_parent_holds(
    bus: shoal.Bus, store: PlainStore
) -> None:
    bus.queue("orders").send(1)
    (persistence,) = bus._connection._persistences.values()
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with persistence.channel.lock:
            held.set()
            forked.wait(PATIENCE_S)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(PATIENCE_S)
    try:
        assert refused_in_child(lambda: bus.flush(1)) == 1
    finally:
        forked.set()
        holder.join()
