//! A source's messages, and the chains that it passes on.

use foldhash::{HashMap, HashMapExt};
use shoal_norm::Time;
use shoal_wire::PassedOn as PassedMark;
use shoal_wire::frame::FrameReader;

use super::super::accept::Key;
use super::super::chain::LinkId;
use super::super::consumer::Source;
use super::super::notes::{Hold, Notes};
use super::super::unnumbered::Unnumbered;
use super::super::withheld::{Run, Speaker};
use super::SourceId;
use super::taking::Taking;
use crate::switch::SubscriptionId;

/// Chains that a source passes on, at the most; beyond it the one used longest ago is forgotten.
const PASSED_MAX: usize = 4096;

/// A source's messages.
#[derive(Debug)]
pub(super) struct Stream {
    pub reader: FrameReader,
    /// The node's own chain.
    pub own: Key,
    /// Which lane it is.
    pub lane: usize,
    /// The chain whose messages come now.
    pub notes: Notes,
    /// The others.
    pub others: HashMap<Key, Notes>,
    pub turns: u64,
    /// The version of its interest that its sender had announced.
    pub version: u64,
    /// The announcement of ours that its sender applies; none if it may not know of us.
    pub applied: Option<u64>,
    /// What came before the number is known.
    pub unnumbered: Unnumbered,
    /// Queues it filled, and links.
    pub filled: Vec<SubscriptionId>,
    pub full_links: Vec<LinkId>,
    /// What was withheld, and is read before anything else.
    pub aside: Vec<u8>,
}

impl Stream {
    pub fn new(source: Source, message_bytes_max: usize) -> Stream {
        Stream {
            reader: FrameReader::new(message_bytes_max),
            own: (source.publisher, source.chain),
            lane: source.chain as usize,
            notes: Notes::new(source),
            others: HashMap::new(),
            turns: 0,
            version: 0,
            applied: None,
            unnumbered: Unnumbered::default(),
            filled: Vec::new(),
            full_links: Vec::new(),
            aside: Vec::new(),
        }
    }

    /// Bytes of messages that cannot be handed over yet.
    pub fn carried(&self) -> usize {
        self.reader.carried() + self.unnumbered.len() + self.aside.len()
    }

    /// What comes next starts with a new message, of which nothing is known.
    pub fn lose_place(&mut self, asks: bool) {
        self.reader.reset();
        self.unnumbered.clear();
        self.aside.clear();
        if self.notes.number > 0 && asks {
            // What its sender said of us may be among what was lost.
            self.distrust();
        }
        (self.notes.timestamp_us, self.notes.number) = (0, 0);
    }

    /// What the node knows of its own chain.
    pub fn own_notes(&mut self) -> &mut Notes {
        let own = self.own;
        if self.notes.key() == own {
            return &mut self.notes;
        }
        let source = Source { publisher: own.0, chain: own.1, node: self.notes.source.node };
        self.others.entry(own).or_insert_with(|| Notes::new(source))
    }

    /// What is skipped from now on may be for us.
    pub fn distrust(&mut self) {
        self.applied = None;
        self.others.values_mut().chain([&mut self.notes]).for_each(|notes| notes.trust = None);
    }

    /// These runs are read once more, and then what comes next.
    pub fn go_back(&mut self, now: Time, id: SourceId, runs: &[Run]) {
        // One that has lost its place since would not find it afterwards.
        if self.notes.number == 0 || !self.aside.is_empty() {
            return;
        }
        let mut bytes = runs.iter().flat_map(|run| run.bytes.iter().copied()).collect();
        let (own, version, notes) = (self.own, self.version, &self.notes);
        Speaker { source: id, own, version, notes }.write_mark(now, notes.number, &mut bytes);
        for run in runs.iter().rev() {
            let notes = match self.notes.key() == run.key {
                true => Some(&mut self.notes),
                false => self.others.get_mut(&run.key),
            };
            notes.into_iter().for_each(|notes| notes.number = run.first);
        }
        bytes.extend_from_slice(&self.reader.take_carried());
        self.aside = bytes;
    }
}

/// The chain that a mark names is the one whose messages come now.
#[inline]
pub(super) fn turn_to(
    (notes, others, turns): (&mut Notes, &mut HashMap<Key, Notes>, &mut u64),
    taking: &Taking<'_>,
    (passed, chain): (Option<PassedMark>, u32),
) {
    let key = passed.map_or(taking.own, |passed| (passed.publisher, chain));
    if notes.key() != key {
        *turns += 1;
        let source = Source { publisher: key.0, chain: key.1, node: notes.source.node };
        let next = others.remove(&key).unwrap_or_else(|| Notes::new(source));
        let before = std::mem::replace(notes, next);
        notes.used = *turns;
        if others.len() >= PASSED_MAX {
            forget_oldest(others, taking);
        }
        others.insert(before.key(), before);
    }
    notes.hops = passed.map_or(0, |passed| passed.hops);
    notes.again = passed.and_then(|passed| passed.again).map(|age| taking.now - age);
}

#[cold]
fn forget_oldest(others: &mut HashMap<Key, Notes>, taking: &Taking<'_>) {
    let is_idle = |notes: &Notes| !matches!(notes.hold, Hold::Busy { .. });
    let others_than_own = others.iter().filter(|(key, notes)| **key != taking.own && is_idle(notes));
    if let Some(oldest) = others_than_own.min_by_key(|(_, notes)| notes.used).map(|(&key, _)| key) {
        others.remove(&oldest);
    }
}
