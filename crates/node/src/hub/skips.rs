//! Numbers that a sender did not send, because nobody that it counted on wanted them.
//!
//! A node that was silent for long is not counted on. When it is welcomed again it learns for which numbers that was so; what
//! was skipped among them may have been for it, and is told as lost. Skips and welcome come in any order.

use std::collections::VecDeque;
use std::time::Duration;

use shoal_norm::Time;

/// Runs of skipped numbers, and of numbers for which we were not counted on, that are remembered; beyond it the oldest two
/// become one, with all between them.
const RUNS_MAX: usize = 256;
const ABSENCES_MAX: usize = 16;
/// What is skipped without a gap is one run for so long: of each it is known when it was heard of.
const RUN: Duration = Duration::from_secs(1);

/// Skipped numbers, first and last of each run with when it was heard of first, and for which numbers we were not counted on.
#[derive(Debug, Default)]
pub(super) struct Skips {
    runs: VecDeque<((u64, u64), Time)>,
    absences: VecDeque<(u64, u64)>,
}

impl Skips {
    /// Numbers were skipped. Calls `lost` with those of them that may have been for us.
    pub fn add(&mut self, now: Time, first: u64, last: u64, lost: impl FnMut((u64, u64))) {
        match self.runs.back_mut() {
            Some(((_, end), at)) if end.checked_add(1) == Some(first) && now < *at + RUN => *end = last,
            _ => self.push_run((first, last), now),
        }
        let told: Vec<_> =
            self.absences.iter().filter_map(|&absence| common((first, last), absence)).collect();
        self.tell(&told, lost);
    }

    /// From `first` up to `end`, which is not among them, we were not counted on. Calls `lost` with what is known to be
    /// skipped of that.
    pub fn not_counted(&mut self, first: u64, end: u64, lost: impl FnMut((u64, u64))) {
        // Welcomes are repeated, and tell of several absences as of one if there were many: what is known is told already.
        let first = self.absences.back().map_or(first, |&(_, last)| first.max(last.saturating_add(1)));
        if end > first {
            let absence = (first, end - 1);
            push(&mut self.absences, absence);
            self.tell(&[absence], lost);
        }
    }

    /// Whether it is known already that we were not counted on before this number.
    pub fn knows_absence(&self, end: u64) -> bool {
        self.absences.back().is_some_and(|&(_, last)| end <= last.saturating_add(1))
    }

    fn tell(&mut self, ranges: &[(u64, u64)], mut lost: impl FnMut((u64, u64))) {
        ranges.iter().for_each(|&(first, last)| self.lose(first, last, &mut lost));
    }

    /// Of these numbers some were skipped as nobody's, and turn out to be lost. Calls `lost` with those, once.
    pub fn lose(&mut self, first: u64, last: u64, mut lost: impl FnMut((u64, u64))) {
        for (run, at) in std::mem::take(&mut self.runs) {
            let Some(of_run) = common(run, (first, last)) else {
                self.push_run(run, at);
                continue;
            };
            lost(of_run);
            if run.0 < of_run.0 {
                self.push_run((run.0, of_run.0 - 1), at);
            }
            if of_run.1 < run.1 {
                self.push_run((of_run.1 + 1, run.1), at);
            }
        }
    }

    /// What was heard since then may have been for us. Calls `lost` with it, once.
    pub fn lose_since(&mut self, since: Time, mut lost: impl FnMut((u64, u64))) {
        let heard = self.runs.iter().filter(|(_, at)| *at >= since);
        heard.for_each(|(run, _)| lost(*run));
        self.runs.retain(|(_, at)| *at < since);
    }

    fn push_run(&mut self, run: (u64, u64), at: Time) {
        self.runs.push_back((run, at));
        if self.runs.len() > RUNS_MAX
            && let (Some((oldest, _)), Some((next, _))) = (self.runs.pop_front(), self.runs.front_mut())
        {
            next.0 = oldest.0;
        }
    }
}

