//! What waits for one subscription: a bounded queue of batches of records, filled by links and by publishers of the
//! same process, emptied by whoever reads the subscription.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use shoal_norm::{NodeId, Time};
use shoal_wire::MessageView;

use super::send_error::SendError;
use super::wake::Wake;
use crate::attributes::Origin;

/// Emptied lists of entries kept for their memory.
const SPARES_MAX: usize = 4;
/// One that grew longer than this is not kept.
const SPARE_ENTRIES_MAX: usize = 16 << 10;
/// A reader takes about so much at once. If it took everything, a queue that is full would stay so, to its
/// senders, until the reader is through with all of it, and they would take a busy reader for a dead one.
const TAKE_BYTES: usize = 256 << 10;
/// What an entry costs beside its bytes.
const ENTRY_BYTES: usize = 48;
/// Records published here are put together until they are so many bytes; one that is longer than half of it stands
/// alone, and its readers share it.
const GATHER_BYTES: usize = 16 << 10;
const GATHERED_BYTES_MAX: usize = GATHER_BYTES / 2;

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
    pub fn new(start: usize, length: usize, number: u64, timestamp_us: u64) -> Entry {
        Entry { start: start as u32, length: length as u32, number, timestamp_us }
    }

    /// Its place in its batch.
    pub(super) fn start(&self) -> u32 {
        self.start
    }
}

/// Whose messages, and which path they came.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Who published them; 0 if not known.
    pub publisher: u64,
    /// His chain.
    pub chain: u32,
    /// The node that sent them here.
    pub node: NodeId,
}

/// Messages of one source that arrived together.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Their records, and perhaps others'.
    pub bytes: Arc<Vec<u8>>,
    /// Where each is.
    pub entries: Vec<Entry>,
    /// Where they came from.
    pub source: Source,
    /// When they arrived.
    pub arrived: Time,
    /// How old those with a time to live or a delivery delay were by then: where each starts, and its age.
    pub ages: Option<Arc<Vec<(u32, Duration)>>>,
}

impl Batch {
    /// One record.
    fn single(record: Arc<Vec<u8>>, origin: &Origin, arrived: Time) -> Batch {
        let entry = Entry::new(0, record.len(), origin.number, origin.timestamp_us);
        let source = Source { publisher: origin.publisher, chain: origin.chain, node: origin.node };
        Batch { bytes: record, entries: vec![entry], source, arrived, ages: None }
    }

    /// The same, but in a buffer of its own where its records are a small part of the one it shares, so that a few
    /// bytes that wait for long hold no more than a few times their size.
    pub fn without_waste(self) -> Batch {
        let wanted: usize = self.entries.iter().map(|entry| entry.length as usize).sum();
        if wanted * 4 >= self.bytes.len() {
            return self;
        }
        let (mut bytes, mut ages) = (Vec::new(), Vec::new());
        if bytes.try_reserve_exact(wanted).is_err() {
            return self;
        }
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
    #[inline]
    pub fn record(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start as usize..][..entry.length as usize]
    }

    /// How old it was when it arrived, as far as known: what it waited at its sender, above all.
    pub fn age(&self, entry: &Entry) -> Duration {
        let Some(ages) = &self.ages else { return Duration::ZERO };
        let found = ages.binary_search_by_key(&entry.start, |(start, _)| *start);
        found.map_or(Duration::ZERO, |at| ages[at].1)
    }

    /// Who published it, when, as which.
    #[inline]
    pub fn origin(&self, entry: &Entry) -> Origin {
        Origin {
            publisher: self.source.publisher,
            chain: self.source.chain,
            node: self.source.node,
            number: entry.number,
            timestamp_us: entry.timestamp_us,
        }
    }
}

/// How long a message says that it was held before it was published.
fn held_by(record: &[u8]) -> Option<Duration> {
    let held_us = MessageView::parse(record).ok()?.fields().ok()?.held_us?;
    Some(Duration::from_micros(held_us))
}

/// A copy of a message that its readers share: `None` if it is so short that each of them has its own.
pub(super) fn shared_copy(parts: &[&[u8]]) -> Result<Option<Arc<Vec<u8>>>, SendError> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if length <= GATHERED_BYTES_MAX {
        return Ok(None);
    }
    let mut whole = Vec::new();
    whole.try_reserve_exact(length).map_err(|_| SendError::NoMemory(length))?;
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    Ok(Some(Arc::new(whole)))
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

/// A batch in the queue.
#[derive(Debug)]
struct Item {
    batch: Batch,
    /// What of it was not dropped yet.
    from: usize,
    cost: usize,
    /// Nobody shares its bytes, and more may be added.
    gathers: bool,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    dropped: u64,
    closed: bool,
    failure: Option<Arc<str>>,
    /// Nothing was taken for too long: what this process publishes is dropped instead of waiting.
    lagging: bool,
    spares: Vec<Vec<Entry>>,
    /// It is nearly full, and has not become emptier since.
    brims: bool,
}

