//! Header extensions (RFC 5740 section 4.1): EXT_FTI, EXT_CC, EXT_RATE and our own EXT_DELIVERED are read, EXT_AUTH
//! is found, the rest skipped.

use std::ops::Range;

use super::{FecId, read_u16, read_u32};
use crate::quantize;
use crate::stats::Reject;

pub(crate) const EXT_AUTH: u8 = 1;
const EXT_CC: u8 = 3;
const EXT_FTI: u8 = 64;
const EXT_RATE: u8 = 128;
/// Of our own, only for senders that ask for it.
const EXT_DELIVERED: u8 = 200;
/// From this type on an extension is one word long and has no length field.
const FIXED_LENGTH_FROM: u8 = 128;

/// The extensions found in one header.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Extensions {
    /// EXT_FTI, if its scheme was told to [`Extensions::read`].
    pub fti: Option<Fti>,
    /// EXT_CC
    pub cc: Option<CcFeedback>,
    /// EXT_RATE: the sender's rate, quantised.
    pub rate: Option<u16>,
}

impl Extensions {
    /// Reads what stands between a message's fixed header and its end.
    pub fn read(bytes: &[u8], fec_id: Option<FecId>) -> Result<Extensions, Reject> {
        let mut found = Extensions::default();
        let mut delivered = None;
        for range in (Ranges { bytes, at: 0 }) {
            let extension = &bytes[range?];
            match extension[0] {
                EXT_FTI => found.fti = fec_id.map(|id| Fti::read(id, extension)).transpose()?,
                EXT_CC if extension.len() >= 12 => found.cc = Some(CcFeedback::read(extension)),
                EXT_RATE => found.rate = Some(read_u16(extension, 2)),
                EXT_DELIVERED => {
                    delivered = Some(Delivered { lost: extension[1], rate: read_u16(extension, 2) });
                }
                _ => {}
            }
        }
        found.cc = found.cc.map(|cc| CcFeedback { delivered, ..cc });
        Ok(found)
    }
}

/// Where each extension is. What cannot be read ends them with one error.
struct Ranges<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for Ranges<'_> {
    type Item = Result<Range<usize>, Reject>;

    fn next(&mut self) -> Option<Result<Range<usize>, Reject>> {
        let rest = &self.bytes[self.at..];
        let [kind, second, ..] = *rest else { return None };
        let length = if kind >= FIXED_LENGTH_FROM { 4 } else { usize::from(second) * 4 };
        if length == 0 || length > rest.len() {
            self.at = self.bytes.len();
            return Some(Err(Reject::HeaderLength));
        }
        self.at += length;
        Some(Ok(self.at - length..self.at))
    }
}

/// Where the content of EXT_AUTH is among extensions, if it is there.
pub(crate) fn find_auth(bytes: &[u8]) -> Result<Option<Range<usize>>, Reject> {
    for range in (Ranges { bytes, at: 0 }) {
        let range = range?;
        if bytes[range.start] == EXT_AUTH {
            return Ok(Some(range.start + 2..range.end));
        }
    }
    Ok(None)
}

/// EXT_FTI: how an object is cut into symbols and blocks (RFC 5445, RFC 5510).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Fti {
    /// The object's length; for a stream, the sender's buffer.
    pub object_bytes: u64,
    /// Bytes of data in a full segment.
    pub segment_bytes: u16,
    /// Source symbols of a full block.
    pub block_symbols: u16,
    /// Parity symbols the sender may make per block.
    pub parity_symbols: u16,
}

impl Fti {
    fn read(fec_id: FecId, extension: &[u8]) -> Result<Fti, Reject> {
        if extension.len() < fec_id.fti_bytes() {
            return Err(Reject::HeaderLength);
        }
        let object_bytes = u64::from(read_u16(extension, 2)) << 32 | u64::from(read_u32(extension, 4));
        let (segment_bytes, block_symbols, parity_symbols) = match fec_id {
            FecId::ReedSolomon8 => (read_u16(extension, 8), extension[10].into(), extension[11].into()),
            FecId::SmallBlock => (read_u16(extension, 10), read_u16(extension, 12), read_u16(extension, 14)),
            FecId::NoCode => {
                let symbols = u16::try_from(read_u32(extension, 12)).map_err(|_| Reject::ObjectInfo)?;
                (read_u16(extension, 10), symbols, 0)
            }
        };
        let symbols = u32::from(block_symbols) + u32::from(parity_symbols);
        if segment_bytes == 0 || block_symbols == 0 || symbols > fec_id.symbols_max() {
            return Err(Reject::ObjectInfo);
        }
        Ok(Fti { object_bytes, segment_bytes, block_symbols, parity_symbols })
    }

    /// Appends the extension.
    pub fn write(self, fec_id: FecId, out: &mut Vec<u8>) {
        out.push(EXT_FTI);
        out.push((fec_id.fti_bytes() / 4) as u8);
        out.extend_from_slice(&self.object_bytes.to_be_bytes()[2..]);
        match fec_id {
            FecId::ReedSolomon8 => {
                out.extend_from_slice(&self.segment_bytes.to_be_bytes());
                out.push(self.block_symbols as u8);
                out.push(self.parity_symbols as u8);
            }
            FecId::SmallBlock | FecId::NoCode => {
                // Without a code the block's length takes the place of both numbers.
                let (block, parity) = (self.block_symbols, self.parity_symbols);
                let numbers = if fec_id == FecId::NoCode { [0, block] } else { [block, parity] };
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(&self.segment_bytes.to_be_bytes());
                numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
            }
        }
    }
}

