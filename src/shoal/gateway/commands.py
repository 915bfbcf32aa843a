"""What a client asks for, checked: one frozen value for each STOMP command."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from shoal.gateway.frames import Frame, FrameError

#: Who acknowledges: the gateway, the client cumulatively, or the client each message.
AckMode = Literal["auto", "client", "client-individual"]
_MODES: Final[dict[str, AckMode]] = {
    "auto": "auto",
    "client": "client",
    "client-individual": "client-individual",
}
#: Messages that a client may have ahead of its acknowledgements, at the most.
PREFETCH_MAX: Final = 10_000
#: Characters of an id of a subscription, a transaction or a message, at the most.
ID_CHARACTERS_MAX: Final = 255

#: Headers that mean something to the gateway; every other header of SEND is a property.
SEND_HEADERS: Final = frozenset(
    {
        "destination",
        "transaction",
        "receipt",
        "content-length",
        "content-type",
        "persistent",
        "priority",
        "expires",
        "correlation-id",
        "reply-to",
        "type",
        "shoal-delay",
        "shoal-types",
        "shoal-publisher",
        "shoal-id",
        "shoal-repeat",
        "shoal-retain",
    }
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """What all have."""

    #: The client wants a RECEIPT with this id when it is done.
    receipt: str | None = None


@dataclass(frozen=True, kw_only=True)
class Connect(Command):
    """CONNECT, or STOMP."""

    login: str | None
    passcode: str | None
    client_id: str | None
    publisher: str | None


@dataclass(frozen=True, kw_only=True)
class Send(Command):
    """SEND."""

    destination: str
    headers: Mapping[str, str]
    body: bytes
    transaction: str | None
    #: The number that the client gave a persistent message, so that it may repeat it.
    number: int | None


@dataclass(frozen=True, kw_only=True)
class Subscribe(Command):
    """SUBSCRIBE."""

    id: str
    destination: str
    ack: AckMode
    selector: str | None
    correlation: str | None
    prefetch: int | None
    durable: str | None
    no_local: bool
    browser: bool
    #: The last value of each topic comes first.
    retained: bool = False


@dataclass(frozen=True, kw_only=True)
class Unsubscribe(Command):
    """UNSUBSCRIBE."""

    id: str
    #: Forget this durable subscription, too.
    durable: str | None


@dataclass(frozen=True, kw_only=True)
class Ack(Command):
    """ACK."""

    id: str
    transaction: str | None


@dataclass(frozen=True, kw_only=True)
class Nack(Command):
    """NACK: the message is delivered again, or becomes a dead letter."""

    id: str
    transaction: str | None
    dead: bool


@dataclass(frozen=True, kw_only=True)
class Begin(Command):
    """BEGIN."""

    transaction: str
    #: The number that the client gave the transaction, so that it may repeat it.
    number: int | None


@dataclass(frozen=True, kw_only=True)
class Commit(Command):
    """COMMIT."""

    transaction: str


@dataclass(frozen=True, kw_only=True)
class Abort(Command):
    """ABORT."""

    transaction: str


@dataclass(frozen=True, kw_only=True)
class Disconnect(Command):
    """DISCONNECT."""


def command_of(frame: Frame) -> Command:
    """What a frame asks for.

    Raises:
        FrameError: the command is unknown, or a header is missing or cannot be understood.
    """
    make = _MAKE.get(frame.command)
    if make is None:
        raise FrameError(f"{frame.command!r:.50} is no command of STOMP 1.2: use {', '.join(_MAKE)}.")
    return make(frame, frame.headers.get("receipt"))


def _connect(frame: Frame, receipt: str | None) -> Connect:
    headers = frame.headers
    versions = [version.strip() for version in headers.get("accept-version", "1.0").split(",")]
    if "1.2" not in versions:
        raise FrameError(f"The client speaks STOMP {', '.join(versions):.50}; this gateway speaks only 1.2.")
    return Connect(
        login=headers.get("login") or None,
        passcode=headers.get("passcode") or None,
        client_id=_name(headers, "client-id"),
        publisher=_name(headers, "shoal-publisher"),
    )


def _send(frame: Frame, receipt: str | None) -> Send:
    headers = frame.headers
    number, transaction = _number(headers, "shoal-id"), headers.get("transaction")
    if number is not None and transaction is not None:
        raise FrameError("SEND has a shoal-id and a transaction: give the id to BEGIN instead.")
    if number is not None and headers.get("persistent") != "true":
        raise FrameError("SEND has a shoal-id, which is for messages with persistent:true.")
    if transaction is not None and _flag(headers, "shoal-retain"):
        raise FrameError("SEND has shoal-retain and a transaction: transactions have no last values.")
    return Send(
        destination=_needed(frame, "destination"),
        headers=headers,
        body=frame.body,
        transaction=transaction,
        number=number,
        receipt=receipt,
    )


def _subscribe(frame: Frame, receipt: str | None) -> Subscribe:
    headers = frame.headers
    ack = _MODES.get(headers.get("ack", "auto"))
    if ack is None:
        raise FrameError(f"ack is {headers['ack']!r:.50}, and must be auto, client or client-individual.")
    prefetch = _number(headers, "prefetch-count")
    if prefetch is not None and prefetch > PREFETCH_MAX:
        raise FrameError(f"prefetch-count is {prefetch}, and must be 1 to {PREFETCH_MAX}.")
    return Subscribe(
        id=_id(frame, "id"),
        destination=_needed(frame, "destination"),
        ack=ack,
        selector=headers.get("selector") or None,
        correlation=headers.get("correlation") or None,
        prefetch=prefetch,
        durable=_name(headers, "durable-subscription-name"),
        no_local=_flag(headers, "no-local"),
        browser=_flag(headers, "browser"),
        retained=_flag(headers, "shoal-retained"),
        receipt=receipt,
    )


def _unsubscribe(frame: Frame, receipt: str | None) -> Unsubscribe:
    durable = _name(frame.headers, "durable-subscription-name")
    return Unsubscribe(id=_id(frame, "id"), durable=durable, receipt=receipt)


def _ack(frame: Frame, receipt: str | None) -> Ack:
    return Ack(id=_id(frame, "id"), transaction=frame.headers.get("transaction"), receipt=receipt)


def _nack(frame: Frame, receipt: str | None) -> Nack:
    dead, transaction = _flag(frame.headers, "shoal-dead"), frame.headers.get("transaction")
    if dead and transaction is not None:
        raise FrameError("NACK has shoal-dead and a transaction: dead letters have no part in transactions.")
    return Nack(id=_id(frame, "id"), transaction=transaction, dead=dead, receipt=receipt)


def _begin(frame: Frame, receipt: str | None) -> Begin:
    number = _number(frame.headers, "shoal-id")
    return Begin(transaction=_id(frame, "transaction"), number=number, receipt=receipt)


def _commit(frame: Frame, receipt: str | None) -> Commit:
    return Commit(transaction=_id(frame, "transaction"), receipt=receipt)


def _abort(frame: Frame, receipt: str | None) -> Abort:
    return Abort(transaction=_id(frame, "transaction"), receipt=receipt)


def _disconnect(frame: Frame, receipt: str | None) -> Disconnect:
    return Disconnect(receipt=receipt)


def _needed(frame: Frame, name: str) -> str:
    value = frame.headers.get(name)
    if not value:
        raise FrameError(f"{frame.command} needs the header {name}.")
    return value


def _id(frame: Frame, name: str) -> str:
    value = _needed(frame, name)
    if len(value) > ID_CHARACTERS_MAX:
        raise FrameError(f"{name} has {len(value)} characters; at most {ID_CHARACTERS_MAX} are allowed.")
    return value


def _name(headers: Mapping[str, str], name: str) -> str | None:
    value = headers.get(name) or None
    # A durable subscription is called by a hash and its name, which have their bound together.
    if value is not None and len(value) > 128:
        raise FrameError(f"{name} has {len(value)} characters; at most 128 are allowed.")
    return value


def _flag(headers: Mapping[str, str], name: str) -> bool:
    value = headers.get(name, "false")
    if value not in ("true", "false"):
        raise FrameError(f"{name} is {value!r:.50}, and must be true or false.")
    return value == "true"


def _number(headers: Mapping[str, str], name: str) -> int | None:
    value = headers.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or not 0 < int(value[:20]) < 1 << 53:
        raise FrameError(f"{name} is {value!r:.50}, and must be a whole number from 1 to 2^53 - 1.")
    return int(value)


_MAKE: Final[Mapping[str, Callable[[Frame, str | None], Command]]] = {
    "CONNECT": _connect,
    "STOMP": _connect,
    "SEND": _send,
    "SUBSCRIBE": _subscribe,
    "UNSUBSCRIBE": _unsubscribe,
    "ACK": _ack,
    "NACK": _nack,
    "BEGIN": _begin,
    "COMMIT": _commit,
    "ABORT": _abort,
    "DISCONNECT": _disconnect,
}
