//! Which of many selectors match a message, without evaluating each of them.
//!
//! Identical filters are kept once, with the list of their subscribers. Each filter is filed under the predicate that
//! is expected to hold least often ([`plan`]); a message opens only the posting lists of predicates that hold for it,
//! found by hash, bin or threshold ([`attribute`]). Beside an entry stand up to two exact tests ([`posting`]), and only
//! what passes them has its remaining predicates evaluated, each of those once per message ([`predicates`]).

mod attribute;
pub(crate) mod hash;
mod plan;
mod posting;
mod predicates;
mod range;
mod sample;
mod slab;
mod slots;

use std::sync::Arc;

use crate::condition::{Condition, Leaf, Name, Predicate};
use crate::selector::Selector;
use crate::value::{Attributes, Value};
use attribute::Attribute;
use hash::{Seed, SeededMap};
use plan::{BranchPlan, PlannedTest, Planner};
use posting::{Access, Entry, ONE_OF_MAX, Posting, TESTS_MAX, Test};
use predicates::{Formula, Predicates};
use slab::Slab;
use slots::{PostingId, Slot, SlotState};

/// One message in this many is sampled for [`SelectorIndex::tune`].
const SAMPLING_INTERVAL: u64 = 32;

/// A distinct filter in an index. Numbers of removed filters are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterId(u32);

/// Whoever asked for a filter; the caller gives out the numbers.
pub type SubscriberId = u64;

/// What matching has done since the index was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Messages matched.
    pub messages: u64,
    /// Filters that had to be looked at, one by one.
    pub evaluations: u64,
    /// Predicates that neither an index nor a test beside an entry could decide.
    pub predicates_evaluated: u64,
    /// Filters that matched.
    pub matches: u64,
}

#[derive(Debug)]
struct Filter {
    condition: Arc<Condition>,
    /// Sorted.
    subscribers: Vec<SubscriberId>,
    branches: Vec<u32>,
}

#[derive(Debug)]
struct Branch {
    filter: FilterId,
    rest: Option<Formula>,
    tests: [Test; TESTS_MAX],
    places: Vec<Place>,
}

/// Where a branch stands in a posting list.
#[derive(Debug, Clone, Copy)]
struct Place {
    posting: PostingId,
    position: u32,
}

/// An index over any number of selectors. Not shared between threads: matching remembers what it has evaluated.
#[derive(Debug)]
pub struct SelectorIndex {
    seed: Seed,
    filters: Slab<Filter>,
    by_condition: SeededMap<Arc<Condition>, FilterId>,
    branches: Slab<Branch>,
    postings: Slab<Posting>,
    always: PostingId,
    slots: SeededMap<Name, Slot>,
    attributes: Slab<Attribute>,
    /// Slots with a posting list for messages without the attribute.
    watched_absences: Vec<Slot>,
    predicates: Predicates,
    next_tuned: u32,
    counters: Counters,
    epoch: u64,
    /// The epoch in which each filter was last found.
    found: Vec<u64>,
    matched: Vec<FilterId>,
    states: Vec<SlotState>,
    values: Vec<Value<'static>>,
    present: Vec<Slot>,
    opened: Vec<PostingId>,
}

/// What matched a message.
#[derive(Debug)]
pub struct Matches<'a> {
    index: &'a SelectorIndex,
}

impl<'a> Matches<'a> {
    /// The distinct filters that matched, in no particular order.
    pub fn filters(&self) -> &'a [FilterId] {
        &self.index.matched
    }

    /// Each filter that matched with its subscribers.
    pub fn subscribers(&self) -> impl Iterator<Item = (FilterId, &'a [SubscriberId])> {
        let index = self.index;
        index.matched.iter().map(|filter| (*filter, index.subscribers(*filter)))
    }
}

