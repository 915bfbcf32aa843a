//! Publish and subscribe for Python.

pub mod body;
mod delivery;
mod events;
pub mod exit;
pub mod fork;
mod load;
mod load_sides;
mod message;
pub mod node;
mod outgoing;
pub mod properties;
mod publisher;
mod publishing;
mod rights;
pub mod rows;
mod seen;
mod subscription;
pub mod tcp;
mod topic_cache;
mod typed;

pub use events::event_to_python;
pub use fork::mark_forked;
pub use load_sides::{LoadPublisher, LoadSink};
pub use message::Message;
pub use node::Node;
pub use outgoing::priority_of;
pub use publisher::Publisher;
pub use rights::Rights;
pub use subscription::Subscription;
pub use tcp::{TcpLinks, Tls};
