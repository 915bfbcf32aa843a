//! Parts of messages whose end has not come yet: how much they may be, of all sources of all links of a hub together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts of messages up to this length are not counted.
pub(super) const PART_BYTES_FREE: usize = 64 << 10;

/// What all links of a hub hold.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: AtomicUsize,
    pub(super) bytes_max: usize,
}

impl Budget {
    pub fn new(bytes_max: usize) -> Budget {
        Budget { bytes: AtomicUsize::new(0), bytes_max }
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// What one link holds.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) budget: Arc<Budget>,
    pub(super) bytes: usize,
}

impl Assembly {
    pub fn new(budget: Arc<Budget>) -> Assembly {
        Assembly { budget, bytes: 0 }
    }

    /// What a part counts as: a small one nothing, so that whoever holds large ones breaks only those.
    pub fn cost(part: usize) -> usize {
        part.saturating_sub(PART_BYTES_FREE)
    }

    /// A source's part grew or shrank. False if there is no room for it: then it is to be dropped.
    #[inline]
    pub fn change(&mut self, from: usize, to: usize) -> bool {
        let (from, to) = (Assembly::cost(from), Assembly::cost(to));
        if from == 0 && to == 0 {
            return true;
        }
        self.give_back(from);
        let grown = |bytes: usize| bytes.checked_add(to).filter(|&grown| grown <= self.budget.bytes_max);
        let fits = self.budget.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok();
        if fits {
            self.bytes += to;
        }
        fits
    }

    fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Why a part is dropped.
    pub fn refusal(&self) -> String {
        format!(
            "a message was lost because parts of too many large ones came at once: \
             assembly_bytes_max is {} bytes",
            self.budget.bytes_max
        )
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: usize = PART_BYTES_FREE;

    #[test]
    fn links_share_a_budget_and_give_back_what_they_held() {
        let budget = Arc::new(Budget::new(1000));
        let [mut one, mut two] = [0; 2].map(|_| Assembly::new(budget.clone()));
        assert!(one.change(0, FREE) && two.change(0, FREE), "small parts are free");
        assert!(one.change(FREE, FREE + 600));
        assert!(!two.change(FREE, FREE + 401), "the other holds too much");
        assert!(two.change(FREE, FREE + 400));
        assert!(!one.change(FREE + 600, FREE + 601));
        assert!(two.change(FREE + 400, FREE + 1000), "what did not fit is given back");
        drop(two);
        assert!(one.change(FREE, FREE + 1000));
        assert!(one.change(FREE + 1000, 0));
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 0);
    }
}
