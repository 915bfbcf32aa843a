//! What a hub tells its owner.

use std::sync::Arc;

use shoal_norm::NodeId;
use shoal_wire::Process;

use super::chain::LinkId;
use crate::attributes::Origin;

/// How a member left.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It said goodbye.
    Left,
    /// It was silent for too long, or started again.
    Failed,
}

/// Messages that are lost to us.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The node that sent them, or should have.
    pub node: NodeId,
    /// Who published them.
    pub publisher: u64,
    /// In which chain.
    pub chain: u32,
    /// The first number; 0 if not known.
    pub first: u64,
    /// The last number; 0 if not known.
    pub last: u64,
    /// Segments of a NORM stream that were lost with them.
    pub segments: u64,
}

impl Lost {
    /// One message.
    pub(super) fn of(origin: &Origin, number: u64) -> Lost {
        let Origin { node, publisher, chain, .. } = *origin;
        Lost { node, publisher, chain, first: number, last: number, segments: 0 }
    }

    /// Takes in what follows it immediately. False if something else does.
    pub(super) fn extend(&mut self, next: &Lost) -> bool {
        let follows = self.first > 0
            && (self.node, self.publisher, self.chain) == (next.node, next.publisher, next.chain)
            && self.last.checked_add(1) == Some(next.first);
        if follows {
            self.last = next.last;
            self.segments += next.segments;
        }
        follows
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubEvent {
    /// A node is here.
    Joined(NodeId),
    /// A node is gone.
    Gone(NodeId, Departure),
    /// A node subscribes to something else now: what is new, and what no longer.
    Subscriptions(NodeId, Vec<String>, Vec<String>),
    /// Messages are lost to us for good.
    Lost(Lost),
    /// A node gets nowhere, and publishers no longer wait for it: which, and the program it is in, if it said so.
    Slow(NodeId, Option<Process>),
    /// A node sends what cannot be read: why.
    Unreadable(NodeId, String),
    /// Another node has our node id, and we took another one: which we had, and which we have.
    Renamed(NodeId, NodeId),
    /// A link failed, and everything behind it is gone: which, and why.
    LinkFailed(String, Arc<str>),
    /// The interface of a link is gone, and nothing goes out or comes in: which, and why.
    LinkDown(LinkId, String),
    /// The link is on an interface again: which, and our address there.
    LinkUp(LinkId, String),
    /// So many events before the next one were not taken in time, and are gone.
    Dropped(u64),
}
