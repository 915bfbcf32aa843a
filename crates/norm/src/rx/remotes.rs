//! The senders this receiver listens to, found by node and instance.
//!
//! A node that starts over speaks as another instance. Its last words as the one before may arrive after its first
//! ones as the new one, and instances have no order. So both are listened to until the new one was heard a few times
//! without another between: from then on it is the node.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::remote::Remote;
use super::scope::Scope;
use crate::NodeId;
use crate::datagram::Source;
use crate::effort;
use crate::event::{CloseReason, Event};
use crate::stats::{Reject, Taken};
use crate::time::Time;
use crate::wire::SenderHeader;

/// A sender of which hardly anything was heard may be forgotten after so short a silence.
const STRANGER_IDLE_AFTER: Duration = Duration::from_secs(1);
/// A new instance that was heard so often in a row is the one that runs, if the one before it was silent for so long:
/// anybody can speak as another instance.
const HEARD_IN_A_ROW: u32 = 4;
pub const SILENT_FOR: Duration = Duration::from_secs(1);
/// So many new instances of one node are listened to while it is open which of them runs.
const RIVALS_MAX: usize = 4;
/// What comes so long after the instance that followed it was heard is not late.
const LATE_MAX: Duration = Duration::from_secs(5);
/// Nodes remembered of those that found no room.
const KNOCKS: usize = 256;

/// A node of which several instances were heard lately.
#[derive(Debug)]
struct Contest {
    /// The one it was before.
    incumbent: u16,
    /// Which spoke last, and how often in a row.
    last: u16,
    in_a_row: u32,
    /// When a rival was heard last.
    rival_at: Time,
}

#[derive(Debug, Default)]
pub struct Remotes {
    list: Vec<Remote>,
    index: HashMap<(NodeId, u16), usize>,
    /// Some departed and may be forgotten once read.
    pub departing: bool,
    contests: HashMap<NodeId, Contest>,
    /// Those that have something to do, and when; and those of which that may have changed.
    agenda: BTreeSet<(Time, NodeId, u16)>,
    changed: Vec<(NodeId, u16)>,
    /// Nodes that found no room, each in the place its id gives it.
    knocks: Vec<NodeId>,
}

impl Remotes {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Remote> {
        self.list.iter()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Changes all of them.
    pub fn change_all(&mut self, mut change: impl FnMut(&mut Remote)) {
        for remote in &mut self.list {
            note_changed(&mut self.changed, remote);
            change(remote);
        }
    }

    /// The sender with this node and instance, if it is known.
    pub fn get(&self, node: NodeId, instance: u16) -> Option<&Remote> {
        self.index.get(&(node, instance)).and_then(|&index| self.list.get(index))
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, node: NodeId, instance: u16) -> Option<&mut Remote> {
        let index = *self.index.get(&(node, instance))?;
        self.change(index)
    }

    /// One that is about to be changed: when it has something to do may change too.
    fn change(&mut self, index: usize) -> Option<&mut Remote> {
        let remote = self.list.get_mut(index)?;
        note_changed(&mut self.changed, remote);
        Some(remote)
    }

    /// Notes when those have something to do that changed.
    fn update_agenda(&mut self) {
        while let Some((node, instance)) = self.changed.pop() {
            effort::step();
            let Some(&index) = self.index.get(&(node, instance)) else { continue };
            let remote = &mut self.list[index];
            remote.is_noted = false;
            let (before, next) = (remote.scheduled, remote.deadline());
            if before != next {
                remote.scheduled = next;
                self.agenda.remove(&(before, node, instance));
                if next < Time::NEVER {
                    self.agenda.insert((next, node, instance));
                }
            }
        }
    }

    /// When the first of them has something to do.
    pub fn deadline(&self) -> Time {
        let is_current = |(_, node, instance): &&(Time, NodeId, u16)| {
            effort::step();
            self.get(*node, *instance).is_some_and(|remote| !remote.is_noted)
        };
        let noted = self.agenda.iter().find(is_current).map_or(Time::NEVER, |(at, ..)| *at);
        let changed = self.changed.iter().filter_map(|(node, instance)| self.get(*node, *instance));
        changed.inspect(|_| effort::step()).map(Remote::deadline).fold(noted, Time::min).min(self.departure())
    }

    /// There is no memory for a sender: lets one give some back that holds much of it though little came from it, a
    /// fourth of what came from this one at the most. False if there is none.
    pub fn make_way(&mut self, node: NodeId, instance: u16, scope: &mut Scope<'_>) -> bool {
        let Some(came) = self.get(node, instance).map(|remote| remote.received_bytes) else { return false };
        let gives_way = |remote: &&mut Remote| remote.received_bytes < came / 4 && remote.memory() > 0;
        let most = self.list.iter_mut().filter(gives_way).max_by_key(|remote| remote.memory());
        most.is_some_and(|remote| remote.make_way(scope))
    }

