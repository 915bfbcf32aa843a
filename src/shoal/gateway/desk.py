"""What a gateway gives its clients, whatever protocol they speak: who they are, destinations, consumers with
credit, acknowledgements, transactions, temporary destinations.

All clients of a gateway share one connection of the bus. `Message.connection` is the number of the client
that sent it. A durable subscription has its client id in its name. A client that repeats messages has a
publisher of its own.
"""

import asyncio
import contextlib
import hashlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from shoal import Message
from shoal.bus.ahead import Outcome, Repeatable, publish_ahead
from shoal.bus.aio import Bus
from shoal.bus.aio_queues import Transaction
from shoal.bus.aio_subscription import Subscription
from shoal.bus.client_ids import bus_topic, has_others, jms_topic
from shoal.bus.persistent import check_queue_name
from shoal.config.access import ANONYMOUS, AccessFile, Action
from shoal.config.tokens import STORE_ROLES, Principal, Principals
from shoal.errors import (
    FlushError,
    IllegalStateError,
    InvalidClientIDError,
    InvalidDestinationError,
    JMSSecurityError,
    ResourceAllocationError,
    ShoalError,
)
from shoal.gateway.budget import Budget
from shoal.gateway.commands import Subscribe
from shoal.gateway.consumers import BrowseSource, Consumer, Outlet, Source, StoreSource, TopicSource
from shoal.gateway.destinations import Destination, check_reading, check_sending, parse
from shoal.jms.correlating import selector_of
from shoal.jms.property_names import CLIENT, GROUP_ID, client_hash
from shoal.types import QueueName

#: Consumers, open transactions and temporary destinations of one client.
CONSUMERS_MAX = 1000
TRANSACTIONS_MAX = 100
TEMPORARY_MAX = 100
#: Bytes of messages that wait for a client, of each of its first topics, and of each of those after.
UNSENT_BYTES_MAX, UNSENT_BYTES_LATER = 4 << 20, 64 << 10
UNSENT_FIRST = 16
#: How long a client id is looked for among the other nodes of a network before it counts as free.
CLIENT_ID_WAIT_S = 0.25
#: How long a subscription may take to be known to routers, before its receipt says so all the same.
KNOWN_S = 5.0


