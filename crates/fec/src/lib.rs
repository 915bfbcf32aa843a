//! Reed-Solomon erasure code over GF(2^8), as NORM's `fec_id` 5 (RFC 5510) and 129 use it.
//!
//! A block has up to k source symbols; [`ReedSolomon`] computes parity symbols from them, and any k symbols
//! of the block give back the others. The code is systematic: source symbols travel as they are.
//! The generator matrix is the one NRL's libnorm and zfec use, which is not quite RFC 5510's
//! (`docs/design/fec.md` has the difference).
//!
//! Nothing here does I/O, keeps time or allocates per symbol. Symbols may live anywhere: a source symbol is
//! read as one or two slices ([`Symbol`]), parity is any `AsMut<[u8]>`.
//!
//! ```
//! use shoal_fec::{ReedSolomon, Symbol, Workspace};
//!
//! let code = ReedSolomon::new(3, 2)?;
//! let source: [&[u8]; 3] = [b"shoals", b"have", b"no head"];
//! let mut parity = vec![vec![0; 7]; 2];
//! for (index, symbol) in source.into_iter().enumerate() {
//!     code.add_source(index, symbol.into(), &mut parity)?;
//! }
//!
//! // Symbols 0 and 2 are lost: the parity symbols' own memory becomes them.
//! let present = [(1, Symbol::from(source[1]))];
//! code.recover(&mut Workspace::new(), &[0, 2], &[0, 1], present, &mut parity)?;
//! assert_eq!(parity, [b"shoals\0", b"no head"]);
//! # Ok::<(), shoal_fec::CodeError>(())
//! ```

mod code;
mod error;
mod gf256;
mod kernel;
mod recovery;
mod sums;
mod symbol;

pub use code::{ReedSolomon, SYMBOLS_MAX};
pub use error::CodeError;
pub use gf256::{inverse, multiply, power};
pub use kernel::Kernel;
pub use recovery::Workspace;
pub use symbol::Symbol;
