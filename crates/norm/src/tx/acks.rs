//! Positive acknowledgement: who has everything up to where, and whom to ask again.
//!
//! A watermark is a segment count: "everything before it". One is asked for at a time, in
//! NORM_CMD(FLUSH) with the nodes that still owe it; a list that is longer than a segment goes in several.
//! Who no longer holds the window, and when it does again, is told in [`super::acker`]. The receiver
//! window asks by itself whenever enough was sent.
//!
//! A node that was listed just now holds the window at its place, so that a fast writer cannot forget what it has not got yet. If it
//! never answers, the window waits in vain. So new nodes hold it only until one of them did so in vain, and again as soon as a new
//! node acknowledges something: nodes that are made up, or die when they are born, cost one such wait.

use std::ops::Range;
use std::time::Duration;

pub use super::acker::Reached;
use super::acker::{Acker, REQUESTS_MIN, Standing};
use crate::config::Watermark;
use crate::effort;
use crate::event::Event;
use crate::time::Time;
use crate::{Config, NodeId, ObjectId};

/// Where all who are waited for are full they are asked again after so many times as long, and after so long at the least.
const FULL_INTERVALS: u32 = 4;
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// What became of acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// This node no longer holds the window: it stopped answering, or held others back for too long.
    Silent(NodeId),
    /// This node lacks for good some of what was sent since then, when it got on last.
    Lost(NodeId, Time),
    /// The application's watermark is settled: (acked, silent).
    Settled(Vec<NodeId>, Vec<NodeId>),
}

impl AckOutcome {
    /// What tells of it, if it is about this stream or object.
    pub fn into_event(self, object: ObjectId) -> Event {
        match self {
            AckOutcome::Silent(node) => Event::AckerSilent { object, node },
            AckOutcome::Lost(node, since) => Event::AckerLost { object, node, since },
            AckOutcome::Settled(acked, silent) => Event::WatermarkDone(Watermark { object, acked, silent }),
        }
    }
}

/// The acknowledgement state of one stream.
#[derive(Debug, Default)]
pub struct AckProcess {
    /// In the order of their ids.
    ackers: Vec<Acker>,
    /// The last new node that the window waited for did not answer.
    waited_in_vain: bool,
    /// How far all of those got who hold the window; `None` if nobody does.
    pub reached: Option<Reached>,
    /// Everybody, whether it counts or not, has everything before this segment; and whoever counts owes nothing before
    /// this one.
    pub all_acked: u64,
    all_owe_from: u64,
    /// Somebody's standing changed, and may have to be told.
    untold: bool,
    /// The watermark being asked for, and since when; `None` once everybody acknowledged it.
    requested: Option<u64>,
    round_began: Option<Time>,
    pub next_request: Time,
    /// Of those who owe it, these were asked already: a list longer than a segment goes in several.
    turn: usize,
    /// What the application wants to know about.
    pub wanted: Option<u64>,
    robust_factor: u32,
    patience: Duration,
    /// The most nodes to list in one request.
    nodes_max: usize,
    /// How long the repairs take that were asked for, without which nobody can acknowledge.
    owed: Duration,
}

impl AckProcess {
    pub fn new(config: &Config) -> AckProcess {
        AckProcess {
            all_acked: u64::MAX,
            next_request: Time::NEVER,
            robust_factor: config.robust_factor,
            patience: config.acker_patience,
            nodes_max: usize::from(config.segment_bytes) / size_of::<NodeId>(),
            ..AckProcess::default()
        }
    }

    /// Sets how long the repairs take that were asked for: so much longer a silence may last.
    pub fn set_owed(&mut self, owed: Duration) {
        self.owed = owed;
    }

    /// Replaces the list of nodes that count. A new one owes nothing sent before `from`.
    pub fn set_ackers(&mut self, nodes: &[NodeId], from: u64) {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        let known = std::mem::take(&mut self.ackers);
        let mut known = known.into_iter().peekable();
        self.ackers.extend(nodes.into_iter().map(|node| {
            while known.next_if(|acker| acker.node < node).is_some() {}
            known.next_if(|acker| acker.node == node).unwrap_or_else(|| Acker::new(node, from))
        }));
        self.turn = 0;
        self.refresh(Time::ZERO);
    }

    fn index_of(&self, node: NodeId) -> Option<usize> {
        self.ackers.binary_search_by_key(&node, |acker| acker.node).ok()
    }

