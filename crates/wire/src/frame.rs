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
    /// The system has no memory for so many bytes of it.
    NoMemory(usize),
}

impl fmt::Display for FrameError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::BadLength => write!(out, "a frame's length does not end within four bytes"),
            FrameError::TooLong(length, bound) => {
                write!(out, "a frame of {length} bytes is longer than the bound of {bound}")
            }
            FrameError::NoMemory(bytes) => write!(out, "there is no memory for {bytes} bytes of a frame"),
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

/// The length of the content of the frame that starts here, and how many bytes say so. `None` if there are too few.
pub fn length_of(bytes: &[u8]) -> Result<Option<(usize, usize)>, FrameError> {
    read_length(bytes)
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

/// The content of the first frame, and how many bytes the frame takes; `None` if it is cut.
pub fn first(bytes: &[u8], bytes_max: usize) -> Result<Option<(&[u8], usize)>, FrameError> {
    let Some((length, header)) = read_length(bytes)? else { return Ok(None) };
    if length > bytes_max {
        return Err(FrameError::TooLong(length, bytes_max));
    }
    let end = header + length;
    Ok(bytes.get(header..end).map(|content| (content, end)))
}

/// Appends bytes whose number somebody else chose, if there is memory for them.
pub fn append(bytes: &mut Vec<u8>, more: &[u8]) -> Result<(), FrameError> {
    bytes.try_reserve(more.len()).map_err(|_| FrameError::NoMemory(bytes.len() + more.len()))?;
    bytes.extend_from_slice(more);
    Ok(())
}

/// Memory that one large frame took is not kept for the next.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Finds frames in a stream that comes in pieces, and keeps those that are wanted, one after the other, for
/// whoever takes them. Each byte is copied once at the most: a frame in one piece is seen where it lies before
/// that, and one that is cut is put together where it would be kept.
#[derive(Debug)]
pub struct FrameReader {
    /// Frames kept, and after them the one whose end has not come yet.
    bytes: Vec<u8>,
    open: usize,
    bytes_max: usize,
}

impl FrameReader {
    /// A reader that refuses frames longer than `bytes_max`.
    pub fn new(bytes_max: usize) -> FrameReader {
        FrameReader { bytes: Vec::new(), open: 0, bytes_max: bytes_max.min(FRAME_BYTES_MAX) }
    }

    /// Forgets a frame that was cut: what comes next starts with a new one.
    pub fn reset(&mut self) {
        self.bytes.truncate(self.open);
        if self.bytes.capacity() > SPARE_BYTES_MAX {
            self.bytes.shrink_to(SPARE_BYTES_MAX);
        }
    }

    /// Bytes of a frame whose end has not come yet.
    pub fn carried(&self) -> usize {
        self.bytes.len() - self.open
    }

    /// Gives away the bytes of a frame whose end has not come yet.
    pub fn take_carried(&mut self) -> Vec<u8> {
        self.bytes.split_off(self.open)
    }

    /// Bytes taken by frames that were kept.
    pub fn kept(&self) -> usize {
        self.open
    }

    /// The frames that were kept.
    pub fn kept_bytes(&self) -> &[u8] {
        &self.bytes[..self.open]
    }

    /// Forgets the frames that were kept.
    pub fn drop_kept(&mut self) {
        self.bytes.drain(..self.open);
        self.open = 0;
    }

    /// Gives away the frames that were kept, and goes on with `spare`, for its memory. A frame whose end has
    /// not come yet moves along.
    pub fn take_kept(&mut self, mut spare: Vec<u8>) -> Vec<u8> {
        spare.clear();
        spare.extend_from_slice(&self.bytes[self.open..]);
        self.bytes.truncate(self.open);
        self.open = 0;
        std::mem::replace(&mut self.bytes, spare)
    }

    /// Gives away a copy of the frames that were kept, and goes on with its own memory.
    pub fn copy_kept(&mut self) -> Vec<u8> {
        let kept = self.bytes[..self.open].to_vec();
        self.bytes.drain(..self.open);
        self.open = 0;
        kept
    }

    /// Takes the next piece and calls `each` with the content of every frame that ends in it, and with the place
    /// among the frames kept where it will be if `each` answers true.
    /// After an error the stream must be left, or read on from a marked start after [`FrameReader::reset`].
    pub fn read(
        &mut self,
        mut piece: &[u8],
        mut each: impl FnMut(&[u8], usize) -> bool,
    ) -> Result<(), FrameError> {
        if self.carried() > 0 {
            piece = self.finish_open(piece, &mut each)?;
        }
        loop {
            match self.whole(piece)? {
                Some((start, end)) => {
                    if each(&piece[start..end], self.open) {
                        append(&mut self.bytes, &piece[start..end])?;
                        self.open = self.bytes.len();
                    }
                    piece = &piece[end..];
                }
                None => return append(&mut self.bytes, piece),
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

    /// Completes the open frame from `piece`; returns what is left of it.
    fn finish_open<'a>(
        &mut self,
        piece: &'a [u8],
        each: &mut impl FnMut(&[u8], usize) -> bool,
    ) -> Result<&'a [u8], FrameError> {
        let mut taken = 0;
        // The length itself may have been cut.
        while read_length(&self.bytes[self.open..])?.is_none() {
            let Some(&byte) = piece.get(taken) else { return Ok(&[]) };
            self.bytes.push(byte);
            taken += 1;
        }
        let rest = &piece[taken..];
        let Some((length, header)) = read_length(&self.bytes[self.open..])? else { return Ok(rest) };
        if length > self.bytes_max {
            return Err(FrameError::TooLong(length, self.bytes_max));
        }
        let content = self.open + header;
        let wanted = (content + length - self.bytes.len()).min(rest.len());
        append(&mut self.bytes, &rest[..wanted])?;
        if self.bytes.len() == content + length {
            if each(&self.bytes[content..], content) {
                self.open = self.bytes.len();
            } else {
                self.reset();
            }
        }
        Ok(&rest[wanted..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream_of(contents: &[Vec<u8>]) -> Vec<u8> {
        let mut stream = Vec::new();
        for content in contents {
            write(content, &mut stream);
        }
        stream
    }

    fn contents() -> Vec<Vec<u8>> {
        [0usize, 1, 127, 128, 300, 20_000].iter().map(|&n| vec![n as u8; n]).collect()
    }

    #[test]
    fn frames_are_found_however_the_stream_is_cut() {
        let stream = stream_of(&contents());
        for size in [1, 2, 3, 7, 64, 1400, stream.len()] {
            let mut reader = FrameReader::new(1 << 20);
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                reader
                    .read(piece, |frame, _| {
                        found.push(frame.to_vec());
                        false
                    })
                    .unwrap();
            }
            assert_eq!(found, contents(), "in pieces of {size}");
            assert_eq!((reader.carried(), reader.kept()), (0, 0));
        }
    }

    #[test]
    fn frames_that_are_wanted_are_kept_where_they_were_said_to_be() {
        let stream = stream_of(&contents());
        for size in [1, 2, 3, 7, 64, 1400, stream.len()] {
            let mut reader = FrameReader::new(1 << 20);
            let (mut batches, mut places) = (Vec::new(), Vec::new());
            for (number, piece) in stream.chunks(size).enumerate() {
                reader
                    .read(piece, |frame, at| {
                        let wanted = frame.len() != 127;
                        if wanted {
                            places.push(at..at + frame.len());
                        }
                        wanted
                    })
                    .unwrap();
                if number % 5 == 0 {
                    batches.push((reader.take_kept(Vec::new()), std::mem::take(&mut places)));
                }
            }
            batches.push((reader.take_kept(Vec::new()), places));
            let kept: Vec<Vec<u8>> = batches
                .iter()
                .flat_map(|(bytes, places)| places.iter().map(|place| bytes[place.clone()].to_vec()))
                .collect();
            let mut wanted = contents();
            wanted.remove(2);
            assert_eq!(kept, wanted, "in pieces of {size}");
        }
    }

    #[test]
    fn the_first_frame_is_there_or_cut_or_refused() {
        let stream = stream_of(&contents());
        let mut rest = &stream[..];
        for content in contents() {
            let (found, length) = first(rest, 1 << 20).unwrap().unwrap();
            assert_eq!(found, content);
            for cut in 0..length.min(5) {
                assert_eq!(first(&rest[..cut], 1 << 20), Ok(None));
            }
            rest = &rest[length..];
        }
        assert_eq!(first(rest, 1 << 20), Ok(None));
        assert_eq!(first(&[11], 10), Err(FrameError::TooLong(11, 10)));
        assert_eq!(first(&[0xff; 4], 10), Err(FrameError::BadLength));
    }

    #[test]
    fn frames_beyond_the_bound_and_endless_lengths_are_refused() {
        let mut reader = FrameReader::new(10);
        assert_eq!(reader.read(&[11], |_, _| true), Err(FrameError::TooLong(11, 10)));
        reader.reset();
        assert_eq!(reader.read(&[0xff, 0xff, 0xff, 0xff], |_, _| true), Err(FrameError::BadLength));
        reader.reset();
        let mut seen = 0;
        let mut count = |_: &[u8], _| {
            seen += 1;
            true
        };
        assert_eq!(reader.read(&[0xff], &mut count), Ok(()));
        assert_eq!(reader.read(&[0xff, 0xff, 0x80, 1], &mut count), Err(FrameError::BadLength));
        assert_eq!(seen, 0);
    }
}
