//! Frames: how messages are told apart in a stream of bytes.
//!
//! A frame is its length, as a little-endian base-128 number of one to four bytes, and its content.
//! A stream is read from a frame's start; where one is, the transport marks.

use std::fmt;

/// The longest frame the length can express.
pub const FRAME_BYTES_MAX: usize = (1 << 28) - 1;

/// The stream cannot be read on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A length of more than four bytes.
    BadLength,
    /// A frame longer than the reader allows: its length, and the bound.
    TooLong(usize, usize),
}

impl fmt::Display for FrameError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::BadLength => write!(out, "a frame's length does not end within four bytes"),
            FrameError::TooLong(length, bound) => {
                write!(out, "a frame of {length} bytes is longer than the bound of {bound}")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Appends a frame's length; its content follows.
pub fn write_length(length: usize, out: &mut Vec<u8>) {
    debug_assert!(length <= FRAME_BYTES_MAX);
    let mut rest = length;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a whole frame.
pub fn write(content: &[u8], out: &mut Vec<u8>) {
    write_length(content.len(), out);
    out.extend_from_slice(content);
}

/// Reads a length: the number, and how many bytes it took. `None` if there are too few.
fn read_length(bytes: &[u8]) -> Result<Option<(usize, usize)>, FrameError> {
    let mut length = 0;
    for (at, &byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok(Some((length, at + 1)));
        }
    }
    if bytes.len() >= 4 { Err(FrameError::BadLength) } else { Ok(None) }
}

/// Bytes of the whole frame, length included, that starts here; all that is here if it is cut or unreadable.
pub fn frame_bytes(bytes: &[u8]) -> usize {
    match read_length(bytes) {
        Ok(Some((length, header))) => (header + length).min(bytes.len()),
        _ => bytes.len(),
    }
}

/// Finds frames in a stream that comes in pieces. Whole ones are seen where they lie; only one that is
/// cut by the end of a piece is copied.
#[derive(Debug)]
pub struct FrameReader {
    carry: Vec<u8>,
    bytes_max: usize,
}

impl FrameReader {
    /// A reader that refuses frames longer than `bytes_max`.
    pub fn new(bytes_max: usize) -> FrameReader {
        FrameReader { carry: Vec::new(), bytes_max: bytes_max.min(FRAME_BYTES_MAX) }
    }

    /// Forgets a frame that was cut: what comes next starts with a new one.
    pub fn reset(&mut self) {
        self.carry.clear();
    }

    /// Bytes of a frame whose end has not come yet.
    pub fn carried(&self) -> usize {
        self.carry.len()
    }

    /// Takes the next piece and calls `each` with the content of every frame that ends in it.
    /// After an error the stream must be left, or read on from a marked start after [`FrameReader::reset`].
    pub fn read(&mut self, mut piece: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), FrameError> {
        if !self.carry.is_empty() {
            piece = self.finish_carried(piece, &mut each)?;
        }
        loop {
            match self.whole(piece)? {
                Some((start, end)) => {
                    each(&piece[start..end]);
                    piece = &piece[end..];
                }
                None => {
                    self.carry.extend_from_slice(piece);
                    return Ok(());
                }
            }
        }
    }

    /// Where the content of the first frame lies, if all of it is here.
    fn whole(&self, bytes: &[u8]) -> Result<Option<(usize, usize)>, FrameError> {
        let Some((length, header)) = read_length(bytes)? else {
            return Ok(None);
        };
        if length > self.bytes_max {
            return Err(FrameError::TooLong(length, self.bytes_max));
        }
        let end = header + length;
        Ok((end <= bytes.len()).then_some((header, end)))
    }

    /// Completes the carried frame from `piece`; returns what is left of it.
    fn finish_carried<'a>(
        &mut self,
        piece: &'a [u8],
        each: &mut impl FnMut(&[u8]),
    ) -> Result<&'a [u8], FrameError> {
        let mut taken = 0;
        // The length itself may have been cut.
        while read_length(&self.carry)?.is_none() {
            let Some(&byte) = piece.get(taken) else { return Ok(&[]) };
            self.carry.push(byte);
            taken += 1;
        }
        let rest = &piece[taken..];
        let Some((length, header)) = read_length(&self.carry)? else { return Ok(rest) };
        if length > self.bytes_max {
            return Err(FrameError::TooLong(length, self.bytes_max));
        }
        let wanted = (header + length - self.carry.len()).min(rest.len());
        self.carry.extend_from_slice(&rest[..wanted]);
        if self.carry.len() == header + length {
            each(&self.carry[header..]);
            self.carry.clear();
        }
        Ok(&rest[wanted..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut reader = FrameReader::new(1 << 20);
        let mut found = Vec::new();
        for piece in pieces {
            reader.read(piece, |frame| found.push(frame.to_vec())).unwrap();
        }
        assert_eq!(reader.carried(), 0);
        found
    }

    #[test]
    fn frames_are_found_however_the_stream_is_cut() {
        let contents: Vec<Vec<u8>> =
            [0usize, 1, 127, 128, 300, 20_000].iter().map(|&n| vec![n as u8; n]).collect();
        let mut stream = Vec::new();
        for content in &contents {
            write(content, &mut stream);
        }
        for size in [1, 2, 3, 7, 64, 1400, stream.len()] {
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(frames(&pieces), contents, "in pieces of {size}");
        }
    }

    #[test]
    fn frames_beyond_the_bound_and_endless_lengths_are_refused() {
        let mut reader = FrameReader::new(10);
        assert_eq!(reader.read(&[11], |_| ()), Err(FrameError::TooLong(11, 10)));
        reader.reset();
        assert_eq!(reader.read(&[0xff, 0xff, 0xff, 0xff], |_| ()), Err(FrameError::BadLength));
        reader.reset();
        let mut seen = 0;
        assert_eq!(reader.read(&[0xff], |_| ()), Ok(()));
        assert_eq!(reader.read(&[0xff, 0xff, 0x80, 1], |_| seen += 1), Err(FrameError::BadLength));
        assert_eq!(seen, 0);
    }
}
