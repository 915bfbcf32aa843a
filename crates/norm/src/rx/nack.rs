//! The NACK cycle of one receiver towards one sender (RFC 5740 section 5.3).
//!
//! | state    | a loss is found       | its time comes, something is missing | its time comes, nothing is |
//! |----------|-----------------------|--------------------------------------|----------------------------|
//! | Idle     | Backoff, a random time|                                      |                            |
//! | Backoff  | stays                 | NACK, unless others asked; HoldOff   | Idle                       |
//! | HoldOff  | stays                 | Backoff, a random time               | Idle                       |
//!
//! The back-off lets the few that draw a short time speak for all; the hold-off gives the sender
//! time to answer before the question is repeated.

use std::time::Duration;

use crate::backoff;
use crate::time::Time;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Backoff { until: Time },
    HoldOff { until: Time },
}

/// What a sender advertises about its group, which decides all waiting times.
#[derive(Copy, Clone, Debug)]
pub struct GroupTiming {
    pub grtt: Duration,
    /// K
    pub backoff_factor: u32,
    pub group_size: f64,
}

impl GroupTiming {
    /// A random time before feedback.
    pub fn backoff(&self, random: &mut fastrand::Rng) -> Duration {
        backoff::draw(random, self.grtt * self.backoff_factor, self.group_size)
    }

    fn hold_off(&self) -> Duration {
        self.grtt * (self.backoff_factor + 2)
    }
}

/// What to do now.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Due {
    Nothing,
    /// Ask for what is missing, unless others did, and say so with [`NackCycle::on_asked`].
    Ask,
}

/// The cycle.
#[derive(Debug)]
pub struct NackCycle {
    state: State,
    /// Counts cycles, never 0: requests overheard in another cycle do not suppress.
    number: u16,
}

impl NackCycle {
    pub fn new() -> NackCycle {
        NackCycle { state: State::Idle, number: 1 }
    }

    /// The cycle's number, for marking what others asked for.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Whether requests of others can still make ours needless.
    pub fn is_backing_off(&self) -> bool {
        matches!(self.state, State::Backoff { .. })
    }

    pub fn deadline(&self) -> Time {
        match self.state {
            State::Idle => Time::NEVER,
            State::Backoff { until } | State::HoldOff { until } => until,
        }
    }

    /// A segment is missing.
    pub fn on_loss(&mut self, now: Time, timing: &GroupTiming, random: &mut fastrand::Rng) {
        if self.state == State::Idle {
            self.begin(now, timing, random);
        }
    }

    fn begin(&mut self, now: Time, timing: &GroupTiming, random: &mut fastrand::Rng) {
        self.number = if self.number == u16::MAX { 1 } else { self.number + 1 };
        self.state = State::Backoff { until: now + timing.backoff(random) };
    }

    /// Moves on if the time has come.
    pub fn poll(
        &mut self,
        now: Time,
        missing: bool,
        timing: &GroupTiming,
        random: &mut fastrand::Rng,
    ) -> Due {
        if self.deadline() > now {
            return Due::Nothing;
        }
        match self.state {
            _ if !missing => self.state = State::Idle,
            State::Idle => {}
            State::HoldOff { .. } => {
                self.begin(now, timing, random);
                if self.deadline() <= now {
                    return Due::Ask;
                }
            }
            State::Backoff { .. } => return Due::Ask,
        }
        Due::Nothing
    }

    /// Somebody asked: we, or others for us.
    pub fn on_asked(&mut self, now: Time, timing: &GroupTiming) {
        self.state = State::HoldOff { until: now + timing.hold_off() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: GroupTiming =
        GroupTiming { grtt: Duration::from_millis(10), backoff_factor: 4, group_size: 10.0 };

    #[test]
    fn asks_after_the_back_off_and_again_only_after_the_hold_off() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut cycle = NackCycle::new();
        let start = Time::from_nanos(1_000);
        cycle.on_loss(start, &TIMING, &mut random);
        let ask_at = cycle.deadline();
        assert!(ask_at <= start + Duration::from_millis(40));
        assert_eq!(cycle.poll(ask_at, true, &TIMING, &mut random), Due::Ask);
        cycle.on_asked(ask_at, &TIMING);
        assert_eq!(cycle.deadline(), ask_at + Duration::from_millis(60));
        cycle.on_loss(ask_at, &TIMING, &mut random);
        assert_eq!(cycle.deadline(), ask_at + Duration::from_millis(60));
        let number = cycle.number();
        cycle.poll(ask_at + Duration::from_millis(60), true, &TIMING, &mut random);
        assert_ne!(cycle.number(), number);
    }

    #[test]
    fn rests_when_nothing_is_missing_any_more() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut cycle = NackCycle::new();
        cycle.on_loss(Time::ZERO, &TIMING, &mut random);
        let due = cycle.poll(cycle.deadline(), false, &TIMING, &mut random);
        assert_eq!((due, cycle.deadline()), (Due::Nothing, Time::NEVER));
    }

    #[test]
    fn without_a_back_off_factor_it_asks_at_once() {
        let mut random = fastrand::Rng::with_seed(3);
        let timing = GroupTiming { backoff_factor: 0, ..TIMING };
        let mut cycle = NackCycle::new();
        cycle.on_loss(Time::ZERO, &timing, &mut random);
        assert_eq!(cycle.poll(Time::ZERO, true, &timing, &mut random), Due::Ask);
    }
}
