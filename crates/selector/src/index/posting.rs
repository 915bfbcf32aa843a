//! Posting lists: what may match once one predicate is known to hold.

use crate::index::range::{Domain, Range};
use crate::index::slots::{Class, PostingId, Slot, SlotState};

/// How many tests are kept beside each entry, where they cost no further memory access.
pub(crate) const TESTS_MAX: usize = 2;
/// How many texts a [`Test::OneOf`] holds; longer lists are evaluated.
pub(crate) const ONE_OF_MAX: usize = 4;

/// A predicate in a form that is decided by the value of one slot, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Test {
    Always,
    Range { slot: Slot, range: Range },
    Text { slot: Slot, text: PostingId },
    OneOf { slot: Slot, texts: [PostingId; ONE_OF_MAX] },
    Bool { slot: Slot, value: bool },
}

impl Test {
    #[inline]
    pub(crate) fn passes(&self, slots: &[SlotState]) -> bool {
        match self {
            Self::Always => true,
            Self::Range { slot, range } => range.contains(&slots[*slot as usize]),
            Self::Text { slot, text } => slots[*slot as usize].text == *text,
            Self::OneOf { slot, texts } => texts.contains(&slots[*slot as usize].text),
            Self::Bool { slot, value } => {
                let state = &slots[*slot as usize];
                state.class == Class::Bool && state.exact == i64::from(*value)
            }
        }
    }

    /// The texts whose posting lists the test refers to.
    pub(crate) fn texts(&self) -> &[PostingId] {
        match self {
            Self::Text { text, .. } => std::slice::from_ref(text),
            Self::OneOf { texts, .. } => texts,
            _ => &[],
        }
    }
}

/// One branch of one filter, in the posting list of a predicate that it needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub branch: u32,
    /// Whether passing the tests is not enough and the branch has a rest to evaluate.
    pub has_rest: bool,
    pub tests: [Test; TESTS_MAX],
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
    /// The attribute is a number not below this key.
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

#[derive(Debug)]
pub(crate) struct Posting {
    pub access: Access,
    pub entries: Vec<Entry>,
    /// How many tests refer to the posting as a text.
    pub test_references: u32,
}

impl Posting {
    pub(crate) fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.test_references == 0
    }
}
