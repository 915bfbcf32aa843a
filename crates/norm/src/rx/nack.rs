//! The NACK cycle of one receiver towards one sender (RFC 5740 section 5.3).
//!
//! | state    | a loss is found       | its time comes, something is missing | its time comes, nothing is |
//! |----------|-----------------------|--------------------------------------|----------------------------|
//! | Idle     | Backoff, a random time|                                      |                            |
//! | Backoff  | stays                 | NACK, unless others asked; HoldOff   | Idle                       |
//! | HoldOff  | stays                 | Backoff, a random time               | Idle                       |
//!
//! | GivenUp  | stays                 |                                      |                            |
//!
//! A round-trip time that falls shortens the waiting that has begun: a sender that starts slowly advertises seconds, and
//! milliseconds soon after.
//!
//! The back-off lets the few that draw a short time speak for all; the hold-off gives the sender
//! time to answer before the question is repeated. A sender of which nothing is heard any more, though it was
//! asked as often as the robust factor says, is asked ever more rarely, as often once more, and then not until it is
//! heard: it may be gone.

use std::time::Duration;

use fastrand::Rng;

use crate::backoff;
use crate::time::Time;

/// The interval at which a silent sender is asked is doubled so often at the most.
const DOUBLINGS_MAX: u32 = 16;

/// In a group of more than so many, requests are spread over at least so much time for each receiver: a host needs that
/// long to hear another's.
const SMALL_GROUP_MAX: f64 = 10.0;
const SPREAD: Duration = Duration::from_micros(100);

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Backoff { until: Time },
    HoldOff { until: Time },
    GivenUp,
}

/// What a sender advertises about its group, which decides all waiting times.
#[derive(Copy, Clone, Debug, Default)]
pub struct GroupTiming {
    pub grtt: Duration,
    /// K
    pub backoff_factor: u32,
    pub group_size: f64,
    /// How many nodes we see ourselves: some senders advertise a large group whatever its size.
    pub seen: f64,
    /// How late we hear.
    pub lag: Duration,
}

impl GroupTiming {
    /// A random time before feedback.
    pub fn backoff(&self, random: &mut Rng) -> Duration {
        backoff::draw(random, self.longest_backoff(), self.group_size)
    }

    /// However short round trips are, in a large group it takes time until one receiver's request was heard by all.
    fn longest_backoff(&self) -> Duration {
        let nodes = self.group_size.min(self.seen);
        let spread = if self.is_large() { SPREAD.mul_f64(nodes).max(self.lag) } else { Duration::ZERO };
        (self.grtt * self.backoff_factor).max(spread)
    }

    /// Whether so many receivers listen that they must not all ask at once.
    pub fn is_large(&self) -> bool {
        self.group_size.min(self.seen) > SMALL_GROUP_MAX
    }

    fn hold_off(&self) -> Duration {
        self.longest_backoff() + 2 * if self.is_large() { self.grtt.max(self.lag) } else { self.grtt }
    }
}

#[derive(Debug)]
pub struct NackCycle {
    state: State,
    /// Counts cycles, never 0: requests overheard in another cycle do not suppress.
    pub number: u16,
    /// How often the sender was asked since it was heard.
    unheard: u32,
    /// It was asked in vain, and is asked more rarely than usual, or not at all.
    discouraged: bool,
}

impl NackCycle {
    pub fn new() -> NackCycle {
        NackCycle { state: State::Idle, number: 1, unheard: 0, discouraged: false }
    }

    /// Whether requests of others can still make ours needless.
    pub fn is_backing_off(&self) -> bool {
        matches!(self.state, State::Backoff { .. })
    }

    pub fn deadline(&self) -> Time {
        match self.state {
            State::Idle | State::GivenUp => Time::NEVER,
            State::Backoff { until } | State::HoldOff { until } => until,
        }
    }

    /// The sender said something: it is there, and is asked as usual.
    pub fn on_heard(&mut self, now: Time) {
        self.unheard = 0;
        if std::mem::take(&mut self.discouraged) {
            self.state = State::HoldOff { until: now };
        }
    }

