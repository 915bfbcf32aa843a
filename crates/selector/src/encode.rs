//! The wire form of a selector: a version byte, then the canonical form in prefix order.
//!
//! What is decoded is built by the same functions that build the canonical form of a parsed selector, so
//! bytes from outside can describe a strange selector but never one that breaks the rules of the canonical
//! form.

use std::sync::Arc;

use crate::ast::ComparisonOp;
use crate::bytes::{Reader, put_count, put_text};
use crate::canonical;
use crate::condition::{Condition, Leaf, Literal, Name, Operand, Predicate};
use crate::error::DecodeError;
use crate::identifier;
use crate::lexer;
use crate::like::{Item, Pattern};
use crate::number::{ArithmeticOp, Number};
use crate::parser::{NESTING_MAX, SELECTOR_BYTES_MAX};

const VERSION: u8 = 1;
/// A canonical form can be larger than its source: `BETWEEN` writes its operand twice.
pub(crate) const ENCODED_BYTES_MAX: usize = 4 * SELECTOR_BYTES_MAX;
const DEPTH_MAX: usize = NESTING_MAX + 8;

mod tag {
    pub const FALSE: u8 = 0x00;
    pub const TRUE: u8 = 0x01;
    pub const ALL: u8 = 0x02;
    pub const ANY: u8 = 0x03;
    pub const COMPARE: u8 = 0x10;
    pub const IN: u8 = 0x11;
    pub const LIKE: u8 = 0x12;
    pub const IS_NULL: u8 = 0x13;
    pub const RELATION: u8 = 0x14;
    /// Set on the tag of a negated predicate.
    pub const NEGATED: u8 = 0x80;

    pub const NAME: u8 = 0x20;
    pub const MINUS: u8 = 0x21;
    pub const PLUS: u8 = 0x22;
    pub const ARITHMETIC: u8 = 0x23;
    pub const CONDITION: u8 = 0x24;

    pub const BOOL: u8 = 0x30;
    pub const INT: u8 = 0x31;
    pub const LONG: u8 = 0x32;
    pub const FLOAT: u8 = 0x33;
    pub const DOUBLE: u8 = 0x34;
    pub const TEXT: u8 = 0x35;

    pub const ITEM_TEXT: u8 = 0x40;
    pub const ITEM_SOME: u8 = 0x41;
    pub const ITEM_RUN: u8 = 0x42;
}

const COMPARISONS: [ComparisonOp; 6] = [
    ComparisonOp::Equal,
    ComparisonOp::NotEqual,
    ComparisonOp::Less,
    ComparisonOp::LessOrEqual,
    ComparisonOp::Greater,
    ComparisonOp::GreaterOrEqual,
];
const ARITHMETICS: [ArithmeticOp; 4] =
    [ArithmeticOp::Add, ArithmeticOp::Subtract, ArithmeticOp::Multiply, ArithmeticOp::Divide];

/// Appends the wire form of `condition`.
pub(crate) fn encode(condition: &Condition, out: &mut Vec<u8>) {
    out.push(VERSION);
    put_condition(condition, out);
}

fn put_condition(condition: &Condition, out: &mut Vec<u8>) {
    match condition {
        Condition::Constant(value) => out.push(if *value { tag::TRUE } else { tag::FALSE }),
        Condition::Leaf(leaf) => put_leaf(leaf, out),
        Condition::All(parts) | Condition::Any(parts) => {
            out.push(if matches!(condition, Condition::All(_)) { tag::ALL } else { tag::ANY });
            put_count(out, parts.len());
            parts.iter().for_each(|part| put_condition(part, out));
        }
    }
}

fn put_leaf(leaf: &Leaf, out: &mut Vec<u8>) {
    let negated = if leaf.negated { tag::NEGATED } else { 0 };
    match &leaf.predicate {
        Predicate::Compare { name, op, literal } => {
            out.extend([tag::COMPARE | negated, *op as u8]);
            put_text(out, name);
            put_literal(literal, out);
        }
        Predicate::In { name, values } => {
            out.push(tag::IN | negated);
            put_text(out, name);
            put_count(out, values.len());
            values.iter().for_each(|value| put_text(out, value));
        }
        Predicate::Like { name, pattern } => {
            out.push(tag::LIKE | negated);
            put_text(out, name);
            put_count(out, pattern.items().len());
            pattern.items().iter().for_each(|item| put_item(item, out));
        }
        Predicate::IsNull { name } => {
            out.push(tag::IS_NULL | negated);
            put_text(out, name);
        }
        Predicate::Relation { left, op, right } => {
            out.extend([tag::RELATION | negated, *op as u8]);
            put_operand(left, out);
            put_operand(right, out);
        }
    }
}

