//! From the bytes of a link's sources to the queues of subscriptions.
//!
//! Each source's messages are put together in a buffer of their own. Whoever wants one is given its place
//! there, and a share of the buffer when it is full or nothing more has come: a message is copied once, however
//! many subscriptions get it.
//!
//! A source that filled a queue is *parked*: nothing more is taken of it until every queue it filled has room.
//! Other sources go on.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use shoal_norm::{Chunk, NodeId, Time};
use shoal_wire::frame::FrameReader;
use shoal_wire::{DecodeError, Mark, MessageView, RecordKind, Skip, SkipReason};

use super::assembly::Assembly;
use super::consumer::{Batch, Entry, Source};
use super::routes::Routes;
use super::skips::Skips;
use super::unnumbered::Unnumbered;
use crate::attributes::Origin;
use crate::clock_offset::ClockOffset;
use crate::switch::SubscriptionId;

/// A buffer is handed over when it holds so much: it is still in the processor's cache when it is read.
const BUFFER_BYTES: usize = 128 << 10;
/// Less than this is copied when it is handed over, so that a few bytes that wait for long hold no whole buffer.
const SHARED_BYTES_MIN: usize = BUFFER_BYTES / 4;
/// Buffers handed over that may come back for their memory.
const LENT_MAX: usize = 64;

/// Lists of staged messages kept for their memory, one for each subscription.
const LISTS_MAX: usize = 4096;

/// Names a source of a link.
pub type SourceId = usize;

/// What became of the bytes that a link fed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fed {
    /// The hub has them.
    All,
    /// A queue is full. Feed them again when the link was rung.
    Held,
    /// They are no frames. The source is read on from its next message.
    Broken,
}

/// What a link's source told between its messages.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Its sender announced another version of what it wants.
    Version(u64),
    /// Numbers from the first to the last do not come any more, and may have been for us.
    Lost(u64, u64),
}

/// What a link learns of a source beside its bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SourceNews {
    /// The first message that counts has this number.
    Begins(u64),
    /// From the first number up to the end, which is not among them, its sender did not count on us: what it did not
    /// send may have been for us.
    NotCounted(u64, u64),
    /// Nothing comes after this number.
    Ends(u64),
}

/// What is known of a source beside its messages.
#[derive(Debug)]
struct Notes {
    source: Source,
    timestamp_us: u64,
    /// The next message's number; 0 if not known.
    number: u64,
    /// After a gap: the number that was expected before it.
    expected: u64,
    /// Messages below this number were here already.
    floor: u64,
    /// The version of its interest that its sender had announced.
    version: u64,
    /// Its sender's clock, once a mark showed it.
    clock: Option<ClockOffset>,
    skips: Skips,
}

impl Notes {
    /// Where the next message comes from.
    #[inline]
    fn next_origin(&mut self) -> Origin {
        let number = self.number;
        if number > 0 {
            self.number = number.checked_add(1).unwrap_or(0);
        }
        Origin {
            publisher: self.source.publisher,
            chain: self.source.chain,
            node: self.source.node,
            number,
            timestamp_us: self.timestamp_us,
        }
    }

    /// The number that should come next, as far as known.
    fn awaited(&self) -> u64 {
        if self.number > 0 { self.number } else { self.expected }
    }

    /// What comes next has this number. What was expected before it is lost.
    fn reach(&mut self, number: u64, told: &mut impl FnMut(Told)) {
        let awaited = self.awaited();
        if awaited > 0 && number > awaited {
            told(Told::Lost(awaited, number - 1));
        }
        // A source that is joined anew may begin where it was before.
        self.floor = self.floor.max(awaited);
        (self.number, self.expected) = (number, 0);
    }

    /// Takes a mark in.
    fn on_mark(&mut self, now: Time, mark: &Mark, told: &mut impl FnMut(Told)) {
        if let Some(publisher) = mark.source {
            // Whoever passes on chains of others says whose each is.
            if (self.source.publisher, self.source.chain) != (publisher, mark.chain) {
                (self.source.publisher, self.source.chain) = (publisher, mark.chain);
                (self.number, self.expected, self.floor) = (0, 0, 0);
            }
        }
        self.reach(mark.number, told);
        self.timestamp_us = mark.timestamp_us;
        let first = || ClockOffset::new(now, mark.clock_us);
        self.clock.get_or_insert_with(first).observe(now, mark.clock_us);
        if mark.version != std::mem::replace(&mut self.version, mark.version) {
            told(Told::Version(mark.version));
        }
    }

