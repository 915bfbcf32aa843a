//! From the bytes of streams to the queues of subscriptions.
//!
//! Each stream's messages are put together in a buffer of their own. Whoever wants one is given its place
//! there, and a share of the buffer when it is full or nothing more has come: a message is copied once, however
//! many subscriptions get it.
//!
//! A stream that filled a queue is *parked*: nothing more is taken of it until every queue it filled has room.
//! Other streams go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashMapExt};
use shoal_node::{ClockOffset, Interest, Origin, SubscriptionId, Switch};
use shoal_norm::{Chunk, NodeId, StreamId, Time};
use shoal_wire::frame::FrameReader;
use shoal_wire::{DecodeError, Mark, MessageView, RecordKind};

use super::consumer::{Batch, Consumer, Entry};
use crate::norm::Taken;

/// A buffer is handed over when it holds so much: it is still in the processor's cache when it is read.
const BUFFER_BYTES: usize = 128 << 10;
/// Less than this is copied when it is handed over, so that a few bytes that wait for long hold no whole buffer.
const SHARED_BYTES_MIN: usize = BUFFER_BYTES / 4;
/// Parts of messages up to this length are not counted.
const PART_BYTES_FREE: usize = 64 << 10;
/// Buffers handed over that may come back for their memory.
const LENT_MAX: usize = 64;

struct Subscription<L> {
    consumer: Arc<Consumer<L>>,
    /// What it gets of the buffer that is being filled.
    staged: Vec<Entry>,
}

/// What is known of a stream beside its messages.
struct Notes {
    stream: StreamId,
    timestamp_us: u64,
    /// The next message's number.
    number: Option<u64>,
    /// The version of its subscriptions that its sender had announced.
    version: u64,
    /// Its sender's clock, once a mark showed it.
    clock: Option<ClockOffset>,
}

impl Notes {
    fn new(stream: StreamId) -> Notes {
        Notes { stream, timestamp_us: 0, number: None, version: 0, clock: None }
    }

    /// Where the next message comes from.
    fn next_origin(&mut self) -> Origin {
        let number = self.number;
        self.number = number.and_then(|number| number.checked_add(1));
        Origin {
            node: self.stream.node,
            instance: self.stream.instance,
            stream: self.stream.object,
            number,
            timestamp_us: self.timestamp_us,
        }
    }

