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
use shoal_wire::{Mark, MessageView, RecordKind};

use super::consumer::{Batch, Consumer, Entry};
use crate::norm::Taken;

/// A buffer is handed over when it holds so much: it is still in the processor's cache when it is read.
const BUFFER_BYTES: usize = 128 << 10;
/// Less than this is copied when it is handed over, so that a few bytes that wait for long hold no whole buffer.
const SHARED_BYTES_MIN: usize = BUFFER_BYTES / 4;
/// Buffers handed over that may come back for their memory.
const LENT_MAX: usize = 64;

struct Subscription<L> {
    consumer: Arc<Consumer<L>>,
    /// What it gets of the buffer that is being filled.
    staged: Vec<Entry>,
}

/// A stream's messages, and what is known of them.
struct Stream {
    reader: FrameReader,
    timestamp_us: u64,
    /// The next message's number.
    number: Option<u64>,
    /// The version of its subscriptions that its sender had announced.
    version: u64,
    /// Its sender's clock, once a mark showed it.
    clock: Option<ClockOffset>,
}

/// The inbox of a bus.
pub struct Inbox<L> {
    switch: Switch,
    subscriptions: HashMap<SubscriptionId, Subscription<L>>,
    streams: HashMap<StreamId, Stream>,
    /// The stream whose messages are staged.
    current: Option<StreamId>,
    /// Subscriptions with something staged.
    staged: Vec<SubscriptionId>,
    lent: Vec<Arc<Vec<u8>>>,
    /// Streams that filled a queue, and the subscriptions whose queues those are.
    parked: HashMap<StreamId, Vec<SubscriptionId>>,
    /// How old messages with a time to live are, by their place in the buffer that is being filled.
    ages: Vec<(u32, Duration)>,
    /// Bytes of messages whose end has not come yet, in all streams.
    assembling: usize,
    bounds: InboxBounds,
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
            switch: Switch::new(seed),
            subscriptions: HashMap::new(),
            streams: HashMap::new(),
            current: None,
            staged: Vec::new(),
            lent: Vec::new(),
            parked: HashMap::new(),
            ages: Vec::new(),
            assembling: 0,
            bounds,
        }
    }

    pub fn subscribe(&mut self, id: SubscriptionId, interest: Interest, consumer: Arc<Consumer<L>>) {
        self.switch.insert(id, interest);
        self.subscriptions.insert(id, Subscription { consumer, staged: Vec::new() });
    }

    /// Ends a subscription and returns what it wanted. What has come for it can still be read.
    pub fn unsubscribe(&mut self, id: SubscriptionId) -> Option<Interest> {
        self.hand_over();
        if let Some(subscription) = self.subscriptions.remove(&id) {
            subscription.consumer.close();
        }
        self.switch.remove(id)
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
        let Inbox { switch, subscriptions, streams, staged, ages, bounds, .. } = self;
        let stream = streams.entry(id).or_insert_with(|| Stream {
            reader: FrameReader::new(bounds.message_bytes_max),
            timestamp_us: 0,
            number: None,
            version: 0,
            clock: None,
        });
        let Stream { reader, timestamp_us, number, version, clock } = stream;
        let carried = reader.carried();
        if chunk.fresh {
            reader.reset();
        }
        let mut each = |record: &[u8], at: usize| match RecordKind::of(record) {
            Ok(RecordKind::Message) => {
                let this = *number;
                *number = this.map(|number| number + 1);
                let origin = Origin {
                    node: id.node,
                    instance: id.instance,
                    stream: id.object,
                    number: this,
                    timestamp_us: *timestamp_us,
                };
                match MessageView::parse(record) {
                    Ok(view) => {
                        let Ok(wanted) = switch.route(&view, &origin) else { return false };
                        match clock.and_then(|clock| age_and_ttl(&view, clock, now)) {
                            Some((age, ttl)) if age >= ttl => return false,
                            Some((age, _)) if !wanted.is_empty() => ages.push((at as u32, age)),
                            _ => {}
                        }
                        for subscription in wanted {
                            stage(
                                subscriptions,
                                staged,
                                subscription.id,
                                Entry::new(at, record.len(), &origin),
                            );
                        }
                        !wanted.is_empty()
                    }
                    Err(error) => {
                        unreadable(error.to_string());
                        false
                    }
                }
            }
            Ok(RecordKind::Mark) => {
                match Mark::read(record) {
                    Ok(mark) => {
                        (*timestamp_us, *number) = (mark.timestamp_us, Some(mark.number));
                        let first = || ClockOffset::new(now, mark.clock_us);
                        clock.get_or_insert_with(first).observe(now, mark.clock_us);
                        if mark.version != std::mem::replace(version, mark.version) {
                            announced(mark.version);
                        }
                    }
                    Err(error) => unreadable(error.to_string()),
                }
                false
            }
            Ok(_) => false,
            Err(error) => {
                unreadable(error.to_string());
                false
            }
        };
        let read = reader.read(chunk.bytes, &mut each).map_err(|error| error.to_string());
        let assembling = self.assembling - carried;
        let bound = bounds.assembly_bytes_max;
        let fits = assembling + reader.carried() <= bound;
        let read = read.and_then(|()| if fits { Ok(()) } else { Err(no_room_to_assemble(bound)) });
        if let Err(why) = read {
            reader.reset();
            (*timestamp_us, *number) = (0, None);
            self.assembling = assembling;
            unreadable(why);
            return Taken::Broken;
        }
        self.assembling = assembling + reader.carried();
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
        let holds_back = |id| self.subscriptions.get(id).is_some_and(|found| found.consumer.holds_back());
        let parked = filled.iter().any(holds_back);
        if !parked {
            self.parked.remove(&stream);
        }
        parked
    }

    /// Puts what is staged into the queues.
    pub fn hand_over(&mut self) {
        if self.staged.is_empty() {
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
        let ages = (!self.ages.is_empty()).then(|| Arc::new(std::mem::take(&mut self.ages)));
        for subscription in self.staged.drain(..) {
            if let Some(Subscription { consumer, staged }) = self.subscriptions.get_mut(&subscription) {
                let entries = std::mem::replace(staged, consumer.spare_entries());
                let (bytes, ages) = (bytes.clone(), ages.clone());
                if consumer.put_batch(Batch { bytes, entries, stream: id, arrived, ages }) {
                    self.parked.entry(id).or_default().push(subscription);
                }
            }
        }
    }

    /// Messages of a stream are lost: the next one's number is not known.
    pub fn on_gap(&mut self, stream: StreamId) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            (stream.timestamp_us, stream.number) = (0, None);
        }
    }

    /// Nothing more will come of a node's run.
    pub fn forget(&mut self, node: NodeId, instance: u16) {
        self.hand_over();
        self.streams.retain(|stream, found| {
            let others = (stream.node, stream.instance) != (node, instance);
            if !others {
                self.assembling -= found.reader.carried();
            }
            others
        });
        self.parked.retain(|stream, _| (stream.node, stream.instance) != (node, instance));
    }
}

impl<L> Drop for Inbox<L> {
    fn drop(&mut self) {
        for subscription in self.subscriptions.values() {
            subscription.consumer.close();
        }
    }
}

fn stage<L>(
    subscriptions: &mut HashMap<SubscriptionId, Subscription<L>>,
    staged: &mut Vec<SubscriptionId>,
    id: SubscriptionId,
    entry: Entry,
) {
    let Some(subscription) = subscriptions.get_mut(&id) else { return };
    if subscription.staged.is_empty() {
        staged.push(id);
    }
    subscription.staged.push(entry);
}

/// How old a message with a time to live is, and how old it may become.
fn age_and_ttl(view: &MessageView<'_>, clock: ClockOffset, now: Time) -> Option<(Duration, Duration)> {
    let fields = view.fields().ok()?;
    Some((clock.age(now, fields.published_us?), Duration::from_micros(fields.ttl_us?)))
}

fn no_room_to_assemble(bound: usize) -> String {
    format!(
        "a message was lost because parts of too many large ones came at once: \
         assembly_bytes_max is {bound} bytes"
    )
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
