"""Where messages go: topics and queues by name. Nothing here is connected.

NaradaBrokering writes topics as a path of tags and values, `/country=DK/city=*`. Shoal writes the same as
`country=DK,city=*`, and both match `country/DK/city/*`.
"""

import functools
import re
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from shoal.errors import InvalidArgumentError, InvalidDestinationError
from shoal.jms.java_names import JavaNames
from shoal.types import QueueName, is_text

#: The names of temporary destinations, which only their connection reads.
_TEMPORARY = re.compile(r"_?temporary/[0-9a-f]{16}/\d+")


class Destination(JavaNames):
    """A topic or a queue. Immutable; may be shared between threads.

    Two are equal if they are of one kind and their names mean the same.
    """

    __slots__ = ("_bus_name", "_has_owner", "_name", "_reply_name")
    #: Whether what is sent here goes to one receiver.
    is_queue: ClassVar[bool] = False
    #: What it is, in a text.
    _kind = "destination"
    #: Whether it belongs to one connection.
    is_temporary: ClassVar[bool] = False
    #: Whether it was a temporary one, and is no more.
    is_deleted = False

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"name is {name!r}, and must be a str such as 'prices/ACME'")
        if not name:
            raise InvalidDestinationError(f"the name of a {self._kind} must not be empty")
        if not is_text(name):
            raise InvalidDestinationError(
                f"the name of a {self._kind} has a character that cannot be sent: {name!r}"
            )
        self._name = name
        self._bus_name = from_narada(name) if name.startswith("/") else name
        #: Whether it is a temporary one by its name, or may match some: their connections consume them.
        self._has_owner = _is_temporary(self._bus_name) or self._bus_name.startswith("_temporary/")
        #: As the bus takes it for answers.
        self._reply_name: str = QueueName(self._bus_name) if self.is_queue else self._bus_name

    @property
    def name(self) -> str:
        """The name as it was given."""
        return self._name

    @property
    def bus_name(self) -> str:
        """The name as `shoal.connect` takes it; another one if it was given in Narada's form."""
        return self._bus_name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Destination):
            return NotImplemented
        return isinstance(self, Topic) == isinstance(other, Topic) and self._bus_name == other._bus_name

    def __hash__(self) -> int:
        return hash(self._bus_name)

    def __str__(self) -> str:
        return f"{self._kind} {self._name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


class Topic(Destination):
    """What is sent here goes to every subscriber.

    A consumer's may have wildcards: `*` is one level, `>` all that follow. Narada's form
    `/country=DK/city=*` is understood, and `narada_name` writes any name of pairs so.
    """

    __slots__ = ()
    _kind = "topic"

    @property
    def topic_name(self) -> str:
        """The name as it was given."""
        return self._name

    @property
    def narada_name(self) -> str:
        """The name as NaradaBrokering writes it.

        Raises:
            InvalidDestinationError: its levels are no pairs of a tag and a value.
        """
        return to_narada(self._bus_name)


class Queue(Destination):
    """What is sent here goes to one receiver."""

    __slots__ = ()
    is_queue: ClassVar[bool] = True
    _kind = "queue"

    @property
    def queue_name(self) -> str:
        """The name as it was given."""
        return self._name


class _Temporary(Destination):
    """What temporary destinations have: an owner, and an end."""

    __slots__ = ("__weakref__", "_delete", "is_deleted")
    is_temporary: ClassVar[bool] = True

    def __init__(self, name: str, delete: "Callable[[Any], None] | None" = None) -> None:
        super().__init__(name)
        self._delete = delete
        self.is_deleted = False

    def delete(self) -> None:
        """End it.

        Raises:
            IllegalStateError: a consumer still reads it.
            InvalidDestinationError: another connection made it.
        """
        if self._delete is None:
            raise InvalidDestinationError(f"{self} was made by another connection, which alone can delete it")
        self._delete(self)
        self.is_deleted = True

    def __copy__(self) -> NoReturn:
        raise TypeError("a temporary destination is unique: it cannot be copied")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a temporary destination is unique: it cannot be pickled")


class TemporaryTopic(_Temporary, Topic):
    """A topic of one connection, which alone may read it; it ends with the connection, or by `delete`."""

    __slots__ = ()
    _kind = "temporary topic"


class TemporaryQueue(_Temporary, Queue):
    """A queue of one connection, which alone may read it; it ends with the connection, or by `delete`."""

    __slots__ = ()
    _kind = "temporary queue"


def of_reply_to(name: str | None) -> Destination | None:
    """The destination that a message names for answers."""
    if name is None:
        return None
    if type(name) is not str and isinstance(name, QueueName):
        return TemporaryQueue(str(name)) if _is_temporary(name) else Queue(str(name))
    return of_topic(name)


def of_topic(name: str) -> Topic:
    """The topic of a received message."""
    return TemporaryTopic(name) if _is_temporary(name) else _known_topic(name)


@functools.lru_cache(maxsize=4096)
def _known_topic(name: str) -> Topic:
    return Topic(name)


def _is_temporary(name: str) -> bool:
    return name.startswith(("_temporary/", "temporary/")) and _TEMPORARY.fullmatch(name) is not None


def from_narada(path: str) -> str:
    """`/country=DK/city=*` as Shoal writes it, `country=DK,city=*`.

    Raises:
        InvalidDestinationError: this is no path of tags and values.
    """
    pairs = path.removeprefix("/").split("/")
    for pair in pairs:
        tag, equals, value = pair.partition("=")
        if not tag.strip() or not equals or not value.strip() or set("=,") & {*tag, *value}:
            raise InvalidDestinationError(
                f"{path!r} begins with a slash, and so must be written as NaradaBrokering does, "
                f"'/country=DK/city=*'; {pair!r} is no pair of a tag and a value"
            )
        if "*" in tag or ">" in tag:
            raise InvalidDestinationError(
                f"{path!r} has a wildcard in the tag {tag!r}: only values may have one"
            )
    return ",".join(pairs)


def to_narada(name: str) -> str:
    """A topic of pairs, in either of Shoal's forms, as NaradaBrokering writes it.

    Raises:
        InvalidDestinationError: its levels are no pairs of a tag and a value.
    """
    if "=" in name and "/" not in name:
        pairs = [pair.strip() for pair in name.split(",")]
        whole = all("=" in pair for pair in pairs)
    else:
        levels = name.split("/")
        whole = len(levels) % 2 == 0
        pairs = [f"{tag}={value}" for tag, value in zip(levels[::2], levels[1::2], strict=False)]
    path = "/" + "/".join(pairs)
    if not whole:
        raise InvalidDestinationError(f"{name!r} is no list of tags and values, such as 'country=DK,city=*'")
    from_narada(path)
    return path


def checked_destination(destination: object) -> Destination:
    """A destination, as every call that takes one checks it."""
    if isinstance(destination, Destination):
        return destination
    wanted = "a Topic or a Queue, as session.create_topic makes one"
    if destination is None:
        raise InvalidDestinationError(f"there is no destination: give {wanted}")
    raise InvalidDestinationError(f"destination is {destination!r}, and must be {wanted}")
