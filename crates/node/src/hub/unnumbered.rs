//! Messages whose numbers are not known yet, because the mark before them was missed.
//!
//! A source that is joined in the middle, or lost something, begins with a message, and a mark follows sooner or later. What
//! comes before it is kept until then, and numbered by counting back.

use shoal_wire::{DecodeError, Mark, PassedOn, RecordKind, Skip, frame};

/// What the first mark says of what came before it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The number of the first record that was kept; 0 if it cannot be known.
    pub number: u64,
    /// When those before the mark were published.
    pub timestamp_us: u64,
    /// Whose they are, if they are passed on, and which chain: the first mark behind messages is of the same chain.
    pub source: Option<PassedOn>,
    pub chain: u32,
}

/// Frames that are kept until a mark comes.
#[derive(Debug, Default)]
pub(super) struct Unnumbered {
    bytes: Vec<u8>,
    /// How far they were looked through.
    looked: usize,
    /// How many numbers that took.
    numbers: u64,
}

impl Unnumbered {
    /// Bytes that are kept.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Unnumbered::default();
    }

    /// Gives away what was kept.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(self).bytes
    }

    /// Keeps the next bytes, and looks for a mark in them.
    pub fn add(&mut self, bytes: &[u8], message_bytes_max: usize) -> Result<Option<Found>, String> {
        frame::append(&mut self.bytes, bytes).map_err(|error| error.to_string())?;
        loop {
            let rest = &self.bytes[self.looked..];
            let next = frame::first(rest, message_bytes_max).map_err(|error| error.to_string())?;
            let Some((record, length)) = next else { return Ok(None) };
            let read = match RecordKind::of(record) {
                Ok(RecordKind::Mark) => {
                    return found(record, self.numbers).map_err(|error| error.to_string());
                }
                Ok(RecordKind::Message) => Ok(1),
                Ok(RecordKind::Skip) => Skip::read(record).map(|skip| skip.count),
                Ok(_) => Ok(0),
                Err(error) => Err(error),
            };
            // What is wrong with a record is told when it is read for good.
            self.numbers = self.numbers.saturating_add(read.unwrap_or(0));
            self.looked += length;
        }
    }
}

fn found(record: &[u8], numbers: u64) -> Result<Option<Found>, DecodeError> {
    let mark = Mark::read(record)?;
    let number = mark.number.saturating_sub(numbers);
    Ok(Some(Found { number, timestamp_us: mark.earlier_us, source: mark.source, chain: mark.chain }))
}

#[cfg(test)]
mod tests {
    use shoal_wire::{BodyKind, Destination, Outgoing, SkipReason, Topic};

    use super::*;

    fn message() -> Vec<u8> {
        let mut record = Vec::new();
        let destination = Destination::topic(Topic::new("a").unwrap());
        Outgoing::new(destination, BodyKind::Bytes, b"body").encode_into(&mut record).unwrap();
        framed(&record)
    }

    fn framed(record: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::write(record, &mut bytes);
        bytes
    }

    fn mark(number: u64, source: Option<u64>) -> Vec<u8> {
        let mut record = Vec::new();
        let source = source.map(|publisher| PassedOn { publisher, hops: 1, again: None });
        Mark {
            source,
            chain: 2,
            number,
            timestamp_us: 5,
            clock_us: 1,
            version: 1,
            earlier_us: 4,
            answered: None,
        }
        .write(&mut record);
        framed(&record)
    }

    fn skip(count: u64) -> Vec<u8> {
        let mut record = Vec::new();
        Skip { reason: SkipReason::Unwanted, number: 1, count }.write(&mut record);
        framed(&record)
    }

    #[test]
    fn numbers_are_counted_back_from_the_first_mark_however_the_bytes_are_cut() {
        let stream = [message(), message(), skip(5), message(), mark(100, None), message()].concat();
        for size in [1, 2, 7, stream.len()] {
            let mut kept = Unnumbered::default();
            let mut found = None;
            for piece in stream.chunks(size) {
                assert_eq!(found, None, "nothing is added after it was found");
                found = kept.add(piece, 1000).unwrap();
                if found.is_some() {
                    break;
                }
            }
            assert_eq!(found, Some(Found { number: 92, timestamp_us: 4, source: None, chain: 2 }));
            assert!(stream.starts_with(&kept.take()));
            assert_eq!(kept.len(), 0);
        }
    }

    #[test]
    fn a_mark_that_cannot_be_true_gives_no_number_and_one_of_what_is_passed_on_says_whose_it_is() {
        let mut kept = Unnumbered::default();
        let stream = [message(), message(), mark(1, None)].concat();
        assert_eq!(kept.add(&stream, 1000).unwrap().unwrap().number, 0);
        kept.clear();
        let found = kept.add(&[message(), mark(9, Some(7))].concat(), 1000).unwrap().unwrap();
        assert_eq!((found.number, found.source.map(|source| source.publisher)), (8, Some(7)));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert!(Unnumbered::default().add(&[0xff; 4], 1000).is_err());
        assert!(Unnumbered::default().add(&[0x80, 0x08], 1000).is_err(), "longer than a message may be");
    }
}