/// EXT_CC: a receiver's congestion feedback (section 4.2.3.4).
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct CcFeedback {
    /// cc_sequence of the probe this answers.
    pub sequence: u16,
    /// CC_CLR, CC_PLR, CC_RTT, CC_START, CC_LEAVE.
    pub flags: u8,
    /// The receiver's round-trip time, quantised.
    pub rtt: u8,
    /// Its loss fraction, quantised.
    pub loss: u16,
    /// The rate it can take, quantised.
    pub rate: u16,
    /// What came since the probe before, if the sender asked.
    pub delivered: Option<Delivered>,
}

/// EXT_DELIVERED: what came from one probe to the next.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Messages that were lost, in 255ths of those that were sent; some loss is never 0.
    pub lost: u8,
    /// Bytes per second that came, quantised.
    pub rate: u16,
}

impl CcFeedback {
    /// The sender's limiting receiver.
    pub const CLR: u8 = 0x01;
    /// A receiver that may come to limit it.
    pub const PLR: u8 = 0x02;
    /// The receiver has measured its round-trip time.
    pub const RTT: u8 = 0x04;
    /// The receiver is in slow start.
    pub const START: u8 = 0x08;
    /// Of our own: the sender asks for [`Delivered`].
    pub const DELIVERED: u8 = 0x40;

    fn read(extension: &[u8]) -> CcFeedback {
        CcFeedback {
            sequence: read_u16(extension, 2),
            flags: extension[4],
            rtt: extension[5],
            loss: read_u16(extension, 6),
            rate: read_u16(extension, 8),
            delivered: None,
        }
    }

    /// Appends the extension.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[EXT_CC, 3]);
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&[self.flags, self.rtt]);
        out.extend_from_slice(&self.loss.to_be_bytes());
        out.extend_from_slice(&self.rate.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        if let Some(Delivered { lost, rate }) = self.delivered {
            out.extend_from_slice(&[EXT_DELIVERED, lost]);
            out.extend_from_slice(&rate.to_be_bytes());
        }
    }
}

/// Appends EXT_RATE: the rate the sender sends at.
pub fn write_rate(bytes_per_s: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[EXT_RATE, 0]);
    out.extend_from_slice(&quantize::quantize_rate(bytes_per_s).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fti_survives_a_round_trip_in_every_scheme() {
        for fec_id in [FecId::NoCode, FecId::ReedSolomon8, FecId::SmallBlock] {
            let fti = Fti {
                object_bytes: 0x1234_5678_9abc,
                segment_bytes: 1400,
                block_symbols: 64,
                parity_symbols: if fec_id == FecId::NoCode { 0 } else { 8 },
            };
            let mut out = Vec::new();
            fti.write(fec_id, &mut out);
            assert_eq!(out.len(), fec_id.fti_bytes());
            assert_eq!(Extensions::read(&out, Some(fec_id)).unwrap().fti, Some(fti));
        }
    }

    #[test]
    fn what_was_delivered_follows_congestion_feedback_and_means_nothing_without_it() {
        let cc = CcFeedback {
            sequence: 7,
            flags: CcFeedback::CLR,
            delivered: Some(Delivered { lost: 3, rate: quantize::quantize_rate(6e6) }),
            ..CcFeedback::default()
        };
        let mut out = Vec::new();
        cc.write(&mut out);
        assert_eq!(Extensions::read(&out, None).unwrap().cc, Some(cc));
        assert_eq!(Extensions::read(&out[12..], None).unwrap(), Extensions::default());
        let asked_nothing = CcFeedback { delivered: None, ..cc };
        out.clear();
        asked_nothing.write(&mut out);
        assert_eq!(out.len(), 12, "as RFC 5740 has it");
    }

    #[test]
    fn unknown_extensions_are_skipped_and_broken_ones_refused() {
        let mut out = vec![7, 2, 0, 0, 1, 2, 3, 4, 200, 9, 9, 9];
        write_rate(1000.0, &mut out);
        let found = Extensions::read(&out, None).unwrap();
        assert_eq!(found.rate, Some(quantize::quantize_rate(1000.0)));
        assert_eq!(Extensions::read(&[7, 0, 0, 0], None), Err(Reject::HeaderLength));
        assert_eq!(Extensions::read(&[7, 2, 0, 0], None), Err(Reject::HeaderLength));
    }

    #[test]
    fn impossible_object_information_is_refused() {
        let mut out = Vec::new();
        Fti { object_bytes: 1, segment_bytes: 0, block_symbols: 64, parity_symbols: 0 }
            .write(FecId::ReedSolomon8, &mut out);
        assert_eq!(Extensions::read(&out, Some(FecId::ReedSolomon8)), Err(Reject::ObjectInfo));
    }
}
