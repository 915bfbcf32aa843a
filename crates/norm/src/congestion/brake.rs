//! What keeps a sender that nothing paces from drowning a path.
//!
//! Such a sender sends as fast as its caller polls, up to its window. Where a queue on the way holds less, most of
//! that is lost; its repairs, sent as fast, are lost again, and the path carries little else. So when a large part
//! of what was sent is asked for again, the sender is paced for a while, at what seems to come through.
//!
//! *Through* is the rate without the share of it that was lost, at least a tenth of it. The rate is that of late when
//! the brake goes on, its own afterwards. *Settled* is two GRTT, at least 50 ms, after suspicion or the last slowing:
//! what is asked for before that is not counted. The count begins anew with both of them.
//!
//! | state      | on …                                                | do                                        |
//! |------------|-----------------------------------------------------|-------------------------------------------|
//! | off        | more than half lost                                 | suspicious                                |
//! | suspicious | more than half lost, settled                        | on, at 0.9 × through                      |
//! |            | a second over                                       | off                                       |
//! | on         | more than a quarter lost, settled                   | slow down to 0.9 × through                |
//! |            | sending, 4 GRTT and at least 50 ms after it slowed  | 2 % faster, each 2 GRTT and at least 5 ms |
//! |            | … while the rate is 1 to 1.5 × through              | the same, eight times more rarely         |
//! |            | … and thereby at 1.25 GB/s                          | off                                       |
//! | any        | sending after 4 GRTT of silence, nothing lost       | count anew                                |
//!
//! It never slows below 125 kB/s nor below the configured least rate. Less than 100 kB is no sign of anything.
//! One large loss is no reason: a member that comes late asks for everything once, and goes on.
//! It is no congestion control: it does not share a path fairly, and random loss of less than half leaves it off.

use std::time::Duration;

use crate::time::Time;

/// The share of what was sent whose loss puts it on, and the share that slows it further.
const LOSS_ON: f64 = 0.5;
const LOSS_MORE: f64 = 0.25;
/// Lost together with so little else it is no sign of anything.
const BYTES_MIN: f64 = 100_000.0;
/// A count lasts so long at least, which is longer than it takes to ask for what was lost.
const COUNT_ROUND_TRIPS: u32 = 16;
/// What of the rate that comes through to send at, so that what waits in the queue drains.
const DRAIN: f64 = 0.9;
/// Beyond what seemed to come through the rate grows so many times more slowly.
const CAUTION: u32 = 8;
/// So far beyond it, it no longer matters.
const FORGET: f64 = 1.5;
/// One step never leaves less of the rate than this.
const STEP_DOWN_MIN: f64 = 0.1;
const SPEED_UP: f64 = 1.02;
const STEP_MIN: Duration = Duration::from_millis(5);
/// What was lost before is still being asked for so long after it was slowed: a queue that filled just now is longer
/// than any round trip measured so far.
const SETTLE_MIN: Duration = Duration::from_millis(50);
/// A second large loss so soon after the first is a reason to brake.
const SUSPICION: Duration = Duration::from_secs(1);
/// The slowest it makes a sender, in bytes per second, unless more is configured.
const RATE_MIN: f64 = 125_000.0;
/// Faster than this it is off.
const RATE_OFF: f64 = 1.25e9;

/// What was sent before a time, and what was asked for again since then.
#[derive(Copy, Clone, Debug, Default)]
struct Count {
    from: Time,
    sent_before: u64,
    lost: f64,
}

#[derive(Copy, Clone, Debug)]
enum State {
    Off,
    /// A large part was lost.
    Suspicious {
        since: Time,
    },
    On {
        rate: f64,
        /// What came through when it slowed last.
        through: f64,
        slowed_at: Time,
        raised_at: Time,
    },
}

#[derive(Debug)]
pub struct Brake {
    state: State,
    rate_min: f64,
    /// What is counted now, and before that: what is asked for now may have been sent then.
    current: Count,
    earlier: Count,
    last_sent: Time,
}