    /// Takes a skip in.
    fn on_skip(&mut self, skip: Skip, told: &mut impl FnMut(Told)) {
        if skip.count == 0 {
            return;
        }
        self.reach(skip.number, told);
        let last = skip.next() - 1;
        match skip.reason {
            SkipReason::Unwanted => {
                self.skips.add(skip.number, last, |(first, last)| told(Told::Lost(first, last)));
            }
            SkipReason::Expired => {}
            SkipReason::Dropped | SkipReason::Lost | SkipReason::Other(_) => {
                told(Told::Lost(skip.number, last));
            }
        }
        self.number = skip.next();
    }

    /// How old a message with a time to live is, and how old it may become.
    fn age_and_ttl(&self, view: &MessageView<'_>, now: Time) -> Option<(Duration, Duration)> {
        let clock = self.clock?;
        let fields = view.fields().ok()?;
        let held = Duration::from_micros(fields.held_us.unwrap_or(0));
        let age = clock.age(now, fields.published_us?).saturating_add(held);
        Some((age, Duration::from_micros(fields.ttl_us?)))
    }
}

/// A source's messages.
#[derive(Debug)]
struct Stream {
    reader: FrameReader,
    notes: Notes,
    /// What came before the number is known.
    unnumbered: Unnumbered,
    /// Queues it filled.
    filled: Vec<SubscriptionId>,
}

impl Stream {
    /// Bytes of messages that cannot be handed over yet.
    fn carried(&self) -> usize {
        self.reader.carried() + self.unnumbered.len()
    }

    /// What comes next starts with a new message, of which nothing is known.
    fn lose_place(&mut self) {
        self.reader.reset();
        self.unnumbered.clear();
        self.notes.expected = self.notes.awaited();
        (self.notes.timestamp_us, self.notes.number) = (0, 0);
    }
}

/// Who gets what of the buffer that is being filled.
#[derive(Default)]
struct Staged {
    entries: HashMap<SubscriptionId, Vec<Entry>>,
    /// Subscriptions with something staged.
    ids: Vec<SubscriptionId>,
    /// How old messages with a time to live are, by their place in the buffer.
    ages: Vec<(u32, Duration)>,
}

impl Staged {
    /// Stages a message that will lie `at` a place in the buffer. True if somebody wants it.
    #[inline]
    fn on_message(
        &mut self,
        now: Time,
        routes: &mut Routes,
        notes: &mut Notes,
        record: &[u8],
        at: usize,
    ) -> Result<bool, DecodeError> {
        let origin = notes.next_origin();
        if origin.number < notes.floor {
            return Ok(false);
        }
        let view = MessageView::parse(record)?;
        let age = match notes.age_and_ttl(&view, now) {
            Some((age, ttl)) if age >= ttl => return Ok(false),
            aged => aged.map(|(age, _)| age),
        };
        let entry = Entry::new(at, record.len(), origin.number, origin.timestamp_us);
        let Staged { entries, ids, ages } = self;
        let wanted = routes.route_here(&view, &origin, |id| {
            let staged = entries.entry(id).or_default();
            if staged.is_empty() {
                ids.push(id);
            }
            staged.push(entry);
        });
        ages.extend(age.filter(|_| wanted).map(|age| (at as u32, age)));
        Ok(wanted)
    }
}

/// The inbox of a link.
pub(super) struct Inbox {
    streams: Vec<Option<Stream>>,
    staged: Staged,
    /// The source whose messages are staged.
    current: Option<SourceId>,
    lent: Vec<Arc<Vec<u8>>>,
    assembly: Assembly,
    message_bytes_max: usize,
}

impl Inbox {
    pub fn new(message_bytes_max: usize, assembly: Assembly) -> Inbox {
        Inbox {
            streams: Vec::new(),
            staged: Staged::default(),
            current: None,
            lent: Vec::new(),
            assembly,
            message_bytes_max,
        }
    }

