//! The transmission rate: how much may go now, and when the next burst may.

use std::time::Duration;

use crate::time::Time;

/// How far a late sender may catch up, so that timer jitter does not lower the rate.
const CATCH_UP: Duration = Duration::from_millis(5);
/// A burst covers about this much time, so that slow links see no long bursts.
const BURST: Duration = Duration::from_millis(1);

/// Spaces transmissions.
#[derive(Clone, Debug)]
pub struct Pacer {
    pub rate_bytes_per_s: Option<f64>,
    next: Time,
}

impl Pacer {
    pub fn new(rate_bytes_per_s: Option<f64>) -> Pacer {
        Pacer { rate_bytes_per_s, next: Time::ZERO }
    }

    pub fn set_rate(&mut self, rate_bytes_per_s: Option<f64>) {
        self.rate_bytes_per_s = rate_bytes_per_s;
    }

    /// When something may be sent.
    pub fn ready_at(&self) -> Time {
        if self.rate_bytes_per_s.is_some() { self.next } else { Time::ZERO }
    }

    /// Bytes that may go in one burst; one datagram may always go.
    pub fn burst_bytes(&self) -> usize {
        match self.rate_bytes_per_s {
            Some(rate) => (rate * BURST.as_secs_f64()) as usize,
            None => usize::MAX,
        }
    }

    /// How long so many bytes take.
    pub fn time_for(&self, bytes: usize) -> Duration {
        self.rate_bytes_per_s.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate))
    }

    /// Takes note of what was sent.
    pub fn sent(&mut self, now: Time, bytes: usize) {
        if let Some(rate) = self.rate_bytes_per_s {
            self.next = self.next.max(now - CATCH_UP) + Duration::from_secs_f64(bytes as f64 / rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_rate_over_a_second_despite_late_polls() {
        let mut pacer = Pacer::new(Some(1e6));
        let mut now = Time::from_nanos(1_000_000_000);
        let end = now + Duration::from_secs(1);
        let mut sent = 0usize;
        while now < end {
            if pacer.ready_at() <= now {
                pacer.sent(now, 1000);
                sent += 1000;
            } else {
                // A timer that fires up to 0.7 ms late.
                now = pacer.ready_at() + Duration::from_micros(700);
            }
        }
        assert!((990_000..=1_006_000).contains(&sent), "{sent} bytes in a second");
    }

    #[test]
    fn unpaced_is_always_ready() {
        let mut pacer = Pacer::new(None);
        pacer.sent(Time::from_nanos(5), 1_000_000);
        assert_eq!(pacer.ready_at(), Time::ZERO);
    }
}
