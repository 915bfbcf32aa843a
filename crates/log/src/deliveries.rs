//! What holds for ranges of offsets, as runs: what it costs depends on how often it changes from one message to the next, not
//! on how many messages there are.
//!
//! A reader has two of them: how often messages were given out, and which consumer was granted them last. A run may lie over
//! offsets of other readers' messages, and over messages that are done: nothing asks for those. So the messages of one queue
//! make one run, whatever was stored between them.

use std::collections::BTreeMap;
use std::ops::Range;

/// How often a message was given out, and when again at the earliest.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Hand-overs to a program that are known; 0 if there may have been some.
    pub count: u32,
    /// Microseconds since 1970.
    pub due_us: u64,
}

/// The deliveries of one reader's messages that are not done.
pub type Deliveries = RunMap<Delivery>;

/// Which lease one reader's messages were granted under last, of those that are not done.
pub type Grants = RunMap<u64>;

/// Values of ranges of offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMap<V> {
    /// The end of each run and its value, by its start. Two that touch differ.
    runs: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for RunMap<V> {
    fn default() -> RunMap<V> {
        RunMap { runs: BTreeMap::new() }
    }
}

impl<V: Copy + PartialEq> RunMap<V> {
    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The runs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, V)> + '_ {
        self.runs.iter().map(|(&start, &(end, value))| (start..end, value))
    }

    /// What holds for a message.
    pub fn get(&self, offset: u64) -> Option<V> {
        let (_, (end, value)) = self.runs.range(..=offset).next_back()?;
        (offset < *end).then_some(*value)
    }

    /// What of a range something holds for, in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, V)> + '_ {
        let before = self.runs.range(..range.start).next_back().into_iter();
        let cut = move |(&start, &(end, value)): (&u64, &(u64, V))| {
            (start.max(range.start)..end.min(range.end), value)
        };
        before
            .chain(self.runs.range(range.start..range.end.max(range.start)))
            .map(cut)
            .filter(|run| !run.0.is_empty())
    }

    /// This holds for a range now.
    pub fn set(&mut self, range: Range<u64>, value: V) {
        if range.is_empty() {
            return;
        }
        self.remove(range.clone());
        let Range { mut start, mut end } = range;
        if let Some((&before, _)) =
            self.runs.range(..start).next_back().filter(|(_, run)| **run == (start, value))
        {
            start = before;
        }
        if let Some(&(last, _)) = self.runs.get(&end).filter(|run| run.1 == value) {
            self.runs.remove(&end);
            end = last;
        }
        self.runs.insert(start, (end, value));
    }

    /// Nothing holds for a range any more.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() || self.runs.is_empty() {
            return;
        }
        if let Some((_, run)) = self.runs.range_mut(..range.start).next_back()
            && run.0 > range.start
        {
            let (end, value) = *run;
            run.0 = range.start;
            self.runs.insert(range.start, (end, value));
        }
        while let Some((&start, &(end, value))) = self.runs.range(range.clone()).next() {
            self.runs.remove(&start);
            if end > range.end {
                self.runs.insert(range.end, (end, value));
            }
        }
    }

    /// A value holds for nothing any more.
    pub fn remove_value(&mut self, value: V) {
        self.runs.retain(|_, run| run.1 != value);
    }

    /// From the first of them to the end of the older half; none if there are fewer than two.
    pub fn older_half(&self) -> Option<Range<u64>> {
        let older = self.runs.len().div_ceil(2).max(2);
        let (first, last) = (self.runs.first_key_value()?, self.runs.iter().nth(older - 1)?);
        Some(*first.0..last.1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_set_and_removed_each_offset_has_what_it_should_have() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut deliveries, mut plain) = (Deliveries::default(), BTreeMap::new());
            for _ in 0..100 {
                let start = random.u64(..40);
                let range = start..start + random.u64(..10);
                if random.u8(..3) == 0 {
                    deliveries.remove(range.clone());
                    plain.retain(|offset, _| !range.contains(offset));
                } else {
                    let delivery = Delivery { count: random.u32(..2), due_us: random.u64(..2) };
                    deliveries.set(range.clone(), delivery);
                    plain.extend(range.map(|offset| (offset, delivery)));
                }
                for offset in 0..60 {
                    assert_eq!(deliveries.get(offset), plain.get(&offset).copied(), "seed {seed}");
                }
                let within: BTreeMap<_, _> = deliveries
                    .within(7..23)
                    .flat_map(|(run, delivery)| run.map(move |offset| (offset, delivery)))
                    .collect();
                let plainly = plain.range(7..23).map(|(offset, delivery)| (*offset, *delivery)).collect();
                assert_eq!(within, plainly, "seed {seed}");
                let runs: Vec<_> = deliveries.iter().collect();
                let differ =
                    |two: &[(Range<u64>, Delivery)]| two[0].0.end < two[1].0.start || two[0].1 != two[1].1;
                assert!(runs.windows(2).all(differ), "seed {seed}: {runs:?}");
            }
        }
    }

    #[test]
    fn halving_forgets_counts_and_no_mark() {
        let mut deliveries = Deliveries::default();
        for offset in 0..9 {
            deliveries.set(offset * 3..offset * 3 + 1, Delivery { count: 1 + offset as u32, due_us: 0 });
        }
        let halve = |deliveries: &mut Deliveries| {
            if let Some(range) = deliveries.older_half() {
                deliveries.set(range, Delivery::default());
            }
        };
        halve(&mut deliveries);
        assert_eq!(deliveries.runs(), 5);
        assert!((0..9).all(|offset| deliveries.get(offset * 3).is_some()));
        assert_eq!(deliveries.get(12), Some(Delivery::default()));
        assert_eq!(deliveries.get(15), Some(Delivery { count: 6, due_us: 0 }));
        (0..8).for_each(|_| halve(&mut deliveries));
        assert_eq!(deliveries.runs(), 1);
    }

    #[test]
    fn a_value_can_be_taken_out_wherever_it_is() {
        let mut grants = Grants::default();
        for offset in 0..9 {
            grants.set(offset..offset + 1, offset % 3);
        }
        grants.remove_value(1);
        assert!((0..9).all(|offset| grants.get(offset) == (offset % 3 != 1).then_some(offset % 3)));
    }
}
