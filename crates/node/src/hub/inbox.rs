//! From the bytes of a link's sources to the queues of subscriptions.
//!
//! Each source's messages are put together in a buffer of their own. Whoever wants one is given its place
//! there, and a share of the buffer when it is full or nothing more has come: a message is copied once, however
//! many subscriptions get it.
//!
//! A source that filled a queue is *parked*: nothing more is taken of it until every queue it filled has room. So is one that
//! filled the buffer of a link that it is passed on to. Other sources go on.
//!
//! What a neighbour passes on is of many chains, and marks say of which. Each is known by itself ([`super::notes`]).

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use shoal_norm::{Chunk, NodeId, Time};
use shoal_wire::frame;
use shoal_wire::{Mark, RecordKind, Skip, SkipReason};

mod staged;
mod stream;
mod taking;

use self::staged::Staged;
use self::stream::{Stream, turn_to, vacate};
pub(super) use self::taking::Place;
use self::taking::{Taking, Verdict};
use super::assembly::Assembly;
use super::chain::{Chains, LinkId};
use super::consumer::{Batch, Source};
use super::notes::Hold;
use super::origins::{Holder, Key};
use super::passing::{Chain, HOPS_UNKNOWN, Outbound, PassedOn};
use super::routes::Routes;
use super::withheld::{Run, Speaker, Withheld};

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
    /// Numbers of a chain, from the first to the last, do not come any more, and may have been for us.
    Lost(Source, u64, u64),
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

/// The inbox of a link.
pub(super) struct Inbox {
    streams: Vec<Option<Stream>>,
    staged: Staged,
    /// The source whose messages are staged, and its chains of which something is not delivered yet.
    current: Option<SourceId>,
    touched: Vec<Key>,
    /// Some source may have something put aside.
    has_aside: bool,
    lent: Vec<Arc<Vec<u8>>>,
    assembly: Assembly,
    message_bytes_max: usize,
    place: Place,
    /// What comes is passed on to other links.
    passes: bool,
    /// What came while the link rested.
    withheld: Withheld,
}

impl Inbox {
    pub fn new(message_bytes_max: usize, assembly: Assembly, place: Place, passes: bool) -> Inbox {
        Inbox {
            streams: Vec::new(),
            staged: Staged::default(),
            current: None,
            touched: Vec::new(),
            has_aside: false,
            lent: Vec::new(),
            assembly,
            message_bytes_max,
            place,
            passes,
            withheld: Withheld::default(),
        }
    }

