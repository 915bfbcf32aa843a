//! What a condition says of a message (section 3.8.1).
//!
//! An operand of the wrong type makes a comparison false; a null makes it unknown, whatever the other side
//! is. An arithmetic expression over something that is no number has no value ([`Term::Invalid`]) and
//! compares false with everything; dividing a whole number by zero gives null.

use std::cmp::Ordering;

use crate::ast::ComparisonOp;
use crate::condition::{Condition, Leaf, Literal, Operand, Predicate};
use crate::number::Number;
use crate::value::{Attributes, Truth, Value};

/// The value of an operand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Term<'a> {
    Null,
    Invalid,
    Bool(bool),
    Number(Number),
    Text(&'a str),
}

impl<'a> From<Value<'a>> for Term<'a> {
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(v) => Self::Bool(v),
            Value::Byte(v) => Self::Number(Number::Int(v.into())),
            Value::Short(v) => Self::Number(Number::Int(v.into())),
            Value::Int(v) => Self::Number(Number::Int(v)),
            Value::Long(v) => Self::Number(Number::Long(v)),
            Value::Float(v) => Self::Number(Number::Float(v)),
            Value::Double(v) => Self::Number(Number::Double(v)),
            Value::Str(v) => Self::Text(v),
        }
    }
}

impl<'a> From<&'a Literal> for Term<'a> {
    fn from(literal: &'a Literal) -> Self {
        match literal {
            Literal::Bool(v) => Self::Bool(*v),
            Literal::Number(v) => Self::Number(*v),
            Literal::Text(v) => Self::Text(v),
        }
    }
}

/// `left op right`.
pub(crate) fn compare(left: Term<'_>, op: ComparisonOp, right: Term<'_>) -> Truth {
    match (left, right) {
        (Term::Null, _) | (_, Term::Null) => Truth::Unknown,
        (Term::Number(a), Term::Number(b)) => number_holds(a.compare(b), op).into(),
        (Term::Text(a), Term::Text(b)) => equality_holds(a == b, op).into(),
        (Term::Bool(a), Term::Bool(b)) => equality_holds(a == b, op).into(),
        _ => Truth::False,
    }
}

pub(crate) fn compare_literals(left: &Literal, op: ComparisonOp, right: &Literal) -> Truth {
    compare(left.into(), op, right.into())
}

/// As in Java, NaN differs from everything and has no order.
fn number_holds(ordering: Option<Ordering>, op: ComparisonOp) -> bool {
    match op {
        ComparisonOp::Equal => ordering == Some(Ordering::Equal),
        ComparisonOp::NotEqual => ordering != Some(Ordering::Equal),
        ComparisonOp::Less => ordering == Some(Ordering::Less),
        ComparisonOp::LessOrEqual => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        ComparisonOp::Greater => ordering == Some(Ordering::Greater),
        ComparisonOp::GreaterOrEqual => {
            matches!(ordering, Some(Ordering::Greater | Ordering::Equal))
        }
    }
}

fn equality_holds(equal: bool, op: ComparisonOp) -> bool {
    match op {
        ComparisonOp::Equal => equal,
        ComparisonOp::NotEqual => !equal,
        _ => false,
    }
}

impl Condition {
    /// Whether the condition is true of the message; false and unknown are the same here.
    #[inline]
    pub fn holds<A: Attributes + ?Sized>(&self, message: &A) -> bool {
        match self {
            Self::Constant(value) => *value,
            Self::Leaf(leaf) => leaf.truth(message) == Truth::True,
            Self::All(parts) => all_hold(parts, message),
            Self::Any(parts) => any_holds(parts, message),
        }
    }

    /// The condition's value in three-valued logic.
    pub fn truth<A: Attributes + ?Sized>(&self, message: &A) -> Truth {
        match self {
            Self::Constant(value) => (*value).into(),
            Self::Leaf(leaf) => leaf.truth(message),
            Self::All(parts) => parts.iter().fold(Truth::True, |sum, part| sum.and(part.truth(message))),
            Self::Any(parts) => parts.iter().fold(Truth::False, |sum, part| sum.or(part.truth(message))),
        }
    }
}

// Apart from `holds`, which then does not call itself and can be inlined: most selectors are one predicate.
fn all_hold<A: Attributes + ?Sized>(parts: &[Condition], message: &A) -> bool {
    parts.iter().all(|part| part.holds(message))
}

fn any_holds<A: Attributes + ?Sized>(parts: &[Condition], message: &A) -> bool {
    parts.iter().any(|part| part.holds(message))
}

impl Leaf {
    /// The value in three-valued logic.
    #[inline]
    pub fn truth<A: Attributes + ?Sized>(&self, message: &A) -> Truth {
        self.predicate.truth(message).negated_if(self.negated)
    }
}

impl Predicate {
    /// The value in three-valued logic.
    #[inline]
    pub fn truth<A: Attributes + ?Sized>(&self, message: &A) -> Truth {
        match self {
            Self::Relation { left, op, right } => compare(left.term(message), *op, right.term(message)),
            Self::Compare { name, .. }
            | Self::In { name, .. }
            | Self::Like { name, .. }
            | Self::IsNull { name } => self.truth_of(message.get(name)),
        }
    }

    /// The value of a predicate on one attribute, given the attribute's value.
    #[inline]
    pub(crate) fn truth_of(&self, value: Value<'_>) -> Truth {
        // What selectors ask most often, without a detour over terms.
        match (self, value) {
            (Self::Compare { op, literal: Literal::Text(wanted), .. }, Value::Str(text)) => {
                equality_holds(*text == **wanted, *op).into()
            }
            (
                Self::Compare { op, literal: Literal::Number(Number::Long(wanted)), .. },
                Value::Long(number),
            ) => number_holds(Some(number.cmp(wanted)), *op).into(),
            _ => self.truth_of_any(value),
        }
    }

    fn truth_of_any(&self, value: Value<'_>) -> Truth {
        match (self, value) {
            (Self::IsNull { .. }, value) => (value == Value::Null).into(),
            (_, Value::Null) => Truth::Unknown,
            (Self::Compare { op, literal, .. }, value) => compare(value.into(), *op, literal.into()),
            (Self::In { values, .. }, Value::Str(text)) => {
                values.binary_search_by(|candidate| (**candidate).cmp(text)).is_ok().into()
            }
            (Self::Like { pattern, .. }, Value::Str(text)) => pattern.matches(text).into(),
            _ => Truth::False,
        }
    }
}

impl Operand {
    fn term<'a, A: Attributes + ?Sized>(&'a self, message: &'a A) -> Term<'a> {
        match self {
            Self::Name(name) => message.get(name).into(),
            Self::Literal(literal) => literal.into(),
            Self::Sign { minus, operand } => match operand.term(message) {
                Term::Null => Term::Null,
                Term::Number(number) if *minus => Term::Number(number.negate()),
                Term::Number(number) => Term::Number(number),
                _ => Term::Invalid,
            },
            Self::Arithmetic { op, left, right } => match (left.term(message), right.term(message)) {
                (Term::Null, _) | (_, Term::Null) => Term::Null,
                (Term::Number(a), Term::Number(b)) => a.combine(*op, b).map_or(Term::Null, Term::Number),
                _ => Term::Invalid,
            },
            Self::Condition(condition) => match condition.truth(message) {
                Truth::True => Term::Bool(true),
                Truth::False => Term::Bool(false),
                Truth::Unknown => Term::Null,
            },
        }
    }
}
