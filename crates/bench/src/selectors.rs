//! Filters and messages to match over and over; what is measured, and how often, the caller decides.

use std::time::Instant;

use shoal_selector::{Selector, SelectorIndex};

use crate::workload::{self, Message};

/// Messages that the index sees before it is tuned and measured.
const WARM_UP_MESSAGES: usize = 2048;

/// Filters and messages, and the index over the filters.
#[derive(Debug)]
pub struct SelectorLoad {
    selectors: Vec<Selector>,
    messages: Vec<Message>,
    index: SelectorIndex,
}

impl SelectorLoad {
    /// `kind` is `distinct` (with a match rate), `identical`, `and` or `or` (with a number of terms); `None` if it is
    /// another.
    pub fn new(
        kind: &str,
        count: usize,
        rate: f64,
        terms: usize,
        messages: usize,
        seed: u64,
    ) -> Option<SelectorLoad> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let selectors = match kind {
            "distinct" => workload::selectors(&mut rng, count, rate),
            "identical" => vec![workload::selectors(&mut rng, 1, rate).remove(0); count],
            "and" => workload::and_filters(count, terms),
            "or" => workload::or_filters(count, terms),
            _ => return None,
        };
        let messages: Vec<_> = (0..messages.max(1)).map(|_| workload::message(&mut rng)).collect();
        let mut index = SelectorIndex::new(seed);
        for (subscriber, selector) in (0..).zip(&selectors) {
            index.add(selector, subscriber);
        }
        for message in messages.iter().cycle().take(WARM_UP_MESSAGES) {
            index.matches(message);
        }
        index.tune(selectors.len());
        Some(SelectorLoad { selectors, messages, index })
    }

    /// Matches `count` messages with the index; returns nanoseconds per message and how many filters matched.
    pub fn index_round(&mut self, count: usize) -> (f64, u64) {
        let began = Instant::now();
        let mut matched = 0;
        for message in self.messages.iter().cycle().take(count) {
            matched += self.index.matches(message).filters().len() as u64;
        }
        (nanoseconds_each(began, count), matched)
    }

    /// Matches `count` messages by evaluating every selector.
    pub fn scan_round(&self, count: usize) -> (f64, u64) {
        let began = Instant::now();
        let mut matched = 0;
        for message in self.messages.iter().cycle().take(count) {
            matched += self.selectors.iter().filter(|selector| selector.matches(message)).count() as u64;
        }
        (nanoseconds_each(began, count), matched)
    }

    /// How many of the first `count` messages the index and the scan disagree on, subscriber by subscriber.
    pub fn disagreements(&mut self, count: usize) -> usize {
        let mut differing = 0;
        for message in self.messages.iter().take(count) {
            let matches = self.index.matches(message);
            let mut found: Vec<u64> = matches.subscribers().flat_map(|(_, all)| all).copied().collect();
            found.sort_unstable();
            let scanned = (0..).zip(&self.selectors).filter(|(_, selector)| selector.matches(message));
            differing += usize::from(!scanned.map(|(subscriber, _)| subscriber).eq(found));
        }
        differing
    }

    /// Removes `count` selectors from the full index and adds them again; returns what each removal and each
    /// addition took, in nanoseconds.
    pub fn change_round(&mut self, count: usize) -> (Vec<u64>, Vec<u64>) {
        let step = (self.selectors.len() / count.max(1)).max(1);
        let chosen: Vec<_> = (0..).zip(&self.selectors).step_by(step).take(count).collect();
        let timed = |change: &mut dyn FnMut()| {
            let began = Instant::now();
            change();
            began.elapsed().as_nanos() as u64
        };
        let index = &mut self.index;
        let mut removals = Vec::with_capacity(chosen.len());
        for (subscriber, selector) in &chosen {
            removals.push(timed(&mut || {
                index.remove(selector, *subscriber);
            }));
        }
        let mut additions = Vec::with_capacity(chosen.len());
        for (subscriber, selector) in &chosen {
            additions.push(timed(&mut || {
                index.add(selector, *subscriber);
            }));
        }
        (removals, additions)
    }

    /// What the index holds on the heap, the selectors' own canonical forms included.
    pub fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
    }

    /// Filters that are looked at per message, and predicates evaluated per message, since the start.
    pub fn work_per_message(&self) -> (f64, f64) {
        let counters = self.index.counters();
        let per_message = |total: u64| total as f64 / counters.messages.max(1) as f64;
        (per_message(counters.evaluations), per_message(counters.predicates_evaluated))
    }
}

fn nanoseconds_each(began: Instant, count: usize) -> f64 {
    began.elapsed().as_nanos() as f64 / count.max(1) as f64
}