impl SelectorIndex {
    /// An empty index. The seed keys its hash tables; give each process one that outsiders cannot guess.
    pub fn new(seed: u64) -> Self {
        let seed = Seed(seed);
        let mut postings = Slab::default();
        let always =
            postings.insert(Posting { access: Access::Always, entries: Vec::new(), test_references: 1 });
        Self {
            seed,
            filters: Slab::default(),
            by_condition: SeededMap::with_hasher(seed),
            branches: Slab::default(),
            postings,
            always,
            slots: SeededMap::with_hasher(seed),
            attributes: Slab::default(),
            watched_absences: Vec::new(),
            predicates: Predicates::new(seed),
            next_tuned: 0,
            counters: Counters::default(),
            epoch: 0,
            found: Vec::new(),
            matched: Vec::new(),
            states: Vec::new(),
            values: Vec::new(),
            present: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// How many distinct filters there are.
    pub fn len(&self) -> usize {
        self.by_condition.len()
    }

    /// Whether there is no filter.
    pub fn is_empty(&self) -> bool {
        self.by_condition.is_empty()
    }

    /// What matching has done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The subscribers of a filter, sorted.
    pub fn subscribers(&self, filter: FilterId) -> &[SubscriberId] {
        self.filters.get(filter.0).map_or(&[], |filter| &filter.subscribers)
    }

    /// Adds a subscriber to a selector. Adding the same pair twice changes nothing.
    pub fn add(&mut self, selector: &Selector, subscriber: SubscriberId) -> FilterId {
        let id = match self.by_condition.get(selector.condition()) {
            Some(id) => *id,
            None => self.add_filter(selector),
        };
        if let Some(filter) = self.filters.get_mut(id.0)
            && let Err(position) = filter.subscribers.binary_search(&subscriber)
        {
            filter.subscribers.insert(position, subscriber);
        }
        id
    }

    /// Removes a subscriber from a selector; returns whether it was there.
    pub fn remove(&mut self, selector: &Selector, subscriber: SubscriberId) -> bool {
        let Some(id) = self.by_condition.get(selector.condition()).copied() else { return false };
        let Some(filter) = self.filters.get_mut(id.0) else { return false };
        let Ok(position) = filter.subscribers.binary_search(&subscriber) else { return false };
        filter.subscribers.remove(position);
        if filter.subscribers.is_empty() {
            self.remove_filter(id);
        }
        true
    }

    /// Files up to `count` filters anew, by what the latest messages looked like; the next call goes on from there.
    pub fn tune(&mut self, count: usize) {
        for _ in 0..count.min(self.filters.bound()) {
            let id = FilterId(self.next_tuned);
            self.next_tuned = (self.next_tuned + 1) % self.filters.bound() as u32;
            if let Some(condition) = self.filters.get(id.0).map(|filter| filter.condition.clone()) {
                self.unfile(id);
                self.file(id, &condition);
            }
        }
    }

    fn add_filter(&mut self, selector: &Selector) -> FilterId {
        let condition = selector.shared_condition();
        for name in selector.names() {
            let slot = match self.slots.get(&name) {
                Some(slot) => *slot,
                None => self.add_attribute(name),
            };
            if let Some(attribute) = self.attributes.get_mut(slot) {
                attribute.references += 1;
            }
        }
        let filter = Filter { condition: condition.clone(), subscribers: Vec::new(), branches: Vec::new() };
        let id = FilterId(self.filters.insert(filter));
        self.found.resize(self.filters.bound(), 0);
        self.found[id.0 as usize] = 0;
        self.by_condition.insert(condition.clone(), id);
        self.file(id, &condition);
        id
    }

    fn add_attribute(&mut self, name: Name) -> Slot {
        let slot = self.attributes.insert(Attribute::new(name.clone(), self.seed));
        self.slots.insert(name, slot);
        slot
    }

    fn remove_filter(&mut self, id: FilterId) {
        self.unfile(id);
        let Some(filter) = self.filters.remove(id.0) else { return };
        self.by_condition.remove(&filter.condition);
        for name in Selector::from(filter.condition).names() {
            let Some(slot) = self.slots.get(&name).copied() else { continue };
            let Some(attribute) = self.attributes.get_mut(slot) else { continue };
            attribute.references -= 1;
            if attribute.references == 0 {
                self.slots.remove(&name);
                self.attributes.remove(slot);
            }
        }
    }

    /// Puts a filter's branches into posting lists.
    fn file(&mut self, id: FilterId, condition: &Condition) {
        let planner = Planner { slots: &self.slots, attributes: &self.attributes };
        let plans = planner.branches(condition);
        let branches = plans.into_iter().map(|plan| self.file_branch(id, plan)).collect();
        if let Some(filter) = self.filters.get_mut(id.0) {
            filter.branches = branches;
        }
    }

    fn file_branch(&mut self, filter: FilterId, plan: BranchPlan) -> u32 {
        let mut tests = [Test::Always; TESTS_MAX];
        for (place, planned) in tests.iter_mut().zip(plan.tests) {
            *place = self.test(planned);
        }
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
        let has_rest = rest.is_some();
        let branch = self.branches.insert(Branch { filter, rest, tests, places: Vec::new() });
        let places = plan.accesses.into_iter().map(|access| {
            let posting = self.posting(access);
            let position = match self.postings.get_mut(posting) {
                Some(list) => {
                    list.entries.push(Entry { branch, has_rest, tests });
                    list.entries.len() as u32 - 1
                }
                None => 0,
            };
            Place { posting, position }
        });
        let places = places.collect();
        if let Some(branch) = self.branches.get_mut(branch) {
            branch.places = places;
        }
        branch
    }

    fn test(&mut self, planned: PlannedTest) -> Test {
        match planned {
            PlannedTest::Range { slot, range } => Test::Range { slot, range },
            PlannedTest::Bool { slot, value } => Test::Bool { slot, value },
            PlannedTest::Texts { slot, texts } => {
                let mut number = |text: &Arc<str>| {
                    let posting = self.posting(Access::Text { slot, text: (&**text).into() });
                    if let Some(list) = self.postings.get_mut(posting) {
                        list.test_references += 1;
                    }
                    posting
                };
                match &*texts {
                    [text] => Test::Text { slot, text: number(text) },
                    texts => {
                        // A short list is filled up with its first text, which changes nothing.
                        let numbers = std::array::from_fn(|index| number(texts.get(index).unwrap_or(&texts[0])));
                        Test::OneOf { slot, texts: numbers as [PostingId; ONE_OF_MAX] }
                    }
                }
            }
        }
    }

    fn posting(&mut self, access: Access) -> PostingId {
        let Some(slot) = Attribute::slot_of(&access) else { return self.always };
        let Some(attribute) = self.attributes.get_mut(slot) else { return self.always };
        let (postings, absences) = (&mut self.postings, &mut self.watched_absences);
        attribute.posting(&access, || {
            if matches!(access, Access::Absent { .. }) {
                absences.push(slot);
            }
            postings.insert(Posting { access: access.clone(), entries: Vec::new(), test_references: 0 })
        })
    }

    /// Takes a filter's branches out of their posting lists.
    fn unfile(&mut self, id: FilterId) {
        let Some(filter) = self.filters.get_mut(id.0) else { return };
        for branch in std::mem::take(&mut filter.branches) {
            let Some(branch) = self.branches.remove(branch) else { continue };
            for place in &branch.places {
                self.remove_entry(*place);
            }
            if let Some(rest) = &branch.rest {
                self.predicates.release(rest);
            }
            for posting in branch.tests.iter().flat_map(Test::texts) {
                if let Some(list) = self.postings.get_mut(*posting) {
                    list.test_references -= 1;
                }
                self.drop_if_unused(*posting);
            }
        }
    }

    fn remove_entry(&mut self, place: Place) {
        let Some(list) = self.postings.get_mut(place.posting) else { return };
        let last = list.entries.len() as u32 - 1;
        list.entries.swap_remove(place.position as usize);
        if let Some(moved) = list.entries.get(place.position as usize)
            && let Some(branch) = self.branches.get_mut(moved.branch)
        {
            let stale = |known: &&mut Place| known.posting == place.posting && known.position == last;
            if let Some(known) = branch.places.iter_mut().find(stale) {
                known.position = place.position;
            }
        }
        self.drop_if_unused(place.posting);
    }

    fn drop_if_unused(&mut self, posting: PostingId) {
        if !self.postings.get(posting).is_some_and(Posting::is_unused) {
            return;
        }
        let Some(Posting { access, .. }) = self.postings.remove(posting) else { return };
        let Some(slot) = Attribute::slot_of(&access) else { return };
        if matches!(access, Access::Absent { .. }) {
            self.watched_absences.retain(|watched| *watched != slot);
        }
        if let Some(attribute) = self.attributes.get_mut(slot) {
            attribute.forget(&access);
        }
    }

    /// Finds the filters that match a message. Allocates nothing once its buffers have grown.
    pub fn matches<A: Attributes + ?Sized>(&mut self, message: &A) -> Matches<'_> {
        self.epoch += 1;
        self.counters.messages += 1;
        self.matched.clear();
        let mut values: Vec<Value<'_>> = std::mem::take(&mut self.values);
        self.read(message, &mut values);
        self.open(&values);
        self.decide(message, &values);
        if self.epoch.is_multiple_of(SAMPLING_INTERVAL) {
            self.sample(&values);
        }
        self.values = emptied(values);
        self.counters.matches += self.matched.len() as u64;
        Matches { index: self }
    }

    /// Puts the message's values into their slots.
    fn read<'m, A: Attributes + ?Sized>(&mut self, message: &'m A, values: &mut Vec<Value<'m>>) {
        values.clear();
        values.resize(self.attributes.bound(), Value::Null);
        self.states.clear();
        self.states.resize(self.attributes.bound(), SlotState::new(Value::Null, |_| slots::NO_POSTING));
        self.present.clear();
        let (names, attributes, states, present) =
            (&self.slots, &self.attributes, &mut self.states, &mut self.present);
        message.visit(&mut |name, value| {
            let Some(slot) = names.get(name) else { return };
            let Some(attribute) = attributes.get(*slot) else { return };
            if value == Value::Null {
                return;
            }
            values[*slot as usize] = value;
            states[*slot as usize] =
                SlotState::new(value, |text| attribute.texts.get(text).copied().unwrap_or(slots::NO_POSTING));
            present.push(*slot);
        });
    }

