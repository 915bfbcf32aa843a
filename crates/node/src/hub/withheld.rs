//! What came over a link while it rested. Whoever brings those chains on another way may be dead already, and nobody has noticed yet: when
//! the link is taken up, what has not come another way by then is read as if it came now.
//!
//! A *run* is a mark, and what followed it of one chain. Runs whose messages came another way are forgotten, the oldest first, so that in
//! the steady state next to nothing is withheld.

use std::collections::VecDeque;
use std::time::Duration;

use shoal_norm::Time;
use shoal_wire::{Mark, PassedOn, frame};

use super::accept::Key;
use super::inbox::SourceId;
use super::notes::Notes;

/// Bytes that are withheld of all sources of a link; beyond it the oldest are forgotten, and told as lost if nobody else brings them.
const WITHHELD_BYTES_MAX: usize = 4 << 20;
/// What is older is not read any more: longer than it takes to notice that a router is dead.
const WITHHELD_FOR: Duration = Duration::from_secs(30);

/// Who says something of which chain.
#[derive(Copy, Clone)]
pub(super) struct Speaker<'a> {
    pub source: SourceId,
    /// Its own chain.
    pub own: Key,
    /// The version of its interest that it had announced.
    pub version: u64,
    pub notes: &'a Notes,
}

impl Speaker<'_> {
    /// Says which chain follows, and from which number on.
    pub fn write_mark(&self, now: Time, number: u64, out: &mut Vec<u8>) {
        let Speaker { own, version, notes, .. } = *self;
        let ((publisher, chain), timestamp_us) = (notes.key(), notes.timestamp_us);
        let again = notes.again.map(|published| now.since(published));
        let source = (notes.key() != own).then_some(PassedOn { publisher, hops: notes.hops, again });
        let mut record = Vec::new();
        // What it showed of its publisher's clock is known.
        let clock_us = notes.clock.map_or(0, |clock| clock.shows_us(now));
        Mark {
            source,
            chain,
            number,
            timestamp_us,
            clock_us,
            version,
            earlier_us: timestamp_us,
            answered: None,
        }
        .write(&mut record);
        frame::write(&record, out);
    }
}

/// A mark, and what followed it.
#[derive(Debug)]
pub(super) struct Run {
    pub source: SourceId,
    pub key: Key,
    timestamp_us: u64,
    /// The number that it begins with, and the one that comes after it.
    pub first: u64,
    next: u64,
    /// The number after the last one that somebody beside that link wants; 0 if nobody does.
    awaited: u64,
    at: Time,
    /// Frames.
    pub bytes: Vec<u8>,
}

/// What is withheld of a link.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    runs: VecDeque<Run>,
    bytes: usize,
}

impl Withheld {
    /// Withholds a message or a skip that its notes took in; before it, this number came next. `next` tells which number of a chain
    /// should come next here, as far as known.
    pub fn add(
        &mut self,
        now: Time,
        speaker: Speaker<'_>,
        number: u64,
        (record, is_wanted): (&[u8], bool),
        next: impl Fn(Key) -> u64,
    ) {
        let Speaker { source, notes, .. } = speaker;
        let is_same = |run: &Run| {
            (run.source, run.key, run.next, run.timestamp_us)
                == (source, notes.key(), number, notes.timestamp_us)
        };
        if !self.runs.back().is_some_and(is_same) {
            self.forget(now, next);
            let mut bytes = Vec::new();
            speaker.write_mark(now, number, &mut bytes);
            self.bytes += bytes.len();
            let (key, timestamp_us) = (notes.key(), notes.timestamp_us);
            self.runs.push_back(Run {
                source,
                key,
                timestamp_us,
                first: number,
                next: number,
                awaited: 0,
                at: now,
                bytes,
            });
        }
        if let Some(run) = self.runs.back_mut() {
            let before = run.bytes.len();
            frame::write(record, &mut run.bytes);
            run.next = notes.number;
            if is_wanted {
                run.awaited = run.next;
            }
            self.bytes += run.bytes.len() - before;
        }
        while self.bytes > WITHHELD_BYTES_MAX && self.drop_oldest() {}
    }

    fn drop_oldest(&mut self) -> bool {
        let oldest = self.runs.pop_front();
        self.bytes -= oldest.as_ref().map_or(0, |run| run.bytes.len());
        oldest.is_some()
    }

    /// Forgets what came another way, or is too old, the oldest first.
    fn forget(&mut self, now: Time, next: impl Fn(Key) -> u64) {
        let is_over = |run: &Run| run.next <= next(run.key) || run.at + WITHHELD_FOR < now;
        while self.runs.front().is_some_and(is_over) && self.drop_oldest() {}
    }

