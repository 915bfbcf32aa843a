//! Messages that are known to be lost, at their place among the others. They take no offset.
//!
//! ```text
//! u64  publisher
//! u32  chain
//! u32  flags: 1 = the first number is known, 2 = the last is, 4 = the store was away
//! u64  first number
//! u64  last number
//! u64  how many are lost, 0 if not known
//! ```

use crate::bytes::Reader;

/// Messages that are known to be lost.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Who published them.
    pub publisher: u64,
    /// Which ordered path of the publisher.
    pub chain: u32,
    /// The first number that is lost, if known.
    pub first: Option<u64>,
    /// The last, if known.
    pub last: Option<u64>,
    /// How many units are lost, as whoever noticed counts; 0 if not known.
    pub count: u64,
    /// The store was not there to hear them: they may not even have been on topics that it records.
    pub away: bool,
}

impl Gap {
    pub(crate) fn write(&self) -> Vec<u8> {
        let flags =
            u32::from(self.first.is_some()) | u32::from(self.last.is_some()) << 1 | u32::from(self.away) << 2;
        let mut out = Vec::with_capacity(40);
        out.extend_from_slice(&self.publisher.to_le_bytes());
        out.extend_from_slice(&self.chain.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        for number in [self.first.unwrap_or(0), self.last.unwrap_or(0), self.count] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    pub(crate) fn read(payload: &[u8]) -> Option<Gap> {
        let mut reader = Reader(payload);
        let (publisher, chain, flags) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let (first, last, count) = (reader.u64()?, reader.u64()?, reader.u64()?);
        Some(Gap {
            publisher,
            chain,
            first: (flags & 1 != 0).then_some(first),
            last: (flags & 2 != 0).then_some(last),
            count,
            away: flags & 4 != 0,
        })
    }
}