    /// The sender advertises another round-trip time than `before`. A back-off shrinks in proportion, so that those of
    /// many receivers stay apart.
    pub fn on_timing(&mut self, now: Time, before: Duration, timing: &GroupTiming) {
        match &mut self.state {
            State::Backoff { until } if timing.grtt < before => {
                *until = now + until.since(now).mul_f64(timing.grtt.as_secs_f64() / before.as_secs_f64());
            }
            State::HoldOff { until } => *until = (*until).min(now + timing.hold_off()),
            State::Idle | State::Backoff { .. } | State::GivenUp => {}
        }
    }

    /// A segment is missing.
    pub fn on_loss(&mut self, now: Time, timing: &GroupTiming, random: &mut Rng) {
        if self.state == State::Idle {
            self.begin(now, timing, random);
        }
    }

    fn begin(&mut self, now: Time, timing: &GroupTiming, random: &mut Rng) {
        self.number = if self.number == u16::MAX { 1 } else { self.number + 1 };
        self.state = State::Backoff { until: now + timing.backoff(random) };
    }

    /// We asked others a moment ago: this sender is asked no sooner than that.
    pub fn postpone(&mut self, until: Time) {
        if let State::Backoff { until: at } | State::HoldOff { until: at } = &mut self.state {
            *at = (*at).max(until);
        }
    }

    /// Moves on if the time has come. True if it is time to ask for what is `missing`, unless others did: say so with
    /// [`NackCycle::on_asked`].
    pub fn poll(&mut self, now: Time, missing: bool, timing: &GroupTiming, random: &mut Rng) -> bool {
        if self.deadline() > now {
            return false;
        }
        match self.state {
            _ if !missing => self.state = State::Idle,
            State::Idle | State::GivenUp => {}
            State::HoldOff { .. } => {
                self.begin(now, timing, random);
                return self.deadline() <= now;
            }
            State::Backoff { .. } => return true,
        }
        false
    }

