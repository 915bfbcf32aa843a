//! A message on its way out, and the layout of a message record.
//!
//! ```text
//! byte 0   version and record kind
//! byte 1   priority (high four bits), body kind (low four bits)
//! byte 2   flags
//! byte 3   length of the destination's name
//!          the name
//!          if FIELDS:      length (two bytes), optional header fields
//!          if PROPERTIES:  length (two bytes), properties
//!          the body, up to the end of the record
//! ```
//!
//! The name travels with every message. Naming topics by small numbers defined earlier in the stream would save a
//! few bytes, and would cost every late joiner, router and repaired gap the question what a number meant.

use crate::body::BodyKind;
use crate::destination::{Destination, DestinationKind};
use crate::error::EncodeError;
use crate::fields::HeaderFields;
use crate::priority::Priority;
use crate::properties::Properties;
use crate::record::RecordKind;

/// Bytes before the destination's name.
pub(crate) const FIXED_BYTES: usize = 4;

/// Bits of a message's flags byte. Readers ignore the others, which therefore must never change the layout.
pub(crate) mod flags {
    pub(crate) const PERSISTENT: u8 = 1 << 0;
    pub(crate) const REDELIVERED: u8 = 1 << 1;
    pub(crate) const QUEUE: u8 = 1 << 2;
    pub(crate) const REPLY_TO_QUEUE: u8 = 1 << 3;
    pub(crate) const FIELDS: u8 = 1 << 4;
    pub(crate) const PROPERTIES: u8 = 1 << 5;
}

/// A message to be encoded. Everything is borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outgoing<'a> {
    /// Where it goes.
    pub destination: Destination<'a>,
    /// How urgent it is.
    pub priority: Priority,
    /// JMS's delivery mode: whether stores must keep it.
    pub persistent: bool,
    /// Whether it may have been delivered before.
    pub redelivered: bool,
    /// Optional header fields.
    pub fields: HeaderFields<'a>,
    /// Named values for selectors and applications.
    pub properties: Properties<'a>,
    /// How to read the body.
    pub body_kind: BodyKind,
    /// The body, encoded as its kind says.
    pub body: &'a [u8],
}

impl<'a> Outgoing<'a> {
    /// A message with nothing but destination and body.
    pub fn new(destination: Destination<'a>, body_kind: BodyKind, body: &'a [u8]) -> Self {
        Self {
            destination,
            priority: Priority::default(),
            persistent: false,
            redelivered: false,
            fields: HeaderFields::default(),
            properties: Properties::default(),
            body_kind,
            body,
        }
    }

    /// Appends the record. On an error nothing is appended.
    #[inline]
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_head_into(out)?;
        out.extend_from_slice(self.body);
        Ok(())
    }

    /// Appends the record up to its body, of which only the length is used, to reserve room. The caller appends
    /// the body itself: nothing in the head depends on it. On an error nothing is appended.
    #[inline]
    pub fn encode_head_into(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let presence = self.fields.presence();
        if presence != 0 {
            self.fields.check()?;
        }
        let name = self.destination.name.as_str().as_bytes();
        out.reserve(FIXED_BYTES + name.len() + self.properties.as_bytes().len() + self.body.len());
        out.extend_from_slice(&[
            RecordKind::Message.first_byte(),
            self.priority.get() << 4 | self.body_kind as u8,
            self.flags(presence),
            name.len() as u8,
        ]);
        out.extend_from_slice(name);
        if presence != 0 {
            self.write_fields(presence, out);
        }
        if !self.properties.is_empty() {
            let properties = self.properties.as_bytes();
            out.extend_from_slice(&(properties.len() as u16).to_be_bytes());
            out.extend_from_slice(properties);
        }
        Ok(())
    }

    fn flags(&self, presence: u32) -> u8 {
        let reply_to_queue =
            self.fields.reply_to.is_some_and(|reply_to| reply_to.kind == DestinationKind::Queue);
        flag(self.persistent, flags::PERSISTENT)
            | flag(self.redelivered, flags::REDELIVERED)
            | flag(self.destination.kind == DestinationKind::Queue, flags::QUEUE)
            | flag(reply_to_queue, flags::REPLY_TO_QUEUE)
            | flag(presence != 0, flags::FIELDS)
            | flag(!self.properties.is_empty(), flags::PROPERTIES)
    }

    fn write_fields(&self, presence: u32, out: &mut Vec<u8>) {
        let length_at = out.len();
        out.extend_from_slice(&[0; 2]);
        self.fields.write(presence, out);
        let length = out.len() - length_at - 2;
        // The bounds of all fields together are far below 64 KiB.
        out[length_at..length_at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    }
}

#[inline]
fn flag(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}
