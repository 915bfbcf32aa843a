//! A source symbol as it lies in memory.

/// A source symbol to be read: one slice, or two that follow each other.
///
/// NORM counts a stream's 8-byte payload header as part of the symbol; a sender or receiver may keep the
/// headers apart from the data. A symbol shorter than the block's others counts as padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    head: &'a [u8],
    body: &'a [u8],
}

impl<'a> Symbol<'a> {
    /// A symbol whose bytes are `head`, then `body`.
    pub fn in_two_pieces(head: &'a [u8], body: &'a [u8]) -> Self {
        Self { head, body }
    }

    /// How long the symbol is, both pieces together.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether the symbol has no bytes, which codes like a symbol of zeros.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn head(&self) -> &'a [u8] {
        self.head
    }

    pub(crate) fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Whether the pieces are as long as the other's.
    pub(crate) fn is_shaped_like(&self, other: Self) -> bool {
        self.head.len() == other.head.len() && self.body.len() == other.body.len()
    }
}

impl<'a> From<&'a [u8]> for Symbol<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { head: &[], body: bytes }
    }
}
