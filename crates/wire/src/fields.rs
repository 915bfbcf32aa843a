//! The optional fields of a message's header. Absent ones cost nothing; if any is there, presence bits say which.
//!
//! Presence bits come in words of 16. The top bit of a word says that another word follows. Fields of the lower eight
//! bits of a word are numbers (varint), those of the upper ones are a length (varint) and bytes. So a reader steps over
//! fields that were added after it was written.

use crate::cursor::{Cursor, text};
use crate::destination::{Destination, DestinationKind};
use crate::error::{DecodeError, EncodeError};
use crate::limits::{
    BODY_DETAIL_BYTES_MAX, CORRELATION_ID_BYTES_MAX, GROUP_BYTES_MAX, MESSAGE_TYPE_BYTES_MAX,
    TOPIC_BYTES_MAX, TRACE_BYTES_MAX, TRACE_STATE_BYTES_MAX,
};
use crate::message_id::MessageId;
use crate::reply_status::ReplyStatus;
use crate::topic::Topic;
use crate::varint::write_varint;

const WORD_BITS: u32 = 16;
const WORDS_MAX: u32 = 4;
const FIRST_BYTES_BIT: u32 = 8;
/// Set in a word that is followed by another.
const MORE_WORDS: u16 = 1 << 15;

const TIMESTAMP: u32 = 0;
const TTL: u32 = 1;
const DELIVERY_DELAY: u32 = 2;
const DELIVERY_COUNT: u32 = 3;
const PUBLISHED: u32 = 4;
const PREVIOUS_PERSISTENT: u32 = 5;
const REPLY_STATUS: u32 = 6;
const CONNECTION: u32 = 7;
const CORRELATION_ID: u32 = 8;
const REPLY_TO: u32 = 9;
const MESSAGE_TYPE: u32 = 10;
const ORIGIN: u32 = 11;
const BODY_DETAIL: u32 = 12;
const GROUP: u32 = 13;
const HOPS: u32 = 16;
const HELD: u32 = 17;
const LEASE: u32 = 18;
const KEY: u32 = 19;
const GROUP_SEQUENCE: u32 = 20;
const TRACE: u32 = 24;
const TRACE_STATE: u32 = 25;

/// A message's optional header fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeaderFields<'a> {
    /// When it was published, microseconds since 1970 by the publisher's clock (JMSTimestamp). Absent: as the stream's
    /// marks say.
    pub timestamp_us: Option<u64>,
    /// How long it may live from its publication on, microseconds. Absent: for ever.
    pub ttl_us: Option<u64>,
    /// How long it must be kept back from its publication on, microseconds.
    pub delivery_delay_us: Option<u64>,
    /// Which delivery of the message this is, from 1 (JMSXDeliveryCount).
    pub delivery_count: Option<u64>,
    /// When it entered this stream, microseconds by the clock that the stream's marks show. Given with a time to live
    /// or a delivery delay, so that the time it waited there counts.
    pub published_us: Option<u64>,
    /// By how much its number exceeds that of the persistent message before it in its chain; 0 if it is the first.
    pub previous_persistent: Option<u64>,
    /// Of an answer: whether it is an error, and whether more follow.
    pub reply_status: Option<ReplyStatus>,
    /// Which of its publisher's connections sent it. Absent: the first.
    pub connection: Option<u64>,
    /// What it answers or belongs to (JMSCorrelationID).
    pub correlation_id: Option<&'a [u8]>,
    /// Where answers go.
    pub reply_to: Option<Destination<'a>>,
    /// The application's name for its kind of message (JMSType).
    pub message_type: Option<&'a str>,
    /// Its identity, if it was passed on; otherwise its place in the stream says it.
    pub origin: Option<MessageId>,
    /// More about the body: a registered type's name, an array's layout.
    pub body_detail: Option<&'a [u8]>,
    /// Messages of one group go to one receiver (JMSXGroupID).
    pub group: Option<&'a str>,
    /// How many nodes have passed it on.
    pub hops: Option<u64>,
    /// How long its publisher, for a transaction, and those who passed it on held it, all together, microseconds. Each
    /// adds its own share, so clocks need not agree.
    pub held_us: Option<u64>,
    /// Under which lease a store delivers it; an acknowledgement names it again.
    pub lease: Option<u64>,
    /// Which key its body is encrypted with.
    pub key: Option<u64>,
    /// Its number in its group (JMSXGroupSeq).
    pub group_sequence: Option<u64>,
    /// The trace and span it was sent in: version, trace, span and flags of W3C Trace Context, in binary.
    pub trace: Option<&'a [u8]>,
    /// What tracing systems add to that (tracestate).
    pub trace_state: Option<&'a str>,
}