    /// A source begins.
    pub fn open(&mut self, source: Source) -> SourceId {
        // Whether it may bring its chain is asked when something comes.
        let stream = Stream::new(source, self.message_bytes_max);
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

    /// Bytes of messages whose end has not come, beside short ones.
    pub fn part_bytes(&self) -> usize {
        self.assembly.bytes
    }

    /// Messages that came since it was asked before.
    pub fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.staged.count)
    }

    /// Whether something waits for [`Inbox::hand_over`].
    pub fn has_staged(&self) -> bool {
        !self.staged.ids.is_empty()
    }

    /// Whether something waits for [`Inbox::pass_on`].
    pub fn has_outbound(&self) -> bool {
        !self.staged.outbound.is_empty()
    }

    /// When what a source brought and another one may bring first is to be looked at again, and of which source; never if
    /// there is no such.
    pub fn aside(&mut self) -> (Time, SourceId) {
        if !self.has_aside {
            return (Time::NEVER, 0);
        }
        let waits = |(id, stream): (usize, &Option<Stream>)| {
            let stream = stream.as_ref().filter(|stream| !stream.aside.is_empty())?;
            Some((stream.aside_until, id))
        };
        let first = self.streams.iter().enumerate().filter_map(waits).min();
        self.has_aside = first.is_some();
        first.unwrap_or((Time::NEVER, 0))
    }

    /// The link rests from now on, or is used again. While it rests we ask for nothing there, so what is skipped may be for us.
    pub fn set_resting(&mut self, now: Time, rests: bool) {
        self.place.rests = rests.then_some(now);
        for stream in self.streams.iter_mut().flatten() {
            for notes in stream.others.values_mut().chain([&mut stream.notes]) {
                notes.doubt(now);
                if notes.hold != Hold::Ours {
                    notes.hold = Hold::Free;
                }
            }
        }
        if !rests {
            self.read_withheld(now);
        }
    }

    /// What came while the link rested, and did not come another way, is read next.
    fn read_withheld(&mut self, now: Time) {
        let mut withheld: HashMap<SourceId, Vec<Run>> = HashMap::new();
        for run in self.withheld.take(now, |key| self.place.origins().next(key)) {
            withheld.entry(run.source).or_default().push(run);
        }
        for (id, runs) in withheld {
            let Some(Some(stream)) = self.streams.get_mut(id) else { continue };
            let length: usize = runs.iter().map(|run| run.bytes.len()).sum();
            let (carried, grown) = (stream.carried(), stream.carried() + length);
            let fits = self.assembly.change(carried, grown);
            if fits {
                stream.go_back(now, id, &runs);
                self.has_aside = true;
            }
            self.assembly.change(if fits { grown } else { 0 }, stream.carried());
        }
    }

    /// Everything that came was delivered.
    pub fn finish(&mut self, now: Time) {
        if self.touched.is_empty() {
            return;
        }
        let stream = self.current.and_then(|id| Some((id, self.streams.get_mut(id)?.as_mut()?)));
        let Some((source, stream)) = stream else { return self.touched.clear() };
        for key in self.touched.drain(..) {
            let notes = match stream.notes.key() == key {
                true => Some(&mut stream.notes),
                false => stream.others.get_mut(&key),
            };
            let Some(notes) = notes.filter(|notes| notes.busy) else { continue };
            if notes.rests {
                self.place.release(source, notes, true);
                continue;
            }
            notes.busy = false;
            let holder = Holder { link: self.place.link, source };
            self.place.origins().progress(now, key, holder, notes.awaited().max(notes.floor));
        }
    }

    /// The lane of the source whose messages wait to be handed over.
    pub fn lane(&self) -> usize {
        self.current.and_then(|id| self.streams.get(id)?.as_ref()).map_or(0, |stream| stream.lane)
    }

    /// What follows concerns a source; nothing waits to be handed over.
    pub fn turn_to(&mut self, id: SourceId) {
        self.current = Some(id);
    }

    /// The source whose messages wait to be handed over.
    pub fn current(&self) -> Option<SourceId> {
        self.current
    }

    /// Whether a link that a source filled has no room yet; it is rung then when it has.
    pub fn waits_for_links(&mut self, id: SourceId, chains: &Chains) -> bool {
        let Some(Some(stream)) = self.streams.get_mut(id) else { return false };
        if stream.full_links.is_empty() {
            return false;
        }
        let (lane, from) = (stream.lane, self.place.link);
        stream.full_links.retain(|&link| chains.is_full_for(lane, link, from));
        !stream.full_links.is_empty()
    }

    /// Puts what goes on to other links into their buffers. Returns those that were given something, and how many bytes
    /// wait for each.
    pub fn pass_on(&mut self, now: Time, chains: &Chains) -> Vec<(LinkId, usize)> {
        let Some(Some(stream)) = self.current.and_then(|id| self.streams.get_mut(id)) else {
            self.staged.outbound.clear();
            return Vec::new();
        };
        let (bytes, from) = (stream.reader.kept_bytes(), (stream.lane, self.place.link));
        let PassedOn { given, full, .. } = chains.pass_on(now, from, &self.staged.outbound, bytes);
        stream.full_links.extend(full);
        self.staged.outbound.clear();
        if self.staged.ids.is_empty() {
            // Nobody else wants it.
            stream.reader.drop_kept();
        }
        given
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
            self.finish(now);
            self.current = Some(id);
        }
        let aside = match self.streams.get_mut(id) {
            Some(Some(stream)) if !stream.aside.is_empty() => {
                if now < stream.aside_until {
                    return Fed::Held;
                }
                let carried = stream.carried();
                let aside = std::mem::take(&mut stream.aside);
                self.assembly.change(carried, stream.carried());
                aside
            }
            _ => Vec::new(),
        };
        if !aside.is_empty() {
            // What was put aside comes first.
            let first = Chunk { bytes: &aside, fresh: false };
            let fed = self.read(now, routes, id, first, &mut unreadable, &mut told);
            if fed != Fed::All {
                return fed;
            }
            if self.is_aside(id) {
                return Fed::Held;
            }
        }
        self.read(now, routes, id, chunk, &mut unreadable, &mut told)
    }

    /// Whether something may be put aside.
    pub fn may_have_aside(&self) -> bool {
        self.has_aside
    }

    fn is_aside(&self, id: SourceId) -> bool {
        self.streams.get(id).and_then(Option::as_ref).is_some_and(|stream| !stream.aside.is_empty())
    }

    fn read(
        &mut self,
        now: Time,
        routes: &mut Routes,
        id: SourceId,
        chunk: Chunk<'_>,
        unreadable: &mut impl FnMut(String),
        told: &mut impl FnMut(Told),
    ) -> Fed {
        let Inbox { staged, streams, assembly, message_bytes_max, place, touched, withheld, .. } = self;
        let Some(Some(stream)) = streams.get_mut(id) else { return Fed::Broken };
        let carried = stream.carried();
        if chunk.fresh {
            stream.lose_place();
        }
        let mut taking = Taking {
            now,
            place,
            source: id,
            own: stream.own,
            touched,
            begins: false,
            passes: self.passes,
            reads_since: routes.reads_since(),
        };
        let mut numbered = None;
        let passes = self.passes.then_some(place.link);
        if stream.notes.number == 0 {
            let found = stream.unnumbered.add(chunk.bytes, *message_bytes_max);
            match found {
                Ok(Some(found)) => {
                    let bytes = stream.unnumbered.take();
                    let Stream { notes, others, turns, .. } = stream;
                    let mut hear = hearing(&mut staged.outbound, routes, passes, told);
                    let named = (found.source, found.chain, found.number);
                    turn_to((notes, others, turns), &mut taking, named, &mut hear);
                    notes.timestamp_us = found.timestamp_us;
                    if found.number > 0 {
                        notes.reach(found.number, &mut hear);
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
        let Stream { reader, notes, others, turns, version, aside, own, .. } = stream;
        let mut waits = None;
        let mut each = |record: &[u8], at: usize| {
            if waits.is_some() {
                frame::write(record, aside);
                return false;
            }
            let (kind, number) = (RecordKind::of(record), notes.number);
            let is_counted = matches!(kind, Ok(RecordKind::Message | RecordKind::Skip));
            let kept = match kind {
                Ok(RecordKind::Message) => {
                    let mut hear = hearing(&mut staged.outbound, routes, passes, told);
                    if let Verdict::Wait(until) = taking.judge(notes, notes.number, &mut hear) {
                        waits = Some(until);
                        frame::write(record, aside);
                        return false;
                    }
                    drop(hear);
                    staged.on_message(now, routes, notes, record, at, passes)
                }
                Ok(RecordKind::Mark) => Mark::read(record).map(|mark| {
                    {
                        let mut hear = hearing(&mut staged.outbound, routes, passes, told);
                        let named = (mark.source, mark.chain, mark.number);
                        turn_to((notes, others, turns), &mut taking, named, &mut hear);
                        notes.on_mark(now, &mark, &mut hear);
                    }
                    if let (true, Some(from)) = (std::mem::take(&mut taking.begins), passes)
                        && mark.number > 1
                        && notes.again.is_none()
                    {
                        staged.outbound.add_begins(&notes.chain(), mark.number, &routes.asking(from));
                    }
                    if mark.version != std::mem::replace(version, mark.version) {
                        told(Told::Version(mark.version));
                    }
                    false
                }),
                Ok(RecordKind::Skip) => Skip::read(record).map(|skip| {
                    if skip.reason == SkipReason::Rests {
                        vacate(notes, others, &taking);
                        return false;
                    }
                    let mut hear = hearing(&mut staged.outbound, routes, passes, told);
                    taking.confirm(notes, skip.number, &mut hear);
                    notes.on_skip(now, skip, &mut hear);
                    false
                }),
                Ok(_) => Ok(false),
                Err(error) => Err(error),
            };
            if place.rests.is_some()
                && is_counted
                && notes.number > number
                && notes.is_withheld(place.publisher)
            {
                let speaker = Speaker { source: id, own: *own, version: *version, notes };
                withheld.add(now, speaker, number, record, |key| place.origins().next(key));
            }
            kept.unwrap_or_else(|error| {
                unreadable(error.to_string());
                false
            })
        };
        let read = reader.read(bytes, &mut each).map_err(|error| error.to_string());
        if let Some(until) = waits {
            aside.extend_from_slice(&reader.take_carried());
            stream.aside_until = until;
            self.has_aside = true;
        }
        let part = if read.is_ok() { stream.carried() } else { 0 };
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
        let Staged { entries, ids, ages, sources, .. } = &mut self.staged;
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
            let mut entries = std::mem::replace(staged, consumer.spare_entries());
            let mut fills = false;
            for (at, &(_, source)) in sources.iter().enumerate() {
                // Mostly there is one publisher, and all is its.
                let rest = match sources.get(at + 1) {
                    Some(&(end, _)) => {
                        entries.split_off(entries.partition_point(|entry| entry.start() < end))
                    }
                    None => Vec::new(),
                };
                let of_source = std::mem::replace(&mut entries, rest);
                if !of_source.is_empty() {
                    let (bytes, ages) = (bytes.clone(), ages.clone());
                    let batch = Batch { bytes, entries: of_source, source, arrived: now, ages };
                    fills |= consumer.put_batch(batch.without_waste());
                }
            }
            if fills && !stream.filled.contains(&id) {
                stream.filled.push(id);
            }
        }
        sources.clear();
        if entries.len() > LISTS_MAX {
            // Most are of subscriptions that ended.
            entries.clear();
        }
    }

    /// What becomes known of a source beside its bytes. What is lost thereby is passed on to the links that ask for
    /// something.
    pub fn note(
        &mut self,
        now: Time,
        id: SourceId,
        news: SourceNews,
        asking: &[LinkId],
        mut told: impl FnMut(Told),
    ) {
        if let SourceNews::NotCounted(_, end) = news {
            self.doubt_passed(now, id, end, asking, &mut told);
        }
        let passes = self.passes;
        let Some(Some(stream)) = self.streams.get_mut(id) else { return };
        let own = stream.own;
        let notes = stream.own_notes();
        let (source, passed) = (notes.source, Chain { hops: HOPS_UNKNOWN, ..notes.chain() });
        let outbound = &mut self.staged.outbound;
        let mut hear = |news: Told| {
            if let (Told::Lost(_, first, last), true) = (news, passes && source.publisher > 0) {
                outbound.add_lost(&passed, (first, last), asking);
            }
            told(news);
        };
        let mut begins = false;
        if !matches!(news, SourceNews::Begins(_)) {
            let mut touched = Vec::new();
            let mut taking = Taking {
                now,
                place: &self.place,
                source: id,
                own,
                touched: &mut touched,
                begins: false,
                passes,
                reads_since: Time::NEVER,
            };
            taking.confirm(notes, notes.awaited(), &mut hear);
            begins = taking.begins;
            // Nothing of it waits to be delivered then.
            notes.busy &= touched.is_empty();
        }
        let (is_ours, holder) = (notes.hold == Hold::Ours, Holder { link: self.place.link, source: id });
        match news {
            SourceNews::Begins(number) if notes.awaited() == 0 => notes.expected = number,
            SourceNews::Begins(_) => {}
            SourceNews::NotCounted(first, end) => {
                if notes.awaited() == 0 {
                    notes.expected = first;
                }
                // Skips are noted only while the chain is taken from here, so nobody else brought what they stand for.
                notes.skips.not_counted(first, end, |(first, last)| hear(Told::Lost(source, first, last)));
            }
            SourceNews::Ends(last) => {
                notes.reach(last.saturating_add(1), &mut hear);
                if is_ours {
                    self.place.origins().end(now, own, holder);
                }
                if begins && passes && last > 0 && source.publisher > 0 {
                    outbound.add_begins(&passed, notes.number, asking);
                }
            }
        }
        if is_ours && !notes.busy {
            // What was told as lost now, nobody tells again.
            self.place.origins().progress(now, own, holder, notes.awaited().max(notes.floor));
        }
    }

    /// A source did not count on us before this number of its own. Of what it passes on it does not say for which numbers that was.
    fn doubt_passed(
        &mut self,
        now: Time,
        id: SourceId,
        end: u64,
        asking: &[LinkId],
        told: &mut impl FnMut(Told),
    ) {
        let Some(Some(stream)) = self.streams.get_mut(id) else { return };
        if stream.own_notes().skips.knows_absence(end) {
            return;
        }
        let (own, passes, outbound) = (stream.own, self.passes, &mut self.staged.outbound);
        let all = stream.others.values_mut().chain([&mut stream.notes]);
        for notes in all.filter(|notes| notes.key() != own) {
            let chain = Chain { hops: HOPS_UNKNOWN, ..notes.chain() };
            notes.doubt_recent(now, &mut |news| {
                if let (Told::Lost(_, first, last), true) = (news, passes) {
                    outbound.add_lost(&chain, (first, last), asking);
                }
                told(news);
            });
        }
    }

    /// Whose messages a source carries, apart from what it passes on, and the number that should come next, as far as known.
    pub fn source(&self, id: SourceId) -> Option<(Source, u64)> {
        let stream = self.streams.get(id)?.as_ref()?;
        let notes = stream.others.get(&stream.own).unwrap_or(&stream.notes);
        Some((notes.source, notes.awaited()))
    }

    /// Nothing more will come of a source.
    pub fn close(&mut self, now: Time, id: SourceId, routes: &Routes) {
        self.hand_over(now, routes);
        self.withheld.close(id);
        if let Some(stream) = self.streams.get_mut(id).and_then(Option::take) {
            self.assembly.change(stream.carried(), 0);
            let mut stream = stream;
            for notes in stream.others.values_mut().chain([&mut stream.notes]) {
                self.place.release(id, notes, false);
            }
        }
        self.current = self.current.filter(|&current| current != id);
    }

    /// A source is not expected to say more: what is here of a large message gives way to others. True if it goes
    /// on at its next message, should it go on.
    pub fn rest(&mut self, now: Time, id: SourceId, routes: &Routes) -> bool {
        self.hand_over(now, routes);
        let Some(Some(stream)) = self.streams.get_mut(id) else { return false };
        // What it passed on, another source may bring.
        let own = stream.own;
        for notes in stream.others.values_mut().chain([&mut stream.notes]).filter(|notes| notes.key() != own)
        {
            self.place.release(id, notes, true);
        }
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

/// Has what is lost passed on, and told.
fn hearing<'a>(
    outbound: &'a mut Outbound,
    routes: &'a Routes,
    passes: Option<LinkId>,
    told: &'a mut impl FnMut(Told),
) -> impl FnMut(Told) + 'a {
    move |news| {
        if let (Told::Lost(source, first, last), Some(from)) = (news, passes)
            && source.publisher > 0
        {
            let Source { publisher, chain, .. } = source;
            let chain = Chain { publisher, chain, hops: HOPS_UNKNOWN, clock: None, again: None };
            outbound.add_lost(&chain, (first, last), &routes.asking(from));
        }
        told(news);
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
