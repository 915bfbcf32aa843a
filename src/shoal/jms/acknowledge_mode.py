"""Who acknowledges the messages of a session (sections 6.2.7 and 6.2.10)."""

from enum import IntEnum

from shoal.errors import InvalidArgumentError


class AcknowledgeMode(IntEnum):
    """Who says that a message was dealt with, and when."""

    #: `commit` does.
    SESSION_TRANSACTED = 0
    #: The session does, before `receive` returns, or when the listener has returned.
    AUTO_ACKNOWLEDGE = 1
    #: `message.acknowledge()` does, for all that the session has delivered.
    CLIENT_ACKNOWLEDGE = 2
    #: The session does, now and then: after a failure some messages may come twice.
    DUPS_OK_ACKNOWLEDGE = 3


def checked_mode(mode: int) -> AcknowledgeMode:
    """A mode, or its number."""
    try:
        return AcknowledgeMode(mode)
    except ValueError:
        names = ", ".join(each.name for each in AcknowledgeMode)
        raise InvalidArgumentError(f"acknowledge_mode is {mode!r}, and must be one of {names}") from None
