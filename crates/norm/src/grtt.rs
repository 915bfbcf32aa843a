//! The sender's estimate of the group's greatest round-trip time, and the probing that feeds it
//! (RFC 5740 section 5.5.1).
//!
//! A probe carries the sender's clock. A receiver answers with that clock plus how long it held the
//! probe, so the sender learns the round trip whatever the receiver's own clock says. The estimate
//! follows a longer answer at once and a shorter one slowly: the group's slowest member must not be
//! forgotten because a near one spoke last. How slowly is a matter of proportion: an estimate that is a
//! thousand times what anybody measures is as soon half of that as one that is a little too long is right.
//! Until the first answer it is a guess, and the first answer, doubled for safety, replaces it.

use std::time::Duration;

use crate::quantize;
use crate::time::Time;

/// What remains of the old estimate when a longer round trip is heard, and of how many times too long it is when
/// only shorter ones were, as an exponent.
const KEEP_ON_RISE: f64 = 0.25;
const KEEP_ON_FALL: f64 = 0.75;
/// A quiet sender probes this much more rarely each time.
const IDLE_STRETCH: u32 = 8;

/// The estimate and its probing.
#[derive(Debug, Default)]
pub struct Grtt {
    estimate: Duration,
    pub quantized: u8,
    least: Duration,
    greatest: Duration,
    /// It takes so long to send one packet: nobody can be answered sooner.
    packet_interval: Duration,
    /// The longest answer since the last probe.
    peak: Option<Duration>,
    /// Whether anybody ever answered.
    measured: bool,
    sequence: u16,
    pub next_probe: Time,
    interval: Duration,
    interval_active: Duration,
    interval_idle: Duration,
}

impl Grtt {
    pub fn new(config: &crate::Config) -> Grtt {
        let mut grtt = Grtt {
            least: config.grtt_min,
            greatest: config.grtt_max,
            next_probe: Time::NEVER,
            interval: config.probe_interval,
            interval_active: config.probe_interval,
            interval_idle: config.probe_interval_max,
            ..Grtt::default()
        };
        grtt.set(config.grtt_initial);
        grtt
    }

    fn set(&mut self, estimate: Duration) {
        self.estimate = estimate.clamp(self.least, self.greatest);
        let advertised = self.estimate.max(self.packet_interval).min(self.greatest);
        self.quantized = quantize::quantize_rtt(advertised);
    }

    /// Sets how long it takes to send one packet. No less is advertised, so that receivers of a slow sender do not ask
    /// again while the answer is being sent.
    pub fn set_packet_interval(&mut self, interval: Duration) {
        if interval != self.packet_interval {
            self.packet_interval = interval;
            self.set(self.estimate);
        }
    }

    /// The estimate as receivers hear it: quantised, so that both sides use the same value.
    pub fn advertised(&self) -> Duration {
        quantize::unquantize_rtt(self.quantized)
    }

    /// Data begins to flow: probe soon, and at the active interval.
    pub fn wake(&mut self, now: Time) {
        if self.next_probe == Time::NEVER {
            self.next_probe = now;
        } else if self.interval > self.interval_active {
            self.next_probe = self.next_probe.min(now + self.interval_active);
        }
        self.interval = self.interval_active;
    }

