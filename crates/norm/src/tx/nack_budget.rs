//! What a NACK may cost: work, and repairs.
//!
//! However much one message asks for, what it costs is bounded. Where it is known who
//! counts, those who do not share a budget of repairs: a little at once, more as time passes, and a part of what is sent
//! anyway. So a short message of a stranger cannot make a sender send all it has.

use crate::effort;
use crate::time::Time;

/// Segments that strangers may ask for at once, in a second, and for so many that are sent for the first time.
const BURST: u64 = 64;
const PER_SECOND: f64 = 1000.0;
const ONE_IN_SENT: u64 = 4;
/// What was not asked for is kept up to so many.
const SAVED_MAX: u64 = 1024;

/// What one NACK may still cost.
#[derive(Debug)]
pub struct Budget {
    /// Segments, or objects, to look at.
    pub steps: u64,
    /// Segments to send again.
    pub repairs: u64,
}

impl Budget {
    /// Takes a step. False if there is none left, or nothing more is to be sent again.
    pub fn take_step(&mut self) -> bool {
        let fits = self.steps > 0 && self.repairs > 0;
        self.steps -= u64::from(fits);
        effort::step();
        fits
    }
}

/// What those who do not count may ask for, all of them together.
#[derive(Debug)]
pub struct StrangerBudget {
    left: f64,
    /// When it was counted last, and what had been sent by then.
    at: Time,
    sent: u64,
}

impl Default for StrangerBudget {
    fn default() -> StrangerBudget {
        StrangerBudget { left: BURST as f64, at: Time::ZERO, sent: 0 }
    }
}

impl StrangerBudget {
    /// Time passed, and so many segments were sent for the first time, ever.
    pub fn pass_time(&mut self, now: Time, sent: u64) {
        let more = now.since(self.at).as_secs_f64() * PER_SECOND;
        let more = more.min(BURST as f64) + ((sent - self.sent) / ONE_IN_SENT) as f64;
        self.left = (self.left + more).min(SAVED_MAX as f64);
        (self.at, self.sent) = (now, sent);
    }

    /// Segments they may ask for now.
    pub fn left(&self) -> u64 {
        self.left as u64
    }

    /// They asked for so many.
    pub fn spend(&mut self, segments: u64) {
        self.left = (self.left - segments as f64).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn strangers_get_a_little_at_once_more_in_time_and_a_part_of_what_is_sent() {
        let mut budget = StrangerBudget::default();
        let mut now = Time::from_nanos(1);
        budget.pass_time(now, 0);
        budget.spend(budget.left());
        assert_eq!(budget.left(), 0);
        let mut asked = 0;
        for _ in 0..1000 {
            now += Duration::from_millis(1);
            budget.pass_time(now, 0);
            asked += budget.left();
            budget.spend(budget.left());
        }
        assert!((950..=1001).contains(&asked), "{asked} in a second");
        budget.pass_time(now, 4000);
        assert_eq!(budget.left(), 1000);
    }
}
