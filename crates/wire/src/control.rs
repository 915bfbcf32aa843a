//! Records by which nodes keep track of each other.
//!
//! All numbers are varints unless their width is given. A record may grow at its end: readers ignore
//! what they do not know there.

use crate::cursor::{Cursor, text};
use crate::error::DecodeError;
use crate::limits::TOPIC_BYTES_MAX;
use crate::record::RecordKind;
use crate::varint::write_varint;

/// The most subscriptions a node may announce.
const PATTERNS_MAX: u64 = 1_000_000;
/// The most nodes an announcement may ask for.
const NODES_MAX: u64 = 100_000;
/// The most streams a welcome may name.
const POSITIONS_MAX: u64 = 256;

/// Who a node is and what it subscribes to; the whole of it, each time something changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announce<'a> {
    /// Its domain, eight bytes: others may share the group.
    pub domain: u64,
    /// Counts the changes.
    pub version: u64,
    /// How often it says that it is there.
    pub heartbeat_ms: u64,
    /// What it subscribes to, each once.
    pub patterns: Vec<&'a str>,
    /// Nodes whose announcement or welcome it lacks, four bytes each.
    pub missing: Vec<u32>,
}

impl<'a> Announce<'a> {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(RecordKind::Announce.first_byte());
        out.extend_from_slice(&self.domain.to_be_bytes());
        write_varint(out, self.version);
        write_varint(out, self.heartbeat_ms);
        write_varint(out, self.patterns.len() as u64);
        for pattern in &self.patterns {
            write_varint(out, pattern.len() as u64);
            out.extend_from_slice(pattern.as_bytes());
        }
        write_varint(out, self.missing.len() as u64);
        for node in &self.missing {
            out.extend_from_slice(&node.to_be_bytes());
        }
    }

    /// Reads the record.
    pub fn read(record: &'a [u8]) -> Result<Announce<'a>, DecodeError> {
        let mut cursor = after_kind(record);
        let domain = u64::from_be_bytes(cursor.array("domain")?);
        let version = cursor.varint("announced version")?;
        let heartbeat_ms = cursor.varint("heartbeat interval")?;
        let count = bounded(&mut cursor, "number of subscriptions", PATTERNS_MAX)?;
        let mut patterns = Vec::new();
        for _ in 0..count {
            patterns.push(text(cursor.prefixed("subscription", TOPIC_BYTES_MAX)?, "subscription")?);
        }
        let count = bounded(&mut cursor, "number of missing nodes", NODES_MAX)?;
        let mut missing = Vec::new();
        for _ in 0..count {
            missing.push(u32::from_be_bytes(cursor.array("missing node")?));
        }
        Ok(Announce { domain, version, heartbeat_ms, patterns, missing })
    }
}

/// A node is still there, and what it announced last still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its domain, eight bytes.
    pub domain: u64,
    /// The version it announced last.
    pub version: u64,
}

impl Heartbeat {
    /// Appends the record.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(RecordKind::Heartbeat.first_byte());
        out.extend_from_slice(&self.domain.to_be_bytes());
        write_varint(out, self.version);
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Heartbeat, DecodeError> {
        let mut cursor = after_kind(record);
        let domain = u64::from_be_bytes(cursor.array("domain")?);
        Ok(Heartbeat { domain, version: cursor.varint("announced version")? })
    }
}

/// A sender tells one node from which segment of each of its streams on it counts on that node's
/// acknowledgements, and keeps for it what it has not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The node, four bytes.
    pub node: u32,
    /// The node's instance, two bytes.
    pub instance: u16,
    /// Streams, by object id, and the first segment that counts.
    pub positions: Vec<(u16, u64)>,
}

