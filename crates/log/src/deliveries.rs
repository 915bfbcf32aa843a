//! How often messages of a reader were given out, as runs: what it costs depends on how often the count changes from one
//! message to the next, not on how many messages there are.
//!
//! A run may lie over offsets of other readers' messages, and over messages that are done: nothing asks for those. So the
//! messages of one queue make one run, whatever was stored between them.

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// The end of each run and what holds for it, by its start. Two that touch differ.
    runs: BTreeMap<u64, (u64, Delivery)>,
}

impl Deliveries {
    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The runs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, Delivery)> + '_ {
        self.runs.iter().map(|(&start, &(end, delivery))| (start..end, delivery))
    }

    /// What is known of a message.
    pub fn get(&self, offset: u64) -> Option<Delivery> {
        let (_, (end, delivery)) = self.runs.range(..=offset).next_back()?;
        (offset < *end).then_some(*delivery)
    }

    /// This holds for a range now.
    pub fn set(&mut self, range: Range<u64>, delivery: Delivery) {
        if range.is_empty() {
            return;
        }
        self.remove(range.clone());
        let Range { mut start, mut end } = range;
        if let Some((&before, &(_, _))) =
            self.runs.range(..start).next_back().filter(|(_, run)| **run == (start, delivery))
        {
            start = before;
        }
        if let Some(&(last, _)) = self.runs.get(&end).filter(|run| run.1 == delivery) {
            self.runs.remove(&end);
            end = last;
        }
        self.runs.insert(start, (end, delivery));
    }

    /// Nothing is known of a range any more.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() || self.runs.is_empty() {
            return;
        }
        if let Some((_, run)) = self.runs.range_mut(..range.start).next_back()
            && run.0 > range.start
        {
            let (end, delivery) = *run;
            run.0 = range.start;
            self.runs.insert(range.start, (end, delivery));
        }
        while let Some((&start, &(end, delivery))) = self.runs.range(range.clone()).next() {
            self.runs.remove(&start);
            if end > range.end {
                self.runs.insert(range.end, (end, delivery));
            }
        }
    }

    /// Makes one run of the older half of them: a program may have received those messages, and how often is forgotten.
    pub fn halve(&mut self) {
        let older = self.runs.len().div_ceil(2).max(2);
        let (Some((&start, _)), Some((_, &(end, _)))) =
            (self.runs.first_key_value(), self.runs.iter().nth(older - 1))
        else {
            return;
        };
        self.set(start..end, Delivery::default());
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
        deliveries.halve();
        assert_eq!(deliveries.runs(), 5);
        assert!((0..9).all(|offset| deliveries.get(offset * 3).is_some()));
        assert_eq!(deliveries.get(12), Some(Delivery::default()));
        assert_eq!(deliveries.get(15), Some(Delivery { count: 6, due_us: 0 }));
        (0..8).for_each(|_| deliveries.halve());
        assert_eq!(deliveries.runs(), 1);
    }
}
