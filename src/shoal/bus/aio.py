"""The friendly API for asyncio: the same as `shoal.bus.sync`, awaited.

Every wait is for the connection's descriptor, in the event loop itself; cancelling one gives back all it
took.
"""

import asyncio
import contextlib
import contextvars
import functools
import importlib
import inspect
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

from shoal import _core
from shoal._core import Message
from shoal.bus import operations
from shoal.bus.aio_consumer import Consumer, StoredSubscription
from shoal.bus.aio_queues import Queue, Transaction
from shoal.bus.aio_subscription import Subscription
from shoal.bus.arguments import (
    check_callback,
    check_concurrency,
    check_cost,
    check_count,
    check_flag,
    check_seconds,
    properties_of,
    refuse,
)
from shoal.bus.connection import Connection, closed_error, closing_on_error
from shoal.bus.doorbell import Doorbell, in_own_thread
from shoal.bus.durable import stored_of
from shoal.bus.events import Event
from shoal.bus.handle import Handle
from shoal.bus.operations import STALL_S
from shoal.bus.options import QueueOptions, StoredOptions
from shoal.bus.owners import CHOICES_MAX
from shoal.bus.persistent import check_window, deadline_of, left
from shoal.bus.queues import declaration
from shoal.bus.readers import IsDone, tasks_done
from shoal.bus.receipt import Receipt
from shoal.bus.receiver import Receiver
from shoal.bus.replies import (
    MORE,
    Outcome,
    answer_of,
    answerers,
    error_reply,
    kind_of,
    no_reply,
    reply_properties,
    reply_to,
)
from shoal.bus.retained import LastValues, Source, fetch, marked
from shoal.bus.seeking import Place, seek_request
from shoal.bus.store_protocol import TEMPORARY
from shoal.bus.store_waits import ask_in_loop
from shoal.bus.undelivered import Undelivered
from shoal.bus.waiting import close_at_exit, linger
from shoal.config import (
    ClientConfig,
    ConnectionConfig,
    ConnectOptions,
    QueueFull,
    resolve,
    resolve_listening,
    split_client,
    split_roles,
)
from shoal.config.target import target_of
from shoal.errors import (
    ClosedError,
    ConfigError,
    FullError,
    InvalidDestinationError,
    NoStoreError,
    StoreError,
)
from shoal.link.admission import Admit
from shoal.messages import bus as notices
from shoal.selector import CorrelationFilter, Selector

if TYPE_CHECKING:
    from shoal.bus.store_channel import StoreChannel

Callback = Callable[[Message], Awaitable[object] | object]

#: How long callbacks that are under way may take when a connection closes and is given no time of its own.
_CALLBACKS_S = 1.0
#: How often to look whether the goodbye was said.
_GOODBYE_CHECK_S = 0.002
#: A full connection is tried again at the latest after this, though no bell rang.
_FULL_CHECK_S = 0.1


class _Call:
    """A callback under way, and the subscription it is of; `None` once it is over."""

    __slots__ = ("subscription",)

    def __init__(self, subscription: _core.Subscription) -> None:
        self.subscription: _core.Subscription | None = subscription


#: The callback that runs here. Tasks that it starts have it, too: it may wait for them.
_calling: "contextvars.ContextVar[_Call | None]" = contextvars.ContextVar("shoal-callback", default=None)


def connect(url: str | None = None, **options: Unpack[ConnectOptions]) -> "Bus":
    """Join a domain: `async with shoal.aio.connect() as bus`, or `bus = await shoal.aio.connect()`.

    Arguments as in `shoal.connect`. Entering the block, or awaiting it, connects over `tcp` and the like.
    A store or an outbox is opened on a thread of its own; entering the block waits for it, and raises why it
    cannot be opened.
    """
    rest, client = split_client(options)
    connection, role = split_roles(rest)
    return connect_with(resolve(url, connection), client, role)


def connect_with(
    config: ConnectionConfig, client: ClientConfig, role: Mapping[str, Any] | None = None
) -> "Bus":
    """As `connect`, with options that were checked before: for roles that a daemon has."""
    bus = _made(config, client)
    bus._connection.be_watched(client)
    bus._connection.open_beside_loop(dict(role or {}), client)
    bus._connects = bus.config.has_links
    return bus


