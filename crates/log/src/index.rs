//! The index beside a sealed segment: which topics it has, and in which blocks of frames.
//!
//! A block is a run of frames of about 64 KiB, so an index stays small whatever the frames are. Of a commit each frame of
//! staged rows is a block, which lies where the commit does. An index is made
//! from its segment alone, and made again when it is missing, damaged, or of another file.
//!
//! ```text
//! byte 0    "SHOALIDX"
//! byte 8    u16 version, u16 zero
//! byte 12   u32 CRC-32C of bytes 16 up to the postings
//! byte 16   u64 store id
//! byte 24   u32 segment
//! byte 28   u32 checksum of the segment's first frame
//! byte 32   u64 position at which the segment ends
//! byte 40   u32 topics, u32 blocks, u32 bytes of all names, u32 postings
//! byte 56   topics, sorted by name; each:
//!             u32 where its name begins, u16 its length, u16 zero
//!             u32 its first posting, u32 how many, u32 CRC-32C of them, u32 zero
//!             u64 first offset, u64 last offset, u64 how many messages, u64 bytes of their records
//!           blocks; each:
//!             u64 position, u64 offset, u64 end offset, u64 stored, u64 earliest and u64 latest timestamp,
//!             u32 messages, u32 flags: 1 = has gaps, 2 = staged rows of a commit
//!           names, one behind the other
//!           postings: u32 number of a block, for each topic in order
//! ```

use std::sync::Arc;

use crate::bytes::{Reader, u32_at};
use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::HEADER_BYTES;
use crate::frames::Frames;
use crate::segment::{Segment, index_name};

/// The version of the index files.
pub const INDEX_VERSION: u16 = 1;

const MAGIC: &[u8; 8] = b"SHOALIDX";
const HEAD_BYTES: usize = 56;
const TOPIC_BYTES: usize = 56;
const BLOCK_BYTES: usize = 56;
const HAS_GAPS: u32 = 1;
const IS_STAGED: u32 = 2;

/// What an index says of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicEntry {
    /// Its name, as it travelled.
    pub name: Box<[u8]>,
    /// The offset of the first message.
    pub first: u64,
    /// That of the last.
    pub last: u64,
    /// How many there are.
    pub count: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

/// A run of frames.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Where it begins in the file.
    pub position: u64,
    /// The offset of its first message.
    pub offset: u64,
    /// The offset after its last.
    pub end_offset: u64,
    /// When its first frame was stored.
    pub stored_us: u64,
    /// The earliest time at which one of its messages was published.
    pub earliest_us: u64,
    /// The latest.
    pub latest_us: u64,
    /// How many messages it has.
    pub messages: u32,
    /// Whether messages are known to be lost there.
    pub has_gaps: bool,
    /// Whether it is one of the frames of staged rows of a commit, which lies at the position.
    pub is_staged: bool,
}

/// Where a block ends: the next that begins further on is there, or the end.
pub(crate) fn block_end(blocks: &[Block], number: usize, end_position: u64) -> u64 {
    let position = blocks[number].position;
    let next = blocks.partition_point(|block| block.position <= position);
    blocks.get(next).map_or(end_position, |next| next.position)
}

/// Which file an index belongs to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexKey {
    pub store: u64,
    pub segment: u32,
    pub first_checksum: u32,
    pub end_position: u64,
}

impl IndexKey {
    pub fn of<D: Disk>(frames: &mut Frames<D>, segment: &Segment, store: u64) -> Result<IndexKey, LogError> {
        let first_checksum = u32_at(frames.bytes(0, HEADER_BYTES)?, 0);
        Ok(IndexKey { store, segment: segment.number, first_checksum, end_position: segment.end_position })
    }
}

/// An index in memory, without the postings.
#[derive(Clone, Debug)]
pub struct Index {
    topics: Vec<(TopicEntry, Postings)>,
    blocks: Vec<Block>,
    end_position: u64,
    postings_at: u64,
}

#[derive(Copy, Clone, Debug, Default)]
struct Postings {
    first: u32,
    count: u32,
    checksum: u32,
}

impl Index {
    /// The topics, sorted by name.
    pub fn topics(&self) -> impl Iterator<Item = &TopicEntry> {
        self.topics.iter().map(|(topic, _)| topic)
    }

    /// The blocks, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Where a block ends.
    pub fn block_end(&self, number: usize) -> u64 {
        block_end(&self.blocks, number, self.end_position)
    }

    /// Where the last one does.
    pub(crate) fn end_position(&self) -> u64 {
        self.end_position
    }

    /// Reads the index of a segment; none if it is missing or is not that of this file.
    pub(crate) fn load<D: Disk>(disk: &Arc<D>, key: &IndexKey) -> Option<(Index, Arc<D::File>)> {
        let file = disk.open(&index_name(key.segment)).ok()?;
        let mut head = [0; HEAD_BYTES];
        (disk.read(&file, 0, &mut head).ok()? == HEAD_BYTES).then_some(())?;
        let mut reader = Reader(&head);
        (reader.take(8)? == MAGIC && reader.u16()? == INDEX_VERSION).then_some(())?;
        reader.u16()?;
        let checksum = reader.u32()?;
        let found = IndexKey {
            store: reader.u64()?,
            segment: reader.u32()?,
            first_checksum: reader.u32()?,
            end_position: reader.u64()?,
        };
        (found == *key).then_some(())?;
        let (topics, blocks) = (reader.u32()? as usize, reader.u32()? as usize);
        let (names, postings) = (reader.u32()? as usize, u64::from(reader.u32()?));
        let postings_at = HEAD_BYTES + topics * TOPIC_BYTES + blocks * BLOCK_BYTES + names;
        (disk.length(&file).ok()? == postings_at as u64 + postings * 4).then_some(())?;
        let mut body = vec![0; postings_at - HEAD_BYTES];
        (disk.read(&file, HEAD_BYTES as u64, &mut body).ok()? == body.len()).then_some(())?;
        let computed = crc32c::crc32c_append(crc32c::crc32c(&head[16..]), &body);
        (computed == checksum).then_some(())?;
        Index::parse(&body, topics, blocks, key.end_position, postings_at as u64).map(|index| (index, file))
    }

