//! Adding source symbols, each times a coefficient, to several buffers: what encoding and recovering share.

use crate::error::CodeError;
use crate::kernel::Kernel;
use crate::symbol::Symbol;

/// How many symbols of the same shape are added in one pass over each buffer.
const GROUP: usize = 4;

/// How much of a group is added to every buffer before the next part is read: small enough that it stays in
/// the first-level cache meanwhile.
const STRETCH_BYTES: usize = 2048;

/// Buffers that sums are built up in.
pub(crate) struct Sums<'b, P, C> {
    kernel: Kernel,
    buffers: &'b mut [P],
    /// By source symbol and buffer.
    coefficient: C,
    shortest_bytes: usize,
}

impl<'b, P: AsMut<[u8]>, C: Fn(usize, usize) -> u8> Sums<'b, P, C> {
    pub(crate) fn new(kernel: Kernel, buffers: &'b mut [P], coefficient: C) -> Self {
        let lengths = buffers.iter_mut().map(|buffer| buffer.as_mut().len());
        let shortest_bytes = lengths.min().unwrap_or(usize::MAX);
        Self { kernel, buffers, coefficient, shortest_bytes }
    }

    /// Add every symbol; stops at the first that is an error or too long.
    pub(crate) fn add_all<'a>(
        &mut self,
        symbols: impl Iterator<Item = Result<(usize, Symbol<'a>), CodeError>>,
    ) -> Result<(), CodeError> {
        let mut symbols = symbols.fuse();
        loop {
            let mut group = [None; GROUP];
            for place in &mut group {
                *place = symbols.next().transpose()?;
            }
            match group {
                [Some(a), Some(b), Some(c), Some(d)] if [b, c, d].iter().all(|e| e.1.is_shaped_like(a.1)) => {
                    self.add([a, b, c, d])?;
                }
                _ => group.into_iter().flatten().try_for_each(|symbol| self.add([symbol]))?,
            }
            if group[GROUP - 1].is_none() {
                return Ok(());
            }
        }
    }

    /// Add symbols of one shape.
    fn add<const N: usize>(&mut self, symbols: [(usize, Symbol<'_>); N]) -> Result<(), CodeError> {
        if let Some((_, symbol)) = symbols.iter().find(|(_, symbol)| symbol.len() > self.shortest_bytes) {
            return Err(CodeError::Length { bytes: symbol.len(), parity_bytes: self.shortest_bytes });
        }
        let mut start = 0;
        for pieces in [symbols.map(|(_, symbol)| symbol.head()), symbols.map(|(_, symbol)| symbol.body())] {
            let length = pieces.first().map_or(0, |piece| piece.len());
            for at in (0..length).step_by(STRETCH_BYTES) {
                let stretch = at..length.min(at + STRETCH_BYTES);
                let sources = pieces.map(|piece| &piece[stretch.clone()]);
                for (row, buffer) in self.buffers.iter_mut().enumerate() {
                    let constants = symbols.map(|(index, _)| (self.coefficient)(index, row));
                    self.kernel.multiply_add(&mut buffer.as_mut()[start + at..], sources, constants);
                }
            }
            start += length;
        }
        Ok(())
    }
}
