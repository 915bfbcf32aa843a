//! The least and the greatest of what was measured lately.

use std::time::Duration;

use crate::time::Time;

/// How long a measurement is remembered, at the least; twice as long at the most.
const MEMORY: Duration = Duration::from_secs(10);

/// One extreme of a duration: of the current stretch of time, and of the one before it.
#[derive(Copy, Clone, Debug, Default)]
struct Stretches {
    since: Time,
    current: Option<Duration>,
    previous: Option<Duration>,
}

impl Stretches {
    fn add(&mut self, now: Time, measured: Duration, better: fn(Duration, Duration) -> Duration) {
        if now.since(self.since) >= MEMORY {
            (self.since, self.previous, self.current) = (now, self.current, None);
        }
        self.current = Some(self.current.map_or(measured, |known| better(known, measured)));
    }

    fn get(&self, better: fn(Duration, Duration) -> Duration) -> Option<Duration> {
        match (self.current, self.previous) {
            (Some(current), Some(previous)) => Some(better(current, previous)),
            (current, previous) => current.or(previous),
        }
    }
}

/// The shortest one of late.
#[derive(Copy, Clone, Debug, Default)]
pub struct Shortest(Stretches);

impl Shortest {
    pub fn add(&mut self, now: Time, measured: Duration) {
        self.0.add(now, measured, Duration::min);
    }

    pub fn get(&self) -> Option<Duration> {
        self.0.get(Duration::min)
    }
}

/// The longest one of late.
#[derive(Copy, Clone, Debug, Default)]
pub struct Longest(Stretches);

impl Longest {
    pub fn add(&mut self, now: Time, measured: Duration) {
        self.0.add(now, measured, Duration::max);
    }

    pub fn get(&self) -> Option<Duration> {
        self.0.get(Duration::max)
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
        let (mut shortest, mut longest) = (Shortest::default(), Longest::default());
        assert_eq!((shortest.get(), longest.get()), (None, None));
        shortest.add(at(0), MILLI);
        longest.add(at(0), 9 * MILLI);
        for second in 1..=10 {
            shortest.add(at(second), 5 * MILLI);
            longest.add(at(second), 5 * MILLI);
            assert_eq!((shortest.get(), longest.get()), (Some(MILLI), Some(9 * MILLI)), "second {second}");
        }
        for second in 11..=20 {
            shortest.add(at(second), 5 * MILLI);
            longest.add(at(second), 5 * MILLI);
        }
        assert_eq!((shortest.get(), longest.get()), (Some(5 * MILLI), Some(5 * MILLI)));
    }
}
