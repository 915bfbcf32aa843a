"""What the bus raises, by the names that Jakarta Messaging has for it."""

import contextlib
from collections.abc import Iterator

from shoal.bus.forks import Birth
from shoal.errors import (
    ClosedError,
    ConfigError,
    DiffersError,
    ForkedError,
    FullError,
    IllegalStateError,
    InUseError,
    InvalidArgumentError,
    InvalidDestinationError,
    InvalidTopicError,
    JMSError,
    LeaseError,
    MessageFormatError,
    MessageTooLongError,
    ResourceAllocationError,
    ShoalError,
    StoreError,
)


def translated(error: ShoalError) -> JMSError:
    """The error that a program of JMS expects; its cause is the one of the bus."""
    if isinstance(error, JMSError):
        return error
    kind: type[JMSError] = JMSError
    if isinstance(error, InvalidTopicError):
        kind = InvalidDestinationError
    elif isinstance(error, MessageTooLongError):
        kind = MessageFormatError
    elif isinstance(error, ClosedError | InUseError | DiffersError):
        kind = IllegalStateError
    elif isinstance(error, LeaseError):
        kind = JMSError
    elif isinstance(error, FullError | StoreError):
        kind = ResourceAllocationError
    elif isinstance(error, ForkedError):
        kind = IllegalStateError
    elif isinstance(error, ConfigError):
        kind = InvalidArgumentError
    text = str(error)
    if isinstance(error, LeaseError):
        text += ". Go on with receive"
    made = kind(text)
    made.error_code = type(error).__name__
    made.__cause__ = error
    return made


@contextlib.contextmanager
def translating() -> Iterator[None]:
    """Raise what the bus raises by its name in JMS."""
    try:
        yield
    except ShoalError as error:
        known = translated(error)
        if known is error:
            raise
        raise known from error
    except TypeError as error:
        # An argument that only the bus looked at.
        raise InvalidArgumentError(str(error)) from error


def check_here(birth: Birth) -> None:
    """Refuse to work in a child that was forked later."""
    if birth.is_elsewhere:
        with translating():
            birth.check_here()


def closed_error(what: str) -> IllegalStateError:
    """What every method of a closed thing raises."""
    error = IllegalStateError(f"the {what} is closed")
    error.error_code = "closed"
    return error
