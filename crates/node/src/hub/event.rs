//! What a hub tells its owner.

use std::sync::Arc;

use shoal_norm::NodeId;

/// How a member left.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It said goodbye.
    Left,
    /// It was silent for too long, or started again.
    Failed,
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
    /// Messages of a node are lost for good: so many segments of one of its lanes.
    Lost(NodeId, u32, u64),
    /// A node gets nowhere, and publishers no longer wait for it.
    Slow(NodeId),
    /// A node sends what cannot be read: why.
    Unreadable(NodeId, String),
    /// A link failed, and everything behind it is gone: which, and why.
    LinkFailed(String, Arc<str>),
}