impl<'a> HeaderFields<'a> {
    /// Bit n is set if the field numbered n is there.
    #[inline]
    pub(crate) fn presence(&self) -> u32 {
        let bit = |there: bool, bit: u32| u32::from(there) << bit;
        bit(self.timestamp_us.is_some(), TIMESTAMP)
            | bit(self.ttl_us.is_some(), TTL)
            | bit(self.delivery_delay_us.is_some(), DELIVERY_DELAY)
            | bit(self.delivery_count.is_some(), DELIVERY_COUNT)
            | bit(self.published_us.is_some(), PUBLISHED)
            | bit(self.previous_persistent.is_some(), PREVIOUS_PERSISTENT)
            | bit(self.reply_status.is_some(), REPLY_STATUS)
            | bit(self.connection.is_some(), CONNECTION)
            | bit(self.correlation_id.is_some(), CORRELATION_ID)
            | bit(self.reply_to.is_some(), REPLY_TO)
            | bit(self.message_type.is_some(), MESSAGE_TYPE)
            | bit(self.origin.is_some(), ORIGIN)
            | bit(self.body_detail.is_some(), BODY_DETAIL)
            | bit(self.group.is_some(), GROUP)
            | bit(self.hops.is_some(), HOPS)
            | bit(self.held_us.is_some(), HELD)
            | bit(self.lease.is_some(), LEASE)
            | bit(self.key.is_some(), KEY)
            | bit(self.group_sequence.is_some(), GROUP_SEQUENCE)
            | bit(self.trace.is_some(), TRACE)
            | bit(self.trace_state.is_some(), TRACE_STATE)
    }

    /// Whether encoded fields say that there is a time to live; the rest of them is not looked at.
    #[inline]
    pub(crate) fn has_ttl(encoded: &[u8]) -> bool {
        Self::has(encoded, TTL)
    }

    /// Whether encoded fields say that there is a delivery delay; the rest of them is not looked at.
    #[inline]
    pub(crate) fn has_delay(encoded: &[u8]) -> bool {
        Self::has(encoded, DELIVERY_DELAY)
    }

    /// Whether encoded fields say that there is an origin; the rest of them is not looked at.
    #[inline]
    pub(crate) fn has_origin(encoded: &[u8]) -> bool {
        Self::has(encoded, ORIGIN)
    }

    /// Whether encoded fields say that there is a timestamp; the rest of them is not looked at.
    #[inline]
    pub(crate) fn has_timestamp(encoded: &[u8]) -> bool {
        Self::has(encoded, TIMESTAMP)
    }

    #[inline]
    fn has(encoded: &[u8], bit: u32) -> bool {
        encoded.first_chunk().is_some_and(|presence| u16::from_be_bytes(*presence) & 1 << bit != 0)
    }

