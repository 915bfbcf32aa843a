//! NORM_NACK and NORM_ACK (RFC 5740 section 4.3).

use super::command::Position;
use super::{CcFeedback, CommonHeader, Extensions, begin, finish_header, message_type, read_u16, read_u32};
use crate::stats::Reject;
use crate::time::Time;

pub(super) const FEEDBACK_HEADER_BYTES: usize = 24;

/// What NORM_NACK and NORM_ACK say alike.
#[derive(Copy, Clone, Debug)]
pub struct FeedbackHeader {
    /// Counts the feedback of this receiver.
    pub sequence: u16,
    /// The receiver that speaks.
    pub source: u32,
    /// The sender it speaks to.
    pub sender: u32,
    /// The sender's instance.
    pub instance: u16,
    /// The sender's probe time plus how long the receiver held it; zero if it heard no probe.
    pub probe_response: Time,
    /// Congestion feedback, if any.
    pub cc: Option<CcFeedback>,
}

impl FeedbackHeader {
    fn parse(common: &CommonHeader, bytes: &[u8]) -> Result<FeedbackHeader, Reject> {
        if common.header_bytes < FEEDBACK_HEADER_BYTES {
            return Err(Reject::HeaderLength);
        }
        let extensions = Extensions::read(&bytes[FEEDBACK_HEADER_BYTES..common.header_bytes], None)?;
        Ok(FeedbackHeader {
            sequence: common.sequence,
            source: common.source,
            sender: read_u32(bytes, 8),
            instance: read_u16(bytes, 12),
            probe_response: Time::from_probe(read_u32(bytes, 16), read_u32(bytes, 20)),
            cc: extensions.cc,
        })
    }

    fn write(&self, kind: u8, ack: [u8; 2], out: &mut Vec<u8>) {
        begin(out, kind, self.sequence, self.source);
        out.extend_from_slice(&self.sender.to_be_bytes());
        out.extend_from_slice(&self.instance.to_be_bytes());
        out.extend_from_slice(&ack);
        let (seconds, micros) = self.probe_response.to_probe();
        out.extend_from_slice(&seconds.to_be_bytes());
        out.extend_from_slice(&micros.to_be_bytes());
        if let Some(cc) = self.cc {
            cc.write(out);
        }
        finish_header(out);
    }
}

/// NORM_NACK
#[derive(Clone, Debug)]
pub struct Nack<'a> {
    /// Who says what to whom.
    pub header: FeedbackHeader,
    /// Repair requests; [`super::RepairRequests`] reads them.
    pub requests: &'a [u8],
}

impl<'a> Nack<'a> {
    pub(super) fn parse(common: &CommonHeader, bytes: &'a [u8]) -> Result<Nack<'a>, Reject> {
        let header = FeedbackHeader::parse(common, bytes)?;
        Ok(Nack { header, requests: &bytes[common.header_bytes..] })
    }

    /// Writes a whole NORM_NACK message.
    pub fn write(header: &FeedbackHeader, requests: &[u8], out: &mut Vec<u8>) {
        header.write(message_type::NACK, [0, 0], out);
        out.extend_from_slice(requests);
    }
}

/// What a NORM_ACK acknowledges.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AckType {
    /// NORM_ACK(CC): a probe.
    Probe,
    /// NORM_ACK(FLUSH): everything up to a watermark.
    Flush(Position),
    /// Something an application defined: ack_type and ack_id.
    Other(u8, u8),
}

const ACK_CC: u8 = 1;
const ACK_FLUSH: u8 = 2;

/// NORM_ACK
#[derive(Clone, Debug)]
pub struct Ack<'a> {
    /// Who says what to whom.
    pub header: FeedbackHeader,
    /// What is acknowledged.
    pub kind: AckType,
    /// What an application put there.
    pub content: &'a [u8],
}

impl<'a> Ack<'a> {
    pub(super) fn parse(common: &CommonHeader, bytes: &'a [u8]) -> Result<Ack<'a>, Reject> {
        let header = FeedbackHeader::parse(common, bytes)?;
        let content = &bytes[common.header_bytes..];
        let kind = match bytes[14] {
            ACK_CC => AckType::Probe,
            ACK_FLUSH => AckType::Flush(Position::read_item(content)?),
            other => AckType::Other(other, bytes[15]),
        };
        Ok(Ack { header, kind, content })
    }
}

/// Writes NORM_ACK(CC).
pub fn write_probe_ack(header: &FeedbackHeader, out: &mut Vec<u8>) {
    header.write(message_type::ACK, [ACK_CC, 0], out);
}

/// Writes a NORM_ACK of a type that an application defined.
pub fn write_other_ack(header: &FeedbackHeader, ack_type: u8, ack_id: u8, out: &mut Vec<u8>) {
    header.write(message_type::ACK, [ack_type, ack_id], out);
}

/// Writes NORM_ACK(FLUSH).
pub fn write_flush_ack(header: &FeedbackHeader, position: Position, out: &mut Vec<u8>) {
    header.write(message_type::ACK, [ACK_FLUSH, 0], out);
    position.write(out);
}
