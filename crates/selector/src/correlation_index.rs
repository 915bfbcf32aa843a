//! Which of many correlation-ID filters want an ID: one hash look-up for all single IDs, and one more for the
//! ranges with the ID's own prefix.

use std::sync::Arc;

use crate::correlation::{CorrelationFilter, Digits, split_number};
use crate::index::SubscriberId;
use crate::index::hash::{Seed, SeededMap};

/// Subscribers by the correlation IDs they want.
#[derive(Debug)]
pub struct CorrelationIndex {
    by_id: SeededMap<Arc<str>, Vec<SubscriberId>>,
    by_prefix: SeededMap<Arc<str>, Vec<NumberEntry>>,
    texts: Vec<TextEntry>,
    matched: Vec<SubscriberId>,
}

#[derive(Debug, PartialEq)]
struct NumberEntry {
    low: Digits,
    high: Digits,
    subscriber: SubscriberId,
}

#[derive(Debug, PartialEq)]
struct TextEntry {
    low: Arc<str>,
    high: Arc<str>,
    subscriber: SubscriberId,
}

impl CorrelationIndex {
    /// An empty index; the seed keys its hash tables.
    pub fn new(seed: u64) -> Self {
        Self {
            by_id: SeededMap::with_hasher(Seed(seed)),
            by_prefix: SeededMap::with_hasher(Seed(seed)),
            texts: Vec::new(),
            matched: Vec::new(),
        }
    }

    /// Adds a subscriber's filter.
    pub fn add(&mut self, filter: &CorrelationFilter, subscriber: SubscriberId) {
        for id in filter.ids() {
            self.by_id.entry(id.clone()).or_default().push(subscriber);
        }
        for range in filter.numbers() {
            let entry = NumberEntry { low: range.low.clone(), high: range.high.clone(), subscriber };
            self.by_prefix.entry(range.prefix.clone()).or_default().push(entry);
        }
        for (low, high) in filter.texts() {
            self.texts.push(TextEntry { low: low.clone(), high: high.clone(), subscriber });
        }
    }

    /// Removes what [`Self::add`] added.
    pub fn remove(&mut self, filter: &CorrelationFilter, subscriber: SubscriberId) {
        for id in filter.ids() {
            if let Some(subscribers) = self.by_id.get_mut(id) {
                remove_one(subscribers, |known| *known == subscriber);
                if subscribers.is_empty() {
                    self.by_id.remove(id);
                }
            }
        }
        for range in filter.numbers() {
            if let Some(entries) = self.by_prefix.get_mut(&range.prefix) {
                remove_one(entries, |known| {
                    known.subscriber == subscriber && known.low == range.low && known.high == range.high
                });
                if entries.is_empty() {
                    self.by_prefix.remove(&range.prefix);
                }
            }
        }
        for (low, high) in filter.texts() {
            remove_one(&mut self.texts, |known| {
                known.subscriber == subscriber && known.low == *low && known.high == *high
            });
        }
    }

    /// The subscribers that want the ID, sorted, each once.
    pub fn matches(&mut self, id: &str) -> &[SubscriberId] {
        self.matched.clear();
        self.matched.extend(self.by_id.get(id).into_iter().flatten());
        match split_number(id) {
            Some((prefix, digits)) => {
                let entries = self.by_prefix.get(prefix).into_iter().flatten();
                let wanted = entries.filter(|entry| entry.low.is_up_to(digits) && entry.high.is_from(digits));
                self.matched.extend(wanted.map(|entry| entry.subscriber));
            }
            None => {
                let wanted = self.texts.iter().filter(|entry| (&*entry.low..=&*entry.high).contains(&id));
                self.matched.extend(wanted.map(|entry| entry.subscriber));
            }
        }
        self.matched.sort_unstable();
        self.matched.dedup();
        &self.matched
    }
}

fn remove_one<T>(items: &mut Vec<T>, wanted: impl Fn(&T) -> bool) {
    if let Some(position) = items.iter().position(wanted) {
        items.swap_remove(position);
    }
}
