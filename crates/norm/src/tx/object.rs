//! One object of known length being sent: bytes in memory, or a file whose owner reads it block by block.

use std::collections::VecDeque;
use std::ops::Range;

use super::acks::AckProcess;
use super::order::{SendOrder, Step};
use super::owed::Owed;
use super::run::Segmented;
use super::template::Template;
use crate::layout::Layout;
use crate::time::Time;
use crate::wire::command::Position;
use crate::wire::object::ObjectHeader;
use crate::wire::{Flags, Fti, SenderHeader};
use crate::{Config, NodeId, ObjectId, WriteError};

/// Blocks of a file that are held beside those sent together: some soon to be sent, and some being repaired.
const LOADED_BLOCKS_MORE: usize = 7;
/// Blocks of a file that are asked for before they are needed.
const BLOCKS_AHEAD: u64 = 2;

/// Where the bytes are.
#[derive(Debug)]
enum Content {
    Memory(Vec<u8>),
    File(LoadedBlocks),
}

#[derive(Debug, Default)]
struct LoadedBlocks {
    blocks: VecDeque<(u64, Vec<u8>)>,
    /// Being read by the owner.
    asked: Vec<u64>,
}

fn loaded_blocks_max(config: &Config) -> usize {
    usize::from(config.interleave_blocks) + LOADED_BLOCKS_MORE
}

/// An object being sent.
#[derive(Debug)]
pub struct TxObject {
    pub id: ObjectId,
    /// Where it starts in the row of all objects' segments.
    pub start: u64,
    pub info: Vec<u8>,
    pub owed: Owed,
    pub acks: AckProcess,
    /// When all of it had gone out once.
    pub sent_at: Time,
    segment_bytes: usize,
    layout: Layout,
    template: Template,
    content: Content,
    /// What goes next for the first time.
    pub order: SendOrder,
    /// Blocks of a file that are held at once.
    loaded_blocks_max: usize,
    /// Bytes of memory it takes.
    pub memory: usize,
}

impl TxObject {
    /// An object, if one of this length can be sent and there is memory for its bytes.
    pub fn new(
        config: &Config,
        id: ObjectId,
        content: Result<&[u8], u64>,
        info: &[u8],
    ) -> Result<TxObject, WriteError> {
        let (kind, object_bytes) = match &content {
            Ok(bytes) => (0, bytes.len() as u64),
            Err(length) => (Flags::FILE, *length),
        };
        let memory = TxObject::memory_needed(config, content, info);
        let flags = Flags(kind | if info.is_empty() { 0 } else { Flags::INFO });
        let fti = Fti {
            object_bytes,
            segment_bytes: config.segment_bytes,
            block_symbols: config.block_symbols,
            parity_symbols: config.parity_symbols,
        };
        let layout = Layout::new(config.fec_id, &fti).filter(|_| object_bytes < 1 << 48);
        let layout = layout.ok_or(WriteError::ObjectLength)?;
        let sender = SenderHeader { source: config.node, instance: config.instance, ..Default::default() };
        let header = ObjectHeader { sender, flags, fec_id: config.fec_id, object: id };
        let content = match content {
            Ok(bytes) => {
                let mut copy = Vec::new();
                copy.try_reserve_exact(bytes.len()).map_err(|_| WriteError::NoMemory)?;
                copy.extend_from_slice(bytes);
                Content::Memory(copy)
            }
            Err(_) => Content::File(LoadedBlocks::default()),
        };
        Ok(TxObject {
            id,
            start: 0,
            owed: Owed::new(config, info),
            info: info.to_vec(),
            acks: AckProcess::new(config),
            sent_at: Time::ZERO,
            segment_bytes: config.segment_bytes.into(),
            layout,
            template: Template::new(config, &header, fti),
            content,
            order: SendOrder::of_object(config, layout),
            loaded_blocks_max: loaded_blocks_max(config),
            memory,
        })
    }

    /// Its messages come from another node id from now on.
    pub fn rename(&mut self, node: NodeId) {
        self.template.rename(node);
    }

    /// Bytes of memory an object takes.
    pub fn memory_needed(config: &Config, content: Result<&[u8], u64>, info: &[u8]) -> usize {
        let block = usize::from(config.block_symbols) * usize::from(config.segment_bytes);
        content.map_or(loaded_blocks_max(config) * block, <[u8]>::len) + info.len() + size_of::<TxObject>()
    }

