//! What readers with a name, queues and subscriptions, have behind them: which offsets they are done with, and which
//! messages were given out before. Everything else of a reader is made from this and from the log.

use std::collections::BTreeMap;
use std::ops::Range;

use shoal_norm::Runs;

use crate::deliveries::{Deliveries, Delivery};
use crate::state::Change;

/// One reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reader {
    /// Offsets that are acknowledged, or are of no concern to it.
    pub done: Runs,
    /// How often messages that are not done were given out, and when again at the earliest.
    pub delivered: Deliveries,
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
    /// Bytes of all deliveries in a checkpoint.
    delivered_bytes: usize,
}

/// Bytes of a run of deliveries in a checkpoint.
fn delivery_bytes(name: &str) -> usize {
    name.len() + 31
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
        for &(first, end) in runs {
            reader.done.insert(first..end);
        }
        reader.gone = (reader.gone.0 + messages, reader.gone.1 + bytes);
        self.deliver(name, |delivered| runs.iter().for_each(|&(first, end)| delivered.remove(first..end)));
    }

    pub(crate) fn came(&mut self, name: &str, messages: u64, bytes: u64) {
        let reader = self.reader(name);
        reader.came = (reader.came.0 + messages, reader.came.1 + bytes);
    }

    pub(crate) fn delivered(&mut self, name: &str, range: Range<u64>, delivery: Delivery) {
        self.deliver(name, |delivered| delivered.set(range, delivery));
    }

    fn deliver(&mut self, name: &str, change: impl FnOnce(&mut Deliveries)) {
        let delivered = &mut self.reader(name).delivered;
        let before = delivered.runs();
        change(delivered);
        let after = delivered.runs();
        self.delivered_bytes =
            self.delivered_bytes + after * delivery_bytes(name) - before * delivery_bytes(name);
    }

    pub(crate) fn forget(&mut self, name: &str) {
        self.deliver(name, |delivered| *delivered = Deliveries::default());
        self.readers.remove(name);
    }

    /// While deliveries take more, the reader whose take the most forgets the counts of the older half.
    pub(crate) fn bound_deliveries(&mut self, bytes_max: usize) {
        while self.delivered_bytes > bytes_max {
            let bytes = |(name, reader): &(&String, &Reader)| reader.delivered.runs() * delivery_bytes(name);
            let most =
                self.readers.iter().max_by_key(bytes).filter(|(_, reader)| reader.delivered.runs() > 1);
            let Some(name) = most.map(|(name, _)| name.clone()) else { return };
            self.deliver(&name, Deliveries::halve);
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
            [came, done].into_iter().chain(delivered)
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        let one = |(name, reader): (&String, &Reader)| 2 * (name.len() + 32) + reader.done.runs() * 16;
        self.readers.iter().map(one).sum::<usize>() + self.delivered_bytes
    }
}
