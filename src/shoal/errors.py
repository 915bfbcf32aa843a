"""Every exception that Shoal raises.

```
ShoalError
├── ConfigError (also ValueError)            an option cannot work
├── InvalidTopicError (also ValueError)      a text is no topic or pattern
├── MessageTooLongError (also ValueError)    a message is longer than its bound
├── JMSError                                 what `shoal.jms` raises
│   ├── InvalidArgumentError (also ConfigError, TypeError)  an argument of `shoal.jms` cannot be used
│   ├── NumberFormatError (also ValueError)  a text was to be read as a number, and is none
│   ├── InvalidSelectorError (also ValueError)  a text is no selector or correlation filter
│   ├── MessageFormatError (also ValueError) a message cannot be read, or not as that type
│   ├── IllegalStateError (also RuntimeError)   this cannot be done now, or not any more
│   ├── InvalidClientIDError (also ValueError)  a client id is taken, or none
│   ├── InvalidDestinationError (also StoreError, LookupError)  there is no such queue, topic or
│   │                                        subscription (any more), or it cannot be used so
│   ├── JMSSecurityError (also PermissionError) credentials were refused
│   ├── MessageEOFError (also EOFError)      the end of a BytesMessage or StreamMessage was reached
│   ├── MessageNotReadableError              a message that is being written was to be read
│   ├── MessageNotWriteableError             a message that was received was to be changed
│   ├── ResourceAllocationError              what a call needs cannot be had: a store, room, memory
│   ├── TransactionInProgressError           this cannot be done within a transaction
│   └── TransactionRolledBackError (also StoreError)  a transaction was not committed, nothing of it was done
├── LinkError (also OSError)                 the network cannot be used
│   └── LinkRefusedError                     the other end of a link refuses us
├── ClosedError (also ConnectionError)       the connection was closed here
├── ForkedError (also RuntimeError)          the connection was made before a fork, and this is the child
├── FullError (also TimeoutError)            members take no more
├── FlushError                               not every member has everything, or not the store
├── NoReplyError (also TimeoutError)         no program answered a request in time
│   └── NoRespondersError                    no program subscribes to the topic of a request
├── RemoteError                              the callback that was to answer a request failed
├── StoreError                               a store cannot do what it was asked
│   ├── StoreRefusedError (also ValueError)  the request makes no sense to it
│   ├── StoreDeniedError (also PermissionError)  a token is missing or wrong, or it is another principal's
│   ├── StoreLockedError                     another process has the directory
│   ├── StoreCorruptError                    bytes that were durable are damaged
│   ├── StoreFullError                       the disk has no room
│   │   └── BacklogError                     a queue or a durable subscription has as much as it may
│   ├── StoreFailedError                     an earlier write failed: the disk's content is unknown
│   ├── TrimmedError (also LookupError)      retention removed the messages
│   ├── StoreUnavailableError (also ConnectionError, TimeoutError)  no store answers, or not in time
│   │   └── NoStoreError                     the domain has no store, and the call needs one
│   ├── HistoryError                         a store refused a question about its history
│   ├── InUseError                           another program uses a client id, a durable subscription, a queue
│   ├── DiffersError                         a subscription of that name asks for something else
│   └── LeaseError                           a message was given to another consumer meanwhile
├── DataLossError                            a query asks for history that is no longer there
└── ProcessFailedError                       a child process did not start, failed or did not end in time

```
"""

import typing


class ShoalError(Exception):
    """The root of all exceptions that Shoal raises on its own account."""

    #: Of the message catalogue; `shoal explain` prints what it means.
    id: typing.ClassVar[str] = "SHOAL-1000"


class ConfigError(ShoalError, ValueError):
    """An option cannot work; the message names it and says what would be accepted."""

    id = "SHOAL-1001"


class InvalidTopicError(ShoalError, ValueError):
    """A text is not a valid topic, or not a valid pattern of topics."""

    id = "SHOAL-1002"


class MessageTooLongError(ShoalError, ValueError):
    """A message is longer than its bound, which the message names."""

    id = "SHOAL-1003"


class JMSError(ShoalError):
    """The root of what Jakarta Messaging has exceptions for; `shoal.jms` raises it and its children.

    Attributes:
        error_code: the name of the kind of problem: `closed`, that of an error of the bus, such as
            `StoreFullError`, or that of its own class. What caused it is its `__cause__`.
    """

    id = "SHOAL-1010"

    error_code: str = "JMSError"

    def __init_subclass__(cls) -> None:
        cls.error_code = cls.__name__


