//! Waiting until every member has what was published, and until every router behind them knows what we want.
//!
//! A neighbour that is a router acknowledged that it has everything; whether those behind it have, it is asked. It begins to wait
//! in the same way for its other neighbours, and answers when they have.
//!
//! Every question names whose it was at first. As long as routers do not agree on the tree yet it may come round in a circle: whoever
//! waits for it already answers at once, because each link is waited for by whoever asked over it first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shoal_norm::NodeId;
use shoal_wire::About;

use super::chain::LinkId;

/// Questions of others that are waited for; of more, the oldest are not answered.
const ASKED_MAX: usize = 4096;

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

/// A router next to us: over which link, and who.
pub(super) type Router = (LinkId, u64);

/// Whose question it was at first: a publisher, and its number.
pub(super) type Origin = (u64, u64);

/// Who asked us.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    pub router: Router,
    /// Which question of its.
    pub number: u64,
    pub origin: Origin,
}

/// What is known of a question that was heard.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    New,
    /// It was said again; its answer follows.
    Again,
    /// It came another way, too: there is a circle.
    Elsewhere,
}

#[derive(Debug)]
struct Flush {
    about: About,
    lanes: BTreeMap<(LinkId, usize), Step>,
    /// Routers that have not answered, their node ids, and whether they were asked.
    routers: BTreeMap<Router, (NodeId, bool)>,
    asker: Option<Asker>,
    silent: BTreeSet<NodeId>,
    failure: Option<Arc<str>>,
}

impl Flush {
    fn is_over(&self) -> bool {
        self.failure.is_some()
            || self.routers.is_empty() && self.lanes.values().all(|&step| step == Step::Done)
    }

    fn is_acknowledged(&self, link: LinkId) -> bool {
        self.lanes.range((link, 0)..=(link, usize::MAX)).all(|(_, &step)| step == Step::Done)
    }
}

