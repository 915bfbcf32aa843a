//! The canonical form as text, which parses back to the same canonical form.

use std::fmt::{self, Display, Formatter};

use crate::condition::{Condition, Leaf, Literal, Operand, Predicate};
use crate::like::Pattern;
use crate::number::{ArithmeticOp, Number};

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write_bool(f, *value),
            Self::Leaf(leaf) => leaf.fmt(f),
            Self::All(parts) => write_all(f, parts),
            Self::Any(parts) => write_any(f, parts),
        }
    }
}

fn write_any(f: &mut Formatter<'_>, parts: &[Condition]) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        // AND binds tighter than OR: it needs no parentheses.
        write!(f, "{}{part}", if index > 0 { " OR " } else { "" })?;
    }
    Ok(())
}

/// `name NOT IN (…)` and `name NOT LIKE …` say also that the name is a string. The sign of that is among the parts.
fn write_all(f: &mut Formatter<'_>, parts: &[Condition]) -> fmt::Result {
    let is_denied = |part: &Condition, name: &str| match part {
        Condition::Leaf(Leaf { predicate, negated: true }) => of_text(predicate) == Some(name),
        _ => false,
    };
    let mut separator = "";
    for part in parts {
        if let Some(name) = part.text_name()
            && parts.iter().any(|other| is_denied(other, name))
        {
            continue;
        }
        f.write_str(separator)?;
        separator = " AND ";
        match part {
            Condition::Leaf(Leaf { predicate, negated: true })
                if of_text(predicate)
                    .is_some_and(|name| parts.iter().any(|other| other.text_name() == Some(name))) =>
            {
                write_of_text(f, predicate, "NOT ")?;
            }
            // AND binds tighter than OR.
            Condition::Any(_) => write!(f, "({part})")?,
            part => part.fmt(f)?,
        }
    }
    Ok(())
}

/// The name that `IN` or `LIKE` asks for.
fn of_text(predicate: &Predicate) -> Option<&str> {
    match predicate {
        Predicate::In { name, .. } | Predicate::Like { name, .. } => Some(name),
        _ => None,
    }
}

impl Condition {
    /// The name of which this says that it is a string.
    fn text_name(&self) -> Option<&str> {
        match self {
            Self::Leaf(Leaf { predicate: Predicate::Like { name, pattern }, negated: false })
                if *pattern == Pattern::anything() =>
            {
                Some(name)
            }
            _ => None,
        }
    }
}

fn write_of_text(f: &mut Formatter<'_>, predicate: &Predicate, not: &str) -> fmt::Result {
    match predicate {
        Predicate::In { name, values } => {
            write!(f, "{name} {not}IN (")?;
            for (index, value) in values.iter().enumerate() {
                f.write_str(if index > 0 { ", " } else { "" })?;
                write_text(f, value)?;
            }
            f.write_str(")")
        }
        Predicate::Like { name, pattern } => write!(f, "{name} {not}LIKE {pattern}"),
        _ => Ok(()),
    }
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
            // `x NOT IN` would also say that x is a string.
            Predicate::In { .. } | Predicate::Like { .. } if self.negated => {
                f.write_str("(")?;
                write_of_text(f, &self.predicate, "")?;
                f.write_str(") = FALSE")
            }
            predicate @ (Predicate::In { .. } | Predicate::Like { .. }) => write_of_text(f, predicate, ""),
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
