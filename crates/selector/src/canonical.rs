//! From the parse tree to the canonical form: one form for all ways of writing the same condition that can be
//! told apart cheaply. Every step preserves the meaning in three-valued logic, for every type of every
//! attribute; this is why `NOT (x < 5)` does not become `x >= 5`: with a string in `x` the first is true and
//! the second is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{ComparisonOp, Expression};
use crate::condition::{Condition, Leaf, Literal, Operand, Predicate};
use crate::eval;
use crate::like::Pattern;
use crate::number::Number;
use crate::value::Truth;

/// The canonical form of a parsed condition.
pub(crate) fn condition(expression: Expression) -> Condition {
    lower(expression, false)
}

fn lower(expression: Expression, negated: bool) -> Condition {
    match expression {
        Expression::Bool(value) => Condition::Constant(value != negated),
        Expression::Identifier(name) => compare(
            Operand::Name(name.into()),
            ComparisonOp::Equal,
            Operand::Literal(Literal::Bool(true)),
            negated,
        ),
        Expression::Not(operand) => lower(*operand, !negated),
        Expression::And(parts) => join(parts.into_iter().map(|part| lower(part, negated)), !negated),
        Expression::Or(parts) => join(parts.into_iter().map(|part| lower(part, negated)), negated),
        Expression::Comparison { op, left, right } => compare(operand(*left), op, operand(*right), negated),
        Expression::Between { negated: outside, operand: tested, low, high } => {
            let (tested, low, high) = (operand(*tested), operand(*low), operand(*high));
            let (low_op, high_op) = if outside {
                (ComparisonOp::Less, ComparisonOp::Greater)
            } else {
                (ComparisonOp::GreaterOrEqual, ComparisonOp::LessOrEqual)
            };
            let sides =
                [compare(tested.clone(), low_op, low, negated), compare(tested, high_op, high, negated)];
            join(sides, outside == negated)
        }
        Expression::In { negated: outside, identifier, values } => {
            let (name, negated) = (Arc::<str>::from(identifier), outside != negated);
            let found = one_of(name.clone(), values.into_iter().map(Arc::from).collect(), negated);
            of_text(name, found, negated)
        }
        Expression::Like { negated: outside, identifier, pattern } => {
            let (name, negated) = (Arc::<str>::from(identifier), outside != negated);
            of_text(name.clone(), like(name, pattern, negated), negated)
        }
        Expression::IsNull { negated: outside, identifier } => {
            leaf(Predicate::IsNull { name: identifier.into() }, outside != negated)
        }
        // The parser has refused these where a condition belongs.
        Expression::Text(_)
        | Expression::Number(_)
        | Expression::Sign { .. }
        | Expression::Arithmetic { .. } => Condition::Constant(false),
    }
}

fn leaf(predicate: Predicate, negated: bool) -> Condition {
    Condition::Leaf(Leaf { predicate, negated })
}

fn operand(expression: Expression) -> Operand {
    match expression {
        Expression::Identifier(name) => Operand::Name(name.into()),
        Expression::Text(text) => Operand::Literal(Literal::Text(text.into())),
        Expression::Number(number) => Operand::Literal(Literal::Number(number)),
        Expression::Bool(value) => Operand::Literal(Literal::Bool(value)),
        Expression::Sign { minus, operand: signed } => sign(minus, operand(*signed)),
        Expression::Arithmetic { op, left, right } => arithmetic(op, operand(*left), operand(*right)),
        condition => boolean(lower(condition, false)),
    }
}

/// A condition as an operand.
pub(crate) fn boolean(condition: Condition) -> Operand {
    match condition {
        Condition::Constant(value) => Operand::Literal(Literal::Bool(value)),
        condition => Operand::Condition(Box::new(condition)),
    }
}

/// `+operand` or `-operand`.
pub(crate) fn sign(minus: bool, operand: Operand) -> Operand {
    match operand {
        Operand::Literal(Literal::Number(number)) => {
            Operand::Literal(Literal::Number(if minus { number.negate() } else { number }))
        }
        // A plus changes nothing about what is a number already.
        Operand::Sign { .. } | Operand::Arithmetic { .. } if !minus => operand,
        operand => Operand::Sign { minus, operand: Box::new(operand) },
    }
}

/// `left op right`, computed here if both are known.
pub(crate) fn arithmetic(op: crate::number::ArithmeticOp, left: Operand, right: Operand) -> Operand {
    if let (Operand::Literal(Literal::Number(a)), Operand::Literal(Literal::Number(b))) = (&left, &right)
        && let Some(result) = a.combine(op, *b)
        && result.is_finite()
    {
        return Operand::Literal(Literal::Number(result));
    }
    Operand::Arithmetic { op, left: Box::new(left), right: Box::new(right) }
}

