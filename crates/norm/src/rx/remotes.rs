//! The senders this receiver listens to, found by node and instance.
//!
//! A node that starts over speaks as another instance. Its last words as the one before may arrive after its first
//! ones as the new one, and instances have no order. So both are listened to until the new one was heard a few times
//! without another between: from then on it is the node.

use std::collections::HashMap;
use std::time::Duration;

use super::remote::Remote;
use super::shared::Shared;
use crate::NodeId;
use crate::datagram::Source;
use crate::event::{CloseReason, Event};
use crate::stats::Reject;
use crate::time::Time;
use crate::wire::SenderHeader;

/// A sender of which hardly anything was heard may be forgotten after so short a silence.
const STRANGER_IDLE_AFTER: Duration = Duration::from_secs(1);
/// A new instance that was heard so often in a row is the one that runs.
const HEARD_IN_A_ROW: u32 = 4;
/// So many new instances of one node are listened to while it is open which of them runs.
const RIVALS_MAX: usize = 4;
/// What comes so long after the instance that followed it was heard is not late.
const LATE_MAX: Duration = Duration::from_secs(5);
/// Nodes remembered of those that found no room.
const KNOCKS: usize = 256;

/// A node of which several instances were heard lately.
#[derive(Debug)]
struct Contest {
    node: NodeId,
    /// The one it was before.
    incumbent: u16,
    /// Which spoke last, and how often in a row.
    last: u16,
    in_a_row: u32,
}

/// The senders.
#[derive(Debug, Default)]
pub struct Remotes {
    list: Vec<Remote>,
    index: HashMap<(NodeId, u16), usize>,
    /// Some departed and may be forgotten once read.
    departing: bool,
    contests: Vec<Contest>,
    /// Nodes that found no room, each in the place its id gives it.
    knocks: Vec<NodeId>,
}

impl Remotes {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Remote> {
        self.list.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Remote> {
        self.list.iter_mut()
    }

    /// The sender with this node and instance, if it is known.
    pub fn get(&self, node: NodeId, instance: u16) -> Option<&Remote> {
        self.index.get(&(node, instance)).and_then(|&index| self.list.get(index))
    }

    /// The same, to be changed.
    pub fn find(&mut self, node: NodeId, instance: u16) -> Option<&mut Remote> {
        let index = *self.index.get(&(node, instance))?;
        self.list.get_mut(index)
    }

    /// A sender said goodbye.
    pub fn note_departure(&mut self) {
        self.departing = true;
    }

    /// Finds the sender of a message, or gets to know it. `None` if it is not to be listened to.
    pub fn hear(
        &mut self,
        now: Time,
        from: Source,
        header: &SenderHeader,
        new_is_welcome: bool,
        datagram_bytes: usize,
        shared: &mut Shared<'_>,
    ) -> Result<Option<&mut Remote>, Reject> {
        if let Some(&index) = self.index.get(&(header.source, header.instance)) {
            self.list[index].hear(header, from, now, datagram_bytes);
            if self.contests.is_empty() {
                return Ok(self.list.get_mut(index));
            }
            self.settle_contest(now, header.source, header.instance, shared);
            return Ok(self.find(header.source, header.instance));
        }
        if !new_is_welcome {
            return Ok(None);
        }
        let previous = self.list.iter().rposition(|remote| remote.node == header.source);
        if let Some(previous) = previous
            && self.list[previous].previous == Some(header.instance)
            && now.since(self.list[previous].last_heard) < LATE_MAX
        {
            return Err(Reject::StaleInstance);
        }
        let known = previous.map(|index| self.list[index].instance);
        if self.list.len() >= shared.config.senders_max
            && !(self.knocked_before(header.source) && self.forget_idle(now, shared))
        {
            return Err(Reject::TooManySenders);
        }
        if let Some(known) = known {
            self.contest(header, known, shared);
        }
        let remote = Remote::new(header, from, now);
        shared.events.push_back(Event::SenderHeard { node: remote.node, instance: remote.instance });
        self.index.insert((remote.node, remote.instance), self.list.len());
        self.list.push(remote);
        Ok(self.list.last_mut())
    }

