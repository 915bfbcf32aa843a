//! The engine inside every process that connects: it decides which sessions and links get a message.
//!
//! Sans-IO: no sockets, files, threads, clock or random source of its own.
//!
//! - [`hub`] has the hub, and the seam between it and whoever drives a link;
//! - [`norm`] drives NORM links, [`tcp`] those over TCP, [`udp`] those without repair, and [`inproc`] those inside a process;
//! - [`Node`] is a hub with its NORM link, all in one, for simulations;
//! - [`Membership`] is how the nodes of a group find each other.

pub mod hub;
pub mod inproc;
pub mod norm;
pub mod tcp;
pub mod udp;

mod attributes;
mod clock_offset;
mod interest;
mod load;
mod map;
mod match_cache;
mod membership;
mod node;
mod switch;
mod topic_index;

pub use attributes::{MessageAttributes, Origin};
pub use clock_offset::ClockOffset;
pub use hub::{Chains, Hub, HubConfig, HubEvent};
pub use interest::{
    AnnouncedInterest, Announcer, Applied, Entry as AnnouncedEntry, InterestBounds, OwnInterest,
};
pub use load::{Load, LoadPlace, LoadRow};
pub use match_cache::{MATCH_CACHE_IDS_MAX, MATCH_CACHE_TOPICS_MAX};
pub use membership::{MemberEvent, Membership, MembershipConfig};
pub use node::{Moment, Node, NodeConfig};
pub use switch::{Interest, Scope, SubscriptionId, Switch, Target};
pub use topic_index::TopicIndex;
