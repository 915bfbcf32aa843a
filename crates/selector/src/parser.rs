//! From tokens to the parse tree (section 3.8.1.1).
//!
//! One function climbs the precedence levels, so that nesting costs one stack frame a level and is bounded by
//! [`NESTING_MAX`]. Types are checked as far as literals and operators tell them: `'a' > 5`, `TRUE = 0` and `x + 1`
//! alone are refused here, `x > 5` with a string in `x` is the evaluator's business.

use crate::ast::{ComparisonOp, Expression, Type};
use crate::error::SelectorError;
use crate::lexer::{self, Keyword, Kind, Symbol, Token};
use crate::like::Pattern;
use crate::number::ArithmeticOp;

/// The longest selector that is accepted, in bytes.
pub const SELECTOR_BYTES_MAX: usize = 64 * 1024;
/// How deeply parentheses, signs, `NOT` and chains of operators may nest.
pub const NESTING_MAX: usize = 200;
/// What `BETWEEN`, `IN` and `LIKE` add to the nesting when they are written as two conditions.
const TWOFOLD_LEVELS: usize = 3;

/// Precedence levels, loosest first.
mod level {
    pub const OR: u8 = 1;
    pub const AND: u8 = 2;
    pub const NOT: u8 = 3;
    pub const COMPARISON: u8 = 4;
    pub const SUM: u8 = 5;
    pub const PRODUCT: u8 = 6;
    pub const SIGN: u8 = 7;
}

const OPERAND: &str = "a name, a literal or '('";
const CONDITION: &str = "a condition";
const NUMBER: &str = "a number, a name or an arithmetic expression";

/// Parses a whole selector, which must be a condition.
pub(crate) fn parse(text: &str) -> Result<Expression, SelectorError> {
    if text.len() > SELECTOR_BYTES_MAX {
        let found = format!("{} bytes", text.len());
        let expected = format!("a selector of at most {SELECTOR_BYTES_MAX} bytes");
        return Err(SelectorError::new(text, SELECTOR_BYTES_MAX, found, expected));
    }
    let mut parser = Parser { text, tokens: lexer::tokens(text)?, next: 0, depth: 0 };
    let whole = parser.expression(level::OR)?;
    if parser.peek() != &Kind::End {
        return Err(parser.unexpected("an operator or the end"));
    }
    parser.require_condition(&whole)?;
    Ok(whole.expression)
}

/// An expression with where it began and how high its tree is.
struct Parsed {
    expression: Expression,
    start: usize,
    height: usize,
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn token(&self) -> &Token {
        &self.tokens[self.next]
    }

    fn peek(&self) -> &Kind {
        &self.token().kind
    }

