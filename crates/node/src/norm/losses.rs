//! Gaps in streams that no mark has explained yet.
//!
//! A gap is told by NORM as segments. Which messages were lost is known once a mark follows, mostly at once. Both become
//! one event; if no mark follows, the gap is told without numbers.

use std::time::Duration;

use shoal_norm::{StreamId, Time};

/// How long a gap waits for its mark, and how long a loss that was told explains a gap.
const PATIENCE: Duration = Duration::from_millis(200);

/// Gaps, and losses that were told a moment ago.
#[derive(Debug, Default)]
pub(super) struct Losses {
    gaps: Vec<(StreamId, u64, Time)>,
    told: Vec<(StreamId, Time)>,
}

impl Losses {
    /// A stream has a gap.
    pub fn add(&mut self, now: Time, stream: StreamId, segments: u64) {
        self.told.retain(|&(_, at)| now < at + PATIENCE);
        if self.told.iter().any(|(told, _)| *told == stream) {
            return;
        }
        match self.gaps.iter_mut().find(|(known, ..)| *known == stream) {
            Some((_, known, _)) => *known += segments,
            None => self.gaps.push((stream, segments, now)),
        }
    }

    /// It became known which messages of a stream were lost. Returns the segments of its gap, if there was one.
    pub fn settle(&mut self, now: Time, stream: StreamId) -> u64 {
        self.told.retain(|&(told, at)| told != stream && now < at + PATIENCE);
        self.told.push((stream, now));
        let gap = self.gaps.iter().position(|(known, ..)| *known == stream);
        gap.map_or(0, |at| self.gaps.swap_remove(at).1)
    }

    /// The gaps that waited long enough.
    pub fn poll(&mut self, now: Time) -> Vec<(StreamId, u64)> {
        let due = |gap: &mut (StreamId, u64, Time)| now >= gap.2 + PATIENCE;
        self.gaps.extract_if(.., due).map(|(stream, segments, _)| (stream, segments)).collect()
    }

    /// When a gap will have waited long enough.
    pub fn deadline(&self) -> Time {
        self.gaps.iter().map(|&(.., at)| at + PATIENCE).fold(Time::NEVER, Time::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId { node: 7, instance: 1, object: 2 };

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn a_gap_and_the_mark_after_it_are_one_loss_in_either_order() {
        let mut losses = Losses::default();
        losses.add(at(0), STREAM, 3);
        losses.add(at(1), STREAM, 2);
        assert_eq!(losses.settle(at(2), STREAM), 5);
        losses.add(at(3), STREAM, 4);
        assert_eq!((losses.poll(at(10_000)), losses.deadline()), (vec![], Time::NEVER));
    }

    #[test]
    fn a_gap_without_a_mark_is_told_after_a_while() {
        let mut losses = Losses::default();
        losses.add(at(0), STREAM, 3);
        assert!(losses.poll(at(199)).is_empty());
        assert_eq!(losses.deadline(), at(200));
        assert_eq!(losses.poll(at(200)), [(STREAM, 3)]);
        assert_eq!(losses.deadline(), Time::NEVER);
    }
}
