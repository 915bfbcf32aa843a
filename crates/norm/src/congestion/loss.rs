//! How often a receiver loses: the weighted average of the last intervals between loss events (RFC 5348
//! section 5). Losses within one round-trip time are one event, because a sender reacts once to all of them.

use std::time::Duration;

use crate::time::Time;

/// How much the last intervals count, the newest first.
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// A message that is missing counts as lost when one so much newer came: the network may reorder.
const REORDER_MAX: u16 = 3;

#[derive(Debug, Default)]
pub struct LossEstimator {
    /// The next message expected, by the sender's sequence numbers.
    expected: Option<u16>,
    /// Messages since the last loss event.
    current: f64,
    /// The intervals before it, newest first.
    intervals: Vec<f64>,
    last_event: Option<Time>,
    /// Messages ahead of the expected one, which may only be early.
    early: u16,
}

impl LossEstimator {
    /// A message with this sequence number came. True if it reveals a new loss event.
    pub fn on_message(&mut self, now: Time, sequence: u16, rtt: Duration) -> bool {
        let expected = *self.expected.get_or_insert(sequence);
        let ahead = sequence.wrapping_sub(expected);
        if ahead >= 1 << 15 {
            // Late, or sent twice; if it was taken for lost, the next estimate forgives it.
            return false;
        }
        self.current += 1.0;
        if ahead == 0 {
            self.expected = Some(expected.wrapping_add(1 + self.early));
            self.early = 0;
            return false;
        }
        self.early += 1;
        if self.early <= REORDER_MAX && ahead <= REORDER_MAX {
            return false;
        }
        self.expected = Some(sequence.wrapping_add(1));
        self.early = 0;
        let is_event = self.last_event.is_none_or(|at| now.since(at) >= rtt);
        if is_event {
            self.last_event = Some(now);
            if self.intervals.len() == WEIGHTS.len() {
                self.intervals.pop();
            }
            self.intervals.insert(0, self.current);
            self.current = 0.0;
        }
        is_event
    }

    /// Whether anything was ever lost.
    pub fn has_lost(&self) -> bool {
        !self.intervals.is_empty()
    }

    /// Replaces the first interval, which slow start ended, by what the rate at that time says. What is lost from now
    /// on may be of the same event.
    pub fn begin(&mut self, now: Time, loss: f64) {
        self.last_event = Some(now);
        self.intervals.clear();
        self.intervals.push(1.0 / loss.max(1e-8));
    }

    /// Loss events per message.
    pub fn estimate(&self) -> f64 {
        if self.intervals.is_empty() {
            return 0.0;
        }
        let average = |intervals: &mut dyn Iterator<Item = f64>| {
            let (mut sum, mut weights) = (0.0, 0.0);
            for (interval, weight) in intervals.zip(WEIGHTS) {
                sum += interval * weight;
                weights += weight;
            }
            sum / weights
        };
        let closed = average(&mut self.intervals.iter().copied());
        // The interval that is still open counts as soon as it makes the average longer.
        let open = average(&mut std::iter::once(self.current).chain(self.intervals.iter().copied()));
        1.0 / closed.max(open).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(10);

    fn at(step: u64) -> Time {
        Time::from_nanos(1_000_000_000 + step * 20_000_000)
    }

    #[test]
    fn evenly_spread_loss_is_estimated_as_it_is() {
        let mut estimator = LossEstimator::default();
        let mut sequence = 65_000u16;
        for step in 0..2_000 {
            // One message in fifty is missing, across the wrap of its number.
            sequence = sequence.wrapping_add(if step % 49 == 0 { 2 } else { 1 });
            estimator.on_message(at(step), sequence, RTT);
        }
        let estimate = estimator.estimate();
        assert!((0.017..0.023).contains(&estimate), "{estimate}");
    }

    #[test]
    fn losses_within_one_round_trip_are_one_event() {
        let mut estimator = LossEstimator::default();
        let mut events = 0;
        for sequence in (0..400u16).step_by(8) {
            events += u32::from(estimator.on_message(at(1), sequence, RTT));
        }
        assert_eq!(events, 1);
    }

    #[test]
    fn messages_that_change_places_are_not_lost() {
        let mut estimator = LossEstimator::default();
        for sequence in [1, 2, 4, 3, 5, 7, 8, 6, 9, 10] {
            assert!(!estimator.on_message(at(sequence.into()), sequence, RTT));
        }
        assert!(!estimator.has_lost());
    }

    #[test]
    fn a_long_time_without_loss_lowers_the_estimate() {
        let mut estimator = LossEstimator::default();
        estimator.on_message(at(0), 0, RTT);
        estimator.on_message(at(1), 10, RTT);
        estimator.begin(at(1), 0.1);
        let before = estimator.estimate();
        for sequence in 11..2000u16 {
            estimator.on_message(at(sequence.into()), sequence, RTT);
        }
        assert!(estimator.estimate() < before / 10.0);
    }
}
