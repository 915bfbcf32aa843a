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

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use shoal_norm::{Chunk, NodeId, Time};
use shoal_wire::{Applied, Forgets, Mark, RecordKind, Skip, SkipReason};

mod handing;
mod news;
mod staged;
mod stream;
mod taking;

pub use self::news::SourceNews;
use self::staged::Staged;
use self::stream::{Stream, turn_to};
pub(super) use self::taking::Place;
use self::taking::Taking;
use super::Hub;
use super::accept::{Holder, Key};
use super::assembly::Assembly;
use super::chain::{Chains, LinkId};
use super::consumer::Source;
use super::notes::Hold;
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
    /// The same, and they may have been for those behind us alone.
    LostBehind(Source, u64, u64),
    /// Numbers are missing, and asked for.
    Asked,
}

/// The inbox of a link.
pub(super) struct Inbox {
    streams: Vec<Option<Stream>>,
    staged: Staged,
    /// The source whose messages are staged, and its chains of which something is not delivered yet.
    current: Option<SourceId>,
    touched: Vec<Key>,
    lent: Vec<Arc<Vec<u8>>>,
    assembly: Assembly,
    message_bytes_max: usize,
    place: Place,
    /// Our node id, by which senders forget us.
    node: NodeId,
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
            lent: Vec::new(),
            assembly,
            message_bytes_max,
            place,
            node: 0,
            passes,
            withheld: Withheld::default(),
        }
    }

    /// What comes next is routed by what is wanted in this version.
    #[inline]
    pub fn set_version(&mut self, version: u64) {
        if self.staged.outbound.is_empty() && self.staged.outbound.version != version {
            self.note_left();
            self.staged.outbound.version = version;
        }
    }

    /// Our announcement of this version, on the link, contains our interest in that version.
    pub fn note_announced(&self, announced: u64, interest: u64) {
        self.place.announced.lock().unwrap_or_else(PoisonError::into_inner).note(announced, interest);
    }

    /// What was announced on the link does not count any more.
    pub fn forget_announced(&self) {
        self.place.announced.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Our node id, which a link may redraw.
    pub fn set_node(&mut self, node: NodeId) {
        self.node = node;
    }

    /// Says whether a router on the link may be asked for what is missing.
    pub fn set_usable(&self, is_usable: bool) {
        self.place.accept().set_usable(self.place.link, is_usable && self.place.asks && !self.place.rests);
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

    /// A source of which something was withheld that is to be read now.
    pub fn aside(&self) -> Option<SourceId> {
        self.streams.iter().position(|stream| stream.as_ref().is_some_and(|stream| !stream.aside.is_empty()))
    }

    /// The link is on standby from now on, or in use again. On standby we ask for nothing there, so what is skipped may be for us.
    pub fn set_resting(&mut self, now: Time, rests: bool, reads: bool) {
        // What was taken is on its way to programs and links: no other source brings it again.
        self.finish(now);
        self.place.rests = rests;
        for stream in self.streams.iter_mut().flatten() {
            stream.distrust();
            for notes in stream.others.values_mut().chain([&mut stream.notes]) {
                notes.hold = Hold::Free;
            }
        }
        if rests {
            self.place.accept().leave(self.place.link);
        } else {
            self.read_withheld(now);
            self.ask_for_heard(now, reads);
        }
    }

    /// What the lanes of the link are past, and we are not, is asked for.
    fn ask_for_heard(&self, now: Time, reads: bool) {
        let mut accept = self.place.accept();
        for stream in self.streams.iter().flatten().filter(|stream| stream.aside.is_empty()) {
            let all = stream.others.values().chain([&stream.notes]);
            for notes in all.filter(|notes| notes.number > 1 && notes.source.publisher > 0) {
                let (key, next) = (notes.key(), accept.next(notes.key()));
                let is_asked = next > 0 || reads && accept.is_routed();
                if key.0 != self.place.publisher && is_asked && notes.number > next.max(1) {
                    accept.need(now, key, Some((self.place.link, stream.own.0)), notes.number);
                }
            }
        }
    }

    /// What came while the link rested, and did not come another way, is read next.
    fn read_withheld(&mut self, now: Time) {
        let mut withheld: BTreeMap<SourceId, Vec<Run>> = BTreeMap::new();
        for run in self.withheld.take(now, |key| self.place.accept().next(key)) {
            withheld.entry(run.source).or_default().push(run);
        }
        for (id, runs) in withheld {
            let Some(Some(stream)) = self.streams.get_mut(id) else { continue };
            let length: usize = runs.iter().map(|run| run.bytes.len()).sum();
            let (carried, grown) = (stream.carried(), stream.carried() + length);
            let fits = self.assembly.change(carried, grown);
            if fits {
                stream.go_back(now, id, &runs);
            }
            self.assembly.change(if fits { grown } else { 0 }, stream.carried());
        }
    }

    /// Messages that nobody wanted are not kept: that was decided under the interest by which they were routed.
    fn note_left(&mut self) {
        let version = self.staged.outbound.version;
        let stream = self.current.and_then(|id| self.streams.get_mut(id)?.as_mut());
        let Some(stream) = stream.filter(|_| self.passes) else { return };
        for key in &self.touched {
            let notes = match stream.notes.key() == *key {
                true => Some(&mut stream.notes),
                false => stream.others.get_mut(key),
            };
            let left = notes.map_or(0, |notes| std::mem::take(&mut notes.left));
            if left > 0 {
                self.place.accept().skip(*key, left, version, self.place.link);
            }
        }
    }

    /// Everything that came was delivered.
    pub fn finish(&mut self, now: Time) {
        self.note_left();
        if self.touched.is_empty() {
            return;
        }
        let stream = self.current.and_then(|id| Some((id, self.streams.get_mut(id)?.as_mut()?)));
        let Some((source, stream)) = stream else { return self.touched.clear() };
        let (holder, whom) = (Holder { link: self.place.link, source }, (self.place.link, stream.own.0));
        for key in self.touched.drain(..) {
            let notes = match stream.notes.key() == key {
                true => Some(&mut stream.notes),
                false => stream.others.get_mut(&key),
            };
            let Some(notes) = notes else { continue };
            if let Hold::Busy { next, .. } = std::mem::replace(&mut notes.hold, Hold::Free) {
                self.place.accept().progress(now, key, holder, whom, next);
            }
        }
    }

    /// The lane of the source whose messages wait to be handed over.
    pub fn lane(&self) -> usize {
        self.current.and_then(|id| self.streams.get(id)?.as_ref()).map_or(0, |stream| stream.lane)
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
        self.note_left();
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
                let carried = stream.carried();
                let aside = std::mem::take(&mut stream.aside);
                self.assembly.change(carried, stream.carried());
                aside
            }
            _ => Vec::new(),
        };
        if !aside.is_empty() {
            // What was withheld comes first.
            let first = Chunk { bytes: &aside, fresh: false };
            let fed = self.read(now, routes, id, first, &mut unreadable, &mut told);
            if fed != Fed::All {
                return fed;
            }
        }
        self.read(now, routes, id, chunk, &mut unreadable, &mut told)
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
        let (carried, asks) = (stream.carried(), place.asks());
        if chunk.fresh {
            stream.lose_place(asks);
        }
        let reads = self.passes || routes.reads_since() != Time::NEVER;
        let mut taking = Taking {
            now,
            place,
            source: id,
            own: stream.own,
            touched,
            reads,
            begins: false,
            applied: stream.applied,
            version: staged.outbound.version,
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
                    turn_to((notes, others, turns), &taking, (found.source, found.chain));
                    (notes.timestamp_us, notes.number) = (found.timestamp_us, found.number);
                    if found.number > 0 {
                        taking.mark(notes, found.number, &mut hear);
                    }
                    numbered = Some(bytes);
                }
                Ok(None) if assembly.change(carried, stream.carried()) => return Fed::All,
                refused => {
                    let why = refused.err().unwrap_or_else(|| assembly.refusal());
                    stream.lose_place(asks);
                    unreadable(why);
                    return Fed::Broken;
                }
            }
        }
        let bytes = numbered.as_deref().unwrap_or(chunk.bytes);
        let Stream { reader, notes, others, turns, version, own, applied, .. } = stream;
        let mut each = |record: &[u8], at: usize| {
            let (kind, number) = (RecordKind::of(record), notes.number);
            let is_message = kind == Ok(RecordKind::Message);
            let is_counted = is_message || kind == Ok(RecordKind::Skip);
            let kept = match kind {
                Ok(RecordKind::Message) => {
                    let mut hear = hearing(&mut staged.outbound, routes, passes, told);
                    let is_taken = taking.message(notes, &mut hear);
                    drop(hear);
                    match is_taken {
                        true => staged.on_message(now, routes, notes, record, at, passes),
                        false => {
                            staged.tally.received += 1;
                            notes.next_origin();
                            Ok(false)
                        }
                    }
                }
                Ok(RecordKind::Mark) => Mark::read(record).map(|mark| {
                    turn_to((notes, others, turns), &taking, (mark.source, mark.chain));
                    if let Some(answered) = mark.answered.filter(|answered| answered.asker == place.publisher)
                    {
                        notes.trust = place.applied(Some(answered.version));
                    }
                    let mut hear = hearing(&mut staged.outbound, routes, passes, told);
                    taking.mark(notes, mark.number, &mut hear);
                    drop(hear);
                    (notes.number, notes.timestamp_us) = (mark.number, mark.timestamp_us);
                    notes.see_clock(now, mark.clock_us, mark.source.is_none());
                    if mark.version != std::mem::replace(version, mark.version) {
                        told(Told::Version(mark.version));
                    }
                    false
                }),
                Ok(RecordKind::Skip) => Skip::read(record).map(|skip| {
                    if skip.reason == SkipReason::Rests {
                        notes.trust = None;
                        let only = (skip.number > 0).then(|| notes.key());
                        if only.is_none() {
                            (*applied, taking.applied) = (None, None);
                            others.values_mut().for_each(|notes| notes.trust = None);
                        }
                        place.accept().rest((place.link, own.0), only);
                        return false;
                    }
                    let mut hear = hearing(&mut staged.outbound, routes, passes, told);
                    taking.skip(notes, skip, &mut hear);
                    if notes.number > 0 && skip.next() > notes.number {
                        notes.number = skip.next();
                    }
                    false
                }),
                Ok(RecordKind::Forgets) => Forgets::read(record).map(|forgets| {
                    if forgets.node == self.node {
                        (*applied, taking.applied) = (None, None);
                        others.values_mut().chain([&mut *notes]).for_each(|notes| {
                            // Until its sender says where it counts on us again.
                            (notes.trust, notes.doubt) = (None, u64::MAX);
                        });
                    }
                    false
                }),
                Ok(RecordKind::Applied) => Applied::read(record).map(|record| {
                    let of_us = |(publisher, _): &&(u64, u64)| *publisher == place.publisher;
                    if let Some(&(_, version)) = record.members.iter().find(of_us).filter(|_| !place.rests) {
                        (*applied, taking.applied) = (Some(version), Some(version));
                    }
                    false
                }),
                Ok(_) => Ok(false),
                Err(error) => Err(error),
            };
            if let (true, Some(from)) = (std::mem::take(&mut taking.begins), passes)
                && notes.number > 1
            {
                staged.outbound.add_begins(&notes.chain(), notes.number, &routes.asking(from));
            }
            if place.rests
                && is_counted
                && notes.number > number
                && ![0, place.publisher].contains(&notes.source.publisher)
            {
                let is_wanted = is_message
                    && passes.is_some_and(|from| routes.is_read_beside(record, notes.key(), number, from));
                let speaker = Speaker { source: id, own: *own, version: *version, notes };
                withheld.add(now, speaker, number, (record, is_wanted), |key| place.accept().next(key));
            }
            kept.unwrap_or_else(|error| {
                unreadable(error.to_string());
                false
            })
        };
        let read = reader.read(bytes, &mut each).map_err(|error| error.to_string());
        let part = if read.is_ok() { stream.carried() } else { 0 };
        let fits = assembly.change(carried, part);
        if let Err(why) = read.and_then(|()| fits.then_some(()).ok_or_else(|| assembly.refusal())) {
            stream.lose_place(asks);
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
        let (publisher, chain) = stream.own;
        let source = Source { publisher, chain, node: stream.notes.source.node };
        Some((source, self.place.accept().next(stream.own)))
    }

    /// Whether something of a publisher came over the link, which rests, and has not come to those who want it.
    pub fn withholds(&self, now: Time, publisher: u64) -> bool {
        self.withheld.is_lacking(now, publisher, |key| self.place.accept().next(key))
    }

    /// The number of a chain that comes next here, whoever brings it; 0 if not known.
    pub fn next(&self, key: Key) -> u64 {
        let of_stream = |stream: &Stream| match stream.notes.key() == key {
            true => stream.notes.number,
            false => stream.others.get(&key).map_or(0, |notes| notes.number),
        };
        self.streams.iter().flatten().map(of_stream).max().unwrap_or(0)
    }

    /// Nothing more will come of a source.
    pub fn close(&mut self, now: Time, id: SourceId, routes: &Routes) {
        self.hand_over(now, routes);
        self.finish(now);
        self.withheld.close(id);
        if let Some(stream) = self.streams.get_mut(id).and_then(Option::take) {
            self.assembly.change(stream.carried(), 0);
            let mut stream = stream;
            let neighbour = stream.own.0;
            for notes in stream.others.values_mut().chain([&mut stream.notes]) {
                self.place.release(id, neighbour, notes);
            }
        }
        self.current = self.current.filter(|&current| current != id);
    }

    /// A source is not expected to say more: what is here of a large message gives way to others. True if it goes
    /// on at its next message, should it go on.
    pub fn rest(&mut self, now: Time, id: SourceId, routes: &Routes) -> bool {
        self.hand_over(now, routes);
        self.finish(now);
        let Some(Some(stream)) = self.streams.get_mut(id) else { return false };
        let neighbour = stream.own.0;
        for notes in stream.others.values_mut().chain([&mut stream.notes]) {
            self.place.release(id, neighbour, notes);
        }
        let (carried, asks) = (stream.carried(), self.place.asks());
        let cut = Assembly::cost(carried) > 0;
        if cut {
            self.assembly.change(carried, 0);
            stream.lose_place(asks);
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
        if let (Told::Lost(source, first, last) | Told::LostBehind(source, first, last), Some(from)) =
            (news, passes)
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
