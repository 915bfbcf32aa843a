//! One other node, as far as it was heard.

use std::time::Duration;

use shoal_norm::{Chunk, NodeId, Time};

use crate::hub::{Fed, Lost, Port, Source, SourceId, Told};
use crate::interest::{AnnouncedInterest, InterestBounds};

/// What is kept of what one node wants.
const INTEREST_BYTES_MAX: usize = 1 << 20;

/// A lane of its.
#[derive(Copy, Clone, Debug)]
struct InLane {
    source: SourceId,
    /// The place that should come next.
    next: u64,
}

/// Somebody who was heard.
pub(super) struct Peer {
    pub node: NodeId,
    pub heard_at: Time,
    /// After so much silence it is taken for dead.
    pub silence: Duration,
    pub announced: AnnouncedInterest,
    lanes: Vec<Option<InLane>>,
}

/// What became of a piece of a lane.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Fed,
    /// It came late, or twice.
    Old,
    /// Nothing in it can be read without what was before.
    Useless,
    /// A queue is full.
    Full,
    /// It cannot be read.
    Broken,
}

impl Peer {
    pub fn new(now: Time, node: NodeId, lanes: usize, silence: Duration) -> Peer {
        Peer {
            node,
            heard_at: now,
            silence,
            announced: AnnouncedInterest::new(InterestBounds { bytes_max: INTEREST_BYTES_MAX }),
            lanes: vec![None; lanes],
        }
    }

    /// Feeds a piece of a lane, as far as it can be read.
    pub fn feed(
        &mut self,
        now: Time,
        port: &mut Port,
        (publisher, lane): (u64, usize),
        (place, first): (u64, Option<usize>),
        bytes: &[u8],
    ) -> Outcome {
        let Some(known) = self.lanes.get_mut(lane).filter(|_| lane > 0) else { return Outcome::Broken };
        let source = Source { publisher, chain: lane as u32, node: self.node };
        let is_new = known.is_none();
        let known = known.get_or_insert_with(|| InLane { source: port.open_source(source), next: 0 });
        if !is_new && place < known.next {
            return Outcome::Old;
        }
        let whole = !is_new && place == known.next;
        let Some(skip) = first.filter(|_| !whole).or(whole.then_some(0)) else { return Outcome::Useless };
        let mut lost = Vec::new();
        let chunk = Chunk { bytes: &bytes[skip..], fresh: !whole };
        let fed = port.feed(now, known.source, chunk, |told| {
            if let Told::Lost(_, first, last) = told {
                lost.push((first, last));
            }
        });
        for (first, last) in lost {
            let (node, chain) = (self.node, lane as u32);
            port.tell_lost(Lost { node, publisher, chain, first, last, segments: 0 });
        }
        if fed != Fed::Held {
            known.next = place + bytes.len() as u64;
        }
        match fed {
            Fed::All => Outcome::Fed,
            Fed::Held => Outcome::Full,
            Fed::Broken => Outcome::Broken,
        }
    }

    /// Ends what came of it.
    pub fn close(&mut self, now: Time, port: &mut Port) {
        for lane in self.lanes.drain(..).flatten() {
            port.close_source(now, lane.source);
        }
    }
}
