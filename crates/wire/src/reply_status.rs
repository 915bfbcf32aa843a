//! What an answer says of itself, beside its content.

/// Bits of an answer's status. An answer without one is the only answer, and a good one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplyStatus(u64);

impl ReplyStatus {
    /// The answerer failed. The message type names the error, the body says what happened.
    pub const ERROR: Self = Self(1 << 0);
    /// Another answer follows this one.
    pub const MORE: Self = Self(1 << 1);
    /// The answers are over, and this one has no content of its own.
    pub const END: Self = Self(1 << 2);

    /// From the number on the wire; bits of later versions are kept.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The number on the wire.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether every bit of `other` is set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
