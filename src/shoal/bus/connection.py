"""What the threaded and the asyncio connection have in common: the node, its events and its requests.

Nothing here waits; `operations` says what to wait for, `sync` and `aio` do.
"""

import contextlib
import functools
import importlib
import itertools
import logging
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from shoal import _core
from shoal._core import Message
from shoal.bus import node
from shoal.bus.arguments import (
    check_choice,
    check_flag,
    check_pattern,
    check_queue,
    correlation_of,
    dotted,
    name_of,
    selector_of,
)
from shoal.bus.client_ids import Claim
from shoal.bus.events import Event, EventLog, QueueNearlyFull
from shoal.bus.forks import Birth
from shoal.bus.log_limit import LogLimit
from shoal.bus.opening import Opening
from shoal.bus.owners import CHOICES_MAX, Owners
from shoal.bus.readers import IsDone, nobody
from shoal.bus.replies import Replies
from shoal.bus.statistics import Statistics, of_links
from shoal.bus.store_waits import ask
from shoal.bus.undelivered import Undelivered
from shoal.config import ClientConfig, ConnectionConfig, QueueFull
from shoal.config import resolve as resolve_url
from shoal.config.keys import keys_of
from shoal.config.target import Target, target_of
from shoal.descriptors import check_descriptors
from shoal.errors import (
    ClosedError,
    ConfigError,
    InvalidDestinationError,
    ShoalError,
)
from shoal.link.events import LinkDown, LinkUp
from shoal.link.group import Group
from shoal.link.keeper import Keeper
from shoal.link.state import LinkState
from shoal.messages import bus as notices
from shoal.messages import named
from shoal.selector import CorrelationFilter, Selector
from shoal.system import after_fork
from shoal.threads import check_room

if TYPE_CHECKING:
    from shoal.bus.persistent import Persistence
    from shoal.bus.receipt import Receipt
    from shoal.bus.retained import Retained
    from shoal.bus.store_channel import StoreChannel
    from shoal.bus.subscription import SubscriptionBase
    from shoal.bus.transactions import Chains
    from shoal.monitor.monitor import Monitor

log = logging.getLogger("shoal.bus")

#: Failures of one callback that are logged in `log_limit.LOG_EVERY_S`.
_FAILURES_LOGGED_MAX = 10
#: A store that takes nothing for this time is not waited for when a connection closes: one that is started
#: again takes longer than a member that is slow.
STORE_STALL_S = 5.0
#: How long the members of a group are waited for that is left.
LEAVE_S = 1.0

after_fork(_core.mark_forked)


