//! Publish and subscribe: a NORM link, the members of its domain, and the subscriptions of this process.
//!
//! [`Bus`] is what others hold. [`application::BusApplication`] runs on the link's thread: it finds for
//! each message the subscriptions that want it and hands them over in batches, through
//! [`consumer::Consumer`]s, to whatever thread takes them.

mod application;
mod consumer;
mod flush;
mod handle;
mod inbox;
mod lanes;
mod local;
mod presence;

pub use application::BusEvent;
pub use consumer::{Batch, Consumer, Entry, Item, Overflow, Taken};
pub use handle::{Bus, BusOptions, Flush};
pub use lanes::Lane;
pub use local::{Domains, LocalSwitch};
