//! Putting filters into posting lists, and taking them out again.

use std::sync::Arc;

use crate::condition::{Condition, Leaf, Predicate};
use crate::index::attribute::Attribute;
use crate::index::guard::{GuardedTest, Guards};
use crate::index::plan::{BranchPlan, PlannedTest, Planner};
use crate::index::posting::{Access, Entry, ONE_OF_MAX, Place, Side, TESTS_MAX, Test};
use crate::index::predicates::Formula;
use crate::index::slots::{PostingId, TextSet};
use crate::index::{Branch, BranchTests, FilterId, SelectorIndex};

impl SelectorIndex {
    /// Puts a filter's branches into posting lists.
    pub(super) fn file(&mut self, id: FilterId, condition: &Condition) {
        let planner = Planner { slots: &self.slots, attributes: &self.attributes };
        let plans = planner.branches(condition);
        let branches = plans.into_iter().map(|plan| self.file_branch(id, plan)).collect();
        if let Some(filter) = self.filters.get_mut(id.0) {
            filter.branches = branches;
        }
    }

    fn file_branch(&mut self, filter: FilterId, plan: BranchPlan) -> u32 {
        let mut tests = [Test::Always; TESTS_MAX];
        let heads: Vec<_> = plan.tests.iter().map(PlannedTest::head).collect();
        for (place, planned) in tests.iter_mut().zip(plan.tests) {
            *place = self.test(planned);
        }
        let guards = Guards::of(tests.iter().zip(&heads).map(|(test, head)| {
            let set = match test {
                Test::InSet { set, .. } => self.sets.get(*set),
                _ => None,
            };
            GuardedTest { test, head, texts: set.map_or(test.postings(), |set| set) }
        }));
        let slots = &self.slots;
        let slot_of = |leaf: &Leaf| match &leaf.predicate {
            Predicate::Compare { name, .. }
            | Predicate::In { name, .. }
            | Predicate::Like { name, .. }
            | Predicate::IsNull { name } => slots.get(name).copied(),
            Predicate::Relation { .. } => None,
        };
        let mut rest: Vec<_> = plan.rest.iter().map(|part| self.predicates.acquire(part, &slot_of)).collect();
        let rest = match rest.len() {
            0 => None,
            1 => rest.pop(),
            _ => Some(Formula::All(rest.into())),
        };
        let row = BranchTests { tests, filter, has_rest: rest.is_some() };
        let branch = self.branches.insert(Branch { rest, places: Vec::new() });
        self.tests.resize(self.branches.bound(), row);
        self.tests[branch as usize] = row;
        let entry = Entry { branch, guards };
        let places = plan.accesses.into_iter().map(|access| self.file_entry(access, entry));
        let places = places.collect();
        if let Some(branch) = self.branches.get_mut(branch) {
            branch.places = places;
        }
        branch
    }

    fn file_entry(&mut self, access: Access, entry: Entry) -> Place {
        let (slot, domain, side, key) = match access {
            Access::Above { slot, domain, key } => (slot, domain, Side::Above, key),
            Access::Below { slot, domain, key } => (slot, domain, Side::Below, key),
            access => {
                let posting = self.posting(access);
                return Place::Posting { posting, position: self.postings.push(posting, entry) };
            }
        };
        if let Some(attribute) = self.attributes.get_mut(slot) {
            attribute.thresholds(domain, side).insert(key, entry);
        }
        Place::Threshold { slot, domain, side, key }
    }

    fn test(&mut self, planned: PlannedTest) -> Test {
        match planned {
            PlannedTest::Range { slot, range } => Test::range(slot, range),
            PlannedTest::Bool { slot, value } => Test::Bool { slot, value },
            PlannedTest::Prefix { slot, bytes } => {
                Test::Prefix { slot, prefix: self.referred_posting(Access::Prefix { slot, bytes }) }
            }
            PlannedTest::Texts { slot, texts } => {
                let mut number =
                    |text: &Arc<str>| self.referred_posting(Access::Text { slot, text: (&**text).into() });
                match &*texts {
                    [text] => Test::Text { slot, text: number(text) },
                    texts if texts.len() <= ONE_OF_MAX => {
                        // A short list is filled up with its first text, which changes nothing.
                        let number = |index| number(texts.get(index).unwrap_or(&texts[0]));
                        Test::OneOf { slot, texts: std::array::from_fn(number) }
                    }
                    texts => {
                        let mut set: TextSet = texts.iter().map(number).collect();
                        set.sort_unstable();
                        Test::InSet { slot, set: self.sets.insert(set) }
                    }
                }
            }
        }
    }

    fn referred_posting(&mut self, access: Access) -> PostingId {
        let posting = self.posting(access);
        self.postings.refer(posting);
        posting
    }

    fn posting(&mut self, access: Access) -> PostingId {
        let Some(slot) = Attribute::slot_of(&access) else {
            return self.always;
        };
        let Some(attribute) = self.attributes.get_mut(slot) else {
            return self.always;
        };
        let (postings, absences) = (&mut self.postings, &mut self.watched_absences);
        attribute.posting(&access, || {
            if matches!(access, Access::Absent { .. }) {
                absences.push(slot);
            }
            postings.insert(access.clone())
        })
    }

    /// Takes a filter's branches out of their posting lists.
    pub(super) fn unfile(&mut self, id: FilterId) {
        let Some(filter) = self.filters.get_mut(id.0) else {
            return;
        };
        for branch in std::mem::take(&mut filter.branches) {
            let Some(removed) = self.branches.remove(branch) else {
                continue;
            };
            for place in &removed.places {
                self.remove_entry(branch, *place);
            }
            if let Some(rest) = &removed.rest {
                self.predicates.release(rest);
            }
            for test in self.tests[branch as usize].tests {
                self.release_test(test);
            }
        }
    }

    fn release_test(&mut self, test: Test) {
        let set = match test {
            Test::InSet { set, .. } => self.sets.remove(set).unwrap_or_default(),
            _ => TextSet::default(),
        };
        for posting in test.postings().iter().chain(&set) {
            self.postings.release(*posting);
            self.drop_unused(*posting);
        }
    }

    fn remove_entry(&mut self, branch: u32, place: Place) {
        match place {
            Place::Threshold { slot, domain, side, key } => {
                if let Some(attribute) = self.attributes.get_mut(slot) {
                    attribute.thresholds(domain, side).remove(key, branch);
                }
            }
            Place::Posting { posting, position } => {
                if let Some((moved, from)) = self.postings.swap_remove(posting, position) {
                    self.relocate(moved, posting, from, position);
                }
                self.drop_unused(posting);
            }
        }
    }

    /// Notes that an entry of the branch was moved within its posting list.
    fn relocate(&mut self, branch: u32, list: PostingId, from: u32, to: u32) {
        let Some(branch) = self.branches.get_mut(branch) else {
            return;
        };
        for place in &mut branch.places {
            if let Place::Posting { posting, position } = place
                && (*posting, *position) == (list, from)
            {
                *position = to;
            }
        }
    }

    fn drop_unused(&mut self, posting: PostingId) {
        let Some(access) = self.postings.drop_unused(posting) else {
            return;
        };
        let Some(slot) = Attribute::slot_of(&access) else {
            return;
        };
        if matches!(access, Access::Absent { .. }) {
            self.watched_absences.retain(|watched| *watched != slot);
        }
        if let Some(attribute) = self.attributes.get_mut(slot) {
            attribute.forget(&access);
        }
    }
}