class Desk:
    """The desk of one gateway. For the tasks of one event loop.

    Args:
        bus: the connection that all clients share.
        principals: the token file; without it every client is admitted, and has no name.
        access: the rules file; without it a client that is admitted may do everything.
    """

    def __init__(
        self, bus: Bus, principals: Principals | None = None, access: AccessFile | None = None
    ) -> None:
        self.bus = bus
        self._principals, self._access = principals, access
        self._clients: set[DeskClient] = set()
        self._budget = Budget()
        self._numbers = itertools.count(1)
        #: Clients by their client ids, with what shows the domain that an id is taken.
        self._by_client_id: dict[str, tuple[DeskClient, Subscription]] = {}
        #: Repeatable messages by publisher, with how many clients use them.
        self._repeatable: dict[int, tuple[Repeatable, int]] = {}

    def check(self, login: str | None, passcode: str | None) -> Principal | None:
        """The principal whose token a client shows; none if the gateway asks for none.

        Raises:
            JMSSecurityError: the token is missing or wrong.
        """
        if self._principals is None:
            return None
        self._principals.refresh()
        found = None if passcode is None else self._principals.check(passcode)
        if found is None or (login is not None and login != found.name):
            raise JMSSecurityError(
                "The token is missing or wrong: give it as `passcode`, as `shoal token new` wrote it, and as "
                "`login` its principal, or nothing."
            )
        if found.role not in STORE_ROLES:
            raise JMSSecurityError(
                f"The token of {found.name!r} has the role {found.role!r}; a client needs client or operator."
            )
        return found

    async def admit(
        self, outlet: Outlet, *, principal: Principal | None, client_id: str | None, publisher: str | None
    ) -> "DeskClient":
        """One more client.

        Raises:
            InvalidClientIDError: a program elsewhere has the client id.
            ResourceAllocationError: the principal has as many connections as its quota allows.
        """
        client = DeskClient(self, outlet, next(self._numbers), principal, client_id, publisher)
        self._check_quota(client.name)
        self._clients.add(client)
        try:
            if client.client_id is not None:
                await self._claim(client, client.client_id)
        except BaseException:
            self._clients.discard(client)
            raise
        return client

    def _check_quota(self, name: str) -> None:
        quota = None if self._access is None else self._access.access.quota(name)
        if self._access is None or quota is None or quota.connections is None:
            return
        count = sum(client.name == name for client in self._clients)
        if count >= quota.connections:
            raise ResourceAllocationError(
                f"{name!r} has {count} connections, as many as the quota {quota.name!r} of "
                f"{self._access.access.source} allows."
            )

    async def pace(self, client: "DeskClient", size: int) -> None:
        """Wait as long as the quota of a client has it wait for so many bytes that it sends."""
        quota = None if self._access is None else self._access.access.quota(client.name)
        if quota is not None and quota.bytes_per_s is not None:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(self._budget.charge(now, client.name, size, quota.bytes_per_s))

    def refresh(self) -> list[str]:
        """Read the token file and the rules again if they changed: what is wrong with them, a text each.

        A client whose token was removed or replaced, or has another role, is told to go.
        """
        files = [file for file in (self._principals, self._access) if file is not None]
        wrong = [why for file in files if (why := file.refresh()) is not None]
        if self._principals is not None:
            for client in list(self._clients):
                if client.token is not None and self._principals.find(client.token.name) != client.token:
                    client.dismiss(
                        JMSSecurityError("The token was removed or replaced, or its role changed.")
                    )
        return wrong

    def allow(self, client: "DeskClient", action: Action, topic: str) -> None:
        """Refuse what no rule allows a client.

        Raises:
            JMSSecurityError: the text names the rule.
        """
        if self._access is None:
            return
        why = self._access.access.refusal(client.name, action, topic, operator=client.is_operator)
        if why is not None:
            raise JMSSecurityError(why)

    async def _claim(self, client: "DeskClient", client_id: str) -> None:
        """Take a client id. A client of this gateway that has it, such as a dead connection, gives it up."""
        former = self._by_client_id.get(client_id)
        if former is not None:
            former[0].dismiss(InvalidClientIDError("Another connection with the same client-id took over."))
            await former[0].close()
        topic, node = jms_topic(client_id), self.bus._connection.node
        claim = self.bus.subscribe(topic, queue_bytes_max=1, queue_full="drop_new")
        self._by_client_id[client_id] = client, claim
        wait_s = CLIENT_ID_WAIT_S if self.bus.config.scheme != "inproc" else 0.0
        is_taken = await self.bus.wait_for_subscribers(topic, 2, wait_s)
        if is_taken or has_others(node, bus_topic(client_id)) or self._holder(client_id) is not client:
            if self._holder(client_id) is client:
                del self._by_client_id[client_id]
            claim.close()
            raise InvalidClientIDError("The client-id is in use by another connection: choose another one.")

    def _holder(self, client_id: str) -> "DeskClient | None":
        entry = self._by_client_id.get(client_id)
        return None if entry is None else entry[0]

    def forget(self, client: "DeskClient") -> None:
        """A client is gone."""
        self._clients.discard(client)
        if client.client_id is not None and self._holder(client.client_id) is client:
            self._by_client_id.pop(client.client_id)[1].close()

    def repeatable(self, principal: str | None, publisher: str) -> Repeatable:
        """The repeatable messages of a client, which may have another connection here, that is about to end.

        Its publisher's id and key are hashes of what the client drew: every gateway makes the same of it.
        """
        whole = hashlib.sha256(f"{principal or ''}\n{publisher}".encode()).digest()
        number = int.from_bytes(whole[:8], "little") | 1
        found, users = self._repeatable.get(number, (None, 0))
        if found is None or found.failed:
            found, users = Repeatable(self.bus, number, whole[8:].hex()), 0
        self._repeatable[number] = found, users + 1
        return found

    async def give_back(self, repeatable: Repeatable) -> None:
        """A client is gone that had them."""
        number = repeatable.publisher
        found, users = self._repeatable.get(number, (None, 0))
        if found is not repeatable:
            await repeatable.close()
        elif users > 1:
            self._repeatable[number] = found, users - 1
        else:
            # Until everything is stored a client that comes back uses the same ones.
            self._repeatable[number] = found, 0
            await repeatable.settle()
            if self._repeatable.get(number) == (found, 0):
                del self._repeatable[number]
                await repeatable.close()


