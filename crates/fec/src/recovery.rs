//! Recovering lost source symbols.
//!
//! Each parity symbol is a known sum over the source symbols. Subtract the ones that arrived, and what is left
//! are as many equations as symbols are missing. Every square part of the parity matrix can be inverted (that is
//! what makes the code optimal), so the equations always have a solution, and elimination never needs to
//! exchange rows. It runs in the parity symbols' own memory: each becomes one missing source symbol.

use crate::code::ReedSolomon;
use crate::error::CodeError;
use crate::gf256::{inverse, multiply};
use crate::kernel::Kernel;
use crate::sums::Sums;
use crate::symbol::Symbol;

/// How much of a symbol is copied aside at a time when it is multiplied in place.
const SCALE_BYTES: usize = 512;

/// What solving needs to remember, kept by the caller so that recovering does not allocate.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    /// The equations' matrix, row by row: below the diagonal the factors of elimination, elsewhere its result.
    factors: Vec<u8>,
}

impl Workspace {
    /// An empty workspace; it grows to the largest number of symbols recovered at once, squared.
    pub fn new() -> Self {
        Self::default()
    }
}

impl ReedSolomon {
    /// Turn parity symbols into the source symbols that are missing.
    ///
    /// `buffers[i]` holds parity symbol `parity[i]` of the block and becomes source symbol `missing[i]`, padded
    /// with zeros to the parity's length. `present` gives every other source symbol of the block, in any order;
    /// those a shortened block never had are left out. After an error the buffers' content is undefined.
    pub fn recover<'a, P: AsMut<[u8]>>(
        &self,
        workspace: &mut Workspace,
        missing: &[usize],
        parity: &[usize],
        present: impl IntoIterator<Item = (usize, Symbol<'a>)>,
        buffers: &mut [P],
    ) -> Result<(), CodeError> {
        self.check(missing, parity, buffers)?;
        let coefficient = |index: usize, row: usize| self.coefficients_of(index)[parity[row]];
        Sums::new(self.kernel(), buffers, coefficient).add_all(present.into_iter().map(
            |(index, symbol)| match missing.contains(&self.checked(index)?) {
                true => Err(CodeError::Repeated(index)),
                false => Ok((index, symbol)),
            },
        ))?;
        workspace.factorise(self, missing, parity);
        workspace.solve(self.kernel(), buffers);
        Ok(())
    }

    fn check<P: AsMut<[u8]>>(
        &self,
        missing: &[usize],
        parity: &[usize],
        buffers: &mut [P],
    ) -> Result<(), CodeError> {
        if missing.len() != parity.len() || missing.len() != buffers.len() {
            let (missing, parity, buffers) = (missing.len(), parity.len(), buffers.len());
            return Err(CodeError::Counts { missing, parity, buffers });
        }
        check_places(missing, self.source_symbols(), CodeError::SourceIndex)?;
        check_places(parity, self.parity_symbols(), CodeError::ParityIndex)?;
        let parity_bytes = buffers.first_mut().map_or(0, |buffer| buffer.as_mut().len());
        match buffers.iter_mut().map(|buffer| buffer.as_mut().len()).find(|bytes| *bytes != parity_bytes) {
            Some(bytes) => Err(CodeError::Length { bytes, parity_bytes }),
            None => Ok(()),
        }
    }
}

/// Every place is below `bound` and named once.
fn check_places(places: &[usize], bound: usize, error: fn(usize) -> CodeError) -> Result<(), CodeError> {
    for (count, place) in places.iter().enumerate() {
        if *place >= bound {
            return Err(error(*place));
        }
        if places[..count].contains(place) {
            return Err(CodeError::Repeated(*place));
        }
    }
    Ok(())
}

impl Workspace {
    /// Split the matrix of the missing symbols' coefficients into a lower and an upper triangle.
    fn factorise(&mut self, code: &ReedSolomon, missing: &[usize], parity: &[usize]) {
        let size = missing.len();
        self.factors.clear();
        for row in parity {
            self.factors.extend(missing.iter().map(|column| code.coefficients_of(*column)[*row]));
        }
        for pivot in 0..size {
            let (above, below) = self.factors.split_at_mut((pivot + 1) * size);
            let pivot_row = &above[pivot * size..];
            let pivot_inverse = inverse(pivot_row[pivot]);
            for row in below.chunks_exact_mut(size) {
                row[pivot] = multiply(row[pivot], pivot_inverse);
                let factor = row[pivot];
                code.kernel().multiply_add(&mut row[pivot + 1..], [&pivot_row[pivot + 1..]], [factor]);
            }
        }
    }

    /// Apply the triangles to the symbols: down the rows, then up again.
    fn solve<P: AsMut<[u8]>>(&self, kernel: Kernel, buffers: &mut [P]) {
        let size = buffers.len();
        let row_of = |row: usize| &self.factors[row * size..][..size];
        for row in 1..size {
            let (known, rest) = buffers.split_at_mut(row);
            subtract(kernel, rest[0].as_mut(), known, &row_of(row)[..row]);
        }
        for row in (0..size).rev() {
            let (rest, known) = buffers.split_at_mut(row + 1);
            let symbol = rest[row].as_mut();
            subtract(kernel, symbol, known, &row_of(row)[row + 1..]);
            scale(kernel, symbol, inverse(row_of(row)[row]));
        }
    }
}

/// Take known symbols, each times its factor, out of a sum.
fn subtract<P: AsMut<[u8]>>(kernel: Kernel, sum: &mut [u8], known: &mut [P], factors: &[u8]) {
    let (groups, singles) = known.as_chunks_mut::<4>();
    let (group_factors, single_factors) = factors.as_chunks::<4>();
    for ([a, b, c, d], factors) in groups.iter_mut().zip(group_factors) {
        kernel.multiply_add(sum, [a.as_mut(), b.as_mut(), c.as_mut(), d.as_mut()], *factors);
    }
    for (symbol, factor) in singles.iter_mut().zip(single_factors) {
        kernel.multiply_add(sum, [symbol.as_mut()], [*factor]);
    }
}

/// Multiply a symbol in place: c·x is x + (c + 1)·x.
fn scale(kernel: Kernel, symbol: &mut [u8], constant: u8) {
    let mut copy = [0; SCALE_BYTES];
    for part in symbol.chunks_mut(SCALE_BYTES) {
        let copy = &mut copy[..part.len()];
        copy.copy_from_slice(part);
        kernel.multiply_add(part, [copy], [constant ^ 1]);
    }
}
