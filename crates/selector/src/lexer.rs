//! From selector text to tokens.

use crate::error::SelectorError;
use crate::identifier;
use crate::number::{self, NumberToken};

/// The reserved words. They are case-insensitive, and no identifier may be one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    And,
    Between,
    Escape,
    False,
    In,
    Is,
    Like,
    Not,
    Null,
    Or,
    True,
}

const KEYWORDS: [(&str, Keyword); 11] = [
    ("AND", Keyword::And),
    ("BETWEEN", Keyword::Between),
    ("ESCAPE", Keyword::Escape),
    ("FALSE", Keyword::False),
    ("IN", Keyword::In),
    ("IS", Keyword::Is),
    ("LIKE", Keyword::Like),
    ("NOT", Keyword::Not),
    ("NULL", Keyword::Null),
    ("OR", Keyword::Or),
    ("TRUE", Keyword::True),
];

pub(crate) fn keyword(word: &str) -> Option<Keyword> {
    KEYWORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, keyword)| *keyword)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbol {
    Open,
    Close,
    Comma,
    Plus,
    Minus,
    Star,
    Slash,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Identifier(String),
    Keyword(Keyword),
    Text(String),
    Number(NumberToken),
    Symbol(Symbol),
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub kind: Kind,
    /// Byte offset of the first character.
    pub start: usize,
    /// Byte offset behind the last character.
    pub end: usize,
}

/// Splits the whole text; the last token is [`Kind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, SelectorError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        let rest = text[at..].trim_start_matches([' ', '\t', '\u{c}', '\n', '\r']);
        at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            tokens.push(Token { kind: Kind::End, start: at, end: at });
            return Ok(tokens);
        };
        let (kind, length) = match first {
            '\'' => read_text(text, at)?,
            c if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|d: char| d.is_ascii_digit())) => {
                let (number, length) = number::read(rest)
                    .map_err(|(found, expected)| SelectorError::new(text, at, found, expected))?;
                (Kind::Number(number), length)
            }
            c if identifier::is_start(c) => read_word(text, at)?,
            _ => read_symbol(text, at)?,
        };
        tokens.push(Token { kind, start: at, end: at + length });
        at += length;
    }
}

fn read_text(text: &str, start: usize) -> Result<(Kind, usize), SelectorError> {
    let mut value = String::new();
    let mut rest = &text[start + 1..];
    loop {
        let Some(quote) = rest.find('\'') else {
            return Err(SelectorError::new(text, start, "a string without end", "a closing quote '"));
        };
        value.push_str(&rest[..quote]);
        rest = &rest[quote + 1..];
        match rest.strip_prefix('\'') {
            Some(after) => {
                value.push('\'');
                rest = after;
            }
            None => return Ok((Kind::Text(value), text.len() - rest.len() - start)),
        }
    }
}

fn read_word(text: &str, start: usize) -> Result<(Kind, usize), SelectorError> {
    let rest = &text[start..];
    let length = rest.find(|c| !identifier::is_part(c)).unwrap_or(rest.len());
    let word = &rest[..length];
    if let Some(keyword) = keyword(word) {
        return Ok((Kind::Keyword(keyword), length));
    }
    if let Some(expected) = identifier::reserved_problem(word) {
        return Err(SelectorError::new(text, start, format!("'{word}', a reserved name"), expected));
    }
    Ok((Kind::Identifier(word.to_owned()), length))
}

fn read_symbol(text: &str, start: usize) -> Result<(Kind, usize), SelectorError> {
    let rest = &text[start..];
    let two = match rest.as_bytes() {
        [b'<', b'>', ..] => Some(Symbol::NotEqual),
        [b'<', b'=', ..] => Some(Symbol::LessOrEqual),
        [b'>', b'=', ..] => Some(Symbol::GreaterOrEqual),
        _ => None,
    };
    if let Some(symbol) = two {
        return Ok((Kind::Symbol(symbol), 2));
    }
    if rest.starts_with("==") {
        return Err(SelectorError::new(text, start, "==".to_owned(), "= for 'equal'"));
    }
    let symbol = match rest.as_bytes()[0] {
        b'(' => Symbol::Open,
        b')' => Symbol::Close,
        b',' => Symbol::Comma,
        b'+' => Symbol::Plus,
        b'-' => Symbol::Minus,
        b'*' => Symbol::Star,
        b'/' => Symbol::Slash,
        b'=' => Symbol::Equal,
        b'<' => Symbol::Less,
        b'>' => Symbol::Greater,
        _ => {
            let c = rest.chars().next().unwrap_or_default();
            let expected = match c {
                '"' => "single quotes around a string",
                '!' => "<> for 'not equal', or NOT",
                '&' => "AND",
                '|' => "OR",
                _ => "a name, a literal or an operator",
            };
            return Err(SelectorError::new(text, start, format!("the character {c:?}"), expected));
        }
    };
    Ok((Kind::Symbol(symbol), 1))
}
