//! Which counters of a peer's run were taken: none is taken twice.

/// So far behind the newest a datagram may be.
const WINDOW: u64 = 4096;
const WORDS: usize = (WINDOW / 64) as usize;

/// The window.
#[derive(Debug)]
pub struct ReplayWindow {
    /// One past the newest counter taken.
    end: u64,
    seen: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    pub fn new() -> ReplayWindow {
        ReplayWindow { end: 0, seen: Box::new([0; WORDS]) }
    }

    /// Takes a counter. False if it was taken before, or is too old to say.
    pub fn take(&mut self, counter: u64) -> bool {
        if counter == u64::MAX || counter + WINDOW < self.end {
            return false;
        }
        if counter >= self.end {
            // Words that hold counters between the newest and this one are new.
            let (old, new) = (self.end.div_ceil(64), (counter + 1).div_ceil(64));
            for word in old..new.min(old + WORDS as u64) {
                self.seen[(word % WORDS as u64) as usize] = 0;
            }
            self.end = counter + 1;
        }
        let (word, bit) = ((counter / 64 % WORDS as u64) as usize, 1 << (counter % 64));
        // The oldest word may hold counters of the newest: what is that old is not told apart.
        let fresh = self.seen[word] & bit == 0 && self.end - counter <= WINDOW - 64;
        self.seen[word] |= if fresh { bit } else { 0 };
        fresh
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn whatever_the_order_no_counter_is_taken_twice_and_few_that_are_late_are_refused() {
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut window, mut taken, mut next) = (ReplayWindow::new(), HashSet::new(), 0u64);
            for _ in 0..20_000 {
                next += random.u64(..[2, 3, 200, 6000][(seed % 4) as usize]);
                let counter = next.saturating_sub(random.u64(..5000));
                let newest = taken.iter().max().copied().unwrap_or(0);
                let is_new = !taken.contains(&counter);
                let took = window.take(counter);
                assert!(!took || is_new, "seed {seed}: {counter} was taken twice");
                assert!(took || !is_new || counter + 4000 < newest, "seed {seed}: {counter} was refused");
                if took {
                    taken.insert(counter);
                }
                taken.retain(|known| *known + 10_000 > next);
            }
        }
    }
}
