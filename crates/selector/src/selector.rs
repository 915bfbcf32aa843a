//! A selector: parsed, canonical, ready to be evaluated, printed, sent or added to an index.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::canonical;
use crate::condition::{Condition, Name};
use crate::encode;
use crate::error::{DecodeError, SelectorError};
use crate::parser;
use crate::value::Attributes;

/// A message selector. Cloning is cheap; two selectors are equal when their canonical forms are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    condition: Arc<Condition>,
}

impl Selector {
    /// Parses a selector. The empty string is no selector at all and matches every message (section 3.8.1.1).
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.is_empty() {
            return Ok(Self::everything());
        }
        parser::parse(text).map(canonical::condition).map(Self::from)
    }

    /// The selector that matches every message.
    pub fn everything() -> Self {
        Condition::Constant(true).into()
    }

    /// The selector that matches what at least one of `selectors` matches: what a link has to let through.
    pub fn any_of<'a>(selectors: impl IntoIterator<Item = &'a Self>) -> Self {
        canonical::join(selectors.into_iter().map(|selector| (*selector.condition).clone()), false).into()
    }

    /// The canonical form.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    pub(crate) fn shared_condition(&self) -> Arc<Condition> {
        self.condition.clone()
    }

    /// The header fields and properties that the selector mentions, each once, sorted.
    pub fn names(&self) -> Vec<Name> {
        let mut names = Vec::new();
        self.condition.visit_names(&mut |name| names.push(name.clone()));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether the message is selected.
    pub fn matches<A: Attributes + ?Sized>(&self, message: &A) -> bool {
        self.condition.holds(message)
    }

    /// Appends the wire form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::encode(&self.condition, out);
    }

    /// Reads the wire form; all of `bytes` must belong to it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        encode::decode(bytes).map(Self::from)
    }
}

impl From<Condition> for Selector {
    fn from(condition: Condition) -> Self {
        Self { condition: Arc::new(condition) }
    }
}

impl From<Arc<Condition>> for Selector {
    fn from(condition: Arc<Condition>) -> Self {
        Self { condition }
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}

/// The canonical form as text.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}
