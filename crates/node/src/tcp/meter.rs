//! How fast something goes.

use std::time::Duration;

use shoal_norm::Time;

/// A rate is taken over so long.
const SPAN: Duration = Duration::from_secs(1);

/// Counts, and tells how much that is in a second.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Meter {
    /// All there ever was.
    pub total: u64,
    /// When the present span began, and the total by then.
    began: Option<(Time, u64)>,
    /// In a second of the span before.
    last: f64,
}

impl Meter {
    pub fn add(&mut self, now: Time, count: usize) {
        let (began, before) = *self.began.get_or_insert((now, self.total));
        self.total += count as u64;
        let span = now.since(began);
        if span >= SPAN {
            self.last = (self.total - before) as f64 / span.as_secs_f64();
            self.began = Some((now, self.total));
        }
    }

    /// In a second: of the last span, unless that was long ago.
    pub fn rate(&self, now: Time) -> f64 {
        let Some((began, before)) = self.began else { return 0.0 };
        let span = now.since(began);
        if span < SPAN { self.last } else { (self.total - before) as f64 / span.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_second_and_fades_when_nothing_comes() {
        let at = |millis: u64| Time::from_nanos(1_000_000_000 + millis * 1_000_000);
        let mut meter = Meter::default();
        assert_eq!(meter.rate(at(0)), 0.0);
        for millis in 0..=1000 {
            meter.add(at(millis), 5);
        }
        assert_eq!((meter.total, meter.rate(at(1001))), (5005, 5005.0));
        assert_eq!(meter.rate(at(3000)), 0.0);
    }
}
