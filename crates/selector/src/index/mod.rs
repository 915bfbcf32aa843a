//! Which of many selectors match a message, without evaluating each of them.
//!
//! Identical filters are kept once, with the list of their subscribers. Each filter is filed under the
//! predicate that is expected to hold least often ([`plan`]); a message opens only the posting lists of
//! predicates that hold for it, found by hash, bin or threshold ([`attribute`]). Beside an entry stands a
//! guard ([`guard`]), behind it up to three exact tests ([`posting`]), and only what passes them has its
//! remaining predicates evaluated, each of those once per message ([`predicates`]).

mod attribute;
mod filing;
mod guard;
pub mod hash;
mod matching;
mod plan;
mod posting;
mod predicates;
mod range;
mod sample;
mod slab;
mod slots;
mod thresholds;
mod verdicts;

use std::sync::Arc;

use crate::condition::{Condition, Name};
use crate::selector::Selector;
use crate::value::Value;
use attribute::Attribute;
use guard::Views;
use hash::{Seed, SeededMap};
use posting::{Access, Place, Postings, TESTS_MAX, Test};
use predicates::{Formula, Predicates};
use slab::Slab;
use slots::{PostingId, Slot, SlotState, TextSet};
pub use verdicts::Verdicts;

/// Up to this many filters are evaluated one by one, unless told otherwise.
const EVALUATED_FILTERS_MAX: usize = 16;

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

/// What is needed to decide most branches, in one row.
#[derive(Debug, Clone, Copy)]
struct BranchTests {
    tests: [Test; TESTS_MAX],
    filter: FilterId,
    has_rest: bool,
}

#[derive(Debug)]
struct Branch {
    rest: Option<Formula>,
    places: Vec<Place>,
}

/// An index over any number of selectors. Not shared between threads: matching remembers what it has
/// evaluated.
#[derive(Debug)]
pub struct SelectorIndex {
    seed: Seed,
    filters: Slab<Filter>,
    by_condition: SeededMap<Arc<Condition>, FilterId>,
    branches: Slab<Branch>,
    /// By branch; apart from the branches, because many more branches are tested than match.
    tests: Vec<BranchTests>,
    postings: Postings,
    always: PostingId,
    sets: Slab<TextSet>,
    slots: SeededMap<Name, Slot>,
    attributes: Slab<Attribute>,
    /// Slots with a posting list for messages without the attribute.
    watched_absences: Vec<Slot>,
    predicates: Predicates,
    next_tuned: u32,
    evaluated_filters_max: usize,
    counters: Counters,
    epoch: u64,
    /// The epoch in which each filter was last found.
    found: Vec<u64>,
    /// The epoch in which each filter was last evaluated because it was asked for.
    asked: Vec<u64>,
    matched: Vec<FilterId>,
    states: Vec<SlotState>,
    views: Views,
    values: Vec<Value<'static>>,
    present: Vec<Slot>,
    prefixes: Vec<PostingId>,
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
        let mut postings = Postings::default();
        let always = postings.insert(Access::Always);
        postings.refer(always);
        Self {
            seed,
            filters: Slab::default(),
            by_condition: SeededMap::with_hasher(seed),
            branches: Slab::default(),
            tests: Vec::new(),
            postings,
            always,
            sets: Slab::default(),
            slots: SeededMap::with_hasher(seed),
            attributes: Slab::default(),
            watched_absences: Vec::new(),
            predicates: Predicates::new(seed),
            next_tuned: 0,
            evaluated_filters_max: EVALUATED_FILTERS_MAX,
            counters: Counters::default(),
            epoch: 0,
            found: Vec::new(),
            asked: Vec::new(),
            matched: Vec::new(),
            states: Vec::new(),
            views: Views::default(),
            values: Vec::new(),
            present: Vec::new(),
            prefixes: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// The same index, but up to `filters` filters are evaluated one by one, which is cheaper for a few of
    /// them than taking a message apart.
    #[must_use]
    pub fn evaluating_up_to(mut self, filters: usize) -> Self {
        self.evaluated_filters_max = filters;
        self
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
        let Some(id) = self.by_condition.get(selector.condition()).copied() else {
            return false;
        };
        let Some(filter) = self.filters.get_mut(id.0) else {
            return false;
        };
        let Ok(position) = filter.subscribers.binary_search(&subscriber) else {
            return false;
        };
        filter.subscribers.remove(position);
        if filter.subscribers.is_empty() {
            self.remove_filter(id);
        }
        true
    }

    /// Files up to `count` filters anew, by what the latest messages looked like; the next call goes on from
    /// there.
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
        self.asked.resize(self.filters.bound(), 0);
        self.asked[id.0 as usize] = 0;
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
        let Some(filter) = self.filters.remove(id.0) else {
            return;
        };
        self.by_condition.remove(&filter.condition);
        for name in Selector::from(filter.condition).names() {
            let Some(slot) = self.slots.get(&name).copied() else {
                continue;
            };
            let Some(attribute) = self.attributes.get_mut(slot) else {
                continue;
            };
            attribute.references -= 1;
            if attribute.references == 0 {
                self.slots.remove(&name);
                self.attributes.remove(slot);
            }
        }
    }

    /// About how much memory the index holds on the heap, the selectors' own conditions included.
    pub fn heap_bytes(&self) -> usize {
        let branches: usize =
            self.branches.iter().map(|branch| branch.places.capacity() * size_of::<Place>()).sum();
        let filters: usize = self.filters.iter().map(filter_bytes).sum();
        let attributes: usize = self.attributes.iter().map(Attribute::heap_bytes).sum();
        self.postings.heap_bytes()
            + self.branches.heap_bytes()
            + self.tests.capacity() * size_of::<BranchTests>()
            + branches
            + self.filters.heap_bytes()
            + filters
            + self.by_condition.capacity() * (size_of::<(Arc<Condition>, FilterId)>() + 1)
            + self.attributes.heap_bytes()
            + attributes
            + self.predicates.heap_bytes()
            + self.sets.heap_bytes()
            + self.sets.iter().map(|set| size_of_val(&**set)).sum::<usize>()
            + (self.found.capacity() + self.asked.capacity()) * size_of::<u64>()
    }
}

fn filter_bytes(filter: &Filter) -> usize {
    let vectors = filter.subscribers.capacity() * size_of::<SubscriberId>()
        + filter.branches.capacity() * size_of::<u32>();
    vectors + filter.condition.heap_bytes()
}
