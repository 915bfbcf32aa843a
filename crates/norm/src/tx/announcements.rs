//! The announcements of the last segment, after which receivers know whether they lost it.

use crate::time::Time;

/// When a stream, or the objects of a sender, are announced.
#[derive(Debug, Default)]
pub struct Announcements {
    /// To be said so often still, the next time then.
    left: u32,
    at: Time,
    /// To be said once more after that, for whoever was out of reach.
    again_at: Option<Time>,
}

impl Announcements {
    /// Something was sent: it is announced so often from then on.
    pub fn begin(&mut self, at: Time, times: u32) {
        (self.at, self.left) = (at, times);
    }

    /// Announces once more, though that was done often enough.
    pub fn remind(&mut self, now: Time) {
        self.again_at = Some(now);
    }

    /// It was announced; if that has to be done again, not before `next`.
    pub fn on_said(&mut self, next: Time) {
        (self.at, self.left, self.again_at) = (next, self.left.saturating_sub(1), None);
    }

    /// Everybody has it.
    pub fn stop(&mut self) {
        self.left = 0;
    }

    /// When to announce next.
    pub fn next(&self) -> Time {
        if self.left > 0 { self.at } else { self.again_at.unwrap_or(Time::NEVER) }
    }

    /// Whether it was done as often as it had to be, reminders left aside.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Whether nothing is to be announced.
    pub fn is_over(&self) -> bool {
        self.is_done() && self.again_at.is_none()
    }
}
