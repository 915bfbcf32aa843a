//! The log's own small state, and the changes it is made of.
//!
//! A change is written to the log and then applied; a checkpoint is the list of changes that make the whole state
//! out of nothing. So the state is the same whether it is read from a checkpoint or from everything before it.
//!
//! ```text
//! u8   what it is, then:
//!   1  value     text key, blob value
//!   2  no value  text key
//!   3  staging   text id, u64 stored, u32 frames, each: u32 segment, u64 position, u32 rows, u32 bytes
//!   4  discard   text id
//!   5  commit    text scope, u64 number, u64 first offset, u64 end offset
//!   6  to be published: u64 first offset, u64 end offset
//!   7  published up to: u64 offset
//!   8  history begins at: u64 offset
//!   9  a segment is needed by a later one: u32 segment, u32 the later one
//!  10  no commit is remembered any more: text scope
//!  11  marks are complete up to: u64 offset, u32 lanes, each: u32
//!  12  mark: u32 lane, u64 publisher, u32 chain, u64 number, u64 stored
//!  13  done: text reader, u64 messages, u64 bytes, u32 runs, each: u64 first offset, u64 end offset
//!  14  came: text reader, u64 messages, u64 bytes
//!  15  delivered before, as earlier versions wrote it: text reader, u64 offset, u32 how often, u64 not again before
//!  16  reader is forgotten: text reader
//!  17  chain, as earlier versions wrote it: u64 publisher, u32 chain, u64 number, u64 stored, u8 whether it is kept for ever
//!  18  delivered before: text reader, u64 first offset, u64 end offset, u32 how often, u64 not again before
//!  19  chain: as 17, then u64 owner
//!  20  granted: text reader, u64 first offset, u64 end offset, u64 lease
//!  21  no longer granted: text reader, u64 first offset, u64 end offset
//!  22  lease is over: text reader, u64 lease
//! ```
//! A text is a u16 length and UTF-8, a blob a u32 length and bytes.

use std::collections::{BTreeMap, VecDeque};

use crate::bytes::{Reader, write_blob, write_text};
use crate::chains::{Chain, Chains};
use crate::deliveries::Delivery;
use crate::error::LogError;
use crate::marks::{Mark, MarkKey, Marks};
use crate::readers::Readers;

/// A frame of staged rows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StagedFrame {
    /// The segment it is in.
    pub segment: u32,
    /// Where in its file.
    pub position: u64,
    /// How many rows it has.
    pub rows: u32,
    /// Bytes of its payload.
    pub bytes: u32,
}

/// Rows that nobody sees before a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staging {
    /// Where they are, in order.
    pub frames: Vec<StagedFrame>,
    /// When the last were added, microseconds since 1970.
    pub stored_us: u64,
}

impl Staging {
    /// How many rows.
    pub fn rows(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.rows)).sum()
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.bytes)).sum()
    }
}

/// The last commit of a scope.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number.
    pub number: u64,
    /// The offset of its first row.
    pub first: u64,
    /// The offset after its last.
    pub end: u64,
}

/// One step from a state to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key has a value now.
    Put(String, Vec<u8>),
    /// A key has none any more.
    Remove(String),
    /// A staging, as it stands in a checkpoint.
    Stage(String, Staging),
    /// A staging is forgotten.
    Discard(String),
    /// The last commit of a scope.
    Commit(String, Committed),
    /// Committed rows are to be published.
    Publish(u64, u64),
    /// Everything committed below an offset is published.
    Published(u64),
    /// History begins here.
    Floor(u64),
    /// The first segment has rows that a commit in the second refers to.
    Needed(u32, u32),
    /// Nothing is remembered of a scope.
    Forget(String),
    /// Marks of these recorders follow, complete up to an offset.
    Lanes(u64, Vec<u32>),
    /// How far a chain is recorded.
    Mark(MarkKey, Mark),
    /// A reader has done with some offsets, between each first and end; so many messages and bytes.
    Done(String, u64, u64, Vec<(u64, u64)>),
    /// So many messages and bytes came for a reader.
    Came(String, u64, u64),
    /// Messages between two offsets were given to a reader's consumers before.
    Delivered(String, u64, u64, Delivery),
    /// Messages between two offsets are granted to a reader's consumer, under a lease.
    Granted(String, u64, u64, u64),
    /// Messages between two offsets are granted to no consumer of a reader.
    Revoked(String, u64, u64),
    /// A consumer of a reader has nothing any more that it was granted under a lease.
    LeaseOver(String, u64),
    /// Nothing is known of a reader any more.
    ForgetReader(String),
    /// How far a publisher's own chain is stored.
    Chain(u64, u32, Chain),
}

