//! The store's log on a real disk or in memory, shared between threads.

mod copies;
mod directory;
mod memory;
mod shared;
mod wall_clock;

pub use copies::Offered;
pub use directory::{Directory, LockError};
pub use memory::{MemoryDisk, MemoryFile};
pub use shared::{MemberOptions, Shared, SyncStats};