class Connection:
    """One node in a domain, as a configuration describes it."""

    def __init__(self, config: ConnectionConfig) -> None:
        #: Closing has begun.
        self.closed = False
        #: It is a part of another one: whatever it did not deliver is that one's to tell.
        self.private = False
        self.events = EventLog()
        #: Callbacks that fail are logged, each with its traceback, now and then.
        self.failures = LogLimit(_FAILURES_LOGGED_MAX)
        # For a thread of datagrams or of connections, and one that keeps them.
        check_room(2)
        check_descriptors()
        #: The node, and what stands in for multicast, if something does.
        self.node, self.stand_in = node.made(config)
        #: As it was asked for, or as it had to be.
        self.config = config = config if self.stand_in is None else self.stand_in.config
        # Of the publisher, not of the node: two nodes may have met with one id.
        self.replies = Replies(f"_reply/{self.node.publisher:016x}")
        self._store: Any = None
        #: What opens that store, or the outbox, beside an event loop.
        self._opening: Opening | None = None
        #: How it uses a store.
        self.client = ClientConfig()
        #: The way to a store, once a caller needs one, in a list that others can watch.
        self.channels: list[StoreChannel] = []
        #: Its client id, once it needs a store.
        self._claim: Claim | None = None
        #: The ways to stores, and what sends by each of them.
        self._owners: Owners | None = None
        self._persistences: dict[StoreChannel, Persistence] = {}
        self._retained: Retained | None = None
        self._monitor: Monitor | None = None
        self._hinted = False
        #: When it was made, or its links changed, by `time.monotonic`.
        self.linked_at = time.monotonic()
        self._transaction_chains: Chains | None = None
        self._making = threading.Lock()
        #: What stores know this connection by, and no other client: the ids on its messages are public.
        self.store_key = secrets.token_hex(16)
        self._temporaries = itertools.count(1)
        #: Subscriptions without callbacks, which have it open after its owner let go of it.
        self.readers: weakref.WeakSet[SubscriptionBase] = weakref.WeakSet()
        self.node.set_persistently(_Persistently(weakref.ref(self)))
        #: Its links of datagrams, by number.
        self._groups: dict[int, Group] = {}
        if config.scheme in ("norm", "udp"):
            self._add_group(1, config)
        if config.scheme == "norm" and config.cost is not None:
            self.node.set_norm_cost(1, config.cost)
        #: What keeps its links with single programs, if it has such.
        self.links: Keeper | None = None
        self._making_links = threading.Lock()
        if config.has_links:
            self._keep_links()
        self.birth = Birth()

    def _keep_links(self) -> Keeper:
        with self._making_links:
            if self.links is None:
                self.links = Keeper(_core.TcpLinks(self.node), self.on_links, self.config)
                # Its thread would keep the node.
                self._end_links = weakref.finalize(self, self.links.stop)
                self._end_links.atexit = False
            return self.links

    def cut_off(self) -> str:
        """Why no other program can be reached, in words; empty if they can, as far as is known."""
        if self.stand_in is None or not self.stand_in.is_cut_off:
            return ""
        return "the loopback interface is down, over which programs of this machine meet: ip link set lo up"

    def targets(self) -> list[Target]:
        """Where `connect` is to connect at first."""
        if self.stand_in is not None:
            return list(self.stand_in.seeds)
        if not self.config.has_links:
            return []
        seeds = list(self.config.seed_targets())
        return seeds if seeds and self.config.host is None else [self.config.target(), *seeds]

    def tell(self, event: Event) -> None:
        """Something happened that the extension knows nothing of."""
        if not self.closed:
            # Earlier events come first.
            self.drain()
            self.events.add(event)

    def on_links(self) -> None:
        """Something happened to a link."""
        self.linked_at = time.monotonic()
        if not self.closed:
            self.drain()

    def keeper(self) -> Keeper:
        """What keeps its links with single programs; refuses where there are none."""
        self.check_open()
        config = self.config
        if config.scheme in ("inproc", "udp"):
            raise ConfigError(
                f"a connection on {config.scheme}:// has no links with single programs: use "
                "shoal.connect('tcp://host:port') or shoal.listen('tcp://host:port')"
            )
        if self.links is None:
            self.node.add_tcp(
                (config.domain, config.domain_number()),
                (config.resume_s, config.connections_max),
                (node.heartbeat_s(config), config.missed_heartbeats_max),
                config.window_bytes,
            )
        return self._keep_links()

    def join_group(self, url: str, cost: int | None = None) -> int:
        """Join one more group, at this cost of a step: the link's number."""
        given = {"domain": self.config.domain} if "domain=" not in url else {}
        return self.add_norm(resolve_url(url, given), cost)

    def add_norm(self, config: ConnectionConfig, cost: int | None = None) -> int:
        """Join one more group, at this cost of a step: the link's number."""
        self.check_open()
        if self.config.scheme in ("inproc", "udp"):
            raise ConfigError(
                f"a connection on {self.config.scheme}:// cannot join a group beside it: use norm:// or tcp://"
            )
        options = node.options(config)
        for name in (
            "message_bytes_max",
            "assembly_bytes_max",
            "patience_s",
            "when_full",
            "router",
            "assigned",
        ):
            del options[name]
        number = self.node.add_norm(**options)
        cost = config.cost if cost is None else cost
        if cost is not None:
            self.node.set_norm_cost(number, cost)
        self._add_group(number, config)
        return number

    def _add_group(self, number: int, config: ConnectionConfig) -> None:
        group = self._groups[number] = Group(self.node, config, number)
        # Before the members that are there.
        self.events.add(LinkUp(group.url, 0, group.address, False))

    def remove_norm(self, number: int, linger_s: float = 0.0) -> None:
        """Leave a group, after waiting for its members."""
        group = self._groups.pop(number, None)
        address = "" if group is None else group.address
        self.node.remove_norm(number, linger_s)
        if group is not None:
            self.tell(LinkDown(group.url, 0, address, "this end left the group", True))

    def leave(self, url: str) -> None:
        """Give up the links that a URL names: to a program, into a group, or a place that is listened at."""
        self.check_open()
        if url.startswith("norm:"):
            where = resolve_url(url, {"domain": self.config.domain} if "domain=" not in url else {}).where()
            numbers = [number for number, group in self._groups.items() if group.url == where]
            for number in numbers:
                self.remove_norm(number, LEAVE_S)
            found = bool(numbers)
        else:
            found = self.links is not None and self.links.leave(target_of(url, self.config.port))
        if not found:
            links = [state.url for state in self.link_states() if state.role != "accept"]
            known = ", ".join(dict.fromkeys(links))
            raise ConfigError(f"there is no link {url!r} to give up: there is {known or 'none'}")

    def link_states(self) -> list[LinkState]:
        """Every link as it is now."""
        states = [group.state() for group in list(self._groups.values())]
        return states if self.links is None else states + self.links.states()

    def unreached(self) -> str:
        """Where it connects to and never reached a program, in words; nothing if it reached one."""
        if self._groups or self.links is None or not self.node.has_unconfirmed():
            return ""
        return ", ".join(self.links.unreached())

    def shut_down(self) -> bool:
        """Leave without waiting: whether every member had everything."""
        self.close_channel(0.0, nobody)
        if self._retained is not None:
            self._retained.close()
        if self.links is not None:
            self._end_links()
            # Its descriptor goes with it.
            self.links = None
        return self.node.shut_down(0.0)

    def take_role(self, options: dict[str, Any]) -> None:
        """Open the store that `connect` was asked for, which is found by name: few need one."""
        if not options:
            return
        try:
            role = importlib.import_module("shoal.store.role")
            self._store = role.open_beside(options.pop("store"), self.config, **options)
        except BaseException:
            self.closed = True
            self.shut_down()
            raise

    def open_beside_loop(self, role: dict[str, Any], client: ClientConfig, *, listens: bool = False) -> None:
        """Open a store or an outbox on a thread of its own; `wait_opened` waits for it."""
        self.client = client
        if not role and client.outbox is None:
            return

        def work() -> None:
            self.take_role(role)
            if not self.closed:
                self.take_client(client)
            if not self.closed and listens:
                self.let_store_join()
            if self.closed:
                # It was closed meanwhile.
                self.close_role()

        self._opening = Opening(work)

    def wait_opened(self) -> None:
        """Wait for the store or the outbox that is opened beside an event loop."""
        if self._opening is not None:
            self._opening.wait()

    def close_opened(self) -> None:
        """Close the store, if there is one, as soon as it is open."""
        with contextlib.suppress(ShoalError):
            self.wait_opened()
        self.close_role()

    @property
    def has_opening(self) -> bool:
        """Whether a store or an outbox is opened beside an event loop."""
        return self._opening is not None

    @property
    def store(self) -> Any:
        """The store beside it, if it was asked for: a `shoal.store.Store`."""
        self.wait_opened()
        return self._store

    def join_store(self, url: str) -> None:
        """Have the store of this program, if it has one, connect to where the program itself is."""
        if self.store is not None:
            self.store.join(url)

    def let_store_join(self) -> None:
        """Have the store of this program, if it has one, connect to the program itself."""
        if self.store is not None:
            self.store.join_beside(self)

    def take_client(self, client: ClientConfig) -> None:
        """Use a store as `connect` was asked to."""
        self.client = client
        if client.outbox is None:
            return
        try:
            # What an earlier life left in it goes to the store, though no program may publish in this one.
            self.persistence()
        except BaseException:
            self._give_up()
            raise

    def be_watched(self, client: ClientConfig) -> None:
        """Tell operators of it as `connect` was asked to."""
        try:
            if client.metrics is not None:
                self.watch().serve(client.metrics)
            if client.answer:
                self.watch().answer()
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Close what is open of a connection that cannot be made."""
        self.close_role()
        self.closed = True
        self.shut_down()

    def close_role(self) -> None:
        """Be watched no more, and close the store; what it has not recorded yet it records."""
        if self._monitor is not None:
            self._end_monitor()
        if self._store is not None:
            self._store.close()

    def watch(self) -> "Monitor":
        """What tells operators of this connection. It is found by name: few need one."""
        with self._making:
            if self._monitor is None:
                module = importlib.import_module("shoal.monitor.monitor")
                monitor: Monitor = module.Monitor(self)
                self._monitor = monitor
                self._end_monitor = weakref.finalize(self, monitor.close)
                self._end_monitor.atexit = False
            return self._monitor

    # What a store is needed for. It is found by name: few need one.

    def channel(self) -> "StoreChannel":
        """The way to a store, opened when it is first needed: to the first one, where there are several."""
        return self.owners().main()

    def owners(self) -> Owners:
        """The ways to stores, by what they keep."""
        self.check_open()
        self.check_here()
        if self._owners is not None:
            return self._owners
        self.wait_opened()
        with self._making:
            if self._owners is None:
                client = self.client
                if client.client_id is not None:
                    self._claim = Claim(self.node, client.client_id)
                is_single = client.store_url is not None or client.outbox is not None
                self._owners = Owners(self.channels, self._make_channel, is_single=is_single)
            return self._owners

    def _make_channel(self, ordinal: int) -> "StoreChannel":
        module = importlib.import_module("shoal.bus.store_channel")
        client = self.client
        made: StoreChannel = module.StoreChannel(
            self,
            url=client.store_url,
            client_id=client.client_id,
            kept=client.outbox is not None,
            ordinal=ordinal,
        )
        return made

    def check_client_id(self) -> None:
        """Refuse a durable subscription while a connection of JMS has the same client id."""
        if self._claim is not None:
            self._claim.check()

    def persistence(self, destination: str | None = None) -> "Persistence":
        """What sends messages that a store keeps: the store that keeps a destination, or the first one."""
        owners = self.owners()
        channel = owners.main() if destination is None else owners.of(destination)
        found = self._persistences.get(channel)
        if found is not None:
            return found
        with self._making:
            if channel not in self._persistences:
                module = importlib.import_module("shoal.bus.persistent")
                client = self.client
                self._persistences[channel] = module.Persistence(
                    self,
                    channel,
                    client.outbox,
                    client.outbox_bytes_max,
                    chain=module.chain_of(self.channels.index(channel)),
                )
            return self._persistences[channel]

    def retained(self) -> "Retained":
        """What keeps the last values that are published here, and answers fetches."""
        self.check_open()
        self.check_here()
        with self._making:
            if self._retained is None:
                module = importlib.import_module("shoal.bus.retained")
                self._retained = module.Retained(self)
            return self._retained

    def retained_id(self, number: int, topic: str, priority: int) -> str | None:
        """The identity of a message that was published; `None` if it was dropped."""
        return self.node.message_id(number, priority, topic=topic) if number else None

    @property
    def transaction_chains(self) -> "Chains":
        """The chains of its transactions."""
        with self._making:
            if self._transaction_chains is None:
                module = importlib.import_module("shoal.bus.transactions")
                self._transaction_chains = module.Chains(self.node.publisher)
            return self._transaction_chains

    def ready_channel(
        self, what: str, timeout_s: float | None, *, memory: bool = False, destination: str | None = None
    ) -> "StoreChannel":
        """The way to a store that was found, or to one in memory where that does; waits for it.

        Where there are several, it is the keeper of a `destination`.
        """
        owners, deadline = self.owners(), None if timeout_s is None else time.monotonic() + timeout_s
        for _ in range(CHOICES_MAX):
            channel = owners.main() if destination is None else owners.of(destination)
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            when_ready = functools.partial(channel.when_ready, what, memory=memory, patience_s=left_s)
            ask(when_ready, left_s, what, why=channel.trouble)
            if destination is None or channel.keeps(destination):
                break
        return channel

    def ask_store(
        self,
        body: dict[str, Any],
        what: str,
        timeout_s: float | None,
        *,
        memory: bool = False,
        destination: str | None = None,
    ) -> dict[str, Any]:
        """Ask a store, and wait for its answer."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        channel = self.ready_channel(what, timeout_s, memory=memory, destination=destination)
        left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        return ask(lambda done: channel.request(body, done), left_s, what, why=channel.trouble)

    def ask_stores(self, body: dict[str, Any], what: str, timeout_s: float | None) -> dict[str, Any]:
        """Ask the store that has something which no destination belongs to."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s

        def left_s() -> float | None:
            return None if deadline is None else max(deadline - time.monotonic(), 0.0)

        owners, channel = self.owners(), self.ready_channel(what, timeout_s)
        tried: list[StoreChannel] = []
        while True:
            try:
                return ask(functools.partial(channel.request, body), left_s(), what, why=channel.trouble)
            except InvalidDestinationError:
                tried.append(channel)
                other = owners.untried(tried)
                if other is None and (wait_s := owners.unheard_s()) > 0:
                    time.sleep(wait_s if deadline is None else min(wait_s, left_s() or 0.0))
                    other = owners.untried(tried)
                if other is None:
                    raise
                channel = other
                when_ready = functools.partial(channel.when_ready, what, patience_s=left_s())
                ask(when_ready, left_s(), what, why=channel.trouble)

    def flush_persistent(self, timeout_s: float | None) -> None:
        """Wait until persistent messages are stored."""
        self.check_here()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for persistence in list(self._persistences.values()):
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            persistence.flush(left_s)

    def storing(self) -> str:
        """What to add where members lack something, and the store was asked before: nothing without one."""
        return "; the store has everything persistent" if self._persistences else ""

    def next_temporary(self) -> int:
        """A number that no temporary queue or topic of this connection has."""
        return next(self._temporaries)

    def finish_persistent(self, deadline: float | None, stall_s: float, is_done: IsDone) -> str:
        """Wait a while for the store, and say goodbye to it; an outbox goes on with the next start.

        Readers that are done acknowledge what they received last. Returns what the store lacks, in words.
        """
        lacks = ""
        for persistence in list(self._persistences.values()):
            if persistence.outbox is None:
                lacking = persistence.finish(deadline, max(stall_s, STORE_STALL_S))
                lacks = f"{lacks}; {lacking}" if lacks and lacking else lacks or lacking
            else:
                patience_s = stall_s if deadline is None else max(deadline - time.monotonic(), 0.0)
                persistence.outbox.pass_on(self.node, patience_s)
        patience_s = stall_s if deadline is None else max(deadline - time.monotonic(), 0.0)
        self.close_channel(patience_s, is_done)
        return lacks

    def close_channel(self, patience_s: float, is_done: IsDone) -> None:
        """Say goodbye to the store."""
        for channel in self.channels:
            channel.close(patience_s, is_done)
        persistences = list(self._persistences.values())
        self._persistences.clear()
        for persistence in persistences:
            persistence.close()

    def check_here(self) -> None:
        """Refuse to work in a forked child."""
        self.birth.check_here()

    @property
    def is_foreign(self) -> bool:
        """Whether it was made before a fork: then it has no threads here, and there is nothing to close."""
        return self.birth.is_elsewhere

    def check_open(self) -> None:
        """Refuse to work once it is closed."""
        if self.closed:
            raise closed_error()

    def drain(self) -> bool:
        """Take note of what happened; false once nothing more will."""
        links = self.links
        return self.events.refill(self._take_events, list if links is None else links.take_events)

    def _take_events(self) -> list[tuple[str, int, dict[str, Any]]] | None:
        """What the extension tells, with links by their names."""
        told = self.node.take_events()
        for kind, _, details in told or ():
            if kind in ("link_down", "link_up"):
                number = details["link"]
                group = next((group for group in list(self._groups.values()) if group.link == number), None)
                details["link"] = "" if group is None else group.url
                details.setdefault("address", "" if group is None else group.address)
        return told

    def on_change(self) -> None:
        """Something changed: log what deserves it, and end requests that no program will answer."""
        self.drain()
        if not self.closed:
            for pattern in self.node.take_nearly_full():
                # A subscription to a reserved topic may only claim it: nobody reads that.
                if not pattern.startswith("_"):
                    self.events.add(QueueNearlyFull(pattern))
            self.replies.check(self.node)

    def subscribe(
        self,
        pattern: str,
        *,
        selector: str | Selector | None,
        correlation: str | CorrelationFilter | None,
        no_local: bool,
        queue_bytes_max: int,
        queue_full: QueueFull,
    ) -> _core.Subscription:
        """Open a subscription."""
        self.check_open()
        check_pattern(pattern)
        check_flag("no_local", no_local)
        check_queue(queue_bytes_max)
        check_choice("queue_full", queue_full, QueueFull)
        wanted, related = selector_of(selector), correlation_of(correlation)
        return self.node.open_subscription(
            pattern,
            selector=None if wanted is None else wanted.core,
            correlation=None if related is None else related.core,
            no_local=no_local,
            queue_bytes_max=queue_bytes_max,
            when_full=queue_full,
        )

    def link(self) -> dict[str, Any]:
        """What the link uses; empty without a network."""
        described = self.node.describe_link()
        if described is None:
            return {}
        interface, address, receive_buffer_bytes = described
        return {
            "interface": interface,
            "address": address,
            "receive_buffer_bytes": receive_buffer_bytes,
            "socket_error": self.node.take_socket_error(),
        }

    def statistics(self) -> Statistics:
        """What was sent by multicast, and how members took it."""
        links = [self.node.norm_link(number) for number in list(self._groups)]
        return of_links(self.node.stats(), [link for link in links if link is not None])

    def reload_keys(self) -> None:
        """Read the key file and certificates again, and go on with what is in them now."""
        self.check_open()
        keys = keys_of(self.config.key, self.config.key_file) if self.config.scheme == "norm" else None
        changed = keys is not None and self.node.set_keys(keys)
        if self.links is not None:
            changed |= self.links.reload_certificates()
        if not changed:
            raise ConfigError(
                "this connection has no key and no certificates: connect with key_file, or set "
                "SHOAL_KEY_FILE, or use tls://"
            )

    def describe(self, kind: str) -> str:
        """The connection's `repr`."""
        what = self.config.where() if self.stand_in is None else self.stand_in.where()
        if self.config.has_links and self.stand_in is None and self.links is not None:
            what = self.links.first_url or what
        if self.config.scheme != "inproc":
            what += f" domain={self.config.domain!r}"
        if self.closed:
            return f"<{kind} {what} closed>"
        try:
            count = len(self.node.members)
        except RuntimeError:
            return f"<{kind} {what} of another process>"
        return f"<{kind} {what} {count} member{'' if count == 1 else 's'}>"

    def say_failed(self, callback: Callable[..., object], message: Message, error: BaseException) -> None:
        """Log that a callback raised, unless it does so all the time."""
        line = self.failures.admit(
            name_of(callback), notices.CALLBACK_FAILED(topic=message.topic, why=named(error))
        )
        if line is not None:
            line.log(log, exc_info=error)

    def hint_at_levels(self, topic: str) -> None:
        """Log once that dots separate no levels, if a topic has only dots and no subscriber.

        Publishing alone is no reason: dots are right in names of files and hosts.
        """
        meant = dotted(topic)
        if self._hinted or meant is None or self.node.subscribers(topic):
            return
        self._hinted = True
        notices.DOTTED_TOPIC(topic=topic, meant=meant).log(log)

    def say_held(self) -> None:
        """Log how much was not logged."""
        self.events.warnings.close()
        for name, held in self.failures.take_held().items():
            notices.CALLBACK_ERRORS_SUPPRESSED(callback=name, count=held).log(log)

    def say_undelivered(self, undelivered: Undelivered, *, at_exit: bool = False) -> None:
        """Log what a connection that is closed did not deliver."""
        if self.private:
            return
        for line in undelivered.lines(self.describe("Bus"), at_exit=at_exit):
            line.log(log)


