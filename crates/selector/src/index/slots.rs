//! The attributes that the index knows, each in a slot, and their values in the message at hand.

use crate::index::slab::Slab;
use crate::value::Value;

/// Which attribute.
pub(crate) type Slot = u32;
/// Which posting list; of a text, also the number by which tests know the text.
pub(crate) type PostingId = u32;

/// No posting: the text is in no selector.
pub(crate) const NO_POSTING: PostingId = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Class {
    #[default]
    Null,
    Bool,
    /// `byte`, `short`, `int` or `long`
    Exact,
    Float,
    Double,
    Text,
}

/// An attribute's value, taken apart once so that testing it is a comparison of two machine words.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SlotState {
    pub class: Class,
    /// The posting list of this very text.
    pub text: PostingId,
    /// An exact number, or a boolean as 0 or 1.
    pub exact: i64,
    /// Any number, as a `double`.
    pub double: f64,
    /// Which of the message's prefixes are those of this text.
    pub prefixes: PrefixSpan,
}

/// A piece of the list of all prefixes that were found in a message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PrefixSpan {
    pub start: u32,
    pub end: u32,
}

/// The message at hand, as tests see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub states: &'a [SlotState],
    /// The posting lists of the prefixes that the message's texts begin with.
    pub prefixes: &'a [PostingId],
    pub sets: &'a Slab<TextSet>,
}

/// A long list of texts, sorted by their numbers.
pub(crate) type TextSet = Box<[PostingId]>;

impl View<'_> {
    pub(crate) fn prefixes_of(&self, slot: Slot) -> &[PostingId] {
        let PrefixSpan { start, end } = self.states[slot as usize].prefixes;
        &self.prefixes[start as usize..end as usize]
    }
}

impl SlotState {
    /// The state of a value; what is known of a text besides, the attribute fills in.
    pub(crate) fn new(value: Value<'_>) -> Self {
        let exact = |value: i64| Self::of(Class::Exact, value, value as f64);
        match value {
            Value::Null => Self::of(Class::Null, 0, f64::NAN),
            Value::Bool(v) => Self::of(Class::Bool, v.into(), f64::NAN),
            Value::Byte(v) => exact(v.into()),
            Value::Short(v) => exact(v.into()),
            Value::Int(v) => exact(v.into()),
            Value::Long(v) => exact(v),
            Value::Float(v) => Self::of(Class::Float, 0, v.into()),
            Value::Double(v) => Self::of(Class::Double, 0, v),
            Value::Str(_) => Self::of(Class::Text, 0, f64::NAN),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.class == Class::Null
    }

    fn of(class: Class, exact: i64, double: f64) -> Self {
        Self { class, text: NO_POSTING, exact, double, prefixes: PrefixSpan::default() }
    }
}
