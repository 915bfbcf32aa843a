"""Errors between the history server and its clients: a stable code, JSON detail, a sentence.

`SHOAL-HISTORY-TRIMMED {"floor": 100} offsets below 100 are gone` travels as the text of a Flight error.
"""

import json
from typing import Any

from shoal.errors import HistoryError

PREFIX = "SHOAL-HISTORY-"

#: The query, action or table is not understood.
BAD_QUERY = "BAD-QUERY"
#: The store is another than that of the reader's offsets.
INCARNATION = "INCARNATION"
#: The range begins below the oldest row.
TRIMMED = "TRIMMED"
#: A token is missing or wrong.
DENIED = "DENIED"
#: A bound is reached: streams, waits, staged bytes, or the disk.
FULL = "FULL"
#: A commit or discard names a staging that does not exist.
NO_STAGING = "NO-STAGING"
#: There is no such queue, or no such reservation.
NO_QUEUE = "NO-QUEUE"
#: A stored message cannot be read, or the store refuses to go on.
BROKEN = "BROKEN"
#: The server is being closed.
CLOSED = "CLOSED"


def to_text(error: HistoryError) -> str:
    """The error as it travels."""
    return f"{PREFIX}{error.code} {json.dumps(error.detail)} {error.sentence}"


def from_text(text: str) -> HistoryError | None:
    """The error that a text carries, whatever a transport wrote around it; none if it carries none."""
    _, found, rest = text.partition(PREFIX)
    code, _, rest = rest.partition(" ")
    if not found or not code:
        return None
    try:
        detail, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return None
    return HistoryError(code, sentence_of(rest[end:]), detail if isinstance(detail, dict) else {})


def sentence_of(text: str) -> str:
    """An error's own words, without what the transport appends to them."""
    for appended in (". gRPC client debug context", ". Detail: "):
        text = text.partition(appended)[0]
    return text.strip()


def bad_query(sentence: str, **detail: Any) -> HistoryError:
    """A question that cannot be answered as it stands."""
    return HistoryError(BAD_QUERY, sentence, detail)
