//! What a store keeps: messages in one line of offsets, and the same messages as Arrow columns.
//!
//! Sans-IO: no files, threads, clock or random source of its own.

pub mod columns;

mod filter;
mod row;

pub use filter::{FILTER_TOPICS_MAX, Filter};
pub use row::Row;
