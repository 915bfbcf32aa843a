"""What clients and a store say to each other: ordinary bus messages whose bodies are mappings.

Here are the topics, the names and the bounds that both sides need; `docs/design/store-protocol.md` describes
every request. There is no codec: a body is a mapping in Shoal's own value encoding. Messages travel in it as
*rows*, bytes that only the extension makes and reads, exactly as a frame of the log has them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from shoal._core import Message, match_topics
from shoal.errors import InvalidTopicError, MessageFormatError
from shoal.types import is_text

#: A store and a client of different versions refuse each other.
VERSION: Final = 1

#: On the domain's bus: every store once a second, and at once after a question.
HERE: Final = "_store/here"
#: On the domain's bus: programs that look for a store.
WHO: Final = "_store/who"
#: What the destinations of queues begin with.
QUEUES: Final = "_queue/"
#: What the names of temporary topics begin with.
TEMPORARY: Final = "_temporary/"
#: What the names of temporary queues begin with.
TEMPORARY_QUEUES: Final = "temporary/"

#: A session of which nothing was heard for this time is over, unless it asked for another time.
LEASE_S: Final = 15.0
#: The time that clients ask for which have a link of their own to the store: its heartbeats renew the lease.
LINK_LEASE_S: Final = 3.0
#: How long a client has to connect again whose link was closed, as the link of a dead process is.
CLOSED_LEASE_S: Final = 0.5
#: How short and how long a lease may be.
LEASE_S_MIN: Final = 0.5
LEASE_S_MAX: Final = 3600.0
#: A client asks for an answer at least this often, so that both sides miss what was lost before a silence.
PING_S: Final = 5.0
#: A client that hears neither the store nor its link for this time looks for a store again.
STORE_SILENT_S: Final = 15.0
#: Rows of one request or delivery are no longer, except a single message, and a commit.
BATCH_BYTES_MAX: Final = 512 << 10
#: Rows of a transaction are no longer.
COMMIT_BYTES_MAX: Final = 64 << 20
#: Offsets are runs: first, last, first, last, …, both included, ascending. A request has no more numbers.
RUNS_MAX: Final = 20_000
#: What a request has beside its rows, at the most; and what one of its numbers takes.
REQUEST_BYTES: Final = 1024
NUMBER_BYTES: Final = 10
#: Bytes of messages that a connection may have published for live subscribers while they are not stored.
CREDIT_BYTES: Final = 32 << 20
#: The property of a persistent message that a store keeps as its topic's last value.
RETAIN: Final = "_retain"
#: Names of queues, subscriptions and clients are no longer, in bytes.
NAME_BYTES_MAX: Final = 200

#: What `error` of an answer can be, and what it means.
ERRORS: Final = {
    "VERSION": "the other side speaks another version of the protocol",
    "CLOSING": "the store is closing",
    "IN_USE": "another program uses it",
    "NO_SESSION": "the session is over, or never began",
    "NO_CONSUMER": "the session has no such consumer",
    "NO_CLIENT_ID": "a durable subscription of one's own needs a client id",
    "DIFFERS": "it exists, and was made otherwise",
    "EXISTS_NOT": "there is no such thing",
    "BAD_REQUEST": "the request makes no sense",
    "FULL": "the store has no room for messages",
    "BACKLOG": "the queue or subscription has as much as it may have",
    "NOT_OWNED": "another store keeps messages of this destination",
    "TOO_LONG": "a message or a transaction is too long",
    "BAD_ROWS": "rows cannot be read, or are not in order",
    "HOLE": "rows before these are missing",
    "LOOP": "a rule forwards messages back to the store that forwarded them",
    "LEASE": "the lease is over: what was delivered under it was given back",
    "DENIED": "a token is missing or wrong, or it belongs to another principal",
    "FAILED": "the store failed, and accepts no more requests",
}

#: What a store says to a session: the fields that each `op` must have, and their types.
SAID: Final[Mapping[str, Mapping[str, type]]] = {
    "answer": {"n": int},
    "challenge": {"n": int},
    "failed": {"n": int},
    "stored": {"publisher": int, "chain": int, "through": int},
    "passed": {"publisher": int, "chain": int, "through": int},
    "refused": {"publisher": int, "chain": int, "mark": int, "error": str},
    "credit": {"credit": int, "limited": list},
    "deliver": {"consumer": int, "lease": int, "first": int, "rows": bytes},
    "gone": {},
    "last": {"consumer": int, "lease": int, "error": str},
    "waiting": {"consumer": int, "messages": int, "holder": str, "silent_s": float, "left_s": float},
    "dropped": {"consumer": int, "messages": int},
}

#: The kind of body that the protocol uses, as the wire numbers them: a mapping of plain values.
_MAPPING: Final = 3


def body_of(message: Message) -> dict[str, Any] | None:
    """The mapping in a message of the protocol; none if the body is anything else, or cannot be read.

    No codec and no library runs on it: a stranger that reaches a door chooses the bytes.
    """
    if message._body_kind != _MAPPING:
        return None
    try:
        body = message.body
    except MessageFormatError:
        return None
    return body if isinstance(body, dict) else None


def is_said(body: Mapping[str, Any]) -> bool:
    """Whether a mapping has the fields of something that a store says."""
    op = body.get("op")
    fields = SAID.get(op) if isinstance(op, str) else None
    return fields is not None and all(isinstance(body.get(name), kind) for name, kind in fields.items())


def keeps(patterns: Sequence[str], destination: str) -> bool:
    """Whether a store that keeps these keeps all of a destination: a topic, a pattern, or that of a queue.

    What is temporary belongs to a connection, and so to the store that it speaks with.
    """
    name = queue_name(destination)
    if destination.startswith(TEMPORARY) or (name or "").startswith(TEMPORARY_QUEUES):
        return True
    return any(_covers(pattern.split("/"), (name or destination).split("/")) for pattern in patterns)


def _covers(wide: list[str], narrow: list[str]) -> bool:
    """Whether a pattern matches all that another one, or a topic, does."""
    for level, (mine, theirs) in enumerate(zip(wide, narrow, strict=False), 1):
        if mine == ">" and level == len(wide):
            return True
        if theirs == ">" or mine not in ("*", theirs):
            return False
    return len(wide) == len(narrow)


def requests_topic(store: str) -> str:
    """Where a store hears requests; `store` is its id, 16 hexadecimal digits."""
    return f"_store/{store}/in"


def session_topic(store: str, session: str, *, private: bool) -> str:
    """Where a session hears its store.

    On a bus that only a store and its clients are on it is an ordinary topic, which goes to its subscribers.
    A reserved one goes to every member.
    """
    return f"{'to' if private else f'_store/{store}/to'}/{session}"


def queue_topic(name: str) -> str:
    """The destination of a queue's messages."""
    return QUEUES + name


def is_queue_name(name: str) -> bool:
    """Whether a queue may be called so: what stands for it is a topic, and no pattern."""
    topic = queue_topic(name)
    if not is_text(name):
        return False
    try:
        return len(name.encode()) <= NAME_BYTES_MAX and match_topics([topic], [topic]) == [topic]
    except InvalidTopicError:
        return False


def queue_name(topic: str) -> str | None:
    """The queue of a destination; none if it is a topic."""
    return topic.removeprefix(QUEUES) if topic.startswith(QUEUES) else None
