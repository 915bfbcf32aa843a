//! Rate control by NACKs alone: slow down when somebody asks for repair, speed up when nobody does.
//!
//! It needs nothing from receivers beyond what reliability needs, and suits a network whose losses mean
//! that a receiver does not keep up. It knows nothing of other traffic.

use std::time::Duration;

use crate::time::Time;

/// What remains of the rate when a NACK comes.
const SLOW_DOWN: f64 = 0.75;
/// What the rate grows by when none came for a while.
const SPEED_UP: f64 = 1.05;
/// The rate grows not more often than this.
const STEP_MIN: Duration = Duration::from_millis(5);

/// The rate.
#[derive(Debug)]
pub struct NackDriven {
    rate: f64,
    rate_min: f64,
    rate_max: f64,
    slowed_at: Time,
    raised_at: Time,
}

impl NackDriven {
    /// Begins at `rate_start`, and never goes below a tenth of it nor `rate_min`, nor above `rate_max`.
    pub fn new(rate_start: f64, rate_min: f64, rate_max: Option<f64>) -> NackDriven {
        let rate_max = rate_max.unwrap_or(f64::MAX);
        let rate = rate_start.min(rate_max);
        let rate_min = rate_min.max(rate / 10.0).min(rate_max);
        NackDriven { rate, rate_min, rate_max, slowed_at: Time::ZERO, raised_at: Time::ZERO }
    }

    /// Sets the most that may be sent.
    pub fn set_max(&mut self, rate_max: Option<f64>) {
        self.rate_max = rate_max.unwrap_or(f64::MAX);
        self.rate = self.rate.min(self.rate_max);
    }

    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Somebody asked for repair. What is asked within one round trip was lost at one rate.
    pub fn on_nack(&mut self, now: Time, grtt: Duration) {
        if now.since(self.slowed_at) >= 2 * grtt {
            (self.slowed_at, self.raised_at) = (now, now);
            self.rate = (self.rate * SLOW_DOWN).max(self.rate_min);
        }
    }

    /// Something is sent: speeds up if nobody asked for repair for a few round trips.
    pub fn on_sent(&mut self, now: Time, grtt: Duration) {
        let step = (2 * grtt).max(STEP_MIN);
        if now.since(self.slowed_at) >= 4 * grtt && now.since(self.raised_at) >= step {
            self.raised_at = now;
            self.rate = (self.rate * SPEED_UP).min(self.rate_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRTT: Duration = Duration::from_millis(5);

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn it_slows_down_on_nacks_once_per_round_trip_and_speeds_up_without_them() {
        let mut control = NackDriven::new(1e6, 0.0, None);
        control.on_nack(at(0), GRTT);
        control.on_nack(at(1), GRTT);
        assert_eq!(control.rate(), 7.5e5);
        for millis in 1..1000 {
            control.on_sent(at(millis), GRTT);
        }
        assert!(control.rate() > 2e6, "{}", control.rate());
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut control = NackDriven::new(1e6, 0.0, Some(2e6));
        for millis in (0..10_000).step_by(20) {
            control.on_nack(at(millis), GRTT);
        }
        assert_eq!(control.rate(), 1e5);
        for millis in 10_000..20_000 {
            control.on_sent(at(millis), GRTT);
        }
        assert_eq!(control.rate(), 2e6);
    }
}
