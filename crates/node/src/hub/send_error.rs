//! Why nothing was published.

use std::fmt;
use std::sync::Arc;

/// Why nothing was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The lane is full, and stayed so for as long as was allowed.
    Full,
    /// The link is closed.
    Closed,
    /// The link failed: why.
    Failed(Arc<str>),
    /// Longer than a frame may be: its length, and the bound.
    TooLong(usize, usize),
    /// Longer than whoever wants it takes: its length, and the bound of one of them.
    TooLongThere(usize, usize),
    /// There is no such lane.
    NoLane,
    /// The system has no memory for so many bytes.
    NoMemory(usize),
}

impl fmt::Display for SendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full => {
                write!(out, "the send buffer is full: its receivers are slower than its publishers")
            }
            SendError::Closed => write!(out, "the link is closed"),
            SendError::Failed(why) => write!(out, "the link failed: {why}"),
            SendError::TooLong(length, bound) => {
                write!(out, "a message of {length} bytes is longer than the bound of {bound} bytes")
            }
            SendError::TooLongThere(length, bound) => write!(
                out,
                "a message of {length} bytes is longer than anybody who wants it takes: message_bytes_max is \
                 {bound} at the other end"
            ),
            SendError::NoLane => write!(out, "there is no such lane"),
            SendError::NoMemory(length) => write!(out, "there is no memory for a message of {length} bytes"),
        }
    }
}

impl std::error::Error for SendError {}
