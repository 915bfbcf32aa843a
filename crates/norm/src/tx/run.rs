//! Runs of equal datagrams, gathered from streams and objects, to be sent for the first time or again.

use shoal_fec::{ReedSolomon, Symbol};

use super::order::Step;
use super::owed::Owed;
use super::parity::SymbolSet;
use super::template::Template;
use crate::layout::Layout;
use crate::stats::Stats;
use crate::time::Time;
use crate::wire::SenderHeader;

/// What is sent in segments: a stream, or an object of known length.
pub trait Segmented {
    fn layout(&self) -> &Layout;

    /// What its messages begin with.
    fn template(&self) -> &Template;

    /// What of a message parity is computed over; nothing if it is not here.
    fn symbol(&self, segment: u64) -> &[u8];

    /// Bytes of the longest symbol, and of every parity symbol.
    fn symbol_bytes_max(&self) -> usize;

    /// Bytes of data in a segment.
    fn data_bytes(&self, segment: u64) -> usize {
        self.symbol(segment).len()
    }

    /// Bytes of a full datagram.
    fn datagram_bytes_max(&self) -> usize {
        self.template().bytes.len() + self.symbol_bytes_max()
    }

    /// Bytes of each datagram of a step.
    fn datagram_bytes(&self, step: &Step) -> usize {
        match step {
            Step::Segment(segment) => self.template().bytes.len() + self.symbol(*segment).len(),
            Step::Parity { .. } => self.datagram_bytes_max(),
        }
    }

    /// What receivers asked for again.
    fn owed(&mut self) -> &mut Owed;

    /// Segments from this one on are needed by those who hold the window; older ones only by those who do not count.
    fn needed(&self) -> u64;

    /// Whether the bytes of a block are here.
    fn has_block(&self, block: u64) -> bool;
}

/// How much may go in one run.
#[derive(Copy, Clone, Debug)]
pub struct RunLimit {
    pub bytes_max: usize,
    pub segments_max: usize,
}

/// A run of datagrams that are as long as the first, but for the last.
pub struct Run<'a> {
    out: &'a mut Vec<u8>,
    sender: &'a mut SenderHeader,
    code: Option<&'a ReedSolomon>,
    rows: &'a mut Vec<usize>,
    limit: RunLimit,
    datagram_bytes: usize,
    count: usize,
    parity: usize,
    data_bytes: usize,
    /// The last one is shorter.
    is_over: bool,
}

impl<'a> Run<'a> {
    /// An empty one, written to `out`.
    pub fn new(
        out: &'a mut Vec<u8>,
        sender: &'a mut SenderHeader,
        code: Option<&'a ReedSolomon>,
        rows: &'a mut Vec<usize>,
        limit: RunLimit,
    ) -> Run<'a> {
        out.clear();
        let (datagram_bytes, count, parity, data_bytes) = (0, 0, 0, 0);
        Run { out, sender, code, rows, limit, datagram_bytes, count, parity, data_bytes, is_over: false }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn is_complete(&self) -> bool {
        self.is_over || self.count >= self.limit.segments_max
    }

    /// How many parity symbols there is room for.
    pub fn parity_max(&self, source: &impl Segmented) -> usize {
        let bytes = source.datagram_bytes_max();
        if self.count == 0 {
            return (self.limit.bytes_max / bytes).clamp(1, self.limit.segments_max);
        }
        if self.is_complete() || bytes > self.datagram_bytes {
            return 0;
        }
        let room = self.limit.bytes_max.saturating_sub(self.out.len()) / bytes;
        room.min(self.limit.segments_max - self.count)
    }

    /// Adds what a step says. False, and nothing is added, if it does not fit.
    pub fn add(&mut self, source: &impl Segmented, step: &Step, repair: bool) -> bool {
        let (bytes, count) = (source.datagram_bytes(step), step.datagrams());
        let fits = self.out.len() + bytes * count <= self.limit.bytes_max
            && self.count + count <= self.limit.segments_max;
        if self.count > 0 && (self.is_over || bytes > self.datagram_bytes || !fits) {
            return false;
        }
        match step {
            Step::Segment(segment) => {
                source.template().write(source.layout().place_of(*segment), repair, self.sender, self.out);
                self.out.extend_from_slice(source.symbol(*segment));
                self.data_bytes += source.data_bytes(*segment);
            }
            Step::Parity { block, rows } => {
                self.add_parity(source, *block, *rows, repair);
                self.parity += count;
            }
        }
        if self.count == 0 {
            self.datagram_bytes = bytes;
        }
        self.is_over = bytes < self.datagram_bytes;
        self.count += count;
        true
    }

    fn add_parity(&mut self, source: &impl Segmented, block: u64, rows: SymbolSet, repair: bool) {
        let Some(code) = self.code else { return };
        let (layout, template, start) = (source.layout(), source.template(), self.out.len());
        let (header_bytes, datagram_bytes) = (template.bytes.len(), source.datagram_bytes_max());
        self.rows.clear();
        self.rows.extend(rows.iter().map(usize::from));
        for (at, row) in self.rows.iter().enumerate() {
            let place = layout.place(block, layout.symbols(block) + *row as u64);
            template.write(place, repair, self.sender, self.out);
            self.out.resize(start + (at + 1) * datagram_bytes, 0);
        }
        let mut buffers: Vec<&mut [u8]> = self.out[start..]
            .chunks_exact_mut(datagram_bytes)
            .map(|datagram| &mut datagram[header_bytes..])
            .collect();
        let sources = layout.block_segments(block).map(|segment| Symbol::from(source.symbol(segment)));
        // Rows and lengths are the code's own, so there is nothing to refuse.
        let encoded = code.encode_rows(self.rows, sources, &mut buffers);
        debug_assert!(encoded.is_ok(), "{encoded:?}");
    }

    /// Adds what receivers asked for again, as far as its bytes are here, and calls `repaired` with each step of it. False
    /// if the run is complete.
    pub fn add_repairs<S: Segmented>(
        &mut self,
        source: &mut S,
        now: Time,
        mut repaired: impl FnMut(&mut S, &Step),
    ) -> bool {
        while !self.is_complete() {
            let (needed, layout, parity_max) = (source.needed(), *source.layout(), self.parity_max(source));
            let owed = source.owed();
            let (parity, segment) = (owed.next_parity(needed, &layout), owed.next_segment(needed));
            if parity_max == 0 && parity.is_some() {
                return false;
            }
            let block = parity.or_else(|| segment.map(|segment| layout.block_of(segment)));
            let Some(block) = block.filter(|block| source.has_block(*block)) else { return true };
            let step = match (parity, segment) {
                (None, Some(segment)) => Step::Segment(segment),
                _ => Step::Parity { block, rows: source.owed().parity.take(block, parity_max, now) },
            };
            if !self.add(source, &step, true) {
                return false;
            }
            if let Step::Segment(segment) = step {
                source.owed().segments.repaired(segment, now);
            }
            repaired(source, &step);
        }
        false
    }

    /// Ends it, and counts what it has. Returns how long each datagram is.
    pub fn finish(self, repair: bool, stats: &mut Stats) -> usize {
        stats.parity_sent += self.parity as u64;
        if repair {
            stats.repairs_sent += self.count as u64;
        } else {
            stats.segments_sent += (self.count - self.parity) as u64;
            stats.payload_bytes_sent += self.data_bytes as u64;
        }
        self.datagram_bytes
    }
}