impl Change {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Change::Put(key, value) => {
                out.push(1);
                write_text(out, key);
                write_blob(out, value);
            }
            Change::Remove(key) => {
                out.push(2);
                write_text(out, key);
            }
            Change::Stage(id, staging) => {
                out.push(3);
                write_text(out, id);
                out.extend_from_slice(&staging.stored_us.to_le_bytes());
                write_frames(&staging.frames, out);
            }
            Change::Discard(id) => {
                out.push(4);
                write_text(out, id);
            }
            Change::Commit(scope, committed) => {
                out.push(5);
                write_text(out, scope);
                for number in [committed.number, committed.first, committed.end] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
            Change::Publish(first, end) => {
                out.push(6);
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&end.to_le_bytes());
            }
            Change::Published(offset) => {
                out.push(7);
                out.extend_from_slice(&offset.to_le_bytes());
            }
            Change::Floor(offset) => {
                out.push(8);
                out.extend_from_slice(&offset.to_le_bytes());
            }
            Change::Needed(segment, by) => {
                out.push(9);
                out.extend_from_slice(&segment.to_le_bytes());
                out.extend_from_slice(&by.to_le_bytes());
            }
            Change::Forget(scope) => {
                out.push(10);
                write_text(out, scope);
            }
            Change::Lanes(covered, lanes) => {
                out.push(11);
                out.extend_from_slice(&covered.to_le_bytes());
                out.extend_from_slice(&(lanes.len() as u32).to_le_bytes());
                lanes.iter().for_each(|lane| out.extend_from_slice(&lane.to_le_bytes()));
            }
            Change::Mark(key, mark) => {
                out.push(12);
                out.extend_from_slice(&key.lane.to_le_bytes());
                out.extend_from_slice(&key.publisher.to_le_bytes());
                out.extend_from_slice(&key.chain.to_le_bytes());
                out.extend_from_slice(&mark.number.to_le_bytes());
                out.extend_from_slice(&mark.stored_us.to_le_bytes());
            }
            Change::Done(reader, messages, bytes, runs) => {
                out.push(13);
                write_text(out, reader);
                out.extend_from_slice(&messages.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
                out.extend_from_slice(&(runs.len() as u32).to_le_bytes());
                for (first, end) in runs {
                    out.extend_from_slice(&first.to_le_bytes());
                    out.extend_from_slice(&end.to_le_bytes());
                }
            }
            Change::Came(reader, messages, bytes) => {
                out.push(14);
                write_text(out, reader);
                out.extend_from_slice(&messages.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
            }
            Change::Delivered(reader, first, end, delivery) => {
                out.push(18);
                write_text(out, reader);
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&end.to_le_bytes());
                out.extend_from_slice(&delivery.count.to_le_bytes());
                out.extend_from_slice(&delivery.due_us.to_le_bytes());
            }
            Change::Granted(reader, first, end, lease) => {
                out.push(20);
                write_text(out, reader);
                for number in [first, end, lease] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
            Change::Revoked(reader, first, end) => {
                out.push(21);
                write_text(out, reader);
                for number in [first, end] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
            Change::LeaseOver(reader, lease) => {
                out.push(22);
                write_text(out, reader);
                out.extend_from_slice(&lease.to_le_bytes());
            }
            Change::ForgetReader(reader) => {
                out.push(16);
                write_text(out, reader);
            }
            Change::Chain(publisher, chain, reached) => {
                out.push(19);
                out.extend_from_slice(&publisher.to_le_bytes());
                out.extend_from_slice(&chain.to_le_bytes());
                out.extend_from_slice(&reached.number.to_le_bytes());
                out.extend_from_slice(&reached.stored_us.to_le_bytes());
                out.push(u8::from(reached.kept));
                out.extend_from_slice(&reached.owner.to_le_bytes());
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Option<Change> {
        Some(match reader.u8()? {
            1 => Change::Put(reader.text()?.to_owned(), reader.blob()?.to_vec()),
            2 => Change::Remove(reader.text()?.to_owned()),
            3 => {
                let id = reader.text()?.to_owned();
                let stored_us = reader.u64()?;
                Change::Stage(id, Staging { frames: read_frames(reader)?, stored_us })
            }
            4 => Change::Discard(reader.text()?.to_owned()),
            5 => {
                let scope = reader.text()?.to_owned();
                let (number, first, end) = (reader.u64()?, reader.u64()?, reader.u64()?);
                Change::Commit(scope, Committed { number, first, end })
            }
            6 => Change::Publish(reader.u64()?, reader.u64()?),
            7 => Change::Published(reader.u64()?),
            8 => Change::Floor(reader.u64()?),
            9 => Change::Needed(reader.u32()?, reader.u32()?),
            10 => Change::Forget(reader.text()?.to_owned()),
            11 => {
                let (covered, count) = (reader.u64()?, reader.u32()? as usize);
                if count > reader.0.len() / 4 {
                    return None;
                }
                Change::Lanes(covered, (0..count).map(|_| reader.u32()).collect::<Option<_>>()?)
            }
            12 => {
                let key = MarkKey { lane: reader.u32()?, publisher: reader.u64()?, chain: reader.u32()? };
                Change::Mark(key, Mark { number: reader.u64()?, stored_us: reader.u64()? })
            }
            13 => {
                let reader_name = reader.text()?.to_owned();
                let (messages, bytes, count) = (reader.u64()?, reader.u64()?, reader.u32()? as usize);
                if count > reader.0.len() / 16 {
                    return None;
                }
                let runs = (0..count).map(|_| Some((reader.u64()?, reader.u64()?))).collect::<Option<_>>()?;
                Change::Done(reader_name, messages, bytes, runs)
            }
            14 => Change::Came(reader.text()?.to_owned(), reader.u64()?, reader.u64()?),
            15 => {
                let (name, offset) = (reader.text()?.to_owned(), reader.u64()?);
                let delivery = Delivery { count: reader.u32()?, due_us: reader.u64()? };
                Change::Delivered(name, offset, offset.checked_add(1)?, delivery)
            }
            16 => Change::ForgetReader(reader.text()?.to_owned()),
            kind @ (17 | 19) => {
                let (publisher, chain) = (reader.u64()?, reader.u32()?);
                let (number, stored_us, kept) = (reader.u64()?, reader.u64()?, reader.u8()? != 0);
                let owner = if kind == 19 { reader.u64()? } else { 0 };
                Change::Chain(publisher, chain, Chain { number, stored_us, kept, owner })
            }
            18 => {
                let (name, first, end) = (reader.text()?.to_owned(), reader.u64()?, reader.u64()?);
                let delivery = Delivery { count: reader.u32()?, due_us: reader.u64()? };
                Change::Delivered(name, first, end, delivery)
            }
            20 => {
                let name = reader.text()?.to_owned();
                Change::Granted(name, reader.u64()?, reader.u64()?, reader.u64()?)
            }
            21 => Change::Revoked(reader.text()?.to_owned(), reader.u64()?, reader.u64()?),
            22 => Change::LeaseOver(reader.text()?.to_owned(), reader.u64()?),
            _ => return None,
        })
    }

    /// All changes of a payload; `None` if it is not what it should be.
    pub fn read_all(payload: &[u8]) -> Option<Vec<Change>> {
        let (mut reader, mut changes) = (Reader(payload), Vec::new());
        while !reader.0.is_empty() {
            changes.push(Change::read(&mut reader)?);
        }
        Some(changes)
    }

    /// Whether its texts are short enough to be written.
    pub fn check(&self) -> Result<(), LogError> {
        let (what, text) = match self {
            Change::Put(text, _) | Change::Remove(text) => ("key", text),
            Change::Stage(text, _) | Change::Discard(text) => ("staging id", text),
            Change::Commit(text, _) | Change::Forget(text) => ("scope", text),
            Change::Done(text, ..)
            | Change::Came(text, ..)
            | Change::Delivered(text, ..)
            | Change::Granted(text, ..)
            | Change::Revoked(text, ..)
            | Change::LeaseOver(text, _)
            | Change::ForgetReader(text) => ("reader", text),
            Change::Publish(..)
            | Change::Published(_)
            | Change::Floor(_)
            | Change::Needed(..)
            | Change::Lanes(..)
            | Change::Mark(..)
            | Change::Chain(..) => return Ok(()),
        };
        check_name(what, text)
    }
}

/// Names of keys, stagings and scopes are no longer.
pub const NAME_BYTES_MAX: usize = 1000;

pub(crate) fn check_name(what: &str, text: &str) -> Result<(), LogError> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        let found = text.len();
        return Err(LogError::Refused(format!(
            "a {what} has 1 to {NAME_BYTES_MAX} bytes, and this one has {found}"
        )));
    }
    Ok(())
}

pub(crate) fn write_frames(frames: &[StagedFrame], out: &mut Vec<u8>) {
    out.extend_from_slice(&(frames.len() as u32).to_le_bytes());
    for frame in frames {
        out.extend_from_slice(&frame.segment.to_le_bytes());
        out.extend_from_slice(&frame.position.to_le_bytes());
        out.extend_from_slice(&frame.rows.to_le_bytes());
        out.extend_from_slice(&frame.bytes.to_le_bytes());
    }
}

const FRAME_BYTES: usize = 20;

pub(crate) fn read_frames(reader: &mut Reader<'_>) -> Option<Vec<StagedFrame>> {
    let count = reader.u32()? as usize;
    if count > reader.0.len() / FRAME_BYTES {
        return None;
    }
    let mut frame = || {
        let (segment, position) = (reader.u32()?, reader.u64()?);
        Some(StagedFrame { segment, position, rows: reader.u32()?, bytes: reader.u32()? })
    };
    (0..count).map(|_| frame()).collect()
}

/// What the changes so far amount to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    values: BTreeMap<String, Vec<u8>>,
    stagings: BTreeMap<String, Staging>,
    scopes: BTreeMap<String, Committed>,
    unpublished: VecDeque<(u64, u64)>,
    floor: u64,
    needed: BTreeMap<u32, u32>,
    pub(crate) marks: Marks,
    readers: Readers,
    chains: Chains,
    bytes: usize,
}

impl State {
    /// Takes a change in.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Put(key, value) => {
                self.remove(&key);
                self.bytes += cost(&key) + value.len();
                self.values.insert(key, value);
            }
            Change::Remove(key) => self.remove(&key),
            Change::Stage(id, staging) => {
                self.discard(&id);
                self.bytes += cost(&id) + staging.frames.len() * FRAME_BYTES;
                self.stagings.insert(id, staging);
            }
            Change::Discard(id) => self.discard(&id),
            Change::Commit(scope, committed) => {
                let bytes = cost(&scope);
                if self.scopes.insert(scope, committed).is_none() {
                    self.bytes += bytes;
                }
            }
            Change::Publish(first, end) => match self.unpublished.back_mut() {
                Some(last) if last.1 == first => last.1 = end,
                _ => self.unpublished.push_back((first, end)),
            },
            Change::Published(offset) => {
                while self.unpublished.front().is_some_and(|run| run.1 <= offset) {
                    self.unpublished.pop_front();
                }
                if let Some(run) = self.unpublished.front_mut() {
                    run.0 = run.0.max(offset);
                }
            }
            Change::Floor(offset) => self.floor = self.floor.max(offset),
            Change::Needed(segment, by) => {
                let needed = self.needed.entry(segment).or_insert(by);
                *needed = by.max(*needed);
            }
            Change::Forget(scope) => {
                if self.scopes.remove(&scope).is_some() {
                    self.bytes -= cost(&scope);
                }
            }
            Change::Lanes(covered, lanes) => self.marks = Marks::new(covered, lanes),
            Change::Mark(key, mark) => self.marks.raise(key, mark.number, mark.stored_us),
            Change::Done(reader, messages, bytes, runs) => {
                self.readers.done(&reader, messages, bytes, &runs);
            }
            Change::Came(reader, messages, bytes) => self.readers.came(&reader, messages, bytes),
            Change::Delivered(reader, first, end, delivery) => {
                self.readers.delivered(&reader, first..end, delivery);
            }
            Change::Granted(reader, first, end, lease) => self.readers.granted(&reader, first..end, lease),
            Change::Revoked(reader, first, end) => self.readers.revoked(&reader, first..end),
            Change::LeaseOver(reader, lease) => self.readers.lease_over(&reader, lease),
            Change::ForgetReader(reader) => self.readers.forget(&reader),
            Change::Chain(publisher, chain, reached) => self.chains.raise(publisher, chain, reached),
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some(old) = self.values.remove(key) {
            self.bytes -= cost(key) + old.len();
        }
    }

    fn discard(&mut self, id: &str) {
        if let Some(old) = self.stagings.remove(id) {
            self.bytes -= cost(id) + old.frames.len() * FRAME_BYTES;
        }
    }

    /// Adds a frame to a staging, which it begins if there is none.
    pub fn add_staged(&mut self, id: &str, frame: StagedFrame, stored_us: u64) {
        let staging = match self.stagings.get_mut(id) {
            Some(staging) => staging,
            None => {
                self.bytes += cost(id);
                self.stagings.entry(id.to_owned()).or_default()
            }
        };
        staging.frames.push(frame);
        staging.stored_us = stored_us;
        self.bytes += FRAME_BYTES;
    }

    /// The list of changes that makes this state.
    pub fn checkpoint(&self) -> Vec<Change> {
        let values = self.values.iter().map(|(key, value)| Change::Put(key.clone(), value.clone()));
        let stagings = self.stagings.iter().map(|(id, staging)| Change::Stage(id.clone(), staging.clone()));
        let scopes = self.scopes.iter().map(|(scope, last)| Change::Commit(scope.clone(), *last));
        let runs = self.unpublished.iter().map(|&(first, end)| Change::Publish(first, end));
        let needed = self.needed.iter().map(|(&segment, &by)| Change::Needed(segment, by));
        let floor = std::iter::once(Change::Floor(self.floor));
        let rest = values.chain(stagings).chain(scopes).chain(runs).chain(needed).chain(floor);
        rest.chain(self.marks.changes()).chain(self.readers.changes()).chain(self.chains.changes()).collect()
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        self.values.get(key).map(Vec::as_slice)
    }

    /// Keys that begin so, and their values.
    pub fn values<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.values
            .range(prefix.to_owned()..)
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.as_str(), value.as_slice()))
    }

    /// A staging.
    pub fn staging(&self, id: &str) -> Option<&Staging> {
        self.stagings.get(id)
    }

    /// All stagings.
    pub fn stagings(&self) -> impl Iterator<Item = (&str, &Staging)> {
        self.stagings.iter().map(|(id, staging)| (id.as_str(), staging))
    }

    /// The last commit of a scope.
    pub fn committed(&self, scope: &str) -> Option<Committed> {
        self.scopes.get(scope).copied()
    }

    /// Every scope and its last commit.
    pub fn scopes(&self) -> impl Iterator<Item = (&str, Committed)> {
        self.scopes.iter().map(|(scope, last)| (scope.as_str(), *last))
    }

    /// Runs of committed rows that are still to be published.
    pub fn unpublished(&self) -> impl Iterator<Item = (u64, u64)> {
        self.unpublished.iter().copied()
    }

    /// Where history begins.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// How far each chain is recorded.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// What readers with a name have behind them.
    pub fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Bounds what deliveries take in a checkpoint: beyond it, counts are forgotten, and no mark is.
    pub(crate) fn bound_deliveries(&mut self, bytes_max: usize) {
        self.readers.bound_deliveries(bytes_max);
    }

    /// How far publishers' own chains are stored.
    pub fn chains(&self) -> &Chains {
        &self.chains
    }

    /// The last segment that needs this one: for its staged rows that were committed there, or that are not yet.
    pub fn needed_by(&self, segment: u32) -> Option<u32> {
        let open = |staging: &Staging| staging.frames.iter().any(|frame| frame.segment == segment);
        if self.stagings.values().any(open) {
            return Some(u32::MAX);
        }
        self.needed.get(&segment).copied()
    }

    /// A segment is gone, and so is what was known of it.
    pub(crate) fn forget_segment(&mut self, segment: u32) {
        self.needed.remove(&segment);
    }

    /// About how long a checkpoint is.
    pub fn bytes(&self) -> usize {
        let runs = self.unpublished.len() * 17 + self.needed.len() * 9;
        self.bytes + runs + self.marks.bytes() + self.readers.bytes() + self.chains.bytes()
    }
}

