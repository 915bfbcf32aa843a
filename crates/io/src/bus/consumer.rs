//! What waits for one subscription: a bounded queue of batches, filled by the link's thread and by
//! publishers of the same process, emptied by whoever reads the subscription.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_node::Origin;
use shoal_norm::StreamId;

use crate::bell::Bell;

/// Emptied lists of entries kept for their memory.
const SPARES_MAX: usize = 4;
/// One that grew longer than this is not kept.
const SPARE_ENTRIES_MAX: usize = 16 << 10;
/// A reader takes about so much at once. If it took everything, a queue that is full would stay so, to its
/// senders, until the reader is through with all of it, and they would take a busy reader for a dead one.
const TAKE_BYTES: usize = 256 << 10;
/// What an entry costs beside its bytes.
const ENTRY_BYTES: usize = 48;
/// Stands for a number that is not known.
const UNKNOWN: u64 = u64::MAX;

/// Where one message of a batch lies, and what is known of it.
#[derive(Copy, Clone, Debug)]
pub struct Entry {
    start: u32,
    length: u32,
    number: u64,
    timestamp_us: u64,
}

impl Entry {
    /// A record of `length` bytes at a place in its batch.
    pub fn new(start: usize, length: usize, origin: &Origin) -> Entry {
        Entry {
            start: start as u32,
            length: length as u32,
            number: origin.number.unwrap_or(UNKNOWN),
            timestamp_us: origin.timestamp_us,
        }
    }
}

/// Messages of one stream that arrived together.
#[derive(Debug)]
pub struct Batch {
    /// Their records, and perhaps others'.
    pub bytes: Arc<Vec<u8>>,
    /// Where each is.
    pub entries: Vec<Entry>,
    /// Where they came from.
    pub stream: StreamId,
    /// When they arrived.
    pub arrived: Instant,
    /// How old those with a time to live were by then: where each starts, and its age.
    pub ages: Option<Arc<Vec<(u32, Duration)>>>,
}

impl Batch {
    fn cost(&self) -> usize {
        let bytes: usize = self.entries.iter().map(|entry| entry.length as usize).sum();
        bytes + self.entries.len() * ENTRY_BYTES
    }

    /// The same, but in a buffer of its own where its records are a small part of the one it shares, so that a few
    /// bytes that wait for long hold no more than a few times their size.
    pub fn without_waste(self) -> Batch {
        let wanted: usize = self.entries.iter().map(|entry| entry.length as usize).sum();
        if wanted * 4 >= self.bytes.len() {
            return self;
        }
        let (mut bytes, mut ages) = (Vec::with_capacity(wanted), Vec::new());
        let mut entries = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(self.record(entry));
            entries.push(Entry { start, ..*entry });
            if self.ages.is_some() {
                ages.push((start, self.age(entry)));
            }
        }
        let ages = self.ages.is_some().then(|| Arc::new(ages));
        Batch { bytes: Arc::new(bytes), entries, ages, ..self }
    }

    /// The record of an entry.
    pub fn record(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start as usize..][..entry.length as usize]
    }

    /// How old it was when it arrived, as far as known: what it waited at its sender, above all.
    pub fn age(&self, entry: &Entry) -> Duration {
        let Some(ages) = &self.ages else { return Duration::ZERO };
        let found = ages.binary_search_by_key(&entry.start, |(start, _)| *start);
        found.map_or(Duration::ZERO, |at| ages[at].1)
    }

    /// Who sent it, when, as which.
    pub fn origin(&self, entry: &Entry) -> Origin {
        Origin {
            node: self.stream.node,
            instance: self.stream.instance,
            stream: self.stream.object,
            number: (entry.number != UNKNOWN).then_some(entry.number),
            timestamp_us: entry.timestamp_us,
        }
    }
}

/// Something in the queue.
#[derive(Debug)]
pub enum Item<L> {
    /// From the network.
    Batch(Batch),
    /// From this process, as it was published.
    Local(L),
}

impl<L> Item<L> {
    /// How many messages it is.
    pub fn messages(&self) -> usize {
        match self {
            Item::Batch(batch) => batch.entries.len(),
            Item::Local(_) => 1,
        }
    }
}

/// What to do when a queue is full.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Let the sender wait.
    Wait,
    /// Drop what comes.
    DropNew,
    /// Drop what waited longest.
    DropOld,
}

#[derive(Debug)]
struct State<L> {
    items: VecDeque<(Item<L>, usize)>,
    bytes: usize,
    dropped: u64,
    closed: bool,
    /// Threads that wait, for something or for room.
    waiting: usize,
    /// Nothing was taken for too long: what this process publishes is dropped instead of waiting.
    lagging: bool,
    spares: Vec<Vec<Entry>>,
    signal: Option<Signal>,
}

/// What makes an event loop look at the queue.
#[derive(Debug)]
struct Signal {
    bell: Arc<Bell>,
    source: u64,
    /// It rang, and not everything was taken since.
    raised: bool,
}

