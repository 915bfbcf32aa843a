//! The canonical form of a selector, which is what is evaluated, indexed, printed and sent.
//!
//! Negations are pushed down to the predicates, so that above them there are only `AND` and `OR`. Both are
//! monotone in three-valued logic: such a formula is true exactly when it is true of the predicates *that are
//! true*. Matching therefore needs no third value above the predicates, and an index may ignore every
//! predicate that is not true.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::ast::ComparisonOp;
use crate::like::Pattern;
use crate::number::{ArithmeticOp, Number};

/// The name of a header field or property, shared between the predicates that mention it.
pub type Name = Arc<str>;

/// A condition in canonical form; [`crate::canonical`] builds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// Always true, or always false.
    Constant(bool),
    /// One predicate or its negation.
    Leaf(Leaf),
    /// All of these: at least two, sorted, none of them an `All`.
    All(Vec<Condition>),
    /// Any of these: at least two, sorted, none of them an `Any`.
    Any(Vec<Condition>),
}

/// A predicate or its negation. The negation of an unknown predicate is unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaf {
    /// What is tested.
    pub predicate: Predicate,
    /// Whether `NOT` stands before it.
    pub negated: bool,
}

/// A test of a message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Predicate {
    /// `name op literal`
    Compare {
        /// The attribute.
        name: Name,
        /// How it is compared.
        op: ComparisonOp,
        /// With what: an exact number is always a `long` here.
        literal: Literal,
    },
    /// `name IN ('a', 'b')`: at least two values, sorted.
    In {
        /// The attribute.
        name: Name,
        /// The texts of which it must be one.
        values: Vec<Arc<str>>,
    },
    /// `name LIKE 'pattern'`, with at least one wildcard.
    Like {
        /// The attribute.
        name: Name,
        /// What it must fit.
        pattern: Pattern,
    },
    /// `name IS NULL`
    IsNull {
        /// The attribute.
        name: Name,
    },
    /// A comparison of any other two operands.
    Relation {
        /// The left operand.
        left: Operand,
        /// How they are compared.
        op: ComparisonOp,
        /// The right operand, never sorted before the left one.
        right: Operand,
    },
}

/// What a [`Predicate::Relation`] compares.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operand {
    /// An attribute.
    Name(Name),
    /// `-operand` or `+operand`
    Sign {
        /// Minus or plus.
        minus: bool,
        /// The number.
        operand: Box<Operand>,
    },
    /// `left op right`
    Arithmetic {
        /// What is done.
        op: ArithmeticOp,
        /// The left operand.
        left: Box<Operand>,
        /// The right operand.
        right: Box<Operand>,
    },
    /// A condition in parentheses, compared as a boolean.
    Condition(Box<Condition>),
    /// A literal. Last, so that it sorts to the right of everything else.
    Literal(Literal),
}

/// A literal.
#[derive(Debug, Clone)]
pub enum Literal {
    /// `TRUE` or `FALSE`
    Bool(bool),
    /// A number; its type decides how Java promotes.
    Number(Number),
    /// A string.
    Text(Arc<str>),
}

/// Literals are the same when they have the same type and bits: `0.0` is not `-0.0`, and `1` is not `1.0`.
type Identity<'a> = (u8, u64, &'a str);

impl Literal {
    fn identity(&self) -> Identity<'_> {
        const SIGN: u64 = 1 << 63;
        match self {
            Self::Bool(value) => (0, u64::from(*value), ""),
            Self::Number(Number::Int(value)) => (1, i64::from(*value) as u64 ^ SIGN, ""),
            Self::Number(Number::Long(value)) => (2, *value as u64 ^ SIGN, ""),
            Self::Number(Number::Float(value)) => (3, u64::from(value.to_bits()), ""),
            Self::Number(Number::Double(value)) => (4, value.to_bits(), ""),
            Self::Text(value) => (5, 0, value),
        }
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Literal {}

impl PartialOrd for Literal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Literal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl Hash for Literal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl Condition {
    /// Shows every attribute name that the condition mentions, repetitions included.
    pub fn visit_names<'a>(&'a self, visitor: &mut dyn FnMut(&'a Name)) {
        match self {
            Self::Constant(_) => {}
            Self::Leaf(leaf) => leaf.predicate.visit_names(visitor),
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.visit_names(visitor)),
        }
    }
}

impl Condition {
    /// About how much memory the condition takes, itself included.
    pub(crate) fn heap_bytes(&self) -> usize {
        let parts = match self {
            Self::Constant(_) => 0,
            Self::Leaf(leaf) => leaf.predicate.heap_bytes(),
            Self::All(parts) | Self::Any(parts) => parts.iter().map(Self::heap_bytes).sum(),
        };
        size_of::<Self>() + parts
    }
}

/// The two reference counts before a shared text.
const SHARED_HEADER_BYTES: usize = 2 * size_of::<usize>();

impl Predicate {
    fn heap_bytes(&self) -> usize {
        let shared = |text: &Arc<str>| text.len() + SHARED_HEADER_BYTES;
        let mut bytes = 0;
        self.visit_names(&mut |name| bytes += shared(name));
        bytes += match self {
            Self::Compare { literal: Literal::Text(text), .. } => shared(text),
            Self::In { values, .. } => values.iter().map(|value| shared(value) + size_of::<Arc<str>>()).sum(),
            _ => 0,
        };
        bytes
    }

    /// Shows every attribute name that the predicate mentions, repetitions included.
    pub fn visit_names<'a>(&'a self, visitor: &mut dyn FnMut(&'a Name)) {
        match self {
            Self::Compare { name, .. }
            | Self::In { name, .. }
            | Self::Like { name, .. }
            | Self::IsNull { name } => {
                visitor(name);
            }
            Self::Relation { left, right, .. } => {
                left.visit_names(visitor);
                right.visit_names(visitor);
            }
        }
    }
}

impl Operand {
    fn visit_names<'a>(&'a self, visitor: &mut dyn FnMut(&'a Name)) {
        match self {
            Self::Name(name) => visitor(name),
            Self::Sign { operand, .. } => operand.visit_names(visitor),
            Self::Arithmetic { left, right, .. } => {
                left.visit_names(visitor);
                right.visit_names(visitor);
            }
            Self::Condition(condition) => condition.visit_names(visitor),
            Self::Literal(_) => {}
        }
    }
}
