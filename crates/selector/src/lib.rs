//! JMS message selectors: the language, its evaluator and the index over many of them.
//!
//! The language is that of Jakarta Messaging 3.1, section 3.8. Text goes through [`Selector::parse`] into a
//! canonical [`condition::Condition`], which reads a message through the trait [`Attributes`]. Everything
//! here computes: no sockets, files, threads or clocks.

mod ast;
mod bytes;
mod canonical;
pub mod condition;
mod correlation;
mod correlation_index;
mod display;
mod encode;
mod error;
mod eval;
mod identifier;
pub mod index;
mod lexer;
mod like;
mod number;
mod parser;
mod selector;
mod value;

pub use ast::ComparisonOp;
pub use correlation::{CORRELATION_ID_BYTES_MAX, CORRELATION_ITEMS_MAX, CorrelationFilter};
pub use correlation_index::CorrelationIndex;
pub use error::{DecodeError, SelectorError};
pub use identifier::{HEADER_NAMES, is_property_name};
pub use index::{Counters, FilterId, Matches, SelectorIndex, SubscriberId, Verdicts};
pub use like::Pattern;
pub use number::{ArithmeticOp, Number};
pub use parser::{NESTING_MAX, SELECTOR_BYTES_MAX};
pub use selector::Selector;
pub use value::{Attributes, Truth, Value};
