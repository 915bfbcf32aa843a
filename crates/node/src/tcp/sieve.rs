//! Takes messages that are not allowed out of the bytes of a lane, and says in their place that their numbers do not come.
//!
//! The bytes are frames of records, cut anywhere. A message's destination stands at its beginning, so no body is gathered.

use shoal_wire::{Mark, RecordKind, Skip, SkipReason, frame};

/// The longest record beside messages that is read: a Mark or a Skip is much shorter.
const RECORD_BYTES_MAX: usize = 256;
/// What stands before the destination's name in a message, the length of the name included.
const FIXED_BYTES: usize = 4;
/// The flag of a message to a queue, and where the flags are.
const QUEUE: u8 = 1 << 2;
const FLAGS_AT: usize = 2;

/// A message's destination, and whether another program than the one at the other end published it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent<'a> {
    pub name: &'a [u8],
    pub is_queue: bool,
    pub forwards: bool,
}

/// How far the bytes of a lane were read.
#[derive(Clone, Debug, Default)]
pub(super) struct Sieve {
    /// The beginning of a frame that is not decided yet.
    head: Vec<u8>,
    /// Bytes of the frame that are to come, and whether they are dropped.
    left: usize,
    drops: bool,
    /// Whether the messages that follow are another program's.
    forwards: bool,
    /// The number of the next message.
    next: Option<u64>,
}

impl Sieve {
    /// Appends to `out` what of the next bytes may pass.
    pub fn pass(
        &mut self,
        publisher: u64,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
        mut may: impl FnMut(Sent<'_>) -> bool,
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (taken, rest) = bytes.split_at(self.left.min(bytes.len()));
                if !self.drops {
                    out.extend_from_slice(taken);
                }
                self.left -= taken.len();
                bytes = rest;
                continue;
            }
            // A byte at a time: heads are short, and only links with rules come here.
            self.head.push(bytes[0]);
            bytes = &bytes[1..];
            if let Some(length) = self.decides(publisher, &mut may)? {
                self.left = length - self.head.len();
                if self.drops {
                    let number = self.next.ok_or("it sends a message before it says its number")?;
                    let mut skip = Vec::new();
                    Skip { reason: SkipReason::Expired, number, count: 1 }.write(&mut skip);
                    frame::write(&skip, out);
                } else {
                    out.extend_from_slice(&self.head);
                }
                if self.is_message() {
                    self.next = self.next.map(|number| number + 1);
                }
                self.head.clear();
            }
        }
        Ok(())
    }

    /// The length of the frame in `head` once enough of it is here to decide.
    fn decides(
        &mut self,
        publisher: u64,
        may: &mut impl FnMut(Sent<'_>) -> bool,
    ) -> Result<Option<usize>, String> {
        let Some((length, at)) = frame::length_of(&self.head).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let (record, whole) = (&self.head[at..], at + length);
        if record.is_empty() && length > 0 {
            return Ok(None);
        }
        self.drops = false;
        match record.first().map(|_| RecordKind::of(record)) {
            Some(Ok(RecordKind::Message)) => {
                let Some(&name_bytes) = record.get(FIXED_BYTES - 1) else {
                    return if length < FIXED_BYTES { Ok(Some(whole)) } else { Ok(None) };
                };
                let end = FIXED_BYTES + usize::from(name_bytes);
                let Some(name) = record.get(FIXED_BYTES..end) else {
                    return if length < end { Ok(Some(whole)) } else { Ok(None) };
                };
                let is_queue = record[FLAGS_AT] & QUEUE != 0;
                self.drops = !may(Sent { name, is_queue, forwards: self.forwards });
            }
            Some(Ok(kind @ (RecordKind::Mark | RecordKind::Skip))) => {
                if length > RECORD_BYTES_MAX {
                    return Err(format!("a record of {length} bytes numbers messages"));
                }
                if record.len() < length {
                    return Ok(None);
                }
                if kind == RecordKind::Mark {
                    let mark = Mark::read(record).map_err(|error| error.to_string())?;
                    self.forwards = mark.source.is_some_and(|source| source.publisher != publisher);
                    self.next = Some(mark.number);
                } else {
                    let skip = Skip::read(record).map_err(|error| error.to_string())?;
                    // One that corrects what was skipped before ends before what follows.
                    self.next = self.next.map(|next| next.max(if skip.count > 0 { skip.next() } else { 0 }));
                }
            }
            _ => {}
        }
        Ok(Some(whole))
    }

    fn is_message(&self) -> bool {
        let at = frame::length_of(&self.head).ok().flatten().map_or(0, |(_, at)| at);
        RecordKind::of(&self.head[at..]) == Ok(RecordKind::Message)
    }
}

