//! Points in time, in nanoseconds since an epoch of the caller's choosing.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time. Only differences mean anything.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The epoch.
    pub const ZERO: Time = Time(0);
    /// A point that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// The point `nanos` after the epoch.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds and microseconds, as probes carry them.
    pub(crate) const fn to_probe(self) -> (u32, u32) {
        let micros = self.0 / 1000;
        ((micros / 1_000_000) as u32, (micros % 1_000_000) as u32)
    }

    /// The inverse of [`Time::to_probe`], to the microsecond.
    pub(crate) const fn from_probe(seconds: u32, micros: u32) -> Time {
        Time((seconds as u64 * 1_000_000 + micros as u64) * 1000)
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}