impl Signal {
    fn raise(&mut self) {
        if !std::mem::replace(&mut self.raised, true) {
            self.bell.ring(self.source);
        }
    }
}

/// What a reader took.
#[derive(Debug)]
pub struct Taken<L> {
    /// In order.
    pub items: VecDeque<(Item<L>, usize)>,
    /// The queue was full, and has room now.
    pub made_room: bool,
}

/// The queue of one subscription.
#[derive(Debug)]
pub struct Consumer<L> {
    state: Mutex<State<L>>,
    arrived: Condvar,
    bytes_max: usize,
    overflow: Overflow,
}

impl<L> Consumer<L> {
    /// An empty queue.
    pub fn new(bytes_max: usize, overflow: Overflow) -> Consumer<L> {
        let state = State {
            items: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            closed: false,
            waiting: 0,
            lagging: false,
            spares: Vec::new(),
            signal: None,
        };
        Consumer { state: Mutex::new(state), arrived: Condvar::new(), bytes_max, overflow }
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it makes its senders wait.
    pub fn holds_back(&self) -> bool {
        self.overflow == Overflow::Wait && {
            let state = self.lock();
            state.bytes >= self.bytes_max && !state.closed
        }
    }

    /// Messages dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Puts a batch in. True if the queue holds its senders back now.
    pub fn put_batch(&self, batch: Batch) -> bool {
        let (cost, messages) = (batch.cost(), batch.entries.len() as u64);
        self.put(self.lock(), Item::Batch(batch), cost, messages)
    }

    /// An empty list, with the memory of one that was given back.
    pub fn spare_entries(&self) -> Vec<Entry> {
        self.lock().spares.pop().unwrap_or_default()
    }

    /// Puts a message of this process in, which counts as so many bytes.
    pub fn put_local(&self, message: L, bytes: usize) {
        self.put(self.lock(), Item::Local(message), bytes + ENTRY_BYTES, 1);
    }

    /// Waits until it no longer holds its senders back, at the latest until `deadline`. False if it still does.
    pub fn wait_for_room(&self, deadline: Instant) -> bool {
        let mut state = self.lock();
        while self.overflow == Overflow::Wait && state.bytes >= self.bytes_max && !state.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.wait(state, Some(left));
        }
        true
    }

    /// Drops a message that was waited for in vain, and all that follow, until something is taken.
    pub fn give_up(&self) {
        let mut state = self.lock();
        state.lagging = true;
        state.dropped += 1;
    }

    /// Whether its reader was given up and has not come back.
    pub fn is_given_up(&self) -> bool {
        self.lock().lagging
    }

    fn put(&self, mut state: MutexGuard<'_, State<L>>, item: Item<L>, cost: usize, messages: u64) -> bool {
        if state.closed {
            return false;
        }
        let full = state.bytes + cost > self.bytes_max && state.bytes > 0;
        match self.overflow {
            Overflow::DropNew if full => {
                state.dropped += messages;
                return false;
            }
            Overflow::DropOld if full => {
                while state.bytes + cost > self.bytes_max
                    && let Some((old, cost)) = state.items.pop_front()
                {
                    state.bytes -= cost;
                    state.dropped += old.messages() as u64;
                }
            }
            Overflow::Wait | Overflow::DropNew | Overflow::DropOld => {}
        }
        state.items.push_back((item, cost));
        state.bytes += cost;
        if let Some(signal) = &mut state.signal {
            signal.raise();
        }
        let somebody_waits = state.waiting > 0;
        let holds_back = self.overflow == Overflow::Wait && state.bytes >= self.bytes_max;
        drop(state);
        if somebody_waits {
            self.arrived.notify_all();
        }
        holds_back
    }

    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State<L>>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, State<L>> {
        state.waiting += 1;
        let mut state = match limit {
            None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => self.arrived.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0,
        };
        state.waiting -= 1;
        state
    }

