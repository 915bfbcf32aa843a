//! Waiting until every member has what was published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shoal_norm::NodeId;

use super::chain::LinkId;

/// Names a flush.
pub type FlushId = u64;

/// How far a flush is with one lane of one link.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Step {
    /// So many bytes must have been sent first.
    Send(u64),
    /// Members were asked whether they have them.
    Ask,
    Done,
}

#[derive(Debug)]
struct Flush {
    lanes: BTreeMap<(LinkId, usize), Step>,
    silent: BTreeSet<NodeId>,
    failure: Option<Arc<str>>,
}

/// What became of a flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlushState {
    /// Not everybody has answered.
    Pending,
    /// Everybody has everything but these.
    Done(Vec<NodeId>),
    /// A link failed: why.
    Failed(Arc<str>),
}

/// Everybody who waits.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    flushes: BTreeMap<FlushId, Flush>,
    next: FlushId,
}

impl Flushes {
    /// Starts waiting for so many bytes of each lane of each link.
    pub fn begin(&mut self, lanes: impl IntoIterator<Item = ((LinkId, usize), u64)>) -> FlushId {
        // Of a lane that nothing was published on, everybody has everything.
        let step = |bytes| if bytes == 0 { Step::Done } else { Step::Send(bytes) };
        let lanes = lanes.into_iter().map(|(lane, bytes)| (lane, step(bytes))).collect();
        self.next += 1;
        self.flushes.insert(self.next, Flush { lanes, silent: BTreeSet::new(), failure: None });
        self.next
    }

    /// What became of one. It is forgotten by [`Flushes::end`].
    pub fn state(&self, id: FlushId) -> FlushState {
        let Some(flush) = self.flushes.get(&id) else { return FlushState::Done(Vec::new()) };
        if let Some(why) = &flush.failure {
            return FlushState::Failed(why.clone());
        }
        if flush.lanes.values().all(|&step| step == Step::Done) {
            return FlushState::Done(flush.silent.iter().copied().collect());
        }
        FlushState::Pending
    }

    pub fn end(&mut self, id: FlushId) {
        self.flushes.remove(&id);
    }

    /// Whether a link has something to ask.
    pub fn is_waiting(&self, link: LinkId) -> bool {
        let sends = |(&(of, _), step): (&(LinkId, usize), &Step)| of == link && matches!(step, Step::Send(_));
        self.flushes.values().any(|flush| flush.lanes.iter().any(sends))
    }

    /// Lets a link ask its members about the lanes of which enough was sent; `ask` says whether it did.
    pub fn ask(
        &mut self,
        link: LinkId,
        mut sent: impl FnMut(usize) -> u64,
        mut ask: impl FnMut(usize) -> bool,
    ) {
        for flush in self.flushes.values_mut() {
            for (&(_, lane), step) in flush.lanes.range_mut((link, 0)..=(link, usize::MAX)) {
                if let Step::Send(bytes) = *step
                    && sent(lane) >= bytes
                    && ask(lane)
                {
                    *step = Step::Ask;
                }
            }
        }
    }

    /// The members behind a link answered for a lane, except the silent ones: for all who asked before.
    pub fn answered(&mut self, link: LinkId, lane: usize, silent: &[NodeId]) {
        for flush in self.flushes.values_mut() {
            if let Some(step) = flush.lanes.get_mut(&(link, lane))
                && *step == Step::Ask
            {
                *step = Step::Done;
                flush.silent.extend(silent);
            }
        }
    }

    /// A link is gone. With a reason, whoever waits for it is told.
    pub fn lose(&mut self, link: LinkId, why: Option<&Arc<str>>) {
        for flush in self.flushes.values_mut() {
            for (_, step) in flush.lanes.range_mut((link, 0)..=(link, usize::MAX)) {
                if std::mem::replace(step, Step::Done) != Step::Done {
                    flush.failure = flush.failure.take().or_else(|| why.cloned());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_over_when_every_lane_of_every_link_was_sent_asked_for_and_answered() {
        let mut flushes = Flushes::default();
        let id = flushes.begin([((0, 1), 100), ((0, 2), 0), ((1, 1), 50)]);
        assert!(flushes.is_waiting(0) && flushes.is_waiting(1));
        flushes.ask(0, |_| 99, |_| true);
        flushes.answered(0, 1, &[]);
        assert_eq!(flushes.state(id), FlushState::Pending, "the answer is to an earlier question");
        flushes.ask(0, |_| 100, |_| true);
        assert!(!flushes.is_waiting(0));
        flushes.answered(0, 1, &[7]);
        assert_eq!(flushes.state(id), FlushState::Pending);
        flushes.ask(1, |_| 50, |_| true);
        flushes.answered(1, 1, &[]);
        assert_eq!(flushes.state(id), FlushState::Done(vec![7]));
        flushes.end(id);
        assert!(flushes.flushes.is_empty());
    }

    #[test]
    fn a_link_that_fails_ends_the_flushes_that_wait_for_it_and_one_that_closes_does_not_hold_them() {
        let mut flushes = Flushes::default();
        let [one, two] = [0, 1].map(|link| flushes.begin([((link, 1), 1)]));
        flushes.lose(0, Some(&Arc::from("cut")));
        flushes.lose(1, None);
        assert_eq!(flushes.state(one), FlushState::Failed("cut".into()));
        assert_eq!(flushes.state(two), FlushState::Done(vec![]));
    }
}
