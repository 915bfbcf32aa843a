//! Who sent a message, and as which: the identity every message has without carrying it.

use std::fmt;

use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::varint::{VARINT_BYTES_MAX, varint_len, write_varint};

/// A message's identity. Over a sender's own stream it is implied by where the message stands in it; a
/// forwarded message carries it, so that it stays the same on every path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The publishing node.
    pub node: u32,
    /// Which of the node's streams.
    pub stream: u32,
    /// The message's place in that stream.
    pub sequence: u64,
}

impl MessageId {
    /// The longest encoding a reader accepts.
    pub(crate) const BYTES_MAX: usize = 3 * VARINT_BYTES_MAX;

    pub(crate) fn encoded_len(&self) -> usize {
        varint_len(self.node.into()) + varint_len(self.stream.into()) + varint_len(self.sequence)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, self.node.into());
        write_varint(out, self.stream.into());
        write_varint(out, self.sequence);
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes);
        let id = Self {
            node: narrow(cursor.varint("origin node")?, "origin node")?,
            stream: narrow(cursor.varint("origin stream")?, "origin stream")?,
            sequence: cursor.varint("origin sequence")?,
        };
        cursor.finish("origin")?;
        Ok(id)
    }
}

fn narrow(value: u64, what: &'static str) -> Result<u32, DecodeError> {
    u32::try_from(value).map_err(|_| DecodeError::OutOfRange { what, value, max: u32::MAX.into() })
}

/// The text form starts with `ID:`, as JMS asks of a JMSMessageID.
impl fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ID:{:08x}-{}-{}", self.node, self.stream, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_starts_as_jms_asks() {
        let id = MessageId { node: 0xbeef, stream: 2, sequence: 77 };
        assert_eq!(id.to_string(), "ID:0000beef-2-77");
    }

    #[test]
    fn a_node_id_of_more_than_32_bits_is_refused() {
        let mut bytes = Vec::new();
        for number in [1 << 32, 0, 0] {
            write_varint(&mut bytes, number);
        }
        let error = DecodeError::OutOfRange { what: "origin node", value: 1 << 32, max: u32::MAX.into() };
        assert_eq!(MessageId::read(&bytes), Err(error));
    }
}