    /// Whether every field keeps its bound.
    pub(crate) fn check(&self) -> Result<(), EncodeError> {
        let lengths = [
            ("correlation id", self.correlation_id.map(<[u8]>::len), CORRELATION_ID_BYTES_MAX),
            ("message type", self.message_type.map(str::len), MESSAGE_TYPE_BYTES_MAX),
            ("body detail", self.body_detail.map(<[u8]>::len), BODY_DETAIL_BYTES_MAX),
            ("group", self.group.map(str::len), GROUP_BYTES_MAX),
            ("trace", self.trace.map(<[u8]>::len), TRACE_BYTES_MAX),
            ("trace state", self.trace_state.map(str::len), TRACE_STATE_BYTES_MAX),
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
    pub(crate) fn write(&self, presence: u32, out: &mut Vec<u8>) {
        let (first, second) = (presence as u16, (presence >> WORD_BITS) as u16);
        if second == 0 {
            out.extend_from_slice(&first.to_be_bytes());
        } else {
            out.extend_from_slice(&(first | MORE_WORDS).to_be_bytes());
            out.extend_from_slice(&second.to_be_bytes());
        }
        let mut left = presence;
        while left != 0 {
            let bit = left.trailing_zeros();
            left &= left - 1;
            match self.number(bit) {
                Some(number) => write_varint(out, number),
                None => self.write_bytes(bit, out),
            }
        }
    }

    /// The number of a field that is there, if it is one.
    #[inline]
    fn number(&self, bit: u32) -> Option<u64> {
        match bit {
            TIMESTAMP => self.timestamp_us,
            TTL => self.ttl_us,
            DELIVERY_DELAY => self.delivery_delay_us,
            DELIVERY_COUNT => self.delivery_count,
            PUBLISHED => self.published_us,
            PREVIOUS_PERSISTENT => self.previous_persistent,
            REPLY_STATUS => self.reply_status.map(ReplyStatus::bits),
            CONNECTION => self.connection,
            HOPS => self.hops,
            HELD => self.held_us,
            LEASE => self.lease,
            KEY => self.key,
            GROUP_SEQUENCE => self.group_sequence,
            _ => None,
        }
    }

    fn write_bytes(&self, bit: u32, out: &mut Vec<u8>) {
        let bytes = match bit {
            CORRELATION_ID => self.correlation_id,
            REPLY_TO => self.reply_to.map(|reply_to| reply_to.name.as_str().as_bytes()),
            MESSAGE_TYPE => self.message_type.map(str::as_bytes),
            BODY_DETAIL => self.body_detail,
            GROUP => self.group.map(str::as_bytes),
            TRACE => self.trace,
            TRACE_STATE => self.trace_state.map(str::as_bytes),
            _origin => {
                if let Some(origin) = self.origin {
                    write_varint(out, origin.encoded_len() as u64);
                    origin.write(out);
                }
                return;
            }
        };
        write_prefixed(out, bytes.unwrap_or_default());
    }

    /// Reads presence bits and fields; whether a reply-to is a topic or a queue is said by a flag elsewhere.
    pub(crate) fn read(section: &'a [u8], reply_to_kind: DestinationKind) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(section);
        let mut presence = read_presence(&mut cursor)?;
        let mut fields = Self::default();
        while presence != 0 {
            let bit = presence.trailing_zeros();
            presence &= presence - 1;
            if bit % WORD_BITS < FIRST_BYTES_BIT {
                fields.set_number(bit, cursor.varint("header number")?);
            } else {
                fields.read_bytes(bit, &mut cursor, reply_to_kind)?;
            }
        }
        cursor.finish("header fields")?;
        Ok(fields)
    }

    #[inline]
    fn set_number(&mut self, bit: u32, value: u64) {
        match bit {
            TIMESTAMP => self.timestamp_us = Some(value),
            TTL => self.ttl_us = Some(value),
            DELIVERY_DELAY => self.delivery_delay_us = Some(value),
            DELIVERY_COUNT => self.delivery_count = Some(value),
            PUBLISHED => self.published_us = Some(value),
            PREVIOUS_PERSISTENT => self.previous_persistent = Some(value),
            REPLY_STATUS => self.reply_status = Some(ReplyStatus::from_bits(value)),
            CONNECTION => self.connection = Some(value),
            HOPS => self.hops = Some(value),
            HELD => self.held_us = Some(value),
            LEASE => self.lease = Some(value),
            KEY => self.key = Some(value),
            GROUP_SEQUENCE => self.group_sequence = Some(value),
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
            GROUP => self.group = Some(text(cursor.prefixed("group", GROUP_BYTES_MAX)?, "group")?),
            TRACE => self.trace = Some(cursor.prefixed("trace", TRACE_BYTES_MAX)?),
            TRACE_STATE => {
                let state = cursor.prefixed("trace state", TRACE_STATE_BYTES_MAX)?;
                self.trace_state = Some(text(state, "trace state")?);
            }
            _added_later => {
                cursor.prefixed("header field", u16::MAX.into())?;
            }
        }
        Ok(())
    }
}

/// All words of presence bits; bit n is set if the field numbered n is there.
#[inline]
fn read_presence(cursor: &mut Cursor<'_>) -> Result<u64, DecodeError> {
    let first = u16::from_be_bytes(cursor.array("header fields")?);
    if first & MORE_WORDS == 0 {
        return Ok(first.into());
    }
    let mut presence = u64::from(first & !MORE_WORDS);
    for word in 1..WORDS_MAX {
        let bits = u16::from_be_bytes(cursor.array("header fields")?);
        presence |= u64::from(bits & !MORE_WORDS) << (word * WORD_BITS);
        if bits & MORE_WORDS == 0 {
            return Ok(presence);
        }
    }
    let max = u64::from(WORDS_MAX);
    Err(DecodeError::OutOfRange { what: "number of presence words", value: max + 1, max })
}

fn write_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
