//! Posting lists: what may match once one predicate is known to hold.

use crate::index::guard::Guards;
use crate::index::range::{Domain, Ends, Range};
use crate::index::slab::Slab;
use crate::index::slots::{Class, PostingId, Slot, View};

/// How many tests a branch has; guards made from two of them stand beside each of its entries.
pub(crate) const TESTS_MAX: usize = 3;
/// How many texts a [`Test::OneOf`] holds; longer lists are kept elsewhere.
pub(crate) const ONE_OF_MAX: usize = 4;

/// A predicate in a form that is decided by the value of one slot, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Test {
    Always,
    // The two kinds of [`Range`], taken apart so that the slot fits in beside it.
    Exact { slot: Slot, ends: Ends, low: i64, high: i64 },
    Double { slot: Slot, low: f64, high: f64 },
    Text { slot: Slot, text: PostingId },
    OneOf { slot: Slot, texts: [PostingId; ONE_OF_MAX] },
    InSet { slot: Slot, set: u32 },
    Prefix { slot: Slot, prefix: PostingId },
    Bool { slot: Slot, value: bool },
}

impl Test {
    pub(crate) fn range(slot: Slot, range: Range) -> Self {
        match range {
            Range::Exact { low, high, ends } => Self::Exact { slot, ends, low, high },
            Range::Double { low, high } => Self::Double { slot, low, high },
        }
    }

    #[inline]
    pub(crate) fn passes(&self, view: View<'_>) -> bool {
        match self {
            Self::Always => true,
            Self::Exact { slot, ends, low, high } => {
                let range = Range::Exact { low: *low, high: *high, ends: *ends };
                range.contains(&view.states[*slot as usize])
            }
            Self::Double { slot, low, high } => {
                let range = Range::Double { low: *low, high: *high };
                range.contains(&view.states[*slot as usize])
            }
            Self::Text { slot, text } => view.states[*slot as usize].text == *text,
            Self::OneOf { slot, texts } => texts.contains(&view.states[*slot as usize].text),
            Self::InSet { slot, set } => {
                let text = &view.states[*slot as usize].text;
                view.sets.get(*set).is_some_and(|texts| texts.binary_search(text).is_ok())
            }
            Self::Prefix { slot, prefix } => view.prefixes_of(*slot).contains(prefix),
            Self::Bool { slot, value } => {
                let state = &view.states[*slot as usize];
                state.class == Class::Bool && state.exact == i64::from(*value)
            }
        }
    }

    /// The posting lists that the test refers to, unless through a set.
    pub(crate) fn postings(&self) -> &[PostingId] {
        match self {
            Self::Text { text, .. } => std::slice::from_ref(text),
            Self::OneOf { texts, .. } => texts,
            Self::Prefix { prefix, .. } => std::slice::from_ref(prefix),
            _ => &[],
        }
    }
}

/// One branch of one filter, in the posting list of a predicate that it needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub branch: u32,
    pub guards: Guards,
}

/// Which predicate a posting list belongs to, and so where it is found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Access {
    /// The attribute is this text.
    Text { slot: Slot, text: Box<str> },
    /// The attribute is a text that begins with these bytes.
    Prefix { slot: Slot, bytes: Box<[u8]> },
    /// The attribute is a number in this bin.
    Bin { slot: Slot, domain: Domain, level: u8, bin: i64 },
    /// The attribute is a number not below this key. Thresholds have no posting lists of their own.
    Above { slot: Slot, domain: Domain, key: i64 },
    /// The attribute is a number not above this key.
    Below { slot: Slot, domain: Domain, key: i64 },
    /// The attribute is this boolean.
    Bool { slot: Slot, value: bool },
    /// The attribute is not null.
    Present { slot: Slot },
    /// The attribute is null.
    Absent { slot: Slot },
    /// Nothing is needed: looked at for every message.
    Always,
}

/// Where a branch is filed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// In a posting list.
    Posting { posting: PostingId, position: u32 },
    /// Among the thresholds of an attribute.
    Threshold { slot: Slot, domain: Domain, side: Side, key: i64 },
}

/// Whether a threshold is a lower or an upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Above,
    Below,
}

/// What is known of a posting list besides its entries.
#[derive(Debug)]
pub(crate) struct PostingMeta {
    pub access: Access,
    /// How many tests refer to the posting list as a text or prefix.
    pub test_references: u32,
}

/// All posting lists. The entries are kept apart from what matching does not need.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    metas: Slab<PostingMeta>,
    entries: Vec<Vec<Entry>>,
}

impl Postings {
    pub(crate) fn insert(&mut self, access: Access) -> PostingId {
        let id = self.metas.insert(PostingMeta { access, test_references: 0 });
        self.entries.resize_with(self.metas.bound(), Vec::new);
        id
    }

    #[inline]
    pub(crate) fn entries(&self, posting: PostingId) -> &[Entry] {
        self.entries.get(posting as usize).map_or(&[], |entries| entries)
    }

    /// Appends an entry; returns its position.
    pub(crate) fn push(&mut self, posting: PostingId, entry: Entry) -> u32 {
        let entries = &mut self.entries[posting as usize];
        entries.push(entry);
        entries.len() as u32 - 1
    }

    /// Removes an entry by moving the last one into its place; returns the branch that moved and its old
    /// position.
    pub(crate) fn swap_remove(&mut self, posting: PostingId, position: u32) -> Option<(u32, u32)> {
        let entries = &mut self.entries[posting as usize];
        entries.swap_remove(position as usize);
        let moved = entries.get(position as usize)?;
        Some((moved.branch, entries.len() as u32))
    }

    pub(crate) fn refer(&mut self, posting: PostingId) {
        if let Some(meta) = self.metas.get_mut(posting) {
            meta.test_references += 1;
        }
    }

    pub(crate) fn release(&mut self, posting: PostingId) {
        if let Some(meta) = self.metas.get_mut(posting) {
            meta.test_references -= 1;
        }
    }

    /// Drops the list if nothing is in it and nothing refers to it; returns where it was found.
    pub(crate) fn drop_unused(&mut self, posting: PostingId) -> Option<Access> {
        let meta = self.metas.get(posting)?;
        if meta.test_references > 0 || !self.entries(posting).is_empty() {
            return None;
        }
        self.entries[posting as usize] = Vec::new();
        self.metas.remove(posting).map(|meta| meta.access)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let entries: usize = self.entries.iter().map(Vec::capacity).sum();
        self.metas.heap_bytes()
            + self.entries.capacity() * size_of::<Vec<Entry>>()
            + entries * size_of::<Entry>()
    }
}
