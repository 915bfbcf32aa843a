//! A frame: the unit of the log. It is there whole or not at all.
//!
//! ```text
//! byte 0   checksum: CRC-32C of bytes 4 to the end of the payload
//! byte 4   length of the payload
//! byte 8   store id
//! byte 16  number of the segment
//! byte 20  kind
//! byte 21  term of the owner that appended it, 24 bits; 0 where no group keeps the log
//! byte 24  position of the frame in its file
//! byte 32  position up to which the file was durable when the frame was made
//! byte 40  offset: of its first message, or of the next message to come
//! byte 48  when it was made, microseconds since 1970
//! byte 56  payload, then zero bytes up to a multiple of eight
//! ```
//!
//! Store, segment and position make a frame that lies anywhere but where it was written one that is not valid. What
//! was durable tells a torn tail from damage: see `recovery`.

use crate::bytes::{u32_at, u64_at};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 56;

/// A payload is no longer: the longest message there can be, and more than what comes with it.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 28) + (1 << 20);

/// What a frame is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first frame of a file: what the segment is.
    Segment,
    /// The second: the whole state as it was when the segment began.
    Checkpoint,
    /// Messages with offsets.
    Messages,
    /// Rows of a staging, which nobody sees before a commit.
    Staged,
    /// Stagings become messages.
    Commit,
    /// Messages that are known to be lost.
    Gap,
    /// Changes of the state.
    Change,
    /// Messages and changes of the state: all of them or none.
    Turn,
    /// An owner of a group begins its term.
    Noop,
    /// The members of a group change.
    Members,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Segment,
        Kind::Checkpoint,
        Kind::Messages,
        Kind::Staged,
        Kind::Commit,
        Kind::Gap,
        Kind::Change,
        Kind::Turn,
        Kind::Noop,
        Kind::Members,
    ];

    /// Its number in the file.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    fn of(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// Where a frame is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The store whose it is.
    pub store: u64,
    /// The number of the segment.
    pub segment: u32,
    /// The position in its file.
    pub position: u64,
}

/// What stands before a payload.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where it is.
    pub place: Place,
    /// What it is.
    pub kind: Kind,
    /// The term of the owner that appended it; 0 where no group keeps the log.
    pub term: u32,
    /// Bytes of the payload.
    pub length: u32,
    /// The position up to which the file was durable.
    pub synced: u64,
    /// The offset of its first message, or of the next message to come.
    pub offset: u64,
    /// When it was made, microseconds since 1970.
    pub stored_us: u64,
}

/// A term is no higher: it has 24 bits in a frame.
pub const TERM_MAX: u64 = (1 << 24) - 1;

/// Bytes that a frame with such a payload takes.
pub fn frame_bytes(payload: usize) -> u64 {
    ((HEADER_BYTES + payload).next_multiple_of(8)) as u64
}

/// Why bytes are no frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// They are all zero: nothing was written there.
    Empty,
    /// They are not the header of a frame of this place.
    NotHere,
    /// The checksum is another.
    Checksum,
    /// The file ends within it.
    Short,
}

impl BadFrame {
    /// In words.
    pub fn why(self) -> &'static str {
        match self {
            BadFrame::Empty => "zero bytes where a frame should be",
            BadFrame::NotHere => "no frame of this place",
            BadFrame::Checksum => "wrong checksum",
            BadFrame::Short => "the file ends too early",
        }
    }
}

impl Header {
    /// Appends the frame. The payload comes in parts.
    pub fn write(&self, payload: &[&[u8]], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.place.store.to_le_bytes());
        out.extend_from_slice(&self.place.segment.to_le_bytes());
        out.push(self.kind.number());
        out.extend_from_slice(&self.term.to_le_bytes()[..3]);
        out.extend_from_slice(&self.place.position.to_le_bytes());
        out.extend_from_slice(&self.synced.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.stored_us.to_le_bytes());
        for part in payload {
            out.extend_from_slice(part);
        }
        debug_assert_eq!(out.len() - start, HEADER_BYTES + self.length as usize);
        let checksum = crc32c::crc32c(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
        out.resize(start + frame_bytes(self.length as usize) as usize, 0);
    }

