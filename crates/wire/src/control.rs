//! Records that number the messages of a stream, and records by which nodes keep track of each other.
//!
//! All numbers are varints unless their width is given. A record may grow at its end: readers ignore
//! what they do not know there.

use std::time::Duration;

use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::limits::NUMBER_MAX;
use crate::record::RecordKind;
use crate::varint::write_varint;

/// A node is still there, and what it announced last still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its domain, eight bytes: others may share the group.
    pub domain: u64,
    /// Who it is, eight bytes.
    pub publisher: u64,
    /// The version of its subscriptions that it announced last.
    pub version: u64,
}

impl Heartbeat {
    /// Appends the record.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(RecordKind::Heartbeat.first_byte());
        out.extend_from_slice(&self.domain.to_be_bytes());
        out.extend_from_slice(&self.publisher.to_be_bytes());
        write_varint(out, self.version);
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Heartbeat, DecodeError> {
        let mut cursor = after_kind(record);
        Ok(Heartbeat {
            domain: u64::from_be_bytes(cursor.array("domain")?),
            publisher: u64::from_be_bytes(cursor.array("publisher")?),
            version: cursor.varint("announced version")?,
        })
    }
}

/// From where on a node may count on one of a sender's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The stream, by its object id.
    pub stream: u16,
    /// The first segment that counts.
    pub segment: u64,
    /// The chain that the stream carries.
    pub chain: u32,
    /// The number of the first message that counts.
    pub number: u64,
    /// If the node was counted on before, and given up in between: the first number for which it was not. What it has
    /// not got from there up to `number`, it has lost, whether it was sent or not. Otherwise 0.
    pub missed_from: u64,
}

/// A sender tells one node from where on it counts on that node's acknowledgements, and keeps for it what it
/// has not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Who welcomes, eight bytes.
    pub from: u64,
    /// Who is welcomed, eight bytes.
    pub to: u64,
    /// The sender's streams.
    pub positions: Vec<Position>,
}

impl Welcome {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(RecordKind::Welcome.first_byte());
        out.extend_from_slice(&self.from.to_be_bytes());
        out.extend_from_slice(&self.to.to_be_bytes());
        write_varint(out, self.positions.len() as u64);
        for position in &self.positions {
            write_varint(out, position.stream.into());
            write_varint(out, position.segment);
            write_varint(out, position.chain.into());
            write_varint(out, position.number);
            write_varint(out, position.missed_from);
        }
    }

    /// Whether a record welcomes somebody else: everybody hears everybody's welcomes, and needs one of each.
    pub fn is_for_another(record: &[u8], publisher: u64) -> bool {
        RecordKind::of(record) == Ok(RecordKind::Welcome)
            && record.get(9..17).is_some_and(|to| to != publisher.to_be_bytes())
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Welcome, DecodeError> {
        let mut cursor = after_kind(record);
        let from = u64::from_be_bytes(cursor.array("welcoming publisher")?);
        let to = u64::from_be_bytes(cursor.array("welcomed publisher")?);
        let count = cursor.count("number of positions", 5)?;
        let mut positions = Vec::with_capacity(count);
        for _ in 0..count {
            positions.push(Position {
                stream: cursor.varint_up_to("stream", u16::MAX.into())? as u16,
                segment: cursor.varint("position")?,
                chain: cursor.varint32("chain")?,
                number: cursor.varint("message number")?,
                missed_from: cursor.varint("first missed number")?,
            });
        }
        Ok(Welcome { from, to, positions })
    }
}

/// Whose messages a node passes on, and how far they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassedOn {
    /// Who published them, eight bytes.
    pub publisher: u64,
    /// How many nodes passed them on, the one that says so included.
    pub hops: u8,
    /// They may have been said before, on another way, and so long ago: whoever knows nothing of the chain leaves them, unless it
    /// wanted them then.
    pub again: Option<Duration>,
}

/// A [`Replay`](crate::Replay) that is answered by what follows in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// Who asked, eight bytes.
    pub asker: u64,
    /// The version that it had announced when it asked. Numbers that are skipped from here on were decided under that announcement
    /// or a later one.
    pub version: u64,
}

