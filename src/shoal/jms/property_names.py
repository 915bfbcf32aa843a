"""Which properties a message may have (sections 3.5.1, 3.5.9 and 3.5.10)."""

import functools
import hashlib

from shoal.errors import InvalidArgumentError, InvalidSelectorError, MessageFormatError
from shoal.selector import Selector

GROUP_ID, GROUP_SEQUENCE, DELIVERY_COUNT = "JMSXGroupID", "JMSXGroupSeq", "JMSXDeliveryCount"
#: The properties of the specification that mean something here.
JMSX = (GROUP_ID, GROUP_SEQUENCE, DELIVERY_COUNT)
#: What this package says to itself by way of properties; programs neither see nor set these.
PRIVATE = "JMS_Shoal_"
#: Of a message that a commit published: its identity, which it had before.
HELD = PRIVATE + "Held"
#: Of a TextMessage whose text is null.
NULL_TEXT = PRIVATE + "NullText"
#: Of a message that was sent by a connection with a client id: a hash of it.
CLIENT = PRIVATE + "Client"


def client_hash(client_id: str | None) -> str:
    """What stands for a client id where that might be too long; empty without one."""
    if client_id is None:
        return ""
    return hashlib.sha256(client_id.encode()).hexdigest()[:32]


@functools.lru_cache(maxsize=4096)
def check_name(name: str) -> None:
    """Refuse a name that no property can have.

    Raises:
        ValueError: the name is empty.
        MessageFormatError: selectors could not ask for it, or it is reserved.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"a property's name must be a str, not {name!r}")
    if not name:
        raise InvalidArgumentError("a property's name must not be empty")
    try:
        is_name = Selector(f"{name} IS NULL").names == (name,)
    except InvalidSelectorError:
        is_name = False
    if not is_name:
        raise MessageFormatError(
            f"{name!r} cannot be a property: a name has letters, digits, _ and $, does not start with a "
            "digit or with JMS, and is no word of selectors such as IN or NOT"
        )
    if name == DELIVERY_COUNT or name.startswith(PRIVATE):
        raise MessageFormatError(f"{name!r} cannot be set: the provider sets it")
    if name.startswith("JMSX"):
        if name not in JMSX:
            raise MessageFormatError(
                f"{name!r} means nothing here: of the JMSX properties, {', '.join(JMSX)} do"
            )
    elif name.startswith("JMS") and not name.startswith("JMS_"):
        raise MessageFormatError(f"{name!r} is a header field, and no property: set it as an attribute")
