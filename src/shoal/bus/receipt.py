"""What a program gets for a message that is kept."""

from typing import NamedTuple


class Receipt(NamedTuple):
    """Which message it is, and whether a store has it. Returned by persistent publishes and by `Queue.send`.

    Attributes:
        id: the message's identity, as its readers see it (`Message.message_id`).
        stored: whether a store had it when the call returned. False with a `window`, for which `Bus.flush`
            waits, and with an outbox, which sends it when it finds a store. One that is not persistent may be
            in the memory of the queue's owner instead.
    """

    id: str
    stored: bool
