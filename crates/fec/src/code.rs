//! The code: its generator matrix, and encoding.
//!
//! A source block is read as the values of a polynomial of degree below k at the points 0, 1, α, α², …, one
//! polynomial per byte position; parity symbols are its values at the next points. Any k values determine the
//! polynomial, so any k symbols determine the block. As a matrix: a Vandermonde matrix over these points, times
//! the inverse of its first k rows. Its entries have a closed form (Lagrange), which is what is computed.

use crate::error::CodeError;
use crate::gf256::{inverse, multiply, power};
use crate::kernel::Kernel;
use crate::sums::Sums;
use crate::symbol::Symbol;

/// Source and parity symbols of a block together, at most.
pub const SYMBOLS_MAX: usize = 255;

/// A Reed-Solomon code of k source and some parity symbols; immutable, to be shared between threads.
///
/// The end of an object has blocks with fewer source symbols. They are coded with the same k, as if the
/// missing ones were zero: leave them out.
#[derive(Debug, Clone)]
pub struct ReedSolomon {
    source_symbols: usize,
    parity_symbols: usize,
    /// What each source symbol is multiplied by in each parity symbol, source by source.
    coefficients: Box<[u8]>,
    kernel: Kernel,
}

impl ReedSolomon {
    /// A code of `source_symbols` (k) and `parity_symbols` (n − k), run by the processor's fastest kernel.
    pub fn new(source_symbols: usize, parity_symbols: usize) -> Result<Self, CodeError> {
        Self::with_kernel(source_symbols, parity_symbols, Kernel::fastest())
    }

    /// As [`Self::new`], with a kernel of the caller's choice.
    pub fn with_kernel(
        source_symbols: usize,
        parity_symbols: usize,
        kernel: Kernel,
    ) -> Result<Self, CodeError> {
        let total = source_symbols.saturating_add(parity_symbols);
        if source_symbols == 0 || parity_symbols == 0 || total > SYMBOLS_MAX {
            return Err(CodeError::Shape { source: source_symbols, parity: parity_symbols });
        }
        let coefficients = parity_coefficients(source_symbols, parity_symbols);
        Ok(Self { source_symbols, parity_symbols, coefficients, kernel })
    }

    /// Source symbols of a full block: k.
    pub fn source_symbols(&self) -> usize {
        self.source_symbols
    }

    /// Parity symbols a block can have: n − k.
    pub fn parity_symbols(&self) -> usize {
        self.parity_symbols
    }

    /// The kernel in use.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// What source symbol `source` is multiplied by in each parity symbol.
    pub(crate) fn coefficients_of(&self, source: usize) -> &[u8] {
        &self.coefficients[source * self.parity_symbols..][..self.parity_symbols]
    }

    /// Add source symbol `index` to the parity symbols.
    ///
    /// `parity` holds the block's first parity symbols, as many as are wanted; they begin as zeros and are
    /// complete when every source symbol has been added, in any order. All must be at least as long as the
    /// longest source symbol.
    pub fn add_source<P: AsMut<[u8]>>(
        &self,
        index: usize,
        symbol: Symbol<'_>,
        parity: &mut [P],
    ) -> Result<(), CodeError> {
        self.accumulate([(index, symbol)], parity)
    }

    /// Compute the parity of a whole block into `parity`, whatever it held before.
    pub fn encode<'a, P: AsMut<[u8]>>(
        &self,
        source: impl IntoIterator<Item = Symbol<'a>>,
        parity: &mut [P],
    ) -> Result<(), CodeError> {
        for buffer in parity.iter_mut() {
            buffer.as_mut().fill(0);
        }
        self.accumulate(source.into_iter().enumerate(), parity)
    }

    fn accumulate<'a, P: AsMut<[u8]>>(
        &self,
        source: impl IntoIterator<Item = (usize, Symbol<'a>)>,
        parity: &mut [P],
    ) -> Result<(), CodeError> {
        if parity.len() > self.parity_symbols {
            return Err(CodeError::ParityIndex(parity.len() - 1));
        }
        let mut sums = Sums::new(self.kernel, parity, |index, row| self.coefficients_of(index)[row]);
        sums.add_all(source.into_iter().map(|(index, symbol)| Ok((self.checked(index)?, symbol))))
    }

    /// The index, if the block has such a source symbol.
    pub(crate) fn checked(&self, index: usize) -> Result<usize, CodeError> {
        if index < self.source_symbols { Ok(index) } else { Err(CodeError::SourceIndex(index)) }
    }
}

/// Where the polynomial is evaluated for symbol `index` of a block.
fn point(index: usize) -> u8 {
    index.checked_sub(1).map_or(0, power)
}

/// The coefficient of source i in parity j is the Lagrange basis polynomial of point i, at parity j's point:
/// Π (x_j − x_m) / Π (x_i − x_m) over all source points m but i.
fn parity_coefficients(source_symbols: usize, parity_symbols: usize) -> Box<[u8]> {
    let difference = |a: usize, b: usize| point(a) ^ point(b);
    let product = |terms: &mut dyn Iterator<Item = u8>| terms.fold(1, multiply);
    let parity_points = source_symbols..source_symbols + parity_symbols;
    let all_differences: Vec<u8> = parity_points
        .clone()
        .map(|parity| product(&mut (0..source_symbols).map(|m| difference(parity, m))))
        .collect();
    let mut coefficients = Vec::with_capacity(source_symbols * parity_symbols);
    for source in 0..source_symbols {
        let others = &mut (0..source_symbols).filter(|m| *m != source).map(|m| difference(source, m));
        let divisor = product(others);
        for (parity, all) in parity_points.clone().zip(&all_differences) {
            coefficients.push(multiply(*all, inverse(multiply(divisor, difference(parity, source)))));
        }
    }
    coefficients.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_one_source_symbol_repeats_it() {
        let code = ReedSolomon::new(1, 4).unwrap();
        assert_eq!(code.coefficients_of(0), [1; 4]);
    }

    #[test]
    fn parity_is_the_value_of_the_polynomial_through_the_source() {
        let code = ReedSolomon::new(4, 3).unwrap();
        // Sources that are the values of 5 + 9x² + 200x³ at 0, 1, α, α².
        let value = |index: usize| {
            let x = point(index);
            let square = multiply(x, x);
            5 ^ multiply(9, square) ^ multiply(200, multiply(square, x))
        };
        for parity in 0..3 {
            let sum = (0..4)
                .fold(0, |sum, source| sum ^ multiply(code.coefficients_of(source)[parity], value(source)));
            assert_eq!(sum, value(4 + parity), "parity {parity}");
        }
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for (source, parity) in [(0, 1), (1, 0), (200, 56), (255, 1), (usize::MAX, 2)] {
            let refused = ReedSolomon::new(source, parity).unwrap_err();
            assert_eq!(refused, CodeError::Shape { source, parity });
        }
        assert!(ReedSolomon::new(200, 55).is_ok());
        assert!(ReedSolomon::new(254, 1).is_ok());
    }
}