def listen(url: str, *, admit: Admit | None = None, **options: Unpack[ConnectOptions]) -> "Bus":
    """Let others connect; use it as `async with`. Arguments as in `shoal.listen`."""
    rest, client = split_client(options)
    connection, role = split_roles(rest)
    config = resolve_listening(url, connection)
    if admit is not None and not config.has_links:
        raise ConfigError(f"admit decides about programs that connect, and none does on {config.scheme}://")
    bus = _made(config, client)
    with closing_on_error(bus._connection):
        if bus.config.has_links:
            bus._connection.keeper().listen(bus.config.target(), admit, bus.config.cost)
        bus._connection.be_watched(client)
        bus._connection.open_beside_loop(role, client, listens=bus.config.has_links)
    return bus


def _made(config: ConnectionConfig, client: ClientConfig) -> "Bus":
    """The connection, of a class of its own if destinations have options, or if it is traced: few are."""
    kind: type[Bus] = Bus
    if client.destinations is not None:
        kind = importlib.import_module("shoal.bus.destined").AioBus
    if client.trace:
        kind = importlib.import_module("shoal.bus.traced").of_tasks(kind)
    return kind(config) if client.destinations is None else kind(config, client.destinations)  # type: ignore[call-arg]


class Bus(Handle):
    """A connection for one event loop: publishes, subscribes, asks and answers.

    Made by `connect`. Use it in an `async with` statement: leaving the block waits until every member has
    everything, as long as they make progress. If one still lacks messages then, a warning is logged;
    `flush` raises instead.

    A connection without a reference to it or to one of its subscriptions is closed once what it published is
    delivered; its callbacks end at once, with a `ResourceWarning`. A callback that refers to its own
    connection keeps it open.
    """

    def __init__(self, config: ConnectionConfig) -> None:
        super().__init__(config)
        close_at_exit(self._connection)
        self._at_loop: Doorbell | None = None
        self._listeners: dict[asyncio.Task[None], Subscription] = {}
        #: What opens stored subscriptions, and what calls back with their messages.
        self._stored_tasks: set[asyncio.Task[None]] = set()
        self._answers: Subscription | None = None
        #: Consumers of `Queue.receive`, by the queue's name.
        self._receivers: dict[str, Consumer] = {}
        #: It is to connect when the loop is there.
        self._connects = False
        self._finalizer = weakref.finalize(self, _abandon, self._connection, self._listeners, repr(self))
        # A connection that is open at exit is closed there, and that is no reason to warn.
        self._finalizer.atexit = False

    @property
    def _doorbell(self) -> Doorbell:
        if self._at_loop is None:
            self._connection.check_open()
            connection = self._connection
            self._at_loop = Doorbell(connection.node.attach_bell, connection.on_change)
        self._at_loop.check_loop()
        return self._at_loop

    @overload
    async def publish(
        self,
        topic: str,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        persistent: Literal[False] = False,
        delivery_delay_s: float | None = None,
        timestamp: float | None = None,
        connection: int | None = None,
        window: int | None = None,
        timeout_s: float | None = None,
        retain: bool = False,
        trace: tuple[bytes, str] | None = None,
    ) -> int: ...

    @overload
    async def publish(
        self,
        topic: str,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        persistent: Literal[True],
        delivery_delay_s: float | None = None,
        timestamp: float | None = None,
        connection: int | None = None,
        window: int | None = None,
        timeout_s: float | None = None,
        retain: bool = False,
        trace: tuple[bytes, str] | None = None,
    ) -> Receipt: ...

    @overload
    async def publish(
        self,
        topic: str,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        persistent: bool,
        delivery_delay_s: float | None = None,
        timestamp: float | None = None,
        connection: int | None = None,
        window: int | None = None,
        timeout_s: float | None = None,
        retain: bool = False,
        trace: tuple[bytes, str] | None = None,
    ) -> int | Receipt: ...

    async def publish(
        self,
        topic: str,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        persistent: bool = False,
        delivery_delay_s: float | None = None,
        timestamp: float | None = None,
        connection: int | None = None,
        window: int | None = None,
        timeout_s: float | None = None,
        retain: bool = False,
        trace: tuple[bytes, str] | None = None,
    ) -> int | Receipt:
        """Publish a message, waiting while members take no more, or for the store. As `shoal.Bus.publish`."""
        check_flag("persistent", persistent)
        if persistent:
            headers: dict[str, Any] = {
                "properties": properties_of(properties),
                "priority": priority,
                "ttl_s": ttl_s,
                "correlation_id": correlation_id,
                "reply_to": reply_to,
                "type": type,
                "delivery_delay_s": delivery_delay_s,
                "timestamp": timestamp,
                "connection": connection,
                "trace": trace,
            }
            check_flag("retain", retain)
            if retain:
                headers["properties"] = marked(headers["properties"])
            keeping = (
                self._connection.retained().keeping(topic, body, headers)
                if retain
                else contextlib.nullcontext()
            )
            with keeping as keep:
                what = f"publishing on {topic!r} with persistent=True"
                receipt = await self._publish_persistent(
                    topic, body, what=what, window=window, timeout_s=timeout_s, **headers
                )
                if keep is not None:
                    keep(receipt.id)
            return receipt
        publish = functools.partial(
            self._connection.node.publish,
            topic,
            body,
            properties=properties_of(properties),
            priority=priority,
            ttl_s=ttl_s,
            correlation_id=correlation_id,
            reply_to=reply_to,
            type=type,
            delivery_delay_s=delivery_delay_s,
            timestamp=timestamp,
            connection=connection,
            window=window,
            timeout_s=0.0,
            retain=retain,
            trace=trace,
        )
        check_seconds("timeout_s", timeout_s, none="no end")
        await self._doorbell.take_turn()
        return await self._while_full(publish, timeout_s)

    async def _while_full(self, publish: Callable[..., int], timeout_s: float | None) -> int:
        """Call something that publishes until members take it."""
        doorbell, began, call = self._doorbell, None, _calling.get()
        while True:
            # A task that a callback started may live longer.
            caller = None if call is None else call.subscription
            waited_s = 0.0 if began is None else time.monotonic() - began
            try:
                return publish(waited_s=waited_s, caller=caller)
            except FullError as refusal:
                if refusal.in_callback or self._connection.config.when_full == "error":
                    raise
                began = began or time.monotonic()
                left_s = _FULL_CHECK_S if timeout_s is None else began + timeout_s - time.monotonic()
                if left_s <= 0:
                    raise
            await doorbell.wait(time.monotonic() + min(left_s, _FULL_CHECK_S))

    async def _publish_persistent(
        self,
        topic: str,
        body: Any,
        *,
        what: str,
        window: int | None,
        timeout_s: float | None,
        **headers: Any,
    ) -> Receipt:
        """Publish what a store keeps, and wait for it.

        A task that is cancelled does not know whether a message is kept; in an outbox it is, and published.
        """
        check_window(window)
        check_seconds("timeout_s", timeout_s, none="no end")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        persistence = self._connection.persistence(topic)
        if persistence.outbox is not None:
            kept = await ask_in_loop(
                lambda done: persistence.put_out(topic, body, headers, deadline, done), None, what
            )
            return persistence.receipt(kept["number"], stored=False)
        memory = not headers.get("persistent", True)
        if not persistence.channel.is_ready(memory):
            await self._ready_channel(what, left(deadline), memory=memory, destination=topic)
            persistence = self._connection.persistence(topic)
        channel = persistence.channel
        if window is not None:
            persistence.raise_failure(topic)
        await self._doorbell.take_turn()
        before = persistence.room(window)
        if before > persistence.chain.stored:
            wait = functools.partial(persistence.wait, before, own=False)
            await ask_in_loop(wait, left(deadline), what, why=channel.trouble)

        def add(waited_s: float, caller: object) -> int:
            return persistence.add(topic, body, dict(headers), 0.0, claimed=window is None)

        number = await self._while_full(add, left(deadline))
        if window is None:
            wait = functools.partial(persistence.wait, number)
            await ask_in_loop(wait, left(deadline), what, why=channel.trouble)
        elif persistence.is_worth_a_word:
            channel.pump()
        return persistence.receipt(number, stored=window is None)

    async def _ready_channel(
        self, what: str, timeout_s: float | None, *, memory: bool = False, destination: str | None = None
    ) -> "StoreChannel":
        owners, deadline = self._connection.owners(), deadline_of(timeout_s)
        for _ in range(CHOICES_MAX):
            channel = owners.main() if destination is None else owners.of(destination)
            left_s = left(deadline)
            when_ready = functools.partial(channel.when_ready, what, memory=memory, patience_s=left_s)
            await ask_in_loop(when_ready, left_s, what, why=channel.trouble)
            if destination is None or channel.keeps(destination):
                break
        return channel

    async def _ask_store(
        self,
        body: dict[str, Any],
        what: str,
        timeout_s: float | None,
        *,
        memory: bool = False,
        destination: str | None = None,
    ) -> dict[str, Any]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        channel = await self._ready_channel(what, timeout_s, memory=memory, destination=destination)
        request = functools.partial(channel.request, body)
        return await ask_in_loop(request, left(deadline), what, why=channel.trouble)

    def _subscribe_stored(
        self,
        pattern: str,
        callback: Callback | None,
        *,
        concurrency: int,
        timeout_s: float | None = None,
        **options: Any,
    ) -> StoredSubscription:
        asked = stored_of(pattern, client_id=self._connection.client.client_id, **options)
        check_seconds("timeout_s", timeout_s, none="no end")

        async def begin(subscription: StoredSubscription) -> None:
            channel = await self._ready_channel(
                asked.what, timeout_s, memory=not asked.durable, destination=pattern
            )
            self._connection.check_client_id()
            subscription._channel = channel
            await subscription._open(asked.begin, timeout_s)
            await self._doorbell.run(operations.heard(self._connection, pattern, channel.store_node))

        subscription = StoredSubscription(
            self,
            self._connection.channel(),
            asked.what,
            ack=asked.ack,
            prefetch=asked.prefetch,
            pattern=pattern,
            name=asked.name,
            begin=begin,
        )
        tasks = [subscription._opening]
        if callback is not None:
            listening = [
                _listen_stored(subscription, callback, weakref.ref(self)) for _ in range(concurrency)
            ]
            tasks += [asyncio.create_task(one, name=f"shoal-{pattern}") for one in listening]
        for task in tasks:
            self._stored_tasks.add(task)
            task.add_done_callback(self._stored_tasks.discard)
        return subscription

    async def unsubscribe(self, name: str, *, shared: bool = False, timeout_s: float | None = None) -> None:
        """Remove a durable subscription, and its backlog. As `shoal.Bus.unsubscribe`."""
        check_flag("shared", shared)
        body: dict[str, Any] = {"op": "unsubscribe", "name": name, "shared": shared}
        if not shared and self._connection.client.client_id is not None:
            body["client_id"] = self._connection.client.client_id
        await self._ask_stores(body, f"the durable subscription {name!r}", timeout_s)

    async def _ask_stores(self, body: dict[str, Any], what: str, timeout_s: float | None) -> dict[str, Any]:
        """Ask the store that has something which no destination belongs to."""
        deadline, channel = deadline_of(timeout_s), await self._ready_channel(what, timeout_s)
        owners = self._connection.owners()
        tried: list[StoreChannel] = []
        while True:
            try:
                ask = functools.partial(channel.request, body)
                return await ask_in_loop(ask, left(deadline), what, why=channel.trouble)
            except InvalidDestinationError:
                tried.append(channel)
                other = owners.untried(tried)
                if other is None and (wait_s := owners.unheard_s()) > 0:
                    await asyncio.sleep(wait_s if deadline is None else min(wait_s, left(deadline) or 0.0))
                    other = owners.untried(tried)
                if other is None:
                    raise
                channel = other
                when_ready = functools.partial(channel.when_ready, what, patience_s=left(deadline))
                await ask_in_loop(when_ready, left(deadline), what, why=channel.trouble)

    async def seek(
        self, name: str, to: Place, *, shared: bool = False, timeout_s: float | None = None
    ) -> int:
        """Have a durable subscription read on elsewhere. As `shoal.Bus.seek`."""
        check_flag("shared", shared)
        body = seek_request(name, to, self._connection.client.client_id, shared=shared)
        answer = await self._ask_stores(body, f"the durable subscription {name!r}", timeout_s)
        return int(answer["from"])

    def queue(self, name: str, **options: Unpack[QueueOptions]) -> Queue:
        """A queue: a message goes to exactly one receiver. As `shoal.Bus.queue`, told when first used."""
        return Queue(self, name, declaration(**options))

    async def temporary_queue(self, *, timeout_s: float | None = None) -> Queue:
        """A queue of this connection's own, gone with it: for answers, named as `reply_to`."""
        queue = Queue(self, f"temporary/{self.publisher:016x}/{self._connection.next_temporary()}", {})
        body = {"op": "declare", "queue": str(queue.name), "temporary": True}
        await self._ask_store(body, "a temporary queue", timeout_s, memory=True)
        return queue

    def temporary_topic(self) -> str:
        """The name of a topic of this connection alone: for answers, named as `reply_to`."""
        return f"{TEMPORARY}{self.publisher:016x}/{self._connection.next_temporary()}"

    async def transaction(self, id: str | None = None, *, timeout_s: float | None = None) -> Transaction:
        """Begin a transaction: `async with await bus.transaction() as tx`. As `shoal.Bus.transaction`."""
        deadline, channel = deadline_of(timeout_s), self._connection.channel()
        owners = self._connection.owners()
        # Adding a message waits for nothing: so a store that keeps it is waited for here.
        if not channel.is_ready(memory=True):
            try:
                await self._ready_channel("a transaction", timeout_s)
            except NoStoreError:
                if self._connection.client.outbox is not None:
                    raise
        await self._ready_channel("a transaction", left(deadline), memory=True)
        for other in owners.open_others():
            # A store that went meanwhile is missed by messages for it alone.
            with contextlib.suppress(NoStoreError):
                when_ready = functools.partial(other.when_ready, "a transaction", patience_s=left(deadline))
                await ask_in_loop(when_ready, left(deadline), "a transaction")
        return Transaction(self, channel, id)

    @overload
    def subscribe(
        self,
        pattern: str,
        callback: Callback | None = None,
        *,
        selector: str | Selector | None = None,
        correlation: str | CorrelationFilter | None = None,
        no_local: bool = False,
        queue_bytes_max: int = 4 << 20,
        queue_full: QueueFull = "block",
        concurrency: int = 1,
        wait: bool = False,
        retained: bool = False,
    ) -> Subscription: ...

    @overload
    def subscribe(
        self,
        pattern: str,
        callback: Callback | None = None,
        *,
        selector: str | Selector | None = None,
        no_local: bool = False,
        durable: str | bool | None = None,
        shared: str | bool | None = None,
        concurrency: int = 1,
        **stored: Unpack[StoredOptions],
    ) -> StoredSubscription: ...

    def subscribe(
        self,
        pattern: str,
        callback: Callback | None = None,
        *,
        selector: str | Selector | None = None,
        correlation: str | CorrelationFilter | None = None,
        no_local: bool = False,
        queue_bytes_max: int = 4 << 20,
        queue_full: QueueFull = "block",
        durable: str | bool | None = None,
        shared: str | bool | None = None,
        concurrency: int = 1,
        wait: bool = False,
        retained: bool = False,
        **stored: Unpack[StoredOptions],
    ) -> Subscription | StoredSubscription:
        """Receive what matches a pattern from now on; with a `callback`, awaited in a task of its own.

        The callback may be a plain function, too. With `concurrency=N`, N tasks call it at the same time.

        Iterate over the subscription at once, or await it first: `await bus.subscribe("prices/>")`. That
        returns the subscription, with `durable` or `shared` once the store has it, and raises what the store
        refuses; with `wait` once every router knows of it. The other arguments are those of
        `shoal.Bus.subscribe`.
        """
        check_callback(callback)
        check_concurrency(concurrency, callback)
        check_flag("wait", wait)
        check_flag("retained", retained)
        if durable is not None or shared is not None or stored:
            if correlation is not None or wait or retained:
                raise refuse(
                    "correlation, wait and retained",
                    (correlation, wait, retained),
                    "left out where durable or shared is given",
                )
            options: dict[str, Any] = {"selector": selector, "no_local": no_local, **stored}
            options |= {"durable": durable, "shared": shared, "concurrency": concurrency}
            return self._subscribe_stored(pattern, callback, **options)
        doorbell = self._doorbell
        core = self._connection.subscribe(
            pattern,
            selector=selector,
            correlation=correlation,
            no_local=no_local,
            queue_bytes_max=queue_bytes_max,
            queue_full=queue_full,
        )
        receiver = Receiver(self)
        core.set_receiver(receiver)
        source: Source = LastValues(core) if retained else core
        subscription = Subscription(source, doorbell, self.sync if wait else None)
        self._connection.readers.add(subscription)
        if isinstance(source, LastValues):
            asked = fetch(self._connection, pattern, receiver, selector, correlation, no_local)
            fetching = asyncio.create_task(_fetch(doorbell, source, asked), name=f"shoal-fetch-{pattern}")
            subscription._fetching = fetching
        for _ in range(concurrency if callback is not None else 0):
            assert callback is not None
            listening = _listen(subscription, callback, weakref.ref(self))
            listener = asyncio.create_task(listening, name=f"shoal-{pattern}")
            self._listeners[listener] = subscription
            listener.add_done_callback(functools.partial(_listened, self._listeners))
        return subscription

    async def connect(self, url: str, *, cost: int | None = None) -> None:
        """Make one more link, such as `tcp://host:port` or `norm://group:port`. As `shoal.Bus.connect`."""
        check_cost(cost)
        if url.startswith("norm:"):
            self._connection.join_group(url, cost)
        else:
            target = target_of(url, self.config.port)
            await self._doorbell.run(operations.dial(self._connection, [target], cost))

    async def disconnect(self, url: str) -> None:
        """Give up a link that `connect` or `listen` made. As `shoal.Bus.disconnect`."""
        await in_own_thread(functools.partial(self._connection.leave, url))

    async def request(
        self,
        topic: str,
        body: Any = None,
        *,
        timeout_s: float = 5.0,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
    ) -> Message:
        """Publish a question and return the first answer. Raises what `shoal.Bus.request` raises."""
        check_seconds("timeout_s", timeout_s)
        outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit, self._asking(topic, body, outcomes, properties, priority):
                return answer_of(await outcomes.get())
        except TimeoutError:
            if not limit.expired():
                raise
            raise no_reply(topic, timeout_s) from None

    async def request_many(
        self,
        topic: str,
        body: Any = None,
        *,
        timeout_s: float = 5.0,
        responders: int | None = None,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
    ) -> AsyncIterator[Message]:
        """Publish a question and yield every answer, as it comes. As `shoal.Bus.request_many`."""
        check_seconds("timeout_s", timeout_s)
        if responders is not None:
            check_count("responders", responders, 1)
        outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        expected = responders or answerers(self._connection.node, topic)
        answers = last = 0
        async with self._asking(topic, body, outcomes, properties, priority):
            while expected is None or last < expected:
                try:
                    async with asyncio.timeout(timeout_s):
                        outcome = await outcomes.get()
                except TimeoutError:
                    if expected is None and answers:
                        return
                    raise no_reply(topic, timeout_s, answers) from None
                answer = answer_of(outcome)
                answers += 1
                last += kind_of(answer) != MORE
                yield answer

    @contextlib.asynccontextmanager
    async def _asking(
        self,
        topic: str,
        body: Any,
        outcomes: "asyncio.Queue[Outcome]",
        properties: Mapping[str, Any] | None,
        priority: int,
    ) -> AsyncIterator[None]:
        """Publish a question; while this lasts its answers go to `outcomes`."""
        connection = self._connection
        connection.check_open()
        if self._answers is None:
            self._answers = self.subscribe(
                connection.replies.topic, functools.partial(_arrived, weakref.ref(connection))
            )
        number = connection.replies.begin(connection.node, topic, outcomes.put_nowait)
        try:
            await self.publish(
                topic,
                body,
                properties=properties,
                priority=priority,
                correlation_id=number,
                reply_to=connection.replies.topic,
            )
            connection.replies.check_one(connection.node, number)
            yield
        finally:
            connection.replies.end(number)

    async def reply(
        self,
        request: Message,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        more: bool = False,
    ) -> None:
        """Answer a message that was sent with `request` or `request_many`.

        Args:
            more: more answers of ours to the same request will follow.
        """
        check_flag("more", more)
        await self.publish(
            reply_to(request),
            body,
            properties=reply_properties(properties_of(properties), more),
            correlation_id=request.correlation_id,
            priority=request.priority,
        )

    async def wait_for_subscribers(self, topic: str, count: int = 1, timeout_s: float | None = 30.0) -> bool:
        """Wait until `count` nodes subscribe to a topic; false if the time was over first."""
        check_count("count", count)
        check_seconds("timeout_s", timeout_s, none="no end")
        return await self._doorbell.run(
            operations.wait_for_subscribers(self._connection, topic, count, timeout_s)
        )

    async def sync(self, timeout_s: float | None = 10.0) -> None:
        """Return when every router knows what was subscribed to before. As `shoal.Bus.sync`."""
        check_seconds("timeout_s", timeout_s, none="no end")
        await self._doorbell.run(operations.sync(self._connection, timeout_s))

    async def flush(self, timeout_s: float | None = 10.0) -> None:
        """Return when every member has everything published before; `FlushError` names who has not."""
        check_seconds("timeout_s", timeout_s, none="no end")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if self._connection.channels:
            await in_own_thread(functools.partial(self._connection.flush_persistent, timeout_s))
        await self._doorbell.run(operations.flush(self._connection, timeout_s, deadline))

    async def events(self, timeout_s: float | None = None) -> AsyncIterator[Event]:
        """What happens in the domain; ends after `timeout_s` of quiet, or with the connection."""
        check_seconds("timeout_s", timeout_s, none="no end")
        connection = self._connection
        while not connection.closed and (
            event := await self._doorbell.run(operations.next_event(connection, timeout_s))
        ):
            yield event

    async def run(self, timeout_s: float | None = None) -> bool:
        """Wait until the connection is closed: for a program that has only callbacks."""
        check_seconds("timeout_s", timeout_s, none="no end")
        return self.closed or await self._doorbell.run(operations.until_closed(self._connection, timeout_s))

    async def close(self, linger_s: float | None = None, *, stall_s: float = STALL_S) -> bool:
        """Leave the domain once every member has everything. As `shoal.Bus.close`.

        If it is cancelled the connection is closed at once. One whose event loop is closed can be closed in
        any other.
        """
        check_seconds("linger_s", linger_s, none="as long as members get on")
        check_seconds("stall_s", stall_s)
        return not await self._close(linger_s, stall_s, succeeded=True)

    async def _close(self, linger_s: float | None, stall_s: float, *, succeeded: bool) -> Undelivered:
        connection = self._connection
        if connection.closed or connection.is_foreign:
            connection.closed = True
            return Undelivered()
        if self._at_loop is not None and self._at_loop.loop.is_closed():
            self._at_loop = None
        doorbell = self._doorbell
        connection.closed = True
        self._finalizer.detach()
        connection.replies.fail(closed_error)
        undelivered, unstored = Undelivered(), ""
        try:
            deadline = None if linger_s is None else time.monotonic() + linger_s
            await self._finish_callbacks(_CALLBACKS_S if linger_s is None else linger_s / 2)
            unstored = await self._finish_persistent(deadline, stall_s, tasks_done(succeeded))
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            undelivered = await doorbell.run(operations.deliver(connection, left_s, stall_s))
            if connection.links is not None:
                connection.links.stop()
            connection.node.leave()
            while not connection.node.has_left():
                await asyncio.sleep(_GOODBYE_CHECK_S)
        finally:
            drained = connection.shut_down()
            if linger_s == 0 and drained:
                undelivered = Undelivered(unreached=undelivered.unreached)
            undelivered = replace(undelivered, unstored=unstored)
            if undelivered:
                connection.say_undelivered(undelivered)
            connection.drain()
            connection.say_held()
            doorbell.close()
            if connection.has_opening:
                await in_own_thread(connection.close_opened)
        return undelivered

    async def _finish_persistent(self, deadline: float | None, stall_s: float, is_done: IsDone) -> str:
        """End callbacks of stored subscriptions, and say goodbye to the store: what it lacks, in words."""
        current = asyncio.current_task()
        for task in [one for one in self._stored_tasks if one is not current]:
            task.cancel()
        if not self._connection.channels:
            return ""
        finish = functools.partial(self._connection.finish_persistent, deadline, stall_s, is_done)
        return await in_own_thread(finish)

    async def _finish_callbacks(self, patience_s: float) -> None:
        """Let callbacks that are under way end; no other is called any more."""
        for subscription in self._listeners.values():
            # A task of a closed loop cannot be woken.
            with contextlib.suppress(RuntimeError):
                subscription._stop()
        current = asyncio.current_task()
        listeners = [
            listener
            for listener in self._listeners
            if listener is not current and not listener.get_loop().is_closed()
        ]
        if listeners:
            await asyncio.wait(listeners, timeout=patience_s)

    def __await__(self) -> Generator[Any, None, Self]:
        """`bus = await shoal.aio.connect()`: as entering the block does; the program closes it."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        try:
            # Events are noticed from now on.
            doorbell = self._doorbell
        except ClosedError:
            if self._connection.has_opening:
                # What could not be opened closed it: that is the reason.
                await in_own_thread(self._connection.wait_opened)
            raise
        if self._connection.has_opening:
            with closing_on_error(self._connection):
                await in_own_thread(self._connection.wait_opened)
        if self._connects:
            self._connects = False
            with closing_on_error(self._connection):
                await doorbell.run(operations.begin(self._connection))
                if self._connection.store is not None:
                    url = self.config.target().url
                    await in_own_thread(lambda: self._connection.join_store(url))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(None, STALL_S, succeeded=kind is None)

    def __repr__(self) -> str:
        return self._connection.describe("shoal.aio.Bus")


async def _listen(subscription: Subscription, callback: Callback, target: "weakref.ref[Bus]") -> None:
    """Await the callback with every message. No method: the loop has it, and it would keep the connection."""
    async for message in subscription:
        call = _Call(subscription._core)
        _calling.set(call)
        try:
            result = callback(message)
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            await _failed(target(), callback, message, error)
        finally:
            call.subscription = None


async def _fetch(doorbell: Doorbell, source: LastValues, asked: operations.Operation[list[Message]]) -> None:
    """Begin a subscription with the last values."""
    try:
        source.begin(await doorbell.run(asked))
    except BaseException:
        source.close()
        source.begin([])
        raise


async def _listen_stored(
    subscription: StoredSubscription, callback: Callback, target: "weakref.ref[Bus]"
) -> None:
    """Await the callback with every message; one whose callback fails comes again."""
    # Why it cannot be opened is raised where the subscription is awaited.
    await asyncio.wait([subscription._opening])
    if not subscription._is_open:
        return
    with contextlib.suppress(StoreError):
        async for message in subscription:
            try:
                result = callback(message)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                subscription._failed(message)
                await _failed(target(), callback, message, error)


async def _failed(bus: "Bus | None", callback: Callback, message: Message, error: Exception) -> None:
    """A callback raised: log it, and tell the program that asked."""
    if bus is None:
        return
    bus._connection.say_failed(callback, message, error)
    if message.reply_to is not None:
        with contextlib.suppress(Exception):
            await bus.publish(message.reply_to, timeout_s=STALL_S, **error_reply(message, error))


def _listened(listeners: dict[asyncio.Task[None], Subscription], listener: asyncio.Task[None]) -> None:
    """A listener ended. One that was cancelled ended with its loop, while the connection was open."""
    if not listener.cancelled():
        del listeners[listener]


async def _arrived(target: "weakref.ref[Connection]", message: Message) -> None:
    connection = target()
    if connection is not None:
        connection.replies.arrived(message)


def _abandon(connection: Connection, listeners: "dict[asyncio.Task[None], Subscription]", name: str) -> None:
    """The connection has no reference any more: end its callbacks, whose tasks would keep it open."""
    for channel in connection.channels:
        channel.stop()
    for subscription in list(listeners.values()):
        # This may be another thread than the loop's, which the bell wakes.
        subscription._subscription.close()
    if listeners:
        notices.UNCLOSED(what=f"{name} with callbacks").warn(ResourceWarning, stacklevel=2)
    linger(connection)
