//! What follows the greetings: blocks, each with its kind and its length in front.

use super::greeting::{Greeting, Misread};

/// The longest block.
pub(super) const BLOCK_BYTES_MAX: usize = 64 << 10;
/// Kind in one byte, length in three.
const HEADER_BYTES: usize = 4;
/// The first greeting of a connection may take so much.
const GREETING_BYTES_MAX: usize = 2048;

/// The kinds. Those from [`kind::LANE`] on carry bytes of the lane with that number.
pub(super) mod kind {
    pub const CONFIRM: u8 = 1;
    pub const ACK: u8 = 2;
    pub const ASK: u8 = 3;
    pub const PING: u8 = 4;
    pub const PONG: u8 = 5;
    pub const GOODBYE: u8 = 6;
    pub const END: u8 = 7;
    pub const REDIRECT: u8 = 8;
    /// Rules of this end deny the other something: why.
    pub const DENIED: u8 = 9;
    /// Records that nodes say of themselves; not kept, and told anew on every connection.
    pub const CONTROL: u8 = 16;
    pub const LANE: u8 = CONTROL;
}

/// Appends the head of a block whose content follows.
pub(super) fn write_head(kind: u8, length: usize, out: &mut Vec<u8>) {
    debug_assert!(length <= BLOCK_BYTES_MAX);
    let [_, a, b, c] = (length as u32).to_be_bytes();
    out.extend_from_slice(&[kind, a, b, c]);
}

/// Appends a block.
pub(super) fn write(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    write_head(kind, content.len(), out);
    out.extend_from_slice(content);
}

/// What was found in the bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// Nothing that ends here.
    Nothing,
    Greeting(Greeting),
    /// The next bytes of a lane, or of the control stream: a block's content is passed on as it comes.
    Bytes(u8, &'a [u8]),
    /// A whole block.
    Block(u8, Vec<u8>),
}

/// Finds greetings and blocks in what a connection brings, however it is cut.
#[derive(Debug)]
pub(super) struct Reader {
    /// What came of a greeting, a block's head, or a block that is read as a whole.
    part: Vec<u8>,
    /// The greeting is still to come.
    greets: bool,
    /// The block that is being read, and how much of it is to come.
    open: Option<(u8, usize)>,
}

impl Reader {
    pub fn new() -> Reader {
        Reader { part: Vec::new(), greets: true, open: None }
    }

    /// Reads on: what was found, and how many bytes that took. Takes something, unless there is nothing.
    pub fn read<'a>(&mut self, bytes: &'a [u8], software: &str) -> Result<(Found<'a>, usize), Misread> {
        if self.greets {
            return self.read_greeting(bytes, software);
        }
        match self.open {
            None => self.read_head(bytes),
            Some((kind, left)) if kind >= kind::LANE => {
                let taken = left.min(bytes.len());
                self.open = (taken < left).then_some((kind, left - taken));
                Ok((Found::Bytes(kind - kind::LANE, &bytes[..taken]), taken))
            }
            Some((kind, left)) => {
                let taken = left.min(bytes.len());
                self.part.extend_from_slice(&bytes[..taken]);
                if taken < left {
                    self.open = Some((kind, left - taken));
                    return Ok((Found::Nothing, taken));
                }
                self.open = None;
                Ok((Found::Block(kind, std::mem::take(&mut self.part)), taken))
            }
        }
    }

    fn read_greeting<'a>(&mut self, bytes: &'a [u8], software: &str) -> Result<(Found<'a>, usize), Misread> {
        let before = self.part.len();
        let room = GREETING_BYTES_MAX - before;
        self.part.extend_from_slice(&bytes[..room.min(bytes.len())]);
        match Greeting::read(&self.part, software)? {
            Some((greeting, length)) => {
                self.part.clear();
                self.greets = false;
                Ok((Found::Greeting(greeting), length - before))
            }
            None => Ok((Found::Nothing, bytes.len())),
        }
    }

    fn read_head<'a>(&mut self, bytes: &'a [u8]) -> Result<(Found<'a>, usize), Misread> {
        let taken = (HEADER_BYTES - self.part.len()).min(bytes.len());
        self.part.extend_from_slice(&bytes[..taken]);
        if let Some(&[kind, a, b, c]) = self.part.first_chunk::<HEADER_BYTES>() {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if length > BLOCK_BYTES_MAX {
                let why = format!("a block of {length} bytes is longer than the bound of {BLOCK_BYTES_MAX}");
                return Err(Misread::Nonsense(why));
            }
            self.part.clear();
            if length == 0 {
                return Ok((Found::Block(kind, Vec::new()), taken));
            }
            self.open = Some((kind, length));
        }
        Ok((Found::Nothing, taken))
    }
}

#[cfg(test)]
mod tests {
    use super::super::greeting::{Code, Greeting};
    use super::*;

    #[test]
    fn greetings_and_blocks_are_found_however_the_bytes_are_cut() {
        let greeting = Greeting::Refusal { code: Code::Busy, publisher: 1, session: 2, why: "later".into() };
        let mut bytes = Vec::new();
        greeting.write("shoal 1", &mut bytes);
        write(kind::PING, &[7; 8], &mut bytes);
        write(kind::ASK, &[], &mut bytes);
        write(kind::LANE + 2, &[9; 1000], &mut bytes);
        write(kind::END, b"over", &mut bytes);
        for size in [1, 2, 3, 7, 100, bytes.len()] {
            let (mut reader, mut lane, mut found) = (Reader::new(), Vec::new(), Vec::new());
            for mut piece in bytes.chunks(size) {
                while !piece.is_empty() {
                    let (one, taken) = reader.read(piece, "shoal 1").unwrap();
                    match one {
                        Found::Nothing => {}
                        Found::Bytes(number, bytes) => {
                            assert_eq!(number, 2);
                            lane.extend_from_slice(bytes);
                        }
                        Found::Greeting(one) => assert_eq!(one, greeting),
                        Found::Block(kind, content) => found.push((kind, content)),
                    }
                    piece = &piece[taken..];
                }
            }
            assert_eq!(lane, [9; 1000], "in pieces of {size}");
            let blocks = [(kind::PING, vec![7; 8]), (kind::ASK, vec![]), (kind::END, b"over".to_vec())];
            assert_eq!(found, blocks, "in pieces of {size}");
        }
    }

    #[test]
    fn a_block_that_is_too_long_is_refused_before_its_content_comes() {
        let mut reader = Reader { greets: false, ..Reader::new() };
        let refused = reader.read(&[kind::END, 0xff, 0xff, 0xff], "");
        assert!(matches!(refused, Err(Misread::Nonsense(why)) if why.contains("16777215 bytes")));
    }
}