    /// Whether something of a publisher has not come another way, though somebody wants it there.
    pub fn is_lacking(&self, now: Time, publisher: u64, next: impl Fn(Key) -> u64) -> bool {
        let lacks =
            |run: &Run| run.key.0 == publisher && run.awaited > next(run.key) && now < run.at + WITHHELD_FOR;
        self.runs.iter().any(lacks)
    }

    /// A source is gone, and what it said with it.
    pub fn close(&mut self, source: SourceId) {
        self.runs.retain(|run| run.source != source);
        self.bytes = self.runs.iter().map(|run| run.bytes.len()).sum();
    }

    /// Gives back what has not come another way by now, in order.
    pub fn take(&mut self, now: Time, next: impl Fn(Key) -> u64) -> VecDeque<Run> {
        self.forget(now, next);
        self.bytes = 0;
        std::mem::take(&mut self.runs)
    }
}

#[cfg(test)]
mod tests {
    use shoal_wire::{Skip, SkipReason};

    use super::super::consumer::Source;
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn notes(publisher: u64, number: u64) -> Notes {
        let mut notes = Notes::new(Source { publisher, chain: 2, node: 3 });
        notes.number = number;
        notes
    }

    /// One source says messages of so many bytes, with these numbers.
    fn say(withheld: &mut Withheld, seconds: u64, publisher: u64, numbers: &[u64], bytes: usize, next: u64) {
        for &number in numbers {
            let notes = notes(publisher, number + 1);
            let speaker =
                Speaker { source: publisher as usize, own: (publisher, 2), version: 0, notes: &notes };
            withheld.add(at(seconds), speaker, number, (&vec![0x61; bytes], number % 2 == 1), |_| next);
        }
    }

    #[test]
    fn what_came_another_way_is_forgotten_and_the_rest_comes_back_in_order() {
        let mut withheld = Withheld::default();
        say(&mut withheld, 1, 7, &[1, 2, 3], 10, 0);
        say(&mut withheld, 1, 8, &[5], 10, 0);
        say(&mut withheld, 1, 7, &[4, 5], 10, 0);
        let all = withheld.take(at(2), |(publisher, _)| if publisher == 7 { 4 } else { 1 });
        assert_eq!(all.iter().map(|run| (run.source, run.first)).collect::<Vec<_>>(), [(8, 5), (7, 4)]);
        assert_eq!(withheld.bytes, 0);
        say(&mut withheld, 1, 7, &[1, 2, 9], 10, 0);
        assert_eq!(withheld.take(at(2), |_| 0).len(), 2, "a mark says that numbers between are missing");
    }

    #[test]
    fn what_somebody_wants_is_lacking_until_it_came_another_way_or_is_too_old() {
        let mut withheld = Withheld::default();
        // Odd numbers are wanted.
        say(&mut withheld, 1, 7, &[1, 2, 3, 4], 10, 0);
        say(&mut withheld, 1, 8, &[2], 10, 0);
        assert!(withheld.is_lacking(at(2), 7, |_| 3) && !withheld.is_lacking(at(2), 8, |_| 0));
        assert!(!withheld.is_lacking(at(2), 7, |_| 4), "the fourth may never come");
        assert!(!withheld.is_lacking(at(32), 7, |_| 0));
    }

    #[test]
    fn what_is_withheld_is_bounded_in_bytes_and_in_time() {
        let mut withheld = Withheld::default();
        for number in 0..1000 {
            say(&mut withheld, 1, number, &[1], 10_000, 0);
            assert!(withheld.bytes <= WITHHELD_BYTES_MAX);
        }
        assert_eq!(withheld.runs.back().map(|run| run.source), Some(999), "the youngest stay");
        say(&mut withheld, 40, 7, &[1], 10, 0);
        assert_eq!(withheld.runs.len(), 1);
        withheld.close(7);
        assert_eq!((withheld.runs.len(), withheld.bytes), (0, 0));
    }

    #[test]
    fn in_the_steady_state_nothing_is_withheld_for_long() {
        let mut withheld = Withheld::default();
        for number in 1..10_000 {
            // Another way is two messages behind.
            let mut notes = notes(7, number + 1);
            notes.timestamp_us = number;
            let speaker = Speaker { source: 1, own: (7, 2), version: 0, notes: &notes };
            let mut skip = Vec::new();
            Skip { reason: SkipReason::Unwanted, number, count: 1 }.write(&mut skip);
            withheld.add(at(1), speaker, number, (&skip, false), |_| number - 1);
            assert!(withheld.runs.len() <= 4);
        }
    }
}
