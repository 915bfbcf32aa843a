//! How a NORM link is opened, and why it may not be.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;

use shoal_norm::{Config, ConfigError, NodeId, StreamOptions, WriteError};
use shoal_seal::Keys;

use crate::udp::{LinkAddress, SocketOptions};

/// An instance id for a new run of a node. Receivers tell by it that what they know of the node is of an earlier
/// run, and so it comes from the system's randomness, not from a seed that may be the same each time.
pub fn fresh_instance() -> u16 {
    RandomState::new().hash_one(std::process::id()) as u16
}

/// Who publishes, for a new connection: a number that no connection had before, and never 0.
pub fn fresh_publisher() -> u64 {
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // The system's randomness is copied into a forked child, where the process is another one.
    RandomState::new().hash_one((std::process::id(), moment.as_nanos())).max(1)
}

/// The same for a router: of two, the one that began in an earlier second has the smaller number, and serves what both can. One that
/// returns has heard nothing of what was published meanwhile, and the other has.
pub fn fresh_router() -> u64 {
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (moment.as_secs() << 32 | fresh_publisher() & 0xffff_ffff).max(1)
}

/// A NORM link.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Where it is.
    pub address: LinkAddress,
    /// Its sockets.
    pub sockets: SocketOptions,
    /// Its session.
    pub norm: Config,
    /// Whether segments are as long as the interface takes them; otherwise the session says how long.
    pub fit_segments: bool,
    /// The streams of its lanes. None makes a link that only receives.
    pub lanes: Vec<StreamOptions>,
    /// Whose acknowledgements windows and watermarks wait for.
    pub ackers: Vec<NodeId>,
    /// Bytes that may wait in a lane before its publishers wait.
    pub lane_bytes_max: usize,
    /// The longest message to send or to take.
    pub message_bytes_max: usize,
    /// Where received files go, for an application that stores them.
    pub files_directory: Option<PathBuf>,
    /// Whether closing ends the streams; otherwise it only says goodbye.
    pub end_streams: bool,
    /// The keys of its group, if it has any: then every datagram is sealed.
    pub keys: Option<Keys>,
    /// Share of received datagrams to throw away, for tests of repair.
    pub drop_received: f64,
}

impl LinkOptions {
    /// A link with one lane and the usual bounds.
    pub fn new(address: LinkAddress, norm: Config) -> LinkOptions {
        LinkOptions {
            address,
            sockets: SocketOptions::default(),
            norm,
            fit_segments: false,
            lanes: vec![StreamOptions::default()],
            ackers: Vec::new(),
            lane_bytes_max: 1 << 20,
            message_bytes_max: 128 << 20,
            files_directory: None,
            end_streams: true,
            keys: None,
            drop_received: 0.0,
        }
    }
}

/// Why a link could not be opened.
#[derive(Debug)]
pub enum LinkError {
    /// An option cannot work.
    Config(ConfigError),
    /// A stream cannot be opened.
    Stream(WriteError),
    /// The system refused.
    Io(io::Error),
}

impl fmt::Display for LinkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Config(error) => error.fmt(out),
            LinkError::Stream(error) => error.fmt(out),
            LinkError::Io(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for LinkError {}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        LinkError::Io(error)
    }
}
