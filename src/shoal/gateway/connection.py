"""One client's connection: a socket, a carrier, a session and the client's place at the desk.

Nothing is decided here. Bytes go to the session, its commands to the desk, outcomes back as receipts, in the
order of their frames. While a command waits, and while outcomes are outstanding, the socket is not read.
"""

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from shoal import Message, __version__
from shoal.bus.ahead import Outcome
from shoal.errors import InvalidDestinationError, JMSSecurityError, LeaseError, ShoalError
from shoal.gateway import commands, content
from shoal.gateway.carriers import Carrier
from shoal.gateway.consumers import Consumer
from shoal.gateway.desk import DeskClient
from shoal.gateway.destinations import parse
from shoal.gateway.frames import FrameError, encode
from shoal.gateway.session import Session

if TYPE_CHECKING:
    from shoal.gateway.server import Gateway

log = logging.getLogger("shoal.gateway")

#: Above this many bytes that did not leave, nothing more is delivered; below the other it goes on.
UNSENT_HIGH, UNSENT_LOW = 256 << 10, 64 << 10
#: While a command waits, the socket is read up to this.
UNREAD_MAX = 64 << 10
#: Frames whose outcomes are outstanding.
OUTCOMES_MAX = 1000
#: How often to look whether what was delivered has left.
SENT_CHECK_S = 0.01
#: How long the last bytes have to leave.
CLOSE_S = 2.0
#: How long a client whose token is wrong waits for its answer.
REFUSED_S = 1.0


class _Expected(NamedTuple):
    """A frame whose outcome is outstanding."""

    receipt: str | None
    outcomes: tuple[Outcome, ...]
    #: An acknowledgement without a receipt: if it fails, the store delivers the message again.
    is_tolerant: bool