#[cfg(test)]
mod tests {
    use shoal_wire::frame::FrameReader;

    use super::*;

    fn message(name: &str, body: usize) -> Vec<u8> {
        let mut record = vec![RecordKind::Message.first_byte(), 0x41, 0, name.len() as u8];
        record.extend_from_slice(name.as_bytes());
        record.extend(std::iter::repeat_n(7, body));
        record
    }

    fn mark(number: u64, source: Option<u64>) -> Vec<u8> {
        let source = source.map(|publisher| shoal_wire::PassedOn { publisher, hops: 1, again: None });
        let mark = Mark {
            source,
            chain: 1,
            number,
            timestamp_us: 1,
            clock_us: 1,
            version: 0,
            earlier_us: 0,
            answered: None,
        };
        let mut record = Vec::new();
        mark.write(&mut record);
        record
    }

    fn sifted(records: &[Vec<u8>], size: usize) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| frame::write(record, &mut bytes));
        let (mut sieve, mut out) = (Sieve::default(), Vec::new());
        for piece in bytes.chunks(size) {
            let may = |sent: Sent<'_>| sent.name.starts_with(b"ok") && !sent.forwards;
            sieve.pass(1, piece, &mut out, may).unwrap();
        }
        let mut found = Vec::new();
        let each = |record: &[u8], _| {
            found.push(record.to_vec());
            false
        };
        FrameReader::new(1 << 20).read(&out, each).unwrap();
        found
    }

    fn skip(number: u64) -> Vec<u8> {
        let mut record = Vec::new();
        Skip { reason: SkipReason::Expired, number, count: 1 }.write(&mut record);
        record
    }

    #[test]
    fn messages_that_are_not_allowed_leave_their_numbers_however_the_bytes_are_cut() {
        let records = [
            mark(5, None),
            message("ok/a", 300),
            message("no/a", 5000),
            message("ok/b", 0),
            mark(9, Some(2)),
            message("ok/c", 3),
            mark(20, Some(1)),
            message("ok/d", 3),
        ];
        let wanted = [
            records[0].clone(),
            records[1].clone(),
            skip(6),
            records[3].clone(),
            records[4].clone(),
            skip(9),
            records[6].clone(),
            records[7].clone(),
        ];
        for size in [1, 2, 3, 7, 100, 100_000] {
            assert_eq!(sifted(&records, size), wanted, "in pieces of {size}");
        }
    }

    #[test]
    fn a_message_without_a_number_and_an_endless_mark_are_refused() {
        let mut bytes = Vec::new();
        frame::write(&message("no", 1), &mut bytes);
        assert!(Sieve::default().pass(1, &bytes, &mut Vec::new(), |_| false).is_err());
        let mut bytes = Vec::new();
        frame::write(&[RecordKind::Mark.first_byte(); 300], &mut bytes);
        assert!(Sieve::default().pass(1, &bytes, &mut Vec::new(), |_| true).is_err());
        for byte in 0..=u8::MAX {
            let _ = Sieve::default().pass(1, &[byte; 600], &mut Vec::new(), |_| false);
        }
    }
}
