"""Copies of files between members: one that lacks too much of the log fetches another's, piece by piece.

Sends and receives bytes that its caller carries, knows the time from its caller, and opens nothing. A copy is
of segments up to a committed entry; what is behind it follows as entries do. A sealed segment that cannot be
read here any more is fetched in the same way, from any other member.
"""

import logging
import struct
from collections import deque
from collections.abc import Iterator

from shoal._core import Member
from shoal.errors import StoreError
from shoal.messages import store as notices

log = logging.getLogger("shoal.store")

#: The first byte of bytes between members says what they are; 1 is a message of the replica.
REPLICA, ASK, PART = 1, 2, 3
#: Bytes of a piece, and pieces that were asked for and have not come.
PIECE_BYTES, WINDOW = 256 << 10, 8
#: A piece that did not come for so long is asked for again.
AGAIN_S = 2.0
#: A member that sends no piece for so long is not asked any more: the owner offers the copy again.
SILENT_S = 10.0

#: Kind, sender, segment, position, and how many bytes at the most.
_ASK = struct.Struct("<BQIQI")
#: Kind, sender, segment, position; the bytes follow.
_PART = struct.Struct("<BQIQ")

Piece = tuple[int, int]


class _Fetch:
    """One copy that is being fetched."""

    def __init__(self, last: int, first: int, lengths: list[int], now_s: float) -> None:
        self.last, self.bytes = last, sum(lengths)
        self._first, self._lengths = first, lengths
        self._pieces = self._all()
        self._again: deque[Piece] = deque()
        #: What was asked for, and when.
        self._asked: dict[Piece, float] = {}
        #: How many bytes of each segment that is not complete are missing.
        self._missing = {first + at: length for at, length in enumerate(lengths)}
        #: Segments that are complete and not read, and the oldest that was not read.
        self._complete: set[int] = set()
        self._unread = first
        self.heard_at_s = now_s

    def _all(self) -> Iterator[Piece]:
        for at, length in enumerate(self._lengths):
            for position in range(0, length, PIECE_BYTES):
                yield self._first + at, position

    def length(self, piece: Piece) -> int:
        """How long a piece is."""
        segment, position = piece
        return min(PIECE_BYTES, self._lengths[segment - self._first] - position)

    def asks(self, now_s: float) -> Iterator[Piece]:
        """What to ask for now."""
        for late, asked_at_s in list(self._asked.items()):
            if now_s - asked_at_s >= AGAIN_S:
                del self._asked[late]
                self._again.append(late)
        while len(self._asked) < WINDOW:
            piece = self._again.popleft() if self._again else next(self._pieces, None)
            if piece is None:
                return
            self._asked[piece] = now_s
            yield piece

    def take(self, piece: Piece, content: bytes, now_s: float) -> bool:
        """Whether a piece is one that is missing."""
        if piece not in self._asked or len(content) != self.length(piece):
            return False
        del self._asked[piece]
        self.heard_at_s = now_s
        return True

    def is_readable(self, piece: Piece) -> bool:
        """The piece is put down: whether the oldest segment that was not read is complete with it."""
        segment, _ = piece
        self._missing[segment] -= self.length(piece)
        if self._missing[segment] == 0:
            del self._missing[segment]
            self._complete.add(segment)
        return self._unread in self._complete

    def read(self) -> bool:
        """A segment was read: whether the next is complete, too."""
        self._complete.discard(self._unread)
        self._unread += 1
        return self._unread in self._complete

    @property
    def missing_bytes(self) -> int:
        """What is not here yet."""
        return sum(self._missing.values())


class Copier:
    """Fetches the copy that this member needs, and answers members that fetch one from it."""

    def __init__(self, member_id: int, member: Member) -> None:
        self._id, self._member = member_id, member
        self._fetch: _Fetch | None = None
        #: Which of the other members is asked for a segment that is damaged here.
        self._turn = 0
        self._transmits: list[tuple[int, bytes]] = []

    # Input.

    def handle_message(self, content: bytes, now_s: float) -> None:
        """Bytes came from another member."""
        try:
            if content[0] == ASK:
                self._answer(content)
            elif content[0] == PART:
                self._take(content, now_s)
        except struct.error:
            log.debug("a member sent %d bytes that make no sense", len(content))

    def handle_timeout(self, now_s: float) -> None:
        """Time has passed: go on with the copy that is offered."""
        offered = self._member.offered
        if offered is None:
            self._fetch = None
            return
        owner, last, first, lengths = offered
        source = self._any() if owner is None else owner
        if source is None:
            return
        fetch = self._fetch
        if fetch is None or fetch.last != last:
            fetch = self._fetch = _Fetch(last, first, lengths, now_s)
        if fetch.missing_bytes == 0:
            self._install(fetch)
        elif now_s - fetch.heard_at_s >= SILENT_S:
            self._give_up("the member that has it sends nothing")
        else:
            for segment, position in fetch.asks(now_s):
                length = fetch.length((segment, position))
                self._transmits.append((source, _ASK.pack(ASK, self._id, segment, position, length)))

    def _any(self) -> int | None:
        """Another member that votes: it has every sealed segment."""
        others = [id_ for id_ in self._member.members[0] if id_ != self._id]
        return others[self._turn % len(others)] if others else None

    # Output.

    def take_transmits(self) -> list[tuple[int, bytes]]:
        """What to send: members, and bytes for each."""
        taken, self._transmits = self._transmits, []
        return taken

    @property
    def progress(self) -> tuple[int, int] | None:
        """Bytes of the copy that are here, and all of them; none if no copy is fetched."""
        fetch = self._fetch
        return None if fetch is None else (fetch.bytes - fetch.missing_bytes, fetch.bytes)

    # The other side.

    def _answer(self, content: bytes) -> None:
        _, sender, segment, position, length = _ASK.unpack(content)
        try:
            piece = self._member.read_part(segment, position, min(length, PIECE_BYTES))
        except StoreError as error:
            log.debug("segment %d cannot be read for another member: %s", segment, error)
            return
        self._transmits.append((sender, _PART.pack(PART, self._id, segment, position) + piece))

    # This side.

    def _take(self, content: bytes, now_s: float) -> None:
        _, _, segment, position = _PART.unpack_from(content)
        piece, fetch = content[_PART.size :], self._fetch
        if fetch is None or not fetch.take((segment, position), piece, now_s):
            return
        try:
            self._member.put_part(segment, position, piece)
            is_readable = fetch.is_readable((segment, position))
            while is_readable:
                self._member.check_part()
                is_readable = fetch.read()
        except StoreError as error:
            self._give_up(str(error))

    def _install(self, fetch: _Fetch) -> None:
        try:
            if self._member.install():
                notices.COPIED(bytes=fetch.bytes, entry=fetch.last).log(log)
                self._fetch = None
        except StoreError as error:
            self._give_up(str(error))

    def _give_up(self, why: str) -> None:
        self._fetch = None
        self._turn += 1
        notices.NOT_COPIED(why=why).log(log)
        self._member.decline()
