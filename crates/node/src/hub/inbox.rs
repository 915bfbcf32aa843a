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

mod handing;
mod news;
mod staged;
mod stream;
mod taking;

pub use self::news::SourceNews;
use self::staged::Staged;
use self::stream::{Stream, turn_to, vacate};
pub(super) use self::taking::Place;
use self::taking::{Taking, Verdict};
use super::Hub;
use super::assembly::Assembly;
use super::chain::{Chains, LinkId};
use super::consumer::Source;
use super::notes::{Hold, Notes};
use super::origins::{Holder, Key, SILENCE};
use super::passing::{Chain, HOPS_UNKNOWN, Outbound, PassedOn};
use super::routes::Routes;
use super::withheld::{Run, Speaker, Withheld};
use crate::load::Tally;

/// A buffer is handed over when it holds so much: it is still in the processor's cache when it is read.
const BUFFER_BYTES: usize = 128 << 10;

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

    /// What comes next is routed by what is wanted in this version.
    #[inline]
    pub fn set_version(&mut self, version: u64) {
        if self.staged.outbound.is_empty() {
            self.staged.outbound.version = version;
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

    /// What came since it was asked before.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.staged.tally)
    }

    /// The lane of a source.
    pub fn lane_of(&self, id: SourceId) -> usize {
        self.streams.get(id).and_then(Option::as_ref).map_or(0, |stream| stream.lane)
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
            Some((if self.place.is_free_of(stream.aside_from) { Time::ZERO } else { stream.aside_until }, id))
        };
        let first = self.streams.iter().enumerate().filter_map(waits).min();
        // What follows what was put aside may have to wait as well.
        if first.is_none() && !self.streams.iter().flatten().any(|stream| stream.is_held) {
            self.set_aside(None);
        }
        first.unwrap_or((Time::NEVER, 0))
    }

    /// The link rests from now on, or is used again. While it rests we ask for nothing there, so what is skipped may be for us.
    /// What was under way is still taken, unless the link is `new` and was not used.
    pub fn set_resting(&mut self, now: Time, rests: bool, new: bool) {
        self.place.rests = rests.then(|| if new { now } else { now + SILENCE });
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
        let mut goes_back = false;
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
                goes_back = true;
            }
            self.assembly.change(if fits { grown } else { 0 }, stream.carried());
        }
        if goes_back {
            self.set_aside(Some(now));
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
    pub fn pass_on(&mut self, now: Time, hub: &Hub) -> Vec<(LinkId, usize)> {
        let Some(Some(stream)) = self.current.and_then(|id| self.streams.get_mut(id)) else {
            self.staged.outbound.clear();
            return Vec::new();
        };
        let (bytes, from) = (stream.reader.kept_bytes(), (stream.lane, self.place.link));
        let PassedOn { given, full, .. } = hub.forward(now, from, &self.staged.outbound, bytes);
        stream.full_links.extend(full);
        self.place.owe(now, self.staged.outbound.owed());
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
                if now < stream.aside_until && !self.place.is_free_of(stream.aside_from) {
                    stream.is_held |= !chunk.bytes.is_empty();
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
        }
        if let Some(Some(stream)) = self.streams.get_mut(id)
            && !chunk.bytes.is_empty()
        {
            stream.is_held = !stream.aside.is_empty();
            if stream.is_held {
                return Fed::Held;
            }
        }
        self.read(now, routes, id, chunk, &mut unreadable, &mut told)
    }

    fn set_aside(&mut self, until: Option<Time>) {
        self.has_aside = until.is_some();
        self.place.origins().set_aside(self.place.link, until);
    }

    /// Whether something may be put aside, here or on another link.
    pub fn may_have_aside(&self, now: Time) -> bool {
        let has_aside = |stream: &Stream| !stream.aside.is_empty();
        self.has_aside && self.streams.iter().flatten().any(has_aside) || self.place.origins().has_aside(now)
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
            let is_message = kind == Ok(RecordKind::Message);
            let is_counted = is_message || kind == Ok(RecordKind::Skip);
            let kept = match kind {
                Ok(RecordKind::Message) => {
                    let mut hear = hearing(&mut staged.outbound, routes, passes, told);
                    if let Verdict::Wait(until) = taking.judge(notes, notes.number, &mut hear) {
                        waits = Some((until, (notes.key(), notes.number)));
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
                        let verdict = turn_to((notes, others, turns), &mut taking, named, &mut hear);
                        if let Verdict::Wait(until) = verdict {
                            waits = Some((until, (notes.key(), mark.number - 1)));
                            frame::write(record, aside);
                            return false;
                        }
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
                        vacate(&taking, [&mut *notes]);
                        if skip.number == 0 {
                            vacate(&taking, others.values_mut());
                        }
                        return false;
                    }
                    let mut hear = hearing(&mut staged.outbound, routes, passes, told);
                    let last = skip.last();
                    if let Verdict::Wait(until) = taking.judge(notes, last, &mut hear) {
                        waits = Some((until, (notes.key(), last)));
                        frame::write(record, aside);
                        return false;
                    }
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
                let is_wanted = is_message
                    && passes.is_some_and(|from| routes.is_read_beside(record, notes.key(), number, from));
                let speaker = Speaker { source: id, own: *own, version: *version, notes };
                withheld.add(now, speaker, number, (record, is_wanted), |key| place.origins().next(key));
            }
            kept.unwrap_or_else(|error| {
                unreadable(error.to_string());
                false
            })
        };
        let read = reader.read(bytes, &mut each).map_err(|error| error.to_string());
        if let Some((until, from)) = waits {
            aside.extend_from_slice(&reader.take_carried());
            (stream.aside_until, stream.aside_from) = (until, from);
            self.has_aside = true;
            place.origins().set_aside(place.link, Some(until));
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

    /// Whose messages a source carries, apart from what it passes on, and the number that should come next, as far as known.
    pub fn source(&self, id: SourceId) -> Option<(Source, u64)> {
        let stream = self.streams.get(id)?.as_ref()?;
        let notes = stream.others.get(&stream.own).unwrap_or(&stream.notes);
        Some((notes.source, notes.awaited()))
    }

    /// Whether something of a publisher came over the link, which rests, and has not come to those who want it.
    pub fn withholds(&self, now: Time, publisher: u64) -> bool {
        self.withheld.is_lacking(now, publisher, |key| self.place.origins().next(key))
    }

    /// The number of a chain that comes next here, whoever brings it; 0 if not known.
    pub fn next(&self, key: Key) -> u64 {
        let of_stream = |stream: &Stream| match stream.notes.key() == key {
            true => stream.notes.awaited(),
            false => stream.others.get(&key).map_or(0, Notes::awaited),
        };
        self.streams.iter().flatten().map(of_stream).max().unwrap_or(0)
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

#[cfg(test)]
mod tests;
