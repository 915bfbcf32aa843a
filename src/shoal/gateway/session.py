"""One client's STOMP session: a state machine. No sockets and no clock: time comes as an argument.

    state      what the client may send              what ends it
    WAITING    CONNECT or STOMP                      5 s without one; anything else
    GREETING   nothing is read until the answer      `welcome`, `fail`
    OPEN       every command but CONNECT and STOMP   DISCONNECT, silence, `fail`
    ENDING     nothing is read                       `end`, when the work of the frames before is done
    CLOSED     nothing

Input: `handle_bytes`, `handle_timeout`. Commands: `welcome`, `write`, `receipt`, `fail`, `end`. Output:
`poll_command`, then `poll_transmit`; `poll_timeout` says when to call `handle_timeout`. A session that is
`CLOSED` has an ERROR or the last RECEIPT to transmit, and then its connection is to be closed.
"""

import enum

from shoal.gateway.commands import Command, Connect, Disconnect, command_of
from shoal.gateway.frames import FrameError, FrameReader, encode

#: How long a client has for its first frame.
CONNECT_S = 5.0
#: How often this side offers to send, and wants to receive, a heart-beat.
HEART_BEAT_MS = 10_000
#: Intervals without a byte after which a client is silent.
SILENT_INTERVALS = 2.5
#: Before it is known who it is, a client has a body of no length, and little of anything.
_FIRST_BYTES_MAX = 16_384


class State(enum.Enum):
    """Where a session is."""

    WAITING = "waiting"
    GREETING = "greeting"
    OPEN = "open"
    ENDING = "ending"
    CLOSED = "closed"


#: What a client may send.
_FIRST = frozenset({"CONNECT", "STOMP"})


class Session:
    """One session. For one thread at a time.

    Args:
        now: when the connection was accepted.
        body_bytes_max: the longest body of a SEND.
    """

    def __init__(self, now: float, *, body_bytes_max: int) -> None:
        self.state = State.WAITING
        self._reader = FrameReader(0)
        self._body_bytes_max = body_bytes_max
        self._out: list[bytes] = []
        self._first_by = now + CONNECT_S
        self._heard_at = self._said_at = now
        #: Seconds between heart-beats, of this side and of the client; none if there are none.
        self._beats_s: float | None = None
        self._hears_s: float | None = None
        self._client_beats = (0, 0)

    # --- getters ---

    @property
    def buffered(self) -> int:
        """Bytes that came and were not understood yet."""
        return self._reader.buffered

    @property
    def is_over(self) -> bool:
        """Whether the connection is to be closed once everything was transmitted."""
        return self.state is State.CLOSED

    # --- input ---

    def handle_bytes(self, now: float, data: bytes) -> None:
        """Bytes of the client."""
        self._heard_at = now
        if self.state in (State.CLOSED, State.ENDING):
            return
        self._reader.feed(data)
        if self.state is State.WAITING and self._reader.buffered > _FIRST_BYTES_MAX:
            self.fail("The first frame must be CONNECT.", now=now)

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        if self.state is State.WAITING and now >= self._first_by:
            self.fail(f"No CONNECT came within {CONNECT_S:g} s.", now=now)
        elif self.state is State.OPEN:
            silent_at = self._silent_at()
            if silent_at is not None and now >= silent_at:
                self.fail(f"Nothing came for {now - self._heard_at:.0f} s, not even a heart-beat.", now=now)
            elif self._beats_s is not None and now >= self._said_at + self._beats_s:
                self.write(now, b"\n")

    def _silent_at(self) -> float | None:
        return None if self._hears_s is None else self._heard_at + SILENT_INTERVALS * self._hears_s

    # --- commands ---

    def welcome(self, now: float, *, session: str, server: str) -> None:
        """The client is admitted."""
        if self.state is not State.GREETING:
            return
        self.state = State.OPEN
        self._reader.body_bytes_max = self._body_bytes_max
        sends_ms, wants_ms = self._client_beats
        self._beats_s = max(HEART_BEAT_MS, wants_ms) / 1000 if wants_ms else None
        self._hears_s = max(HEART_BEAT_MS, sends_ms) / 1000 if sends_ms else None
        beats = f"{HEART_BEAT_MS},{HEART_BEAT_MS}"
        headers = [("version", "1.2"), ("session", session), ("server", server), ("heart-beat", beats)]
        self.write(now, encode("CONNECTED", headers))

    def write(self, now: float, data: bytes) -> None:
        """Transmit whole frames, or a heart-beat."""
        if self.state is not State.CLOSED:
            self._said_at = now
            self._out.append(data)

    def receipt(self, now: float, id: str) -> None:
        """What a frame asked for is done."""
        self.write(now, encode("RECEIPT", [("receipt-id", id)]))

    def fail(self, text: str, *, now: float, receipt: str | None = None, error: str = "Malformed") -> None:
        """Tell the client why, and end the session."""
        if self.state is State.CLOSED:
            return
        headers: list[tuple[str, object]] = [("message", text), ("shoal-error", error)]
        if self.state is State.WAITING:
            headers.append(("version", "1.2"))
        if receipt is not None:
            headers.append(("receipt-id", receipt))
        headers.append(("content-type", "text/plain"))
        self.write(now, encode("ERROR", headers, text.encode()))
        self.state = State.CLOSED

    def end(self) -> None:
        """Everything before DISCONNECT is done, or the connection is lost."""
        self.state = State.CLOSED

    # --- output ---

    def poll_command(self, now: float) -> Command | None:
        """What the client asks for next; none if it has to say more, or to be welcomed first."""
        if self.state not in (State.WAITING, State.OPEN):
            return None
        frame = None
        try:
            frame = self._reader.poll_frame()
            if frame is None:
                return None
            if (frame.command in _FIRST) != (self.state is State.WAITING):
                wanted = "be CONNECT" if self.state is State.WAITING else "not be CONNECT: there was one"
                raise FrameError(f"The frame is {frame.command!r:.50}, and must {wanted}.")
            command = command_of(frame)
            if isinstance(command, Connect):
                self._client_beats = _beats_of(frame.headers.get("heart-beat", "0,0"))
                self.state = State.GREETING
            elif isinstance(command, Disconnect):
                self.state = State.ENDING
            return command
        except FrameError as error:
            receipt = None if frame is None else frame.headers.get("receipt")
            self.fail(str(error), now=now, receipt=receipt)
            return None

    def poll_transmit(self) -> bytes:
        """Bytes for the client, none if there are none; whole frames and heart-beats."""
        out, self._out = self._out, []
        return b"".join(out)

    def poll_timeout(self) -> float | None:
        """When to call `handle_timeout`, if nothing happens before."""
        if self.state is State.WAITING:
            return self._first_by
        if self.state is not State.OPEN:
            return None
        beat_at = None if self._beats_s is None else self._said_at + self._beats_s
        return min((at for at in (beat_at, self._silent_at()) if at is not None), default=None)


def _beats_of(text: str) -> tuple[int, int]:
    """How often a client can send, and wants to receive, in milliseconds."""
    sends, comma, wants = text.partition(",")
    if not comma or not all(
        part.isascii() and part.isdecimal() and len(part) < 10 for part in (sends, wants)
    ):
        raise FrameError(f"heart-beat is {text!r:.50}, and must be two numbers of milliseconds: 10000,10000.")
    return int(sends), int(wants)
