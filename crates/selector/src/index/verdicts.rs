//! Asking about single filters: for a caller that knows which few of them could matter to a message.

use crate::index::{FilterId, SelectorIndex, SubscriberId};
use crate::value::Attributes;

/// What filters say of one message; each is evaluated once, when it is asked for.
#[derive(Debug)]
pub struct Verdicts<'a, A: ?Sized> {
    index: &'a mut SelectorIndex,
    message: &'a A,
    /// All filters were looked up together, because so many will be asked for.
    looked_up: bool,
}

impl SelectorIndex {
    /// Starts on a message of which at most `asked_max` filters will be asked for. Only if these are many,
    /// and there are many filters, are all of them looked up at once.
    #[inline]
    pub fn ask<'a, A: Attributes + ?Sized>(
        &'a mut self,
        message: &'a A,
        asked_max: usize,
    ) -> Verdicts<'a, A> {
        self.epoch += 1;
        self.counters.messages += 1;
        let looked_up = asked_max.min(self.len()) > self.evaluated_filters_max;
        if looked_up {
            self.matched.clear();
            self.look_up(message);
            self.counters.matches += self.matched.len() as u64;
        }
        Verdicts { index: self, message, looked_up }
    }
}

impl<A: Attributes + ?Sized> Verdicts<'_, A> {
    /// Whether all filters were looked up together.
    #[inline]
    pub fn are_looked_up(&self) -> bool {
        self.looked_up
    }

    /// If all filters were looked up together: who asked for those that match, filter by filter.
    #[inline]
    pub fn accepted(&self) -> impl Iterator<Item = &[SubscriberId]> {
        let index = &*self.index;
        let matched = if self.looked_up { index.matched.as_slice() } else { &[] };
        matched.iter().map(|filter| index.subscribers(*filter))
    }

    /// Whether a filter, which must be in the index, matches the message.
    #[inline]
    pub fn accepts(&mut self, filter: FilterId) -> bool {
        let SelectorIndex { filters, asked, found, counters, epoch, .. } = &mut *self.index;
        let number = filter.0 as usize;
        if self.looked_up || asked[number] == *epoch {
            return found[number] == *epoch;
        }
        asked[number] = *epoch;
        counters.evaluations += 1;
        let accepted = filters.get(filter.0).is_some_and(|filter| filter.condition.holds(self.message));
        if accepted {
            found[number] = *epoch;
            counters.matches += 1;
        }
        accepted
    }
}