    /// Where it ends in the row.
    pub fn end(&self) -> u64 {
        self.start + self.layout.segments
    }

    /// Everything before this place in the row was sent, and can be acknowledged.
    pub fn row_sent(&self) -> u64 {
        self.start + self.order.whole()
    }

    /// How many places in the row were sent, from its start on.
    pub fn row_used(&self) -> u64 {
        self.start + self.order.count()
    }

    /// Whether all of it went out once.
    pub fn is_sent(&self) -> bool {
        self.order.is_done()
    }

    /// Whether somebody waits to know who has it.
    pub fn is_watched(&self) -> bool {
        self.acks.wanted.is_some()
    }

    /// The place of a segment, as commands name it.
    pub fn position(&self, segment: u64) -> Position {
        self.layout.position(self.id, segment)
    }

    // --- bytes ---

    fn bytes_of(&self, segment: u64) -> Option<&[u8]> {
        let range = self.layout.segment_bytes(segment);
        match &self.content {
            Content::Memory(bytes) => bytes.get(range.start as usize..range.end as usize),
            Content::File(loaded) => {
                let block = self.layout.block_of(segment);
                let start = self.layout.block_bytes(block).start;
                let (_, bytes) = loaded.blocks.iter().find(|(known, _)| *known == block)?;
                bytes.get((range.start - start) as usize..(range.end - start) as usize)
            }
        }
    }

    /// The next bytes its owner is to read: those needed now, or soon.
    pub fn poll_read(&mut self) -> Option<Range<u64>> {
        let block = self.wanted_block()?;
        if let Content::File(loaded) = &mut self.content {
            loaded.asked.push(block);
        }
        Some(self.layout.block_bytes(block))
    }

    fn wanted_block(&self) -> Option<u64> {
        let Content::File(loaded) = &self.content else { return None };
        if loaded.asked.len() > BLOCKS_AHEAD as usize {
            return None;
        }
        let group = self.order.group();
        let ahead = if self.is_sent() { 0..0 } else { group.start..group.end + BLOCKS_AHEAD };
        let named = self.owed.segments.first_from(0).map(|segment| self.layout.block_of(segment));
        let wanted = named.into_iter().chain(self.owed.parity.first_block()).chain(ahead);
        wanted
            .filter(|block| *block < self.layout.blocks)
            .find(|block| !self.has_block(*block) && !loaded.asked.contains(block))
    }

    /// Bytes of a file that its owner read; must be a whole block, as it was asked for.
    pub fn supply(&mut self, offset: u64, bytes: &[u8]) {
        let Content::File(loaded) = &mut self.content else { return };
        let Some(at) = loaded.asked.iter().position(|block| self.layout.block_bytes(*block).start == offset)
        else {
            return;
        };
        let block = loaded.asked.swap_remove(at);
        let range = self.layout.block_bytes(block);
        if bytes.len() as u64 != range.end - range.start {
            return;
        }
        // The block sent last goes first, and its memory is used again.
        let mut buffer = if loaded.blocks.len() >= self.loaded_blocks_max {
            loaded.blocks.pop_front().map(|(_, buffer)| buffer).unwrap_or_default()
        } else {
            Vec::with_capacity(bytes.len())
        };
        buffer.clear();
        buffer.extend_from_slice(bytes);
        loaded.blocks.push_back((block, buffer));
    }

    // --- sending ---

    /// What goes next for the first time, if its bytes are here.
    pub fn next_step(&self, parity_max: usize) -> Option<Step> {
        self.order.next(parity_max).filter(|step| self.has_block(step.block(&self.layout)))
    }

    /// A step of first transmission was taken.
    pub fn stepped(&mut self, step: &Step, now: Time) {
        self.order.advance(step);
        if self.is_sent() {
            self.sent_at = now;
        }
    }
}

impl Segmented for TxObject {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn template(&self) -> &Template {
        &self.template
    }

    fn symbol(&self, segment: u64) -> &[u8] {
        self.bytes_of(segment).unwrap_or_default()
    }

    fn symbol_bytes_max(&self) -> usize {
        self.segment_bytes
    }

    fn owed(&mut self) -> &mut Owed {
        &mut self.owed
    }

    fn needed(&self) -> u64 {
        0
    }

    fn has_block(&self, block: u64) -> bool {
        match &self.content {
            Content::Memory(_) => true,
            Content::File(loaded) => loaded.blocks.iter().any(|(known, _)| *known == block),
        }
    }
}
