//! What only `shoal bench` runs: long transfers that check every byte, the kernel's own rate, loads for selectors and
//! parity.

mod bulk;
mod coding;
pub mod raw;
mod selectors;
mod verify;
pub mod workload;

pub use bulk::{BulkReport, receive_bulk, send_bulk};
pub use coding::{CodingFault, CodingLoad};
pub use selectors::SelectorLoad;
