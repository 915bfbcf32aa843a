//! How long something was on its way, by two clocks that do not agree.
//!
//! What a sender's clock shows in its marks, and when they arrive by ours, differ by how far the clocks are apart
//! plus how long the mark was on its way. The least difference seen lately stands for a mark that was not held up;
//! whatever arrives with a greater one is older by as much. Clocks drift, so differences are forgotten in time.

use std::time::Duration;

use shoal_norm::Time;

/// Differences are forgotten after one to two of these.
const PERIOD: Duration = Duration::from_secs(60);

/// The difference between a sender's clock and ours.
#[derive(Copy, Clone, Debug)]
pub struct ClockOffset {
    /// The least difference of this period and of the one before, microseconds.
    least_us: [i64; 2],
    period_end: Time,
}

impl ClockOffset {
    /// The first mark of a sender arrives.
    pub fn new(now: Time, clock_us: u64) -> ClockOffset {
        ClockOffset { least_us: [difference_us(now, clock_us); 2], period_end: now + PERIOD }
    }

    /// Another one arrives.
    pub fn observe(&mut self, now: Time, clock_us: u64) {
        let difference = difference_us(now, clock_us);
        if now >= self.period_end {
            self.least_us = [difference, self.least_us[0]];
            self.period_end = now + PERIOD;
        }
        self.least_us[0] = self.least_us[0].min(difference);
    }

    /// What the sender's clock shows now, as far as known.
    pub fn shows_us(&self, now: Time) -> u64 {
        let least = self.least_us[0].min(self.least_us[1]);
        ((now.as_nanos() / 1000) as i64).saturating_sub(least).max(0) as u64
    }

    /// How old something is that happened when the sender's clock showed `clock_us`.
    pub fn age(&self, now: Time, clock_us: u64) -> Duration {
        let least = self.least_us[0].min(self.least_us[1]);
        Duration::from_micros(difference_us(now, clock_us).saturating_sub(least).max(0) as u64)
    }
}

fn difference_us(now: Time, clock_us: u64) -> i64 {
    ((now.as_nanos() / 1000) as i64).saturating_sub(i64::try_from(clock_us).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ours, ten seconds ahead of the sender's.
    fn ours(millis: u64) -> Time {
        Time::from_nanos((10_000 + millis) * 1_000_000)
    }

    fn age_ms(offset: &ClockOffset, now: u64, sent_ms: u64) -> u128 {
        offset.age(ours(now), sent_ms * 1000).as_millis()
    }

    #[test]
    fn what_took_longer_than_the_fastest_is_older_by_as_much() {
        let mut offset = ClockOffset::new(ours(105), 100_000);
        assert_eq!(age_ms(&offset, 105, 100), 0, "nothing faster was seen");
        offset.observe(ours(201), 200_000);
        assert_eq!(age_ms(&offset, 301, 300), 0);
        assert_eq!(age_ms(&offset, 1301, 300), 1000);
        assert_eq!(age_ms(&offset, 300, 300), 0, "it cannot come from the future");
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        let mut offset = ClockOffset::new(ours(0), 0);
        // The sender's clock goes slower by a thousandth: after ten minutes it is behind by 600 ms.
        for second in 1..=600u64 {
            offset.observe(ours(second * 1000), second * 999_000);
        }
        assert!(age_ms(&offset, 600_000, 599_400) <= 120);
        assert!(age_ms(&offset, 601_000, 599_400) >= 1000);
    }

    #[test]
    fn absurd_clocks_do_no_harm() {
        let mut offset = ClockOffset::new(ours(0), u64::MAX);
        offset.observe(ours(1), 0);
        assert!(offset.age(ours(2), 0) > Duration::ZERO);
        assert_eq!(offset.age(Time::ZERO, u64::MAX), Duration::ZERO);
    }
}
