//! The parse tree: a selector as it was written, grouping resolved.

use crate::like::Pattern;
use crate::number::{ArithmeticOp, Number};

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComparisonOp {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl ComparisonOp {
    /// The operator that says the same with its operands exchanged.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            symmetric => symmetric,
        }
    }

    /// Whether strings and booleans may stand on its sides.
    pub(crate) fn is_equality(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual)
    }

    /// The operator as it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// An expression of any type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Identifier(String),
    Text(String),
    Number(Number),
    Bool(bool),
    Sign { minus: bool, operand: Box<Expression> },
    Arithmetic { op: ArithmeticOp, left: Box<Expression>, right: Box<Expression> },
    Comparison { op: ComparisonOp, left: Box<Expression>, right: Box<Expression> },
    Between { negated: bool, operand: Box<Expression>, low: Box<Expression>, high: Box<Expression> },
    In { negated: bool, identifier: String, values: Vec<String> },
    Like { negated: bool, identifier: String, pattern: Pattern },
    IsNull { negated: bool, identifier: String },
    Not(Box<Expression>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
}

/// What can be said of an expression's type without a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// An identifier: only the message knows.
    Any,
    Number,
    Text,
    Condition,
}

impl Type {
    /// What an error calls it.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Self::Any => "a name",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::Condition => "a condition",
        }
    }
}

impl Expression {
    pub(crate) fn is_literal(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Number(_) | Self::Bool(_))
    }

    pub(crate) fn type_of(&self) -> Type {
        match self {
            Self::Identifier(_) => Type::Any,
            Self::Text(_) => Type::Text,
            Self::Number(_) | Self::Sign { .. } | Self::Arithmetic { .. } => Type::Number,
            _ => Type::Condition,
        }
    }
}