    fn find_mut(&mut self, node: NodeId) -> Option<&mut Acker> {
        self.index_of(node).map(|index| &mut self.ackers[index])
    }

    /// Somebody got farther, or has another standing: finds how far all got. Where nobody counts, whoever is new does, or
    /// is slow but answers.
    fn refresh(&mut self, now: Time) {
        if self.counting().next().is_none() {
            let may_count = |acker: &&mut Acker| matches!(acker.standing, Standing::New | Standing::Slow);
            self.ackers.iter_mut().filter(may_count).for_each(|acker| acker.count_again(now));
        }
        let least =
            |a: Reached, b: Reached| Reached { acked: a.acked.min(b.acked), seen: a.seen.min(b.seen) };
        let welcome = !self.waited_in_vain;
        let holds = |acker: &&Acker| acker.counts() || (welcome && acker.is_new());
        let holding = self.ackers.iter().inspect(|_| effort::step()).filter(holds);
        self.reached = holding.map(|acker| acker.reached).reduce(least);
        self.all_acked = self.ackers.iter().map(|acker| acker.reached.acked).min().unwrap_or(u64::MAX);
        self.all_owe_from = self.counting().map(|acker| acker.owes_from).max().unwrap_or(0);
    }

    /// How many nodes count, or would if they answered.
    pub fn count(&self) -> usize {
        self.ackers.len()
    }

    fn counting(&self) -> impl Iterator<Item = &Acker> {
        self.ackers.iter().inspect(|_| effort::step()).filter(|acker| acker.counts())
    }

    /// Those that count, and wait for what is sent.
    fn readers(&self) -> impl Iterator<Item = &Acker> {
        self.counting().filter(|acker| !acker.bystander)
    }

    /// Whose answer is waited for, by the window or by the application.
    fn awaited(&self) -> impl Iterator<Item = &Acker> {
        let is_watermark = self.wanted.is_some();
        self.ackers.iter().inspect(|_| effort::step()).filter(move |acker| acker.is_awaited(is_watermark))
    }

    /// Everybody who holds the window has everything before this segment; `None` if nobody does.
    pub fn acked(&self) -> Option<u64> {
        self.reached.map(|reached| reached.acked)
    }

    /// Somebody counts, and everybody who does has said that it has everything before this segment. Whoever was listed
    /// later owes nothing before it, but has said nothing either.
    pub fn is_confirmed(&self, segment: u64) -> bool {
        self.acked().is_some_and(|acked| acked >= segment) && self.all_owe_from < segment
    }

    /// Somebody listed has not everything before this segment, whether he still answers or not.
    pub fn is_owed(&self, segment: u64) -> bool {
        self.all_acked < segment
    }

    /// Who has not everything before this segment, whether he still answers or not, and from where on.
    pub fn lacking(&self, segment: u64) -> impl Iterator<Item = (NodeId, u64)> {
        let lacks = move |acker: &&Acker| acker.reached.acked < segment;
        self.ackers.iter().filter(lacks).map(|acker| (acker.node, acker.reached.acked))
    }

    /// The application wants to know when everybody has everything before `segment`, which may have to be
    /// sent yet.
    pub fn want(&mut self, segment: u64) {
        self.wanted = Some(segment);
        self.ackers.iter_mut().for_each(Acker::on_watermark);
    }

    /// Whether somebody, of whom the application wants to know, has not all of it that was sent.
    pub fn is_answer_owed(&self, sent: u64) -> bool {
        self.wanted.is_some_and(|wanted| self.awaited().any(|acker| acker.reached.acked < wanted.min(sent)))
    }

    /// Starts asking for `segment`, of which everything before must have been sent, unless an
    /// acknowledgement is being waited for.
    pub fn request(&mut self, now: Time, segment: u64) {
        if !self.is_waiting() {
            self.requested = Some(segment);
            self.round_began = Some(now);
            (self.next_request, self.turn) = (now, 0);
        }
    }

    /// How long it took everybody who counts to acknowledge what was asked for; once.
    pub fn take_round(&mut self, now: Time) -> Option<Duration> {
        let is_over = self.acked().is_some_and(|acked| self.requested.is_some_and(|asked| acked >= asked));
        if is_over { self.round_began.take().map(|began| now.since(began)) } else { None }
    }