    /// Reads the header of a frame that must be at this place. The checksum is not looked at.
    pub fn read(bytes: &[u8], place: Place) -> Result<Header, BadFrame> {
        let header = bytes.get(..HEADER_BYTES).ok_or(BadFrame::Short)?;
        if header.iter().all(|&byte| byte == 0) {
            return Err(BadFrame::Empty);
        }
        let found =
            Place { store: u64_at(header, 8), segment: u32_at(header, 16), position: u64_at(header, 24) };
        let length = u32_at(header, 4);
        let kind = Kind::of(header[20]);
        match kind {
            Some(kind) if found == place && length as usize <= PAYLOAD_BYTES_MAX => Ok(Header {
                place,
                kind,
                term: u32_at(header, 20) >> 8,
                length,
                synced: u64_at(header, 32),
                offset: u64_at(header, 40),
                stored_us: u64_at(header, 48),
            }),
            _ => Err(BadFrame::NotHere),
        }
    }

    /// Bytes of the frame.
    pub fn frame_bytes(&self) -> u64 {
        frame_bytes(self.length as usize)
    }

    /// Where the frame ends.
    pub fn end(&self) -> u64 {
        self.place.position + self.frame_bytes()
    }

    /// Whether the checksum of a whole frame is right.
    pub fn verify(&self, frame: &[u8]) -> Result<(), BadFrame> {
        let covered = frame.get(4..HEADER_BYTES + self.length as usize).ok_or(BadFrame::Short)?;
        if crc32c::crc32c(covered) == u32_at(frame, 0) { Ok(()) } else { Err(BadFrame::Checksum) }
    }
}

/// The header of a frame that another member appended, with its checksum checked.
pub(crate) fn read_anywhere(frame: &[u8], store: u64) -> Result<Header, BadFrame> {
    let start = frame.get(..HEADER_BYTES).ok_or(BadFrame::Short)?;
    let header =
        Header::read(start, Place { store, segment: u32_at(start, 16), position: u64_at(start, 24) })?;
    if frame.len() != HEADER_BYTES + header.length as usize {
        return Err(BadFrame::Short);
    }
    header.verify(frame).map(|()| header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let place = Place { store: 7, segment: 3, position: 64 };
        Header { place, kind: Kind::Gap, term: 9, length: 5, synced: 8, offset: 100, stored_us: 1 }
    }

    #[test]
    fn a_frame_comes_back_as_it_was_written() {
        let mut bytes = Vec::new();
        header().write(&[b"he", b"llo"], &mut bytes);
        assert_eq!(bytes.len() as u64, header().frame_bytes());
        let read = Header::read(&bytes, header().place).unwrap();
        assert_eq!(read, header());
        assert_eq!(read.verify(&bytes), Ok(()));
    }

    #[test]
    fn a_frame_is_valid_nowhere_else() {
        let mut bytes = Vec::new();
        header().write(&[b"hello"], &mut bytes);
        let place = header().place;
        for elsewhere in
            [Place { store: 8, ..place }, Place { segment: 4, ..place }, Place { position: 72, ..place }]
        {
            assert_eq!(Header::read(&bytes, elsewhere), Err(BadFrame::NotHere));
        }
    }

    #[test]
    fn no_flipped_bit_goes_unnoticed() {
        let mut bytes = Vec::new();
        header().write(&[b"hello"], &mut bytes);
        for bit in 0..(HEADER_BYTES + 5) * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let intact = Header::read(&flipped, header().place).and_then(|read| read.verify(&flipped));
            assert!(intact.is_err(), "bit {bit}");
        }
    }
}