class InvalidArgumentError(JMSError, ConfigError, TypeError):
    """An argument of `shoal.jms` has a type or a value that cannot be used there."""

    id = "SHOAL-1023"


class MessageFormatError(JMSError, ValueError):
    """A received message cannot be read, or a value has a type that cannot stand or be read there."""

    id = "SHOAL-1012"


class NumberFormatError(JMSError, ValueError):
    """A text was to be read as a number, and is none (Java's NumberFormatException)."""

    id = "SHOAL-1004"


class IllegalStateError(JMSError, RuntimeError):
    """The call is not possible now, or not any more, such as any call of a closed session."""

    id = "SHOAL-1013"


class InvalidClientIDError(JMSError, ValueError):
    """A client id is in use by another connection, or cannot be one."""

    id = "SHOAL-1014"


class JMSSecurityError(JMSError, PermissionError):
    """A user name and password were refused."""

    id = "SHOAL-1016"


class MessageEOFError(JMSError, EOFError):
    """The end of a `BytesMessage` or `StreamMessage` was reached."""

    id = "SHOAL-1017"


class MessageNotReadableError(JMSError):
    """A message that is being written was to be read; `reset` makes it readable."""

    id = "SHOAL-1018"


class MessageNotWriteableError(JMSError):
    """A received message was to be changed; `clear_body` or `clear_properties` makes it writeable."""

    id = "SHOAL-1019"


class ResourceAllocationError(JMSError):
    """What a call needs cannot be had, such as a store that keeps persistent messages."""

    id = "SHOAL-1020"


class TransactionInProgressError(JMSError):
    """The call is not possible within a transaction."""

    id = "SHOAL-1021"


class LinkError(ShoalError, OSError):
    """The network cannot be used; the message says what was tried."""

    id = "SHOAL-1030"


class LinkRefusedError(LinkError):
    """The other end of a link refuses us, or we do not trust it; trying again soon does not help."""

    id = "SHOAL-1031"


class ClosedError(ShoalError, ConnectionError):
    """The connection was closed by this program."""

    id = "SHOAL-1032"


class ForkedError(ShoalError, RuntimeError):
    """A connection, or what belongs to it, was made before a fork: connect in the process that uses it."""

    id = "SHOAL-1033"


class FullError(ShoalError, TimeoutError):
    """Members take no more, and the connection does not wait, or not any longer.

    Attributes:
        in_callback: a callback published, which must not wait: for its own queue, or for another that may be
            waiting for it.
    """

    id = "SHOAL-1034"

    def __init__(self, message: str = "", in_callback: bool = False) -> None:
        super().__init__(message)
        self.in_callback = in_callback


class NoReplyError(ShoalError, TimeoutError):
    """No program answered a request in time."""

    id = "SHOAL-1036"


class NoRespondersError(NoReplyError):
    """No program will answer a request: none subscribes to its topic, or all that were asked have left."""

    id = "SHOAL-1037"


class RemoteError(ShoalError):
    """The callback that was to answer a request failed, in the program that was asked.

    Attributes:
        error: the name of the exception there, such as `LookupError`.
        message: its text.
        node: the node that was asked.
    """

    id = "SHOAL-1038"

    def __init__(self, error: str, message: str, node: int) -> None:
        super().__init__(error, message, node)
        self.error = error
        self.message = message
        self.node = node

    def __str__(self) -> str:
        return f"member {self.node} could not answer: {self.error}: {self.message}"


class StoreError(ShoalError):
    """A store cannot do what it was asked; the message says what was tried."""

    id = "SHOAL-1040"

    #: The message that the store refused, if it was sent with a window and its sender did not wait for it.
    message_id: str | None = None


class StoreDeniedError(StoreError, PermissionError):
    """A token is missing or wrong, the object belongs to another principal, or the store is none."""

    id = "SHOAL-1053"


class StoreRefusedError(StoreError, ValueError):
    """What a store was asked makes no sense to it, such as a commit of a staging that does not exist."""

    id = "SHOAL-1041"


class StoreLockedError(StoreError):
    """Another process has the store's directory; the message names it."""

    id = "SHOAL-1042"


