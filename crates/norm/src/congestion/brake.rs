//! What keeps a sender that nothing paces from drowning a path.
//!
//! Such a sender sends as fast as its caller polls, up to its window. Where a queue on the way holds less, most of that
//! is lost; its repairs, sent as fast, are lost again, and the path carries little else. So when a large part of what
//! was sent is asked for again, the sender is paced for a while, at what seems to come through.
//!
//! | state     | a large part was lost                       | nothing of the kind for four GRTT        |
//! |-----------|---------------------------------------------|------------------------------------------|
//! | off       | suspicious, and everything is counted anew  |                                          |
//! | suspicious | on: the rate of late, without what was lost | off, after a second                      |
//! | on        | slower, at most once in two GRTT and 50 ms  | 2 % faster each two GRTT, in the end off |
//!
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
/// The slowest it makes a sender, in bytes per second.
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

/// The brake.
#[derive(Debug, Default)]
pub struct Brake {
    /// None while it is off.
    rate: Option<f64>,
    /// What came through when it slowed last.
    through: f64,
    slowed_at: Time,
    raised_at: Time,
    /// When a large part was lost while it was off.
    suspected_at: Option<Time>,
    /// What is counted now, and before that: what is asked for now may have been sent then.
    current: Count,
    earlier: Count,
    last_sent: Time,
}

impl Brake {
    /// The rate it allows; `None` while it is off.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Data or repairs are sent, after `sent_bytes` ever.
    pub fn on_sent(&mut self, now: Time, grtt: Duration, sent_bytes: u64) {
        if now.since(self.last_sent) >= 4 * grtt && self.current.lost + self.earlier.lost == 0.0 {
            // What comes after a pause has a rate of its own.
            self.count_from(now, sent_bytes);
        }
        self.last_sent = now;
        let cautious = self.rate.is_some_and(|rate| (self.through..FORGET * self.through).contains(&rate));
        let step = (2 * grtt).max(STEP_MIN) * if cautious { CAUTION } else { 1 };
        if let Some(rate) = self.rate
            && now.since(self.slowed_at) >= (4 * grtt).max(SETTLE_MIN)
            && now.since(self.raised_at) >= step
        {
            self.raised_at = now;
            self.rate = Some(rate * SPEED_UP).filter(|rate| *rate < RATE_OFF);
        }
    }

    /// `lost_bytes` were asked for again; `sent_bytes` were ever sent, with repairs and all.
    pub fn on_lost(&mut self, now: Time, grtt: Duration, lost_bytes: f64, sent_bytes: u64) {
        self.current.lost += lost_bytes;
        let sent = sent_bytes.saturating_sub(self.earlier.sent_before) as f64;
        let share = ((self.current.lost + self.earlier.lost) / sent.max(1.0)).min(1.0);
        if now.since(self.slowed_at) < (2 * grtt).max(SETTLE_MIN) {
            return self.count_from(now, sent_bytes);
        }
        if sent < BYTES_MIN {
            return;
        }
        let too_much = share > if self.rate.is_some() { LOSS_MORE } else { LOSS_ON };
        if too_much && self.rate.is_none() {
            let suspected_at = self.suspected_at.replace(now);
            if suspected_at.is_none_or(|at| now.since(at) > SUSPICION) {
                self.slowed_at = now;
                return self.count_from(now, sent_bytes);
            }
        }
        if too_much {
            let lately = sent / now.since(self.earlier.from).as_secs_f64().max(1e-6);
            self.through = self.rate.unwrap_or(lately) * (1.0 - share).max(STEP_DOWN_MIN);
            self.rate = Some((DRAIN * self.through).max(RATE_MIN));
            (self.slowed_at, self.raised_at) = (now, now);
        }
        if too_much {
            self.count_from(now, sent_bytes);
        } else if now.since(self.current.from) >= COUNT_ROUND_TRIPS * grtt {
            self.earlier = self.current;
            self.current = Count { from: now, sent_before: sent_bytes, lost: 0.0 };
        }
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
        let mut brake = Brake::default();
        for millis in 0..2_000 {
            brake.on_sent(at(millis), GRTT, 1_000_000 * (millis + 1));
            if [5, 6, 7].contains(&millis) {
                brake.on_lost(at(millis), GRTT, 3e6, 1_000_000 * (millis + 1));
            }
            assert_eq!(brake.rate(), None, "after {millis} ms");
        }
    }

    #[test]
    fn a_flood_is_slowed_to_what_the_path_takes() {
        let mut brake = Brake::default();
        overflow(&mut brake, 4e6, 0, 100);
        let start = brake.current.sent_before as f64;
        let (sent, lost) = overflow(&mut brake, 4e6, 100, 1000);
        let through = (sent - start - lost) / 10.0;
        assert!(through > 0.85 * 4e6, "{through} bytes/s come through");
        assert!(lost < 0.25 * sent, "{lost} of {sent} are lost");
    }

    #[test]
    fn random_loss_leaves_it_off() {
        let mut brake = Brake::default();
        for step in 0..1000u64 {
            brake.on_sent(at(step), GRTT, step * 100_000);
            brake.on_lost(at(step), GRTT, 30_000.0, (step + 1) * 100_000);
        }
        assert_eq!(brake.rate(), None);
    }

    #[test]
    fn what_is_asked_for_late_is_held_against_what_was_sent_early() {
        let mut brake = Brake::default();
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
        let mut brake = Brake::default();
        overflow(&mut brake, 4e6, 0, 100);
        assert!(brake.rate().is_some());
        overflow(&mut brake, f64::MAX, 100, 1000);
        assert_eq!(brake.rate(), None);
    }

    #[test]
    fn a_burst_after_a_pause_is_judged_by_itself() {
        let mut brake = Brake::default();
        brake.on_sent(at(0), GRTT, 0);
        brake.on_sent(at(60_000), GRTT, 1000);
        brake.on_lost(at(60_010), GRTT, 800_000.0, 1_001_000);
        brake.on_sent(at(60_070), GRTT, 1_002_000);
        brake.on_lost(at(60_080), GRTT, 800_000.0, 2_001_000);
        let rate = brake.rate().unwrap();
        assert!(rate > 1e7, "{rate}: a minute of silence does not count");
    }
}
