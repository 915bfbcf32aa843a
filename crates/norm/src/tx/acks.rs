//! Positive acknowledgement: who has everything up to where, and whom to ask again.
//!
//! A watermark is a segment count: "everything before it". One is asked for at a time, in
//! NORM_CMD(FLUSH) with the nodes that still owe it. A node that acknowledges nothing new for
//! `patience`, though it was asked a few times, no longer counts, until it has caught up. The receiver
//! window asks by itself whenever enough was sent.

use std::ops::Range;
use std::time::Duration;

use crate::NodeId;
use crate::time::Time;

/// Whoever holds the window is asked so often at the least before it no longer counts: any of the requests may be
/// lost, but so long everybody waits. Where an application waits for the answer it is `robust_factor` times.
const REQUESTS_MIN: u32 = 4;

/// One node whose acknowledgement counts.
#[derive(Clone, Debug)]
struct Acker {
    node: NodeId,
    /// It owes nothing before this segment, whether it has it or not.
    owes_from: u64,
    /// It has everything before this segment, as far as it owes it.
    acked: u64,
    /// Requests since its last acknowledgement.
    unanswered: u32,
    /// When the first of them was sent.
    asked_at: Time,
    /// It asked for repair from here on: it got so far, though it could not acknowledge yet.
    repaired: u64,
    /// It knows what happened to everything before this segment: it has it, or asked for it.
    seen: u64,
    silent: bool,
    /// Its silence was told.
    told: bool,
}

impl Acker {
    fn new(node: NodeId, owes_from: u64) -> Acker {
        Acker {
            node,
            owes_from,
            acked: owes_from,
            unanswered: 0,
            asked_at: Time::ZERO,
            repaired: 0,
            seen: owes_from,
            silent: false,
            told: false,
        }
    }

    fn counts_again(&mut self) {
        (self.unanswered, self.silent, self.told) = (0, false, false);
    }
}

/// How far everybody who counts got.
#[derive(Copy, Clone, Debug)]
pub struct Reached {
    /// Everybody has everything before this segment.
    pub acked: u64,
    /// Everybody has everything before this one, or asked for it: none of it is on its way any more.
    pub seen: u64,
}

/// What became of acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// This node stopped answering.
    Silent(NodeId),
    /// The application's watermark is settled: (acked, silent).
    Settled(Vec<NodeId>, Vec<NodeId>),
}

/// The acknowledgement state of one stream.
#[derive(Debug)]
pub struct AckProcess {
    ackers: Vec<Acker>,
    /// The watermark being asked for.
    requested: Option<u64>,
    next_request: Time,
    /// What the application wants to know about.
    wanted: Option<u64>,
    robust_factor: u32,
    patience: Duration,
    /// How long the repairs take that were asked for, without which nobody can acknowledge.
    owed: Duration,
}

impl AckProcess {
    pub fn new(robust_factor: u32, patience: Duration) -> AckProcess {
        AckProcess {
            ackers: Vec::new(),
            requested: None,
            next_request: Time::NEVER,
            wanted: None,
            robust_factor,
            patience,
            owed: Duration::ZERO,
        }
    }

    /// Sets how long the repairs take that were asked for: so much longer a silence may last.
    pub fn set_owed(&mut self, owed: Duration) {
        self.owed = owed;
    }

    /// Replaces the list of nodes that count. A new one owes nothing sent before `from`.
    pub fn set_ackers(&mut self, nodes: &[NodeId], from: u64) {
        self.ackers.retain(|acker| nodes.contains(&acker.node));
        for &node in nodes {
            if !self.ackers.iter().any(|acker| acker.node == node) {
                self.ackers.push(Acker::new(node, from));
            }
        }
    }

    /// How many nodes count, or would if they answered.
    pub fn count(&self) -> usize {
        self.ackers.len()
    }

    fn counting(&self) -> impl Iterator<Item = &Acker> {
        self.ackers.iter().filter(|acker| !acker.silent)
    }

    /// Everybody who counts has everything before this segment; `None` if nobody counts.
    pub fn acked(&self) -> Option<u64> {
        self.counting().map(|acker| acker.acked).min()
    }

