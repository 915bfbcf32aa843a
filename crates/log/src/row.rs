//! A stored message, as readers of history meet it.

/// One message at its offset. The record is read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// Its place in the store's one line of messages.
    pub offset: u64,
    /// When it was stored, microseconds since 1970 by the store's clock.
    pub stored_us: u64,
    /// Who published it.
    pub publisher: u64,
    /// Which ordered path of the publisher.
    pub chain: u32,
    /// Its number there, if known.
    pub number: Option<u64>,
    /// When it was published, microseconds since 1970; 0 if not known.
    pub timestamp_us: u64,
    /// The message record as it was published.
    pub record: &'a [u8],
}
