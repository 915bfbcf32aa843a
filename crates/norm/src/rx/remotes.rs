//! The senders this receiver listens to, found by node and instance.

use std::collections::HashMap;

use super::remote::Remote;
use super::shared::Shared;
use crate::NodeId;
use crate::datagram::Source;
use crate::event::{CloseReason, Event};
use crate::stats::Reject;
use crate::time::Time;
use crate::wire::SenderHeader;

/// The senders.
#[derive(Debug, Default)]
pub struct Remotes {
    list: Vec<Remote>,
    index: HashMap<(NodeId, u16), usize>,
    /// Some departed and may be forgotten once read.
    departing: bool,
}

impl Remotes {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Remote> {
        self.list.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Remote> {
        self.list.iter_mut()
    }

    /// The sender with this node and instance, if it is known.
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
            self.list[index].hear(header, from.address, now, datagram_bytes);
            return Ok(self.list.get_mut(index));
        }
        if !new_is_welcome {
            return Ok(None);
        }
        let previous = self.list.iter().rposition(|remote| remote.node == header.source);
        if let Some(previous) = previous
            && self.list[previous].previous == Some(header.instance)
        {
            return Err(Reject::StaleInstance);
        }
        if self.list.len() >= shared.config.senders_max && !self.forget_idle(now, shared) {
            return Err(Reject::TooManySenders);
        }
        let mut remote = Remote::new(header, from.address, now);
        if let Some(old) = self.list.iter_mut().rfind(|remote| remote.node == header.source) {
            remote.previous = Some(old.instance);
            old.departed = Some(CloseReason::Restarted);
            self.departing = true;
        }
        shared.events.push_back(Event::SenderHeard { node: remote.node, instance: remote.instance });
        self.index.insert((remote.node, remote.instance), self.list.len());
        self.list.push(remote);
        Ok(self.list.last_mut())
    }

    /// Makes room by forgetting the sender that was silent longest, if it was silent long enough.
    fn forget_idle(&mut self, now: Time, shared: &mut Shared<'_>) -> bool {
        let oldest = (0..self.list.len()).min_by_key(|&index| self.list[index].last_heard);
        let idle =
            oldest.filter(|&index| now.since(self.list[index].last_heard) >= shared.config.sender_idle_after);
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
