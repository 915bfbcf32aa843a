//! NORM_CMD (RFC 5740 section 4.2.3).

use super::{
    CommonHeader, Extensions, FecId, PayloadId, SenderHeader, begin_sender, extension, finish_header,
    message_type, read_u16, read_u32,
};
use crate::stats::Reject;
use crate::time::Time;

mod flavor {
    pub const FLUSH: u8 = 1;
    pub const EOT: u8 = 2;
    pub const SQUELCH: u8 = 3;
    pub const CC: u8 = 4;
    pub const REPAIR_ADV: u8 = 5;
    pub const ACK_REQ: u8 = 6;
    pub const APPLICATION: u8 = 7;
}

/// Where fields common to all flavors end.
const COMMAND_HEADER_BYTES: usize = 16;
/// Where the fields of a probe end.
const PROBE_HEADER_BYTES: usize = 24;
/// Bytes of one entry of cc_node_list.
const CC_NODE_BYTES: usize = 8;

/// A position in a sender's transmission.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The FEC scheme its payload id is written in.
    pub fec_id: FecId,
    /// The object.
    pub object: u16,
    /// The place in it.
    pub payload_id: PayloadId,
}

impl Position {
    fn read(bytes: &[u8]) -> Result<Position, Reject> {
        let fec_id = FecId::from_number(bytes[13])?;
        let payload_id = PayloadId::read(fec_id, &bytes[COMMAND_HEADER_BYTES..])?;
        Ok(Position { fec_id, object: read_u16(bytes, 14), payload_id })
    }

    /// Reads what is written as [`Position::write`] does; how many bytes that took is up to its scheme.
    pub(super) fn read_item(bytes: &[u8]) -> Result<Position, Reject> {
        let [number, _, _, _, payload_id @ ..] = bytes else { return Err(Reject::Truncated) };
        let fec_id = FecId::from_number(*number)?;
        Ok(Position { fec_id, object: read_u16(bytes, 2), payload_id: PayloadId::read(fec_id, payload_id)? })
    }

    /// Appends it: its scheme, a byte that nobody uses, the object, the place.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.fec_id.number(), 0]);
        self.write_place(out);
    }

    fn write_place(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.object.to_be_bytes());
        self.payload_id.write(self.fec_id, out);
    }
}

/// NORM_CMD by flavor.
#[derive(Clone, Debug)]
pub enum Command<'a> {
    /// Everything up to here was sent; whoever is listed acknowledges it.
    Flush {
        /// The last segment sent, or the watermark.
        position: Position,
        /// Four bytes per node.
        ackers: &'a [u8],
    },
    /// The sender leaves.
    EndOfTransmission,
    /// Nothing before here can be repaired.
    Squelch {
        /// The oldest segment that can.
        position: Position,
        /// Two bytes per object that cannot, though it is not before the position.
        invalid: &'a [u8],
    },
    /// A probe for round-trip times and congestion feedback.
    CongestionControl {
        /// cc_sequence
        sequence: u16,
        /// When it was sent, by the sender's clock.
        sent_at: Time,
        /// EXT_RATE, if feedback is wanted from everybody.
        rate: Option<u16>,
        /// Eight bytes per node.
        nodes: &'a [u8],
    },
    /// What others asked for by unicast.
    RepairAdvertisement {
        /// Repair requests, as in a NACK.
        content: &'a [u8],
    },
    /// A request for acknowledgements of another kind.
    AckRequest {
        /// ack_type
        ack_type: u8,
        /// ack_id
        ack_id: u8,
        /// Four bytes per node.
        nodes: &'a [u8],
    },
    /// Whatever an application sends.
    Application(&'a [u8]),
}

impl<'a> Command<'a> {
    pub(super) fn parse(common: &CommonHeader, bytes: &'a [u8]) -> Result<Command<'a>, Reject> {
        let header_bytes = common.header_bytes;
        let (header, content) = bytes.split_at(header_bytes);
        match bytes[12] {
            flavor::FLUSH => Ok(Command::Flush { position: Position::read(header)?, ackers: content }),
            flavor::SQUELCH => Ok(Command::Squelch { position: Position::read(header)?, invalid: content }),
            flavor::EOT => Ok(Command::EndOfTransmission),
            flavor::CC => {
                if header_bytes < PROBE_HEADER_BYTES {
                    return Err(Reject::HeaderLength);
                }
                let extensions = Extensions::read(&bytes[PROBE_HEADER_BYTES..header_bytes], None)?;
                Ok(Command::CongestionControl {
                    sequence: read_u16(bytes, 14),
                    sent_at: Time::from_probe(read_u32(bytes, 16), read_u32(bytes, 20)),
                    rate: extensions.rate,
                    nodes: content,
                })
            }
            flavor::REPAIR_ADV => Ok(Command::RepairAdvertisement { content }),
            flavor::ACK_REQ => {
                Ok(Command::AckRequest { ack_type: bytes[14], ack_id: bytes[15], nodes: content })
            }
            flavor::APPLICATION => Ok(Command::Application(content)),
            _ => Err(Reject::UnknownType),
        }
    }

    pub(super) fn extensions_at(&self) -> usize {
        match self {
            Command::Flush { position, .. } | Command::Squelch { position, .. } => {
                COMMAND_HEADER_BYTES + position.fec_id.payload_id_bytes()
            }
            Command::CongestionControl { .. } => PROBE_HEADER_BYTES,
            _ => COMMAND_HEADER_BYTES,
        }
    }
}

/// Whether `node` is in a list of four-byte node ids.
pub fn lists_node(list: &[u8], node: u32) -> bool {
    list.chunks_exact(4).any(|entry| entry == node.to_be_bytes())
}

/// An entry of cc_node_list: a receiver whose answers the sender wants at once.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CcNode {
    /// The receiver.
    pub node: u32,
    /// As in [`super::CcFeedback`].
    pub flags: u8,
    /// Its round-trip time as the sender measures it, quantised.
    pub rtt: u8,
    /// The rate it can take, quantised.
    pub rate: u16,
}

