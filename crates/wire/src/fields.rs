//! The optional fields of a message's header. Absent ones cost nothing; if any is there, two bytes of presence
//! bits say which.
//!
//! Fields of bits 0–7 are numbers (varint); fields of bits 8–15 are a length (varint) and bytes. So a reader
//! steps over fields that were added after it was written.

use crate::cursor::{Cursor, text};
use crate::destination::{Destination, DestinationKind};
use crate::error::{DecodeError, EncodeError};
use crate::limits::{
    BODY_DETAIL_BYTES_MAX, CORRELATION_ID_BYTES_MAX, MESSAGE_TYPE_BYTES_MAX, TOPIC_BYTES_MAX,
};
use crate::message_id::MessageId;
use crate::topic::Topic;
use crate::varint::write_varint;

const FIRST_BYTES_BIT: u32 = 8;

const TIMESTAMP: u32 = 0;
const TTL: u32 = 1;
const DELIVERY_DELAY: u32 = 2;
const DELIVERY_COUNT: u32 = 3;
const PUBLISHED: u32 = 4;
const CORRELATION_ID: u32 = 8;
const REPLY_TO: u32 = 9;
const MESSAGE_TYPE: u32 = 10;
const ORIGIN: u32 = 11;
const BODY_DETAIL: u32 = 12;

/// A message's optional header fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeaderFields<'a> {
    /// When it was sent, microseconds since 1970 by the sender's clock (JMSTimestamp).
    pub timestamp_us: Option<u64>,
    /// How long it may still live, microseconds. Whoever passes it on subtracts how long it was held, so clocks
    /// need not agree. Absent: for ever.
    pub ttl_us: Option<u64>,
    /// How long it must still be kept back, microseconds; counted as the time to live is.
    pub delivery_delay_us: Option<u64>,
    /// Which delivery of the message this is, from 1 (JMSXDeliveryCount).
    pub delivery_count: Option<u64>,
    /// When it was published, microseconds by the clock that the stream's marks show. Given with a time to live, so
    /// that the time it waited at its publisher counts.
    pub published_us: Option<u64>,
    /// What it answers or belongs to (JMSCorrelationID).
    pub correlation_id: Option<&'a [u8]>,
    /// Where answers go.
    pub reply_to: Option<Destination<'a>>,
    /// The application's name for its kind of message (JMSType).
    pub message_type: Option<&'a str>,
    /// Its identity, if it was forwarded; otherwise its place in the stream is its identity.
    pub origin: Option<MessageId>,
    /// More about the body: a registered type's name, an array's layout.
    pub body_detail: Option<&'a [u8]>,
}

impl<'a> HeaderFields<'a> {
    /// Bit n is set if the field numbered n is there.
    #[inline]
    pub(crate) fn presence(&self) -> u16 {
        u16::from(self.timestamp_us.is_some()) << TIMESTAMP
            | u16::from(self.ttl_us.is_some()) << TTL
            | u16::from(self.delivery_delay_us.is_some()) << DELIVERY_DELAY
            | u16::from(self.delivery_count.is_some()) << DELIVERY_COUNT
            | u16::from(self.published_us.is_some()) << PUBLISHED
            | u16::from(self.correlation_id.is_some()) << CORRELATION_ID
            | u16::from(self.reply_to.is_some()) << REPLY_TO
            | u16::from(self.message_type.is_some()) << MESSAGE_TYPE
            | u16::from(self.origin.is_some()) << ORIGIN
            | u16::from(self.body_detail.is_some()) << BODY_DETAIL
    }

    /// Whether encoded fields say that there is a time to live; the rest of them is not looked at.
    #[inline]
    pub(crate) fn has_ttl(encoded: &[u8]) -> bool {
        encoded.first_chunk().is_some_and(|presence| u16::from_be_bytes(*presence) & 1 << TTL != 0)
    }

