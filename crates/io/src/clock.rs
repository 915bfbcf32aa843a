//! The engines' time, from the monotonic clock.

use std::time::Instant;

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

    /// What it shows.
    pub fn now(&self) -> Time {
        Time::from_nanos(START_NS + self.0.elapsed().as_nanos() as u64)
    }
}
