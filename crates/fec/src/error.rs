//! What the code refuses.

use std::fmt;

use crate::code::SYMBOLS_MAX;

/// Why a code cannot be made, or symbols cannot be coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeError {
    /// GF(2^8) has no code of this shape.
    Shape {
        /// Source symbols asked for.
        source: usize,
        /// Parity symbols asked for.
        parity: usize,
    },
    /// A source symbol's place is not in the block.
    SourceIndex(usize),
    /// A parity symbol's place is not among those the code has.
    ParityIndex(usize),
    /// A place is named twice, or is both missing and present.
    Repeated(usize),
    /// Recovering needs one parity symbol, in memory of its own, for each missing source symbol.
    Counts {
        /// Source symbols missing.
        missing: usize,
        /// Parity symbols named.
        parity: usize,
        /// Buffers given.
        buffers: usize,
    },
    /// A source symbol is longer than the parity computed from it, or parity symbols differ in length.
    Length {
        /// The length that does not fit.
        bytes: usize,
        /// The length that was expected at most.
        parity_bytes: usize,
    },
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Shape { source, parity } => write!(
                f,
                "no code has {source} source and {parity} parity symbols: at least one of each, \
                 at most {SYMBOLS_MAX} together"
            ),
            Self::SourceIndex(index) => write!(f, "the block has no source symbol {index}"),
            Self::ParityIndex(index) => write!(f, "the code has no parity symbol {index}"),
            Self::Repeated(index) => write!(f, "symbol {index} is named twice"),
            Self::Counts { missing, parity, buffers } => write!(
                f,
                "{missing} missing source symbols need as many parity symbols and buffers, \
                 not {parity} and {buffers}"
            ),
            Self::Length { bytes, parity_bytes } => {
                write!(f, "a symbol of {bytes} bytes does not fit parity of {parity_bytes} bytes")
            }
        }
    }
}

impl std::error::Error for CodeError {}