fn put_item(item: &Item, out: &mut Vec<u8>) {
    match item {
        Item::Text(text) => {
            out.push(tag::ITEM_TEXT);
            put_text(out, text);
        }
        Item::Some(count) => {
            out.push(tag::ITEM_SOME);
            out.extend(count.to_le_bytes());
        }
        Item::Run => out.push(tag::ITEM_RUN),
    }
}

fn put_literal(literal: &Literal, out: &mut Vec<u8>) {
    match literal {
        Literal::Bool(value) => out.extend([tag::BOOL, u8::from(*value)]),
        Literal::Number(Number::Int(value)) => {
            out.push(tag::INT);
            out.extend(value.to_le_bytes());
        }
        Literal::Number(Number::Long(value)) => {
            out.push(tag::LONG);
            out.extend(value.to_le_bytes());
        }
        Literal::Number(Number::Float(value)) => {
            out.push(tag::FLOAT);
            out.extend(value.to_le_bytes());
        }
        Literal::Number(Number::Double(value)) => {
            out.push(tag::DOUBLE);
            out.extend(value.to_le_bytes());
        }
        Literal::Text(value) => {
            out.push(tag::TEXT);
            put_text(out, value);
        }
    }
}

fn put_operand(operand: &Operand, out: &mut Vec<u8>) {
    match operand {
        Operand::Name(name) => {
            out.push(tag::NAME);
            put_text(out, name);
        }
        Operand::Sign { minus, operand } => {
            out.push(if *minus { tag::MINUS } else { tag::PLUS });
            put_operand(operand, out);
        }
        Operand::Arithmetic { op, left, right } => {
            out.extend([tag::ARITHMETIC, *op as u8]);
            put_operand(left, out);
            put_operand(right, out);
        }
        Operand::Condition(condition) => {
            out.push(tag::CONDITION);
            put_condition(condition, out);
        }
        Operand::Literal(literal) => put_literal(literal, out),
    }
}

/// Reads what [`encode`] wrote; all of `bytes` must belong to it.
pub(crate) fn decode(bytes: &[u8]) -> Result<Condition, DecodeError> {
    if bytes.len() > ENCODED_BYTES_MAX {
        return Err(DecodeError::TooLarge);
    }
    let mut decoder = Decoder { reader: Reader::new(bytes), depth: 0 };
    match decoder.reader.byte()? {
        VERSION => {}
        version => return Err(DecodeError::UnknownVersion(version)),
    }
    let condition = decoder.condition()?;
    decoder.reader.finish()?;
    Ok(condition)
}

struct Decoder<'a> {
    reader: Reader<'a>,
    depth: usize,
}