    /// A source begins.
    pub fn open(&mut self, source: Source) -> SourceId {
        let stream = Stream {
            reader: FrameReader::new(self.message_bytes_max),
            notes: Notes {
                source,
                timestamp_us: 0,
                number: 0,
                expected: 0,
                floor: 0,
                version: 0,
                clock: None,
                skips: Skips::default(),
            },
            unnumbered: Unnumbered::default(),
            filled: Vec::new(),
        };
        match self.streams.iter().position(Option::is_none) {
            Some(free) => {
                self.streams[free] = Some(stream);
                free
            }
            None => {
                self.streams.push(Some(stream));
                self.streams.len() - 1
            }
        }
    }

    /// The node that sends a source.
    pub fn node(&self, id: SourceId) -> NodeId {
        self.streams.get(id).and_then(Option::as_ref).map_or(0, |stream| stream.notes.source.node)
    }

    /// Whether something waits for [`Inbox::hand_over`].
    pub fn has_staged(&self) -> bool {
        !self.staged.ids.is_empty()
    }

    /// Whether a source has to wait for a queue it filled.
    pub fn is_parked(&mut self, id: SourceId, routes: &Routes) -> bool {
        let Some(Some(stream)) = self.streams.get_mut(id) else { return false };
        if stream.filled.is_empty() {
            return false;
        }
        let holds_back = |id| routes.consumer(id).is_some_and(|consumer| consumer.holds_back());
        let parked = stream.filled.iter().any(|&id| holds_back(id));
        if !parked {
            stream.filled.clear();
        }
        parked
    }

    /// Takes a source's next bytes, unless it is parked; fresh ones begin with a message, and what came before them is
    /// lost. Calls `unreadable` with what is wrong with them, and `told` with what stands between the messages.
    pub fn feed(
        &mut self,
        now: Time,
        routes: &mut Routes,
        id: SourceId,
        chunk: Chunk<'_>,
        mut unreadable: impl FnMut(String),
        mut told: impl FnMut(Told),
    ) -> Fed {
        if self.is_parked(id, routes) {
            return Fed::Held;
        }
        if self.current != Some(id) {
            self.hand_over(now, routes);
            self.current = Some(id);
        }
        let Inbox { staged, streams, assembly, message_bytes_max, .. } = self;
        let Some(Some(stream)) = streams.get_mut(id) else { return Fed::Broken };
        let carried = stream.carried();
        if chunk.fresh {
            stream.lose_place();
        }
        let mut numbered = None;
        if stream.notes.number == 0 {
            let found = stream.unnumbered.add(chunk.bytes, *message_bytes_max);
            match found {
                Ok(Some(found)) => {
                    let bytes = stream.unnumbered.take();
                    stream.notes.timestamp_us = found.timestamp_us;
                    if found.number > 0 {
                        stream.notes.reach(found.number, &mut told);
                    }
                    numbered = Some(bytes);
                }
                Ok(None) if assembly.change(carried, stream.carried()) => return Fed::All,
                refused => {
                    let why = refused.err().unwrap_or_else(|| assembly.refusal());
                    stream.lose_place();
                    unreadable(why);
                    return Fed::Broken;
                }
            }
        }
        let bytes = numbered.as_deref().unwrap_or(chunk.bytes);
        let Stream { reader, notes, .. } = stream;
        let mut each = |record: &[u8], at: usize| {
            let kept = match RecordKind::of(record) {
                Ok(RecordKind::Message) => staged.on_message(now, routes, notes, record, at),
                Ok(RecordKind::Mark) => Mark::read(record).map(|mark| {
                    notes.on_mark(now, &mark, &mut told);
                    false
                }),
                Ok(RecordKind::Skip) => Skip::read(record).map(|skip| {
                    notes.on_skip(skip, &mut told);
                    false
                }),
                Ok(_) => Ok(false),
                Err(error) => Err(error),
            };
            kept.unwrap_or_else(|error| {
                unreadable(error.to_string());
                false
            })
        };
        let read = reader.read(bytes, &mut each).map_err(|error| error.to_string());
        let part = if read.is_ok() { reader.carried() } else { 0 };
        let fits = assembly.change(carried, part);
        if let Err(why) = read.and_then(|()| fits.then_some(()).ok_or_else(|| assembly.refusal())) {
            stream.lose_place();
            unreadable(why);
            return Fed::Broken;
        }
        Fed::All
    }