    /// Takes a mark in. True if its sender has announced another version since the last.
    fn on_mark(&mut self, now: Time, mark: &Mark) -> bool {
        (self.timestamp_us, self.number) = (mark.timestamp_us, Some(mark.number));
        let first = || ClockOffset::new(now, mark.clock_us);
        self.clock.get_or_insert_with(first).observe(now, mark.clock_us);
        mark.version != std::mem::replace(&mut self.version, mark.version)
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

/// A stream's messages.
struct Stream {
    reader: FrameReader,
    notes: Notes,
}

impl Stream {
    /// What comes next starts with a new message, of which nothing is known.
    fn lose_place(&mut self) {
        self.reader.reset();
        (self.notes.timestamp_us, self.notes.number) = (0, None);
    }
}

/// Who gets what of the buffer that is being filled.
struct Routes<L> {
    switch: Switch,
    subscriptions: HashMap<SubscriptionId, Subscription<L>>,
    /// Subscriptions with something staged.
    staged: Vec<SubscriptionId>,
    /// How old messages with a time to live are, by their place in the buffer.
    ages: Vec<(u32, Duration)>,
}

impl<L> Routes<L> {
    /// Stages a message that will lie `at` a place in the buffer. True if somebody wants it.
    fn on_message(
        &mut self,
        now: Time,
        notes: &mut Notes,
        record: &[u8],
        at: usize,
    ) -> Result<bool, DecodeError> {
        let origin = notes.next_origin();
        let view = MessageView::parse(record)?;
        let Ok(wanted) = self.switch.route(&view, &origin) else { return Ok(false) };
        match notes.age_and_ttl(&view, now) {
            Some((age, ttl)) if age >= ttl => return Ok(false),
            Some((age, _)) if !wanted.is_empty() => self.ages.push((at as u32, age)),
            _ => {}
        }
        for target in wanted {
            if let Some(subscription) = self.subscriptions.get_mut(&target.id) {
                if subscription.staged.is_empty() {
                    self.staged.push(target.id);
                }
                subscription.staged.push(Entry::new(at, record.len(), &origin));
            }
        }
        Ok(!wanted.is_empty())
    }
}

/// Parts of messages whose end has not come yet, of all streams together.
struct Assembly {
    bytes: usize,
    bytes_max: usize,
}

impl Assembly {
    /// What a part counts as: a small one nothing, so that whoever holds large ones breaks only those.
    fn cost(part: usize) -> usize {
        part.saturating_sub(PART_BYTES_FREE)
    }

    /// A stream's part grew or shrank. False if there is no room for it: then it is to be dropped.
    fn change(&mut self, from: usize, to: usize) -> bool {
        let others = self.bytes.saturating_sub(Assembly::cost(from));
        let fits = others + Assembly::cost(to) <= self.bytes_max;
        self.bytes = if fits { others + Assembly::cost(to) } else { others };
        fits
    }

    fn refusal(&self) -> String {
        format!(
            "a message was lost because parts of too many large ones came at once: \
             assembly_bytes_max is {} bytes",
            self.bytes_max
        )
    }
}

/// The inbox of a bus.
pub struct Inbox<L> {
    routes: Routes<L>,
    streams: HashMap<StreamId, Stream>,
    /// The stream whose messages are staged.
    current: Option<StreamId>,
    lent: Vec<Arc<Vec<u8>>>,
    /// Streams that filled a queue, and the subscriptions whose queues those are.
    parked: HashMap<StreamId, Vec<SubscriptionId>>,
    assembly: Assembly,
    message_bytes_max: usize,
}

/// How much an inbox holds.
#[derive(Copy, Clone, Debug)]
pub struct InboxBounds {
    /// The longest message.
    pub message_bytes_max: usize,
    /// Parts of messages whose end has not come yet, of all streams together.
    pub assembly_bytes_max: usize,
}

impl<L> Inbox<L> {
    pub fn new(seed: u64, bounds: InboxBounds) -> Inbox<L> {
        Inbox {
            routes: Routes {
                switch: Switch::new(seed),
                subscriptions: HashMap::new(),
                staged: Vec::new(),
                ages: Vec::new(),
            },
            streams: HashMap::new(),
            current: None,
            lent: Vec::new(),
            parked: HashMap::new(),
            assembly: Assembly { bytes: 0, bytes_max: bounds.assembly_bytes_max },
            message_bytes_max: bounds.message_bytes_max,
        }
    }

    pub fn subscribe(&mut self, id: SubscriptionId, interest: Interest, consumer: Arc<Consumer<L>>) {
        self.routes.switch.insert(id, interest);
        self.routes.subscriptions.insert(id, Subscription { consumer, staged: Vec::new() });
    }

    /// Ends a subscription and returns what it wanted. What has come for it can still be read.
    pub fn unsubscribe(&mut self, id: SubscriptionId) -> Option<Interest> {
        self.hand_over();
        if let Some(subscription) = self.routes.subscriptions.remove(&id) {
            subscription.consumer.close();
        }
        self.routes.switch.remove(id)
    }

    /// Takes a stream's next bytes, unless it is parked; calls `unreadable` with what is wrong with them, and
    /// `announced` with the version of its subscriptions that their sender announced, when that is another one.
    pub fn take(
        &mut self,
        now: Time,
        id: StreamId,
        chunk: Chunk<'_>,
        mut unreadable: impl FnMut(String),
        mut announced: impl FnMut(u64),
    ) -> Taken {
        if self.is_parked(id) {
            return Taken::Nothing;
        }
        if self.current != Some(id) {
            self.hand_over();
            self.current = Some(id);
        }
        let Inbox { routes, streams, assembly, message_bytes_max, .. } = self;
        let stream = streams.entry(id).or_insert_with(|| Stream {
            reader: FrameReader::new(*message_bytes_max),
            notes: Notes::new(id),
        });
        let carried = stream.reader.carried();
        if chunk.fresh {
            stream.lose_place();
        }
        let Stream { reader, notes } = stream;
        let mut each = |record: &[u8], at: usize| {
            let kept = match RecordKind::of(record) {
                Ok(RecordKind::Message) => routes.on_message(now, notes, record, at),
                Ok(RecordKind::Mark) => Mark::read(record).map(|mark| {
                    if notes.on_mark(now, &mark) {
                        announced(mark.version);
                    }
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
        let read = reader.read(chunk.bytes, &mut each).map_err(|error| error.to_string());
        let part = if read.is_ok() { reader.carried() } else { 0 };
        let fits = assembly.change(carried, part);
        if let Err(why) = read.and_then(|()| fits.then_some(()).ok_or_else(|| assembly.refusal())) {
            stream.lose_place();
            unreadable(why);
            return Taken::Broken;
        }
        if reader.kept() >= BUFFER_BYTES {
            self.hand_over();
        }
        Taken::All
    }

    /// Whether a stream has to wait for a queue it filled.
    fn is_parked(&mut self, stream: StreamId) -> bool {
        if self.parked.is_empty() {
            return false;
        }
        let Some(filled) = self.parked.get(&stream) else { return false };
        let subscriptions = &self.routes.subscriptions;
        let holds_back = |id| subscriptions.get(id).is_some_and(|found| found.consumer.holds_back());
        let parked = filled.iter().any(holds_back);
        if !parked {
            self.parked.remove(&stream);
        }
        parked
    }

    /// Puts what is staged into the queues.
    pub fn hand_over(&mut self) {
        let Routes { subscriptions, staged, ages, .. } = &mut self.routes;
        if staged.is_empty() {
            return;
        }
        let Some((id, stream)) = self.current.and_then(|id| Some((id, self.streams.get_mut(&id)?))) else {
            return;
        };
        let bytes = if stream.reader.kept() < SHARED_BYTES_MIN {
            Arc::new(stream.reader.copy_kept())
        } else {
            let bytes = Arc::new(stream.reader.take_kept(spare(&mut self.lent)));
            if bytes.capacity() <= 2 * BUFFER_BYTES && self.lent.len() < LENT_MAX {
                self.lent.push(bytes.clone());
            }
            bytes
        };
        let arrived = Instant::now();
        let ages = (!ages.is_empty()).then(|| Arc::new(std::mem::take(ages)));
        for subscription in staged.drain(..) {
            if let Some(Subscription { consumer, staged }) = subscriptions.get_mut(&subscription) {
                let entries = std::mem::replace(staged, consumer.spare_entries());
                let batch = Batch { bytes: bytes.clone(), entries, stream: id, arrived, ages: ages.clone() };
                if consumer.put_batch(batch.without_waste()) {
                    self.parked.entry(id).or_default().push(subscription);
                }
            }
        }
    }

    /// Nothing more will come of a stream.
    pub fn close_stream(&mut self, id: StreamId) {
        self.hand_over();
        if let Some(stream) = self.streams.remove(&id) {
            self.assembly.change(stream.reader.carried(), 0);
        }
        self.parked.remove(&id);
    }

    /// A node is not expected to say more: what is here of a large message gives way to others. Returns the streams that
    /// go on at their next message, should they go on.
    pub fn rest(&mut self, node: NodeId, instance: u16) -> Vec<StreamId> {
        self.hand_over();
        let mut cut = Vec::new();
        for (&id, stream) in &mut self.streams {
            if (id.node, id.instance) != (node, instance) {
                continue;
            }
            let carried = stream.reader.carried();
            if Assembly::cost(carried) > 0 {
                self.assembly.change(carried, 0);
                stream.lose_place();
                cut.push(id);
            }
            stream.reader.take_kept(Vec::new());
        }
        cut
    }

    /// Nothing more will come of a node's run.
    pub fn forget(&mut self, node: NodeId, instance: u16) {
        let of_node = |stream: &&StreamId| (stream.node, stream.instance) == (node, instance);
        let streams: Vec<StreamId> = self.streams.keys().filter(of_node).copied().collect();
        for stream in streams {
            self.close_stream(stream);
        }
    }
}

impl<L> Drop for Inbox<L> {
    fn drop(&mut self) {
        for subscription in self.routes.subscriptions.values() {
            subscription.consumer.close();
        }
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