    /// Somebody counts, and everybody who does has said that it has everything before this segment. Whoever was listed
    /// later owes nothing before it, but has said nothing either.
    pub fn is_confirmed(&self, segment: u64) -> bool {
        let mut counting = self.counting().peekable();
        counting.peek().is_some() && counting.all(|acker| acker.owes_from < segment && acker.acked >= segment)
    }

    /// How far everybody who counts got; `None` if nobody counts.
    pub fn reached(&self) -> Option<Reached> {
        let least =
            |a: Reached, b: Reached| Reached { acked: a.acked.min(b.acked), seen: a.seen.min(b.seen) };
        self.counting().map(|acker| Reached { acked: acker.acked, seen: acker.seen }).reduce(least)
    }

    /// Somebody listed has not everything before this segment, whether he still answers or not.
    pub fn is_owed(&self, segment: u64) -> bool {
        self.ackers.iter().any(|acker| acker.acked < segment)
    }

    /// The application wants to know when everybody has everything before `segment`, which may have to be
    /// sent yet.
    pub fn want(&mut self, segment: u64) {
        self.wanted = Some(segment);
        self.ackers.iter_mut().for_each(Acker::counts_again);
    }

    /// What the application wants to know about.
    pub fn wanted(&self) -> Option<u64> {
        self.wanted
    }

    /// Starts asking for `segment`, of which everything before must have been sent, unless an
    /// acknowledgement is being waited for.
    pub fn request(&mut self, now: Time, segment: u64) {
        if !self.is_waiting() {
            self.requested = Some(segment);
            self.next_request = now;
        }
    }

    /// Whether an acknowledgement is being waited for.
    pub fn is_waiting(&self) -> bool {
        self.requested.is_some_and(|asked| self.counting().any(|acker| acker.acked < asked))
    }

    pub fn deadline(&self) -> Time {
        self.next_request
    }

    /// If a request is due: the watermark, and in `nodes` whom to ask. If it is not, `nodes` are those who fell silent
    /// and may say that they are back.
    pub fn poll(&mut self, now: Time, interval: Duration, nodes: &mut Vec<NodeId>) -> Option<u64> {
        nodes.clear();
        let requested = self.requested?;
        if now < self.next_request {
            return None;
        }
        let requests = if self.wanted.is_some() { self.robust_factor } else { REQUESTS_MIN };
        let mut due = false;
        for acker in self.ackers.iter_mut().filter(|acker| acker.acked < requested) {
            if !acker.silent {
                if acker.unanswered == 0 {
                    acker.asked_at = now;
                }
                acker.unanswered += 1;
                let waited = now.since(acker.asked_at);
                acker.silent = acker.unanswered > requests && waited >= self.patience + self.owed;
            }
            due |= !acker.silent;
            // Who fell silent is asked along, but is no reason to ask.
            nodes.push(acker.node);
        }
        self.next_request = now + interval;
        due.then_some(requested)
    }

    /// `node` has everything before `segment`. If it was silent it counts again.
    pub fn on_ack(&mut self, node: NodeId, segment: u64) {
        self.on_ack_of(node, segment, 0);
    }

    /// `node` has everything before `segment`. If it was silent, and others count, it counts again from `caught_up`
    /// on.
    pub fn on_ack_of(&mut self, node: NodeId, segment: u64, caught_up: u64) {
        let nobody_counts = self.counting().next().is_none();
        if let Some(acker) = self.ackers.iter_mut().find(|acker| acker.node == node)
            && segment > acker.acked
        {
            acker.acked = segment;
            acker.seen = acker.seen.max(segment);
            if !acker.silent || nobody_counts || segment >= caught_up {
                acker.counts_again();
            }
        }
    }

    /// Whether a node stopped answering while others count.
    pub fn is_left_behind(&self, node: NodeId) -> bool {
        self.ackers.iter().any(|acker| acker.node == node && acker.silent) && self.counting().next().is_some()
    }

    /// Of what comes after a segment some is owed no more: whoever has everything before it gets to `past`.
    pub fn advance(&mut self, past: impl Fn(u64) -> u64) {
        for acker in &mut self.ackers {
            acker.acked = acker.acked.max(past(acker.acked));
            acker.seen = acker.seen.max(acker.acked);
        }
    }

