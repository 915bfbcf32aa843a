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

    /// The pieces, each with its distance from the symbol's first byte.
    pub(crate) fn pieces(&self) -> [(usize, &'a [u8]); 2] {
        [(0, self.head), (self.head.len(), self.body)]
    }
}

impl<'a> From<&'a [u8]> for Symbol<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { head: &[], body: bytes }
    }
}