    /// Whether so much was put together that it should be handed over.
    pub fn is_full(&self) -> bool {
        let stream = self.current.and_then(|id| self.streams.get(id)?.as_ref());
        stream.is_some_and(|stream| stream.reader.kept() >= BUFFER_BYTES)
    }

    /// Puts what is staged into the queues.
    pub fn hand_over(&mut self, now: Time, routes: &Routes) {
        let Staged { entries, ids, ages } = &mut self.staged;
        if ids.is_empty() {
            return;
        }
        let Some(Some(stream)) = self.current.and_then(|id| self.streams.get_mut(id)) else {
            return;
        };
        // What is copied is the smaller part, so that it is never long.
        let bytes = if stream.reader.kept() < SHARED_BYTES_MIN.max(stream.reader.carried()) {
            Arc::new(stream.reader.copy_kept())
        } else {
            let bytes = Arc::new(stream.reader.take_kept(spare(&mut self.lent)));
            if bytes.capacity() <= 2 * BUFFER_BYTES && self.lent.len() < LENT_MAX {
                self.lent.push(bytes.clone());
            }
            bytes
        };
        let ages = (!ages.is_empty()).then(|| Arc::new(std::mem::take(ages)));
        for id in ids.drain(..) {
            let Some(staged) = entries.get_mut(&id) else { continue };
            let Some(consumer) = routes.consumer(id) else {
                entries.remove(&id);
                continue;
            };
            let entries = std::mem::replace(staged, consumer.spare_entries());
            let source = stream.notes.source;
            let batch = Batch { bytes: bytes.clone(), entries, source, arrived: now, ages: ages.clone() };
            if consumer.put_batch(batch.without_waste()) && !stream.filled.contains(&id) {
                stream.filled.push(id);
            }
        }
        if entries.len() > LISTS_MAX {
            // Most are of subscriptions that ended.
            entries.clear();
        }
    }

    /// What becomes known of a source beside its bytes.
    pub fn note(&mut self, id: SourceId, news: SourceNews, mut told: impl FnMut(Told)) {
        let Some(Some(stream)) = self.streams.get_mut(id) else { return };
        let notes = &mut stream.notes;
        match news {
            SourceNews::Begins(number) if notes.awaited() == 0 => notes.expected = number,
            SourceNews::Begins(_) => {}
            SourceNews::NotCounted(first, end) => {
                if notes.awaited() == 0 {
                    notes.expected = first;
                }
                notes.skips.not_counted(first, end, |(first, last)| told(Told::Lost(first, last)));
            }
            SourceNews::Ends(last) => notes.reach(last.saturating_add(1), &mut told),
        }
    }

    /// Whose messages a source carries, and the number that should come next, as far as known.
    pub fn source(&self, id: SourceId) -> Option<(Source, u64)> {
        let notes = &self.streams.get(id)?.as_ref()?.notes;
        Some((notes.source, notes.awaited()))
    }

    /// Nothing more will come of a source.
    pub fn close(&mut self, now: Time, id: SourceId, routes: &Routes) {
        self.hand_over(now, routes);
        if let Some(stream) = self.streams.get_mut(id).and_then(Option::take) {
            self.assembly.change(stream.carried(), 0);
        }
        self.current = self.current.filter(|&current| current != id);
    }

    /// A source is not expected to say more: what is here of a large message gives way to others. True if it goes
    /// on at its next message, should it go on.
    pub fn rest(&mut self, now: Time, id: SourceId, routes: &Routes) -> bool {
        self.hand_over(now, routes);
        let Some(Some(stream)) = self.streams.get_mut(id) else { return false };
        let carried = stream.carried();
        let cut = Assembly::cost(carried) > 0;
        if cut {
            self.assembly.change(carried, 0);
            stream.lose_place();
        }
        stream.reader.take_kept(Vec::new());
        cut
    }
}

/// A buffer that everybody is through with, the last one first, because it is the most likely to be in the
/// processor's cache; or a new one.
fn spare(lent: &mut Vec<Arc<Vec<u8>>>) -> Vec<u8> {
    let free = lent.iter_mut().rposition(|buffer| Arc::get_mut(buffer).is_some());
    free.and_then(|at| Arc::into_inner(lent.remove(at)))
        .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES + SHARED_BYTES_MIN))
}

#[cfg(test)]
mod tests;
