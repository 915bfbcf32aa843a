//! Why something given to a session to send was not taken.

use std::fmt;

/// Why a stream took nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// There is no such stream, or it ended.
    NoStream,
    /// As many streams are open as the configuration allows.
    TooManyStreams,
    /// NORM_INFO is longer than a segment.
    InfoTooLong,
    /// The object is empty, or longer than its FEC scheme can number.
    ObjectLength,
    /// The system has no memory for the object, or for what the stream cannot do without.
    NoMemory,
}

impl fmt::Display for WriteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            WriteError::NoStream => "there is no such stream, or it was closed",
            WriteError::TooManyStreams => "too many streams are open: close one, or raise send_streams_max",
            WriteError::ObjectLength => {
                "an object must have at least one byte, and no more than its blocks can be numbered for"
            }
            WriteError::NoMemory => "there is no memory for it",
            WriteError::InfoTooLong => {
                "the info does not fit into one segment: shorten it, or raise segment_bytes"
            }
        })
    }
}

impl std::error::Error for WriteError {}
