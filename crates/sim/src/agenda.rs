//! What will happen when: a queue ordered by time, and by arrival where times are equal.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use shoal_norm::Time;

struct Entry<T> {
    at: Time,
    number: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    // The heap gives the greatest first, and we want the earliest.
    fn cmp(&self, other: &Entry<T>) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// The queue.
pub struct Agenda<T> {
    heap: BinaryHeap<Entry<T>>,
    count: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda { heap: BinaryHeap::new(), count: 0 }
    }
}

impl<T> Agenda<T> {
    /// Puts something on the agenda.
    pub fn add(&mut self, at: Time, what: T) {
        self.count += 1;
        self.heap.push(Entry { at, number: self.count, what });
    }

    /// When the next thing happens.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next thing.
    pub fn take(&mut self) -> Option<(Time, T)> {
        self.heap.pop().map(|entry| (entry.at, entry.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_the_order_of_time_and_then_of_arrival() {
        let mut agenda = Agenda::default();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            agenda.add(Time::from_nanos(at), what);
        }
        let order: String = std::iter::from_fn(|| agenda.take()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcd");
    }
}
