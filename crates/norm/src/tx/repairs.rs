//! Which segments of a stream or an object a sender is to send again, and which it sent again a moment ago.
//!
//! A request for a segment repaired less than a round-trip time ago crossed the repair on its way: it is no new loss.
//! Whole files can be asked for by one short message, so both are kept as runs: what a request costs does not
//! depend on how much it asks for.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::effort;
use crate::runs::Runs;
use crate::time::Time;

/// Segments to be sent again form so many runs at the most; what is beyond that has to be asked for again.
const RUNS_MAX: usize = 4096;
/// So many runs that were repaired lately are remembered.
const RECENT_MAX: usize = 1024;

/// How many segments a request asks for that nobody asked for yet.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    pub segments: u64,
    /// How many of them were sent before the mark, and not since: what they tell of the path is known.
    pub stale: u64,
}

/// The segments of one stream or object that are to be sent again.
#[derive(Debug, Default)]
pub struct Repairs {
    pending: Runs,
    /// What was repaired, and when; oldest first.
    recent: VecDeque<(Range<u64>, Time)>,
    /// Segments before this one had been sent when the mark was set, and these were repaired since then.
    mark: u64,
    repaired_since: Runs,
}

impl Repairs {
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// How many segments are to be sent again.
    pub fn count(&self) -> u64 {
        self.pending.count()
    }

    /// How many of them are not before `from`.
    pub fn count_from(&self, from: u64) -> u64 {
        let runs = self.pending.iter().rev().inspect(|_| effort::step());
        runs.take_while(|run| run.end > from).map(|run| run.end - run.start.max(from)).sum()
    }

    /// The first of them that is not before `from`.
    pub fn first_from(&self, from: u64) -> Option<u64> {
        if self.is_pending(from) { Some(from) } else { self.pending.next_start(from) }
    }

    /// Whether a segment is one of them.
    pub fn is_pending(&self, segment: u64) -> bool {
        self.pending.run_of(segment).is_some()
    }

    /// All of them, in order.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.pending.iter()
    }

    /// Segments were asked for again. What was repaired less than `hold_off` ago is under way: the request crossed
    /// it.
    pub fn request(&mut self, segments: Range<u64>, now: Time, hold_off: Duration) -> Requested {
        let mut under_way = Runs::default();
        for (run, _) in self.recent.iter().rev().take_while(|(_, at)| now.since(*at) < hold_off) {
            effort::step();
            under_way.insert(run.start.max(segments.start)..run.end.min(segments.end));
        }
        let mut requested = Requested::default();
        for gap in under_way.gaps_in(segments) {
            if self.pending.runs() >= RUNS_MAX {
                break;
            }
            let before_mark = gap.start.min(self.mark)..gap.end.min(self.mark);
            for new in self.pending.gaps_in(before_mark) {
                effort::step();
                let stale = self.repaired_since.gaps_in(new).map(|run| run.end - run.start);
                requested.stale += stale.sum::<u64>();
            }
            requested.segments += self.pending.insert(gap);
        }
        requested
    }

    /// What is found lost of what was sent so far, up to `segment`, is stale from now on.
    pub fn set_mark(&mut self, segment: u64) {
        self.mark = segment;
        self.repaired_since = Runs::default();
    }

    /// A segment went out again.
    pub fn repaired(&mut self, segment: u64, now: Time) {
        self.pending.remove(segment..segment + 1);
        if segment < self.mark && self.repaired_since.runs() < RUNS_MAX {
            self.repaired_since.insert(segment..segment + 1);
        }
        match self.recent.back_mut() {
            Some((run, at)) if *at == now && run.end == segment => run.end += 1,
            _ => {
                if self.recent.len() >= RECENT_MAX {
                    self.recent.pop_front();
                }
                self.recent.push_back((segment..segment + 1, now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD_OFF: Duration = Duration::from_millis(10);

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn all_of_a_large_object_is_asked_for_at_once_and_sent_once() {
        let mut repairs = Repairs::default();
        assert_eq!(repairs.request(0..1 << 40, at(0), HOLD_OFF).segments, 1 << 40);
        assert_eq!(repairs.request(0..1 << 40, at(0), HOLD_OFF).segments, 0, "it waits already");
        for segment in 0..1000 {
            assert_eq!(repairs.first_from(0), Some(segment));
            repairs.repaired(segment, at(1));
        }
        assert_eq!(repairs.request(0..1 << 40, at(10), HOLD_OFF).segments, 0, "the first ones are under way");
        assert_eq!(repairs.request(990..2000, at(11), HOLD_OFF).segments, 10, "they should have come by now");
    }

    #[test]
    fn what_was_repaired_in_several_pieces_is_held_off_piece_by_piece() {
        let mut repairs = Repairs::default();
        repairs.request(0..10, at(0), HOLD_OFF);
        (0..5).for_each(|segment| repairs.repaired(segment, at(0)));
        (5..10).for_each(|segment| repairs.repaired(segment, at(5)));
        assert!(repairs.is_empty());
        assert_eq!(repairs.request(3..7, at(10), HOLD_OFF).segments, 2);
        assert!(repairs.runs().flatten().eq(3..5));
    }

    #[test]
    fn pieces_beyond_the_bound_are_not_remembered() {
        let mut repairs = Repairs::default();
        let added: u64 = (0..10_000)
            .map(|piece| repairs.request(2 * piece..2 * piece + 1, at(0), HOLD_OFF).segments)
            .sum();
        assert_eq!(added, RUNS_MAX as u64);
        assert_eq!(repairs.count(), added);
    }

    #[test]
    fn what_was_sent_before_the_mark_is_stale_until_it_is_sent_again() {
        let mut repairs = Repairs::default();
        repairs.set_mark(100);
        assert_eq!(repairs.request(90..110, at(0), HOLD_OFF), Requested { segments: 20, stale: 10 });
        assert_eq!(repairs.request(80..110, at(0), HOLD_OFF), Requested { segments: 10, stale: 10 });
        (80..110).for_each(|segment| repairs.repaired(segment, at(1)));
        assert_eq!(repairs.request(70..100, at(20), HOLD_OFF), Requested { segments: 30, stale: 10 });
    }

    #[test]
    fn what_is_needed_most_can_be_found_behind_what_is_older() {
        let mut repairs = Repairs::default();
        for segment in [40, 70, 71, 90] {
            repairs.request(segment..segment + 1, at(0), HOLD_OFF);
        }
        assert_eq!((repairs.first_from(60), repairs.first_from(71)), (Some(70), Some(71)));
        assert_eq!((repairs.count_from(71), repairs.first_from(91)), (2, None));
        assert_eq!(repairs.first_from(0), Some(40), "the older one is not forgotten");
    }

    #[test]
    fn a_request_that_crossed_its_repair_does_not_count() {
        let mut repairs = Repairs::default();
        assert_eq!(repairs.request(5..6, at(0), HOLD_OFF).segments, 1);
        assert_eq!(repairs.request(5..6, at(0), HOLD_OFF).segments, 0);
        repairs.repaired(5, at(0));
        assert_eq!(repairs.request(5..6, at(5), HOLD_OFF).segments, 0);
        assert_eq!(repairs.request(5..6, at(10), HOLD_OFF).segments, 1);
    }
}