impl Brake {
    /// One that is off, and never slows below `rate_min`.
    pub fn new(rate_min: f64) -> Brake {
        Brake {
            state: State::Off,
            rate_min: rate_min.max(RATE_MIN),
            current: Count::default(),
            earlier: Count::default(),
            last_sent: Time::ZERO,
        }
    }

    /// The rate it allows; `None` while it is off.
    pub fn rate(&self) -> Option<f64> {
        match self.state {
            State::Off | State::Suspicious { .. } => None,
            State::On { rate, .. } => Some(rate),
        }
    }

    /// What was lost is counted from then on.
    pub fn counts_from(&self) -> Time {
        self.earlier.from
    }

    /// Data or repairs are sent, after `sent_bytes` ever.
    pub fn on_sent(&mut self, now: Time, grtt: Duration, sent_bytes: u64) {
        if now.since(self.last_sent) >= 4 * grtt && self.current.lost + self.earlier.lost == 0.0 {
            // What comes after a pause has a rate of its own.
            self.count_from(now, sent_bytes);
        }
        self.last_sent = now;
        let State::On { rate, through, slowed_at, raised_at } = self.state else { return };
        let cautious = (through..FORGET * through).contains(&rate);
        let step = (2 * grtt).max(STEP_MIN) * if cautious { CAUTION } else { 1 };
        if now.since(slowed_at) >= (4 * grtt).max(SETTLE_MIN) && now.since(raised_at) >= step {
            let rate = rate * SPEED_UP;
            self.state = if rate < RATE_OFF {
                State::On { rate, through, slowed_at, raised_at: now }
            } else {
                State::Off
            };
        }
    }

    /// `lost_bytes` were asked for again; `sent_bytes` were ever sent, with repairs and all.
    pub fn on_lost(&mut self, now: Time, grtt: Duration, lost_bytes: f64, sent_bytes: u64) {
        self.current.lost += lost_bytes;
        if !self.is_settled(now, grtt) {
            return self.count_from(now, sent_bytes);
        }
        let sent = sent_bytes.saturating_sub(self.earlier.sent_before) as f64;
        if sent < BYTES_MIN {
            return;
        }
        let share = ((self.current.lost + self.earlier.lost) / sent).min(1.0);
        let too_much = share > if self.rate().is_some() { LOSS_MORE } else { LOSS_ON };
        if too_much {
            let left = (1.0 - share).max(STEP_DOWN_MIN);
            let lately = sent / now.since(self.earlier.from).as_secs_f64().max(1e-6);
            self.state = match self.state {
                State::On { rate, .. } => self.slowed(now, rate * left),
                State::Suspicious { since } if now.since(since) <= SUSPICION.max(4 * grtt) => {
                    self.slowed(now, lately * left)
                }
                State::Off | State::Suspicious { .. } => State::Suspicious { since: now },
            };
            self.count_from(now, sent_bytes);
        } else if now.since(self.current.from) >= COUNT_ROUND_TRIPS * grtt {
            self.earlier = self.current;
            self.current = Count { from: now, sent_before: sent_bytes, lost: 0.0 };
        }
    }

    /// Whether what is asked for now was sent since the last step.
    fn is_settled(&self, now: Time, grtt: Duration) -> bool {
        match self.state {
            State::Off | State::Suspicious { .. } => true,
            State::On { slowed_at, .. } => now.since(slowed_at) >= (2 * grtt).max(SETTLE_MIN),
        }
    }

    fn slowed(&self, now: Time, through: f64) -> State {
        let rate = (DRAIN * through).max(self.rate_min);
        State::On { rate, through, slowed_at: now, raised_at: now }
    }

