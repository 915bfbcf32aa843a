//! One log that several stores keep: an entry counts when a majority of their disks has it.
//!
//! The stores of a *group* are its *members*. They elect one *owner* for a *term*; the owner appends entries, the
//! others follow. An entry is *committed* when a majority of the voters has it on disk. No committed entry is
//! lost while a majority of the disks survives. Raft (Ongaro, 2014) decides this; the engine is raft-rs.
//!
//! A [`Replica`] is one member. It owns no socket, disk, clock or random source:
//!
//! | kind | calls |
//! |---|---|
//! | input | [`handle_message`](Replica::handle_message), [`handle_timeout`](Replica::handle_timeout), [`handle_synced`](Replica::handle_synced) |
//! | commands | [`propose`](Replica::propose), [`change_members`](Replica::change_members), [`transfer`](Replica::transfer), [`install`](Replica::install), [`decline`](Replica::decline) |
//! | output | [`poll_sync`](Replica::poll_sync), then [`poll_transmit`](Replica::poll_transmit), [`poll_committed`](Replica::poll_committed), [`poll_event`](Replica::poll_event), [`poll_timeout`](Replica::poll_timeout) |
//!
//! The log is the caller's ([`Entries`]): the replica appends to it in memory, and the caller syncs it. While the
//! disk works, the owner's messages are on their way; a follower's answer waits for its own disk.
//!
//! *Lease.* Raft alone lets a deposed owner believe for a while that it is one. An owner may deliver only while
//! [`Replica::owns`] is true: a majority of the voters answered to what it sent less than an election timeout ago,
//! and each of them promised with its answer to vote for no other member for that long. A member that has just
//! started does not vote for an election timeout either, because it may have promised before.
//!
//! *Bytes from the network* are read by [`message`] alone. Nothing of raft-rs's protocol buffers is parsed.

#![forbid(unsafe_code)]

mod entries;
mod kept;
mod lease;
mod member_log;
mod message;
mod replica;
mod storage;

pub use entries::{Change, Content, Entries, Entry, LogError, Members, Snapshot, State};
pub use member_log::{Beginning, Founding, MemberLog};
pub use message::{MESSAGE_BYTES_MAX, MessageError, term_of};
pub use replica::{Committed, Event, Options, Refused, Replica, Transmit};
