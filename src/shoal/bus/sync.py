"""The friendly API for threads: `connect`, `Bus` and `Subscription`."""

import contextlib
import functools
import importlib
import inspect
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

from shoal import _core
from shoal._core import Message
from shoal.bus import operations
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
from shoal.bus.consumer import Consumer, Listening, StoredSubscription
from shoal.bus.dispatch import Callback, OwnThread, SharedThread
from shoal.bus.durable import stored_of
from shoal.bus.events import Event
from shoal.bus.handle import Handle
from shoal.bus.operations import STALL_S
from shoal.bus.options import QueueOptions, StoredOptions
from shoal.bus.queues import Queue, declaration
from shoal.bus.readers import threads_done
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
from shoal.bus.retained import LastValues, Source, fetch
from shoal.bus.seeking import Place, seek_request
from shoal.bus.store_protocol import TEMPORARY
from shoal.bus.subscription import Subscription
from shoal.bus.transactions import Transaction
from shoal.bus.undelivered import Undelivered
from shoal.bus.waiting import close_at_exit, linger, run
from shoal.bus.watch import Watch
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
from shoal.errors import ConfigError, LinkError, NoReplyError
from shoal.link.admission import Admit
from shoal.messages import bus as notices
from shoal.selector import CorrelationFilter, Selector

#: How long callbacks that are under way may take when a connection closes and is given no time of its own.
_CALLBACKS_S = 1.0


def connect(url: str | None = None, **options: Unpack[ConnectOptions]) -> "Bus":
    """Join a domain and return the connection to it.

    With `tcp://`, `tls://`, `ws://`, `wss://` and links of your own it waits until the other end answered, or
    could not be reached; then it goes on trying.
    With no arguments: what the environment variables `SHOAL_URL` and `SHOAL_DOMAIN` say, and otherwise
    reliable multicast on the default domain and interface. Where multicast does not work it connects by TCP
    to the seeds in `SHOAL_SEEDS`; if there are none, the programs of this machine meet on the loopback
    interface. A warning is logged that says so.

    Args:
        url: `norm://[group:port]`, `udp://[group:port]` (best effort), `tcp://host:port`, `tls://host:port`, `ws://host:port/path`,
            `wss://host:port/path`, `inproc://name` or one of a scheme that `shoal.link.register` knows, with
            options as its query.
        options: the same options as keywords; `shoal.config.ConnectionConfig` describes them all. With
            `store="./data"` and `record=["prices/>"]` this process is a store too, which records those
            topics; `shoal.store.StoreConfig` describes its options. `store="tcp://host:port"` names a store
            that cannot be heard on the bus, `client_id` whose durable subscriptions these are, and `outbox` a
            directory in which persistent messages are kept until a store has them
            (`shoal.config.ClientConfig`).

    Raises:
        ConfigError: an option cannot work, or two contradict each other.
        LinkError: the network cannot be used, or with `required` no program was reached.
        LinkRefusedError: the other end refuses us, or cannot be trusted.
    """
    rest, client = split_client(options)
    connection, role = split_roles(rest)
    bus = _made(resolve(url, connection), client)
    bus._connection.take_role(role)
    bus._connection.take_client(client)
    bus._connection.be_watched(client)
    if bus.config.has_links:
        with closing_on_error(bus._connection):
            run(bus._connection, operations.begin(bus._connection))
            bus._connection.join_store(bus.config.target().url)
    return bus


def listen(url: str, *, admit: Admit | None = None, **options: Unpack[ConnectOptions]) -> "Bus":
    """Let others connect, and return the connection to them.

    Args:
        url: `tcp://address:port`, or the same with `tls`, `ws` or `wss`, or a link of your own. Without an
            address only programs of this machine can connect; `tcp://0.0.0.0:7474` is every address of this
            host. Port 0 is a free one: see `Bus.links`.
        admit: decides about every program that connects and says hello: a function that takes a
            `shoal.link.Guest`, and returns whether it is let in, or raises `LinkRefusedError` with a reason.
            It is called on a thread of its own, and has five seconds.
        options: as for `connect`.

    Raises:
        ConfigError: an option cannot work, or two contradict each other.
        LinkError: the address cannot be listened at.
    """
    rest, client = split_client(options)
    connection, role = split_roles(rest)
    config = resolve_listening(url, connection)
    if admit is not None and not config.has_links:
        raise ConfigError(f"admit decides about programs that connect, and none does on {config.scheme}://")
    bus = _made(config, client)
    bus._connection.take_role(role)
    bus._connection.take_client(client)
    bus._connection.be_watched(client)
    with closing_on_error(bus._connection):
        if bus.config.has_links:
            bus._connection.keeper().listen(bus.config.target(), admit, bus.config.cost)
            bus._connection.let_store_join()
    return bus