/// What an entry of a name costs at most, besides what it holds.
fn cost(name: &str) -> usize {
    name.len() + 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_changes() -> Vec<Change> {
        let frame = StagedFrame { segment: 2, position: 64, rows: 3, bytes: 100 };
        vec![
            Change::Put("a".into(), vec![1, 2]),
            Change::Put("b".into(), vec![]),
            Change::Remove("a".into()),
            Change::Stage("s".into(), Staging { frames: vec![frame, frame], stored_us: 5 }),
            Change::Stage("t".into(), Staging { frames: vec![frame], stored_us: 6 }),
            Change::Discard("t".into()),
            Change::Commit("q".into(), Committed { number: 1, first: 0, end: 3 }),
            Change::Commit("q".into(), Committed { number: 2, first: 3, end: 9 }),
            Change::Commit("r".into(), Committed { number: 1, first: 9, end: 9 }),
            Change::Forget("r".into()),
            Change::Forget("never".into()),
            Change::Publish(0, 3),
            Change::Publish(3, 9),
            Change::Publish(20, 25),
            Change::Published(4),
            Change::Floor(2),
            Change::Needed(2, 3),
            Change::Needed(2, 5),
            Change::Lanes(7, vec![3, 4]),
            Change::Mark(MarkKey { lane: 3, publisher: 9, chain: 1 }, Mark { number: 5, stored_us: 6 }),
            Change::Mark(MarkKey { lane: 4, publisher: 9, chain: 1 }, Mark { number: 2, stored_us: 7 }),
            Change::Came("queue/a".into(), 9, 900),
            Change::Delivered("queue/a".into(), 10, 15, Delivery { count: 2, due_us: 77 }),
            Change::Delivered("queue/a".into(), 15, 16, Delivery { count: 1, due_us: 0 }),
            Change::Granted("queue/a".into(), 2, 30, 5),
            Change::Granted("queue/a".into(), 10, 12, 6),
            Change::Granted("queue/a".into(), 40, 42, 7),
            Change::Revoked("queue/a".into(), 20, 22),
            Change::LeaseOver("queue/a".into(), 7),
            Change::Done("queue/a".into(), 2, 200, vec![(0, 4), (6, 8), (12, 13)]),
            Change::Done("queue/b".into(), 1, 100, vec![(0, 1)]),
            Change::ForgetReader("queue/b".into()),
            Change::ForgetReader("never".into()),
            Change::Chain(9, 5, Chain { number: 7, stored_us: 3, kept: false, owner: 0 }),
            Change::Chain(9, 5, Chain { number: 6, stored_us: 4, kept: true, owner: 2 }),
        ]
    }

    #[test]
    fn a_checkpoint_makes_the_same_state() {
        let mut state = State::default();
        let mut bytes = Vec::new();
        for change in some_changes() {
            change.write(&mut bytes);
        }
        for change in Change::read_all(&bytes).unwrap() {
            state.apply(change);
        }
        assert_eq!(state.unpublished().collect::<Vec<_>>(), [(4, 9), (20, 25)]);
        assert_eq!(state.needed_by(2), Some(u32::MAX));
        assert_eq!(state.scopes().map(|(scope, last)| (scope, last.number)).collect::<Vec<_>>(), [("q", 2)]);
        let mut bytes = Vec::new();
        state.checkpoint().iter().for_each(|change| change.write(&mut bytes));
        assert!(bytes.len() <= state.bytes() + 16, "{} {}", bytes.len(), state.bytes());
        let mut again = State::default();
        Change::read_all(&bytes).unwrap().into_iter().for_each(|change| again.apply(change));
        assert_eq!(again, state);
    }

    #[test]
    fn deliveries_take_no_more_than_their_bound_and_stay_marked() {
        let mut state = State::default();
        for offset in 0..1000 {
            let delivery = Delivery { count: 1 + offset as u32 % 3, due_us: 0 };
            state.apply(Change::Delivered("queue/a".into(), 2 * offset, 2 * offset + 1, delivery));
            state.bound_deliveries(2000);
        }
        let reader = state.readers().get("queue/a").unwrap().clone();
        assert!((0..1000).all(|offset| reader.delivered.get(2 * offset).is_some()));
        let mut bytes = Vec::new();
        state.checkpoint().iter().for_each(|change| change.write(&mut bytes));
        assert!(bytes.len() < 2500, "{}", bytes.len());
        state.apply(Change::ForgetReader("queue/a".into()));
        assert_eq!(state, State::default(), "nothing is counted any more");
    }

    #[test]
    fn grants_that_are_forgotten_leave_marks() {
        let mut state = State::default();
        for offset in 0..1000 {
            state.apply(Change::Granted("queue/a".into(), 2 * offset, 2 * offset + 1, 1 + offset % 3));
            state.bound_deliveries(2000);
        }
        let reader = state.readers().get("queue/a").unwrap().clone();
        let is_known =
            |offset| reader.delivered.get(offset).is_some() || reader.granted.get(offset).is_some();
        assert!((0..1000).all(|offset| is_known(2 * offset)));
        let mut bytes = Vec::new();
        state.checkpoint().iter().for_each(|change| change.write(&mut bytes));
        assert!(bytes.len() < 2500, "{}", bytes.len());
        state.apply(Change::Done("queue/a".into(), 1000, 0, vec![(0, 2000)]));
        let reader = state.readers().get("queue/a").unwrap();
        assert_eq!((reader.granted.runs(), reader.delivered.runs()), (0, 0));
    }

    #[test]
    fn a_delivery_that_an_earlier_version_wrote_is_read() {
        let mut bytes = vec![15];
        write_text(&mut bytes, "queue/a");
        bytes.extend_from_slice(&7_u64.to_le_bytes());
        bytes.extend_from_slice(&2_u32.to_le_bytes());
        bytes.extend_from_slice(&9_u64.to_le_bytes());
        let read = Change::Delivered("queue/a".into(), 7, 8, Delivery { count: 2, due_us: 9 });
        assert_eq!(Change::read_all(&bytes), Some(vec![read]));
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let mut bytes = Vec::new();
        some_changes().iter().for_each(|change| change.write(&mut bytes));
        let lengths: Vec<_> =
            (0..bytes.len()).filter(|&end| Change::read_all(&bytes[..end]).is_some()).collect();
        assert_eq!(lengths.len(), some_changes().len(), "only between two changes can it end");
    }
}