/// `left op right` as a condition.
pub(crate) fn compare(left: Operand, op: ComparisonOp, right: Operand, negated: bool) -> Condition {
    let (left, op, right) = if left > right { (right, op.mirrored(), left) } else { (left, op, right) };
    match (left, right) {
        (Operand::Condition(condition), Operand::Literal(Literal::Bool(value))) if op.is_equality() => {
            let differs = value != (op == ComparisonOp::Equal);
            if differs != negated { negate(*condition) } else { *condition }
        }
        (Operand::Sign { minus: false, operand }, Operand::Literal(literal @ Literal::Number(_)))
            if matches!(*operand, Operand::Name(_)) =>
        {
            compare(*operand, op, Operand::Literal(literal), negated)
        }
        (Operand::Name(name), Operand::Literal(literal)) => {
            let literal = comparison_literal(literal);
            leaf(Predicate::Compare { name, op, literal }, negated)
        }
        (Operand::Literal(left), Operand::Literal(right)) => {
            match eval::compare_literals(&left, op, &right).negated_if(negated) {
                Truth::True => Condition::Constant(true),
                Truth::False => Condition::Constant(false),
                Truth::Unknown => {
                    let (left, right) = (Operand::Literal(left), Operand::Literal(right));
                    leaf(Predicate::Relation { left, op, right }, negated)
                }
            }
        }
        (left, right) => leaf(Predicate::Relation { left, op, right }, negated),
    }
}

/// In a comparison with an attribute, `5` and `5L` say the same, and so do `0.0` and `-0.0`.
fn comparison_literal(literal: Literal) -> Literal {
    match literal {
        Literal::Number(Number::Int(value)) => Literal::Number(Number::Long(value.into())),
        Literal::Number(Number::Float(0.0)) => Literal::Number(Number::Float(0.0)),
        Literal::Number(Number::Double(0.0)) => Literal::Number(Number::Double(0.0)),
        other => other,
    }
}

/// `name [NOT] IN (values)`.
pub(crate) fn one_of(name: Arc<str>, mut values: Vec<Arc<str>>, negated: bool) -> Condition {
    values.sort_unstable();
    values.dedup();
    if values.len() == 1 {
        let literal = Literal::Text(values.remove(0));
        return leaf(Predicate::Compare { name, op: ComparisonOp::Equal, literal }, negated);
    }
    leaf(Predicate::In { name, values }, negated)
}

/// `IN` and `LIKE` of an attribute that is no string are unknown, and so are their negations: neither selects a message.
/// Negations are at the leaves, where unknown is as good as false. So a negated one asks for a string as well.
fn of_text(name: Arc<str>, found: Condition, negated: bool) -> Condition {
    if !negated {
        return found;
    }
    let is_text = leaf(Predicate::Like { name, pattern: Pattern::anything() }, false);
    join([found, is_text], true)
}

/// `name [NOT] LIKE pattern`; without a wildcard that is an equality.
pub(crate) fn like(name: Arc<str>, pattern: Pattern, negated: bool) -> Condition {
    match pattern.exact() {
        Some(text) => one_of(name, vec![text.into()], negated),
        None => leaf(Predicate::Like { name, pattern }, negated),
    }
}

/// The negation of a canonical condition (De Morgan).
pub(crate) fn negate(condition: Condition) -> Condition {
    match condition {
        Condition::Constant(value) => Condition::Constant(!value),
        Condition::Leaf(Leaf { predicate, negated }) => leaf(predicate, !negated),
        Condition::All(parts) => join(parts.into_iter().map(negate), false),
        Condition::Any(parts) => join(parts.into_iter().map(negate), true),
    }
}

/// All of the parts, or any of them: flat, sorted, without repetitions and constants.
pub(crate) fn join(parts: impl IntoIterator<Item = Condition>, all: bool) -> Condition {
    let mut flat = Vec::new();
    for part in parts {
        match part {
            Condition::Constant(value) if value == all => {}
            Condition::Constant(_) => return Condition::Constant(!all),
            Condition::All(nested) if all => flat.extend(nested),
            Condition::Any(nested) if !all => flat.extend(nested),
            other => flat.push(other),
        }
    }
    flat.sort_unstable();
    flat.dedup();
    let mut flat = merge_equalities(flat, all);
    match flat.len() {
        0 => Condition::Constant(all),
        1 => flat.remove(0),
        _ if all => Condition::All(flat),
        _ => Condition::Any(flat),
    }
}

/// `x = 'a' OR x = 'b'` is `x IN ('a', 'b')`, and `NOT x = 'a' AND NOT x = 'b'` is `NOT x IN ('a', 'b')`.
fn merge_equalities(parts: Vec<Condition>, all: bool) -> Vec<Condition> {
    let mut merged: Vec<Condition> = Vec::new();
    let mut sets: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
    let mut add = |name, values: Vec<Arc<str>>| sets.entry(name).or_default().extend(values);
    for part in parts {
        match part {
            Condition::Leaf(Leaf {
                predicate: Predicate::Compare { name, op: ComparisonOp::Equal, literal: Literal::Text(text) },
                negated,
            }) if negated == all => add(name, vec![text]),
            Condition::Leaf(Leaf { predicate: Predicate::In { name, values }, negated })
                if negated == all =>
            {
                add(name, values);
            }
            other => merged.push(other),
        }
    }
    if sets.is_empty() {
        return merged;
    }
    merged.extend(sets.into_iter().map(|(name, values)| one_of(name, values, all)));
    merged.sort_unstable();
    merged
}