    fn advance(&mut self) {
        // The end token stays: every loop stops at it.
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    fn take_symbol(&mut self, symbol: Symbol) -> bool {
        let found = self.peek() == &Kind::Symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn take_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.peek() == &Kind::Keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    fn expect_symbol(&mut self, symbol: Symbol, expected: &str) -> Result<(), SelectorError> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn expect_keyword(&mut self, keyword: Keyword, expected: &str) -> Result<(), SelectorError> {
        if self.take_keyword(keyword) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> SelectorError {
        let token = self.token();
        let found = match &token.kind {
            Kind::End => "the end of the selector".to_owned(),
            _ => {
                let source = &self.text[token.start..token.end];
                let shown: String = source.chars().take(40).collect();
                if shown.len() < source.len() { format!("{shown}…") } else { shown }
            }
        };
        SelectorError::new(self.text, token.start, found, expected)
    }

    fn wrong_type(&self, operand: &Parsed, expected: &str) -> SelectorError {
        let found = operand.expression.type_of().described();
        SelectorError::new(self.text, operand.start, found, expected)
    }

    fn require_condition(&self, operand: &Parsed) -> Result<(), SelectorError> {
        match operand.expression.type_of() {
            Type::Any | Type::Condition => Ok(()),
            _ => Err(self.wrong_type(operand, CONDITION)),
        }
    }

    fn require_number(&self, operand: &Parsed) -> Result<(), SelectorError> {
        match operand.expression.type_of() {
            Type::Any | Type::Number => Ok(()),
            _ => Err(self.wrong_type(operand, NUMBER)),
        }
    }

    fn bounded(&self, height: usize, at: usize) -> Result<usize, SelectorError> {
        if height + self.depth <= NESTING_MAX {
            return Ok(height);
        }
        let expected = format!("at most {NESTING_MAX} levels of nesting");
        Err(SelectorError::new(self.text, at, "an expression nested too deeply", expected))
    }

    fn parsed(&self, expression: Expression, start: usize, below: usize) -> Result<Parsed, SelectorError> {
        Ok(Parsed { expression, start, height: self.bounded(below + 1, start)? })
    }

    /// An expression whose operators all bind at least as tightly as `loosest`.
    fn expression(&mut self, loosest: u8) -> Result<Parsed, SelectorError> {
        self.depth += self.bounded(1, self.token().start)?;
        let mut left = self.operand(loosest)?;
        loop {
            left = match self.peek() {
                Kind::Keyword(Keyword::Or) if loosest <= level::OR => {
                    self.logical(left, Keyword::Or, level::AND, Expression::Or)?
                }
                Kind::Keyword(Keyword::And) if loosest <= level::AND => {
                    self.logical(left, Keyword::And, level::NOT, Expression::And)?
                }
                Kind::Symbol(symbol) => match *symbol {
                    Symbol::Plus if loosest <= level::SUM => self.arithmetic(left, ArithmeticOp::Add)?,
                    Symbol::Minus if loosest <= level::SUM => {
                        self.arithmetic(left, ArithmeticOp::Subtract)?
                    }
                    Symbol::Star if loosest <= level::PRODUCT => {
                        self.arithmetic(left, ArithmeticOp::Multiply)?
                    }
                    Symbol::Slash if loosest <= level::PRODUCT => {
                        self.arithmetic(left, ArithmeticOp::Divide)?
                    }
                    symbol => match comparison_op(symbol) {
                        Some(op) if loosest <= level::COMPARISON => self.comparison(left, op)?,
                        _ => break,
                    },
                },
                Kind::Keyword(
                    Keyword::Not | Keyword::Between | Keyword::In | Keyword::Like | Keyword::Is,
                ) if loosest <= level::COMPARISON => self.predicate(left)?,
                _ => break,
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self, loosest: u8) -> Result<Parsed, SelectorError> {
        let start = self.token().start;
        let expression = match self.peek().clone() {
            Kind::Identifier(name) => Expression::Identifier(name),
            Kind::Text(text) => Expression::Text(text),
            Kind::Number(_) => return self.number(false),
            Kind::Keyword(Keyword::True) => Expression::Bool(true),
            Kind::Keyword(Keyword::False) => Expression::Bool(false),
            Kind::Keyword(Keyword::Not) if loosest <= level::NOT => {
                self.advance();
                let operand = self.expression(level::NOT)?;
                self.require_condition(&operand)?;
                let below = operand.height;
                return self.parsed(Expression::Not(Box::new(operand.expression)), start, below);
            }
            Kind::Symbol(Symbol::Open) => {
                self.advance();
                let inner = self.expression(level::OR)?;
                self.expect_symbol(Symbol::Close, "an operator or ')'")?;
                // A name in parentheses is no longer the bare identifier that LIKE, IN and IS ask for.
                return Ok(Parsed { start, height: self.bounded(inner.height + 1, start)?, ..inner });
            }
            Kind::Symbol(sign @ (Symbol::Plus | Symbol::Minus)) => {
                return self.signed(sign == Symbol::Minus);
            }
            _ => return Err(self.unexpected(OPERAND)),
        };
        self.advance();
        self.parsed(expression, start, 0)
    }

    fn number(&mut self, negative: bool) -> Result<Parsed, SelectorError> {
        let Token { kind: Kind::Number(number), start, .. } = *self.token() else {
            return Err(self.unexpected(NUMBER));
        };
        let Some(value) = number.value(negative) else {
            return Err(self.unexpected("a number in the range of long"));
        };
        self.advance();
        self.parsed(Expression::Number(value), start, 0)
    }

    fn signed(&mut self, minus: bool) -> Result<Parsed, SelectorError> {
        let start = self.token().start;
        self.advance();
        if matches!(self.peek(), Kind::Number(_)) {
            return Ok(Parsed { start, ..self.number(minus)? });
        }
        let operand = self.expression(level::SIGN)?;
        self.require_number(&operand)?;
        let below = operand.height;
        self.parsed(Expression::Sign { minus, operand: Box::new(operand.expression) }, start, below)
    }

    fn logical(
        &mut self,
        left: Parsed,
        keyword: Keyword,
        tighter: u8,
        build: fn(Vec<Expression>) -> Expression,
    ) -> Result<Parsed, SelectorError> {
        self.require_condition(&left)?;
        let (start, mut height) = (left.start, left.height);
        let mut operands = vec![left.expression];
        while self.take_keyword(keyword) {
            let right = self.expression(tighter)?;
            self.require_condition(&right)?;
            height = height.max(right.height);
            operands.push(right.expression);
        }
        self.parsed(build(operands), start, height)
    }

    fn arithmetic(&mut self, left: Parsed, op: ArithmeticOp) -> Result<Parsed, SelectorError> {
        self.require_number(&left)?;
        self.advance();
        let tighter = match op {
            ArithmeticOp::Add | ArithmeticOp::Subtract => level::PRODUCT,
            ArithmeticOp::Multiply | ArithmeticOp::Divide => level::SIGN,
        };
        let right = self.expression(tighter)?;
        self.require_number(&right)?;
        let below = left.height.max(right.height);
        let (start, left, right) = (left.start, Box::new(left.expression), Box::new(right.expression));
        self.parsed(Expression::Arithmetic { op, left, right }, start, below)
    }

    fn comparison(&mut self, left: Parsed, op: ComparisonOp) -> Result<Parsed, SelectorError> {
        self.advance();
        let right = self.expression(level::SUM)?;
        if !op.is_equality() {
            // Strings and booleans are compared with = and <> only.
            self.require_number(&left)?;
            self.require_number(&right)?;
        }
        let (known, found) = (left.expression.type_of(), right.expression.type_of());
        if left.expression.is_literal() && right.expression.is_literal() && known != found {
            return Err(self.wrong_type(&right, &format!("{} to compare with", known.described())));
        }
        let below = left.height.max(right.height);
        let (start, left, right) = (left.start, Box::new(left.expression), Box::new(right.expression));
        self.parsed(Expression::Comparison { op, left, right }, start, below)
    }

    /// `[NOT] BETWEEN`, `[NOT] IN`, `[NOT] LIKE` and `IS [NOT] NULL` behind their left operand.
    fn predicate(&mut self, left: Parsed) -> Result<Parsed, SelectorError> {
        if self.take_keyword(Keyword::Is) {
            let negated = self.take_keyword(Keyword::Not);
            self.expect_keyword(Keyword::Null, if negated { "NULL" } else { "NULL or NOT NULL" })?;
            let identifier = self.bare_identifier(&left, "IS NULL")?;
            return self.parsed(Expression::IsNull { negated, identifier }, left.start, left.height);
        }
        let negated = self.take_keyword(Keyword::Not);
        if self.take_keyword(Keyword::Between) {
            self.between(left, negated)
        } else if self.take_keyword(Keyword::In) {
            let identifier = self.bare_identifier(&left, "IN")?;
            let values = self.text_list()?;
            let below = left.height + TWOFOLD_LEVELS;
            self.parsed(Expression::In { negated, identifier, values }, left.start, below)
        } else if self.take_keyword(Keyword::Like) {
            let identifier = self.bare_identifier(&left, "LIKE")?;
            let pattern = self.pattern()?;
            let below = left.height + TWOFOLD_LEVELS;
            self.parsed(Expression::Like { negated, identifier, pattern }, left.start, below)
        } else {
            Err(self.unexpected("BETWEEN, IN or LIKE after NOT"))
        }
    }

    fn bare_identifier(&self, left: &Parsed, operator: &str) -> Result<String, SelectorError> {
        match &left.expression {
            Expression::Identifier(name) if !self.text[left.start..].starts_with('(') => Ok(name.clone()),
            Expression::Identifier(_) => {
                let expected = format!("a name without parentheses before {operator}");
                Err(SelectorError::new(self.text, left.start, "a name in parentheses", expected))
            }
            _ => Err(self.wrong_type(left, &format!("a name before {operator}"))),
        }
    }

    fn between(&mut self, operand: Parsed, negated: bool) -> Result<Parsed, SelectorError> {
        self.require_number(&operand)?;
        let low = self.expression(level::SUM)?;
        self.require_number(&low)?;
        self.expect_keyword(Keyword::And, "AND and the upper bound")?;
        let high = self.expression(level::SUM)?;
        self.require_number(&high)?;
        let below = operand.height.max(low.height).max(high.height) + TWOFOLD_LEVELS;
        let start = operand.start;
        let [operand, low, high] = [operand, low, high].map(|parsed| Box::new(parsed.expression));
        self.parsed(Expression::Between { negated, operand, low, high }, start, below)
    }

    fn text(&mut self, expected: &str) -> Result<String, SelectorError> {
        let Kind::Text(text) = self.peek().clone() else {
            return Err(self.unexpected(expected));
        };
        self.advance();
        Ok(text)
    }

    fn text_list(&mut self) -> Result<Vec<String>, SelectorError> {
        self.expect_symbol(Symbol::Open, "'(' and a list of strings")?;
        let mut values = vec![self.text("a string")?];
        while self.take_symbol(Symbol::Comma) {
            values.push(self.text("a string")?);
        }
        self.expect_symbol(Symbol::Close, "',' or ')'")?;
        Ok(values)
    }

    fn pattern(&mut self) -> Result<Pattern, SelectorError> {
        let at = self.token().start;
        let source = self.text("a string with the pattern")?;
        let mut escape = None;
        if self.take_keyword(Keyword::Escape) {
            const EXPECTED: &str = "a string of one character";
            let before = self.next;
            let text = self.text(EXPECTED)?;
            let mut chars = text.chars();
            escape = chars.next();
            if escape.is_none() || chars.next().is_some() {
                self.next = before;
                return Err(self.unexpected(EXPECTED));
            }
        }
        Pattern::compile(&source, escape).ok_or_else(|| {
            let found = "a pattern that ends in its escape character";
            SelectorError::new(self.text, at, found, "a character after the escape character")
        })
    }
}

fn comparison_op(symbol: Symbol) -> Option<ComparisonOp> {
    Some(match symbol {
        Symbol::Equal => ComparisonOp::Equal,
        Symbol::NotEqual => ComparisonOp::NotEqual,
        Symbol::Less => ComparisonOp::Less,
        Symbol::LessOrEqual => ComparisonOp::LessOrEqual,
        Symbol::Greater => ComparisonOp::Greater,
        Symbol::GreaterOrEqual => ComparisonOp::GreaterOrEqual,
        _ => return None,
    })
}