/// What a cc_node_list says about `node`.
pub fn find_cc_node(list: &[u8], node: u32) -> Option<CcNode> {
    let entry = list.chunks_exact(CC_NODE_BYTES).find(|entry| entry[..4] == node.to_be_bytes())?;
    Some(CcNode { node, flags: entry[4], rtt: entry[5], rate: read_u16(entry, 6) })
}

/// Writes the header of a command whose fields are these three bytes.
fn write_command(header: &SenderHeader, flavor: u8, fields: [u8; 3], out: &mut Vec<u8>) {
    begin_sender(out, message_type::CMD, header);
    out.push(flavor);
    out.extend_from_slice(&fields);
    finish_header(out);
}

/// Writes the header of a command that names a position.
fn write_positioned(header: &SenderHeader, flavor: u8, position: Position, out: &mut Vec<u8>) {
    begin_sender(out, message_type::CMD, header);
    out.extend_from_slice(&[flavor, position.fec_id.number()]);
    position.write_place(out);
    finish_header(out);
}

fn write_nodes(nodes: &[u32], out: &mut Vec<u8>) {
    nodes.iter().for_each(|node| out.extend_from_slice(&node.to_be_bytes()));
}

/// Writes NORM_CMD(FLUSH); `ackers` may be empty.
pub fn write_flush(header: &SenderHeader, position: Position, ackers: &[u32], out: &mut Vec<u8>) {
    write_positioned(header, flavor::FLUSH, position, out);
    write_nodes(ackers, out);
}

/// Writes NORM_CMD(SQUELCH).
pub fn write_squelch(
    header: &SenderHeader,
    position: Position,
    invalid: impl IntoIterator<Item = u16>,
    out: &mut Vec<u8>,
) {
    write_positioned(header, flavor::SQUELCH, position, out);
    invalid.into_iter().for_each(|object| out.extend_from_slice(&object.to_be_bytes()));
}

/// Writes NORM_CMD(EOT).
pub fn write_end_of_transmission(header: &SenderHeader, out: &mut Vec<u8>) {
    write_command(header, flavor::EOT, [0; 3], out);
}

/// Writes NORM_CMD(CC) with EXT_RATE, so that every receiver answers; those in `nodes` at once.
pub fn write_probe(
    header: &SenderHeader,
    sequence: u16,
    now: Time,
    bytes_per_s: f64,
    nodes: &[CcNode],
    out: &mut Vec<u8>,
) {
    begin_sender(out, message_type::CMD, header);
    out.extend_from_slice(&[flavor::CC, 0]);
    out.extend_from_slice(&sequence.to_be_bytes());
    let (seconds, micros) = now.to_probe();
    out.extend_from_slice(&seconds.to_be_bytes());
    out.extend_from_slice(&micros.to_be_bytes());
    extension::write_rate(bytes_per_s, out);
    finish_header(out);
    for entry in nodes {
        out.extend_from_slice(&entry.node.to_be_bytes());
        out.extend_from_slice(&[entry.flags, entry.rtt]);
        out.extend_from_slice(&entry.rate.to_be_bytes());
    }
}

/// Writes NORM_CMD(APPLICATION).
pub fn write_application(header: &SenderHeader, content: &[u8], out: &mut Vec<u8>) {
    write_command(header, flavor::APPLICATION, [0; 3], out);
    out.extend_from_slice(content);
}

/// Writes NORM_CMD(ACK_REQ).
pub fn write_ack_request(header: &SenderHeader, ack_type: u8, ack_id: u8, nodes: &[u32], out: &mut Vec<u8>) {
    write_command(header, flavor::ACK_REQ, [0, ack_type, ack_id], out);
    write_nodes(nodes, out);
}

/// Writes NORM_CMD(REPAIR_ADV) around repair requests.
pub fn write_repair_advertisement(header: &SenderHeader, requests: &[u8], out: &mut Vec<u8>) {
    write_command(header, flavor::REPAIR_ADV, [0; 3], out);
    out.extend_from_slice(requests);
}
