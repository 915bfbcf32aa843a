//! What readers with a name, queues and subscriptions, have behind them: which offsets they are done with, which messages
//! were given out before, and which were granted to whom. Everything else of a reader is made from this and from the log.

use std::collections::BTreeMap;
use std::ops::Range;

use shoal_norm::Runs;

use crate::deliveries::{Deliveries, Delivery, Grants};
use crate::state::Change;

/// One reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reader {
    /// Offsets that are acknowledged, or are of no concern to it.
    pub done: Runs,
    /// How often messages that are not done were given out, and when again at the earliest.
    pub delivered: Deliveries,
    /// Under which lease a consumer was granted messages that are not done: its program may have received them.
    pub granted: Grants,
    /// Messages and bytes that came.
    pub came: (u64, u64),
    /// Messages and bytes that are done.
    pub gone: (u64, u64),
}

impl Reader {
    /// The first offset that is not done.
    pub fn base(&self) -> u64 {
        self.done.run_of(0).map_or(0, |run| run.end)
    }
}

/// All of them, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    readers: BTreeMap<String, Reader>,
    /// Bytes of all deliveries and grants in a checkpoint.
    delivered_bytes: usize,
    /// Runs of offsets that readers are done with.
    done_runs: usize,
}

/// Bytes of a run of offsets that a reader is done with, in a checkpoint.
const DONE_BYTES: usize = 16;

/// Bytes of a run of deliveries or grants in a checkpoint, at the most.
fn delivery_bytes(name: &str) -> usize {
    name.len() + 31
}

impl Reader {
    /// How many runs of deliveries and grants there are.
    fn delivery_runs(&self) -> usize {
        self.delivered.runs() + self.granted.runs()
    }

    /// Forgets who was granted the older half, or else how often the older half was given out: a program may have received
    /// those messages.
    fn halve(&mut self) {
        if let Some(older) = self.granted.older_half() {
            self.granted.remove(older.clone());
            self.delivered.set(older, Delivery::default());
        } else if let Some(older) = self.delivered.older_half() {
            self.delivered.set(older, Delivery::default());
        }
    }
}

impl Readers {
    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Reader> {
        self.readers.get(name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Reader)> {
        self.readers.iter().map(|(name, reader)| (name.as_str(), reader))
    }

    fn reader(&mut self, name: &str) -> &mut Reader {
        self.readers.entry(name.to_owned()).or_default()
    }

    pub(crate) fn done(&mut self, name: &str, messages: u64, bytes: u64, runs: &[(u64, u64)]) {
        let reader = self.reader(name);
        let before = reader.done.runs();
        for &(first, end) in runs {
            reader.done.insert(first..end);
        }
        let after = reader.done.runs();
        reader.gone = (reader.gone.0 + messages, reader.gone.1 + bytes);
        self.done_runs = self.done_runs + after - before;
        self.deliver(name, |reader| {
            for &(first, end) in runs {
                reader.delivered.remove(first..end);
                reader.granted.remove(first..end);
            }
        });
    }

    pub(crate) fn came(&mut self, name: &str, messages: u64, bytes: u64) {
        let reader = self.reader(name);
        reader.came = (reader.came.0 + messages, reader.came.1 + bytes);
    }

    pub(crate) fn delivered(&mut self, name: &str, range: Range<u64>, delivery: Delivery) {
        self.deliver(name, |reader| reader.delivered.set(range, delivery));
    }

    pub(crate) fn granted(&mut self, name: &str, range: Range<u64>, lease: u64) {
        self.deliver(name, |reader| reader.granted.set(range, lease));
    }

    pub(crate) fn revoked(&mut self, name: &str, range: Range<u64>) {
        self.deliver(name, |reader| reader.granted.remove(range));
    }

    pub(crate) fn lease_over(&mut self, name: &str, lease: u64) {
        self.deliver(name, |reader| reader.granted.remove_value(lease));
    }

    fn deliver(&mut self, name: &str, change: impl FnOnce(&mut Reader)) {
        let reader = self.reader(name);
        let before = reader.delivery_runs();
        change(reader);
        let after = reader.delivery_runs();
        self.delivered_bytes =
            self.delivered_bytes + after * delivery_bytes(name) - before * delivery_bytes(name);
    }

    pub(crate) fn forget(&mut self, name: &str) {
        self.done_runs -= self.get(name).map_or(0, |reader| reader.done.runs());
        self.deliver(name, |reader| *reader = Reader::default());
        self.readers.remove(name);
    }

    /// While deliveries and grants take more, the reader whose take the most forgets about the older half.
    pub(crate) fn bound_deliveries(&mut self, bytes_max: usize) {
        while self.delivered_bytes > bytes_max {
            let bytes = |(name, reader): &(&String, &Reader)| reader.delivery_runs() * delivery_bytes(name);
            let most = self.readers.iter().max_by_key(bytes);
            let Some(name) = most.filter(|(_, reader)| reader.delivery_runs() > 2) else { return };
            let name = name.0.clone();
            self.deliver(&name, Reader::halve);
        }
    }

    /// What came and went is told as a difference, in a checkpoint as the whole.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        self.readers.iter().flat_map(|(name, reader)| {
            let runs = reader.done.iter().map(|run| (run.start, run.end)).collect();
            let came = Change::Came(name.clone(), reader.came.0, reader.came.1);
            let done = Change::Done(name.clone(), reader.gone.0, reader.gone.1, runs);
            let delivered = reader
                .delivered
                .iter()
                .map(|(run, delivery)| Change::Delivered(name.clone(), run.start, run.end, delivery));
            let granted = reader
                .granted
                .iter()
                .map(|(run, lease)| Change::Granted(name.clone(), run.start, run.end, lease));
            [came, done].into_iter().chain(delivered).chain(granted)
        })
    }

    /// Bytes that the offsets take in a checkpoint which readers are done with.
    pub fn done_bytes(&self) -> usize {
        self.done_runs * DONE_BYTES
    }

    pub(crate) fn bytes(&self) -> usize {
        let names: usize = self.readers.keys().map(|name| 2 * (name.len() + 32)).sum();
        names + self.done_bytes() + self.delivered_bytes
    }
}