    /// Begins anew: what was before does not count.
    fn count_from(&mut self, now: Time, sent_bytes: u64) {
        self.current = Count { from: now, sent_before: sent_bytes, lost: 0.0 };
        self.earlier = self.current;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRTT: Duration = Duration::from_millis(10);

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    /// Sends for so many round trips through a path of this rate; what exceeds it is lost.
    fn overflow(brake: &mut Brake, path_bytes_per_s: f64, from: u64, round_trips: u64) -> (f64, f64) {
        let (mut sent, mut lost) = (brake.current.sent_before, 0.0);
        for step in from..from + round_trips {
            let rate = brake.rate().unwrap_or(1e8);
            brake.on_sent(at(10 * step), GRTT, sent);
            sent += (rate * 0.01) as u64;
            let excess = (rate - path_bytes_per_s).max(0.0) * 0.01;
            lost += excess;
            if excess > 0.0 {
                brake.on_lost(at(10 * step + 9), GRTT, excess, sent);
            }
        }
        (sent as f64, lost)
    }

    #[test]
    fn a_whole_window_lost_once_leaves_it_off() {
        let mut brake = Brake::new(0.0);
        for millis in 0..2_000 {
            brake.on_sent(at(millis), GRTT, 1_000_000 * (millis + 1));
            if millis == 5 {
                brake.on_lost(at(millis), GRTT, 3e6, 1_000_000 * (millis + 1));
            }
            assert_eq!(brake.rate(), None, "after {millis} ms");
        }
    }

    #[test]
    fn a_flood_is_slowed_to_what_the_path_takes() {
        let mut brake = Brake::new(0.0);
        overflow(&mut brake, 4e6, 0, 100);
        let start = brake.current.sent_before as f64;
        let (sent, lost) = overflow(&mut brake, 4e6, 100, 1000);
        let through = (sent - start - lost) / 10.0;
        assert!(through > 0.85 * 4e6, "{through} bytes/s come through");
        assert!(lost < 0.25 * sent, "{lost} of {sent} are lost");
    }

    #[test]
    fn no_loss_slows_it_below_the_least_rate() {
        for (configured, least) in [(0.0, RATE_MIN), (RATE_MIN / 2.0, RATE_MIN), (2e6, 2e6)] {
            let mut brake = Brake::new(configured);
            let mut slowest = f64::INFINITY;
            for step in 0..1000u64 {
                brake.on_sent(at(10 * step), GRTT, step * 1_000_000);
                brake.on_lost(at(10 * step + 9), GRTT, 1e6, (step + 1) * 1_000_000);
                slowest = slowest.min(brake.rate().unwrap_or(slowest));
            }
            assert_eq!(slowest, least, "{configured} bytes/s configured");
        }
    }

    #[test]
    fn random_loss_leaves_it_off() {
        let mut brake = Brake::new(0.0);
        for step in 0..1000u64 {
            brake.on_sent(at(step), GRTT, step * 100_000);
            brake.on_lost(at(step), GRTT, 30_000.0, (step + 1) * 100_000);
        }
        assert_eq!(brake.rate(), None);
    }

    #[test]
    fn what_is_asked_for_late_is_held_against_what_was_sent_early() {
        let mut brake = Brake::new(0.0);
        let mut sent = 0;
        for window in 0..100u64 {
            // Twenty round trips' worth at once, of which one in twenty is asked for two round trips later.
            brake.on_sent(at(200 * window), GRTT, sent);
            sent += 8_000_000;
            brake.on_sent(at(200 * window + 1), GRTT, sent);
            brake.on_lost(at(200 * window + 20), GRTT, 400_000.0, sent);
        }
        assert_eq!(brake.rate(), None);
    }

    #[test]
    fn it_goes_off_when_the_path_is_free_again() {
        let mut brake = Brake::new(0.0);
        overflow(&mut brake, 4e6, 0, 100);
        assert!(brake.rate().is_some());
        overflow(&mut brake, f64::MAX, 100, 1000);
        assert_eq!(brake.rate(), None);
    }

    #[test]
    fn a_burst_after_a_pause_is_judged_by_itself() {
        let mut brake = Brake::new(0.0);
        brake.on_sent(at(0), GRTT, 0);
        brake.on_sent(at(60_000), GRTT, 1000);
        brake.on_lost(at(60_010), GRTT, 800_000.0, 1_001_000);
        brake.on_sent(at(60_070), GRTT, 1_002_000);
        brake.on_lost(at(60_080), GRTT, 800_000.0, 2_001_000);
        let rate = brake.rate().unwrap();
        assert!(rate > 1e7, "{rate}: a minute of silence does not count");
    }
}