    /// Whether an acknowledgement is being waited for.
    pub fn is_waiting(&self) -> bool {
        self.requested.is_some_and(|asked| {
            self.all_acked < asked && self.awaited().any(|acker| acker.reached.acked < asked)
        })
    }

    /// If a request is due: the watermark, and in `nodes` whom to ask. If it is not, `nodes` are those who no longer
    /// count and may say that they are back.
    pub fn poll(&mut self, now: Time, interval: Duration, nodes: &mut Vec<NodeId>) -> Option<u64> {
        nodes.clear();
        let requested = self.requested?;
        if now < self.next_request {
            return None;
        }
        let is_watermark = self.wanted.is_some();
        let requests = if is_watermark { self.robust_factor } else { REQUESTS_MIN };
        let nobody_waits = !self.readers().any(|acker| acker.reached.acked >= requested);
        let first = std::mem::take(&mut self.turn);
        let (mut due, mut all_full) = (false, !is_watermark);
        for (index, acker) in self.ackers.iter_mut().enumerate().skip(first) {
            effort::step();
            if acker.reached.acked >= requested {
                continue;
            }
            if nodes.len() == self.nodes_max {
                self.turn = index;
                break;
            }
            if acker.is_awaited(is_watermark) {
                let was_new = acker.is_new();
                acker.on_asked(now, requests, self.patience + self.owed, nobody_waits);
                all_full &= acker.is_full();
                self.waited_in_vain |= was_new && !acker.is_new();
            }
            due |= acker.is_awaited(is_watermark);
            // Who fell silent is asked along, but is no reason to ask.
            nodes.push(acker.node);
        }
        self.untold = true;
        self.refresh(now);
        // Who is full says by itself when it has everything.
        let interval = if due && all_full { FULL_PAUSE.max(interval * FULL_INTERVALS) } else { interval };
        self.next_request = if self.turn > 0 { now } else { now + interval };
        due.then_some(requested)
    }

    /// `node` has everything before `segment`: whether that is news. If it did not count, and others do, it counts again from
    /// `caught_up` on.
    pub fn on_ack(&mut self, now: Time, node: NodeId, segment: u64, caught_up: u64) -> bool {
        let (reached, patience) = (self.reached, self.patience);
        let Some(acker) = self.find_mut(node) else { return false };
        let before = acker.reached;
        let (counted, was_new) = (acker.counts(), acker.is_new());
        let is_news = acker.on_ack(now, segment, caught_up, reached.is_none(), patience);
        let has_lost = acker.lost.is_some();
        let answers = was_new && acker.counts();
        self.waited_in_vain &= !answers;
        // Only who was last, or did not count, changes how far all of them are.
        let was_last =
            reached.is_none_or(|reached| before.acked <= reached.acked || before.seen <= reached.seen);
        if was_last || !counted {
            self.refresh(now);
        }
        self.untold |= has_lost;
        is_news
    }

    /// `node` answered, and got no farther.
    pub fn on_full(&mut self, node: NodeId) {
        if let Some(acker) = self.find_mut(node) {
            acker.on_full();
        }
    }

    /// Anything was heard of `node`.
    pub fn on_heard(&mut self, node: NodeId) {
        if let Some(acker) = self.find_mut(node) {
            acker.on_heard();
        }
    }

    /// Something waited to be sent from `from` to `now`, and whoever got only so far that `closes` is true was what it
    /// waited for, or who is `blamed`. Who is that for too long, while at least half of the others that read have all they were
    /// asked for, no longer holds the window. True if that happened to the blamed one.
    pub fn on_held(
        &mut self,
        from: Time,
        now: Time,
        blamed: Option<NodeId>,
        closes: impl Fn(Reached) -> bool,
    ) -> bool {
        let Some(requested) = self.requested else { return false };
        let has_room = |acker: &&Acker| acker.reached.acked >= requested && Some(acker.node) != blamed;
        let (count, with_room) = (self.readers().count(), self.readers().filter(has_room).count());
        if with_room == 0 || 2 * with_room + 1 < count {
            return false;
        }
        let patience = self.patience;
        let (mut changed, mut forgive) = (false, false);
        let is_last = |acker: &Acker| acker.reached.acked < requested && closes(acker.reached);
        let somebody_is_last = self.counting().any(is_last);
        for acker in self.ackers.iter_mut().filter(|acker| acker.counts() && !acker.indispensable) {
            let loses = Some(acker.node) == blamed;
            if somebody_is_last && acker.reached.acked >= requested {
                acker.on_other_held(now.since(from));
            }
            let is_last = is_last(acker);
            let is_slow = is_last && acker.on_held(from, now, requested, patience);
            if is_slow || loses && acker.on_blamed(from, now, patience) {
                acker.on_slow(now, patience, loses);
                changed = true;
                forgive |= loses;
            }
        }
        if changed {
            self.untold = true;
            self.refresh(now);
        }
        forgive
    }

