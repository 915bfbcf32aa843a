//! Numeric comparisons with literals, as ranges.
//!
//! Literals come in two domains. A `double` literal makes every comparison a comparison of `double`s. An
//! exact literal is compared exactly with an exact number, but is itself promoted to `float` or `double`
//! before it is compared with one, so a range of exact literals keeps its bounds as they were written and
//! tests each class of value by its rule.

use crate::ast::ComparisonOp;
use crate::condition::Literal;
use crate::index::slots::{Class, SlotState};
use crate::number::Number;

/// Which ends a range of exact literals has, and which of them are excluded: a set of bits, so that a
/// [`Range`] stays three words long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends(u8);

impl Ends {
    pub(crate) const LOW: Self = Self(1);
    pub(crate) const LOW_EXCLUDED: Self = Self(1 | 2);
    pub(crate) const HIGH: Self = Self(4);
    pub(crate) const HIGH_EXCLUDED: Self = Self(4 | 8);

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a value has to lie in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Range {
    /// The closed range of exact numbers; the literals themselves are one further out where they are
    /// excluded.
    Exact { low: i64, high: i64, ends: Ends },
    /// Both ends included: excluding a `double` is including its neighbour.
    Double { low: f64, high: f64 },
}

impl Range {
    /// The range in which `attribute op literal` holds, if it is one that can be indexed.
    pub(crate) fn of(op: ComparisonOp, literal: &Literal) -> Option<Self> {
        let Literal::Number(number) = literal else {
            return None;
        };
        match *number {
            Number::Long(value) => Self::exact(op, value),
            Number::Double(value) => Self::double(op, value),
            Number::Int(_) | Number::Float(_) => None,
        }
    }

    fn exact(op: ComparisonOp, value: i64) -> Option<Self> {
        // At the very ends an excluded bound has no neighbour.
        if value == i64::MIN || value == i64::MAX {
            return None;
        }
        let (low, high, ends) = match op {
            ComparisonOp::Equal => (value, value, Ends::LOW.with(Ends::HIGH)),
            ComparisonOp::Less => (i64::MIN, value - 1, Ends::HIGH_EXCLUDED),
            ComparisonOp::LessOrEqual => (i64::MIN, value, Ends::HIGH),
            ComparisonOp::Greater => (value + 1, i64::MAX, Ends::LOW_EXCLUDED),
            ComparisonOp::GreaterOrEqual => (value, i64::MAX, Ends::LOW),
            ComparisonOp::NotEqual => return None,
        };
        Some(Self::Exact { low, high, ends })
    }

    fn double(op: ComparisonOp, value: f64) -> Option<Self> {
        let (low, high) = match op {
            ComparisonOp::Equal => (value, value),
            ComparisonOp::Less => (f64::NEG_INFINITY, value.next_down()),
            ComparisonOp::LessOrEqual => (f64::NEG_INFINITY, value),
            ComparisonOp::Greater => (value.next_up(), f64::INFINITY),
            ComparisonOp::GreaterOrEqual => (value, f64::INFINITY),
            ComparisonOp::NotEqual => return None,
        };
        Some(Self::Double { low, high })
    }

    /// Both at once, if one is a lower and the other an upper bound in the same domain.
    pub(crate) fn joined(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Exact { low, ends: lower, .. }, Self::Exact { high, ends: upper, .. })
                if !lower.has(Ends::HIGH) && !upper.has(Ends::LOW) =>
            {
                Some(Self::Exact { low, high, ends: lower.with(upper) })
            }
            (Self::Exact { ends: upper, .. }, Self::Exact { ends: lower, .. })
                if !lower.has(Ends::HIGH) && !upper.has(Ends::LOW) =>
            {
                other.joined(self)
            }
            (Self::Double { low: a, high: b }, Self::Double { low: c, high: d })
                if (b == f64::INFINITY && c == f64::NEG_INFINITY)
                    || (a == f64::NEG_INFINITY && d == f64::INFINITY) =>
            {
                Some(Self::Double { low: a.max(c), high: b.min(d) })
            }
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn contains(&self, state: &SlotState) -> bool {
        match *self {
            Self::Double { low, high } => low <= state.double && state.double <= high,
            Self::Exact { low, high, .. } if state.class == Class::Exact => {
                low <= state.exact && state.exact <= high
            }
            Self::Exact { low, high, ends } => promoted_contains(low, high, ends, state),
        }
    }

    /// The range in keys: integers in the order of the values, closed at both ends. May be a little too wide.
    pub(crate) fn keys(&self) -> (Option<i64>, Option<i64>) {
        match *self {
            Self::Exact { low, high, ends } => (
                ends.has(Ends::LOW).then(|| low - i64::from(ends.has(Ends::LOW_EXCLUDED))),
                ends.has(Ends::HIGH).then(|| high + i64::from(ends.has(Ends::HIGH_EXCLUDED))),
            ),
            Self::Double { low, high } => (
                (low != f64::NEG_INFINITY).then(|| double_key(low)),
                (high != f64::INFINITY).then(|| double_key(high)),
            ),
        }
    }

    pub(crate) fn domain(&self) -> Domain {
        match self {
            Self::Exact { .. } => Domain::Exact,
            Self::Double { .. } => Domain::Double,
        }
    }
}

/// An exact range and a value that is not an exact number.
#[cold]
fn promoted_contains(low: i64, high: i64, ends: Ends, state: &SlotState) -> bool {
    match state.class {
        Class::Double => within(low, high, ends, state.double, |bound| bound as f64),
        Class::Float => within(low, high, ends, state.double as f32, |bound| bound as f32),
        Class::Null | Class::Bool | Class::Text | Class::Exact => false,
    }
}

/// Compares with the literals as they were written, after promoting them.
fn within<T: PartialOrd>(low: i64, high: i64, ends: Ends, value: T, promoted: impl Fn(i64) -> T) -> bool {
    let above = !ends.has(Ends::LOW) || {
        let excluded = ends.has(Ends::LOW_EXCLUDED);
        let literal = promoted(low - i64::from(excluded));
        literal < value || (!excluded && literal == value)
    };
    let below = !ends.has(Ends::HIGH) || {
        let excluded = ends.has(Ends::HIGH_EXCLUDED);
        let literal = promoted(high + i64::from(excluded));
        value < literal || (!excluded && literal == value)
    };
    above && below
}

/// The type of literal that a numeric index is keyed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    Exact,
    Double,
}

/// An integer that orders as the number does; both zeros have the same.
pub(crate) fn double_key(value: f64) -> i64 {
    let bits = (value + 0.0).to_bits() as i64;
    if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
}

/// Where to look for a value among ranges of exact literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExactKey {
    /// In every range that contains this key.
    At(i64),
    /// Promotion rounds literals of this size, so any of them may be equal to the value.
    Anywhere,
}

/// The largest magnitudes up to which every integer is a `float` or `double` of its own.
pub(crate) const FLOAT_EXACT_MAX: f64 = 16_777_216.0;
const DOUBLE_EXACT_MAX: f64 = 9_007_199_254_740_992.0;

impl ExactKey {
    /// `None` for what is not a number.
    pub(crate) fn of(state: &SlotState) -> Option<Self> {
        let bound = match state.class {
            Class::Exact => return Some(Self::At(state.exact)),
            Class::Float => FLOAT_EXACT_MAX,
            Class::Double => DOUBLE_EXACT_MAX,
            Class::Null | Class::Bool | Class::Text => return None,
        };
        if state.double.is_nan() {
            None
        } else if state.double.abs() < bound {
            Some(Self::At(state.double.floor() as i64))
        } else {
            Some(Self::Anywhere)
        }
    }
}
