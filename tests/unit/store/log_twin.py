"""A plain, slow reader of the log, from `docs/reference/log-format.md` alone: the kernel's oracle."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FRAME = struct.Struct("<IIQIB3xQQQQ")
SEGMENT, CHECKPOINT, MESSAGES, STAGED, COMMIT, GAP, CHANGES, TURN = range(1, 9)


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _table()


def crc32c(data: bytes) -> int:
    """CRC-32C, bit-reflected, as iSCSI has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@dataclass
class Frame:
    """A valid frame."""

    segment: int
    kind: int
    position: int
    synced: int
    offset: int
    stored_us: int
    payload: bytes

    @property
    def end(self) -> int:
        return self.position + (FRAME.size + len(self.payload) + 7) // 8 * 8


@dataclass
class Row:
    """A message."""

    offset: int
    stored_us: int
    publisher: int
    chain: int
    number: int | None
    timestamp_us: int
    record: bytes


@dataclass
class State:
    """What changes amount to."""

    values: dict[str, bytes] = field(default_factory=dict)
    stagings: dict[str, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    scopes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    unpublished: list[tuple[int, int]] = field(default_factory=list)
    floor: int = 0
    #: Up to which offset the marks are complete, and the lanes they are of.
    covered: int = 0
    lanes: list[int] = field(default_factory=list)
    #: By lane, publisher and chain: the highest number, and when it was stored.
    marks: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    #: By reader: offsets that are done, deliveries of others, messages and bytes that came and are done.
    readers: dict[str, "ReaderState"] = field(default_factory=dict)
    #: By publisher and chain: the highest number, when it was stored, whether it is kept, its owner.
    chains: dict[tuple[int, int], tuple[int, int, bool, int]] = field(default_factory=dict)

    def reader(self, name: str) -> "ReaderState":
        return self.readers.setdefault(name, ReaderState())


@dataclass
class ReaderState:
    """What a queue or subscription has behind it."""

    done: set[int] = field(default_factory=set)
    delivered: dict[int, tuple[int, int]] = field(default_factory=dict)
    came: tuple[int, int] = (0, 0)
    gone: tuple[int, int] = (0, 0)

    @property
    def delivered_runs(self) -> int:
        """How many runs of neighbouring offsets with equal deliveries there are."""
        return sum(self.delivered.get(offset - 1) != each for offset, each in self.delivered.items())


class Reader:
    """What remains of a payload."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        assert len(self.data) >= count, "the payload ends too early"
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def number(self, layout: str) -> int:
        value: int = struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))[0]
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        return self.take(self.number("H")).decode()

    def blob(self) -> bytes:
        return self.take(self.number("I"))


def unzigzag(value: int) -> int:
    return value >> 1 if value % 2 == 0 else -((value + 1) >> 1)


def frame_at(data: bytes, segment: int, position: int, store: int | None) -> Frame | None:
    """The frame at a place of a file; none if there is no valid one."""
    head = data[position : position + FRAME.size]
    if len(head) < FRAME.size:
        return None
    crc, length, its_store, number, kind, its_position, synced, offset, stored_us = FRAME.unpack(head)
    whole = data[position + 4 : position + FRAME.size + length]
    fits = (number, its_position) == (segment, position) and store in (None, its_store)
    if not fits or len(whole) != FRAME.size - 4 + length or crc32c(whole) != crc or not 1 <= kind <= 8:
        return None
    return Frame(segment, kind, position, synced, offset, stored_us, whole[FRAME.size - 4 :])


def rows(frame: Frame, payload: bytes, offset: int) -> Iterator[Row]:
    reader = Reader(payload)
    left = reader.number("I")
    while left:
        publisher, chain, count = reader.number("Q"), reader.number("I"), reader.number("I")
        expected = timestamp = 0
        for _ in range(count):
            offset += reader.varint()
            code = reader.varint()
            number = None
            if code:
                number = (expected + unzigzag(code - 1)) % 2**64
                expected = (number + 1) % 2**64
            timestamp = (timestamp + unzigzag(reader.varint())) % 2**64
            record = reader.take(reader.varint())
            yield Row(offset, frame.stored_us, publisher, chain, number, timestamp, record)
            offset += 1
            left -= 1
    assert not reader.data


def references(reader: Reader) -> list[tuple[int, int, int, int]]:
    layout = ("I", "Q", "I", "I")
    return [tuple(reader.number(each) for each in layout) for _ in range(reader.number("I"))]  # type: ignore[misc]


class LogTwin:
    """A directory with a log, read whole."""

    def __init__(self, directory: Path) -> None:
        self.files = {int(path.stem): path.read_bytes() for path in sorted(directory.glob("[0-9]*.log"))}
        numbers = list(self.files)
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "there are holes"
        self.store = struct.unpack_from("<Q", self.files[numbers[-1]], 8)[0]
        self.rows: list[Row] = []
        self.gaps: list[tuple[int, int, int, int | None, int | None, int, bool]] = []
        #: Offsets of committed rows, first and after the last, whose segment retention removed.
        self.gone: list[tuple[int, int]] = []
        self.state = State()
        self.incarnation = b""
        ends = self._ends(numbers)
        for number in numbers:
            for frame in self._frames(number, ends.get(number)):
                self._take(frame)
        self.end = self._end
        assert all(end <= self.state.floor for _, end in self.gone), "rows above the floor are missing"

    def _ends(self, numbers: list[int]) -> dict[int, int]:
        """Where segments end: as the next one says, or their own first frame."""
        ends = {}
        for number in numbers:
            info = Reader(self._first(number).payload)
            assert info.take(8) == b"SHOALLOG"
            assert info.number("H") == 1
            flags = info.number("H")
            assert info.number("I") == 0
            self.incarnation = info.take(16)
            previous_end, own_end, file_bytes = info.number("Q"), info.number("Q"), info.number("Q")
            assert number < numbers[-1] or len(self.files[number]) >= file_bytes
            if number - 1 in self.files and number - 1 not in ends:
                ends[number - 1] = previous_end
            if flags & 1:
                ends[number] = own_end
        return ends

    def _first(self, number: int) -> Frame:
        frame = frame_at(self.files[number], number, 0, self.store)
        assert frame is not None
        assert frame.kind == SEGMENT
        return frame

    def _frames(self, number: int, end: int | None) -> Iterator[Frame]:
        data, position = self.files[number], 0
        while end is None or position < end:
            frame = frame_at(data, number, position, self.store)
            if frame is None:
                assert end is None, f"segment {number} is damaged at {position}"
                return
            yield frame
            position = frame.end

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case k if k == SEGMENT:
                self._end = frame.offset
            case k if k == CHECKPOINT:
                self.state = State()
                self._change(frame.payload)
            case k if k == MESSAGES:
                self.rows.extend(rows(frame, frame.payload, frame.offset))
                self._end = self.rows[-1].offset + 1
            case k if k == TURN:
                reader = Reader(frame.payload)
                self._change(reader.blob())
                self.rows.extend(rows(frame, reader.data, frame.offset))
                self._end = self.rows[-1].offset + 1
            case k if k == STAGED:
                reader = Reader(frame.payload)
                staging = self.state.stagings.setdefault(reader.text(), [])
                count = struct.unpack_from("<I", reader.data)[0]
                staging.append((frame.segment, frame.position, count, len(frame.payload)))
            case k if k == COMMIT:
                self._commit(frame)
            case k if k == GAP:
                self._gap(frame)
            case _:
                self._change(frame.payload)

    def _commit(self, frame: Frame) -> None:
        reader = Reader(frame.payload)
        scope, number, total = reader.text(), reader.number("Q"), reader.number("Q")
        offset = frame.offset
        for _ in range(reader.number("I")):
            self.state.stagings.pop(reader.text())
            for segment, position, count, length in references(reader):
                if segment < min(self.files):
                    self.gone.append((offset, offset + count))
                    offset += count
                    continue
                staged = frame_at(self.files[segment], segment, position, self.store)
                assert staged is not None
                assert staged.kind == STAGED
                assert len(staged.payload) == length
                inner = Reader(staged.payload)
                inner.text()
                found = list(rows(frame, inner.data, offset))
                assert len(found) == count
                for row in found:
                    row.publisher, row.chain, row.number = self.store, 0, row.offset
                self.rows.extend(found)
                offset += count
        assert offset == frame.offset + total
        self._end = offset
        if scope:
            self.state.scopes[scope] = (number, frame.offset, offset)
        if total:
            self._publish(frame.offset, offset)

    def _publish(self, first: int, end: int) -> None:
        runs = self.state.unpublished
        if runs and runs[-1][1] == first:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((first, end))

    def _gap(self, frame: Frame) -> None:
        reader = Reader(frame.payload)
        publisher, chain, flags = reader.number("Q"), reader.number("I"), reader.number("I")
        first, last, count = reader.number("Q"), reader.number("Q"), reader.number("Q")
        known = (first if flags & 1 else None, last if flags & 2 else None)
        self.gaps.append((frame.offset, publisher, chain, *known, count, bool(flags & 4)))

    def _change(self, payload: bytes) -> None:
        reader, state = Reader(payload), self.state
        while reader.data:
            match reader.number("B"):
                case 1:
                    key = reader.text()
                    state.values[key] = reader.blob()
                case 2:
                    state.values.pop(reader.text(), None)
                case 3:
                    name = reader.text()
                    reader.number("Q")
                    state.stagings[name] = references(reader)
                case 4:
                    state.stagings.pop(reader.text(), None)
                case 5:
                    scope = reader.text()
                    state.scopes[scope] = (reader.number("Q"), reader.number("Q"), reader.number("Q"))
                case 6:
                    self._publish(reader.number("Q"), reader.number("Q"))
                case 7:
                    offset = reader.number("Q")
                    runs = ((max(first, offset), end) for first, end in state.unpublished)
                    state.unpublished = [run for run in runs if run[0] < run[1]]
                case 8:
                    state.floor = max(state.floor, reader.number("Q"))
                case 9:
                    reader.number("I")
                    reader.number("I")
                case 10:
                    state.scopes.pop(reader.text(), None)
                case 11:
                    state.marks = {}
                    state.covered = reader.number("Q")
                    state.lanes = [reader.number("I") for _ in range(reader.number("I"))]
                case 12:
                    key = (reader.number("I"), reader.number("Q"), reader.number("I"))
                    state.marks[key] = (reader.number("Q"), reader.number("Q"))
                case 13:
                    found = state.reader(reader.text())
                    counts = reader.number("Q"), reader.number("Q")
                    found.gone = found.gone[0] + counts[0], found.gone[1] + counts[1]
                    for _ in range(reader.number("I")):
                        run = range(reader.number("Q"), reader.number("Q"))
                        found.done.update(run)
                        for offset in run:
                            found.delivered.pop(offset, None)
                case 14:
                    found = state.reader(reader.text())
                    counts = reader.number("Q"), reader.number("Q")
                    found.came = found.came[0] + counts[0], found.came[1] + counts[1]
                case 15:
                    found = state.reader(reader.text())
                    offset = reader.number("Q")
                    found.delivered[offset] = (reader.number("I"), reader.number("Q"))
                case 18:
                    found = state.reader(reader.text())
                    run = range(reader.number("Q"), reader.number("Q"))
                    found.delivered.update(dict.fromkeys(run, (reader.number("I"), reader.number("Q"))))
                case 16:
                    state.readers.pop(reader.text(), None)
                case 17 | 19 as kind:
                    chain = (reader.number("Q"), reader.number("I"))
                    number, stored_us, kept = reader.number("Q"), reader.number("Q"), bool(reader.number("B"))
                    owner = reader.number("Q") if kind == 19 else 0
                    known = state.chains.get(chain, (0, 0, False, 0))
                    number, stored_us = max(known[0], number), max(known[1], stored_us)
                    state.chains[chain] = (number, stored_us, known[2] or kept, known[3] or owner)
                case other:
                    raise AssertionError(f"unknown change {other}")
