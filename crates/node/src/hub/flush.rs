//! Waiting until every member has what was published, and until every router behind them knows what we want.
//!
//! A neighbour that is a router acknowledged that it has everything; whether those behind it have, it is asked. It begins to wait
//! in the same way for its other neighbours, and answers when they have.
//!
//! Every question names whose it was at first. As long as routers do not agree on the tree yet it may come round in a circle: whoever
//! waits for it already answers at once, because each link is waited for by whoever asked over it first.
//!
//! If a way changes meanwhile, somebody may be behind a router now that was not asked for it, or that answered before. Whoever waited for a
//! link that rests now, or is broken, says so in its answer, and whoever asked at first asks everybody once more. What is said of links
//! goes ahead of questions and answers, so all whom a question reaches know of the change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use shoal_norm::{NodeId, Time};
use shoal_wire::{About, Answer, Loser};

use super::chain::LinkId;

/// Questions of others that are waited for; of more, the oldest are not answered.
const ASKED_MAX: usize = 4096;

/// So many are named that are waited for.
const NAMED_MAX: usize = 256;

/// Restarts of a flush without a pause. While paths still change, later ones come with the repeated questions.
const ATTEMPTS_MAX: u32 = 32;

/// A flush names a router that failed so recently: what it had not forwarded is no older in the replay rings.
const FAILED_FOR: Duration = Duration::from_secs(30);

/// Stands among the lanes of a multicast link for what we announced there that we want: members acknowledge it.
pub const INTEREST_LANE: usize = 1 << 16;

/// Names a flush.
pub type FlushId = u64;

/// How far a flush is with one lane of one link.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Step {
    /// So many bytes must have been sent first, or so many changes of what we want.
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
    /// Those among them that are none: whoever goes without an answer is not missed.
    leaves: BTreeSet<Router>,
    /// Whom routers wait for that have not answered, as far as they said.
    behind: BTreeMap<Router, Vec<NodeId>>,
    asker: Option<Asker>,
    silent: BTreeSet<NodeId>,
    /// Those behind routers that lost something for good: of which chain, and the last number.
    losers: BTreeMap<(NodeId, u32), u64>,
    failure: Option<Arc<str>>,
    /// The number under which routers are asked.
    question: u64,
    /// A way changed since routers were asked; and how often that was so before.
    is_stale: bool,
    attempts: u32,
    /// The last number of each chain when it began, if it is about them and our own program asked.
    published: Vec<u64>,
    /// What was told when it began, and whether it was asked who lost something: a store that flushes for itself does not ask.
    told: Vec<u64>,
    tells: bool,
}

impl Flush {
    /// Whether nobody is waited for.
    fn is_settled(&self) -> bool {
        self.failure.is_some()
            || self.routers.is_empty() && self.lanes.values().all(|&step| step == Step::Done)
    }

    fn is_over(&self) -> bool {
        self.is_settled() && !self.is_unsettled()
    }

    /// Whether paths changed since the routers were asked, so that their answers confirm nothing. A router that was asked
    /// says so in its own answer.
    fn is_unsettled(&self) -> bool {
        self.is_stale && self.asker.is_none() && self.failure.is_none()
    }

    /// Whether every router is to be asked once more, now.
    fn is_to_restart(&self) -> bool {
        self.is_settled() && self.is_unsettled() && self.attempts < ATTEMPTS_MAX
    }

    /// Whether every router is to be asked once more when questions are repeated.
    fn is_postponed(&self) -> bool {
        self.is_settled() && self.is_unsettled() && self.attempts >= ATTEMPTS_MAX
    }

    /// Whether something on a link is waited for.
    fn waits_for(&self, link: LinkId) -> bool {
        !self.is_acknowledged(link) || self.routers.range((link, 0)..=(link, u64::MAX)).next().is_some()
    }

    /// Whether it concerns a link: whoever asked for it did so over another one.
    fn goes_over(&self, link: LinkId) -> bool {
        self.asker.is_none_or(|asker| asker.router.0 != link)
    }

    fn add_loser(&mut self, loser: Loser) {
        let last = self.losers.entry((loser.node, loser.chain)).or_default();
        *last = loser.number.max(*last);
    }

