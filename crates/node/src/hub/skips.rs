//! Numbers that a sender did not send, because nobody that it counted on wanted them.
//!
//! A node that was silent for long is not counted on. When it is welcomed again it learns for which numbers that was so; what
//! was skipped among them may have been for it, and is told as lost. Skips and welcome come in any order.

use std::collections::VecDeque;

/// Runs of skipped numbers that are remembered; beyond it the oldest two become one, with all between them.
const RUNS_MAX: usize = 256;

/// Skipped numbers, first and last of each run, and for which numbers we were not counted on.
#[derive(Debug, Default)]
pub(super) struct Skips {
    runs: VecDeque<(u64, u64)>,
    not_counted: Option<(u64, u64)>,
}

impl Skips {
    /// Numbers were skipped. Returns those of them that may have been for us.
    pub fn add(&mut self, first: u64, last: u64) -> Option<(u64, u64)> {
        match self.runs.back_mut() {
            Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
            _ => self.runs.push_back((first, last)),
        }
        if self.runs.len() > RUNS_MAX
            && let (Some((oldest, _)), Some(next)) = (self.runs.pop_front(), self.runs.front_mut())
        {
            next.0 = oldest;
        }
        let (from, until) = self.not_counted?;
        common((first, last), (from, until))
    }

    /// From `first` up to `end`, which is not among them, we were not counted on. Returns what is known to be skipped of
    /// that.
    pub fn not_counted(&mut self, first: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let range = (end > first).then(|| (first, end - 1)).filter(|range| self.not_counted != Some(*range));
        self.not_counted = range.or(self.not_counted);
        self.runs.iter().filter_map(move |&run| common(run, range?))
    }
}

fn common(one: (u64, u64), two: (u64, u64)) -> Option<(u64, u64)> {
    let (first, last) = (one.0.max(two.0), one.1.min(two.1));
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(skips: &mut Skips, first: u64, end: u64) -> Vec<(u64, u64)> {
        skips.not_counted(first, end).collect()
    }

    #[test]
    fn what_was_skipped_while_we_were_not_counted_on_is_told_before_and_after_the_welcome() {
        let mut skips = Skips::default();
        assert_eq!(skips.add(5, 9), None);
        assert_eq!(skips.add(20, 29), None);
        assert_eq!(told(&mut skips, 8, 40), [(8, 9), (20, 29)]);
        assert_eq!(skips.add(30, 50), Some((30, 39)));
        assert_eq!(skips.add(60, 70), None);
        assert_eq!(told(&mut skips, 8, 40), [], "the welcome was repeated");
        assert_eq!(told(&mut skips, 65, 66), [(65, 65)]);
    }

    #[test]
    fn runs_are_bounded_and_tell_rather_too_much_than_too_little() {
        let mut skips = Skips::default();
        for number in 0..10 * RUNS_MAX as u64 {
            skips.add(number * 10, number * 10 + 1);
        }
        assert_eq!(skips.runs.len(), RUNS_MAX);
        assert_eq!(told(&mut skips, 0, u64::MAX)[0].0, 0);
    }
}
