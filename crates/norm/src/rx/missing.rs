//! What is missing of a receive window, and what of it somebody else asked for.

use super::window::{Slot, Window};

impl Window {
    /// Calls `run` with each run of missing segments (first, one past last) within reach that count as lost,
    /// oldest first, until it returns false.
    pub fn missing_runs(&self, run: impl FnMut(u64, u64) -> bool) {
        self.missing_runs_from(0, run);
    }

    /// The same, from a segment on.
    pub fn missing_runs_from(&self, least: u64, mut run: impl FnMut(u64, u64) -> bool) {
        if self.missing == 0 {
            return;
        }
        let end = self.end.min(self.checked);
        let held = end.min(self.base + self.entries.len() as u64);
        // Beyond the slots in use nothing is here, and the window can still grow.
        let reach = end.min(self.base + self.slots_allowed());
        let mut segment = self.complete.max(least);
        while segment < held {
            if self.entries[self.slot(segment)].slot != Slot::Missing {
                segment += 1;
                continue;
            }
            let start = segment;
            while segment < held && self.entries[self.slot(segment)].slot == Slot::Missing {
                segment += 1;
            }
            if segment == held {
                run(start, reach.max(held));
                return;
            }
            if !run(start, segment) {
                return;
            }
        }
        if held.max(segment) < reach {
            run(held.max(segment), reach);
        }
    }

    /// Somebody else asked for segments `from..to` in this NACK cycle. Looks at no more of them than `budget` allows.
    pub fn mark_asked(&mut self, from: u64, to: u64, cycle: u16, budget: &mut u64) {
        let held = self.end.min(self.base + self.entries.len() as u64);
        let segments = from.max(self.complete)..to.min(held);
        for segment in segments.take(usize::try_from(*budget).unwrap_or(usize::MAX)) {
            let slot = self.slot(segment);
            self.entries[slot].asked_in = cycle;
            *budget -= 1;
        }
    }

    /// Whether any segment counts as lost, unless somebody else asked for it in this cycle.
    pub fn is_missing(&self, unless_in: Option<u16>) -> bool {
        unless_in.map_or_else(|| self.has_missing(), |cycle| self.needs_asking(cycle))
    }

    /// Whether any missing segment was not asked for by somebody else in this cycle.
    pub fn needs_asking(&self, cycle: u16) -> bool {
        let mut needed = false;
        let held = self.base + self.entries.len() as u64;
        self.missing_runs(|from, to| {
            needed =
                to > held || (from..to).any(|segment| self.entries[self.slot(segment)].asked_in != cycle);
            !needed
        });
        needed
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::tests::{SEGMENT, SLOT, missing, put, window};
    use super::*;

    #[test]
    fn what_may_still_come_as_parity_does_not_count_as_lost() {
        let mut window = Window::new(0, 4, SEGMENT, 64 * SLOT, &mut usize::MAX.clone()).unwrap();
        put(&mut window, 1);
        assert!(!window.has_missing());
        assert_eq!(missing(&window), []);
        put(&mut window, 6);
        window.check_before(4);
        assert!(window.has_missing());
        assert_eq!(missing(&window), [(0, 1), (2, 4)]);
    }

    #[test]
    fn a_segment_others_asked_for_needs_no_asking_in_that_cycle() {
        let mut window = window(0);
        put(&mut window, 5);
        window.mark_asked(0, 5, 7, &mut 100);
        assert!(!window.needs_asking(7));
        assert!(window.needs_asking(8));
        put(&mut window, 7);
        assert!(window.needs_asking(7));
    }
}