    /// Somebody asked: we, or others for us. A sender that stays silent is asked `times` times, and as often again
    /// at doubled intervals.
    pub fn on_asked(&mut self, now: Time, timing: &GroupTiming, times: u32) {
        self.unheard += 1;
        let doublings = self.unheard.saturating_sub(times);
        self.discouraged = doublings > 0;
        self.state = if doublings >= times {
            State::GivenUp
        } else {
            let patience = timing.hold_off().saturating_mul(1 << doublings.min(DOUBLINGS_MAX));
            State::HoldOff { until: now + patience }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: GroupTiming = GroupTiming {
        grtt: Duration::from_millis(10),
        backoff_factor: 4,
        group_size: 10.0,
        seen: 1.0,
        lag: Duration::ZERO,
    };

    #[test]
    fn asks_after_the_back_off_and_again_only_after_the_hold_off() {
        let mut random = Rng::with_seed(3);
        let mut cycle = NackCycle::new();
        let start = Time::from_nanos(1_000);
        cycle.on_loss(start, &TIMING, &mut random);
        let ask_at = cycle.deadline();
        assert!(ask_at <= start + Duration::from_millis(40));
        assert!(cycle.poll(ask_at, true, &TIMING, &mut random));
        cycle.on_asked(ask_at, &TIMING, 20);
        assert_eq!(cycle.deadline(), ask_at + Duration::from_millis(60));
        cycle.on_loss(ask_at, &TIMING, &mut random);
        assert_eq!(cycle.deadline(), ask_at + Duration::from_millis(60));
        let number = cycle.number;
        cycle.poll(ask_at + Duration::from_millis(60), true, &TIMING, &mut random);
        assert_ne!(cycle.number, number);
    }

    #[test]
    fn waiting_follows_a_round_trip_time_that_falls_but_none_that_rises() {
        let slow = GroupTiming { grtt: Duration::from_secs(1), ..TIMING };
        let mut cycle = NackCycle::new();
        cycle.on_loss(Time::ZERO, &slow, &mut Rng::with_seed(3));
        let left = cycle.deadline().since(Time::ZERO);
        cycle.on_timing(Time::ZERO, slow.grtt, &TIMING);
        assert_eq!(cycle.deadline(), Time::ZERO + left / 100);
        cycle.on_timing(Time::ZERO, TIMING.grtt, &slow);
        assert_eq!(cycle.deadline(), Time::ZERO + left / 100);

        cycle.on_asked(Time::ZERO, &slow, 20);
        let now = Time::ZERO + Duration::from_secs(2);
        cycle.on_timing(now, slow.grtt, &TIMING);
        assert_eq!(cycle.deadline(), now + TIMING.hold_off());
        cycle.on_timing(now, TIMING.grtt, &slow);
        assert_eq!(cycle.deadline(), now + TIMING.hold_off());
    }

    #[test]
    fn a_sender_that_stays_silent_is_asked_for_a_bounded_number_of_times_and_again_once_it_is_heard() {
        let mut random = Rng::with_seed(3);
        let mut cycle = NackCycle::new();
        let mut asked = 0;
        let mut ask_all = |cycle: &mut NackCycle| {
            while cycle.deadline() < Time::NEVER {
                let now = cycle.deadline();
                if cycle.poll(now, true, &TIMING, &mut random) {
                    cycle.on_asked(now, &TIMING, 20);
                    asked += 1;
                }
            }
            asked
        };
        cycle.on_loss(Time::ZERO, &TIMING, &mut Rng::with_seed(4));
        assert_eq!(ask_all(&mut cycle), 40);
        cycle.on_loss(Time::from_nanos(1 << 40), &TIMING, &mut Rng::with_seed(5));
        assert_eq!(ask_all(&mut cycle), 40, "nothing was heard");
        cycle.on_heard(Time::from_nanos(1 << 41));
        assert_eq!(ask_all(&mut cycle), 80);
    }

    #[test]
    fn in_a_large_group_requests_are_spread_however_short_round_trips_are() {
        let mut random = Rng::with_seed(3);
        let grtt = Duration::from_micros(100);
        let mut timing = GroupTiming { grtt, backoff_factor: 0, group_size: 500.0, seen: 2.0, ..TIMING };
        assert_eq!(timing.backoff(&mut random), Duration::ZERO, "only the sender says that it is large");
        timing.seen = 500.0;
        let drawn: Vec<Duration> = (0..1000).map(|_| timing.backoff(&mut random)).collect();
        assert!(drawn.iter().all(|drawn| *drawn <= Duration::from_millis(50)));
        let early = drawn.iter().filter(|drawn| **drawn < Duration::from_millis(10)).count();
        assert!((1..100).contains(&early), "{early} of a thousand ask early");
    }

    #[test]
    fn whoever_hears_late_in_a_large_group_asks_later_and_waits_longer_for_an_answer() {
        let grtt = Duration::from_micros(100);
        let prompt = GroupTiming { grtt, backoff_factor: 0, group_size: 500.0, seen: 300.0, ..TIMING };
        let late = GroupTiming { lag: Duration::from_millis(400), ..prompt };
        assert_eq!(late.longest_backoff(), late.lag);
        assert_eq!(late.hold_off(), 3 * late.lag);
        assert!(prompt.hold_off() < Duration::from_millis(31));
        let small = GroupTiming { seen: 3.0, ..late };
        assert_eq!(small.hold_off(), 2 * grtt, "few cannot flood each other");
    }

    #[test]
    fn rests_when_nothing_is_missing_any_more() {
        let mut random = Rng::with_seed(3);
        let mut cycle = NackCycle::new();
        cycle.on_loss(Time::ZERO, &TIMING, &mut random);
        let due = cycle.poll(cycle.deadline(), false, &TIMING, &mut random);
        assert_eq!((due, cycle.deadline()), (false, Time::NEVER));
    }

    #[test]
    fn without_a_back_off_factor_it_asks_at_once() {
        let mut random = Rng::with_seed(3);
        let timing = GroupTiming { backoff_factor: 0, ..TIMING };
        let mut cycle = NackCycle::new();
        cycle.on_loss(Time::ZERO, &timing, &mut random);
        assert!(cycle.poll(Time::ZERO, true, &timing, &mut random));
    }
}
