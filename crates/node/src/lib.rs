//! The engine inside every process that connects: it decides which sessions and links get a message.
//!
//! Sans-IO: no sockets, files, threads, clock or random source of its own.

mod attributes;
mod clock_offset;
mod interest;
mod match_cache;
mod membership;
mod switch;
mod topic_index;

pub use attributes::{MessageAttributes, Origin};
pub use clock_offset::ClockOffset;
pub use interest::{
    AnnouncedInterest, Announcer, Applied, Entry as AnnouncedEntry, InterestBounds, OwnInterest,
};
pub use match_cache::{MATCH_CACHE_IDS_MAX, MATCH_CACHE_TOPICS_MAX};
pub use membership::{Departure, MemberEvent, Membership, MembershipConfig};
pub use switch::{Interest, SubscriptionId, Switch, Target};
pub use topic_index::TopicIndex;