    /// Collects the posting lists that the message opens.
    fn open(&mut self, values: &[Value<'_>]) {
        let opened = &mut self.opened;
        opened.clear();
        opened.push(self.always);
        for slot in &self.present {
            if let Some(attribute) = self.attributes.get(*slot) {
                let (state, value) = (&self.states[*slot as usize], values[*slot as usize]);
                attribute.open(state, value, &mut |posting| opened.push(posting));
            }
        }
        for slot in &self.watched_absences {
            if values[*slot as usize] == Value::Null
                && let Some(attribute) = self.attributes.get(*slot)
            {
                opened.push(attribute.absent());
            }
        }
    }

    /// Decides the entries of the opened posting lists.
    fn decide<A: Attributes + ?Sized>(&mut self, message: &A, values: &[Value<'_>]) {
        let mut looked_at = 0;
        for posting in &self.opened {
            let Some(list) = self.postings.get(*posting) else { continue };
            looked_at += list.entries.len() as u64;
            for entry in &list.entries {
                if !entry.tests.iter().all(|test| test.passes(&self.states)) {
                    continue;
                }
                let Some(branch) = self.branches.get(entry.branch) else { continue };
                let found = &mut self.found[branch.filter.0 as usize];
                if *found == self.epoch {
                    continue;
                }
                if entry.has_rest
                    && let Some(rest) = &branch.rest
                    && !self.predicates.holds(
                        rest,
                        message,
                        values,
                        self.epoch,
                        &mut self.counters.predicates_evaluated,
                    )
                {
                    continue;
                }
                *found = self.epoch;
                self.matched.push(branch.filter);
            }
        }
        self.counters.evaluations += looked_at;
    }

    fn sample(&mut self, values: &[Value<'_>]) {
        for (slot, value) in values.iter().enumerate() {
            if let Some(attribute) = self.attributes.get_mut(slot as Slot) {
                attribute.sample.record(*value);
            }
        }
    }

    /// About how much memory the index holds on the heap, the selectors' own conditions included.
    pub fn heap_bytes(&self) -> usize {
        let postings: usize =
            self.postings.iter().map(|list| list.entries.capacity() * size_of::<Entry>()).sum();
        let branches: usize =
            self.branches.iter().map(|branch| branch.places.capacity() * size_of::<Place>()).sum();
        let filters: usize = self.filters.iter().map(filter_bytes).sum();
        let attributes: usize = self.attributes.iter().map(Attribute::heap_bytes).sum();
        self.postings.heap_bytes()
            + postings
            + self.branches.heap_bytes()
            + branches
            + self.filters.heap_bytes()
            + filters
            + self.by_condition.capacity() * (size_of::<(Arc<Condition>, FilterId)>() + 1)
            + self.attributes.heap_bytes()
            + attributes
            + self.predicates.heap_bytes()
            + self.found.capacity() * size_of::<u64>()
    }
}

fn filter_bytes(filter: &Filter) -> usize {
    let vectors = filter.subscribers.capacity() * size_of::<SubscriberId>()
        + filter.branches.capacity() * size_of::<u32>();
    vectors + filter.condition.heap_bytes()
}

/// The same buffer without values, so that it can outlive the message (collecting reuses it in place).
fn emptied(mut values: Vec<Value<'_>>) -> Vec<Value<'static>> {
    values.clear();
    values.into_iter().map(|_| Value::Null).collect()
}
