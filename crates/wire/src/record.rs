//! The first byte of every record: the version of the format (top three bits) and the kind (the rest).
//!
//! A reader skips a record whose kind it does not know, as long as it knows the version. Kind 0 is kept for kinds
//! beyond 31; kinds 16 to 31 for what single links say to each other.

use crate::error::DecodeError;

/// The version of the format this crate writes.
pub const WIRE_VERSION: u8 = 3;

const KIND_BITS: u32 = 5;
const KIND_MASK: u8 = (1 << KIND_BITS) - 1;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordKind {
    /// A message with its body.
    Message,
    /// Who a node is and what it subscribes to.
    Announce,
    /// A node is still there.
    Heartbeat,
    /// From where on a node may count on a sender's streams.
    Welcome,
    /// Whose the messages that follow are, when they were sent, and the number of the first.
    Mark,
    /// Numbers that were given and do not come.
    Skip,
    /// A node leaves; the last number of each of its chains.
    Goodbye,
    /// Where the links of a node lead.
    LinkState,
    /// A node asks routers whether everything behind them was done.
    Question,
    /// A router's answer.
    Answer,
    /// A node asks a neighbour for what it lacks of chains.
    Replay,
    /// A sender does not count on a node any more.
    Forgets,
    /// Whose interest a sender applies from here on.
    Applied,
    /// A kind this version does not know; to be skipped.
    Unknown(u8),
}

impl RecordKind {
    const MESSAGE: u8 = 1;
    const ANNOUNCE: u8 = 2;
    const HEARTBEAT: u8 = 3;
    const WELCOME: u8 = 4;
    const MARK: u8 = 5;
    const SKIP: u8 = 6;
    const GOODBYE: u8 = 7;
    const LINK_STATE: u8 = 8;
    const QUESTION: u8 = 9;
    const ANSWER: u8 = 10;
    const REPLAY: u8 = 11;
    const FORGETS: u8 = 12;
    const APPLIED: u8 = 13;

    /// The kind of a record, from its bytes.
    #[inline]
    pub fn of(record: &[u8]) -> Result<Self, DecodeError> {
        let &first = record.first().ok_or(DecodeError::Truncated { what: "record" })?;
        let found = first >> KIND_BITS;
        if found != WIRE_VERSION {
            return Err(DecodeError::UnsupportedVersion { found });
        }
        Ok(match first & KIND_MASK {
            Self::MESSAGE => Self::Message,
            Self::ANNOUNCE => Self::Announce,
            Self::HEARTBEAT => Self::Heartbeat,
            Self::WELCOME => Self::Welcome,
            Self::MARK => Self::Mark,
            Self::SKIP => Self::Skip,
            Self::GOODBYE => Self::Goodbye,
            Self::LINK_STATE => Self::LinkState,
            Self::QUESTION => Self::Question,
            Self::ANSWER => Self::Answer,
            Self::REPLAY => Self::Replay,
            Self::FORGETS => Self::Forgets,
            Self::APPLIED => Self::Applied,
            kind => Self::Unknown(kind),
        })
    }

    /// The number of this kind.
    #[inline]
    pub fn number(self) -> u8 {
        match self {
            Self::Message => Self::MESSAGE,
            Self::Announce => Self::ANNOUNCE,
            Self::Heartbeat => Self::HEARTBEAT,
            Self::Welcome => Self::WELCOME,
            Self::Mark => Self::MARK,
            Self::Skip => Self::SKIP,
            Self::Goodbye => Self::GOODBYE,
            Self::LinkState => Self::LINK_STATE,
            Self::Question => Self::QUESTION,
            Self::Answer => Self::ANSWER,
            Self::Replay => Self::REPLAY,
            Self::Forgets => Self::FORGETS,
            Self::Applied => Self::APPLIED,
            Self::Unknown(kind) => kind & KIND_MASK,
        }
    }

    /// The first byte of a record of this kind.
    #[inline]
    pub fn first_byte(self) -> u8 {
        WIRE_VERSION << KIND_BITS | self.number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_first_byte_is_a_kind_or_names_the_foreign_version() {
        for first in 0..=u8::MAX {
            match RecordKind::of(&[first]) {
                Ok(kind) => assert_eq!(kind.first_byte(), first),
                Err(DecodeError::UnsupportedVersion { found }) => assert_ne!(found, WIRE_VERSION),
                Err(error) => panic!("{first:#04x}: {error}"),
            }
        }
    }

    #[test]
    fn an_empty_record_is_refused() {
        assert_eq!(RecordKind::of(&[]), Err(DecodeError::Truncated { what: "record" }));
    }
}