class StoreCorruptError(StoreError):
    """Bytes that were durable are damaged; the message names the file, the bytes and the offsets."""

    id = "SHOAL-1043"


class StoreFullError(StoreError):
    """The disk has no room for more messages. The store goes on by itself when there is some."""

    id = "SHOAL-1044"


class StoreFailedError(StoreError):
    """An earlier write or sync failed, so the disk's content is unknown: open the store again."""

    id = "SHOAL-1046"


class TrimmedError(StoreError, LookupError):
    """Retention removed the messages.

    Attributes:
        floor: the offset at which history begins.
    """

    id = "SHOAL-1047"

    def __init__(self, message: str, floor: int) -> None:
        super().__init__(message)
        self.floor = floor


class BacklogError(StoreFullError):
    """A queue, or a durable subscription, has as much as it may (`backlog_max_bytes`)."""

    id = "SHOAL-1045"


class StoreUnavailableError(StoreError, ConnectionError, TimeoutError):
    """No store answers, or not in time. What was sent may be stored all the same, or later."""

    id = "SHOAL-1049"


class NoStoreError(StoreUnavailableError):
    """The domain has no store, and the call needs one; the message says how to start one."""

    id = "SHOAL-1048"


class InUseError(StoreError):
    """Another program uses it: a client id, a durable subscription, a queue; the message says which."""

    id = "SHOAL-1050"


class DiffersError(StoreError):
    """A subscription of that name asks for something else, and others use it."""

    id = "SHOAL-1051"


class InvalidDestinationError(JMSError, StoreError, LookupError):
    """There is no such queue, topic or subscription, or not any more, or it cannot be used so."""

    id = "SHOAL-1015"


class LeaseError(StoreError):
    """A message was given to another consumer, or will be: its lease is over."""

    id = "SHOAL-1052"


class TransactionRolledBackError(JMSError, StoreError):
    """A transaction was not committed: nothing of it was done, and what was received in it comes again."""

    id = "SHOAL-1022"


class DataLossError(ShoalError):
    """A query asks for history that is no longer there; the message names the range."""

    id = "SHOAL-1062"


class ProcessFailedError(ShoalError):
    """A child process of `shoal.processes` did not start, failed, or did not end in time."""

    id = "SHOAL-1070"


class FlushError(ShoalError):
    """Not every member has everything.

    Attributes:
        silent: the members that did not acknowledge, and the routers that did not say that those behind them
            did.
        lost_by: the members that lost messages for good since the last flush, because they were too slow to
            be waited for, or the routers before them. They were told which (`MessagesLost`). Once a flush was
            answered by every member, the next does not name them again for that.
        unstored: how many persistent messages no store has taken. If none, the store has all of them, and
            only members that are there now may lack something.
    """

    id = "SHOAL-1035"

    def __init__(
        self, message: str, silent: tuple[int, ...] = (), unstored: int = 0, lost_by: tuple[int, ...] = ()
    ) -> None:
        super().__init__(message)
        self.silent = silent
        self.lost_by = lost_by
        self.unstored = unstored


class InvalidSelectorError(JMSError, ValueError):
    """A text is not a valid message selector (or correlation filter).

    Attributes:
        position: where the mistake is, as an index into the text.
        found: what stands there.
        expected: what would have been accepted.
        caret: the text around the mistake, and under it a caret that points at it.
    """

    id = "SHOAL-1011"

    def __init__(self, position: int, found: str, expected: str, caret: str) -> None:
        super().__init__(position, found, expected, caret)
        self.position = position
        self.found = found
        self.expected = expected
        self.caret = caret

    def __str__(self) -> str:
        marked = "\n".join(f"    {line}" for line in self.caret.splitlines())
        return f"at position {self.position}: found {self.found}, expected {self.expected}\n{marked}"


class HistoryError(StoreError):
    """A store refused a question about its history, or rows to be written in.

    Attributes:
        code: which refusal it is: BAD-QUERY, INCARNATION, TRIMMED, DENIED, FULL, NO-STAGING, BROKEN.
        sentence: what happened, in words.
        detail: what a program may want to know of it, such as `floor`.
    """

    id = "SHOAL-1060"

    def __init__(self, code: str, sentence: str, detail: dict[str, typing.Any] | None = None) -> None:
        super().__init__(code, sentence, detail)
        self.code = code
        self.sentence = sentence
        self.detail = detail or {}

    def __str__(self) -> str:
        return self.sentence