    /// Whether every field keeps its bound.
    pub(crate) fn check(&self) -> Result<(), EncodeError> {
        let lengths = [
            ("correlation id", self.correlation_id.map(<[u8]>::len), CORRELATION_ID_BYTES_MAX),
            ("message type", self.message_type.map(str::len), MESSAGE_TYPE_BYTES_MAX),
            ("body detail", self.body_detail.map(<[u8]>::len), BODY_DETAIL_BYTES_MAX),
        ];
        for (field, length, max) in lengths {
            match length {
                Some(bytes) if bytes > max => {
                    return Err(EncodeError::FieldTooLong { field, bytes, max });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Appends presence bits and fields, which must have been checked.
    pub(crate) fn write(&self, presence: u16, out: &mut Vec<u8>) {
        out.extend_from_slice(&presence.to_be_bytes());
        let numbers =
            [self.timestamp_us, self.ttl_us, self.delivery_delay_us, self.delivery_count, self.published_us];
        for number in numbers.into_iter().flatten() {
            write_varint(out, number);
        }
        if let Some(correlation_id) = self.correlation_id {
            write_prefixed(out, correlation_id);
        }
        if let Some(reply_to) = self.reply_to {
            write_prefixed(out, reply_to.name.as_str().as_bytes());
        }
        if let Some(message_type) = self.message_type {
            write_prefixed(out, message_type.as_bytes());
        }
        if let Some(origin) = self.origin {
            write_varint(out, origin.encoded_len() as u64);
            origin.write(out);
        }
        if let Some(detail) = self.body_detail {
            write_prefixed(out, detail);
        }
    }

    /// Reads presence bits and fields; whether a reply-to is a topic or a queue is said by a flag elsewhere.
    pub(crate) fn read(section: &'a [u8], reply_to_kind: DestinationKind) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(section);
        let mut presence = u16::from_be_bytes(cursor.array("header fields")?);
        let mut fields = Self::default();
        while presence != 0 {
            let bit = presence.trailing_zeros();
            presence &= presence - 1;
            if bit < FIRST_BYTES_BIT {
                fields.set_number(bit, cursor.varint("header number")?);
            } else {
                fields.read_bytes(bit, &mut cursor, reply_to_kind)?;
            }
        }
        cursor.finish("header fields")?;
        Ok(fields)
    }

    fn set_number(&mut self, bit: u32, value: u64) {
        match bit {
            TIMESTAMP => self.timestamp_us = Some(value),
            TTL => self.ttl_us = Some(value),
            DELIVERY_DELAY => self.delivery_delay_us = Some(value),
            DELIVERY_COUNT => self.delivery_count = Some(value),
            PUBLISHED => self.published_us = Some(value),
            _added_later => {}
        }
    }

    fn read_bytes(
        &mut self,
        bit: u32,
        cursor: &mut Cursor<'a>,
        reply_to_kind: DestinationKind,
    ) -> Result<(), DecodeError> {
        match bit {
            CORRELATION_ID => {
                self.correlation_id = Some(cursor.prefixed("correlation id", CORRELATION_ID_BYTES_MAX)?);
            }
            REPLY_TO => {
                let name = Topic::from_bytes(cursor.prefixed("reply-to", TOPIC_BYTES_MAX)?)
                    .map_err(|error| DecodeError::Destination { what: "reply-to", error })?;
                self.reply_to = Some(Destination { kind: reply_to_kind, name });
            }
            MESSAGE_TYPE => {
                let name = cursor.prefixed("message type", MESSAGE_TYPE_BYTES_MAX)?;
                self.message_type = Some(text(name, "message type")?);
            }
            ORIGIN => self.origin = Some(MessageId::read(cursor.prefixed("origin", MessageId::BYTES_MAX)?)?),
            BODY_DETAIL => self.body_detail = Some(cursor.prefixed("body detail", BODY_DETAIL_BYTES_MAX)?),
            _added_later => {
                cursor.prefixed("header field", u16::MAX.into())?;
            }
        }
        Ok(())
    }
}

fn write_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