    fn parse(
        body: &[u8],
        topics: usize,
        blocks: usize,
        end_position: u64,
        postings_at: u64,
    ) -> Option<Index> {
        let (tables, names) = body.split_at_checked(topics * TOPIC_BYTES + blocks * BLOCK_BYTES)?;
        let mut reader = Reader(tables);
        let mut topic = || {
            let (start, length) = (reader.u32()? as usize, usize::from(reader.u16()?));
            reader.u16()?;
            let (first, count, checksum) = (reader.u32()?, reader.u32()?, reader.u32()?);
            reader.u32()?;
            let name = names.get(start..start + length)?.into();
            let (first_offset, last) = (reader.u64()?, reader.u64()?);
            let entry =
                TopicEntry { name, first: first_offset, last, count: reader.u64()?, bytes: reader.u64()? };
            Some((entry, Postings { first, count, checksum }))
        };
        let topics = (0..topics).map(|_| topic()).collect::<Option<_>>()?;
        let mut block = || {
            let mut block = Block {
                position: reader.u64()?,
                offset: reader.u64()?,
                end_offset: reader.u64()?,
                stored_us: reader.u64()?,
                earliest_us: reader.u64()?,
                latest_us: reader.u64()?,
                messages: reader.u32()?,
                ..Block::default()
            };
            let flags = reader.u32()?;
            (block.has_gaps, block.is_staged) = (flags & HAS_GAPS != 0, flags & IS_STAGED != 0);
            Some(block)
        };
        let blocks = (0..blocks).map(|_| block()).collect::<Option<_>>()?;
        Some(Index { topics, blocks, end_position, postings_at })
    }

    /// The numbers of the blocks that have one of the topics asked for, in order; none if they cannot be read.
    pub(crate) fn blocks_with<D: Disk>(
        &self,
        disk: &D,
        file: &D::File,
        mut wanted: impl FnMut(&[u8]) -> bool,
    ) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        for (topic, postings) in &self.topics {
            if !wanted(&topic.name) {
                continue;
            }
            let mut bytes = vec![0; postings.count as usize * 4];
            let at = self.postings_at + u64::from(postings.first) * 4;
            (disk.read(file, at, &mut bytes).ok()? == bytes.len()).then_some(())?;
            (crc32c::crc32c(&bytes) == postings.checksum).then_some(())?;
            found.extend(bytes.chunks_exact(4).map(|number| u32_at(number, 0)));
        }
        found.sort_unstable();
        found.dedup();
        found.iter().all(|&number| (number as usize) < self.blocks.len()).then_some(found)
    }
}

/// An index on its way to its file.
pub(crate) fn write(key: &IndexKey, topics: &[(TopicEntry, Vec<u32>)], blocks: &[Block]) -> Vec<u8> {
    let names: usize = topics.iter().map(|(topic, _)| topic.name.len()).sum();
    let postings: usize = topics.iter().map(|(_, blocks)| blocks.len()).sum();
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&INDEX_VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 6]);
    out.extend_from_slice(&key.store.to_le_bytes());
    out.extend_from_slice(&key.segment.to_le_bytes());
    out.extend_from_slice(&key.first_checksum.to_le_bytes());
    out.extend_from_slice(&key.end_position.to_le_bytes());
    for count in [topics.len(), blocks.len(), names, postings] {
        out.extend_from_slice(&(count as u32).to_le_bytes());
    }
    let (mut name_at, mut posting_at) = (0u32, 0u32);
    for (topic, blocks) in topics {
        out.extend_from_slice(&name_at.to_le_bytes());
        out.extend_from_slice(&(topic.name.len() as u16).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        let checksum = crc32c::crc32c(&posting_bytes(blocks));
        for number in [posting_at, blocks.len() as u32, checksum, 0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [topic.first, topic.last, topic.count, topic.bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        name_at += topic.name.len() as u32;
        posting_at += blocks.len() as u32;
    }
    for block in blocks {
        let numbers = [
            block.position,
            block.offset,
            block.end_offset,
            block.stored_us,
            block.earliest_us,
            block.latest_us,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&block.messages.to_le_bytes());
        let gaps = if block.has_gaps { HAS_GAPS } else { 0 };
        let flags = gaps | if block.is_staged { IS_STAGED } else { 0 };
        out.extend_from_slice(&flags.to_le_bytes());
    }
    for (topic, _) in topics {
        out.extend_from_slice(&topic.name);
    }
    let checksum = crc32c::crc32c(&out[16..]);
    out[12..16].copy_from_slice(&checksum.to_le_bytes());
    for (_, blocks) in topics {
        out.extend_from_slice(&posting_bytes(blocks));
    }
    out
}

fn posting_bytes(blocks: &[u32]) -> Vec<u8> {
    blocks.iter().flat_map(|number| number.to_le_bytes()).collect()
}
