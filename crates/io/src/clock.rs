//! The engines' time, from the monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use shoal_norm::Time;

/// Starts a little after zero, because engines take zero for "never happened".
const START_NS: u64 = 1_000_000_000;

/// A clock that starts with the program's link.
#[derive(Copy, Clone, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts it.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// When it shows a time, by the system's clock.
    pub fn when(&self, time: Time) -> Option<Instant> {
        self.0.checked_add(Duration::from_nanos(time.as_nanos().saturating_sub(START_NS)))
    }

    /// What it shows then.
    pub fn at(&self, instant: Instant) -> Time {
        Time::from_nanos(START_NS + instant.saturating_duration_since(self.0).as_nanos() as u64)
    }

    /// What it shows.
    pub fn now(&self) -> Time {
        Time::from_nanos(START_NS + self.0.elapsed().as_nanos() as u64)
    }
}

impl shoal_node::hub::Clock for Clock {
    #[inline]
    fn now(&self) -> Time {
        Clock::now(self)
    }

    #[inline]
    fn wall_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
    }
}
