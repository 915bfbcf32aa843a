//! The messages of RFC 5740 on the wire: parsing into borrowed views, and writing.
//!
//! Parsing never allocates and never panics; what it refuses it names with a [`Reject`].
//! Lengths in a header are trusted only after they were compared with the datagram.

pub mod command;
pub mod extension;
pub mod feedback;
pub mod object;
pub mod payload_id;
pub mod repair;

use crate::stats::Reject;
pub use command::Command;
pub use extension::{CcFeedback, Delivered, Extensions, Fti};
pub use feedback::{Ack, AckType, Nack};
pub use object::{Data, Flags, Info, SEGMENT_HEADER_BYTES, SegmentHeader};
pub use payload_id::{FecId, PayloadId};
pub use repair::{RepairFlags, RepairForm, RepairRequests};

/// The protocol version of RFC 5740.
pub const VERSION: u8 = 1;
/// The header every message starts with (section 4.1).
pub const COMMON_HEADER_BYTES: usize = 8;

/// Message types (section 4.1).
pub mod message_type {
    #![allow(missing_docs)]
    pub const INFO: u8 = 1;
    pub const DATA: u8 = 2;
    pub const CMD: u8 = 3;
    pub const NACK: u8 = 4;
    pub const ACK: u8 = 5;
    pub const REPORT: u8 = 6;
}

/// What every message says first.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CommonHeader {
    /// The message type.
    pub kind: u8,
    /// Length of the header with its extensions, in bytes.
    pub header_bytes: usize,
    /// Counts the messages of a source, so that loss can be seen.
    pub sequence: u16,
    /// Who sent it.
    pub source: u32,
}

/// What every message of a sender says next (section 4.2).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderHeader {
    /// Counts the messages of this sender.
    pub sequence: u16,
    /// The sender.
    pub source: u32,
    /// Changes when the sender restarts.
    pub instance: u16,
    /// The sender's estimate of the group's round-trip time, quantised.
    pub grtt: u8,
    /// The back-off factor K.
    pub backoff: u8,
    /// The sender's estimate of the group's size, quantised.
    pub group_size: u8,
}

/// A parsed message.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// NORM_INFO
    Info(Info<'a>),
    /// NORM_DATA
    Data(Data<'a>),
    /// NORM_CMD
    Command(SenderHeader, Command<'a>),
    /// NORM_NACK
    Nack(Nack<'a>),
    /// NORM_ACK
    Ack(Ack<'a>),
    /// NORM_REPORT, which is experimental and carries nothing for us.
    Report,
}

impl Message<'_> {
    /// What a sender's message says first; `None` for what receivers say.
    pub fn sender_header(&self) -> Option<&SenderHeader> {
        match self {
            Message::Info(info) => Some(&info.header.sender),
            Message::Data(data) => Some(&data.header.sender),
            Message::Command(header, _) => Some(header),
            Message::Nack(_) | Message::Ack(_) | Message::Report => None,
        }
    }

    /// Where its header extensions start.
    pub fn extensions_at(&self) -> usize {
        match self {
            Message::Info(_) => object::OBJECT_HEADER_BYTES,
            Message::Data(data) => object::OBJECT_HEADER_BYTES + data.header.fec_id.payload_id_bytes(),
            Message::Command(_, command) => command.extensions_at(),
            Message::Nack(_) | Message::Ack(_) => feedback::FEEDBACK_HEADER_BYTES,
            Message::Report => COMMON_HEADER_BYTES,
        }
    }
}

/// Parses one datagram.
pub fn parse(bytes: &[u8]) -> Result<Message<'_>, Reject> {
    let common = parse_common(bytes)?;
    match common.kind {
        message_type::DATA => Data::parse(&common, bytes).map(Message::Data),
        message_type::INFO => Info::parse(&common, bytes).map(Message::Info),
        message_type::CMD => {
            let sender = parse_sender(&common, bytes)?;
            Command::parse(&common, bytes).map(|command| Message::Command(sender, command))
        }
        message_type::NACK => Nack::parse(&common, bytes).map(Message::Nack),
        message_type::ACK => Ack::parse(&common, bytes).map(Message::Ack),
        message_type::REPORT => Ok(Message::Report),
        _ => Err(Reject::UnknownType),
    }
}

/// Reads the header every message has.
pub fn parse_common(bytes: &[u8]) -> Result<CommonHeader, Reject> {
    let Some(header) = bytes.first_chunk::<COMMON_HEADER_BYTES>() else {
        return Err(Reject::Truncated);
    };
    if header[0] >> 4 != VERSION {
        return Err(Reject::Version);
    }
    let header_bytes = usize::from(header[1]) * 4;
    if header_bytes < COMMON_HEADER_BYTES {
        return Err(Reject::HeaderLength);
    }
    if header_bytes > bytes.len() {
        return Err(Reject::Truncated);
    }
    let source = read_u32(header, 4);
    if source == 0 || source == u32::MAX {
        return Err(Reject::ReservedNode);
    }
    Ok(CommonHeader { kind: header[0] & 0xf, header_bytes, sequence: read_u16(header, 2), source })
}

fn parse_sender(common: &CommonHeader, bytes: &[u8]) -> Result<SenderHeader, Reject> {
    if common.header_bytes < 16 {
        return Err(Reject::HeaderLength);
    }
    Ok(SenderHeader {
        sequence: common.sequence,
        source: common.source,
        instance: read_u16(bytes, 8),
        grtt: bytes[10],
        backoff: bytes[11] >> 4,
        group_size: bytes[11] & 0xf,
    })
}

/// Starts a message: writes the common header with `header_words` still to be set by [`finish_header`].
pub fn begin(out: &mut Vec<u8>, kind: u8, sequence: u16, source: u32) {
    out.clear();
    out.push(VERSION << 4 | kind);
    out.push(0);
    out.extend_from_slice(&sequence.to_be_bytes());
    out.extend_from_slice(&source.to_be_bytes());
}

/// Starts a sender's message: the common header and the sender's fields.
pub fn begin_sender(out: &mut Vec<u8>, kind: u8, header: &SenderHeader) {
    begin(out, kind, header.sequence, header.source);
    out.extend_from_slice(&header.instance.to_be_bytes());
    out.push(header.grtt);
    out.push(header.backoff << 4 | header.group_size & 0xf);
}

/// Ends the header of the message in `out` here; what follows is content.
pub fn finish_header(out: &mut [u8]) {
    debug_assert!(out.len().is_multiple_of(4) && out.len() / 4 <= 255);
    out[1] = (out.len() / 4) as u8;
}

pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
