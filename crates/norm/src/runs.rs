//! A set of numbers that come in runs: what it costs depends on how many runs there are, not on how long they are.

use std::collections::BTreeMap;
use std::ops::Range;

/// The set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// The end of each run, by its start. No two of them touch.
    ends: BTreeMap<u64, u64>,
    count: u64,
}

impl Runs {
    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many runs they form.
    pub fn runs(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The least number.
    pub fn first(&self) -> Option<u64> {
        self.ends.keys().next().copied()
    }

    /// The run a number is in.
    pub fn run_of(&self, number: u64) -> Option<Range<u64>> {
        let (start, end) = self.ends.range(..=number).next_back()?;
        (number < *end).then_some(*start..*end)
    }

    /// The start of the first run at or after a number that is in none.
    pub fn next_start(&self, number: u64) -> Option<u64> {
        self.ends.range(number..).next().map(|(start, _)| *start)
    }

    /// The runs, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// What of a range is not in it.
    pub fn gaps_in(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = self.run_of(range.start).map_or(range.start, |run| run.end);
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let next = self.next_start(at).map_or(range.end, |start| start.min(range.end));
            let gap = at..next;
            at = self.ends.get(&next).copied().unwrap_or(range.end);
            Some(gap)
        })
    }

    /// Adds a range; returns how many numbers of it are new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let Range { mut start, mut end } = range;
        let before = self.count;
        if let Some((first, last)) = self.ends.range(..=start).next_back()
            && *last >= start
        {
            start = *first;
        }
        while let Some((first, last)) =
            self.ends.range(start..=end).next().map(|(first, last)| (*first, *last))
        {
            self.ends.remove(&first);
            self.count -= last - first;
            end = end.max(last);
        }
        self.ends.insert(start, end);
        self.count += end - start;
        self.count - before
    }

    /// Takes a range out.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some(run) = self.run_of(range.start).filter(|run| run.start < range.start) {
            self.ends.insert(run.start, range.start);
            self.ends.insert(range.start, run.end);
        }
        while let Some((first, last)) =
            self.ends.range(range.clone()).next().map(|(first, last)| (*first, *last))
        {
            self.ends.remove(&first);
            self.count -= last.min(range.end) - first;
            if last > range.end {
                self.ends.insert(range.end, last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn whatever_is_added_and_taken_out_it_is_the_set_it_should_be() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut runs, mut plain) = (Runs::default(), BTreeSet::new());
            for _ in 0..60 {
                let start = random.u64(..40);
                let range = start..start + random.u64(..12);
                if random.bool() {
                    let new = range.clone().filter(|at| plain.insert(*at)).count() as u64;
                    assert_eq!(runs.insert(range), new, "seed {seed}");
                } else {
                    plain.retain(|at| !range.contains(at));
                    runs.remove(range);
                }
                assert!(runs.iter().flatten().eq(plain.iter().copied()), "seed {seed}");
                assert_eq!((runs.count(), runs.first()), (plain.len() as u64, plain.first().copied()));
                assert!(runs.iter().zip(runs.iter().skip(1)).all(|(one, next)| one.end < next.start));
                let gaps: Vec<u64> = runs.gaps_in(5..30).flatten().collect();
                assert!((5..30).filter(|at| !plain.contains(at)).eq(gaps), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_long_run_costs_no_more_than_a_short_one() {
        let mut runs = Runs::default();
        assert_eq!(runs.insert(0..1 << 40), 1 << 40);
        assert_eq!(runs.insert(7..1 << 39), 0);
        runs.remove(5..6);
        assert_eq!((runs.runs(), runs.count()), (2, (1 << 40) - 1));
    }
}