    fn losers(&self) -> impl Iterator<Item = Loser> {
        self.losers.iter().map(|(&(node, chain), &number)| Loser { node, chain, number })
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
    /// The answer to its question: its number, who was silent, whether a way changed meanwhile, and who lost something for good.
    Answer(u64, Vec<NodeId>, bool, Vec<Loser>),
}

/// A router next to us that failed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub at: Time,
    /// Who it was.
    pub publisher: u64,
    /// Messages of ours were not confirmed then, and no flush of ours has named it yet.
    pub is_ours: bool,
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
    /// So many of the messages that we published are known to be with everybody.
    confirmed: u64,
    /// Up to which numbers of each chain our programs were told who lost some of them.
    told: Vec<u64>,
    /// Routers next to us that failed a short time ago.
    failed: BTreeMap<NodeId, Failed>,
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
        let (leaves, silent) = (BTreeSet::new(), BTreeSet::new());
        if self.flushes.len() >= ASKED_MAX && asker.is_some() {
            // Whoever asks so often does not wait for the first any more.
            let oldest = self.flushes.iter().find(|(_, flush)| flush.asker.is_some()).map(|(&id, _)| id);
            oldest.map(|id| self.flushes.remove(&id));
        }
        let flush = Flush {
            about,
            lanes,
            routers,
            leaves,
            behind: BTreeMap::new(),
            asker,
            silent,
            losers: BTreeMap::new(),
            failure: None,
            question: self.next,
            is_stale: false,
            attempts: 0,
            published: Vec::new(),
            told: self.told.clone(),
            tells: false,
        };
        self.flushes.insert(self.next, flush);
        self.next
    }

    /// One of our own programs waits for what was published up to these numbers, chain by chain. A router that failed with
    /// some of it may not have forwarded it: it is named.
    pub fn set_published(&mut self, id: FlushId, published: Vec<u64>) {
        if let Some(flush) = self.flushes.get_mut(&id) {
            flush.published = published;
            flush
                .silent
                .extend(self.failed.iter().filter(|(_, failed)| failed.is_ours).map(|(node, _)| node));
        }
    }

    /// A router next to us failed. A flush that waits for it names it already.
    pub fn note_failed(&mut self, router: NodeId, failed: Failed) {
        if self.failed.len() < NAMED_MAX {
            self.failed.insert(router, failed);
        }
    }

    /// Routers next to us that failed a short time ago, and who they were.
    pub fn failed(&self) -> Vec<(NodeId, u64)> {
        self.failed.iter().map(|(&node, failed)| (node, failed.publisher)).collect()
    }

    /// Forgets routers that failed long ago.
    pub fn forget_failed(&mut self, now: Time) {
        self.failed.retain(|_, failed| now < failed.at + FAILED_FOR);
    }

    /// So many of the messages that we published are known to be with everybody.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Flushes of our own programs that are to be begun anew, because ways changed.
    pub fn to_restart(&self) -> Vec<(FlushId, About)> {
        let stale = self.flushes.iter().filter(|(_, flush)| flush.is_to_restart());
        stale.map(|(&id, flush)| (id, flush.about)).collect()
    }

    /// Begins one anew with what is waited for now. Whoever did not answer is still named.
    pub fn restart(
        &mut self,
        id: FlushId,
        lanes: impl IntoIterator<Item = ((LinkId, usize), u64)>,
        routers: impl IntoIterator<Item = (Router, NodeId)>,
    ) {
        self.next += 1;
        let question = self.next;
        if let Some(flush) = self.flushes.get_mut(&id) {
            let step = |bytes| if bytes == 0 { Step::Done } else { Step::Send(bytes) };
            flush.lanes = lanes.into_iter().map(|(lane, bytes)| (lane, step(bytes))).collect();
            flush.routers = routers.into_iter().map(|(router, node)| (router, (node, false))).collect();
            (flush.question, flush.is_stale) = (question, false);
            flush.behind.clear();
            flush.attempts += 1;
        }
    }

    /// A link is not used any more: what was waited for there may be on another way.
    pub fn note_resting(&mut self, link: LinkId) {
        for flush in self.flushes.values_mut() {
            flush.is_stale |= flush.waits_for(link);
            // It is not taken up after all.
            flush.lanes.remove(&(link, 0));
        }
    }

    /// A question came over a link that is not used: the answer is that whoever asked at first should ask again.
    pub fn begin_stale(&mut self, about: About, asker: Asker) {
        let id = self.begin(about, [], [], Some(asker));
        if let Some(flush) = self.flushes.get_mut(&id) {
            flush.is_stale = true;
        }
    }

    /// Waits for neighbours, too, that are no routers, behind whom nobody is.
    pub fn add_leaves(&mut self, id: FlushId, leaves: impl IntoIterator<Item = (Router, NodeId)>) {
        if let Some(flush) = self.flushes.get_mut(&id) {
            for (leaf, node) in leaves {
                flush.routers.insert(leaf, (node, false));
                flush.leaves.insert(leaf);
            }
        }
    }

    /// Questions of others that are over: whose each was at first, and over which link it came.
    pub fn over(&self) -> Vec<(FlushId, Origin, LinkId)> {
        let over = self.flushes.iter().filter(|(_, flush)| flush.is_over());
        over.filter_map(|(&id, flush)| flush.asker.map(|asker| (id, asker.origin, asker.router.0))).collect()
    }

    /// What is to be said now, and to whom. Those that are over are answered with who `lost` something, and, about messages, with those
    /// who are `missed`.
    pub fn poll(&mut self, lost: &BTreeMap<FlushId, Vec<Loser>>, missed: &[NodeId]) -> Vec<(Router, Saying)> {
        let mut said = Vec::new();
        for (number, flush) in &mut self.flushes {
            let id = flush.question;
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
            if let (Some(Asker { router, number, .. }), Some(lost)) = (flush.asker, lost.get(number)) {
                lost.iter().for_each(|&loser| flush.add_loser(loser));
                if flush.about == About::Messages {
                    flush.silent.extend(missed);
                }
                let silent = flush.silent.iter().copied().collect();
                said.push((router, Saying::Answer(number, silent, flush.is_stale, flush.losers().collect())));
            }
        }
        self.flushes.retain(|number, _| !lost.contains_key(number));
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

    /// Whether routers on a link were asked and have not answered, or are to be asked once more.
    pub fn is_asking(&self, link: LinkId) -> bool {
        self.flushes.values().any(|flush| {
            let mut routers = flush.routers.range((link, 0)..=(link, u64::MAX));
            routers.any(|(_, (_, is_asked))| *is_asked) || flush.is_postponed()
        })
    }

    /// Questions or answers may have been lost on a link: those who have not answered are asked again. So is everybody for a flush
    /// during which paths kept changing.
    pub fn ask_again(&mut self, link: LinkId) {
        for flush in self.flushes.values_mut() {
            if flush.is_postponed() {
                flush.attempts = 0;
            }
            let routers = flush.routers.range_mut((link, 0)..=(link, u64::MAX));
            routers.for_each(|(_, (_, is_asked))| *is_asked = false);
        }
    }

    /// Whether paths changed while a flush waited, so that it confirms nothing yet.
    pub fn is_unsettled(&self, id: FlushId) -> bool {
        self.flushes.get(&id).is_some_and(Flush::is_unsettled)
    }

    /// Routers that are waited for.
    pub fn awaited(&self, id: FlushId) -> Vec<NodeId> {
        let flush = self.flushes.get(&id);
        flush.map_or_else(Vec::new, |flush| flush.routers.values().map(|(node, _)| *node).collect())
    }

    /// Whom routers wait for that have not answered, as far as they said: each router, and those behind it.
    pub fn behind(&self, id: FlushId) -> Vec<(NodeId, Vec<NodeId>)> {
        let Some(flush) = self.flushes.get(&id) else { return Vec::new() };
        let said = |(router, (node, _)): (&Router, &(NodeId, bool))| {
            Some((*node, flush.behind.get(router)?.clone()))
        };
        flush.routers.iter().filter_map(said).collect()
    }

    /// Who has not answered a question of somebody else. `alone` are those that are alone at the other end of a link.
    pub fn awaited_for(&self, asker: &Asker, alone: &BTreeMap<LinkId, NodeId>) -> Vec<NodeId> {
        let Some(flush) = self.flushes.values().find(|flush| flush.asker == Some(*asker)) else {
            return Vec::new();
        };
        let lacking = flush.lanes.iter().filter(|((_, lane), step)| *lane > 0 && **step != Step::Done);
        let mut awaited: BTreeSet<NodeId> =
            lacking.filter_map(|((link, _), _)| alone.get(link).copied()).collect();
        for (router, (node, is_asked)) in &flush.routers {
            match flush.behind.get(router) {
                Some(behind) => awaited.extend(behind),
                None if *is_asked => _ = awaited.insert(*node),
                None => {}
            }
        }
        awaited.into_iter().take(NAMED_MAX).collect()
    }

    /// A router answered for those behind it, and perhaps that a way changed meanwhile; or says whom it waits for.
    pub fn hear(&mut self, router: Router, answer: &Answer) {
        let Answer { number: question, is_pending, ref silent, is_stale, ref losers, .. } = *answer;
        let of_question = |flush: &&mut Flush| {
            flush.question == question && flush.routers.get(&router).is_some_and(|(_, asked)| *asked)
        };
        if let Some(flush) = self.flushes.values_mut().find(of_question) {
            if is_pending {
                flush.behind.insert(router, silent.clone());
                return;
            }
            flush.routers.remove(&router);
            flush.silent.extend(silent);
            flush.is_stale |= is_stale;
            losers.iter().for_each(|&loser| flush.add_loser(loser));
        }
    }

    /// Who lost something for good that one of our own programs waits for, and was not told of before. `lost` is who did so on
    /// our own links.
    pub fn losers(&mut self, id: FlushId, lost: &[Loser]) -> BTreeSet<NodeId> {
        let Some(flush) = self.flushes.get_mut(&id) else { return BTreeSet::new() };
        flush.tells = true;
        let is_new =
            |loser: &Loser| flush.told.get(loser.chain as usize).is_none_or(|&told| loser.number > told);
        let losers = flush.losers().chain(lost.iter().copied());
        losers.filter(is_new).map(|loser| loser.node).collect()
    }

    /// Routers that are on a link no longer answer nothing: nobody knows what those behind them have.
    pub fn keep_routers(&mut self, link: LinkId, stays: impl Fn(u64) -> bool) {
        for flush in self.flushes.values_mut() {
            let Flush { routers, leaves, silent, .. } = flush;
            routers.retain(|router, (node, _)| {
                let keeps = router.0 != link || stays(router.1);
                if !keeps && !leaves.contains(router) {
                    silent.insert(*node);
                }
                keeps
            });
        }
    }

    /// A link is about to be taken up: nobody is done before it is known what goes over it.
    pub fn await_link(&mut self, link: LinkId) {
        for flush in self.flushes.values_mut().filter(|flush| flush.goes_over(link)) {
            flush.lanes.insert((link, 0), Step::Send(u64::MAX));
        }
    }

    /// Whether it is waited for that a link is taken up, or that others bring something there.
    pub fn is_awaiting(&self, link: LinkId) -> bool {
        self.flushes.values().any(|flush| flush.lanes.contains_key(&(link, 0)))
    }

    /// Others brought something over a link that rests; of these publishers more is lacking there.
    pub fn note_brought(&mut self, link: LinkId, is_lacking: impl Fn(u64) -> bool) {
        for flush in self.flushes.values_mut() {
            if flush.asker.is_some_and(|asker| !is_lacking(asker.origin.0)) {
                flush.lanes.remove(&(link, 0));
            }
        }
    }

    /// A link was taken up. What was on a way that broke was said again there, so many bytes of each lane, and these routers
    /// are behind it.
    pub fn take_up(&mut self, link: LinkId, appended: &[u64], routers: &[(Router, NodeId)]) {
        for flush in self.flushes.values_mut().filter(|flush| flush.goes_over(link)) {
            flush.lanes.remove(&(link, 0));
            if flush.about == About::Messages {
                let sent = appended.iter().copied().enumerate().skip(1).filter(|&(_, bytes)| bytes > 0);
                flush.lanes.extend(sent.map(|(lane, bytes)| ((link, lane), Step::Send(bytes))));
            }
            flush.routers.extend(routers.iter().map(|&(router, node)| (router, (node, false))));
        }
    }

    /// How far chains are was told on a link, after some may have answered there who lack something: everybody is asked once more.
    pub fn note_told(&mut self, link: LinkId) {
        for flush in self.flushes.values_mut().filter(|flush| flush.goes_over(link)) {
            flush.is_stale |= flush.about == About::Messages;
        }
    }

    /// A link is broken, and others lead to those behind it: nothing is waited for there.
    pub fn give_up(&mut self, link: LinkId) {
        for flush in self.flushes.values_mut() {
            flush.is_stale |= flush.waits_for(link);
            flush.lanes.retain(|(of, _), _| *of != link);
            flush.routers.retain(|(of, _), _| *of != link);
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
        let is_good = |flush: &Flush| flush.is_over() && flush.failure.is_none();
        if let Some(flush) = self.flushes.remove(&id).filter(is_good) {
            for (_, failed) in self.failed.iter_mut().filter(|(router, _)| flush.silent.contains(*router)) {
                failed.is_ours = false;
            }
            // Whoever was silent may have lost something all the same: that is told when it answers.
            if flush.silent.is_empty() {
                self.confirmed = self.confirmed.max(flush.published.iter().skip(1).sum());
            }
            if flush.silent.is_empty() && flush.tells {
                self.told.resize(self.told.len().max(flush.published.len()), 0);
                self.told.iter_mut().zip(flush.published).for_each(|(told, now)| *told = now.max(*told));
            }
        }
    }

    /// Whether a link has something to ask.
    pub fn is_waiting(&self, link: LinkId) -> bool {
        let sends = |(&(of, _), step): (&(LinkId, usize), &Step)| of == link && matches!(step, Step::Send(_));
        self.flushes.values().any(|flush| flush.lanes.iter().any(sends))
    }

    /// Whether members of a link are to be asked whether they know what we want.
    pub fn awaits_interest(&self, link: LinkId) -> bool {
        let step = |flush: &Flush| flush.lanes.get(&(link, INTEREST_LANE)).copied();
        self.flushes.values().any(|flush| matches!(step(flush), Some(Step::Send(_))))
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
                // The first lane stands for a link that is about to be taken up.
                if let Step::Send(bytes) = *step
                    && lane > 0
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
                // Whoever did not answer for a lane will not for itself, and is named.
                let Flush { routers, leaves, .. } = flush;
                routers.retain(|router, (node, _)| {
                    router.0 != link || !leaves.contains(router) || !silent.contains(node)
                });
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
mod tests;
