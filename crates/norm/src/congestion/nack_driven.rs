//! Rate control by NACKs alone: slow down when somebody asks for repair, speed up when nobody does.
//!
//! It needs nothing from receivers beyond what reliability needs, and suits a network whose losses mean
//! that a receiver does not keep up. It knows nothing of other traffic. A rate that is not used does not grow: nobody
//! could have asked for repair of what was not sent.

use std::time::Duration;

use crate::time::Time;

/// What remains of the rate when a NACK comes.
const SLOW_DOWN: f64 = 0.75;
/// What the rate grows by when none came for a while.
const SPEED_UP: f64 = 1.05;
/// It grows only if so much of it was used.
const USED_MIN: f64 = 0.5;
/// The rate grows not more often than this.
const STEP_MIN: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct NackDriven {
    pub rate: f64,
    rate_min: f64,
    rate_max: f64,
    slowed_at: Time,
    raised_at: Time,
    /// What had been sent by then.
    sent_before: u64,
}

impl NackDriven {
    /// Begins at `rate_start`, and never goes below a tenth of it nor `rate_min`, nor above `rate_max`.
    pub fn new(rate_start: f64, rate_min: f64, rate_max: Option<f64>) -> NackDriven {
        let rate_max = rate_max.unwrap_or(f64::MAX);
        let rate = rate_start.min(rate_max);
        let rate_min = rate_min.max(rate / 10.0).min(rate_max);
        NackDriven { rate, rate_min, rate_max, slowed_at: Time::ZERO, raised_at: Time::ZERO, sent_before: 0 }
    }

    /// Sets the most that may be sent.
    pub fn set_max(&mut self, rate_max: Option<f64>) {
        self.rate_max = rate_max.unwrap_or(f64::MAX);
        self.rate = self.rate.min(self.rate_max);
    }

    /// Somebody asked for repair. What is asked within one round trip was lost at one rate.
    pub fn on_nack(&mut self, now: Time, grtt: Duration) {
        if now.since(self.slowed_at) >= 2 * grtt {
            (self.slowed_at, self.raised_at) = (now, now);
            self.rate = (self.rate * SLOW_DOWN).max(self.rate_min);
        }
    }

    /// Something is sent, after `sent_bytes` ever: speeds up if nobody asked for repair for a few round trips.
    pub fn on_sent(&mut self, now: Time, grtt: Duration, sent_bytes: u64) {
        let step = now.since(self.raised_at);
        if now.since(self.slowed_at) < 4 * grtt || step < (2 * grtt).max(STEP_MIN) {
            return;
        }
        let used = (sent_bytes - self.sent_before) as f64 >= USED_MIN * self.rate * step.as_secs_f64();
        (self.raised_at, self.sent_before) = (now, sent_bytes);
        if used {
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

    /// Sends for as many milliseconds, so many bytes per second.
    fn send(control: &mut NackDriven, millis: std::ops::Range<u64>, bytes_per_s: f64) {
        for at_millis in millis {
            control.on_sent(at(at_millis), GRTT, (at_millis as f64 * bytes_per_s / 1e3) as u64);
        }
    }

    #[test]
    fn it_slows_down_on_nacks_once_per_round_trip_and_speeds_up_without_them() {
        let mut control = NackDriven::new(1e6, 0.0, None);
        control.on_nack(at(0), GRTT);
        control.on_nack(at(1), GRTT);
        assert_eq!(control.rate, 7.5e5);
        send(&mut control, 1..1000, 1e9);
        assert!(control.rate > 2e6, "{}", control.rate);
    }

    #[test]
    fn a_rate_that_is_not_used_does_not_grow() {
        let mut control = NackDriven::new(1e6, 0.0, None);
        send(&mut control, 0..60_000, 3e6);
        assert!((3e6..7e6).contains(&control.rate), "{}", control.rate);
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut control = NackDriven::new(1e6, 0.0, Some(2e6));
        for millis in (0..10_000).step_by(20) {
            control.on_nack(at(millis), GRTT);
        }
        assert_eq!(control.rate, 1e5);
        send(&mut control, 10_000..20_000, 1e9);
        assert_eq!(control.rate, 2e6);
    }
}
