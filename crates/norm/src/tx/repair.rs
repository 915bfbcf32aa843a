//! Which cached segments are to be sent again, and since when a repeated request may count.
//!
//! A request for a segment repaired less than a round-trip time ago crossed the repair on its way;
//! it is not a new loss.

use std::time::Duration;

use super::cache::filled;
use crate::effort;
use crate::time::Time;

/// When requested repairs may go out.
///
/// | state      | a request comes             | its time comes | everything is repaired |
/// |------------|-----------------------------|----------------|------------------------|
/// | Idle       | Collecting for (K + 1) GRTT |                |                        |
/// | Collecting | stays                       | Repairing      |                        |
/// | Repairing  | stays                       |                | Idle                   |
///
/// With the policy "at once" collecting takes no time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RepairGate {
    Idle,
    Collecting { until: Time },
    Repairing,
}

impl RepairGate {
    pub fn on_request(&mut self, now: Time, collect_for: Duration) {
        if *self == RepairGate::Idle {
            *self = RepairGate::Collecting { until: now + collect_for };
        }
    }

    /// Whether repairs may go now.
    pub fn open_if_due(&mut self, now: Time) -> bool {
        if let RepairGate::Collecting { until } = *self
            && until <= now
        {
            *self = RepairGate::Repairing;
        }
        *self == RepairGate::Repairing
    }

    pub fn on_all_repaired(&mut self) {
        if *self == RepairGate::Repairing {
            *self = RepairGate::Idle;
        }
    }

    pub fn deadline(&self) -> Time {
        match *self {
            RepairGate::Collecting { until } => until,
            RepairGate::Idle | RepairGate::Repairing => Time::NEVER,
        }
    }
}

/// Requested repairs of one stream, one bit per cache slot.
#[derive(Debug)]
pub struct RepairQueue {
    bits: Vec<u64>,
    repaired_at: Vec<Time>,
    mask: u64,
    /// No request is for a segment before this one.
    low: u64,
    pending: usize,
}

impl RepairQueue {
    /// For a cache of `slots`, which is a power of two and at least 64.
    /// For a cache of so many slots; `None` if there is no memory for it.
    pub fn new(slots: usize) -> Option<RepairQueue> {
        debug_assert!(slots.is_power_of_two() && slots >= 64);
        Some(RepairQueue {
            bits: filled(slots / 64, 0)?,
            repaired_at: filled(slots, Time::ZERO)?,
            mask: slots as u64 - 1,
            low: 0,
            pending: 0,
        })
    }

    /// Makes room for a cache of so many slots, with the segments from `first` to `head`. False if there is no memory for
    /// it.
    pub fn grow(&mut self, slots: usize, first: u64, head: u64) -> bool {
        let Some(mut grown) = RepairQueue::new(slots) else { return false };
        for segment in first..head {
            let (word, bit) = grown.place(segment);
            grown.bits[word] |= if self.is_pending(segment) { bit } else { 0 };
            grown.repaired_at[(segment & grown.mask) as usize] =
                self.repaired_at[(segment & self.mask) as usize];
        }
        (self.bits, self.repaired_at, self.mask) = (grown.bits, grown.repaired_at, grown.mask);
        true
    }

    fn place(&self, segment: u64) -> (usize, u64) {
        let slot = segment & self.mask;
        ((slot / 64) as usize, 1 << (slot % 64))
    }

    pub fn is_empty(&self) -> bool {
        self.pending == 0
    }

    pub fn is_pending(&self, segment: u64) -> bool {
        let (word, bit) = self.place(segment);
        self.bits[word] & bit != 0
    }

    /// Asks for a repair; true if it was not asked for already.
    pub fn request(&mut self, segment: u64, now: Time, hold_off: Duration) -> bool {
        let (word, bit) = self.place(segment);
        let repaired_at = self.repaired_at[(segment & self.mask) as usize];
        if self.bits[word] & bit != 0 || (repaired_at != Time::ZERO && now.since(repaired_at) < hold_off) {
            return false;
        }
        self.bits[word] |= bit;
        self.low = if self.pending == 0 { segment } else { self.low.min(segment) };
        self.pending += 1;
        true
    }