/// Remembers when we were not counted on.
fn push(ranges: &mut VecDeque<(u64, u64)>, range: (u64, u64)) {
    ranges.push_back(range);
    if ranges.len() > ABSENCES_MAX
        && let (Some((oldest, _)), Some(next)) = (ranges.pop_front(), ranges.front_mut())
    {
        next.0 = oldest;
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
        let mut lost = Vec::new();
        skips.not_counted(first, end, |range| lost.push(range));
        lost
    }

    fn add(skips: &mut Skips, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut lost = Vec::new();
        skips.add(Time::ZERO, first, last, |range| lost.push(range));
        lost
    }

    #[test]
    fn what_was_skipped_while_we_were_not_counted_on_is_told_before_and_after_the_welcome() {
        let mut skips = Skips::default();
        assert_eq!(add(&mut skips, 5, 9), []);
        assert_eq!(add(&mut skips, 20, 29), []);
        assert_eq!(told(&mut skips, 8, 40), [(8, 9), (20, 29)]);
        assert_eq!(add(&mut skips, 30, 50), [(30, 39)]);
        assert_eq!(add(&mut skips, 60, 70), []);
        assert_eq!(told(&mut skips, 8, 40), [], "the welcome was repeated");
        assert_eq!(told(&mut skips, 65, 66), [(65, 65)]);
    }

    #[test]
    fn whoever_was_away_twice_is_told_of_both_times() {
        let mut skips = Skips::default();
        told(&mut skips, 5, 10);
        told(&mut skips, 20, 30);
        assert_eq!(add(&mut skips, 1, 24), [(5, 9), (20, 24)]);
    }

    #[test]
    fn what_turns_out_to_be_lost_later_is_told_once() {
        let mut skips = Skips::default();
        add(&mut skips, 5, 9);
        add(&mut skips, 20, 29);
        let mut told = Vec::new();
        skips.lose(8, 22, |range| told.push(range));
        skips.lose(8, 22, |range| told.push(range));
        skips.lose(1, 40, |range| told.push(range));
        assert_eq!(told, [(8, 9), (20, 22), (5, 7), (23, 29)]);
    }

    #[test]
    fn what_was_heard_of_lately_may_be_lost_though_what_was_before_is_not() {
        let mut skips = Skips::default();
        for second in 0..10 {
            let (now, first) = (Time::ZERO + Duration::from_secs(second), 1 + 10 * second);
            skips.add(now, first, first + 9, |range| panic!("{range:?}"));
        }
        let mut told = Vec::new();
        let since = Time::ZERO + Duration::from_secs(8);
        skips.lose_since(since, |range| told.push(range));
        skips.lose_since(since, |range| told.push(range));
        assert_eq!(told, [(81, 90), (91, 100)]);
        skips.lose(75, 100, |range| told.push(range));
        assert_eq!(told.last(), Some(&(75, 80)), "what was before is remembered");
    }

    #[test]
    fn runs_are_bounded_and_tell_rather_too_much_than_too_little() {
        let mut skips = Skips::default();
        for number in 0..10 * RUNS_MAX as u64 {
            add(&mut skips, number * 10, number * 10 + 1);
            told(&mut skips, (1 << 40) + number * 10, (1 << 40) + number * 10 + 2);
        }
        assert_eq!((skips.runs.len(), skips.absences.len()), (RUNS_MAX, ABSENCES_MAX));
        assert_eq!(add(&mut skips, 1 << 40, 1 << 40), [(1 << 40, 1 << 40)]);
        skips.absences.clear();
        assert_eq!(told(&mut skips, 0, u64::MAX)[0].0, 0);
    }

    #[test]
    fn absences_that_are_told_as_one_later_are_not_lost_again() {
        let mut skips = Skips::default();
        assert_eq!(add(&mut skips, 1, 100), []);
        assert_eq!(told(&mut skips, 10, 20), [(10, 19)]);
        assert_eq!(told(&mut skips, 40, 50), [(40, 49)]);
        assert_eq!(told(&mut skips, 10, 50), [], "both, with what came between them");
        assert_eq!(told(&mut skips, 40, 60), [(50, 59)], "and more");
    }
}