class DeskClient:
    """One client. For the tasks of one event loop; its commands are called one after the other."""

    def __init__(
        self,
        desk: Desk,
        outlet: Outlet,
        number: int,
        principal: Principal | None,
        client_id: str | None,
        publisher: str | None,
    ) -> None:
        #: The line of the token file that it was admitted with.
        self.token = principal
        self.principal = None if principal is None else principal.name
        #: As access rules call it, and whether they bind it.
        self.name = self.principal or ANONYMOUS
        self.is_operator = principal is not None and principal.is_operator
        #: As the domain knows it: principals do not share client ids.
        self.client_id = f"{self.principal}:{client_id}" if principal and client_id else client_id
        self.number = number
        self._desk, self._bus, self._outlet = desk, desk.bus, outlet
        self._publisher_name = publisher
        self._repeatable: Repeatable | None = None
        self._consumers: dict[str, Consumer] = {}
        self._by_number: dict[int, Consumer] = {}
        self._consumer_numbers = itertools.count(1)
        self._transactions: dict[str, _Transaction] = {}
        self._temporary: dict[str, tuple[str, Subscription]] = {}
        self._marks = {} if self.client_id is None else {CLIENT: client_hash(self.client_id)}
        self._closed = False
        #: Called if the client is to go, with the reason.
        self.on_dismissed: Callable[[ShoalError], None] = lambda error: None

    # --- sending ---

    async def publish(
        self,
        destination: Destination,
        body: Any,
        options: dict[str, Any],
        *,
        reply_to: str | None = None,
        transaction: str | None = None,
        number: int | None = None,
        repeated: bool = False,
    ) -> Outcome | None:
        """Send a message: what becomes of it, if a store has to keep it.

        Args:
            options: what `Bus.publish` takes.
            reply_to: where answers go, as the client calls it.
            transaction: send it when this transaction is committed.
            number: the client's own number of it, by which the store knows a repetition.
            repeated: the client may have sent it before.
        """
        check_sending(destination)
        if reply_to is not None:
            options["reply_to"] = self._reply_name(parse(reply_to))
        if self._marks:
            options["properties"] = {**(options.get("properties") or {}), **self._marks}
        options["connection"] = self.number
        if options.get("retain") and destination.kind != "topic":
            raise InvalidDestinationError("shoal-retain is for topics: /topic/NAME.")
        is_queue, name = destination.kind == "queue", self._bus_name(destination)
        topic = check_queue_name(name) if is_queue else name
        if not topic.startswith("_") or is_queue:
            # Answers may go wherever a request came from.
            self._desk.allow(self, "publish", topic)
        if is_queue:
            group = (options.get("properties") or {}).get(GROUP_ID)
            options["group"] = group if isinstance(group, str) else None
        if transaction is not None:
            self._open_transaction(transaction).add(name, body, options, is_queue=is_queue)
            return None
        what = f"sending to {destination.text}"
        if number is not None:
            messages = self._numbered()
            return await messages.publish(number, topic, body, what, repeated=repeated, **options)
        if is_queue or options["persistent"]:
            return await publish_ahead(self._bus, topic, body, what, **options)
        if "delivery_delay_s" in options:
            raise InvalidDestinationError(
                "shoal-delay is for what a store holds back: queues, and messages with persistent:true."
            )
        await self._bus.publish(name, body, **options)
        return None

    def _numbered(self) -> Repeatable:
        if self._publisher_name is None:
            raise IllegalStateError("shoal-id needs the header shoal-publisher of CONNECT.")
        if self._repeatable is None or self._repeatable.failed:
            self._repeatable = self._desk.repeatable(self.principal, self._publisher_name)
        return self._repeatable

    def _bus_name(self, destination: Destination) -> str:
        if destination.kind == "temporary":
            return self._temporary_of(destination)[0]
        return destination.name

    def _reply_name(self, destination: Destination) -> str:
        name = self._bus_name(destination)
        return QueueName(name) if destination.kind == "queue" else name

    def _temporary_of(self, destination: Destination) -> tuple[str, Subscription]:
        """The topic that stands for a temporary destination, read from its first mention on."""
        found = self._temporary.get(destination.name)
        if found is None:
            if len(self._temporary) >= TEMPORARY_MAX:
                raise ResourceAllocationError(
                    f"A connection has at most {TEMPORARY_MAX} temporary destinations."
                )
            topic = f"{self._bus._connection.replies.topic}/{self.number}/{len(self._temporary) + 1}"
            subscription = self._bus.subscribe(
                topic, queue_bytes_max=UNSENT_BYTES_MAX // 4, queue_full="drop_old"
            )
            found = self._temporary[destination.name] = topic, subscription
        return found

    # --- receiving ---

    async def subscribe(self, asked: Subscribe) -> None:
        """Begin to receive. Returns when routers, or the store, know of it."""
        if asked.id in self._consumers:
            raise IllegalStateError(
                f"There is a subscription {asked.id!r}: unsubscribe it, or use another id."
            )
        if len(self._consumers) >= CONSUMERS_MAX:
            raise ResourceAllocationError(f"A connection has at most {CONSUMERS_MAX} subscriptions.")
        destination = parse(asked.destination)
        check_reading(destination)
        self._allow_reading(asked, destination)
        number = next(self._consumer_numbers)
        source = await self._source(asked, destination)
        named = destination.text if destination.kind != "topic" else None
        consumer = Consumer(
            asked.id,
            number,
            source,
            self._outlet,
            mode=asked.ack,
            credit=asked.prefetch,
            destination=named,
            durable=asked.durable,
        )
        self._consumers[asked.id] = self._by_number[number] = consumer
        if destination.kind == "topic" and asked.durable is None and asked.receipt is not None:
            with contextlib.suppress(FlushError):
                await self._bus.sync(KNOWN_S)

    def _allow_reading(self, asked: Subscribe, destination: Destination) -> None:
        if destination.kind == "queue":
            action: Action = "browse" if asked.browser else "consume"
            self._desk.allow(self, action, check_queue_name(destination.name))
        elif destination.kind == "topic":
            self._desk.allow(self, "subscribe", destination.name)

    async def _source(self, asked: Subscribe, destination: Destination) -> Source:
        if asked.retained and (destination.kind != "topic" or asked.durable is not None or asked.browser):
            raise InvalidDestinationError(
                "shoal-retained is for topics without durable-subscription-name: /topic/NAME."
            )
        if asked.browser:
            return self._browsing(asked, destination)
        if asked.durable is not None:
            return await self._durable(asked, destination, asked.durable)
        if destination.kind == "queue":
            if asked.no_local:
                raise InvalidDestinationError(
                    "no-local is for topics: a queue would keep the messages that it leaves out."
                )
            selector = selector_of(asked.selector, asked.correlation)
            consumer = await self._bus.queue(destination.name).consume(selector=selector, ack="manual")
            return StoreSource(consumer)
        if destination.kind == "temporary":
            if asked.selector or asked.correlation or asked.no_local:
                raise InvalidDestinationError(
                    "A temporary destination has no selector, correlation or no-local."
                )
            if any(consumer.destination == destination.text for consumer in self._consumers.values()):
                raise IllegalStateError(f"{destination.text!r:.100} has a subscription already.")
            return TopicSource(self._temporary_of(destination)[1])
        is_early = sum(1 for each in self._consumers.values() if each.destination is None) < UNSENT_FIRST
        subscription = self._bus.subscribe(
            destination.name,
            selector=asked.selector,
            correlation=asked.correlation,
            queue_bytes_max=UNSENT_BYTES_MAX if is_early else UNSENT_BYTES_LATER,
            queue_full="drop_old",
            retained=asked.retained,
        )
        return TopicSource(subscription, self._is_own if asked.no_local else None)

    def _is_own(self, message: Message) -> bool:
        own = self._repeatable is not None and message.publisher == self._repeatable.publisher
        return message.connection == self.number and (own or message.publisher == self._bus.publisher)

    def _browsing(self, asked: Subscribe, destination: Destination) -> BrowseSource:
        if destination.kind != "queue" or asked.durable is not None:
            raise InvalidDestinationError("browser:true is for queues: /queue/NAME.")
        queue = self._bus.queue(destination.name)
        return BrowseSource(queue, selector_of(asked.selector, asked.correlation))

    async def _durable(self, asked: Subscribe, destination: Destination, name: str) -> StoreSource:
        """A durable subscription, the same that `shoal.jms` has under this client id and name."""
        if destination.kind != "topic":
            raise InvalidDestinationError("durable-subscription-name is for topics: /topic/NAME.")
        full = self._durable_name(name)
        if any(consumer.durable == name for consumer in self._consumers.values()):
            raise IllegalStateError(f"The durable subscription {name!r} is in use by this connection.")
        selector = selector_of(asked.selector, asked.correlation)
        if asked.no_local:
            theirs = f"({CLIENT} IS NULL OR {CLIENT} <> '{client_hash(self.client_id)}')"
            selector = f"({selector}) AND {theirs}" if selector else theirs
        options: Mapping[str, Any] = {"durable": True, "shared": full, "single": True, "ack": "manual"}
        consumer = await self._bus.subscribe(destination.name, selector=selector, **options)
        return StoreSource(consumer)

    def _durable_name(self, name: str) -> str:
        if self.client_id is None:
            raise IllegalStateError("A durable subscription needs the header client-id of CONNECT.")
        return f"{client_hash(self.client_id)}/{name}"

    async def unsubscribe(self, key: str, durable: str | None) -> None:
        """Receive no more; with `durable`, forget the durable subscription of this name and its backlog.

        Raises:
            IllegalStateError: there is no such subscription.
        """
        consumer = self._consumers.pop(key, None)
        if consumer is not None:
            del self._by_number[consumer.number]
            await consumer.close()
        elif durable is None:
            raise IllegalStateError(f"There is no subscription {key!r}.")
        if durable is not None:
            await self._bus.unsubscribe(self._durable_name(durable), shared=True)

    # --- acknowledging ---

    def acknowledge(self, id: str, transaction: str | None) -> Outcome | None:
        """The client has finished a message, or all up to it."""
        opened = None if transaction is None else self._open_transaction(transaction)
        consumer, messages = self._settle(id)
        if opened is None:
            return consumer.acknowledge(messages)
        opened.acknowledge(messages)
        return None

    def refuse(self, id: str, transaction: str | None, *, dead: bool) -> list[Outcome]:
        """The client gives a message back, or all up to it: they come again, or become dead letters."""
        opened = None if transaction is None else self._open_transaction(transaction)
        consumer, messages = self._settle(id)
        if dead:
            return consumer.give_up(messages)
        if opened is None:
            consumer.release(messages)
        else:
            opened.refused.append((consumer, messages))
        return []

    def _settle(self, id: str) -> tuple[Consumer, list[Message]]:
        left, _, right = id.partition("-")
        try:
            consumer = self._by_number[int(left)]
            return consumer, consumer.settle(int(right))
        except (KeyError, ValueError):
            raise IllegalStateError(
                f"No message of this connection waits to be acknowledged as {id!r:.50}: use the `ack` header "
                "of its MESSAGE, once, before UNSUBSCRIBE."
            ) from None

    # --- transactions ---

    async def begin(self, name: str, number: int | None) -> None:
        """Begin a transaction. With the client's own number, repeating its commit changes nothing."""
        if name in self._transactions:
            raise IllegalStateError(f"There is a transaction {name!r}: commit or abort it first.")
        if len(self._transactions) >= TRANSACTIONS_MAX:
            raise ResourceAllocationError(f"A connection has at most {TRANSACTIONS_MAX} open transactions.")
        id = None
        if number is not None:
            if self._publisher_name is None:
                raise IllegalStateError("shoal-id needs the header shoal-publisher of CONNECT.")
            whole = f"{self.principal or ''}\n{self._publisher_name}"
            id = f"stomp-{hashlib.sha256(whole.encode()).hexdigest()[:32]}-{number}"
        self._transactions[name] = _Transaction(await self._bus.transaction(id))

    async def commit(self, name: str) -> None:
        """Do everything of a transaction; returns when it is durable."""
        transaction = self._open_transaction(name)
        del self._transactions[name]
        await transaction.commit()

    def abort(self, name: str) -> None:
        """Do nothing of a transaction."""
        transaction = self._open_transaction(name)
        del self._transactions[name]
        transaction.abort()

    def _open_transaction(self, name: str) -> "_Transaction":
        found = self._transactions.get(name)
        if found is None:
            raise IllegalStateError(f"There is no transaction {name!r:.50}: send BEGIN first.")
        return found

    # --- the end ---

    def dismiss(self, error: ShoalError) -> None:
        """Tell the client to go."""
        self.on_dismissed(error)

    async def close(self) -> None:
        """Give back everything that the client has. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        for transaction in self._transactions.values():
            transaction.abort()
        self._transactions.clear()
        consumers = list(self._consumers.values())
        self._consumers.clear()
        self._by_number.clear()
        await asyncio.gather(*(consumer.close() for consumer in consumers))
        for _, subscription in self._temporary.values():
            subscription.close()
        self._temporary.clear()
        self._desk.forget(self)
        repeatable, self._repeatable = self._repeatable, None
        if repeatable is not None:
            await self._desk.give_back(repeatable)


class _Transaction:
    """A transaction of the bus, and what the client gives back with it."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        #: What goes back when the transaction is committed.
        self.refused: list[tuple[Consumer, list[Message]]] = []

    def add(self, name: str, body: Any, options: dict[str, Any], *, is_queue: bool) -> None:
        """Send a message with the commit."""
        send = self._transaction.send if is_queue else self._transaction.publish
        send(name, body, **options)

    def acknowledge(self, messages: list[Message]) -> None:
        """Acknowledge messages with the commit. Those of plain topics have nothing to acknowledge."""
        for message in messages:
            if message._delivery is not None:
                self._transaction.ack(message)

    async def commit(self) -> None:
        """Do everything."""
        await self._transaction.commit()
        self._release()

    def abort(self) -> None:
        """Do nothing; messages that it acknowledged are delivered again."""
        self._transaction.rollback()
        self._release()

    def _release(self) -> None:
        for consumer, messages in self.refused:
            consumer.release(messages)
        self.refused.clear()