/// What a reader took.
#[derive(Debug, Default)]
pub struct Taken {
    /// In order.
    pub batches: VecDeque<Batch>,
    /// The queue was full, and has room now.
    pub made_room: bool,
}

/// A queue is nearly full from so many percent on, until it has less than that.
const BRIM_PERCENT: usize = 80;
const CLEAR_PERCENT: usize = 60;

/// The queue of one subscription.
pub struct Consumer {
    state: Mutex<State>,
    wake: Arc<dyn Wake>,
    /// Woken when the queue becomes nearly full.
    brim: OnceLock<Arc<dyn Wake>>,
    bytes_max: usize,
    overflow: Overflow,
}

impl Consumer {
    /// An empty queue; whoever reads it is woken when something came, or never will.
    pub fn new(bytes_max: usize, overflow: Overflow, wake: Arc<dyn Wake>) -> Consumer {
        Consumer { state: Mutex::default(), wake, brim: OnceLock::new(), bytes_max, overflow }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- getters ---

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

    /// Messages that wait.
    pub fn pending(&self) -> usize {
        self.lock().items.iter().map(|item| item.batch.entries.len() - item.from).sum()
    }

    /// Bytes that wait, and what they cost beside.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Whether there is nothing to take, and may be later.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.items.is_empty() && !state.closed
    }

    /// Whether it takes nothing more in.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Why nothing more comes, if the link it came over failed.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.lock().failure.clone()
    }

    /// Whether its reader was given up and has not come back.
    pub fn is_given_up(&self) -> bool {
        self.lock().lagging
    }

    // --- commands ---

    /// Puts a batch in. True if the queue holds its senders back now.
    pub fn put_batch(&self, batch: Batch) -> bool {
        let mut state = self.lock();
        let messages = batch.entries.len();
        let bytes: usize = batch.entries.iter().map(|entry| entry.length as usize).sum();
        let cost = bytes + messages * ENTRY_BYTES;
        if self.makes_room(&mut state, cost, messages as u64) {
            state.items.push_back(Item { batch, from: 0, cost, gathers: false });
            state.bytes += cost;
        }
        self.finish(state)
    }

    /// Puts in a message of this process, made of `parts`. `shared` holds a copy that its readers share, if it is a
    /// [long one](shared_copy), or once one of them needed it. One with a time to live keeps its own time of arrival.
    pub fn put_record(
        &self,
        parts: &[&[u8]],
        shared: &mut Option<Arc<Vec<u8>>>,
        origin: &Origin,
        arrived: Time,
        expires: bool,
    ) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let cost = length + ENTRY_BYTES;
        let mut state = self.lock();
        if !self.makes_room(&mut state, cost, 1) {
            self.finish(state);
            return;
        }
        state.bytes += cost;
        let gathers = !expires && length <= GATHERED_BYTES_MAX;
        if gathers && let Some(item) = state.items.back_mut().filter(|item| item.takes(origin, length)) {
            item.add(parts, origin, cost);
        } else {
            let whole = if gathers {
                let mut bytes = Vec::with_capacity(length);
                parts.iter().for_each(|part| bytes.extend_from_slice(part));
                Arc::new(bytes)
            } else {
                shared.get_or_insert_with(|| Arc::new(parts.concat())).clone()
            };
            let mut batch = Batch::single(whole, origin, arrived);
            if expires {
                batch.ages = held_by(&batch.bytes).map(|held| Arc::new(vec![(0, held)]));
            }
            state.items.push_back(Item { batch, from: 0, cost, gathers });
        }
        self.finish(state);
    }

    /// Drops what has to be dropped for something that comes. False if that is to be dropped itself.
    fn makes_room(&self, state: &mut State, cost: usize, messages: u64) -> bool {
        if state.closed {
            return false;
        }
        if state.bytes == 0 || state.bytes + cost <= self.bytes_max {
            return true;
        }
        match self.overflow {
            Overflow::Wait => true,
            Overflow::DropNew => {
                state.dropped += messages;
                false
            }
            Overflow::DropOld => {
                while state.bytes + cost > self.bytes_max
                    && let Some(oldest) = state.items.front_mut()
                {
                    let freed = oldest.drop_first();
                    state.bytes -= freed;
                    state.dropped += 1;
                    if state.items.front().is_some_and(Item::is_empty) {
                        state.items.pop_front();
                    }
                }
                true
            }
        }
    }

    /// Has somebody woken when a queue that drops messages becomes nearly full.
    pub fn on_brim(&self, wake: Arc<dyn Wake>) {
        let _ = self.brim.set(wake);
    }

    fn finish(&self, mut state: MutexGuard<'_, State>) -> bool {
        let holds_back = self.overflow == Overflow::Wait && state.bytes >= self.bytes_max && !state.closed;
        let news = !state.items.is_empty() || state.closed;
        let is_new = !state.brims && self.overflow != Overflow::Wait && self.is_above(&state, BRIM_PERCENT);
        state.brims |= is_new;
        drop(state);
        if is_new && let Some(brim) = self.brim.get() {
            brim.wake();
        }
        if news {
            self.wake.wake();
        }
        holds_back
    }

    fn is_above(&self, state: &State, percent: usize) -> bool {
        state.bytes / percent > self.bytes_max / 100
    }

    /// An empty list, with the memory of one that was given back.
    pub fn spare_entries(&self) -> Vec<Entry> {
        self.lock().spares.pop().unwrap_or_default()
    }

    /// Counts a message that its publisher dropped, because the queue was full.
    pub fn count_dropped(&self) {
        self.lock().dropped += 1;
    }

    /// Drops a message that was waited for in vain, and all that follow, until something is taken.
    pub fn give_up(&self) {
        let mut state = self.lock();
        state.lagging = true;
        state.dropped += 1;
    }

    /// Takes what waited longest. `None` if it is closed and empty.
    pub fn take(&self) -> Option<Taken> {
        let mut state = self.lock();
        if state.items.is_empty() && state.closed {
            return None;
        }
        let was_full = state.bytes >= self.bytes_max;
        let (mut batches, mut taken) = (VecDeque::new(), 0);
        while taken < TAKE_BYTES
            && let Some(Item { mut batch, from, cost, .. }) = state.items.pop_front()
        {
            batch.entries.drain(..from);
            batches.push_back(batch);
            taken += cost;
        }
        state.bytes -= taken;
        state.brims &= self.is_above(&state, CLEAR_PERCENT);
        state.lagging = false;
        let made_room = was_full && state.bytes < self.bytes_max;
        Some(Taken { batches, made_room })
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

    /// Takes nothing more in; what is there can still be taken.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.wake();
    }

    /// The same, because the link it came over failed.
    pub fn fail(&self, why: &Arc<str>) {
        let mut state = self.lock();
        if !state.closed {
            state.closed = true;
            state.failure = Some(why.clone());
        }
        drop(state);
        self.wake.wake();
    }
}