impl Decoder<'_> {
    fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.depth == DEPTH_MAX {
            return Err(DecodeError::TooLarge);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn condition(&mut self) -> Result<Condition, DecodeError> {
        let tag = self.reader.byte()?;
        let negated = tag & tag::NEGATED != 0;
        match tag & !tag::NEGATED {
            tag::FALSE | tag::TRUE if !negated => Ok(Condition::Constant(tag == tag::TRUE)),
            tag::ALL | tag::ANY if !negated => {
                let count = self.reader.count()?;
                let parts =
                    self.nested(|this| (0..count).map(|_| this.condition()).collect::<Result<Vec<_>, _>>())?;
                Ok(canonical::join(parts, tag == tag::ALL))
            }
            tag::COMPARE => {
                let op = self.comparison_op()?;
                let name = self.name()?;
                let tag = self.reader.byte()?;
                let literal = self.literal(tag)?;
                check_comparison(op, &literal)?;
                Ok(canonical::compare(Operand::Name(name), op, Operand::Literal(literal), negated))
            }
            tag::IN => {
                let name = self.name()?;
                let count = self.reader.count()?;
                if count == 0 {
                    return Err(DecodeError::InvalidOperand);
                }
                let values =
                    (0..count).map(|_| self.reader.text().map(Arc::from)).collect::<Result<Vec<_>, _>>()?;
                Ok(canonical::one_of(name, values, negated))
            }
            tag::LIKE => {
                let name = self.name()?;
                let count = self.reader.count()?;
                let items = (0..count).map(|_| self.item()).collect::<Result<Vec<_>, _>>()?;
                Ok(canonical::like(name, Pattern::from_items(items), negated))
            }
            tag::IS_NULL => {
                let predicate = Predicate::IsNull { name: self.name()? };
                Ok(Condition::Leaf(Leaf { predicate, negated }))
            }
            tag::RELATION => {
                let op = self.comparison_op()?;
                let left = self.nested(Self::operand)?;
                let right = self.nested(Self::operand)?;
                for operand in [&left, &right] {
                    match operand {
                        Operand::Literal(literal) => check_comparison(op, literal)?,
                        Operand::Condition(_) if !op.is_equality() => {
                            return Err(DecodeError::InvalidOperand);
                        }
                        _ => {}
                    }
                }
                Ok(canonical::compare(left, op, right, negated))
            }
            _ => Err(DecodeError::UnknownTag(tag)),
        }
    }

    fn operand(&mut self) -> Result<Operand, DecodeError> {
        match self.reader.byte()? {
            tag::NAME => Ok(Operand::Name(self.name()?)),
            sign @ (tag::MINUS | tag::PLUS) => {
                let operand = self.number_operand()?;
                Ok(canonical::sign(sign == tag::MINUS, operand))
            }
            tag::ARITHMETIC => {
                let op =
                    *ARITHMETICS.get(usize::from(self.reader.byte()?)).ok_or(DecodeError::InvalidOperand)?;
                let left = self.number_operand()?;
                let right = self.number_operand()?;
                Ok(canonical::arithmetic(op, left, right))
            }
            tag::CONDITION => self.nested(Self::condition).map(canonical::boolean),
            tag => self.literal(tag).map(Operand::Literal),
        }
    }

    /// An operand that arithmetic can take: the parser refuses strings and conditions there, and so do we.
    fn number_operand(&mut self) -> Result<Operand, DecodeError> {
        match self.nested(Self::operand)? {
            Operand::Condition(_) | Operand::Literal(Literal::Bool(_) | Literal::Text(_)) => {
                Err(DecodeError::InvalidOperand)
            }
            operand => Ok(operand),
        }
    }

    fn comparison_op(&mut self) -> Result<ComparisonOp, DecodeError> {
        COMPARISONS.get(usize::from(self.reader.byte()?)).copied().ok_or(DecodeError::InvalidOperand)
    }

    fn name(&mut self) -> Result<Name, DecodeError> {
        let name = self.reader.text()?;
        if identifier::is_valid(name) && lexer::keyword(name).is_none() {
            Ok(name.into())
        } else {
            Err(DecodeError::InvalidName)
        }
    }

    fn item(&mut self) -> Result<Item, DecodeError> {
        match self.reader.byte()? {
            tag::ITEM_TEXT => Ok(Item::Text(self.reader.text()?.into())),
            tag::ITEM_SOME => {
                let count = u32::from_le_bytes(self.reader.array()?);
                if count as usize > SELECTOR_BYTES_MAX {
                    Err(DecodeError::TooLarge)
                } else {
                    Ok(Item::Some(count))
                }
            }
            tag::ITEM_RUN => Ok(Item::Run),
            tag => Err(DecodeError::UnknownTag(tag)),
        }
    }

    fn literal(&mut self, tag: u8) -> Result<Literal, DecodeError> {
        let number = match tag {
            tag::BOOL => return Ok(Literal::Bool(self.reader.byte()? != 0)),
            tag::TEXT => return Ok(Literal::Text(self.reader.text()?.into())),
            tag::INT => Number::Int(i32::from_le_bytes(self.reader.array()?)),
            tag::LONG => Number::Long(i64::from_le_bytes(self.reader.array()?)),
            tag::FLOAT => Number::Float(f32::from_le_bytes(self.reader.array()?)),
            tag::DOUBLE => Number::Double(f64::from_le_bytes(self.reader.array()?)),
            tag => return Err(DecodeError::UnknownTag(tag)),
        };
        if number.is_finite() { Ok(Literal::Number(number)) } else { Err(DecodeError::InvalidOperand) }
    }
}

fn check_comparison(op: ComparisonOp, literal: &Literal) -> Result<(), DecodeError> {
    if op.is_equality() || matches!(literal, Literal::Number(_)) {
        Ok(())
    } else {
        Err(DecodeError::InvalidOperand)
    }
}