    /// A probe goes out: closes the interval, and returns the probe's number.
    pub fn probe(&mut self, now: Time, active: bool) -> u16 {
        if let Some(peak) = self.peak.take()
            && peak < self.estimate
        {
            let too_long = self.estimate.as_secs_f64() / peak.max(self.least).as_secs_f64();
            self.set(self.estimate.mul_f64(too_long.powf(KEEP_ON_FALL - 1.0)));
        }
        self.interval = if active {
            self.interval_active
        } else {
            (self.interval * IDLE_STRETCH).min(self.interval_idle)
        };
        self.next_probe = now + self.interval;
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// The next probe is wanted earlier than usual.
    pub fn hasten(&mut self, at: Time) {
        self.next_probe = self.next_probe.min(at);
    }

    /// A receiver answered. Tells its round-trip time, if the answer does; whether it `counts` for the group's says
    /// the caller.
    pub fn on_response(&mut self, arrived_at: Time, response: Time, counts: bool) -> Option<Duration> {
        if response == Time::ZERO || response > arrived_at {
            return None;
        }
        let rtt = arrived_at.since(response).min(self.greatest);
        if !counts {
            return Some(rtt);
        }
        self.peak = Some(self.peak.map_or(rtt, |peak| peak.max(rtt)));
        if !std::mem::replace(&mut self.measured, true) {
            self.set(2 * rtt);
        } else if rtt > self.estimate {
            self.set(self.estimate.mul_f64(KEEP_ON_RISE) + rtt.mul_f64(1.0 - KEEP_ON_RISE));
        }
        Some(rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn follows_a_longer_round_trip_at_once_and_a_shorter_one_slowly() {
        let mut grtt = Grtt::new(&Config::new(1, 1, 1));
        grtt.on_response(at(999), at(998), true);
        assert!(grtt.advertised() < Duration::from_millis(3), "the first answer replaces the guess");
        grtt.on_response(at(1000), at(900), true);
        assert!(grtt.advertised() > Duration::from_millis(75));
        let mut probes = 0;
        while grtt.advertised() > Duration::from_millis(2) {
            grtt.on_response(at(2000), at(1999), true);
            grtt.probe(at(2000), true);
            probes += 1;
        }
        assert!((8..40).contains(&probes), "{probes} probes");
    }

    #[test]
    fn an_estimate_far_too_long_falls_in_a_few_probes() {
        let mut grtt = Grtt::new(&Config::new(1, 1, 1));
        grtt.on_response(at(5000), at(3000), true);
        assert_eq!(grtt.advertised().as_secs(), 4);
        for _ in 0..10 {
            grtt.on_response(at(6000), at(5999), true);
            grtt.probe(at(6000), true);
        }
        assert!(grtt.advertised() < Duration::from_millis(3), "{:?}", grtt.advertised());
    }

    #[test]
    fn a_receiver_that_does_not_count_changes_nothing() {
        let mut grtt = Grtt::new(&Config::new(1, 1, 1));
        grtt.on_response(at(999), at(998), true);
        let before = grtt.advertised();
        assert_eq!(grtt.on_response(at(5000), at(1000), false), Some(Duration::from_secs(4)));
        assert_eq!(grtt.advertised(), before);
    }

    #[test]
    fn a_slow_sender_advertises_no_less_than_a_packet_takes() {
        let mut grtt = Grtt::new(&Config::new(1, 1, 1));
        grtt.on_response(at(999), at(998), true);
        grtt.set_packet_interval(Duration::from_millis(140));
        assert!(grtt.advertised() >= Duration::from_millis(130), "{:?}", grtt.advertised());
        grtt.set_packet_interval(Duration::from_secs(3600));
        assert!(grtt.advertised() <= Duration::from_secs(17), "{:?}", grtt.advertised());
        grtt.set_packet_interval(Duration::ZERO);
        assert!(grtt.advertised() < Duration::from_millis(3));
    }

    #[test]
    fn a_probe_that_nobody_answers_changes_nothing() {
        let mut grtt = Grtt::new(&Config::new(1, 1, 1));
        let before = grtt.advertised();
        grtt.probe(at(1), true);
        grtt.probe(at(2), true);
        assert_eq!(grtt.advertised(), before);
    }

    #[test]
    fn answers_from_the_future_are_ignored() {
        let mut grtt = Grtt::new(&Config::new(1, 1, 1));
        let before = grtt.advertised();
        grtt.on_response(at(1), at(5), true);
        assert_eq!(grtt.advertised(), before);
    }

    #[test]
    fn a_quiet_sender_probes_ever_more_rarely() {
        let mut grtt = Grtt::new(&Config::new(1, 1, 1));
        grtt.wake(at(0));
        for _ in 0..5 {
            grtt.probe(at(0), false);
        }
        assert_eq!(grtt.next_probe, at(30_000));
        grtt.wake(at(10));
        assert_eq!(grtt.next_probe, at(110));
    }
}