    /// Calls `serve` with those that have something to do by now, the first one first, until it returns something.
    pub fn serve<R>(&mut self, now: Time, mut serve: impl FnMut(&mut Remote) -> Option<R>) -> Option<R> {
        self.update_agenda();
        // Whoever is served and still has something to do has to wait for the next call.
        let mut left = self.list.len();
        while let Some(&(at, node, instance)) = self.agenda.first()
            && at <= now
            && left > 0
        {
            left -= 1;
            effort::step();
            let served = self.get_mut(node, instance).and_then(&mut serve);
            self.update_agenda();
            if served.is_some() {
                return served;
            }
        }
        None
    }

    /// Finds the sender of a message, or gets to know it. `None` if it is not to be listened to.
    pub fn hear(
        &mut self,
        from: Source,
        header: &SenderHeader,
        new_is_welcome: bool,
        datagram_bytes: usize,
        scope: &mut Scope<'_>,
    ) -> Taken<Option<&mut Remote>> {
        if let Some(&index) = self.index.get(&(header.source, header.instance)) {
            self.list[index].hear(header, from, scope.now, datagram_bytes);
            if new_is_welcome {
                // Also words that the goodbye overtook take it back: a real one is said again, and a forged one may bear any
                // number.
                self.list[index].departed = None;
            }
            if self.contests.is_empty() {
                return Ok(self.change(index));
            }
            self.settle_contest(header.source, header.instance, scope);
            return Ok(self.get_mut(header.source, header.instance));
        }
        if !new_is_welcome {
            return Ok(None);
        }
        let previous = self.list.iter().rposition(|remote| remote.node == header.source);
        if let Some(previous) = previous
            && self.list[previous].previous == Some(header.instance)
            && scope.now.since(self.list[previous].last_heard) < LATE_MAX
        {
            return Err(Reject::StaleInstance);
        }
        let known = previous.map(|index| self.list[index].instance);
        if self.list.len() >= scope.config.senders_max
            && !(self.knock(header.source) && self.forget_idle(scope))
        {
            return Err(Reject::TooManySenders);
        }
        if let Some(known) = known {
            self.contest(header, known, scope);
        }
        let remote = Remote::new(header, from, scope.now, scope.config);
        scope.events.push_back(Event::SenderHeard { node: remote.node, instance: remote.instance });
        self.index.insert((remote.node, remote.instance), self.list.len());
        self.list.push(remote);
        Ok(self.change(self.list.len() - 1))
    }

    /// Another instance of a known node speaks.
    fn contest(&mut self, header: &SenderHeader, known: u16, scope: &mut Scope<'_>) {
        let incumbent = self.contests.remove(&header.source).map_or(known, |contest| contest.incumbent);
        let is_rival = |remote: &Remote| remote.node == header.source && remote.instance != incumbent;
        let rivals = || (0..self.list.len()).filter(|&index| is_rival(&self.list[index]));
        if rivals().count() >= RIVALS_MAX
            && let Some(oldest) = rivals().min_by_key(|&index| self.list[index].last_heard)
        {
            self.forget(oldest, CloseReason::Restarted, scope);
        }
        let contest = Contest { incumbent, last: header.instance, in_a_row: 1, rival_at: scope.now };
        self.contests.insert(header.source, contest);
    }

    /// An instance was heard. A new one that was heard often enough in a row is the node from now on; one that is not
    /// heard again for long was a stray.
    fn settle_contest(&mut self, node: NodeId, instance: u16, scope: &mut Scope<'_>) {
        let Some(contest) = self.contests.get_mut(&node) else { return };
        contest.in_a_row = if contest.last == instance { contest.in_a_row + 1 } else { 1 };
        contest.last = instance;
        let incumbent = contest.incumbent;
        let others = |remote: &Remote| remote.node == node && remote.instance != instance;
        if instance == incumbent {
            if scope.now.since(contest.rival_at) < LATE_MAX {
                return;
            }
            // Whatever else was heard of the node was late, or it would have been heard again.
            self.contests.remove(&node);
            while let Some(index) = self.list.iter().position(others) {
                self.forget(index, CloseReason::Restarted, scope);
            }
            return;
        }
        contest.rival_at = scope.now;
        let in_a_row = contest.in_a_row;
        let is_silent = |remote: &Remote| scope.now.since(remote.last_heard) >= SILENT_FOR;
        let may_win = self.get(node, incumbent).is_none_or(is_silent);
        if in_a_row >= HEARD_IN_A_ROW && may_win {
            self.contests.remove(&node);
            for remote in self.list.iter_mut().filter(|remote| others(remote)) {
                remote.departed = Some((CloseReason::Restarted, scope.now));
                self.departing = true;
            }
            if let Some(winner) = self.get_mut(node, instance) {
                winner.previous = Some(incumbent);
            }
        }
    }

    /// A node finds no room: whether it found none a short time ago too. Ids made up one after the other do not
    /// come back, so they take nobody's place, and do not keep an honest newcomer out.
    fn knock(&mut self, node: NodeId) -> bool {
        self.knocks.resize(KNOCKS, 0);
        let place = node.wrapping_mul(0x9e37_79b1) >> (u32::BITS - KNOCKS.ilog2());
        std::mem::replace(&mut self.knocks[place as usize], node) == node
    }

