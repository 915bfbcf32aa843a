//! The least and the greatest of what was measured lately.

use std::time::Duration;

use crate::time::Time;

/// How long a measurement is remembered, at the least; twice as long at the most.
const MEMORY: Duration = Duration::from_secs(10);

/// Which of two measurements is the one to remember: the shorter or the longer.
type Better = fn(Duration, Duration) -> Duration;

/// One extreme of a duration: of the current stretch of time, and of the one before it.
#[derive(Copy, Clone, Debug, Default)]
pub struct Extreme {
    since: Time,
    current: Option<Duration>,
    previous: Option<Duration>,
}

impl Extreme {
    pub fn add(&mut self, now: Time, measured: Duration, better: Better) {
        if now.since(self.since) >= MEMORY {
            (self.since, self.previous, self.current) = (now, self.current, None);
        }
        self.current = self.current.into_iter().chain([measured]).reduce(better);
    }

    pub fn get(&self, better: Better) -> Option<Duration> {
        self.current.into_iter().chain(self.previous).reduce(better)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn at(seconds: u64) -> Time {
        Time::from_nanos((100 + seconds) * 1_000_000_000)
    }

    #[test]
    fn an_extreme_is_remembered_for_ten_to_twenty_seconds() {
        let (mut shortest, mut longest) = (Extreme::default(), Extreme::default());
        assert_eq!((shortest.get(Duration::min), longest.get(Duration::max)), (None, None));
        shortest.add(at(0), MILLI, Duration::min);
        longest.add(at(0), 9 * MILLI, Duration::max);
        for second in 1..=10 {
            shortest.add(at(second), 5 * MILLI, Duration::min);
            longest.add(at(second), 5 * MILLI, Duration::max);
            assert_eq!(
                (shortest.get(Duration::min), longest.get(Duration::max)),
                (Some(MILLI), Some(9 * MILLI)),
                "second {second}"
            );
        }
        for second in 11..=20 {
            shortest.add(at(second), 5 * MILLI, Duration::min);
            longest.add(at(second), 5 * MILLI, Duration::max);
        }
        assert_eq!(
            (shortest.get(Duration::min), longest.get(Duration::max)),
            (Some(5 * MILLI), Some(5 * MILLI))
        );
    }
}
