//! The canonical form as text, which parses back to the same canonical form.

use std::fmt::{self, Display, Formatter};

use crate::condition::{Condition, Leaf, Literal, Operand, Predicate};
use crate::number::{ArithmeticOp, Number};

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write_bool(f, *value),
            Self::Leaf(leaf) => leaf.fmt(f),
            Self::All(parts) => write_joined(f, parts, " AND "),
            Self::Any(parts) => write_joined(f, parts, " OR "),
        }
    }
}

fn write_joined(f: &mut Formatter<'_>, parts: &[Condition], operator: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(operator)?;
        }
        // AND binds tighter than OR; an AND inside an OR needs no parentheses.
        if matches!(part, Condition::Any(_)) { write!(f, "({part})")? } else { part.fmt(f)? }
    }
    Ok(())
}

fn write_bool(f: &mut Formatter<'_>, value: bool) -> fmt::Result {
    f.write_str(if value { "TRUE" } else { "FALSE" })
}

impl Display for Leaf {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let not = if self.negated { "NOT " } else { "" };
        match &self.predicate {
            Predicate::Compare { name, op, literal: Literal::Number(Number::Long(value)) } => {
                write!(f, "{not}{name} {} {value}", op.symbol())
            }
            Predicate::Compare { name, op, literal } => {
                write!(f, "{not}{name} {} {literal}", op.symbol())
            }
            Predicate::In { name, values } => {
                // `x NOT IN` would also say that x is a string.
                write!(f, "{not}{name} IN (")?;
                for (index, value) in values.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    write_text(f, value)?;
                }
                f.write_str(")")
            }
            Predicate::Like { name, pattern } => write!(f, "{name} {not}LIKE {pattern}"),
            Predicate::IsNull { name } => write!(f, "{name} IS {not}NULL"),
            Predicate::Relation { left, op, right } => {
                write!(f, "{not}{} {} {}", Nested(left, SUM), op.symbol(), Nested(right, SUM))
            }
        }
    }
}

const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const SIGN: u8 = 3;

/// An operand where operators looser than the level need parentheses.
struct Nested<'a>(&'a Operand, u8);

impl Display for Nested<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(operand, loosest) = *self;
        match operand {
            Operand::Name(name) => f.write_str(name),
            Operand::Literal(literal) => literal.fmt(f),
            Operand::Condition(condition) => write!(f, "({condition})"),
            Operand::Sign { minus, operand } => {
                write!(f, "{}{}", if *minus { "-" } else { "+" }, Nested(operand, SIGN))
            }
            Operand::Arithmetic { op, left, right } => {
                let (level, symbol) = match op {
                    ArithmeticOp::Add => (SUM, "+"),
                    ArithmeticOp::Subtract => (SUM, "-"),
                    ArithmeticOp::Multiply => (PRODUCT, "*"),
                    ArithmeticOp::Divide => (PRODUCT, "/"),
                };
                let (open, close) = if level < loosest { ("(", ")") } else { ("", "") };
                write!(f, "{open}{} {symbol} {}{close}", Nested(left, level), Nested(right, level + 1))
            }
        }
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write_bool(f, *value),
            Self::Number(Number::Int(value)) => value.fmt(f),
            Self::Number(Number::Long(value)) => write!(f, "{value}L"),
            Self::Number(Number::Float(value)) => write!(f, "{value:?}f"),
            Self::Number(Number::Double(value)) => write!(f, "{value:?}"),
            Self::Text(value) => write_text(f, value),
        }
    }
}

fn write_text(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}
