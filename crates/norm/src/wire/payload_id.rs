//! FEC payload ids: where in an object a segment belongs, in the form its FEC scheme gives it.

use super::{read_u16, read_u32};
use crate::stats::Reject;

/// The FEC schemes this engine speaks, by their IANA number.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FecId {
    /// Compact No-Code (RFC 5445): 16-bit block, 16-bit symbol.
    NoCode = 0,
    /// Reed-Solomon over GF(2^8) (RFC 5510): 24-bit block, 8-bit symbol.
    #[default]
    ReedSolomon8 = 5,
    /// Small Block Systematic (RFC 5445): 32-bit block, 16-bit block length, 16-bit symbol.
    SmallBlock = 129,
}

impl FecId {
    /// The scheme with this number.
    pub const fn from_number(number: u8) -> Result<FecId, Reject> {
        match number {
            0 => Ok(FecId::NoCode),
            5 => Ok(FecId::ReedSolomon8),
            129 => Ok(FecId::SmallBlock),
            _ => Err(Reject::UnknownFec),
        }
    }

    /// The IANA number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Bytes of a payload id.
    pub const fn payload_id_bytes(self) -> usize {
        match self {
            FecId::NoCode | FecId::ReedSolomon8 => 4,
            FecId::SmallBlock => 8,
        }
    }

    /// Bytes of an EXT_FTI.
    pub const fn fti_bytes(self) -> usize {
        match self {
            FecId::ReedSolomon8 => 12,
            FecId::NoCode | FecId::SmallBlock => 16,
        }
    }

    /// Bits of a block number; it wraps there.
    pub const fn block_bits(self) -> u32 {
        match self {
            FecId::NoCode => 16,
            FecId::ReedSolomon8 => 24,
            FecId::SmallBlock => 32,
        }
    }

    /// The most symbols a block may have, parity included.
    pub const fn symbols_max(self) -> u32 {
        match self {
            FecId::ReedSolomon8 => 255,
            FecId::NoCode | FecId::SmallBlock => 65_535,
        }
    }
}

/// A segment's place in its object.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PayloadId {
    /// source_block_number, as wide as the scheme has it.
    pub block: u32,
    /// source_block_len; only `SmallBlock` carries it, elsewhere it is 0.
    pub block_len: u16,
    /// encoding_symbol_id.
    pub symbol: u16,
}

impl PayloadId {
    /// Reads a payload id at the start of `bytes`.
    pub fn read(fec_id: FecId, bytes: &[u8]) -> Result<PayloadId, Reject> {
        if bytes.len() < fec_id.payload_id_bytes() {
            return Err(Reject::Truncated);
        }
        Ok(match fec_id {
            FecId::NoCode => {
                PayloadId { block: read_u16(bytes, 0).into(), block_len: 0, symbol: read_u16(bytes, 2) }
            }
            FecId::ReedSolomon8 => {
                let word = read_u32(bytes, 0);
                PayloadId { block: word >> 8, block_len: 0, symbol: (word & 0xff) as u16 }
            }
            FecId::SmallBlock => PayloadId {
                block: read_u32(bytes, 0),
                block_len: read_u16(bytes, 4),
                symbol: read_u16(bytes, 6),
            },
        })
    }

    /// Its bytes, of which there are as many as the scheme says.
    pub fn to_bytes(self, fec_id: FecId) -> [u8; 8] {
        let PayloadId { block, block_len, symbol } = self;
        let word = match fec_id {
            FecId::NoCode => (u64::from(block) & 0xffff) << 48 | u64::from(symbol) << 32,
            FecId::ReedSolomon8 => u64::from(block << 8 | u32::from(symbol) & 0xff) << 32,
            FecId::SmallBlock => u64::from(block) << 32 | u64::from(block_len) << 16 | u64::from(symbol),
        };
        word.to_be_bytes()
    }

    /// Appends the payload id.
    pub fn write(self, fec_id: FecId, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes(fec_id)[..fec_id.payload_id_bytes()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_ids_have_the_width_of_their_scheme() {
        let id = PayloadId { block: 0x0001_0203, block_len: 64, symbol: 0x2a };
        let written = |fec_id: FecId| {
            let mut out = Vec::new();
            id.write(fec_id, &mut out);
            assert_eq!(out.len(), fec_id.payload_id_bytes());
            out
        };
        assert_eq!(written(FecId::NoCode), [0x02, 0x03, 0x00, 0x2a]);
        assert_eq!(written(FecId::ReedSolomon8), [0x01, 0x02, 0x03, 0x2a]);
        assert_eq!(written(FecId::SmallBlock), [0, 1, 2, 3, 0, 64, 0, 0x2a]);
        assert_eq!(PayloadId::read(FecId::SmallBlock, &written(FecId::SmallBlock)), Ok(id));
        assert_eq!(PayloadId::read(FecId::SmallBlock, &[0; 7]), Err(Reject::Truncated));
    }
}
