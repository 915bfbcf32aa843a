//! The transmission rate: how much may go now, and when the next burst may.

use std::time::Duration;

use crate::Config;
use crate::stats::Stats;
use crate::time::Time;

/// How far a late sender may catch up, so that timer jitter does not lower the rate.
const CATCH_UP: Duration = Duration::from_millis(5);
/// A burst covers about this much time, so that slow links see no long bursts.
const BURST: Duration = Duration::from_millis(1);

/// Spaces transmissions, by a rate, by a delay for each datagram, or by both.
#[derive(Clone, Debug)]
pub struct Pacer {
    pub rate_bytes_per_s: Option<f64>,
    send_delay: Duration,
    segment_bytes: usize,
    next: Time,
    /// Since when data waits for `next`.
    held_since: Option<Time>,
    /// When the last run of data began, and how many datagrams it had.
    last_run: Option<(Time, usize)>,
}

impl Pacer {
    pub fn new(rate_bytes_per_s: Option<f64>, config: &Config) -> Pacer {
        Pacer {
            rate_bytes_per_s,
            send_delay: config.send_delay,
            segment_bytes: config.segment_bytes.into(),
            next: Time::ZERO,
            held_since: None,
            last_run: None,
        }
    }

    pub fn set_rate(&mut self, rate_bytes_per_s: Option<f64>) {
        self.rate_bytes_per_s = rate_bytes_per_s;
    }

    /// When something may be sent.
    pub fn ready_at(&self) -> Time {
        if self.is_pacing() { self.next } else { Time::ZERO }
    }

    fn is_pacing(&self) -> bool {
        self.rate_bytes_per_s.is_some() || !self.send_delay.is_zero()
    }

    /// The time from one full datagram to the next, as it is now.
    pub fn send_delay(&self) -> Duration {
        self.time_for(self.segment_bytes)
    }

    /// Bytes that may go in one burst; one datagram may always go.
    pub fn burst_bytes(&self) -> usize {
        match self.rate_bytes_per_s {
            Some(rate) => (rate * BURST.as_secs_f64()) as usize,
            None => usize::MAX,
        }
    }

    /// Datagrams that may go in one burst.
    pub fn burst_datagrams(&self) -> usize {
        if self.send_delay.is_zero() {
            return usize::MAX;
        }
        (BURST.as_nanos() / self.send_delay.as_nanos()).max(1) as usize
    }

    /// How long so many bytes take.
    pub fn time_for(&self, bytes: usize) -> Duration {
        self.time_of(bytes, bytes.div_ceil(self.segment_bytes.max(1)))
    }

    fn time_of(&self, bytes: usize, datagrams: usize) -> Duration {
        let by_rate =
            self.rate_bytes_per_s.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate));
        by_rate.max(self.send_delay.saturating_mul(u32::try_from(datagrams).unwrap_or(u32::MAX)))
    }

    /// Takes note of a command that was sent, which the send delay leaves alone.
    pub fn sent_command(&mut self, now: Time, bytes: usize) {
        if self.rate_bytes_per_s.is_some() {
            self.next = self.next.max(now - CATCH_UP) + self.time_of(bytes, 0);
        }
    }

    /// Takes note of a run of data that was sent.
    pub fn sent(&mut self, now: Time, bytes: usize, datagrams: usize, stats: &mut Stats) {
        if datagrams == 0 {
            return;
        }
        if let Some((began, before)) = self.last_run.replace((now, datagrams)) {
            stats.send_gap_ns += now.since(began).as_nanos() as u64;
            stats.send_gap_datagrams += before as u64;
        }
        let held_since = self.held_since.take();
        if let Some(since) = held_since {
            stats.pacing_ns += now.since(since).as_nanos() as u64;
        }
        if self.is_pacing() {
            // A timer may be late, and that is made up for; after a pause there is nothing to make up for.
            let idle = held_since.is_none() && self.rate_bytes_per_s.is_none();
            let from = if idle { now } else { now - CATCH_UP };
            self.next = self.next.max(from) + self.time_of(bytes, datagrams);
        }
    }

    /// Nothing waits to be sent: the time until more does is no gap, and nobody waits for the pacer.
    pub fn idle(&mut self) {
        (self.last_run, self.held_since) = (None, None);
    }

    /// Data waits for its time.
    pub fn hold(&mut self, now: Time) {
        self.held_since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(rate: Option<f64>, send_delay: Duration) -> Pacer {
        let mut config = Config::new(1, 1, 1);
        (config.send_delay, config.segment_bytes) = (send_delay, 1000);
        Pacer::new(rate, &config)
    }

    #[test]
    fn keeps_the_rate_over_a_second_despite_late_polls() {
        let (mut pacer, mut stats) = (pacer(Some(1e6), Duration::ZERO), Stats::default());
        let mut now = Time::from_nanos(1_000_000_000);
        let end = now + Duration::from_secs(1);
        let mut sent = 0usize;
        while now < end {
            if pacer.ready_at() <= now {
                pacer.sent(now, 1000, 1, &mut stats);
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
        let mut pacer = pacer(None, Duration::ZERO);
        pacer.sent(Time::from_nanos(5), 1_000_000, 700, &mut Stats::default());
        assert_eq!((pacer.ready_at(), pacer.send_delay()), (Time::ZERO, Duration::ZERO));
    }

    #[test]
    fn a_send_delay_is_the_mean_gap_between_datagrams_however_long_the_runs() {
        for datagrams in [1, 3, 7] {
            let (mut pacer, mut stats) = (pacer(None, Duration::from_micros(130)), Stats::default());
            let begin = Time::from_nanos(1_000_000_000);
            let mut now = begin;
            for _ in 0..1000 {
                pacer.sent(now, datagrams * 1000, datagrams, &mut stats);
                pacer.hold(now);
                now = pacer.ready_at();
            }
            assert_eq!(pacer.burst_datagrams(), 7);
            let mean = stats.send_gap_ns as f64 / stats.send_gap_datagrams as f64;
            assert_eq!(mean, 130_000.0, "ns with runs of {datagrams}");
            assert_eq!(stats.pacing_ns, stats.send_gap_ns, "all of it was spent waiting");
        }
    }

    #[test]
    fn a_pause_in_which_nothing_waited_is_no_gap() {
        let (mut pacer, mut stats) = (pacer(None, Duration::ZERO), Stats::default());
        for second in [1, 2, 100, 101] {
            if second == 100 {
                pacer.idle();
            }
            pacer.sent(Time::from_nanos(second * 1_000_000_000), 1000, 1, &mut stats);
        }
        assert_eq!((stats.send_gap_ns, stats.send_gap_datagrams), (2_000_000_000, 2));
    }

    #[test]
    fn of_a_rate_and_a_send_delay_the_slower_counts() {
        let mut pacer = pacer(Some(1e6), Duration::from_micros(500));
        assert_eq!(pacer.send_delay(), Duration::from_millis(1));
        pacer.set_rate(Some(1e7));
        assert_eq!(pacer.send_delay(), Duration::from_micros(500));
        assert_eq!(pacer.time_for(4001), Duration::from_micros(2500), "five datagrams");
    }
}
