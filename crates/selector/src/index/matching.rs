//! What happens to one message: its values go into their slots, the values open posting lists, and the
//! entries of those lists are decided.

use crate::index::guard::Views;
use crate::index::posting::Entry;
use crate::index::predicates::Predicates;
use crate::index::slab::Slab;
use crate::index::slots::{Slot, SlotState, View};
use crate::index::{Branch, BranchTests, FilterId, Matches, SelectorIndex};
use crate::value::{Attributes, Value};

/// One message in this many is sampled for [`SelectorIndex::tune`].
const SAMPLING_INTERVAL: u64 = 32;

impl SelectorIndex {
    /// Finds the filters that match a message. Allocates nothing once its buffers have grown.
    pub fn matches<A: Attributes + ?Sized>(&mut self, message: &A) -> Matches<'_> {
        self.epoch += 1;
        self.counters.messages += 1;
        self.matched.clear();
        if self.len() <= self.evaluated_filters_max {
            self.evaluate_each(message);
        } else {
            self.look_up(message);
        }
        self.counters.matches += self.matched.len() as u64;
        Matches { index: self }
    }

    fn evaluate_each<A: Attributes + ?Sized>(&mut self, message: &A) {
        for (number, filter) in self.filters.numbered() {
            self.counters.evaluations += 1;
            if filter.condition.holds(message) {
                self.matched.push(FilterId(number));
            }
        }
    }

    pub(super) fn look_up<A: Attributes + ?Sized>(&mut self, message: &A) {
        let mut values: Vec<Value<'_>> = std::mem::take(&mut self.values);
        self.read(message, &mut values);
        self.open();
        self.decide(message, &values);
        if self.epoch.is_multiple_of(SAMPLING_INTERVAL) {
            self.sample(&values);
        }
        self.values = emptied(values);
    }

    /// Puts the message's values into their slots.
    fn read<'m, A: Attributes + ?Sized>(&mut self, message: &'m A, values: &mut Vec<Value<'m>>) {
        let slot_count = self.attributes.bound();
        values.clear();
        values.resize(slot_count, Value::Null);
        self.states.clear();
        self.states.resize(slot_count, SlotState::new(Value::Null));
        self.present.clear();
        self.prefixes.clear();
        self.views.clear(slot_count);
        let (names, attributes) = (&self.slots, &self.attributes);
        let (states, views) = (&mut self.states, &mut self.views);
        let (present, prefixes) = (&mut self.present, &mut self.prefixes);
        message.visit(&mut |name, value| {
            let Some(slot) = names.get(name) else { return };
            let Some(attribute) = attributes.get(*slot) else {
                return;
            };
            if value == Value::Null {
                return;
            }
            values[*slot as usize] = value;
            let state = attribute.read(value, prefixes);
            views.set(*slot, &state, value);
            states[*slot as usize] = state;
            present.push(*slot);
        });
    }

    /// Collects the posting lists that the message opens.
    fn open(&mut self) {
        let view = View { states: &self.states, prefixes: &self.prefixes, sets: &self.sets };
        let opened = &mut self.opened;
        opened.clear();
        opened.push(self.always);
        for slot in &self.present {
            if let Some(attribute) = self.attributes.get(*slot) {
                attribute.open(*slot, view, &mut |posting| opened.push(posting));
            }
        }
        for slot in &self.watched_absences {
            if view.states[*slot as usize].is_null()
                && let Some(attribute) = self.attributes.get(*slot)
            {
                opened.push(attribute.absent());
            }
        }
    }

    /// Decides the entries of the opened posting lists and of the thresholds that are passed.
    fn decide<A: Attributes + ?Sized>(&mut self, message: &A, values: &[Value<'_>]) {
        let mut decision = Decision {
            message,
            values,
            view: View { states: &self.states, prefixes: &self.prefixes, sets: &self.sets },
            epoch: self.epoch,
            views: &self.views,
            branch_tests: &self.tests,
            branches: &self.branches,
            predicates: &mut self.predicates,
            found: &mut self.found,
            matched: &mut self.matched,
            looked_at: 0,
            predicates_evaluated: 0,
        };
        for posting in &self.opened {
            for entry in self.postings.entries(*posting) {
                decision.consider(entry);
            }
        }
        for slot in &self.present {
            if let Some(attribute) = self.attributes.get(*slot) {
                attribute.pass(&self.states[*slot as usize], &mut |entry| decision.consider(entry));
            }
        }
        self.counters.evaluations += decision.looked_at;
        self.counters.predicates_evaluated += decision.predicates_evaluated;
    }

    fn sample(&mut self, values: &[Value<'_>]) {
        for (slot, value) in values.iter().enumerate() {
            if let Some(attribute) = self.attributes.get_mut(slot as Slot) {
                attribute.sample.record(*value);
            }
        }
    }
}

/// The state of deciding one message's entries.
struct Decision<'a, A: ?Sized> {
    message: &'a A,
    values: &'a [Value<'a>],
    view: View<'a>,
    epoch: u64,
    views: &'a Views,
    branch_tests: &'a [BranchTests],
    branches: &'a Slab<Branch>,
    predicates: &'a mut Predicates,
    found: &'a mut [u64],
    matched: &'a mut Vec<FilterId>,
    looked_at: u64,
    predicates_evaluated: u64,
}

impl<A: Attributes + ?Sized> Decision<'_, A> {
    #[inline]
    fn consider(&mut self, entry: &Entry) {
        self.looked_at += 1;
        if entry.guards.admit(self.views) || self.views.rounding() {
            self.conclude(entry);
        }
    }

    /// The guards let the entry pass: makes the tests, and evaluates what they cannot decide.
    fn conclude(&mut self, entry: &Entry) {
        let BranchTests { tests, filter, has_rest } = &self.branch_tests[entry.branch as usize];
        if !tests.iter().all(|test| test.passes(self.view)) {
            return;
        }
        let found = &mut self.found[filter.0 as usize];
        if *found == self.epoch {
            return;
        }
        if *has_rest
            && let Some(rest) = self.branches.get(entry.branch).and_then(|branch| branch.rest.as_ref())
        {
            let evaluated = &mut self.predicates_evaluated;
            if !self.predicates.holds(rest, self.message, self.values, self.epoch, evaluated) {
                return;
            }
        }
        *found = self.epoch;
        self.matched.push(*filter);
    }
}

/// The same buffer without values, so that it can outlive the message (collecting reuses it in place).
fn emptied(mut values: Vec<Value<'_>>) -> Vec<Value<'static>> {
    values.clear();
    values.into_iter().map(|_| Value::Null).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emptying_the_values_keeps_their_buffer() {
        let text = String::from("of a message");
        let values = vec![Value::Str(&text); 10];
        let buffer = values.as_ptr() as usize;
        let emptied = emptied(values);
        assert_eq!((emptied.as_ptr() as usize, emptied.capacity(), emptied.len()), (buffer, 10, 0));
    }
}