impl Item {
    /// Whether a message of this origin may be added.
    fn takes(&self, origin: &Origin, length: usize) -> bool {
        self.gathers
            && self.batch.source.publisher == origin.publisher
            && self.batch.source.chain == origin.chain
            && self.batch.bytes.len() + length <= GATHER_BYTES
    }

    fn add(&mut self, parts: &[&[u8]], origin: &Origin, cost: usize) {
        let bytes = Arc::make_mut(&mut self.batch.bytes);
        let start = bytes.len();
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let entry = Entry::new(start, bytes.len() - start, origin.number, origin.timestamp_us);
        self.batch.entries.push(entry);
        self.cost += cost;
    }

    fn is_empty(&self) -> bool {
        self.from >= self.batch.entries.len()
    }

    /// Drops its oldest message; returns what it cost.
    fn drop_first(&mut self) -> usize {
        let Some(entry) = self.batch.entries.get(self.from) else { return 0 };
        let cost = entry.length as usize + ENTRY_BYTES;
        self.from += 1;
        self.cost -= cost;
        cost
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::wake::Asleep;
    use super::*;

    fn queue(bytes_max: usize, overflow: Overflow) -> Consumer {
        Consumer::new(bytes_max, overflow, Arc::new(Asleep))
    }

    /// Puts in a message of so many bytes, with this number.
    fn put(consumer: &Consumer, number: u64, bytes: usize) {
        let origin = Origin { publisher: 7, chain: 2, number, ..Origin::default() };
        consumer.put_record(&[&vec![number as u8; bytes]], &mut None, &origin, Time::ZERO, false);
    }

    fn numbers(consumer: &Consumer) -> Vec<u64> {
        let taken = consumer.take().unwrap();
        let number = |batch: &Batch| -> Vec<u64> {
            for entry in &batch.entries {
                assert!(batch.record(entry).iter().all(|&byte| byte == entry.number as u8));
            }
            batch.entries.iter().map(|entry| entry.number).collect()
        };
        taken.batches.iter().flat_map(number).collect()
    }

    #[test]
    fn a_full_queue_holds_back_its_senders_until_it_is_taken() {
        let consumer = queue(100, Overflow::Wait);
        put(&consumer, 1, 60);
        assert!(consumer.holds_back());
        assert!(consumer.take().unwrap().made_room);
        assert!(!consumer.holds_back());
        put(&consumer, 2, 60);
        assert_eq!(numbers(&consumer), [2]);
    }

    #[test]
    fn a_reader_that_was_given_up_counts_again_once_it_reads() {
        let consumer = queue(100, Overflow::Wait);
        put(&consumer, 1, 100);
        consumer.give_up();
        assert!(consumer.is_given_up());
        assert_eq!(consumer.dropped(), 1);
        assert_eq!(numbers(&consumer), [1]);
        assert!(!consumer.is_given_up());
    }

    #[test]
    fn a_queue_that_drops_says_once_that_it_is_nearly_full_until_it_has_become_emptier() {
        struct Counted(AtomicUsize);
        impl Wake for Counted {
            fn wake(&self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        for (overflow, told) in [(Overflow::DropOld, 1), (Overflow::DropNew, 1), (Overflow::Wait, 0)] {
            let count = Arc::new(Counted(AtomicUsize::new(0)));
            let consumer = queue(10 * TAKE_BYTES, overflow);
            consumer.on_brim(count.clone());
            for _ in 0..2 {
                (0..7).for_each(|number| put(&consumer, number, TAKE_BYTES));
                assert_eq!(count.0.swap(0, Ordering::SeqCst), 0);
                (7..12).for_each(|number| put(&consumer, number, TAKE_BYTES));
                assert_eq!(count.0.swap(0, Ordering::SeqCst), told, "{overflow:?}");
                consumer.take();
                (12..16).for_each(|number| put(&consumer, number, TAKE_BYTES));
                assert_eq!(count.0.load(Ordering::SeqCst), 0, "it was above 60 percent all the time");
                while consumer.bytes() > 0 {
                    consumer.take();
                }
            }
        }
    }

    #[test]
    fn a_queue_that_drops_keeps_the_newest_or_the_oldest() {
        for (overflow, kept) in [(Overflow::DropNew, [1, 2]), (Overflow::DropOld, [3, 4])] {
            let consumer = queue(2 * ENTRY_BYTES, overflow);
            for number in 1..=4 {
                put(&consumer, number, 0);
            }
            assert_eq!(consumer.dropped(), 2);
            assert_eq!(consumer.pending(), 2);
            assert_eq!(numbers(&consumer), kept);
            assert!(!consumer.holds_back());
        }
    }

    #[test]
    fn small_messages_of_one_chain_are_put_together_and_others_stand_alone() {
        let consumer = queue(1 << 20, Overflow::Wait);
        for number in 1..=3 {
            put(&consumer, number, 10);
        }
        put(&consumer, 4, GATHER_BYTES);
        put(&consumer, 5, 10);
        let origin = Origin { publisher: 7, chain: 3, number: 6, ..Origin::default() };
        consumer.put_record(&[b"\x06"], &mut None, &origin, Time::ZERO, false);
        let counts: Vec<usize> =
            consumer.take().unwrap().batches.iter().map(|batch| batch.entries.len()).collect();
        assert_eq!(counts, [3, 1, 1, 1]);
    }

    #[test]
    fn readers_share_a_large_message() {
        let consumers = [queue(1 << 20, Overflow::Wait), queue(1 << 20, Overflow::Wait)];
        let (origin, mut shared) = (Origin::default(), None);
        for consumer in &consumers {
            consumer.put_record(&[&[1; GATHER_BYTES]], &mut shared, &origin, Time::ZERO, false);
        }
        let [one, two] = consumers.map(|consumer| consumer.take().unwrap().batches.pop_front().unwrap());
        assert!(Arc::ptr_eq(&one.bytes, &two.bytes));
    }

    #[test]
    fn a_reader_makes_room_little_by_little() {
        let consumer = queue(4 * TAKE_BYTES, Overflow::Wait);
        for number in 0..4 {
            put(&consumer, number, TAKE_BYTES);
        }
        assert!(consumer.holds_back());
        assert!(consumer.take().unwrap().made_room);
        assert!(!consumer.holds_back());
        put(&consumer, 4, TAKE_BYTES);
        assert_eq!([0; 4].map(|_| numbers(&consumer)[0]), [1, 2, 3, 4]);
    }

    #[test]
    fn a_closed_queue_gives_what_it_has_and_then_nothing() {
        let consumer = queue(1000, Overflow::Wait);
        put(&consumer, 1, 1);
        consumer.close();
        put(&consumer, 2, 1);
        assert_eq!(numbers(&consumer), [1]);
        assert!(consumer.take().is_none());
        assert_eq!(consumer.failure(), None);
    }

    #[test]
    fn a_queue_whose_link_failed_says_why_once_it_is_empty() {
        let consumer = queue(1000, Overflow::Wait);
        put(&consumer, 1, 1);
        consumer.fail(&Arc::from("the cable is cut"));
        assert_eq!(numbers(&consumer), [1]);
        assert!(consumer.take().is_none());
        assert_eq!(consumer.failure().as_deref(), Some("the cable is cut"));
    }
}