    /// Every request before `end`, oldest first.
    pub fn pending(&self, end: u64) -> impl Iterator<Item = u64> + '_ {
        self.pending_from(0, end)
    }

    /// Every request before `end` that is not before `from`.
    pub fn pending_from(&self, from: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        let from = if self.pending == 0 { end } else { self.low.max(from) };
        (from..end).inspect(|_| effort::step()).filter(|segment| self.is_pending(*segment))
    }

    /// Finds the oldest request before `end`, and looks no more before it from now on.
    pub fn seek(&mut self, end: u64) -> Option<u64> {
        let found = self.first_from(0, end);
        self.low = found.unwrap_or(self.low);
        found
    }

    /// The oldest request before `end` that is not before `from`.
    pub fn first_from(&self, from: u64, end: u64) -> Option<u64> {
        if self.pending == 0 {
            return None;
        }
        let mut segment = from.max(self.low);
        while segment < end {
            effort::step();
            let (word, _) = self.place(segment);
            let ahead = self.bits[word] >> (segment % 64);
            if ahead != 0 {
                let found = segment + u64::from(ahead.trailing_zeros());
                return (found < end).then_some(found);
            }
            segment = (segment / 64 + 1) * 64;
        }
        None
    }

    /// The repair is sent.
    pub fn repaired(&mut self, segment: u64, now: Time) {
        self.clear(segment);
        self.repaired_at[(segment & self.mask) as usize] = now;
    }

    /// The slot gets a new segment.
    pub fn recycle(&mut self, segment: u64) {
        self.clear(segment);
        self.repaired_at[(segment & self.mask) as usize] = Time::ZERO;
    }

    fn clear(&mut self, segment: u64) {
        let (word, bit) = self.place(segment);
        if self.bits[word] & bit != 0 {
            self.bits[word] &= !bit;
            self.pending -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRTT: Duration = Duration::from_millis(1);

    #[test]
    fn requests_come_out_oldest_first_across_the_cache_wrap() {
        let mut queue = RepairQueue::new(64).unwrap();
        let now = Time::from_nanos(1);
        for segment in [70, 63, 100, 65] {
            assert!(queue.request(segment, now, GRTT));
        }
        let mut order = Vec::new();
        while let Some(segment) = queue.first_from(0, 101) {
            queue.repaired(segment, now);
            order.push(segment);
        }
        assert_eq!(order, [63, 65, 70, 100]);
        assert!(queue.is_empty());
    }

    #[test]
    fn requests_stay_when_the_cache_gets_more_slots() {
        let mut queue = RepairQueue::new(64).unwrap();
        let now = Time::from_nanos(1);
        queue.repaired(99, now);
        for segment in [70, 63, 100] {
            assert!(queue.request(segment, now, GRTT));
        }
        queue.grow(128, 60, 124);
        assert!(queue.pending(124).eq([63, 70, 100]));
        assert!(!queue.request(99, now, GRTT), "it was repaired a moment ago");
        assert!(queue.request(99 - 64, now, GRTT), "this one was not");
    }

    #[test]
    fn what_is_needed_most_can_be_found_behind_what_is_older() {
        let mut queue = RepairQueue::new(64).unwrap();
        for segment in [40, 70, 90] {
            queue.request(segment, Time::from_nanos(1), GRTT);
        }
        assert_eq!(queue.first_from(60, 95), Some(70));
        assert_eq!(queue.first_from(71, 90), None);
        assert_eq!(queue.first_from(0, 95), Some(40), "the older one is not forgotten");
    }

    #[test]
    fn a_request_that_crossed_its_repair_does_not_count() {
        let mut queue = RepairQueue::new(64).unwrap();
        let now = Time::from_nanos(10);
        assert!(queue.request(5, now, GRTT));
        assert!(!queue.request(5, now, GRTT));
        queue.repaired(5, now);
        assert!(!queue.request(5, now + GRTT / 2, GRTT));
        assert!(queue.request(5, now + GRTT, GRTT));
    }
}
