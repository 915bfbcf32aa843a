//! How long a member may be silent before it is taken for dead: as long as it lets us wait at times, and somewhat longer.
//!
//! A member says how often its heart beats (TI). What is seen of it (AT) may be less: heartbeats are lost, and a host that has
//! much to do, or that stands still for a while, is late. AT follows a longer wait by half at once, and shorter ones slowly,
//! so that it remembers a pause for a minute or so of heartbeats. A member is dead after MH + 1 times TI or AT, whichever is
//! longer; AT has a bound, so that a death is noticed in any case.

use std::time::Duration;

use shoal_norm::Time;

/// Of a wait that is longer than AT one part in so many is added to it, of the difference to a shorter one one in so many
/// is taken off.
const LONGER_ONE_IN: u32 = 2;
const SHORTER_ONE_IN: u32 = 16;
/// AT is so many times TI at the most.
const OBSERVED_MAX: u32 = 4;

/// When a member's heart beats.
#[derive(Copy, Clone, Debug)]
pub(super) struct Beat {
    /// How often, by its own word (TI).
    announced: Duration,
    /// How often, as we see it (AT).
    observed: Duration,
    last: Time,
}

impl Beat {
    pub fn new(now: Time, announced: Duration) -> Beat {
        Beat { announced, observed: announced, last: now }
    }

    /// A heartbeat, or an announcement in its place; one that comes between two of them says nothing of AT.
    pub fn on_beat(&mut self, now: Time) {
        let waited = now.since(self.last);
        self.last = now;
        if 2 * waited < self.announced {
            return;
        }
        let waited = waited.clamp(self.announced, self.announced * OBSERVED_MAX * LONGER_ONE_IN);
        self.observed = match waited.checked_sub(self.observed) {
            Some(longer) => self.observed + longer / LONGER_ONE_IN,
            None => self.observed - (self.observed - waited) / SHORTER_ONE_IN,
        };
        self.observed = self.observed.min(self.announced * OBSERVED_MAX);
    }

    /// We stood still ourselves for so long: that says nothing of others.
    pub fn pardon(&mut self, now: Time, pause: Duration) {
        self.last = (self.last + pause).min(now);
    }

    /// How long it may be silent, given how many heartbeats may be missed in a row (MH).
    pub fn silence_max(&self, missed_max: u32) -> Duration {
        self.observed * (missed_max + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TI: Duration = Duration::from_secs(1);

    fn after(waits: &[u64]) -> Duration {
        let mut now = Time::ZERO;
        let mut beat = Beat::new(now, TI);
        for &millis in waits {
            now += Duration::from_millis(millis);
            beat.on_beat(now);
        }
        beat.silence_max(5)
    }

    #[test]
    fn who_is_punctual_or_early_has_as_long_as_it_announced() {
        assert_eq!(after(&[]), 6 * TI);
        assert_eq!(after(&[1000; 100]), 6 * TI);
        assert_eq!(after(&[20, 300, 1000, 5]), 6 * TI);
    }

    #[test]
    fn who_was_late_has_longer_until_it_was_punctual_for_long() {
        assert_eq!(after(&[1000, 5000]), 6 * 3 * TI);
        let (soon, late) =
            (after(&[5000, 1000, 1000, 1000]), after(&[[5000].as_slice(), &[1000; 100]].concat()));
        assert!(soon > 6 * 2 * TI, "{soon:?}");
        assert!(late < 6 * TI + TI / 10, "{late:?}");
    }

    #[test]
    fn every_other_heartbeat_lost_doubles_the_time() {
        let lossy = after(&[2000; 50]);
        assert!(lossy > 11 * TI && lossy <= 12 * TI, "{lossy:?}");
    }

    #[test]
    fn however_late_a_death_is_noticed() {
        assert_eq!(after(&[3_600_000; 3]), 6 * OBSERVED_MAX * TI);
    }
}
