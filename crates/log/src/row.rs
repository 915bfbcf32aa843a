//! A stored message, as readers of history meet it.

use shoal_node::Origin;

/// One message at its offset. The record is read in place.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Its place in the store's line of offsets.
    pub offset: u64,
    /// When the store took it, microseconds since 1970 by the store's clock.
    pub stored_us: u64,
    /// Who published it, as which, and when.
    pub origin: Origin,
    /// The message record as it was published.
    pub record: &'a [u8],
}
