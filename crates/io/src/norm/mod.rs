//! NORM links: a driver, its sockets and the thread that moves datagrams between them.
//!
//! [`NormLink`] is what others hold. What they send waits in a bounded buffer per lane ([`shoal_node::Chains`]); what
//! arrives goes, on the link's thread, to a [`shoal_node::norm::Application`]. The engine is under a lock, so
//! that a publisher whose link is idle can send by itself instead of waking the thread for it.

mod engine;
mod link;
mod queue;
mod sealing;

pub use link::{
    Full, LinkError, LinkOptions, NormBell, NormLink, fresh_instance, fresh_publisher, fresh_router,
};
pub use queue::{Arrival, Queue, QueueInbox};
pub use shoal_node::hub::SendError;