    /// Settles what the application wanted to know at once: (acked, silent). `None` if it wanted nothing.
    pub fn settle_now(&mut self) -> Option<(Vec<NodeId>, Vec<NodeId>)> {
        let wanted = self.wanted.take()?;
        let (has, lacks): (Vec<_>, Vec<_>) = self.ackers.iter().partition(|acker| acker.acked >= wanted);
        let names = |ackers: Vec<&Acker>| ackers.into_iter().map(|acker| acker.node).collect();
        Some((names(has), names(lacks)))
    }

    /// `node` asks for repair of segments. If they begin farther on than before it gets on, however slowly. True if
    /// it counts.
    pub fn on_request(&mut self, node: NodeId, segments: &Range<u64>) -> bool {
        let Some(acker) = self.ackers.iter_mut().find(|acker| acker.node == node) else { return false };
        if segments.start > acker.repaired {
            acker.repaired = segments.start;
            acker.unanswered = 0;
        }
        acker.seen = acker.seen.max(segments.end);
        !acker.silent
    }

    /// What is settled now; call until `None`.
    pub fn poll_outcome(&mut self) -> Option<AckOutcome> {
        if let Some(acker) = self.ackers.iter_mut().find(|acker| acker.silent && !acker.told) {
            acker.told = true;
            return Some(AckOutcome::Silent(acker.node));
        }
        if let Some(requested) = self.requested
            && self.counting().all(|acker| acker.acked >= requested)
        {
            self.requested = None;
            self.next_request = Time::NEVER;
        }
        let wanted = self.wanted?;
        if self.counting().any(|acker| acker.acked < wanted) {
            return None;
        }
        self.wanted = None;
        let named = |silent: bool| -> Vec<NodeId> {
            let has = |acker: &&Acker| (acker.acked >= wanted) != silent;
            self.ackers.iter().filter(has).map(|acker| acker.node).collect()
        };
        Some(AckOutcome::Settled(named(false), named(true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(2);

    fn process(nodes: &[NodeId]) -> AckProcess {
        let mut acks = AckProcess::new(3, 2 * STEP);
        acks.set_ackers(nodes, 0);
        acks
    }

    #[test]
    fn a_watermark_settles_when_the_last_node_has_it() {
        let mut acks = process(&[1, 2]);
        let mut asked = Vec::new();
        acks.want(10);
        acks.request(Time::ZERO, 10);
        assert_eq!(acks.poll(Time::ZERO, STEP, &mut asked), Some(10));
        assert_eq!(asked, [1, 2]);
        acks.on_ack(1, 10);
        assert_eq!(acks.poll_outcome(), None);
        assert_eq!(acks.poll(Time::ZERO + STEP, STEP, &mut asked), Some(10));
        assert_eq!(asked, [2]);
        acks.on_ack(2, 12);
        assert_eq!(acks.poll_outcome(), Some(AckOutcome::Settled(vec![1, 2], vec![])));
        assert_eq!(acks.acked(), Some(10));
        assert_eq!(acks.deadline(), Time::NEVER);
    }

    #[test]
    fn whoever_is_listed_later_owes_nothing_but_has_confirmed_nothing() {
        let mut acks = process(&[]);
        assert!(!acks.is_confirmed(10), "nobody counts");
        acks.set_ackers(&[1], 10);
        assert_eq!((acks.acked(), acks.is_owed(10)), (Some(10), false));
        assert!(!acks.is_confirmed(10));
        acks.on_ack(1, 12);
        assert!(acks.is_confirmed(12));
        assert!(!acks.is_confirmed(13));
    }

    #[test]
    fn a_node_that_never_answers_is_named_and_stops_counting() {
        let mut acks = process(&[1, 2]);
        let mut asked = Vec::new();
        acks.want(10);
        acks.request(Time::ZERO, 10);
        acks.on_ack(1, 10);
        let mut now = Time::ZERO;
        for _ in 0..4 {
            acks.poll(now, STEP, &mut asked);
            now += STEP;
        }
        assert_eq!(acks.poll_outcome(), Some(AckOutcome::Silent(2)));
        assert_eq!(acks.poll_outcome(), Some(AckOutcome::Settled(vec![1], vec![2])));
        assert_eq!(acks.poll_outcome(), None);
        assert_eq!(acks.acked(), Some(10));
    }

    #[test]
    fn a_node_asked_often_but_not_for_long_still_counts() {
        let mut acks = AckProcess::new(3, Duration::from_millis(500));
        acks.set_ackers(&[1], 0);
        let mut asked = Vec::new();
        acks.want(10);
        acks.request(Time::ZERO, 10);
        let mut now = Time::ZERO;
        while now < Time::ZERO + Duration::from_millis(499) {
            acks.poll(now, STEP, &mut asked);
            now += STEP;
        }
        assert_eq!(acks.poll_outcome(), None);
        acks.poll(now + STEP, STEP, &mut asked);
        assert_eq!(acks.poll_outcome(), Some(AckOutcome::Silent(1)));
        acks.on_ack(1, 5);
        assert_eq!(acks.acked(), Some(5), "it counts again once it gets on");
    }

    #[test]
    fn however_long_the_round_trip_a_node_holds_the_window_for_a_few_requests_only() {
        let mut acks = AckProcess::new(20, Duration::from_millis(500));
        acks.set_ackers(&[1, 2], 0);
        acks.request(Time::ZERO, 10);
        let interval = Duration::from_millis(400);
        let mut now = Time::ZERO;
        while acks.is_waiting() {
            acks.poll(now, interval, &mut Vec::new());
            acks.on_ack(2, 10);
            now += interval;
        }
        assert!(now.since(Time::ZERO) <= 2 * Duration::from_secs(1), "{now:?}");
    }

    #[test]
    fn a_node_that_fell_silent_is_asked_along_and_counts_again_when_it_has_caught_up() {
        let mut acks = process(&[1, 2]);
        let mut asked = Vec::new();
        let mut now = Time::ZERO;
        acks.request(now, 10);
        acks.on_ack(2, 10);
        while !acks.is_left_behind(1) {
            acks.poll(now, STEP, &mut asked);
            now += STEP;
        }
        assert_eq!(acks.poll(now, STEP, &mut asked), None, "it alone is no reason to ask");
        acks.request(now, 100);
        assert_eq!(acks.poll(now, STEP, &mut asked), Some(100));
        assert_eq!(asked, [1, 2]);
        acks.on_ack(2, 100);
        acks.on_ack_of(1, 50, 80);
        assert_eq!(acks.acked(), Some(100), "it would hold everybody back");
        acks.on_ack_of(1, 90, 80);
        assert_eq!(acks.acked(), Some(90));
    }

    #[test]
    fn where_nobody_counts_whoever_acknowledges_something_counts_again() {
        let mut acks = process(&[1, 2]);
        let mut now = Time::ZERO;
        acks.request(now, 10);
        while acks.acked().is_some() {
            acks.poll(now, STEP, &mut Vec::new());
            now += STEP;
        }
        assert!(!acks.is_left_behind(1), "there is nobody it could be behind");
        acks.on_ack_of(1, 5, 8);
        assert_eq!(acks.acked(), Some(5));
        acks.on_ack_of(2, 7, 8);
        assert!(acks.is_left_behind(2));
    }

    #[test]
    fn a_node_that_asks_for_ever_later_segments_counts_and_one_that_repeats_itself_does_not() {
        let ask_for = |segment_at: fn(u64) -> u64| {
            let mut acks = process(&[1]);
            acks.want(1000);
            acks.request(Time::ZERO, 1000);
            let mut now = Time::ZERO;
            for round in 1..100 {
                acks.poll(now, STEP, &mut Vec::new());
                acks.on_request(1, &(segment_at(round)..1000));
                now += STEP;
            }
            acks.poll_outcome()
        };
        assert_eq!(ask_for(|round| round), None);
        assert_eq!(ask_for(|_| 7), Some(AckOutcome::Silent(1)));
    }

    #[test]
    fn a_new_node_owes_only_what_comes_after_it() {
        let mut acks = process(&[1]);
        acks.on_ack(1, 50);
        acks.set_ackers(&[1, 2], 40);
        assert_eq!(acks.acked(), Some(40));
        acks.set_ackers(&[1], 0);
        assert_eq!(acks.acked(), Some(50));
    }
}