    /// Takes what waited longest, waiting until `limit` for it. `None` if it is closed and empty.
    pub fn take(&self, limit: Option<Duration>) -> Option<Taken<L>> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut state = self.lock();
        while state.items.is_empty() && !state.closed {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            state = self.wait(state, left);
        }
        if state.items.is_empty() && state.closed {
            return None;
        }
        let was_full = state.bytes >= self.bytes_max;
        let (mut items, mut taken) = (VecDeque::new(), 0);
        while taken < TAKE_BYTES
            && let Some((item, cost)) = state.items.pop_front()
        {
            items.push_back((item, cost));
            taken += cost;
        }
        state.bytes -= taken;
        state.lagging = false;
        let made_room = was_full && state.bytes < self.bytes_max;
        if state.items.is_empty()
            && let Some(signal) = &mut state.signal
        {
            signal.raised = false;
        }
        drop(state);
        if made_room {
            self.arrived.notify_all();
        }
        Some(Taken { items, made_room })
    }

    /// Waits until there is something to take, or never will be, at most for `limit`.
    pub fn wait_for_items(&self, limit: Duration) {
        let state = self.lock();
        if state.items.is_empty() && !state.closed {
            drop(self.wait(state, Some(limit)));
        }
    }

    /// Gives back a batch that was read, for its memory.
    pub fn recycle(&self, batch: Batch) {
        let mut entries = batch.entries;
        if entries.capacity() <= SPARE_ENTRIES_MAX {
            entries.clear();
            let mut state = self.lock();
            if state.spares.len() < SPARES_MAX {
                state.spares.push(entries);
            }
        }
    }

    /// Rings `bell` as `source` when there is something to take, or never will be.
    pub fn attach(&self, bell: Arc<Bell>, source: u64) {
        let mut state = self.lock();
        let mut signal = Signal { bell, source, raised: false };
        if !state.items.is_empty() || state.closed {
            signal.raise();
        }
        state.signal = Some(signal);
    }

    /// Messages that wait.
    pub fn pending(&self) -> usize {
        self.lock().items.iter().map(|(item, _)| item.messages()).sum()
    }

    /// Whether it takes nothing more in.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes nothing more in; what is there can still be taken.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        // It is needed no more, and keeps nobody.
        if let Some(signal) = state.signal.take() {
            signal.bell.ring(signal.source);
        }
        drop(state);
        self.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locals(consumer: &Consumer<u32>) -> Vec<u32> {
        let taken = consumer.take(Some(Duration::ZERO)).unwrap();
        let local = |(item, _)| match item {
            Item::Local(number) => number,
            Item::Batch(_) => panic!("no batch was put in"),
        };
        taken.items.into_iter().map(local).collect()
    }

    #[test]
    fn a_full_queue_holds_back_its_senders_until_it_is_taken() {
        let consumer = Consumer::new(100, Overflow::Wait);
        consumer.put_local(1, 60);
        assert!(consumer.holds_back());
        assert!(!consumer.wait_for_room(Instant::now()));
        assert!(consumer.take(None).unwrap().made_room);
        assert!(!consumer.holds_back());
        assert!(consumer.wait_for_room(Instant::now()));
        consumer.put_local(2, 60);
        assert_eq!(locals(&consumer), [2]);
    }

    #[test]
    fn a_reader_that_was_given_up_counts_again_once_it_reads() {
        let consumer = Consumer::new(100, Overflow::Wait);
        consumer.put_local(1, 100);
        consumer.give_up();
        assert!(consumer.is_given_up());
        assert_eq!(consumer.dropped(), 1);
        assert_eq!(locals(&consumer), [1]);
        assert!(!consumer.is_given_up());
    }

    #[test]
    fn a_queue_that_drops_keeps_the_newest_or_the_oldest() {
        for (overflow, kept) in [(Overflow::DropNew, [1, 2]), (Overflow::DropOld, [3, 4])] {
            let consumer = Consumer::new(2 * ENTRY_BYTES, overflow);
            for number in 1..=4 {
                consumer.put_local(number, 0);
            }
            assert_eq!(consumer.dropped(), 2);
            assert_eq!(locals(&consumer), kept);
            assert!(!consumer.holds_back());
        }
    }

    #[test]
    fn a_reader_makes_room_little_by_little() {
        let consumer = Consumer::new(4 * TAKE_BYTES, Overflow::Wait);
        for number in 0..4 {
            consumer.put_local(number, TAKE_BYTES);
        }
        assert!(consumer.holds_back());
        assert!(consumer.take(None).unwrap().made_room);
        assert!(!consumer.holds_back());
        consumer.put_local(4, TAKE_BYTES);
        assert_eq!([0; 4].map(|_| locals(&consumer)[0]), [1, 2, 3, 4]);
    }

    #[test]
    fn the_bell_rings_once_per_batch_and_when_nothing_more_will_come() {
        let (consumer, bell) = (Consumer::new(1000, Overflow::Wait), Arc::new(Bell::new().unwrap()));
        consumer.put_local(1, 1);
        consumer.attach(bell.clone(), 5);
        assert_eq!(bell.take(), [5]);
        consumer.put_local(2, 1);
        assert_eq!(consumer.pending(), 2);
        assert!(bell.take().is_empty());
        assert_eq!(locals(&consumer), [1, 2]);
        consumer.put_local(3, 1);
        assert_eq!(bell.take(), [5]);
        consumer.close();
        assert_eq!(bell.take(), [5]);
    }

    #[test]
    fn a_closed_queue_gives_what_it_has_and_then_nothing() {
        let consumer = Consumer::new(1000, Overflow::Wait);
        consumer.put_local(1, 1);
        consumer.close();
        consumer.put_local(2, 1);
        assert_eq!(locals(&consumer), [1]);
        assert!(consumer.take(None).is_none());
    }
}