    /// Sets who is waited for, however slow: nobody goes on without it as long as it is listed.
    pub fn set_indispensable(&mut self, nodes: &[NodeId]) {
        for acker in &mut self.ackers {
            acker.indispensable = nodes.contains(&acker.node);
            if acker.indispensable && matches!(acker.standing, Standing::Silent | Standing::Slow) {
                acker.count_again(Time::ZERO);
            }
        }
        self.refresh(Time::ZERO);
    }

    /// Sets who reads nothing: nobody is too slow for them.
    pub fn set_bystanders(&mut self, nodes: &[NodeId]) {
        for acker in &mut self.ackers {
            acker.bystander = nodes.contains(&acker.node);
        }
    }

    /// `node` asked for what can no longer be repaired, of which there is nothing before `first`.
    pub fn on_refused(&mut self, now: Time, node: NodeId, first: u64) {
        if let Some(acker) = self.find_mut(node) {
            acker.on_refused(now, first);
            self.untold = true;
        }
    }

    /// Whether a node does not count while others do.
    pub fn is_left_behind(&self, node: NodeId) -> bool {
        self.reached.is_some() && self.index_of(node).is_some_and(|index| !self.ackers[index].counts())
    }

    /// Of what comes after a segment some is owed no more: whoever has everything before it gets to `past`.
    pub fn advance(&mut self, past: impl Fn(u64) -> u64) {
        for acker in &mut self.ackers {
            let Reached { acked, seen } = &mut acker.reached;
            *acked = (*acked).max(past(*acked));
            *seen = (*seen).max(*acked);
        }
        self.refresh(Time::ZERO);
    }

    /// Settles what the application wanted to know at once. `None` if it wanted nothing.
    pub fn settle_now(&mut self) -> Option<AckOutcome> {
        let wanted = self.wanted.take()?;
        let has = |acker: &&Acker| acker.reached.acked >= wanted;
        let (has, lacks): (Vec<_>, Vec<_>) = self.ackers.iter().partition(has);
        let names = |ackers: Vec<&Acker>| ackers.into_iter().map(|acker| acker.node).collect();
        Some(AckOutcome::Settled(names(has), names(lacks)))
    }

    /// `node` asks for repair of segments. True if it counts. One message may ask for many things: how far all got is found
    /// when all of it was noted.
    pub fn on_request(&mut self, node: NodeId, segments: &Range<u64>) -> bool {
        self.find_mut(node).is_some_and(|acker| {
            acker.on_request(segments);
            acker.counts()
        })
    }

    /// All that a message asks for was noted.
    pub fn settle_requests(&mut self) {
        self.refresh(Time::ZERO);
    }

    /// What is settled now; call until `None`.
    pub fn poll_outcome(&mut self) -> Option<AckOutcome> {
        if self.untold {
            let is_out = |acker: &&mut Acker| matches!(acker.standing, Standing::Silent | Standing::Slow);
            if let Some(acker) = self.ackers.iter_mut().find(|acker| is_out(acker) && !acker.told) {
                acker.told = true;
                return Some(AckOutcome::Silent(acker.node));
            }
            let lost = |acker: &mut Acker| acker.lost.take().map(|since| (acker.node, since));
            if let Some((node, since)) = self.ackers.iter_mut().find_map(lost) {
                return Some(AckOutcome::Lost(node, since));
            }
            self.untold = false;
        }
        if self.requested.is_some() && !self.is_waiting() {
            self.requested = None;
            (self.next_request, self.turn) = (Time::NEVER, 0);
        }
        let wanted = self.wanted?;
        if self.awaited().any(|acker| acker.reached.acked < wanted) {
            return None;
        }
        self.settle_now()
    }
}

#[cfg(test)]
mod tests;