impl Welcome {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(RecordKind::Welcome.first_byte());
        out.extend_from_slice(&self.node.to_be_bytes());
        out.extend_from_slice(&self.instance.to_be_bytes());
        write_varint(out, self.positions.len() as u64);
        for &(object, segment) in &self.positions {
            write_varint(out, object.into());
            write_varint(out, segment);
        }
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Welcome, DecodeError> {
        let mut cursor = after_kind(record);
        let node = u32::from_be_bytes(cursor.array("welcomed node")?);
        let instance = u16::from_be_bytes(cursor.array("welcomed instance")?);
        let count = bounded(&mut cursor, "number of positions", POSITIONS_MAX)?;
        let mut positions = Vec::new();
        for _ in 0..count {
            let object = bounded(&mut cursor, "stream", u16::MAX.into())? as u16;
            positions.push((object, cursor.varint("position")?));
        }
        Ok(Welcome { node, instance, positions })
    }
}

/// What messages do not carry one by one: when those that follow were sent, and the number of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Microseconds since 1970 by the sender's clock.
    pub timestamp_us: u64,
    /// How many messages the stream carried before.
    pub number: u64,
    /// The version of its subscriptions that the sender had announced by then.
    pub version: u64,
    /// Microseconds by a clock of the sender's that never jumps.
    pub clock_us: u64,
}

impl Mark {
    /// Appends the record.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(RecordKind::Mark.first_byte());
        write_varint(out, self.timestamp_us);
        write_varint(out, self.number);
        write_varint(out, self.version);
        write_varint(out, self.clock_us);
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Mark, DecodeError> {
        let mut cursor = after_kind(record);
        Ok(Mark {
            timestamp_us: cursor.varint("timestamp")?,
            number: cursor.varint("message number")?,
            version: cursor.varint("announced version")?,
            clock_us: cursor.varint("sender's clock")?,
        })
    }
}

fn after_kind(record: &[u8]) -> Cursor<'_> {
    Cursor::new(record.get(1..).unwrap_or(&[]))
}

fn bounded(cursor: &mut Cursor<'_>, what: &'static str, max: u64) -> Result<u64, DecodeError> {
    let value = cursor.varint(what)?;
    if value > max { Err(DecodeError::OutOfRange { what, value, max }) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_comes_back() {
        let mut out = Vec::new();
        let announce = Announce {
            domain: 0x0123_4567_89ab_cdef,
            version: 300,
            heartbeat_ms: 4000,
            patterns: vec!["prices/*", "a/>"],
            missing: vec![7, 0xffff_fffe],
        };
        announce.write(&mut out);
        assert_eq!(RecordKind::of(&out), Ok(RecordKind::Announce));
        assert_eq!(Announce::read(&out), Ok(announce));

        out.clear();
        let heartbeat = Heartbeat { domain: 1 << 63, version: 7 };
        heartbeat.write(&mut out);
        assert_eq!(Heartbeat::read(&out), Ok(heartbeat));

        out.clear();
        let welcome = Welcome { node: 0xdead_beef, instance: 3, positions: vec![(1, 0), (2, 1 << 40)] };
        welcome.write(&mut out);
        assert_eq!(Welcome::read(&out), Ok(welcome));

        out.clear();
        let mark = Mark { timestamp_us: 1_700_000_000_000_000, number: 12, version: 3, clock_us: 1_000_000 };
        mark.write(&mut out);
        assert_eq!(Mark::read(&out), Ok(mark));
    }

    #[test]
    fn cut_records_and_absurd_counts_are_refused() {
        let mut out = Vec::new();
        let announce =
            Announce { domain: 1, version: 1, heartbeat_ms: 1, patterns: vec!["abc"], missing: vec![2] };
        announce.write(&mut out);
        for length in 1..out.len() {
            assert!(Announce::read(&out[..length]).is_err(), "cut at {length}");
        }
        let mut absurd = vec![RecordKind::Announce.first_byte()];
        absurd.extend([0; 8]);
        for value in [1, 1, PATTERNS_MAX + 1] {
            write_varint(&mut absurd, value);
        }
        assert!(matches!(Announce::read(&absurd), Err(DecodeError::OutOfRange { .. })));
    }
}