class Connection(asyncio.Protocol):
    """One connection. For its event loop."""

    def __init__(self, gateway: "Gateway", carrier: Carrier) -> None:
        self._gateway, self._carrier = gateway, carrier
        self._session = Session(time.monotonic(), body_bytes_max=gateway.config.message_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._client: DeskClient | None = None
        self._heads: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._came = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_busy = self._is_paused = self._is_flushing = False
        self._expected: deque[_Expected] = deque()
        self._settled = asyncio.Event()
        #: Bytes that were written; and calls, each with the number of bytes that must have left before it.
        self._written = 0
        self._when_sent: deque[tuple[int, Callable[[], None]]] = deque()
        self._sent_timer: asyncio.TimerHandle | None = None
        self._messages = 0
        self.address = ""

    # --- the socket ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=UNSENT_HIGH, low=UNSENT_LOW)
        if (sock := transport.get_extra_info("socket")) is not None:
            # A client without heart-beats whose machine is gone is noticed by the kernel.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.address = str((transport.get_extra_info("peername") or ("?",))[0])
        if not self._gateway.take_in(self):
            self._fail_now("The gateway has as many connections as it may: connect later.", "Full")
            return
        self._task = asyncio.create_task(self._work(), name="shoal-gateway-client")
        self._arm()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        payload = self._carrier.receive(data)
        self._answer()
        if payload:
            self._session.handle_bytes(time.monotonic(), payload)
            self._came.set()
            if not self._gateway.has_room(self, self._session.buffered):
                self._fail_now("The gateway has no room for the rest of a long frame: send it later.", "Full")
            if self._is_busy and self._session.buffered > UNREAD_MAX:
                self._pause(True)
            if self._session.is_over:
                self._flush()
        if self._carrier.is_over:
            self._shut()

    def pause_writing(self) -> None:
        """Too much has not left."""
        self._room.clear()

    def resume_writing(self) -> None:
        """There is room again."""
        self._room.set()
        self._look_at_sent()

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        self._transport = None
        self._session.end()
        for timer in (self._timer, self._sent_timer):
            if timer is not None:
                timer.cancel()
        self._room.set()
        if self._task is not None:
            self._task.cancel()
        self._gateway.let_go(self, self._client)
        self._client = None

    def _pause(self, is_paused: bool) -> None:
        if self._transport is not None and is_paused != self._is_paused and not self._transport.is_closing():
            self._is_paused = is_paused
            (self._transport.pause_reading if is_paused else self._transport.resume_reading)()

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if transport is not None and data and not transport.is_closing():
            transport.write(data)
            self._written += len(data)

    def _answer(self) -> None:
        self._write(self._carrier.poll_answer())

    def _flush(self) -> None:
        """Send what the session has to say; close after its last words."""
        self._is_flushing = False
        out = self._session.poll_transmit()
        if out:
            self._write(self._carrier.carry(out))
        if self._session.is_over:
            self._shut()

    def _shut(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._session.end()
        self._write(self._carrier.finish())
        transport.close()
        # A client that does not read does not keep the connection.
        asyncio.get_running_loop().call_later(CLOSE_S, transport.abort)

    def _fail_now(self, text: str, error: str, receipt: str | None = None) -> None:
        self._session.fail(text, now=time.monotonic(), receipt=receipt, error=error)
        self._flush()

    def close(self) -> None:
        """The gateway ends."""
        self._fail_now("The gateway is closing: connect to another one, or later.", "Closing")

    # --- time ---

    def _arm(self) -> None:
        due = self._session.poll_timeout()
        if due is None or self._transport is None:
            self._timer = None
            return
        wait_s = max(due - time.monotonic(), 0.0)
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._timeout)

    def _timeout(self) -> None:
        self._session.handle_timeout(time.monotonic())
        self._flush()
        self._arm()

    # --- deliveries: `consumers.Outlet` ---

    async def wait_room(self) -> None:
        """Return when the socket takes more."""
        await self._room.wait()

    def deliver(self, consumer: Consumer, messages: Sequence[Message], ids: Sequence[str | None]) -> None:
        """Send messages."""
        head = self._heads.get(consumer.key)
        if head is None:
            head = self._heads[consumer.key] = content.head_of(consumer.key)
        dropped, frames = consumer.take_dropped(), []
        for message, ack in zip(messages, ids, strict=True):
            self._messages += 1
            frames.append(
                content.frame_of(
                    message,
                    subscription=head,
                    destination=consumer.destination,
                    ack=ack,
                    dropped=dropped,
                    number=self._messages,
                )
            )
            dropped = 0
        self._session.write(time.monotonic(), b"".join(frames))
        self._flush()

    def when_sent(self, call: Callable[[], None]) -> None:
        """Call when what was written before has left."""
        self._when_sent.append((self._written, call))
        self._look_at_sent()

    def _look_at_sent(self) -> None:
        self._sent_timer = None
        if self._transport is None:
            return
        left = self._written - self._transport.get_write_buffer_size()
        while self._when_sent and self._when_sent[0][0] <= left:
            self._when_sent.popleft()[1]()
        if self._when_sent:
            self._sent_timer = asyncio.get_running_loop().call_later(SENT_CHECK_S, self._look_at_sent)

    def ended(self, consumer: Consumer, error: ShoalError | None) -> None:
        """Nothing more comes for a subscription."""
        if error is not None:
            self._fail_now(f"The subscription {consumer.key!r} ended: {error}", type(error).__name__)
        elif consumer.browses:
            headers = [("subscription", consumer.key), ("message-id", "end"), ("browser", "end")]
            headers.append(("destination", consumer.destination or ""))
            self._session.write(time.monotonic(), encode("MESSAGE", headers))
            self._flush()

    # --- commands ---

    async def _work(self) -> None:
        session = self._session
        while not session.is_over:
            command = session.poll_command(time.monotonic())
            self._gateway.has_room(self, session.buffered)
            if command is None:
                self._flush()
                self._is_busy = False
                self._pause(False)
                self._came.clear()
                await self._came.wait()
                self._is_busy = True
                continue
            try:
                await self._do(command)
            except (ShoalError, FrameError, ValueError, TypeError) as error:
                self._fail_now(str(error), type(error).__name__, command.receipt)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self._gateway.note_fault(error)
                self._fail_now("The gateway failed: see its log.", "Internal", command.receipt)

    async def _do(self, command: commands.Command) -> None:
        if isinstance(command, commands.Connect):
            await self._connect(command)
            return
        client = self._client
        if client is None:
            return
        outcomes: list[Outcome | None] = []
        is_tolerant = False
        match command:
            case commands.Send():
                outcomes.append(await self._send(client, command))
            case commands.Ack():
                outcomes.append(client.acknowledge(command.id, command.transaction))
                is_tolerant = command.receipt is None
            case commands.Nack():
                outcomes += client.refuse(command.id, command.transaction, dead=command.dead)
                is_tolerant = command.receipt is None
            case commands.Subscribe():
                await client.subscribe(command)
            case commands.Unsubscribe():
                await client.unsubscribe(command.id, command.durable)
                self._heads.pop(command.id, None)
            case commands.Begin():
                await client.begin(command.transaction, command.number)
            case commands.Commit():
                await client.commit(command.transaction)
            case commands.Abort():
                client.abort(command.transaction)
        await self._expect(command.receipt, outcomes, is_tolerant=is_tolerant)
        if isinstance(command, commands.Disconnect):
            while self._expected and not self._session.is_over:
                await self._wait_settled()
            self._session.end()
            self._flush()

    async def _connect(self, command: commands.Connect) -> None:
        desk = self._gateway.desk
        try:
            principal = desk.check(command.login, command.passcode)
        except JMSSecurityError as error:
            self._gateway.note_refused(self.address, error)
            await asyncio.sleep(REFUSED_S)
            raise
        client = await desk.admit(
            self, principal=principal, client_id=command.client_id, publisher=command.publisher
        )
        if self._transport is None:
            await client.close()
            return
        client.on_dismissed = lambda error: self._fail_now(str(error), type(error).__name__)
        self._client = client
        session = f"{client.number}-{secrets.token_hex(4)}"
        self._session.welcome(time.monotonic(), session=session, server=f"shoal/{__version__}")

    async def _send(self, client: DeskClient, command: commands.Send) -> Outcome | None:
        headers = command.headers
        size = len(command.body) + sum(len(name) + len(value) for name, value in headers.items())
        await self._gateway.desk.pace(client, size)
        options = content.options_of(headers, time.time())
        body = content.body_of(headers, command.body)
        if options is None:
            # It was too late for it when it came.
            return None
        return await client.publish(
            parse(command.destination),
            body,
            options,
            reply_to=headers.get("reply-to"),
            transaction=command.transaction,
            number=command.number,
            repeated=headers.get("shoal-repeat") == "true",
        )

    # --- outcomes ---

    async def _expect(
        self, receipt: str | None, outcomes: Sequence[Outcome | None], *, is_tolerant: bool
    ) -> None:
        """A frame was done as far as its order needs: say the receipt when its outcomes are known."""
        awaited = tuple(outcome for outcome in outcomes if outcome is not None)
        if not awaited and not self._expected:
            if receipt is not None:
                self._session.receipt(time.monotonic(), receipt)
            return
        if not awaited and receipt is None:
            return
        self._expected.append(_Expected(receipt, awaited, is_tolerant))
        for outcome in awaited:
            outcome.add_done_callback(self._settle)
        while len(self._expected) >= OUTCOMES_MAX and not self._session.is_over:
            self._flush()
            await self._wait_settled()

    async def _wait_settled(self) -> None:
        self._settled.clear()
        await self._settled.wait()

    def _settle(self, outcome: Outcome | None = None) -> None:
        """Say receipts of frames whose outcomes are known, in their order."""
        if outcome is not None and not outcome.cancelled():
            outcome.exception()
        while self._expected and all(each.done() for each in self._expected[0].outcomes):
            expected = self._expected.popleft()
            error = next((error for each in expected.outcomes if (error := _error(each))), None)
            if error is not None and not (expected.is_tolerant and isinstance(error, LeaseError)):
                self._fail_now(str(error), type(error).__name__, expected.receipt)
                self._expected.clear()
                break
            if expected.receipt is not None:
                self._session.receipt(time.monotonic(), expected.receipt)
        self._settled.set()
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)


def _error(outcome: Outcome) -> BaseException | None:
    if outcome.cancelled():
        return InvalidDestinationError("it was given up")
    return outcome.exception()


async def close_quietly(client: DeskClient) -> None:
    """Give back what a client had, whatever happens to the bus meanwhile."""
    with contextlib.suppress(ShoalError):
        await client.close()