/// What messages do not carry one by one: whose those that follow are, when they were published, and the number of the
/// first. Each of them has the number after that of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Who published them, if it is not the node whose stream this is.
    pub source: Option<PassedOn>,
    /// Which of the publisher's chains.
    pub chain: u32,
    /// The number of the next message, from 1.
    pub number: u64,
    /// Microseconds since 1970 by the publisher's clock.
    pub timestamp_us: u64,
    /// Microseconds by a clock that never jumps: the sender's, or of what is passed on the publisher's, as the sender
    /// knows it.
    pub clock_us: u64,
    /// The version of its subscriptions that the sender had announced by then.
    pub version: u64,
    /// What the mark before it said as `timestamp_us`; 0 if there was none. Who missed that one knows by it when the
    /// messages in between were published, as it knows their numbers by counting back.
    pub earlier_us: u64,
    /// Whose request it answers, if it does: everything from this number on follows.
    pub answered: Option<Answered>,
}

impl Mark {
    const HAS_SOURCE: u8 = 1 << 0;
    const IS_AGAIN: u8 = 1 << 1;
    const ANSWERS: u8 = 1 << 2;

    /// Appends the record.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(RecordKind::Mark.first_byte());
        let again = self.source.and_then(|source| source.again);
        let is_again = if again.is_some() { Self::IS_AGAIN } else { 0 };
        let answers = if self.answered.is_some() { Self::ANSWERS } else { 0 };
        out.push(self.source.map_or(0, |_| Self::HAS_SOURCE | is_again) | answers);
        if let Some(PassedOn { publisher, hops, .. }) = self.source {
            out.extend_from_slice(&publisher.to_be_bytes());
            out.push(hops);
        }
        write_varint(out, self.chain.into());
        write_varint(out, self.number);
        write_varint(out, self.timestamp_us);
        write_varint(out, self.clock_us);
        write_varint(out, self.version);
        write_varint(out, self.earlier_us);
        if let Some(age) = again {
            write_varint(out, u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        }
        if let Some(Answered { asker, version }) = self.answered {
            out.extend_from_slice(&asker.to_be_bytes());
            write_varint(out, version);
        }
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Mark, DecodeError> {
        let mut cursor = after_kind(record);
        let flags = cursor.byte("flags")?;
        let source = match flags & Self::HAS_SOURCE {
            0 => None,
            _ => Some(PassedOn {
                publisher: u64::from_be_bytes(cursor.array("publisher")?),
                hops: cursor.byte("number of hops")?,
                again: None,
            }),
        };
        let mut mark = Mark {
            source,
            chain: cursor.varint32("chain")?,
            number: checked(cursor.varint("message number")?)?,
            timestamp_us: cursor.varint("timestamp")?,
            clock_us: cursor.varint("sender's clock")?,
            version: cursor.varint("announced version")?,
            earlier_us: cursor.varint("earlier timestamp")?,
            answered: None,
        };
        if let Some(source) = mark.source.as_mut().filter(|_| flags & Self::IS_AGAIN != 0) {
            source.again = Some(Duration::from_micros(cursor.varint("age")?));
        }
        if flags & Self::ANSWERS != 0 {
            let asker = u64::from_be_bytes(cursor.array("asking publisher")?);
            mark.answered = Some(Answered { asker, version: cursor.varint("version of its interest")? });
        }
        Ok(mark)
    }
}

/// Why numbers do not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// Nobody that the sender knew wanted them.
    Unwanted,
    /// Their publisher had no room and was told to drop them.
    Dropped,
    /// They outlived their time before they were sent.
    Expired,
    /// They were lost to whoever passes the chain on.
    Lost,
    /// None: nothing more comes this way for now, because another one is used. Of the chain that the mark before it names, or of any
    /// chain if the number is 0.
    Rests,
    /// They are older than the interest of the node that asked by age.
    Older,
    /// They had no interest, but a router cannot tell whether that was decided under the interest that it applies now.
    Unsure,
    /// A reason that a later version added.
    Other(u64),
}

impl SkipReason {
    /// The number on the wire.
    pub fn number(self) -> u64 {
        match self {
            Self::Unwanted => 0,
            Self::Dropped => 1,
            Self::Expired => 2,
            Self::Lost => 3,
            Self::Rests => 4,
            Self::Older => 5,
            Self::Unsure => 6,
            Self::Other(number) => number,
        }
    }

    fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Unwanted,
            1 => Self::Dropped,
            2 => Self::Expired,
            3 => Self::Lost,
            4 => Self::Rests,
            5 => Self::Older,
            6 => Self::Unsure,
            other => Self::Other(other),
        }
    }
}

/// Numbers of the chain named by the last mark that were given and are not in the stream. What follows has the
/// number after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    /// Why.
    pub reason: SkipReason,
    /// The first number.
    pub number: u64,
    /// How many.
    pub count: u64,
}