    /// Makes room by forgetting the sender that was silent longest, of those that were silent long enough.
    fn forget_idle(&mut self, scope: &mut Scope<'_>) -> bool {
        let is_idle = |remote: &Remote| {
            let long = scope.config.sender_idle_after;
            let enough = if remote.row_began() > Time::ZERO { long } else { long.min(STRANGER_IDLE_AFTER) };
            scope.now.since(remote.last_heard) >= enough
        };
        let idle = (0..self.list.len())
            .filter(|&index| is_idle(&self.list[index]))
            .min_by_key(|&index| self.list[index].last_heard);
        if let Some(index) = idle {
            self.forget(index, CloseReason::Idle, scope);
        }
        idle.is_some()
    }

    fn forget(&mut self, index: usize, reason: CloseReason, scope: &mut Scope<'_>) {
        let mut remote = self.list.swap_remove(index);
        self.index.remove(&(remote.node, remote.instance));
        self.agenda.remove(&(remote.scheduled, remote.node, remote.instance));
        if let Some(moved) = self.list.get(index) {
            self.index.insert((moved.node, moved.instance), index);
        }
        // Where one is left there is nothing to settle.
        let left = || self.list.iter().filter(|other| other.node == remote.node).count();
        if self.contests.contains_key(&remote.node) && left() <= 1 {
            self.contests.remove(&remote.node);
        }
        remote.close(reason, scope);
    }

    /// When the first of those that departed may be forgotten.
    fn departure(&self) -> Time {
        if !self.departing {
            return Time::NEVER;
        }
        let departed = self.list.iter().filter(|remote| remote.is_drained());
        departed.filter_map(|remote| remote.departed).map(|(_, at)| at).min().unwrap_or(Time::NEVER)
    }

    /// Forgets senders that are gone, once what came from them was read.
    pub fn forget_departed(&mut self, scope: &mut Scope<'_>) {
        if !self.departing {
            return;
        }
        let now = scope.now;
        let is_due = |at: Time, remote: &Remote| at <= now && remote.is_drained();
        let gone = |remote: &Remote| remote.departed.is_some_and(|(_, at)| is_due(at, remote));
        while let Some(index) = self.list.iter().position(gone) {
            let reason = self.list[index].departed.map_or(CloseReason::Ended, |(reason, _)| reason);
            self.forget(index, reason, scope);
        }
        self.departing = self.list.iter().any(|remote| remote.departed.is_some());
    }
}

/// Notes that a sender changed, once.
fn note_changed(changed: &mut Vec<(NodeId, u16)>, remote: &mut Remote) {
    if !std::mem::replace(&mut remote.is_noted, true) {
        changed.push((remote.node, remote.instance));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Stats};

    const NODE: NodeId = 7;

    fn hear(remotes: &mut Remotes, now: Time, instance: u16) {
        let config = Config::new(1, 1, 1);
        let (mut random, mut stats) = (fastrand::Rng::with_seed(1), Stats::default());
        let (mut memory_left, mut events) = (1 << 20, crate::event_queue::EventQueue::default());
        let scope = &mut Scope {
            now,
            config: &config,
            random: &mut random,
            memory_left: &mut memory_left,
            nacks: &mut Default::default(),
            has_room: true,
            stats: &mut stats,
            events: &mut events,
            sequence: 0,
            requests: &mut Default::default(),
            feedback: &mut Vec::new(),
        };
        let header = SenderHeader { sequence: 0, source: NODE, instance, grtt: 0, backoff: 4, group_size: 0 };
        let address = "10.0.0.7:7400".parse().unwrap();
        let from = Source { address, unicast: false, waited: Duration::ZERO };
        remotes.hear(from, &header, true, 100, scope).unwrap();
        remotes.forget_departed(scope);
    }

    #[test]
    fn a_stray_instance_is_forgotten_and_leaves_nothing_to_settle() {
        let mut remotes = Remotes::default();
        let mut now = Time::from_nanos(1);
        hear(&mut remotes, now, 1);
        hear(&mut remotes, now, 2);
        assert_eq!((remotes.list.len(), remotes.contests.len()), (2, 1));
        for _ in 0..60 {
            now += Duration::from_millis(100);
            hear(&mut remotes, now, 1);
        }
        assert_eq!((remotes.list.len(), remotes.contests.len()), (1, 0));
        assert!(remotes.get(NODE, 1).is_some());
    }

    #[test]
    fn a_sender_that_has_nothing_to_do_is_not_looked_at() {
        let mut remotes = Remotes::default();
        hear(&mut remotes, Time::from_nanos(1), 1);
        assert_eq!(remotes.deadline(), Time::NEVER);
        let mut looked_at = 0;
        remotes.serve(Time::from_nanos(1 << 40), |_| -> Option<()> {
            looked_at += 1;
            None
        });
        assert_eq!(looked_at, 0);
        remotes.get_mut(NODE, 1).unwrap().answer = Some((16, 1, Time::from_nanos(5)));
        assert_eq!(remotes.deadline(), Time::from_nanos(5));
        assert_eq!(
            remotes.serve(Time::from_nanos(5), |remote| remote.answer.take()).map(|(id, ..)| id),
            Some(16)
        );
        assert_eq!(remotes.deadline(), Time::NEVER);
    }
}