    /// Another instance of a known node speaks.
    fn contest(&mut self, header: &SenderHeader, known: u16, shared: &mut Shared<'_>) {
        let at = self.contests.iter().position(|contest| contest.node == header.source);
        let incumbent = at.map_or(known, |at| self.contests.swap_remove(at).incumbent);
        let is_rival = |remote: &Remote| remote.node == header.source && remote.instance != incumbent;
        let rivals = || (0..self.list.len()).filter(|&index| is_rival(&self.list[index]));
        if rivals().count() >= RIVALS_MAX
            && let Some(oldest) = rivals().min_by_key(|&index| self.list[index].last_heard)
        {
            self.forget(oldest, CloseReason::Restarted, shared);
        }
        self.contests.push(Contest { node: header.source, incumbent, last: header.instance, in_a_row: 1 });
    }

    /// An instance was heard. A new one that was heard often enough in a row is the node from now on.
    fn settle_contest(&mut self, now: Time, node: NodeId, instance: u16, shared: &mut Shared<'_>) {
        let Some(at) = self.contests.iter().position(|contest| contest.node == node) else { return };
        let contest = &mut self.contests[at];
        contest.in_a_row = if contest.last == instance { contest.in_a_row + 1 } else { 1 };
        contest.last = instance;
        let others = |remote: &Remote| remote.node == node && remote.instance != instance;
        if instance == contest.incumbent {
            // Whatever else was heard of the node was late, or it would have been heard again.
            let is_late = |remote: &Remote| others(remote) && now.since(remote.last_heard) >= LATE_MAX;
            while let Some(index) = self.list.iter().position(is_late) {
                self.forget(index, CloseReason::Restarted, shared);
            }
        } else if contest.in_a_row >= HEARD_IN_A_ROW {
            let incumbent = contest.incumbent;
            self.contests.swap_remove(at);
            for remote in self.list.iter_mut().filter(|remote| others(remote)) {
                remote.departed = Some(CloseReason::Restarted);
                self.departing = true;
            }
            if let Some(winner) = self.find(node, instance) {
                winner.previous = Some(incumbent);
            }
        }
    }

    /// Whether a node that finds no room found none a short time ago too. Ids made up one after the other do not
    /// come back, so they take nobody's place, and do not keep an honest newcomer out.
    fn knocked_before(&mut self, node: NodeId) -> bool {
        self.knocks.resize(KNOCKS, 0);
        let place = node.wrapping_mul(0x9e37_79b1) >> (u32::BITS - KNOCKS.ilog2());
        std::mem::replace(&mut self.knocks[place as usize], node) == node
    }

    /// Makes room by forgetting the sender that was silent longest, of those that were silent long enough.
    fn forget_idle(&mut self, now: Time, shared: &mut Shared<'_>) -> bool {
        let is_idle = |remote: &Remote| {
            let long = shared.config.sender_idle_after;
            let enough = if remote.is_established() { long } else { long.min(STRANGER_IDLE_AFTER) };
            now.since(remote.last_heard) >= enough
        };
        let idle = (0..self.list.len())
            .filter(|&index| is_idle(&self.list[index]))
            .min_by_key(|&index| self.list[index].last_heard);
        if let Some(index) = idle {
            self.forget(index, CloseReason::Idle, shared);
        }
        idle.is_some()
    }

    fn forget(&mut self, index: usize, reason: CloseReason, shared: &mut Shared<'_>) {
        let mut remote = self.list.swap_remove(index);
        self.index.remove(&(remote.node, remote.instance));
        if let Some(moved) = self.list.get(index) {
            self.index.insert((moved.node, moved.instance), index);
        }
        if !self.contests.is_empty() && !self.list.iter().any(|other| other.node == remote.node) {
            self.contests.retain(|contest| contest.node != remote.node);
        }
        remote.close(reason, shared);
    }

    /// Forgets senders that are gone, once what came from them was read.
    pub fn forget_departed(&mut self, shared: &mut Shared<'_>) {
        if !self.departing {
            return;
        }
        let gone = |remote: &Remote| remote.departed.filter(|_| remote.is_drained());
        while let Some((index, reason)) = self
            .list
            .iter()
            .enumerate()
            .find_map(|(index, remote)| gone(remote).map(|reason| (index, reason)))
        {
            self.forget(index, reason, shared);
        }
        self.departing = self.list.iter().any(|remote| remote.departed.is_some());
    }
}