impl Skip {
    /// The number of what follows.
    pub fn next(self) -> u64 {
        self.number.saturating_add(self.count)
    }

    /// The last number; the first if there are none.
    pub fn last(self) -> u64 {
        self.number.saturating_add(self.count.saturating_sub(1))
    }

    /// Appends the record.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(RecordKind::Skip.first_byte());
        write_varint(out, self.reason.number());
        write_varint(out, self.number);
        write_varint(out, self.count);
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Skip, DecodeError> {
        let mut cursor = after_kind(record);
        let skip = Skip {
            reason: SkipReason::from_number(cursor.varint("reason")?),
            number: cursor.varint("message number")?,
            count: cursor.varint("number of messages")?,
        };
        if skip.count > 0 {
            checked(skip.number)?;
            checked(skip.last())?;
        }
        Ok(skip)
    }
}

/// In a lane for messages: from here on its sender does not count on a node any more, and what it skips may have been for that node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgets {
    /// The node's id, four bytes.
    pub node: u32,
}

impl Forgets {
    /// Appends the record.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(RecordKind::Forgets.first_byte());
        out.extend_from_slice(&self.node.to_be_bytes());
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Forgets, DecodeError> {
        Ok(Forgets { node: u32::from_be_bytes(after_kind(record).array("forgotten node")?) })
    }
}

/// In a lane for messages: which announcement of a member its sender applies from here on. Numbers that it skips as unwanted behind this
/// were decided under that announcement or a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Members, by publisher (eight bytes), and the version that each announced.
    pub members: Vec<(u64, u64)>,
}

impl Applied {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(RecordKind::Applied.first_byte());
        write_varint(out, self.members.len() as u64);
        for &(publisher, version) in &self.members {
            out.extend_from_slice(&publisher.to_be_bytes());
            write_varint(out, version);
        }
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Applied, DecodeError> {
        let mut cursor = after_kind(record);
        let count = cursor.count("members whose interest is applied", 9)?;
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            members.push((u64::from_be_bytes(cursor.array("member")?), cursor.varint("applied version")?));
        }
        Ok(Applied { members })
    }
}

/// A number that a message can have.
fn checked(number: u64) -> Result<u64, DecodeError> {
    if (1..=NUMBER_MAX).contains(&number) { Ok(number) } else { Err(DecodeError::Number { number }) }
}

/// A node leaves. Who lacks messages up to these numbers has lost them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goodbye {
    /// Its domain, eight bytes.
    pub domain: u64,
    /// Who it is, eight bytes.
    pub publisher: u64,
    /// Its chains, and the last number given in each.
    pub last: Vec<(u32, u64)>,
}

impl Goodbye {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(RecordKind::Goodbye.first_byte());
        out.extend_from_slice(&self.domain.to_be_bytes());
        out.extend_from_slice(&self.publisher.to_be_bytes());
        write_varint(out, self.last.len() as u64);
        for &(chain, number) in &self.last {
            write_varint(out, chain.into());
            write_varint(out, number);
        }
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Goodbye, DecodeError> {
        let mut cursor = after_kind(record);
        let domain = u64::from_be_bytes(cursor.array("domain")?);
        let publisher = u64::from_be_bytes(cursor.array("publisher")?);
        let count = cursor.count("number of chains", 2)?;
        let mut last = Vec::with_capacity(count);
        for _ in 0..count {
            last.push((cursor.varint32("chain")?, cursor.varint("message number")?));
        }
        Ok(Goodbye { domain, publisher, last })
    }
}

