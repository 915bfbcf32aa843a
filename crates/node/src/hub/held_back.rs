//! Messages with a delivery delay that a reader holds back until their delivery time.
//!
//! The delivery time of a message is when it was published, as far as its reader knows, and its delay. Messages of one
//! publisher and chain with the same delay keep their order, though what is known of their ages differs a little.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use shoal_norm::Time;

/// What a message costs beside its bytes.
const ENTRY_BYTES: usize = 96;
/// Keys whose last delivery time is over are forgotten when there are more than this and than there are messages.
const KEYS_MIN: usize = 1024;

/// Messages that keep their order: publisher, chain, delay.
pub type Order = (u64, u32, Duration);

struct Held<T> {
    due: Time,
    number: u64,
    expires: Time,
    cost: usize,
    item: T,
}

impl<T> Held<T> {
    fn turn(&self) -> (Time, u64) {
        (self.due, self.number)
    }
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        self.turn() == other.turn()
    }
}

impl<T> Eq for Held<T> {}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Held<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.turn().cmp(&other.turn())
    }
}

/// What a reader holds back.
pub struct HeldBack<T> {
    heap: BinaryHeap<Reverse<Held<T>>>,
    bytes: usize,
    bytes_max: usize,
    next: u64,
    /// The last delivery time of those that keep their order.
    last: HashMap<Order, Time>,
}

impl<T> HeldBack<T> {
    /// Holds back messages until they have so many bytes.
    pub fn new(bytes_max: usize) -> HeldBack<T> {
        HeldBack { heap: BinaryHeap::new(), bytes: 0, bytes_max, next: 0, last: HashMap::new() }
    }

    // --- getters ---

    /// Whether it takes no more: its reader leaves the rest where it is.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// When the next message is due.
    pub fn next_due(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(held)| held.due)
    }

    // --- commands ---

    /// Holds a message of `bytes` back that was published at `born`, and that may live for `ttl` from then on.
    pub fn hold(
        &mut self,
        now: Time,
        born: Time,
        order: Order,
        ttl: Option<Duration>,
        bytes: usize,
        item: T,
    ) {
        let due = born + order.2;
        if self.last.len() >= KEYS_MIN && self.last.len() > self.heap.len() {
            self.last.retain(|_, last| *last > now);
        }
        let last = self.last.entry(order).or_insert(due);
        *last = due.max(*last);
        let cost = bytes + ENTRY_BYTES;
        let expires = ttl.map_or(Time::NEVER, |ttl| born + ttl);
        self.heap.push(Reverse(Held { due: *last, number: self.next, expires, cost, item }));
        self.bytes += cost;
        self.next += 1;
    }

    /// The next message that is due at `by` and does not expire before `now`, and how long it lives from now on.
    pub fn take(&mut self, by: Time, now: Time) -> Option<(T, Duration)> {
        while self.next_due().is_some_and(|due| due <= by) {
            let Reverse(held) = self.heap.pop()?;
            self.bytes -= held.cost;
            if self.heap.is_empty() {
                self.last.clear();
            }
            if held.expires > now {
                return Some((held.item, held.expires.since(now)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Time {
        Time::ZERO + MS * ms
    }

    fn order(delay_ms: u32) -> Order {
        (7, 2, MS * delay_ms)
    }

    fn held_back() -> HeldBack<&'static str> {
        HeldBack::new(1 << 20)
    }

    fn take<T>(held: &mut HeldBack<T>, now: Time) -> Option<T> {
        held.take(now, now).map(|(item, _)| item)
    }

    #[test]
    fn messages_come_in_the_order_of_their_delivery_times_and_none_before() {
        let mut held = held_back();
        held.hold(at(0), at(0), order(30), None, 10, "late");
        held.hold(at(1), at(1), order(10), None, 10, "soon");
        assert_eq!(held.next_due(), Some(at(11)));
        assert_eq!(take(&mut held, at(10)), None);
        assert_eq!(take(&mut held, at(11)), Some("soon"));
        assert_eq!(take(&mut held, at(29)), None);
        assert_eq!(take(&mut held, at(30)), Some("late"));
        assert_eq!(held.next_due(), None);
    }

    #[test]
    fn messages_of_one_publisher_with_the_same_delay_keep_their_order() {
        let mut held = held_back();
        held.hold(at(5), at(5), order(10), None, 10, "first");
        // It is known to be older than it can be.
        held.hold(at(6), at(3), order(10), None, 10, "second");
        held.hold(at(6), at(3), (8, 2, MS * 10), None, 10, "of another publisher");
        assert_eq!(take(&mut held, at(13)), Some("of another publisher"));
        assert_eq!(take(&mut held, at(14)), None);
        assert_eq!([take(&mut held, at(15)), take(&mut held, at(15))], [Some("first"), Some("second")]);
    }

    #[test]
    fn a_message_that_expires_before_its_delivery_time_never_comes() {
        let mut held = held_back();
        held.hold(at(0), at(0), order(10), Some(MS * 10), 10, "expires as it is due");
        held.hold(at(0), at(0), order(10), Some(MS * 15), 10, "lives longer");
        assert_eq!(take(&mut held, at(12)), Some("lives longer"));
        assert_eq!(take(&mut held, at(12)), None);
    }

    #[test]
    fn a_message_that_was_due_in_time_and_expired_since_never_comes() {
        let mut held = held_back();
        held.hold(at(0), at(0), order(10), Some(MS * 20), 10, "expired before anybody read");
        held.hold(at(0), at(0), order(10), Some(MS * 60), 10, "lives on");
        assert_eq!(held.take(at(15), at(50)), Some(("lives on", MS * 10)));
        assert_eq!(held.take(at(15), at(50)), None);
    }

    #[test]
    fn it_is_full_at_its_bound_and_takes_more_when_some_went() {
        let mut held = HeldBack::new(300);
        for born in 0..2 {
            assert!(!held.is_full());
            held.hold(at(born), at(born), order(10), None, 100, born);
        }
        assert!(held.is_full());
        assert_eq!(take(&mut held, at(10)), Some(0));
        assert!(!held.is_full());
    }

    #[test]
    fn what_it_remembers_of_orders_is_bounded() {
        let mut held = held_back();
        held.hold(at(0), at(0), order(1_000_000), None, 1, "stays");
        for ms in 1..10_000 {
            held.hold(at(ms), at(ms), (u64::from(ms), 0, MS), None, 1, "goes");
            assert!(take(&mut held, at(ms + 1)).is_some());
        }
        assert!(held.last.len() <= KEYS_MIN + 1, "{}", held.last.len());
    }
}
