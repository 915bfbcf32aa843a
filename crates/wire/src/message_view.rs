//! A received message, read in place.

use crate::body::{ArrayLayout, BodyKind};
use crate::cursor::text;
use crate::destination::{Destination, DestinationKind};
use crate::error::{DecodeError, TopicError};
use crate::fields::HeaderFields;
use crate::message::{FIXED_BYTES, Outgoing, flags};
use crate::message_id::MessageId;
use crate::priority::Priority;
use crate::properties::Properties;
use crate::record::RecordKind;
use crate::topic::Topic;
use crate::value_reader::check_value;

/// A message record whose parts are found but not decoded.
///
/// Parsing checks only where the parts lie. Name, header fields and properties are checked when they are asked
/// for; [`MessageView::check`] checks everything at once.
#[derive(Debug, Clone, Copy)]
pub struct MessageView<'a> {
    priority: Priority,
    body_kind: u8,
    flags: u8,
    name: &'a [u8],
    fields: &'a [u8],
    properties: &'a [u8],
    body: &'a [u8],
}

impl<'a> MessageView<'a> {
    /// Finds the parts of a record.
    #[inline]
    pub fn parse(record: &'a [u8]) -> Result<Self, DecodeError> {
        match RecordKind::of(record)? {
            RecordKind::Message => {}
            other => return Err(DecodeError::NotAMessage { found: other.number() }),
        }
        let (&[_, urgency_and_kind, flags, name_length], rest) = record
            .split_first_chunk::<FIXED_BYTES>()
            .ok_or(DecodeError::Truncated { what: "message header" })?;
        let priority = urgency_and_kind >> 4;
        let priority = Priority::new(priority).map_err(|_| DecodeError::Priority { priority })?;
        if name_length == 0 {
            return Err(DecodeError::NoDestination);
        }
        let (name, rest) = rest
            .split_at_checked(name_length.into())
            .ok_or(DecodeError::Truncated { what: "destination" })?;
        let (fields, rest) = section(flags & flags::FIELDS != 0, rest, "header fields")?;
        let (properties, body) = section(flags & flags::PROPERTIES != 0, rest, "properties")?;
        Ok(Self { priority, body_kind: urgency_and_kind & 0x0f, flags, name, fields, properties, body })
    }

    /// The destination's name as it travelled, unchecked; for looking it up among names already checked.
    #[inline]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    /// The destination's name, checked.
    pub fn name(&self) -> Result<Topic<'a>, TopicError> {
        Topic::from_bytes(self.name)
    }

    /// Whether it goes to a topic or a queue.
    #[inline]
    pub fn destination_kind(&self) -> DestinationKind {
        self.kind_by(flags::QUEUE)
    }

    /// How urgent it is.
    #[inline]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Whether stores must keep it.
    #[inline]
    pub fn is_persistent(&self) -> bool {
        self.flags & flags::PERSISTENT != 0
    }

    /// Whether it may have been delivered before.
    #[inline]
    pub fn is_redelivered(&self) -> bool {
        self.flags & flags::REDELIVERED != 0
    }

    /// How to read the body; an error if a later version added the kind.
    #[inline]
    pub fn body_kind(&self) -> Result<BodyKind, DecodeError> {
        BodyKind::from_wire(self.body_kind)
    }

    /// The body as it travelled.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The optional header fields, decoded and checked.
    pub fn fields(&self) -> Result<HeaderFields<'a>, DecodeError> {
        if self.fields.is_empty() {
            return Ok(HeaderFields::default());
        }
        HeaderFields::read(self.fields, self.kind_by(flags::REPLY_TO_QUEUE))
    }

    /// How long it may live, microseconds. Without one, which is the rule, no header field is decoded.
    #[inline]
    pub fn ttl_us(&self) -> Result<Option<u64>, DecodeError> {
        if HeaderFields::has_ttl(self.fields) { Ok(self.fields()?.ttl_us) } else { Ok(None) }
    }

    /// How long it must be kept back, microseconds. Without that, which is the rule, no header field is decoded.
    #[inline]
    pub fn delivery_delay_us(&self) -> Result<Option<u64>, DecodeError> {
        if HeaderFields::has_delay(self.fields) { Ok(self.fields()?.delivery_delay_us) } else { Ok(None) }
    }

    /// Its identity, if it carries one because it was passed on. Without one no header field is decoded.
    #[inline]
    pub fn origin(&self) -> Result<Option<MessageId>, DecodeError> {
        if HeaderFields::has_origin(self.fields) { Ok(self.fields()?.origin) } else { Ok(None) }
    }

    /// When it was published, if it says so itself. Without it no header field is decoded.
    #[inline]
    pub fn timestamp_us(&self) -> Result<Option<u64>, DecodeError> {
        if HeaderFields::has_timestamp(self.fields) { Ok(self.fields()?.timestamp_us) } else { Ok(None) }
    }

    /// The properties; each is decoded when it is asked for.
    #[inline]
    pub fn properties(&self) -> Properties<'a> {
        Properties::from_encoded(self.properties)
    }

    /// The message as one to be sent on, perhaps with changed fields.
    ///
    /// Header fields that a later version added are not carried over; to pass a message on unchanged, pass on the
    /// record.
    pub fn to_outgoing(&self) -> Result<Outgoing<'a>, DecodeError> {
        let name = self.name().map_err(|error| DecodeError::Destination { what: "destination", error })?;
        Ok(Outgoing {
            destination: Destination { kind: self.destination_kind(), name },
            priority: self.priority,
            persistent: self.is_persistent(),
            redelivered: self.is_redelivered(),
            fields: self.fields()?,
            properties: self.properties(),
            body_kind: self.body_kind()?,
            body: self.body,
        })
    }

    /// Checks every part, the body included, where what is kept must be readable later. An Arrow stream is not
    /// looked into.
    pub fn check(&self) -> Result<(), DecodeError> {
        let message = self.to_outgoing()?;
        for property in self.properties().iter() {
            property?;
        }
        let detail = message.fields.body_detail.ok_or(DecodeError::NoBodyDetail);
        match message.body_kind {
            BodyKind::Empty if self.body.is_empty() => Ok(()),
            BodyKind::Empty => Err(DecodeError::LeftOver { what: "empty body", bytes: self.body.len() }),
            BodyKind::Bytes | BodyKind::Arrow => Ok(()),
            BodyKind::Text => text(self.body, "body").map(drop),
            BodyKind::Map | BodyKind::List | BodyKind::Value => check_value(self.body),
            BodyKind::Array => ArrayLayout::read(detail?).map(drop),
            // Without a type it is a list or a mapping with objects inside.
            BodyKind::Object => {
                message.fields.body_detail.map(|name| text(name, "type name")).transpose()?;
                check_value(self.body)
            }
        }
    }

    fn kind_by(&self, queue_flag: u8) -> DestinationKind {
        if self.flags & queue_flag != 0 { DestinationKind::Queue } else { DestinationKind::Topic }
    }
}

/// A part that starts with its length in two bytes, and what follows it.
#[inline]
fn section<'a>(
    present: bool,
    bytes: &'a [u8],
    what: &'static str,
) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
    if !present {
        return Ok((&[], bytes));
    }
    let (&length, rest) = bytes.split_first_chunk::<2>().ok_or(DecodeError::Truncated { what })?;
    let length = usize::from(u16::from_be_bytes(length));
    rest.split_at_checked(length).ok_or(DecodeError::Truncated { what })
}
