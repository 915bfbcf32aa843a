//! Segments of one stream, kept as the datagrams they travel in.
//!
//! Slots are equally long and lie side by side, so that neighbours go out as one run without being
//! copied; a repair copies the slot. Only a handful of header bytes change from one transmission to
//! the next: the sequence number, the group's round-trip time, the repair flag.

use shoal_fec::{ReedSolomon, Symbol};

use crate::Config;
use crate::auth;
use crate::wire::object::ObjectHeader;
use crate::wire::{
    Flags, Fti, PayloadId, SEGMENT_HEADER_BYTES, SegmentHeader, SenderHeader, finish_header, message_type,
};

const SEQUENCE_AT: usize = 2;
const GRTT_AT: usize = 10;
const FLAGS_AT: usize = 12;
const PAYLOAD_ID_AT: usize = 16;
/// A stream keeps at least so many of the units in which it codes and sends: one being sent, one repairable.
const UNITS_MIN: usize = 2;

/// The cached datagrams.
#[derive(Debug)]
pub struct SegmentCache {
    bytes: Vec<u8>,
    lengths: Vec<u32>,
    mask: u64,
    /// Bytes from one slot to the next: a full datagram.
    stride: usize,
    header_bytes: usize,
    segment_bytes: usize,
    fec_id: crate::FecId,
    block_symbols: u64,
    parity_symbols: u16,
    payload_id: Vec<u8>,
}

impl SegmentCache {
    /// As many slots as fit into `cache_bytes`, a power of two and at least 64; with parity or interleaving
    /// also enough for the blocks that are sent together.
    pub fn new(config: &Config, header: &ObjectHeader, cache_bytes: usize) -> SegmentCache {
        let fec_id = config.fec_id;
        let header_bytes = config.data_header_bytes();
        let segment_bytes = usize::from(config.segment_bytes);
        let stride = header_bytes + SEGMENT_HEADER_BYTES + segment_bytes;
        let fitting = (cache_bytes / stride).max(64);
        let mut slots = 1usize << fitting.ilog2();
        if config.parity_symbols > 0 || config.interleave_blocks > 1 {
            let unit = usize::from(config.block_symbols) * usize::from(config.interleave_blocks);
            slots = slots.max((UNITS_MIN * unit).next_power_of_two());
        }

        let mut template = Vec::with_capacity(header_bytes);
        header.begin(message_type::DATA, &mut template);
        PayloadId::default().write(fec_id, &mut template);
        let fti = Fti {
            object_bytes: (slots * segment_bytes) as u64,
            segment_bytes: config.segment_bytes,
            block_symbols: config.block_symbols,
            parity_symbols: config.parity_symbols,
        };
        fti.write(fec_id, &mut template);
        finish_header(&mut template);
        auth::reserve(&mut template, auth::extension_bytes(&config.auth));

        let mut bytes = vec![0; slots * stride];
        for slot in bytes.chunks_exact_mut(stride) {
            slot[..header_bytes].copy_from_slice(&template);
        }
        SegmentCache {
            bytes,
            lengths: vec![0; slots],
            mask: slots as u64 - 1,
            stride,
            header_bytes,
            segment_bytes,
            fec_id,
            block_symbols: config.block_symbols.into(),
            parity_symbols: config.parity_symbols,
            payload_id: Vec::with_capacity(8),
        }
    }

    pub fn slots(&self) -> usize {
        self.lengths.len()
    }

    /// How the stream is cut, as NORM_INFO says it.
    pub fn fti(&self) -> Fti {
        Fti {
            object_bytes: (self.slots() * self.segment_bytes) as u64,
            segment_bytes: self.segment_bytes as u16,
            block_symbols: self.block_symbols as u16,
            parity_symbols: self.parity_symbols,
        }
    }

    /// Bytes of data in a full segment.
    pub fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    fn slot(&self, segment: u64) -> usize {
        (segment & self.mask) as usize
    }

    /// Where the segment stands in its object, in its scheme's width.
    pub fn payload_id(&self, segment: u64) -> PayloadId {
        let block = segment / self.block_symbols;
        let mask = (1u64 << self.fec_id.block_bits()) - 1;
        PayloadId {
            block: (block & mask) as u32,
            block_len: if self.fec_id == crate::FecId::SmallBlock { self.block_symbols as u16 } else { 0 },
            symbol: (segment % self.block_symbols) as u16,
        }
    }

    /// Puts `data` at `at` in the segment; returns how much fitted.
    pub fn fill(&mut self, segment: u64, at: usize, data: &[u8]) -> usize {
        let count = data.len().min(self.segment_bytes - at);
        let start = self.slot(segment) * self.stride + self.header_bytes + SEGMENT_HEADER_BYTES + at;
        self.bytes[start..start + count].copy_from_slice(&data[..count]);
        count
    }

