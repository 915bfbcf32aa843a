//! The attributes that the index knows, each in a slot, and their values in the message at hand.

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
}

impl SlotState {
    pub(crate) fn new(value: Value<'_>, text_posting: impl FnOnce(&str) -> PostingId) -> Self {
        let exact = |value: i64| Self {
            class: Class::Exact,
            text: NO_POSTING,
            exact: value,
            double: value as f64,
        };
        let other = |class, exact, double| Self { class, text: NO_POSTING, exact, double };
        match value {
            Value::Null => other(Class::Null, 0, f64::NAN),
            Value::Bool(v) => other(Class::Bool, v.into(), f64::NAN),
            Value::Byte(v) => exact(v.into()),
            Value::Short(v) => exact(v.into()),
            Value::Int(v) => exact(v.into()),
            Value::Long(v) => exact(v),
            Value::Float(v) => other(Class::Float, 0, v.into()),
            Value::Double(v) => other(Class::Double, 0, v),
            Value::Str(v) => Self { text: text_posting(v), ..other(Class::Text, 0, f64::NAN) },
        }
    }
}
