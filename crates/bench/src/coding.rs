//! One block to be coded over and over.

use std::fmt;

use shoal_fec::{CodeError, ReedSolomon, Symbol, Workspace};

/// A block and its parity, with room to recover into.
#[derive(Debug)]
pub struct CodingLoad {
    source: Vec<Vec<u8>>,
    parity: Vec<Vec<u8>>,
    buffers: Vec<Vec<u8>>,
    workspace: Workspace,
}

/// What went wrong.
#[derive(Debug)]
pub enum CodingFault {
    /// The code refused the block.
    Refused(CodeError),
    /// What was recovered is not what was there.
    Differs,
}

impl fmt::Display for CodingFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodingFault::Refused(error) => error.fmt(out),
            CodingFault::Differs => out.write_str("recovered symbols differ from those sent"),
        }
    }
}

impl std::error::Error for CodingFault {}

impl From<CodeError> for CodingFault {
    fn from(error: CodeError) -> CodingFault {
        CodingFault::Refused(error)
    }
}

impl CodingLoad {
    /// A block of `code` with symbols of `symbol_bytes`.
    pub fn new(code: &ReedSolomon, symbol_bytes: usize) -> Result<CodingLoad, CodingFault> {
        // Bytes differ between symbols and positions; their distribution does not matter to the speed.
        let byte = |symbol: usize, position: usize| (symbol * 31 + position * 7 + position / 256) as u8;
        let symbol = |symbol: usize| (0..symbol_bytes).map(|at| byte(symbol, at)).collect();
        let source = (0..code.source_symbols()).map(symbol).collect();
        let parity = vec![vec![0; symbol_bytes]; code.parity_symbols()];
        let mut load = CodingLoad { source, buffers: parity.clone(), parity, workspace: Workspace::new() };
        load.encode(code, 1)?;
        Ok(load)
    }

    /// Computes all parity of the block, `blocks` times.
    pub fn encode(&mut self, code: &ReedSolomon, blocks: usize) -> Result<(), CodingFault> {
        for _ in 0..blocks {
            code.encode(self.source.iter().map(|symbol| symbol.as_slice().into()), &mut self.parity)?;
        }
        Ok(())
    }

    /// Recovers as many source symbols, the block's first, as there is parity, `blocks` times.
    pub fn decode(&mut self, code: &ReedSolomon, blocks: usize) -> Result<(), CodingFault> {
        let lost: Vec<usize> = (0..self.parity.len().min(self.source.len())).collect();
        let buffers = &mut self.buffers[..lost.len()];
        for _ in 0..blocks {
            for (buffer, symbol) in buffers.iter_mut().zip(&self.parity) {
                buffer.copy_from_slice(symbol);
            }
            let present = self.source.iter().enumerate().skip(lost.len());
            let present = present.map(|(index, symbol)| (index, Symbol::from(symbol.as_slice())));
            code.recover(&mut self.workspace, &lost, &lost, present, buffers)?;
        }
        if blocks > 0 && buffers[..] != self.source[..lost.len()] {
            return Err(CodingFault::Differs);
        }
        Ok(())
    }
}
