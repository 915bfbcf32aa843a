//! What a node counts of the messages that it handles: totals that only grow, for each link and lane.
//!
//! Messages come from a place and go to places. A place is a link, or *here*: the programs of this process. A row of counters is of
//! one place in one lane. Reading counts a chunk of bytes in plain numbers and adds them to the link's row when the chunk is done, so
//! that a message costs neither a lock nor an atomic operation. Publishing counts under its chain's lock, which it holds anyway.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use shoal_norm::NodeId;

/// Totals since the place was opened.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Messages that came from there; of *here*, those that were published.
    pub received: u64,
    /// Filters looked at for them.
    pub evaluated: u64,
    /// Those of them that a subscription wanted, here or behind a link.
    pub matched: u64,
    /// Copies that went there: one for each message over a link; of *here*, one for each queue.
    pub delivered: u64,
    /// Messages published here that did not go there, because no subscription there wants them; of *here*, those that no
    /// subscription at all wants.
    pub dropped_at_source: u64,
    /// Bytes that came from there.
    pub bytes_in: u64,
    /// Bytes that went there.
    pub bytes_out: u64,
}

impl Load {
    /// Every counter with its name.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("received", self.received),
            ("evaluated", self.evaluated),
            ("matched", self.matched),
            ("delivered", self.delivered),
            ("dropped_at_source", self.dropped_at_source),
            ("bytes_in", self.bytes_in),
            ("bytes_out", self.bytes_out),
        ]
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Load) {
        self.received += other.received;
        self.evaluated += other.evaluated;
        self.matched += other.matched;
        self.delivered += other.delivered;
        self.dropped_at_source += other.dropped_at_source;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }
}

/// Where messages come from and go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadPlace {
    /// The programs of this process.
    Here,
    /// A link: its number, its kind, and the node at its other end, if there is one alone.
    Link(usize, String, Option<NodeId>),
    /// All links that are closed.
    Closed,
}

/// The counters of a place in a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadRow {
    /// Which place.
    pub place: LoadPlace,
    /// Which lane.
    pub lane: usize,
    /// What was counted.
    pub load: Load,
}

/// What one chunk of a source's bytes added.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Tally {
    pub received: u64,
    pub matched: u64,
    /// Copies for queues of this process, and their bytes.
    pub delivered: u64,
    pub bytes_delivered: u64,
}

/// What came over a link in a lane. One thread at a time adds to it; any may read.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    received: AtomicU64,
    evaluated: AtomicU64,
    matched: AtomicU64,
    bytes: AtomicU64,
}

impl Arrivals {
    #[inline]
    pub fn add(&self, tally: &Tally, evaluated: u64, bytes: u64) {
        // The link's driver is the only writer, so that nothing is lost between reading and writing.
        let add = |counter: &AtomicU64, more: u64| {
            counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        add(&self.received, tally.received);
        add(&self.evaluated, evaluated);
        add(&self.matched, tally.matched);
        add(&self.bytes, bytes);
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub fn load(&self) -> Load {
        Load {
            received: self.received(),
            evaluated: self.evaluated.load(Ordering::Relaxed),
            matched: self.matched.load(Ordering::Relaxed),
            bytes_in: self.bytes.load(Ordering::Relaxed),
            ..Load::default()
        }
    }
}

/// What went from links into queues of this process, in a lane. Any thread may add.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    delivered: AtomicU64,
    bytes: AtomicU64,
}

impl Departures {
    #[inline]
    pub fn add(&self, tally: &Tally) {
        if tally.delivered > 0 {
            self.delivered.fetch_add(tally.delivered, Ordering::Relaxed);
            self.bytes.fetch_add(tally.bytes_delivered, Ordering::Relaxed);
        }
    }

    pub fn load(&self) -> Load {
        Load {
            delivered: self.delivered.load(Ordering::Relaxed),
            bytes_out: self.bytes.load(Ordering::Relaxed),
            ..Load::default()
        }
    }
}