/// What is to be said to a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Saying {
    /// A question of ours, and whose it was at first, if not ours.
    Ask(FlushId, About, Option<Origin>),
    /// The answer to its question: its number, and who was silent.
    Answer(u64, Vec<NodeId>),
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
    /// Starts waiting for so many bytes of each lane of each link, and for the routers behind them. `asker` is who asked for it,
    /// if not our own program.
    pub fn begin(
        &mut self,
        about: About,
        lanes: impl IntoIterator<Item = ((LinkId, usize), u64)>,
        routers: impl IntoIterator<Item = (Router, NodeId)>,
        asker: Option<Asker>,
    ) -> FlushId {
        // Of a lane that nothing was published on, everybody has everything.
        let step = |bytes| if bytes == 0 { Step::Done } else { Step::Send(bytes) };
        let lanes = lanes.into_iter().map(|(lane, bytes)| (lane, step(bytes))).collect();
        self.next += 1;
        let routers = routers.into_iter().map(|(router, node)| (router, (node, false))).collect();
        let silent = BTreeSet::new();
        if self.flushes.len() >= ASKED_MAX && asker.is_some() {
            // Whoever asks so often does not wait for the first any more.
            let oldest = self.flushes.iter().find(|(_, flush)| flush.asker.is_some()).map(|(&id, _)| id);
            oldest.map(|id| self.flushes.remove(&id));
        }
        self.flushes.insert(self.next, Flush { about, lanes, routers, asker, silent, failure: None });
        self.next
    }

    /// What is to be said now, and to whom.
    pub fn poll(&mut self) -> Vec<(Router, Saying)> {
        let mut said = Vec::new();
        for (&id, flush) in &mut self.flushes {
            let ready: Vec<Router> = flush
                .routers
                .iter()
                .filter(|(router, (_, asked))| !asked && flush.is_acknowledged(router.0))
                .map(|(&router, _)| router)
                .collect();
            for router in ready {
                if let Some((_, asked)) = flush.routers.get_mut(&router) {
                    *asked = true;
                    said.push((router, Saying::Ask(id, flush.about, flush.asker.map(|asker| asker.origin))));
                }
            }
            if let Some(Asker { router, number, .. }) = flush.asker.filter(|_| flush.is_over()) {
                said.push((router, Saying::Answer(number, flush.silent.iter().copied().collect())));
            }
        }
        self.flushes.retain(|_, flush| flush.asker.is_none() || !flush.is_over());
        said
    }

    /// What is known of a question.
    pub fn find(&self, asker: &Asker) -> Heard {
        let known = |flush: &Flush| flush.asker.filter(|known| known.origin == asker.origin);
        self.flushes.values().filter_map(known).fold(Heard::New, |heard, known| match known == *asker {
            true => Heard::Again,
            false if heard == Heard::New => Heard::Elsewhere,
            false => heard,
        })
    }

    /// Whether routers on a link were asked and have not answered.
    pub fn is_asking(&self, link: LinkId) -> bool {
        self.flushes.values().any(|flush| {
            flush.routers.range((link, 0)..=(link, u64::MAX)).any(|(_, (_, is_asked))| *is_asked)
        })
    }

    /// Questions or answers may have been lost on a link: those who have not answered are asked again.
    pub fn ask_again(&mut self, link: LinkId) {
        for flush in self.flushes.values_mut() {
            let routers = flush.routers.range_mut((link, 0)..=(link, u64::MAX));
            routers.for_each(|(_, (_, is_asked))| *is_asked = false);
        }
    }

    /// Routers that are waited for.
    pub fn awaited(&self, id: FlushId) -> Vec<NodeId> {
        let flush = self.flushes.get(&id);
        flush.map_or_else(Vec::new, |flush| flush.routers.values().map(|(node, _)| *node).collect())
    }

    /// A router answered for those behind it.
    pub fn hear(&mut self, id: FlushId, router: Router, silent: &[NodeId]) {
        if let Some(flush) = self.flushes.get_mut(&id)
            && flush.routers.get(&router).is_some_and(|(_, asked)| *asked)
        {
            flush.routers.remove(&router);
            flush.silent.extend(silent);
        }
    }

    /// Routers that are on a link no longer answer nothing: nobody knows what those behind them have.
    pub fn keep_routers(&mut self, link: LinkId, stays: impl Fn(u64) -> bool) {
        for flush in self.flushes.values_mut() {
            let Flush { routers, silent, .. } = flush;
            routers.retain(|router, (node, _)| {
                let keeps = router.0 != link || stays(router.1);
                if !keeps {
                    silent.insert(*node);
                }
                keeps
            });
        }
    }

    /// What became of one. It is forgotten by [`Flushes::end`].
    pub fn state(&self, id: FlushId) -> FlushState {
        let Some(flush) = self.flushes.get(&id) else { return FlushState::Done(Vec::new()) };
        if let Some(why) = &flush.failure {
            return FlushState::Failed(why.clone());
        }
        if flush.is_over() {
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
        self.keep_routers(link, |_| false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_over_when_every_lane_of_every_link_was_sent_asked_for_and_answered() {
        let mut flushes = Flushes::default();
        let id = flushes.begin(About::Messages, [((0, 1), 100), ((0, 2), 0), ((1, 1), 50)], [], None);
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
        let [one, two] = [0, 1].map(|link| flushes.begin(About::Messages, [((link, 1), 1)], [], None));
        flushes.lose(0, Some(&Arc::from("cut")));
        flushes.lose(1, None);
        assert_eq!(flushes.state(one), FlushState::Failed("cut".into()));
        assert_eq!(flushes.state(two), FlushState::Done(vec![]));
    }

    #[test]
    fn a_router_is_asked_once_it_has_everything_and_those_behind_it_count() {
        let mut flushes = Flushes::default();
        let id = flushes.begin(About::Messages, [((0, 1), 10)], [((0, 77), 7), ((0, 88), 8)], None);
        assert_eq!(flushes.poll(), []);
        flushes.ask(0, |_| 10, |_| true);
        flushes.answered(0, 1, &[]);
        let asks = |router| ((0, router), Saying::Ask(id, About::Messages, None));
        assert_eq!(flushes.poll(), [asks(77), asks(88)]);
        assert_eq!(flushes.poll(), [], "once");
        flushes.hear(id, (0, 77), &[70]);
        assert_eq!(flushes.state(id), FlushState::Pending);
        flushes.keep_routers(0, |router| router == 77);
        assert_eq!(flushes.state(id), FlushState::Done(vec![8, 70]), "one that is gone has not answered");
    }

    #[test]
    fn a_question_is_answered_when_all_behind_us_have_and_forgotten() {
        let mut flushes = Flushes::default();
        let asker = |number| Some(Asker { router: (0, 77), number, origin: (55, 3) });
        let asked = flushes.begin(About::Interest, [], [((1, 99), 9)], asker(5));
        assert_eq!(flushes.poll(), [((1, 99), Saying::Ask(asked, About::Interest, Some((55, 3))))]);
        flushes.hear(asked, (1, 99), &[]);
        assert_eq!(flushes.poll(), [((0, 77), Saying::Answer(5, vec![]))]);
        assert!(flushes.flushes.is_empty());
        flushes.begin(About::Interest, [], [], asker(6));
        assert_eq!(flushes.poll(), [((0, 77), Saying::Answer(6, vec![]))], "nobody is behind us");
    }

    #[test]
    fn a_question_that_comes_again_is_known_and_so_is_one_that_came_round() {
        let mut flushes = Flushes::default();
        let asker = Asker { router: (0, 77), number: 5, origin: (55, 3) };
        assert_eq!(flushes.find(&asker), Heard::New);
        flushes.begin(About::Messages, [], [((1, 99), 9)], Some(asker));
        assert_eq!(flushes.find(&asker), Heard::Again);
        assert_eq!(flushes.find(&Asker { router: (1, 88), ..asker }), Heard::Elsewhere);
        assert_eq!(flushes.find(&Asker { origin: (55, 4), ..asker }), Heard::New);
    }

    #[test]
    fn whoever_has_not_answered_is_asked_again() {
        let mut flushes = Flushes::default();
        let id = flushes.begin(About::Messages, [], [((0, 77), 7), ((1, 88), 8)], None);
        assert_eq!(flushes.poll().len(), 2);
        flushes.hear(id, (1, 88), &[]);
        assert!(flushes.is_asking(0) && !flushes.is_asking(1));
        assert_eq!(flushes.awaited(id), [7]);
        flushes.ask_again(1);
        assert_eq!(flushes.poll(), []);
        flushes.ask_again(0);
        assert_eq!(flushes.poll(), [((0, 77), Saying::Ask(id, About::Messages, None))]);
    }
}