class _Persistently:
    """Publishes persistent and retained messages for a node, which does not keep its connection."""

    def __init__(self, target: "weakref.ref[Connection]") -> None:
        self._target = target

    def __call__(
        self, topic: str, body: Any, *, persistent: bool = False, retain: bool = False, **options: Any
    ) -> "int | Receipt":
        connection = self._target()
        if connection is None:
            raise closed_error()
        if not retain:
            return self._persistent(connection, topic, body, options)
        if persistent:
            module = importlib.import_module("shoal.bus.retained")
            options["properties"] = module.marked(options.get("properties"))
        headers = {name: value for name, value in options.items() if name not in ("window", "timeout_s")}
        with connection.retained().keeping(topic, body, headers) as keep:
            if persistent:
                receipt = self._persistent(connection, topic, body, options)
                keep(receipt.id)
                return receipt
            number: int = connection.node.publish(topic, body, **options)
            keep(connection.retained_id(number, topic, options.get("priority", 4)))
            return number

    @staticmethod
    def _persistent(connection: Connection, topic: str, body: Any, options: dict[str, Any]) -> "Receipt":
        what = f"publishing on {topic!r} with persistent=True"
        return connection.persistence(topic).publish(topic, body, what=what, **options)


def closed_error(what: str = "the connection is closed") -> BaseException:
    """What a closed connection raises; a thread left behind at exit is ended without a word."""
    return SystemExit() if _core.is_abandoned() else ClosedError(what)


@contextlib.contextmanager
def closing_on_error(connection: Connection) -> Iterator[None]:
    """Leave no member behind where a connection cannot be had."""
    try:
        yield
    except BaseException:
        connection.closed = True
        connection.shut_down()
        raise
