//! The store's log on a real disk, shared between threads.

mod directory;
mod shared;
mod sys;

pub use directory::{Directory, LockError};
pub use shared::{OpenError, Shared, SyncStats};
