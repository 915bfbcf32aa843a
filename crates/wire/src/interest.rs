//! What a subscription asks for, as nodes tell each other.
//!
//! Everything here only ever narrows what is asked for. So a reader that does not know a flag or a kind of filter
//! leaves it out, and the announcer gets more than it asked for, never less.

use crate::cursor::{Cursor, text};
use crate::destination::DestinationKind;
use crate::error::{DecodeError, EncodeError};
use crate::limits::{FILTER_BYTES_MAX, FILTERS_MAX, TOPIC_BYTES_MAX};
use crate::varint::write_varint;

mod flags {
    pub const QUEUE: u8 = 1 << 0;
    pub const PERSISTENT_ONLY: u8 = 1 << 1;
    pub const NO_LOCAL: u8 = 1 << 2;
}

/// How a filter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// A condition on headers and properties.
    Selector,
    /// Correlation ids.
    Correlation,
    /// A kind that a later version added.
    Other(u8),
}

impl FilterKind {
    fn number(self) -> u8 {
        match self {
            Self::Selector => 1,
            Self::Correlation => 2,
            Self::Other(number) => number,
        }
    }

    fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Selector,
            2 => Self::Correlation,
            other => Self::Other(other),
        }
    }
}

/// A condition that a message must meet, in its own encoding, which is not looked into here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter<'a> {
    /// How it is written.
    pub kind: FilterKind,
    /// The condition.
    pub bytes: &'a [u8],
}

/// One subscription. A message is asked for if its name matches and it meets every condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterestEntry<'a> {
    /// Topics or queues; the same name may be both.
    pub kind: DestinationKind,
    /// Which names.
    pub pattern: &'a str,
    /// Only persistent messages.
    pub persistent_only: bool,
    /// Not what this one of the announcer's own connections publishes (JMS's noLocal).
    pub no_local: Option<u64>,
    /// Further conditions.
    pub filters: Vec<Filter<'a>>,
}

impl<'a> InterestEntry<'a> {
    /// The shortest entry: flags, a name of one byte with its length, no filter.
    pub(crate) const BYTES_MIN: usize = 4;

    /// Everything on names that match.
    pub fn new(kind: DestinationKind, pattern: &'a str) -> Self {
        Self { kind, pattern, persistent_only: false, no_local: None, filters: Vec::new() }
    }

    /// Appends the entry. On an error nothing is appended.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.check()?;
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.push(
            flag(self.kind == DestinationKind::Queue, flags::QUEUE)
                | flag(self.persistent_only, flags::PERSISTENT_ONLY)
                | flag(self.no_local.is_some(), flags::NO_LOCAL),
        );
        out.push(self.pattern.len() as u8);
        out.extend_from_slice(self.pattern.as_bytes());
        if let Some(connection) = self.no_local {
            write_varint(out, connection);
        }
        out.push(self.filters.len() as u8);
        for filter in &self.filters {
            out.push(filter.kind.number());
            write_varint(out, filter.bytes.len() as u64);
            out.extend_from_slice(filter.bytes);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), EncodeError> {
        let too_long = |field, bytes, max| Err(EncodeError::FieldTooLong { field, bytes, max });
        let bytes = self.pattern.len();
        if bytes > TOPIC_BYTES_MAX {
            return too_long("pattern", bytes, TOPIC_BYTES_MAX);
        }
        if self.pattern.is_empty() {
            return Err(EncodeError::PatternEmpty);
        }
        if self.filters.len() > FILTERS_MAX {
            return Err(EncodeError::TooManyFilters { filters: self.filters.len() });
        }
        let bytes = self.filters.iter().map(|filter| filter.bytes.len()).sum();
        if bytes > FILTER_BYTES_MAX {
            return too_long("filter", bytes, FILTER_BYTES_MAX);
        }
        Ok(())
    }

    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let found = cursor.byte("subscription flags")?;
        let length = cursor.byte("pattern")?;
        if length == 0 {
            return Err(DecodeError::PatternEmpty);
        }
        let pattern = text(cursor.take(length.into(), "pattern")?, "pattern")?;
        let no_local = match found & flags::NO_LOCAL {
            0 => None,
            _ => Some(cursor.varint("connection")?),
        };
        let count = usize::from(cursor.byte("number of filters")?);
        if count > FILTERS_MAX {
            let (value, max) = (count as u64, FILTERS_MAX as u64);
            return Err(DecodeError::OutOfRange { what: "number of filters", value, max });
        }
        let mut filters = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = FilterKind::from_number(cursor.byte("filter kind")?);
            filters.push(Filter { kind, bytes: cursor.prefixed("filter", FILTER_BYTES_MAX)? });
        }
        let kind = if found & flags::QUEUE == 0 { DestinationKind::Topic } else { DestinationKind::Queue };
        Ok(Self { kind, pattern, persistent_only: found & flags::PERSISTENT_ONLY != 0, no_local, filters })
    }
}

/// A subscription with its number, encoded once for all the announcements that it will be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedEntry {
    encoded: Vec<u8>,
}

impl NumberedEntry {
    /// Encodes a subscription. Its announcer never gives the number to another.
    pub fn new(id: u64, entry: &InterestEntry<'_>) -> Result<Self, EncodeError> {
        let mut encoded = Vec::new();
        write_varint(&mut encoded, id);
        entry.write(&mut encoded)?;
        Ok(Self { encoded })
    }

    /// As it travels.
    pub fn as_bytes(&self) -> &[u8] {
        &self.encoded
    }

    /// What it adds to the digest of all subscriptions of its announcer.
    pub fn digest(&self) -> u64 {
        digest(&self.encoded)
    }
}

/// The 64-bit FNV-1a hash of a subscription's number and entry as they are written.
pub(crate) fn digest(numbered_entry: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    numbered_entry.iter().fold(OFFSET, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv_1a() {
        // Values published with the algorithm.
        assert_eq!(digest(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(digest(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn flags_and_filters_of_a_later_version_are_read_as_a_wider_interest() {
        let bytes = [0b1111_1000, 1, b'a', 1, 77, 2, 0xff, 0xff];
        let entry = InterestEntry::read(&mut Cursor::new(&bytes)).unwrap();
        let filters = vec![Filter { kind: FilterKind::Other(77), bytes: &[0xff, 0xff] }];
        assert_eq!(entry, InterestEntry { filters, ..InterestEntry::new(DestinationKind::Topic, "a") });
    }

    #[test]
    fn entries_beyond_their_bounds_are_refused_and_leave_the_buffer_alone() {
        let mut out = vec![7];
        let long = "x".repeat(TOPIC_BYTES_MAX + 1);
        let bytes = vec![0; FILTER_BYTES_MAX + 1];
        let topic = |pattern| InterestEntry::new(DestinationKind::Topic, pattern);
        let filter = |bytes| Filter { kind: FilterKind::Selector, bytes };
        for entry in [
            topic(""),
            topic(&long),
            InterestEntry { filters: vec![filter(&bytes)], ..topic("a") },
            InterestEntry { filters: vec![filter(&[]); FILTERS_MAX + 1], ..topic("a") },
        ] {
            assert!(entry.write(&mut out).is_err());
        }
        assert_eq!(out, [7]);
    }
}