    /// Completes the segment, so that it can be sent.
    pub fn seal(&mut self, segment: u64, header: SegmentHeader) {
        let slot = self.slot(segment);
        let start = slot * self.stride;
        let mut payload_id = std::mem::take(&mut self.payload_id);
        payload_id.clear();
        self.payload_id(segment).write(self.fec_id, &mut payload_id);
        self.bytes[start + PAYLOAD_ID_AT..][..payload_id.len()].copy_from_slice(&payload_id);
        self.payload_id = payload_id;
        let header_at = start + self.header_bytes;
        self.bytes[header_at..header_at + SEGMENT_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        self.lengths[slot] = (self.header_bytes + SEGMENT_HEADER_BYTES + usize::from(header.length)) as u32;
    }

    /// The datagram of a sealed segment.
    pub fn datagram(&self, segment: u64) -> &[u8] {
        let slot = self.slot(segment);
        &self.bytes[slot * self.stride..][..self.lengths[slot] as usize]
    }

    /// A sealed segment as parity is computed over it: its header and its data.
    pub fn symbol(&self, segment: u64) -> &[u8] {
        &self.datagram(segment)[self.header_bytes..]
    }

    /// Bytes of a parity datagram.
    pub fn parity_datagram_bytes(&self) -> usize {
        self.stride
    }

    /// Appends datagrams for parity symbols `rows` of a block, and computes what they carry.
    pub fn write_parity(&self, code: &ReedSolomon, block: u64, rows: &[usize], out: &mut Vec<u8>) {
        let (start, first) = (out.len(), block * self.block_symbols);
        for row in rows {
            let at = out.len();
            out.extend_from_slice(&self.datagram(first)[..self.header_bytes]);
            out.truncate(at + PAYLOAD_ID_AT);
            let symbol = self.block_symbols as u16 + *row as u16;
            PayloadId { symbol, ..self.payload_id(first) }.write(self.fec_id, out);
            let extensions_at = out.len() - at;
            out.extend_from_slice(&self.datagram(first)[extensions_at..self.header_bytes]);
            out.resize(at + self.stride, 0);
        }
        let header_bytes = self.header_bytes;
        let mut buffers: Vec<&mut [u8]> = out[start..]
            .chunks_exact_mut(self.stride)
            .map(|datagram| &mut datagram[header_bytes..])
            .collect();
        let source = (first..first + self.block_symbols).map(|segment| Symbol::from(self.symbol(segment)));
        // Rows and lengths are the code's own, so there is nothing to refuse.
        let encoded = code.encode_rows(rows, source, &mut buffers);
        debug_assert!(encoded.is_ok(), "{encoded:?}");
    }

    /// Bytes of data in a sealed segment.
    pub fn data_bytes(&self, segment: u64) -> usize {
        self.lengths[self.slot(segment)] as usize - self.header_bytes - SEGMENT_HEADER_BYTES
    }

    /// How many segments from `first` on, before `end`, go out as one run of equal datagrams
    /// (the last may be shorter): side by side, `bytes_max` at the most, but at least one.
    pub fn run_length(&self, first: u64, end: u64, segments_max: usize, bytes_max: usize) -> usize {
        let slot = self.slot(first);
        let limit = ((end - first) as usize).min(self.slots() - slot).min(segments_max);
        let mut bytes = self.lengths[slot] as usize;
        let mut count = 1;
        while count < limit && self.lengths[slot + count - 1] as usize == self.stride {
            bytes += self.lengths[slot + count] as usize;
            if bytes > bytes_max {
                break;
            }
            count += 1;
        }
        count
    }

    /// Stamps a run for transmission and gives its datagrams, side by side, and the length of each.
    pub fn stamp_run(&mut self, first: u64, count: usize, sender: &mut SenderHeader) -> (&mut [u8], usize) {
        let slot = self.slot(first);
        for at in slot..slot + count {
            stamp(&mut self.bytes[at * self.stride..], sender);
        }
        let start = slot * self.stride;
        let end = (slot + count - 1) * self.stride + self.lengths[slot + count - 1] as usize;
        (&mut self.bytes[start..end], if count == 1 { end - start } else { self.stride })
    }
}

/// Writes what differs from one transmission to the next, and counts the sequence on.
pub fn stamp(datagram: &mut [u8], sender: &mut SenderHeader) {
    datagram[SEQUENCE_AT..SEQUENCE_AT + 2].copy_from_slice(&sender.sequence.to_be_bytes());
    datagram[GRTT_AT] = sender.grtt;
    datagram[GRTT_AT + 1] = sender.backoff << 4 | sender.group_size;
    sender.sequence = sender.sequence.wrapping_add(1);
}

/// Stamps a copy of a cached datagram as a repair.
pub fn stamp_repair(datagram: &mut [u8], sender: &mut SenderHeader) {
    stamp(datagram, sender);
    datagram[FLAGS_AT] |= Flags::REPAIR;
}
