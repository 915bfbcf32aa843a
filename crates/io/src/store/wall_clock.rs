//! The wall's clock as a store follows it: when somebody sets that back, time goes on here.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that never goes back, and never stands still: a delay of three seconds takes three, though the wall's clock
/// was set back an hour. When that one is ahead, after a suspend or because it was set right, it is followed.
#[derive(Debug)]
pub(super) struct WallClock {
    at: Instant,
    us: u64,
}

impl WallClock {
    pub fn new() -> WallClock {
        WallClock { at: Instant::now(), us: wall_us() }
    }

    /// Microseconds since 1970.
    pub fn now_us(&mut self) -> u64 {
        let now = Instant::now();
        let passed = now.duration_since(self.at);
        self.at = now;
        self.advance(passed, wall_us())
    }

    fn advance(&mut self, passed: Duration, wall_us: u64) -> u64 {
        self.us = (self.us + passed.as_micros() as u64).max(wall_us);
        self.us
    }
}

fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    #[test]
    fn time_goes_on_while_the_walls_clock_is_set_back_and_follows_it_ahead() {
        let start = 10_000 * SECOND_US;
        let mut clock = WallClock { at: Instant::now(), us: start };
        let second = Duration::from_secs(1);
        assert_eq!(clock.advance(second, start + SECOND_US), start + SECOND_US);
        let hour_back = start - 3600 * SECOND_US;
        assert_eq!(clock.advance(second, hour_back), start + 2 * SECOND_US);
        assert_eq!(clock.advance(3 * second, hour_back + 3 * SECOND_US), start + 5 * SECOND_US);
        assert_eq!(clock.advance(second, start + 60 * SECOND_US), start + 60 * SECOND_US, "a suspend");
    }
}
