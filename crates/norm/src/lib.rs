//! NORM (RFC 5740) as a sans-IO engine.
//!
//! A [`Session`] is one member of one multicast group: it may send, and it receives from every
//! other sender it hears. It owns no socket, clock, thread or random source; time and a seed come
//! in as arguments, and datagrams come out.
//!
//! Its methods are of four kinds:
//!
//! * **input**: [`Session::handle_datagram`], [`Session::handle_timeout`];
//! * **commands**: [`Session::open_stream`], [`Session::write`], [`Session::flush`],
//!   [`Session::request_watermark`], [`Session::close_stream`], [`Session::leave`],
//!   [`Session::consume`];
//! * **output**: [`Session::poll_transmit`], [`Session::poll_event`], [`Session::poll_timeout`];
//! * **getters**: everything else.
//!
//! After any input or command, poll transmits until `None`, then events until `None`, then ask for
//! the next timeout. Reading a stream frees room in its window, so it counts as a command.

#![forbid(unsafe_code)]

mod auth;
mod backoff;
pub mod config;
mod config_rules;
mod congestion;
mod datagram;
mod effort;
pub mod event;
mod event_queue;
mod grtt;
mod layout;
mod pacing;
pub mod quantize;
mod receiving;
mod runs;
mod rx;
mod sending;
mod serial;
mod session;
mod share;
pub mod stats;
mod time;
mod tx;
mod wanted;
pub mod wire;
mod write_error;

pub use auth::{AUTH_CONTENT_BYTES_MAX, AuthLabel, Authenticator};
pub use config::{
    Config, ConfigError, CongestionControl, FecId, FeedbackMode, Join, NackingMode, RepairPolicy,
    StreamOptions, SyncPolicy, Watermark,
};
pub use datagram::{Destination, Source, Transmit};
pub use event::{AbortReason, CloseReason, Event, GapReason, ObjectKind, StreamId};
pub use runs::Runs;
pub use rx::{Chunk, Take};
pub use session::Session;
pub use share::{Share, next_to_send};
pub use stats::{Reject, Stats};
pub use time::Time;
pub use tx::objects::FileRead;
pub use tx::stream::StreamState;
pub use write_error::WriteError;

/// A NORM node identifier; 0 and 0xffff_ffff are reserved by RFC 5740 section 4.1.
pub type NodeId = u32;
/// An object_transport_id.
pub type ObjectId = u16;