def _made(config: ConnectionConfig, client: ClientConfig) -> "Bus":
    """The connection, of a class of its own if destinations have options, or if it is traced: few are."""
    kind: type[Bus] = Bus
    if client.destinations is not None:
        kind = importlib.import_module("shoal.bus.destined").Bus
    if client.trace:
        kind = importlib.import_module("shoal.bus.traced").of_threads(kind)
    return kind(config) if client.destinations is None else kind(config, client.destinations)  # type: ignore[call-arg]


class Bus(Handle, _core.Bus):
    """A connection: publishes, subscribes, asks and answers. May be shared between threads.

    Made by `connect`. Use it in a `with` statement: leaving the block waits until every member has
    everything, as long as they make progress. If one still lacks messages then, a warning is logged;
    `flush` raises instead.

    A connection without a reference to it or to one of its subscriptions is closed once what it published is
    delivered; its callbacks end at once, with a `ResourceWarning`. A callback that refers to its own
    connection keeps it open.
    """

    def __init__(self, config: ConnectionConfig) -> None:
        super().__init__(config)
        close_at_exit(self._connection)
        self._lock = threading.RLock()
        self._threads: list[OwnThread | SharedThread | Listening] = []
        self._shared: dict[str, SharedThread] = {}
        self._answers: Subscription | None = None
        #: Consumers of `Queue.receive`, by the queue's name.
        self._receivers: dict[str, Consumer] = {}
        #: Held by the thread that opens one of them, which may take as long as there is no store.
        self._openings: dict[str, threading.Lock] = {}
        self._publish_through(self._connection.node)
        try:
            self._watch: Watch | None = Watch(self._connection)
        except OSError as error:
            # A program that cannot have the connection must not leave a member behind.
            self._connection.closed = True
            self._connection.shut_down()
            raise LinkError(f"the connection cannot be watched: {error}") from error
        self._finalizer = weakref.finalize(
            self, _abandon, self._connection, self._threads, self._watch, repr(self)
        )
        # A connection that is open at exit is closed there, and that is no reason to warn.
        self._finalizer.atexit = False

    # A message costs no Python call of ours: this is a method of the extension's class.
    if TYPE_CHECKING:

        @overload
        def publish(
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
        def publish(
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
        def publish(
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

        def publish(
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
            """Publish a message. It is on its way when this returns, and kept if it is persistent.

            Args:
                topic: where, such as `prices/ACME`; no wildcards.
                body: bytes, str, a number, bool, `None`, a list, a mapping, a numpy array, Arrow data, a
                    frame of pandas or polars (which arrives as an Arrow table), or a type that
                    `shoal.codecs` knows.
                properties: named values that selectors can ask for.
                priority: 0 to 9; a higher one overtakes lower ones on its way.
                ttl_s: it is not delivered any more when it is older than this.
                correlation_id: what it answers or belongs to.
                reply_to: the topic that answers go to, or the queue if it is a `shoal.types.QueueName`.
                type: the application's name for this kind of message (JMSType).
                persistent: a store keeps it: this waits until it is durable there, or in the outbox.
                delivery_delay_s: durable subscriptions get it this many seconds later; others get it at once.
                timestamp: when it was published, as `time.time()` says it, if that is not now.
                connection: which of the program's own connections publishes it, where it tells several apart.
                window: of a persistent message: do not wait for this one, but until all but `window` are
                    durable. `flush` waits for the rest; why others were refused is raised by the next call.
                timeout_s: how long to wait while members take no more, where `when_full` is `block`, or for
                    the store; `None` is for ever.
                retain: keep it as the topic's last value while this connection is open: subscribers with
                    `retained=True` get it first. With `persistent`, a store keeps it beyond that. An empty
                    body (`None`, `""`, `b""`) deletes the value.
                trace: the trace and span that it is sent in, as `Message.trace` says it; a connection with
                    `trace=True` gives its own.

            Returns:
                Of a persistent message a `Receipt`: its identity, and whether a store has it. Of others the
                number, counted per priority class; 0 if the message was dropped because `when_full` is
                `drop`. `message_id` makes an identity of a number.

            Raises:
                FullError: members take no more, and `when_full` is `error` or the time was over; or
                    `retain`, and this connection keeps 100,000 topics or 64 MiB.
                NoStoreError: it is persistent, and the domain has no store; the error says how to start one.
                StoreFullError: it is persistent, and the store takes no more; or `retain`, and the store
                    retains 10,000 topics or 8 MiB.
                StoreUnavailableError: the store did not answer in time; the message may be kept all the same.
                ClosedError: the connection is closed.
                InvalidTopicError: the topic is none.
                MessageTooLongError: it is longer than `message_bytes_max`.
            """
            raise NotImplementedError

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
        thread: str | None = None,
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
        thread: str | None = None,
        durable: str | bool | None = None,
        shared: str | bool | None = None,
        concurrency: int = 1,
        wait: bool = False,
        retained: bool = False,
        **stored: Unpack[StoredOptions],
    ) -> Subscription | StoredSubscription:
        """Receive what matches a pattern from now on, or, if it is durable, from when it was first asked for.

        Args:
            pattern: a topic; `*` stands for one level, `>` for all that follow.
            callback: a function that is called with every message, on a thread of the subscription's own.
                Closing the subscription does not take back what has arrived: the callback gets that, too.
                What it raises is logged, ten times in ten seconds at the most, and the next message
                follows; the sender of a request gets a `RemoteError`.
            selector: a condition on properties and headers as in JMS, `"region = 'EU' AND JMSPriority > 4"`.
            correlation: a condition on correlation ids, `"[#7;#13]"`.
            no_local: leave out what this connection publishes itself.
            queue_bytes_max: how much may wait for the reader.
            queue_full: what happens then. `block` holds publishers back, within their `slow_after_s`; what
                they publish with such a priority waits for other subscriptions of this connection, too, so
                read what you subscribe to. `drop_new` and `drop_old` drop messages, and `dropped` counts
                them.
            thread: callbacks of this connection that name the same thread share it, and are called one at a
                time.
            concurrency: how many threads call the callback at the same time. With 1 the callback gets the
                messages one by one, in order; with more, a message may be handled before an earlier one.
            wait: return when every router that can be reached knows of it, and every program joined by
                TCP, 10 seconds later at the most.
            retained: of every publisher, the last value of each topic comes first (`publish(retain=True)`),
                then its live messages. This waits until the publishers answered, and on a network half a
                second longer, for those that are not known yet.
            durable: a name: a store keeps the subscription, and what comes while the reader is away. It
                belongs to this connection's `client_id`. What is not persistent comes if the store hears it.
            shared: a name: all subscribers with this name share the messages, each goes to one of them.
                With `durable=True` a store keeps it, for no client id in particular.
            stored: of a durable or shared one: `ack`, `"auto"` or `"manual"`; `prefetch`, how many messages
                may be here before they are asked for, by default as many as are read in 0.1 s; `start`, where
                a new one begins, `"new"`, `"earliest"` or an offset; `expires_after_s`, `backlog_max_bytes`
                and `on_full`, `"refuse"` or `"drop_oldest"`, which bound its backlog; `timeout_s`,
                how long to wait for the store.

        Raises:
            InvalidTopicError: the pattern is none.
            InvalidSelectorError: the selector or the correlation filter is none.
            NoStoreError: it is durable, and the domain has no store.
            InUseError: another program has this durable subscription, or the client id.
            FlushError: with `wait`, not every router answered; it is subscribed to all the same until then,
                and no longer afterwards.
        """
        check_callback(callback)
        check_flag("wait", wait)
        check_flag("retained", retained)
        if inspect.iscoroutinefunction(callback):
            raise refuse("callback", callback, "a plain function: coroutines are for shoal.aio")
        if thread is not None and (not isinstance(thread, str) or callback is None):
            raise refuse("thread", thread, "a name, beside a callback, or None")
        check_concurrency(concurrency, callback)
        if concurrency > 1 and thread is not None:
            raise refuse("concurrency", concurrency, "1 where a thread is named: its callbacks take turns")
        if durable is not None or shared is not None or stored:
            if correlation is not None or thread is not None or wait or retained:
                raise refuse(
                    "correlation, thread, wait and retained",
                    (correlation, thread, wait, retained),
                    "left out where durable or shared is given",
                )
            return self._subscribe_stored(
                pattern,
                callback,
                selector=selector,
                no_local=no_local,
                concurrency=concurrency,
                durable=durable,
                shared=shared,
                **stored,
            )
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
        source: Source = core
        try:
            if wait:
                self.sync()
            if retained:
                source = LastValues(core)
                asked = fetch(self._connection, pattern, receiver, selector, correlation, no_local)
                source.begin(run(self._connection, asked))
        except BaseException:
            core.close()
            raise
        if callback is not None:
            self._call_back(source, callback, thread, concurrency)
        subscription = Subscription(source)
        self._connection.readers.add(subscription)
        return subscription

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
        channel = self._connection.ready_channel(
            asked.what, timeout_s, memory=not asked.durable, destination=pattern
        )
        self._connection.check_client_id()
        subscription = StoredSubscription(
            self,
            channel,
            asked.what,
            asked.begin,
            ack=asked.ack,
            prefetch=asked.prefetch,
            timeout_s=timeout_s,
            pattern=pattern,
            name=asked.name,
        )
        run(self._connection, operations.heard(self._connection, pattern, channel.store_node))
        if callback is not None:
            failed = functools.partial(_failed, weakref.ref(self._connection), callback)
            with self._lock:
                self._threads += [Listening(subscription, callback, failed) for _ in range(concurrency)]
        return subscription

    def unsubscribe(self, name: str, *, shared: bool = False, timeout_s: float | None = None) -> None:
        """Remove a durable subscription, and its backlog.

        Args:
            name: what it was called.
            shared: it is a shared one, which belongs to no client id.

        Raises:
            InUseError: a program reads it.
            InvalidDestinationError: there is none.
        """
        check_flag("shared", shared)
        body: dict[str, Any] = {"op": "unsubscribe", "name": name, "shared": shared}
        if not shared and self._connection.client.client_id is not None:
            body["client_id"] = self._connection.client.client_id
        self._connection.ask_stores(body, f"the durable subscription {name!r}", timeout_s)

    def seek(self, name: str, to: Place, *, shared: bool = False, timeout_s: float | None = None) -> int:
        """Have a durable subscription read on elsewhere: from an offset, or from what was stored at a time.

        What it had not acknowledged is forgotten. Back, it gets again what the store still has; forward, it
        skips. Returns the offset: nothing below what retention has kept, nothing beyond the end.

        Args:
            name: what it is called. No program may read it meanwhile.
            to: an offset, a `datetime` with a time zone, `"earliest"` or `"latest"`.
            shared: it is a shared one, which belongs to no client id.

        Raises:
            InUseError: a program reads it.
            InvalidDestinationError: there is none.
        """
        check_flag("shared", shared)
        body = seek_request(name, to, self._connection.client.client_id, shared=shared)
        answer = self._connection.ask_stores(body, f"the durable subscription {name!r}", timeout_s)
        return int(answer["from"])

    def queue(self, name: str, **options: Unpack[QueueOptions]) -> Queue:
        """A queue: a message goes to exactly one receiver.

        It comes into being when it is first used.

        Args:
            name: what it is called, such as `orders`.
            options: what the store is to do, if anything: `expires_after_s`, after which an unused queue is
                forgotten; `backlog_max_bytes` and `on_full`, `"refuse"` or `"drop_oldest"`;
                `deliveries_max`, after which a message goes to the `dead_letter` queue, and with
                `dead_letter_expired=True` one that expires, too; `backoff_s` and `backoff_max_s`, how long
                one that was given back waits.
        """
        queue = Queue(self, name, declaration(**options))
        if options:
            queue.declare(**options)
        return queue

    def temporary_queue(self, *, timeout_s: float | None = None) -> Queue:
        """A queue of this connection's own, gone with it: for answers, named as `reply_to`."""
        queue = Queue(self, f"temporary/{self.publisher:016x}/{self._connection.next_temporary()}")
        body = {"op": "declare", "queue": str(queue.name), "temporary": True}
        self._connection.ask_store(body, "a temporary queue", timeout_s, memory=True)
        return queue

    def temporary_topic(self) -> str:
        """The name of a topic of this connection alone: for answers, named as `reply_to`."""
        return f"{TEMPORARY}{self.publisher:016x}/{self._connection.next_temporary()}"

    def transaction(self, id: str | None = None, *, timeout_s: float | None = None) -> Transaction:
        """Begin a transaction: what is sent and acknowledged in it is done together, or not at all.

        Args:
            id: what the commit is called, so that repeating it does nothing; drawn if not given.
            timeout_s: how long to wait for a store, here and with the first persistent message.

        Raises:
            NoStoreError: there is no store. An outbox is none.
        """
        # Beside an outbox nothing goes into a program's memory.
        memory = self._connection.client.outbox is None
        channel = self._connection.ready_channel("a transaction", timeout_s, memory=memory)
        return Transaction(self, channel, id, timeout_s)

    def _call_back(self, source: Source, callback: Callback, thread: str | None, concurrency: int) -> None:
        failed = functools.partial(_failed, weakref.ref(self._connection), callback)
        with self._lock:
            self._connection.check_open()
            self._threads[:] = [other for other in self._threads if other.thread.is_alive()]
            self._shared = {name: other for name, other in self._shared.items() if other.thread.is_alive()}
            if thread is None:
                self._threads += [OwnThread(source, callback, failed) for _ in range(concurrency)]
                return
            shared = self._shared.get(thread)
            if shared is None or not shared.add(source, callback, failed):
                shared = self._shared[thread] = SharedThread(thread)
                shared.add(source, callback, failed)
                self._threads.append(shared)

    def connect(self, url: str, *, cost: int | None = None) -> None:
        """Make one more link: to a program, such as `tcp://host:port`, or into a group, `norm://group:port`.

        The link is kept: it is made again when it breaks. With `router=True` what comes over one link goes on
        to the others.

        Args:
            url: where.
            cost: what a step over this link costs, from 1 to 1,000,000: routers take the cheapest way. A
                group costs 1 and another link 2 by default; of what both ends say the more counts.

        Raises:
            LinkRefusedError: the other end refuses us.
            LinkError: the network cannot be used.
        """
        check_cost(cost)
        if url.startswith("norm:"):
            self._connection.join_group(url, cost)
            return
        connection = self._connection
        run(connection, operations.dial(connection, [target_of(url, self.config.port)], cost))

    def disconnect(self, url: str) -> None:
        """Give up a link that `connect` or `listen` made, and say goodbye to the programs behind it.

        What was published is still sent, as far as that takes no longer than a second.

        Args:
            url: as the link was made with, or as `listen` returned it.

        Raises:
            ConfigError: there is no such link.
        """
        self._connection.leave(url)

    def request(
        self,
        topic: str,
        body: Any = None,
        *,
        timeout_s: float = 5.0,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
    ) -> Message:
        """Publish a question and return the first answer.

        Raises:
            NoRespondersError: no program subscribes to the topic, or all that were asked have left.
            NoReplyError: no program answered within `timeout_s`.
            RemoteError: the answerer's callback failed.
            ClosedError: the connection is closed, or was meanwhile.
        """
        check_seconds("timeout_s", timeout_s)
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        with self._asking(topic, body, outcomes, properties, priority):
            return answer_of(_next_outcome(outcomes, topic, timeout_s, 0))

    def request_many(
        self,
        topic: str,
        body: Any = None,
        *,
        timeout_s: float = 5.0,
        responders: int | None = None,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
    ) -> Iterator[Message]:
        """Publish a question and yield every answer, as it comes.

        An answerer may send several: all but the last with `reply(…, more=True)`.

        Args:
            timeout_s: how long to wait for each answer.
            responders: end after the last answers of this many; `None` is all subscribers of now.
                How many those are behind a router is not known: then it ends when no answer came for
                `timeout_s`.

        Raises:
            NoRespondersError: no program subscribes to the topic, or all that were asked have left.
            NoReplyError: no answer came for `timeout_s`, though not all had given their last one.
            RemoteError: the callback of one that was asked failed.
            ClosedError: the connection is closed, or was meanwhile.
        """
        check_seconds("timeout_s", timeout_s)
        if responders is not None:
            check_count("responders", responders, 1)
        return self._answers_to(topic, body, timeout_s, responders, properties, priority)

    def _answers_to(
        self,
        topic: str,
        body: Any,
        timeout_s: float,
        responders: int | None,
        properties: Mapping[str, Any] | None,
        priority: int,
    ) -> Iterator[Message]:
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        expected = responders or answerers(self._connection.node, topic)
        answers = last = 0
        with self._asking(topic, body, outcomes, properties, priority):
            while expected is None or last < expected:
                try:
                    outcome = _next_outcome(outcomes, topic, timeout_s, answers)
                except NoReplyError:
                    if expected is None and answers:
                        return
                    raise
                answer = answer_of(outcome)
                answers += 1
                last += kind_of(answer) != MORE
                yield answer

    @contextlib.contextmanager
    def _asking(
        self,
        topic: str,
        body: Any,
        outcomes: SimpleQueue[Outcome],
        properties: Mapping[str, Any] | None,
        priority: int,
    ) -> Iterator[None]:
        """Publish a question; while this lasts its answers go to `outcomes`."""
        connection = self._connection
        with self._lock:
            connection.check_open()
            if self._answers is None:
                self._answers = self.subscribe(connection.replies.topic, connection.replies.arrived)
        number = connection.replies.begin(connection.node, topic, outcomes.put)
        try:
            self.publish(
                topic,
                body,
                properties=properties_of(properties),
                priority=priority,
                correlation_id=number,
                reply_to=connection.replies.topic,
            )
            connection.replies.check_one(connection.node, number)
            yield
        finally:
            connection.replies.end(number)

    def reply(
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
        self.publish(
            reply_to(request),
            body,
            properties=reply_properties(properties_of(properties), more),
            correlation_id=request.correlation_id,
            priority=request.priority,
        )

    def wait_for_subscribers(self, topic: str, count: int = 1, timeout_s: float | None = 30.0) -> bool:
        """Wait until `count` nodes subscribe to a topic; this one counts if it does.

        Returns:
            Whether they do; false if the time was over first. `None` as `timeout_s` waits for ever.
        """
        check_count("count", count)
        check_seconds("timeout_s", timeout_s, none="no end")
        return run(
            self._connection, operations.wait_for_subscribers(self._connection, topic, count, timeout_s)
        )

    def flush(self, timeout_s: float | None = 10.0) -> None:
        """Return when every member has everything published before, and the store what is persistent.

        Raises:
            FlushError: some member has not; `silent` names those that did not answer, `lost_by` those that
                lost messages for good since the last flush that all answered. Or the store has not:
                `unstored` says how many messages it lacks, and if none, everything persistent is safe.
            StoreError: why the store refused messages that were published with a `window`.
        """
        check_seconds("timeout_s", timeout_s, none="no end")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        # First: a member that died does not keep it from being known that the store has everything.
        self._connection.flush_persistent(timeout_s)
        run(self._connection, operations.flush(self._connection, timeout_s, deadline))

    def sync(self, timeout_s: float | None = 10.0) -> None:
        """Return when every router that can be reached knows what was subscribed to before.

        So does every member of a multicast group, and every program that is joined by TCP, to this node or to
        a router.

        Raises:
            FlushError: not every router or member answered.
        """
        check_seconds("timeout_s", timeout_s, none="no end")
        run(self._connection, operations.sync(self._connection, timeout_s))

    def events(self, timeout_s: float | None = None) -> Iterator[Event]:
        """What happens in the domain: see `shoal.Event`.

        Events since the connection was made are kept, at most 10,000, until a call takes them.

        Args:
            timeout_s: the iteration ends when nothing happened for this time; `None` goes on until the
                connection closes.
        """
        check_seconds("timeout_s", timeout_s, none="no end")
        return self._events(timeout_s)

    def _events(self, timeout_s: float | None) -> Iterator[Event]:
        connection = self._connection
        while event := run(connection, operations.next_event(connection, timeout_s)):
            yield event

    def run(self, timeout_s: float | None = None) -> bool:
        """Wait until the connection is closed, or until Ctrl-C: for a program that has only callbacks.

        Returns:
            Whether it was closed; false after Ctrl-C, or when the time was over.
        """
        check_seconds("timeout_s", timeout_s, none="no end")
        try:
            return run(self._connection, operations.until_closed(self._connection, timeout_s))
        except KeyboardInterrupt:
            return False

    def close(self, linger_s: float | None = None, *, stall_s: float = STALL_S) -> bool:
        """Leave the domain once every member has everything.

        A callback that is under way is waited for, at most a second or half of `linger_s`, and may still
        publish; none is called any more. Then members are waited for, as long as they get on, and a store
        that lacks messages, which may be away for five seconds. If a member still lacks messages in the end,
        a warning is logged that says who lacks how much. A request that waits for its answer ends with
        `ClosedError`. Closing again does nothing; closing inside a callback is allowed.

        Args:
            linger_s: how long all of it may take; 0 does not wait, `None` waits while members make progress.
            stall_s: this does not wait for members that acknowledge nothing new for this time.

        Returns:
            Whether every member has everything, and the store what it was to keep.
        """
        check_seconds("linger_s", linger_s, none="as long as members get on")
        check_seconds("stall_s", stall_s)
        return not self._close(linger_s, stall_s, succeeded=True)

    def _close(self, linger_s: float | None, stall_s: float, *, succeeded: bool) -> Undelivered:
        connection = self._connection
        with self._lock:
            if connection.closed:
                return Undelivered()
            connection.closed = True
            self._finalizer.detach()
            threads = list(self._threads)
        if connection.is_foreign:
            return Undelivered()
        deadline = None if linger_s is None else time.monotonic() + linger_s
        connection.replies.fail(closed_error)
        for thread in threads:
            thread.stop()
        # Half of the time is left for what they publish.
        callbacks_until = time.monotonic() + (_CALLBACKS_S if linger_s is None else linger_s / 2)
        for thread in threads:
            patience_s = callbacks_until - time.monotonic()
            if thread.thread is not threading.current_thread() and patience_s > 0:
                thread.thread.join(min(patience_s, threading.TIMEOUT_MAX))
        unstored = connection.finish_persistent(deadline, stall_s, threads_done(succeeded))
        left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        undelivered = Undelivered()
        try:
            undelivered = run(connection, operations.deliver(connection, left_s, stall_s))
        finally:
            # Also where members cannot be waited for, because the process has no descriptor left.
            drained = connection.shut_down()
            if left_s == 0 and drained:
                undelivered = Undelivered(unreached=undelivered.unreached)
            undelivered = replace(undelivered, unstored=unstored)
            if undelivered:
                connection.say_undelivered(undelivered)
            connection.drain()
            connection.say_held()
            if self._watch is not None:
                self._watch.stop()
                self._watch = None
            with self._lock:
                # Their descriptors go with them.
                self._threads.clear()
                self._shared.clear()
            connection.close_role()
        return undelivered

    @contextlib.contextmanager
    def _opening(self, queue: str, timeout_s: float | None) -> Iterator[bool]:
        """One thread at a time opens the consumer of a queue; whether it is this thread's turn in time."""
        with self._lock:
            opening = self._openings.setdefault(queue, threading.Lock())
        is_mine = opening.acquire(timeout=-1 if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
        try:
            yield is_mine
        finally:
            if is_mine:
                opening.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(None, STALL_S, succeeded=kind is None)

    def __repr__(self) -> str:
        return self._connection.describe("Bus")


def _next_outcome(outcomes: SimpleQueue[Outcome], topic: str, timeout_s: float, answers: int) -> Outcome:
    try:
        return outcomes.get(timeout=min(timeout_s, threading.TIMEOUT_MAX))
    except Empty:
        raise no_reply(topic, timeout_s, answers) from None


def _failed(
    target: "weakref.ref[Connection]", callback: Callback, message: Message, error: BaseException
) -> None:
    """A callback raised: log it, and tell the program that asked."""
    connection = target()
    if connection is None:
        return
    connection.say_failed(callback, message, error)
    if message.reply_to is not None:
        with contextlib.suppress(Exception):
            connection.node.publish(message.reply_to, timeout_s=STALL_S, **error_reply(message, error))


def _abandon(
    connection: Connection,
    threads: list[OwnThread | SharedThread | Listening],
    watch: Watch | None,
    name: str,
) -> None:
    """The connection has no reference any more: end its callbacks, whose threads would keep it open."""
    for channel in connection.channels:
        channel.stop()
    called = [thread for thread in threads if thread.thread.is_alive()]
    for thread in called:
        thread.close()
    if watch is not None:
        watch.stop()
    if called:
        notices.UNCLOSED(what=f"{name} with callbacks").warn(ResourceWarning, stacklevel=2)
    linger(connection)
