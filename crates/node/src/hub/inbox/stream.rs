//! A source's messages, and the chains that it passes on.

use foldhash::{HashMap, HashMapExt};
use shoal_norm::Time;
use shoal_wire::PassedOn as PassedMark;
use shoal_wire::frame::FrameReader;

use super::super::chain::LinkId;
use super::super::consumer::Source;
use super::super::notes::Notes;
use super::super::origins::Key;
use super::super::unnumbered::Unnumbered;
use super::super::withheld::{Run, Speaker};
use super::taking::{Taking, Verdict};
use super::{SourceId, Told};
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
    /// What came before the number is known.
    pub unnumbered: Unnumbered,
    /// Queues it filled, and links.
    pub filled: Vec<SubscriptionId>,
    pub full_links: Vec<LinkId>,
    /// What is not read yet, because another source may bring what comes before it; and until when.
    pub aside: Vec<u8>,
    pub aside_until: Time,
    /// What follows it was not taken.
    pub is_held: bool,
    /// The first of it: its chain and number. Once another source brought that, nothing is waited for.
    pub aside_from: (Key, u64),
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
            unnumbered: Unnumbered::default(),
            filled: Vec::new(),
            full_links: Vec::new(),
            aside: Vec::new(),
            aside_until: Time::ZERO,
            is_held: false,
            aside_from: Default::default(),
        }
    }

    /// Bytes of messages that cannot be handed over yet.
    pub fn carried(&self) -> usize {
        self.reader.carried() + self.unnumbered.len() + self.aside.len()
    }

    /// What comes next starts with a new message, of which nothing is known.
    pub fn lose_place(&mut self) {
        self.reader.reset();
        self.unnumbered.clear();
        self.aside.clear();
        self.is_held = false;
        self.notes.expected = self.notes.awaited();
        (self.notes.timestamp_us, self.notes.number) = (0, 0);
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
        (self.aside, self.aside_until) = (bytes, now);
    }

    /// The node's own chain.
    pub fn own_notes(&mut self) -> &mut Notes {
        let own = self.own;
        if self.notes.key() == own {
            return &mut self.notes;
        }
        let source = Source { publisher: own.0, chain: own.1, node: self.notes.source.node };
        self.others.entry(own).or_insert_with(|| Notes::new(source))
    }
}

/// The chain that a mark names is the one whose messages come now. Whether what the mark says counts: that the numbers before are not
/// in the stream.
#[inline]
pub(super) fn turn_to(
    (notes, others, turns): (&mut Notes, &mut HashMap<Key, Notes>, &mut u64),
    taking: &mut Taking<'_>,
    (passed, chain, number): (Option<PassedMark>, u32, u64),
    told: &mut impl FnMut(Told),
) -> Verdict {
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
    notes.is_late &= notes.again.is_some();
    taking.judge(notes, number.saturating_sub(1), told)
}

/// Nothing more is expected of a source for now: another one may bring these chains, once what came is delivered.
#[cold]
pub(super) fn vacate<'a>(taking: &Taking<'_>, all: impl IntoIterator<Item = &'a mut Notes>) {
    for notes in all {
        if notes.busy {
            notes.rests = true;
        } else {
            taking.place.release(taking.source, notes, true);
        }
    }
}

#[cold]
pub(super) fn forget_oldest(others: &mut HashMap<Key, Notes>, taking: &Taking<'_>) {
    let oldest = others.iter().filter(|(key, _)| **key != taking.own).min_by_key(|(_, notes)| notes.used);
    if let Some(mut notes) = oldest.map(|(&key, _)| key).and_then(|key| others.remove(&key)) {
        taking.place.release(taking.source, &mut notes, false);
    }
}
