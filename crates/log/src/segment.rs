//! Segments: numbered files of frames, each with what it is as its first frame.
//!
//! ```text
//! 8 bytes  "SHOALLOG"
//! u16      version of the format
//! u16      flags: 1 = compacted
//! u32      zero
//! 16 bytes incarnation
//! u64      position at which the segment before ends (0: there is none, or it was there no more)
//! u64      only if compacted: position at which this file ends, otherwise 0
//! u64      how long the file was made; as long as it is the last one, it is not shorter
//! u64      version 2 only: index of this frame in the log of its group
//! u32      version 2 only: term of the frame before it
//! u32      version 2 only: zero
//! ```
//!
//! Version 2 is the log of a group of stores; one store alone writes version 1.

use crate::bytes::Reader;
use crate::error::LogError;

/// The newest version that this crate reads: that of a group's log.
pub const LOG_VERSION: u16 = 2;
/// The version of a log that no group keeps.
const ALONE_VERSION: u16 = 1;

const MAGIC: &[u8; 8] = b"SHOALLOG";
const COMPACTED: u16 = 1;
/// The payload of the first frame.
pub(crate) const INFO_BYTES: usize = 72;

/// Which store it is, since it was last restored. Part of every cursor.
pub type Incarnation = [u8; 16];

/// The payload of the first frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The incarnation in which it was begun.
    pub incarnation: Incarnation,
    /// Where the segment before ends.
    pub previous_end: u64,
    /// Where this file ends, if retention made it anew.
    pub compacted_end: Option<u64>,
    /// How long the file was made.
    pub file_bytes: u64,
    /// Where it stands in the log of a group.
    pub start: Option<Start>,
}

/// Where a segment begins in the log of a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The index of its first frame.
    pub index: u64,
    /// The term of the frame before it.
    pub term_before: u32,
}

impl SegmentInfo {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(INFO_BYTES);
        out.extend_from_slice(MAGIC);
        let version = if self.start.is_some() { LOG_VERSION } else { ALONE_VERSION };
        out.extend_from_slice(&version.to_le_bytes());
        let flags = if self.compacted_end.is_some() { COMPACTED } else { 0 };
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.incarnation);
        out.extend_from_slice(&self.previous_end.to_le_bytes());
        out.extend_from_slice(&self.compacted_end.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        if let Some(start) = self.start {
            out.extend_from_slice(&start.index.to_le_bytes());
            out.extend_from_slice(&start.term_before.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
        }
        out
    }

    pub(crate) fn read(payload: &[u8], file: &str) -> Result<SegmentInfo, LogError> {
        let foreign = || LogError::Refused(format!("{file} is no segment of a Shoal log"));
        let mut reader = Reader(payload);
        if reader.take(8) != Some(MAGIC) {
            return Err(foreign());
        }
        let found = reader.u16().ok_or_else(foreign)?;
        if found != ALONE_VERSION && found != LOG_VERSION {
            return Err(LogError::Version { file: file.to_owned(), found, wanted: LOG_VERSION });
        }
        let mut rest = || {
            let flags = reader.u16()?;
            reader.u32()?;
            let incarnation = reader.take(16)?.try_into().ok()?;
            let (previous_end, end, file_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let compacted_end = (flags & COMPACTED != 0).then_some(end);
            let start = if found == LOG_VERSION {
                Some(Start { index: reader.u64()?, term_before: reader.u32()? })
            } else {
                None
            };
            Some(SegmentInfo { incarnation, previous_end, compacted_end, file_bytes, start })
        };
        rest().ok_or_else(foreign)
    }
}

/// A file's name, by what it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Segment(u32),
    Index(u32),
    Spare(u32),
    /// A file that was not finished.
    Unfinished,
    Other,
}

impl Name {
    pub fn of(name: &str) -> Name {
        let Some((stem, suffix)) = name.split_once('.') else { return Name::Other };
        if suffix.ends_with("new") {
            return Name::Unfinished;
        }
        if let (Some(number), "log") = (stem.strip_prefix("spare-"), suffix) {
            return number.parse().map_or(Name::Other, Name::Spare);
        }
        match (stem.parse(), suffix) {
            (Ok(number), "log") if stem.len() == 10 => Name::Segment(number),
            (Ok(number), "idx") if stem.len() == 10 => Name::Index(number),
            _ => Name::Other,
        }
    }
}

/// The file of a segment.
pub fn segment_name(number: u32) -> String {
    format!("{number:010}.log")
}

/// A segment that is being written anew, or fetched from another member.
pub(crate) fn unfinished_name(number: u32) -> String {
    format!("{}.new", segment_name(number))
}

pub(crate) fn index_name(number: u32) -> String {
    format!("{number:010}.idx")
}

pub(crate) fn spare_name(number: u32) -> String {
    format!("spare-{number}.log")
}

/// What is known of a segment without opening its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number, which its file is called after.
    pub number: u32,
    /// The first offset it can hold.
    pub first_offset: u64,
    /// The offset after the last; the next segment begins there.
    pub end_offset: u64,
    /// When it was begun, microseconds since 1970.
    pub begun_us: u64,
    /// When the last frame was put in.
    pub ended_us: u64,
    /// Where its frames end.
    pub end_position: u64,
    /// Whether it takes no more frames.
    pub sealed: bool,
    /// Whether retention made it anew.
    pub compacted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_file_is() {
        assert_eq!(Name::of(&segment_name(7)), Name::Segment(7));
        assert_eq!(Name::of(&index_name(4_000_000_000)), Name::Index(4_000_000_000));
        assert_eq!(Name::of(&spare_name(2)), Name::Spare(2));
        assert_eq!(Name::of("0000000007.log.new"), Name::Unfinished);
        assert_eq!(Name::of("0000000007.txt"), Name::Other);
        assert_eq!(Name::of("7.log"), Name::Other);
        assert_eq!(Name::of("state.sqlite"), Name::Other);
    }

    #[test]
    fn another_version_is_named() {
        let mut info = SegmentInfo {
            incarnation: [7; 16],
            previous_end: 9,
            compacted_end: Some(11),
            file_bytes: 64,
            start: Some(Start { index: 12, term_before: 3 }),
        };
        assert_eq!(SegmentInfo::read(&info.write(), "a").unwrap(), info);
        info.start = None;
        let mut bytes = info.write();
        assert_eq!(bytes.len(), 56, "one store alone writes what it always wrote");
        assert_eq!(SegmentInfo::read(&bytes, "a").unwrap(), info);
        bytes[8] = 9;
        let error = SegmentInfo::read(&bytes, "0000000001.log").unwrap_err().to_string();
        assert_eq!(error, "0000000001.log has format version 9, and this program reads versions 1 to 2");
    }
}