pub(crate) fn after_kind(record: &[u8]) -> Cursor<'_> {
    Cursor::new(record.get(1..).unwrap_or(&[]))
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    /// Writes, reads back, and reads every shorter record and a longer one.
    fn comes_back<R: PartialEq + Debug>(
        kind: RecordKind,
        record: &R,
        write: impl Fn(&R, &mut Vec<u8>),
        read: impl Fn(&[u8]) -> Result<R, DecodeError>,
    ) {
        let mut out = Vec::new();
        write(record, &mut out);
        assert_eq!(RecordKind::of(&out), Ok(kind));
        assert_eq!(read(&out).as_ref(), Ok(record));
        for length in 0..out.len() {
            assert!(read(&out[..length]).is_err(), "{record:?} cut at {length}");
        }
        out.extend([1, 2, 3]);
        assert_eq!(read(&out).as_ref(), Ok(record), "grown at its end");
    }

    #[test]
    fn every_record_comes_back_cut_ones_are_refused_and_longer_ones_are_read() {
        let heartbeat = Heartbeat { domain: 1 << 63, publisher: 9, version: 7 };
        comes_back(RecordKind::Heartbeat, &heartbeat, |record, out| record.write(out), Heartbeat::read);

        let positions = vec![
            Position { stream: 1, segment: 0, chain: 1, number: 1, missed_from: 0 },
            Position {
                stream: u16::MAX,
                segment: 1 << 40,
                chain: u32::MAX,
                number: u64::MAX,
                missed_from: 7,
            },
        ];
        let welcome = Welcome { from: 0xdead_beef, to: 9, positions };
        comes_back(RecordKind::Welcome, &welcome, Welcome::write, Welcome::read);

        let passed = |again| Some(PassedOn { publisher: 0x1234_5678_9abc_def0, hops: 3, again });
        let answered = Some(Answered { asker: 1 << 60, version: 300 });
        for (source, answered) in [
            (None, None),
            (passed(None), None),
            (None, answered),
            (passed(Some(Duration::from_micros(1_234_567))), answered),
        ] {
            let mark = Mark {
                answered,
                source,
                chain: 2,
                number: 12,
                timestamp_us: 1_700_000_000_000_000,
                clock_us: 1_000_000,
                version: 3,
                earlier_us: 1_699_999_999_999_000,
            };
            comes_back(RecordKind::Mark, &mark, |record, out| record.write(out), Mark::read);
        }

        let reasons = [
            SkipReason::Unwanted,
            SkipReason::Dropped,
            SkipReason::Expired,
            SkipReason::Lost,
            SkipReason::Rests,
            SkipReason::Older,
            SkipReason::Unsure,
            SkipReason::Other(9),
        ];
        for reason in reasons {
            let skip = Skip { reason, number: 300, count: 1 << 20 };
            comes_back(RecordKind::Skip, &skip, |record, out| record.write(out), Skip::read);
        }

        let forgets = Forgets { node: u32::MAX - 1 };
        comes_back(RecordKind::Forgets, &forgets, |record, out| record.write(out), Forgets::read);

        let applied = Applied { members: vec![(1 << 63, 0), (7, 300)] };
        comes_back(RecordKind::Applied, &applied, Applied::write, Applied::read);

        let goodbye = Goodbye { domain: 5, publisher: 6, last: vec![(0, 0), (3, 1 << 50)] };
        comes_back(RecordKind::Goodbye, &goodbye, Goodbye::write, Goodbye::read);
    }

    #[test]
    fn counts_beyond_the_bytes_that_are_left_are_refused_before_anything_is_reserved() {
        let mut record = vec![RecordKind::Welcome.first_byte()];
        record.extend([0; 16]);
        write_varint(&mut record, u64::MAX);
        assert!(matches!(Welcome::read(&record), Err(DecodeError::CountClaim { .. })));
        let mut record = vec![RecordKind::Goodbye.first_byte()];
        record.extend([0; 16]);
        write_varint(&mut record, 1 << 40);
        assert!(matches!(Goodbye::read(&record), Err(DecodeError::CountClaim { .. })));
    }

    #[test]
    fn numbers_that_no_message_can_have_are_refused() {
        let read = |number, count| {
            let mut record = Vec::new();
            Skip { reason: SkipReason::Lost, number, count }.write(&mut record);
            Skip::read(&record)
        };
        assert_eq!(read(NUMBER_MAX, 1).map(Skip::last), Ok(NUMBER_MAX));
        assert_eq!(read(0, 0).map(Skip::next), Ok(0), "it stands for every chain");
        for (number, count) in [(0, 1), (NUMBER_MAX, 2), (u64::MAX, u64::MAX), (5, u64::MAX), (u64::MAX, 1)] {
            assert!(matches!(read(number, count), Err(DecodeError::Number { .. })), "{number} {count}");
        }
        for number in [0, NUMBER_MAX + 1, u64::MAX] {
            let mut record = Vec::new();
            let zero = Mark {
                source: None,
                chain: 1,
                number,
                timestamp_us: 0,
                clock_us: 0,
                version: 0,
                earlier_us: 0,
                answered: None,
            };
            zero.write(&mut record);
            assert_eq!(Mark::read(&record), Err(DecodeError::Number { number }));
        }
    }
}
