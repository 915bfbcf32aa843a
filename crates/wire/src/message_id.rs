//! Who published a message, and as which: the identity every message has without carrying it.

use std::fmt;
use std::str::FromStr;

use crate::cursor::Cursor;
use crate::error::{DecodeError, MessageIdError};
use crate::varint::{VARINT_BYTES_MAX, varint_len, write_varint};

/// A message's identity, given when it is published and never changed. On its publisher's own stream the marks and
/// skips there say it; a message that somebody else passes on carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The publisher: a random number, drawn by each connection anew. Never 0.
    pub publisher: u64,
    /// One of the publisher's ordered paths.
    pub chain: u32,
    /// The message's number in its chain, from 1.
    pub number: u64,
}

impl MessageId {
    const PUBLISHER_BYTES: usize = 8;

    /// The longest encoding a reader accepts.
    pub(crate) const BYTES_MAX: usize = Self::PUBLISHER_BYTES + 2 * VARINT_BYTES_MAX;

    pub(crate) fn encoded_len(&self) -> usize {
        Self::PUBLISHER_BYTES + varint_len(self.chain.into()) + varint_len(self.number)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.publisher.to_be_bytes());
        write_varint(out, self.chain.into());
        write_varint(out, self.number);
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes);
        let id = Self {
            publisher: u64::from_be_bytes(cursor.array("origin publisher")?),
            chain: cursor.varint32("origin chain")?,
            number: cursor.varint("origin number")?,
        };
        cursor.finish("origin")?;
        Ok(id)
    }
}

/// The one text form: `ID:`, as JMS asks of a JMSMessageID, sixteen hexadecimal digits, and two decimal numbers.
impl fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ID:{:016x}-{}-{}", self.publisher, self.chain, self.number)
    }
}

/// Accepts what [`MessageId`]'s `Display` writes and nothing else, so that equal texts and equal identities are the
/// same.
impl FromStr for MessageId {
    type Err = MessageIdError;

    fn from_str(text: &str) -> Result<Self, MessageIdError> {
        let parse = || {
            let mut parts = text.strip_prefix("ID:")?.split('-');
            let publisher = u64::from_str_radix(parts.next()?, 16).ok()?;
            let chain = parts.next()?.parse().ok()?;
            let number = parts.next()?.parse().ok()?;
            Some(Self { publisher, chain, number })
        };
        // Signs, capitals and leading zeros would make a second text for one identity.
        parse().filter(|id| id.to_string() == text).ok_or(MessageIdError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_and_bytes_come_back(publisher: u64, chain: u32, number: u64) {
            let id = MessageId { publisher, chain, number };
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            let mut bytes = Vec::new();
            id.write(&mut bytes);
            prop_assert_eq!(bytes.len(), id.encoded_len());
            prop_assert_eq!(MessageId::read(&bytes), Ok(id));
        }

        #[test]
        fn whatever_text_is_accepted_is_the_one_that_is_written(text in "ID:[0-9a-fA-F+]{14,18}-[0-9+-]{1,4}-[0-9 ]{1,4}") {
            if let Ok(id) = text.parse::<MessageId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn the_text_form_starts_as_jms_asks() {
        let id = MessageId { publisher: 0xbeef, chain: 2, number: 77 };
        assert_eq!(id.to_string(), "ID:000000000000beef-2-77");
    }

    #[test]
    fn a_second_text_for_one_identity_is_refused() {
        for text in [
            "",
            "ID:",
            "000000000000beef-2-77",
            "ID:beef-2-77",
            "ID:000000000000BEEF-2-77",
            "ID:000000000000beef-02-77",
            "ID:000000000000beef-2-+77",
            "ID:000000000000beef-2-77-1",
            "ID:000000000000beef-4294967296-77",
            "ID:000000000000beef-2-18446744073709551616",
        ] {
            assert_eq!(text.parse::<MessageId>(), Err(MessageIdError), "{text}");
        }
    }

    #[test]
    fn a_chain_of_more_than_32_bits_is_refused() {
        let mut bytes = vec![0; 8];
        write_varint(&mut bytes, 1 << 32);
        bytes.push(1);
        let error = DecodeError::OutOfRange { what: "origin chain", value: 1 << 32, max: u32::MAX.into() };
        assert_eq!(MessageId::read(&bytes), Err(error));
    }
}
