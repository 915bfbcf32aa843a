//! What only `shoal bench` runs: long transfers that check every byte, and the kernel's own rate.

mod bulk;
pub mod raw;
mod verify;

pub use bulk::{BulkReport, receive_bulk, send_bulk};
