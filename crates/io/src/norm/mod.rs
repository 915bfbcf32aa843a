//! NORM links: a session, its sockets and the thread that drives them.
//!
//! [`NormLink`] is what others hold. What they send goes through [`outbox::Outbox`], a bounded buffer
//! per lane; what arrives goes, on the link's thread, to an [`Application`]. The engine is under a lock, so
//! that a publisher whose link is idle can send by itself instead of waking the thread for it.

mod application;
mod bulk;
mod engine;
mod frames;
mod lane;
mod link;
mod outbox;
mod queue;
mod verify;

pub use application::{Application, Taken};
pub use bulk::{BulkReport, receive_bulk, send_bulk};
pub use frames::Frames;
pub use link::{LaneOptions, LinkError, LinkOptions, NormLink, fresh_instance};
pub use outbox::{Full, Outbox, SendError};
pub use queue::{Arrival, Queue, QueueInbox};
pub use verify::{Verified, VerifyInbox, fill_pattern};
