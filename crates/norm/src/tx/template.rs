//! What every NORM_DATA message of a stream or an object begins with.
//!
//! Only a handful of bytes change from one transmission to the next: the sequence number, the group's round-trip time,
//! the repair flag; and from one segment to the next its place.

use crate::auth;
use crate::wire::object::ObjectHeader;
use crate::wire::{Flags, Fti, Info, PayloadId, SenderHeader, finish_header, message_type};
use crate::{Config, NodeId};

const SEQUENCE_AT: usize = 2;
const SOURCE_AT: usize = 4;
const GRTT_AT: usize = 10;
const FLAGS_AT: usize = 12;
const PAYLOAD_ID_AT: usize = 16;

/// The header of a message without its place.
#[derive(Debug)]
pub struct Template {
    pub bytes: Vec<u8>,
    header: ObjectHeader,
    fti: Fti,
}

impl Template {
    pub fn new(config: &Config, header: &ObjectHeader, fti: Fti) -> Template {
        let mut bytes = Vec::with_capacity(config.data_header_bytes());
        header.begin(message_type::DATA, &mut bytes);
        PayloadId::default().write(header.fec_id, &mut bytes);
        fti.write(header.fec_id, &mut bytes);
        finish_header(&mut bytes);
        auth::reserve(&mut bytes, auth::extension_bytes(&config.auth));
        Template { bytes, header: *header, fti }
    }

    /// Lets messages come from another node id.
    pub fn rename(&mut self, node: NodeId) {
        rename(&mut self.bytes, node);
    }

    /// Says in a message that begins as this says which segment it carries.
    pub fn place(&self, datagram: &mut [u8], place: PayloadId) {
        let length = self.header.fec_id.payload_id_bytes();
        datagram[PAYLOAD_ID_AT..][..length].copy_from_slice(&place.to_bytes(self.header.fec_id)[..length]);
    }

    /// Writes NORM_INFO with this content.
    pub fn write_info(&self, sender: &SenderHeader, content: &[u8], out: &mut Vec<u8>) {
        Info::write(&ObjectHeader { sender: *sender, ..self.header }, Some(self.fti), content, out);
    }

    /// Appends the header of a message that is sent now.
    pub fn write(&self, place: PayloadId, repair: bool, sender: &mut SenderHeader, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&self.bytes);
        self.place(&mut out[at..], place);
        stamp(&mut out[at..], sender);
        out[at + FLAGS_AT] |= if repair { Flags::REPAIR } else { 0 };
    }
}

/// Lets a message come from another node id.
pub fn rename(datagram: &mut [u8], node: NodeId) {
    datagram[SOURCE_AT..SOURCE_AT + 4].copy_from_slice(&node.to_be_bytes());
}

/// Writes what differs from one transmission to the next, and counts the sequence on.
pub fn stamp(datagram: &mut [u8], sender: &mut SenderHeader) {
    datagram[SEQUENCE_AT..SEQUENCE_AT + 2].copy_from_slice(&sender.sequence.to_be_bytes());
    datagram[GRTT_AT] = sender.grtt;
    datagram[GRTT_AT + 1] = sender.backoff << 4 | sender.group_size;
    sender.sequence = sender.sequence.wrapping_add(1);
}
