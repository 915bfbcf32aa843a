//! NORM_INFO and NORM_DATA (RFC 5740 sections 4.2.1 and 4.2.2).

use super::{
    CommonHeader, Extensions, FecId, Fti, PayloadId, SenderHeader, begin_sender, finish_header, message_type,
    parse_sender, read_u16, read_u32,
};
use crate::stats::Reject;

/// Where flags, fec_id and object id stand, and where they end.
pub(super) const OBJECT_HEADER_BYTES: usize = 16;
/// payload_len, payload_msg_start and payload_offset of a stream segment.
pub const SEGMENT_HEADER_BYTES: usize = 8;

/// The flags of NORM_INFO and NORM_DATA.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// A repair, not a first transmission.
    pub const REPAIR: u8 = 0x01;
    /// A repair that was asked for by name.
    pub const EXPLICIT: u8 = 0x02;
    /// NORM_INFO exists for this object.
    pub const INFO: u8 = 0x04;
    /// The sender will not repair this object.
    pub const UNRELIABLE: u8 = 0x08;
    /// The object is a file.
    pub const FILE: u8 = 0x10;
    /// The object is a stream.
    pub const STREAM: u8 = 0x20;

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: u8) -> bool {
        self.0 & flags == flags
    }
}

/// What NORM_INFO and NORM_DATA say alike.
#[derive(Copy, Clone, Debug)]
pub struct ObjectHeader {
    /// The sender's part.
    pub sender: SenderHeader,
    /// The flags.
    pub flags: Flags,
    /// The FEC scheme.
    pub fec_id: FecId,
    /// The object.
    pub object: u16,
}

impl ObjectHeader {
    fn parse(common: &CommonHeader, bytes: &[u8]) -> Result<ObjectHeader, Reject> {
        let sender = parse_sender(common, bytes)?;
        Ok(ObjectHeader {
            sender,
            flags: Flags(bytes[12]),
            fec_id: FecId::from_number(bytes[13])?,
            object: read_u16(bytes, 14),
        })
    }

    /// Starts NORM_INFO or NORM_DATA.
    pub fn begin(&self, kind: u8, out: &mut Vec<u8>) {
        begin_sender(out, kind, &self.sender);
        out.push(self.flags.0);
        out.push(self.fec_id.number());
        out.extend_from_slice(&self.object.to_be_bytes());
    }
}

/// NORM_DATA
#[derive(Clone, Debug)]
pub struct Data<'a> {
    /// What it belongs to.
    pub header: ObjectHeader,
    /// Where it belongs.
    pub payload_id: PayloadId,
    /// How the object is cut, if the message says so.
    pub fti: Option<Fti>,
    /// The symbol.
    pub payload: &'a [u8],
}

impl<'a> Data<'a> {
    pub(super) fn parse(common: &CommonHeader, bytes: &'a [u8]) -> Result<Data<'a>, Reject> {
        let header = ObjectHeader::parse(common, bytes)?;
        let fixed = OBJECT_HEADER_BYTES + header.fec_id.payload_id_bytes();
        if common.header_bytes < fixed {
            return Err(Reject::HeaderLength);
        }
        let payload_id = PayloadId::read(header.fec_id, &bytes[OBJECT_HEADER_BYTES..])?;
        let fti = if common.header_bytes > fixed {
            Extensions::read(&bytes[fixed..common.header_bytes], Some(header.fec_id))?.fti
        } else {
            None
        };
        Ok(Data { header, payload_id, fti, payload: &bytes[common.header_bytes..] })
    }

    /// Bytes before the payload of a NORM_DATA message we send.
    pub const fn header_bytes(fec_id: FecId) -> usize {
        OBJECT_HEADER_BYTES + fec_id.payload_id_bytes() + fec_id.fti_bytes()
    }
}

/// NORM_INFO
#[derive(Clone, Debug)]
pub struct Info<'a> {
    /// What it belongs to.
    pub header: ObjectHeader,
    /// How the object is cut, if the message says so.
    pub fti: Option<Fti>,
    /// The information.
    pub content: &'a [u8],
}

impl<'a> Info<'a> {
    pub(super) fn parse(common: &CommonHeader, bytes: &'a [u8]) -> Result<Info<'a>, Reject> {
        let header = ObjectHeader::parse(common, bytes)?;
        let extensions = &bytes[OBJECT_HEADER_BYTES..common.header_bytes];
        let fti = Extensions::read(extensions, Some(header.fec_id))?.fti;
        Ok(Info { header, fti, content: &bytes[common.header_bytes..] })
    }

    /// Writes a whole NORM_INFO message.
    pub fn write(header: &ObjectHeader, fti: Option<Fti>, content: &[u8], out: &mut Vec<u8>) {
        header.begin(message_type::INFO, out);
        if let Some(fti) = fti {
            fti.write(header.fec_id, out);
        }
        finish_header(out);
        out.extend_from_slice(content);
    }
}

/// What stands before the data of a stream segment, inside the symbol.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Bytes of data; 0 marks a control code, of which the stream's end is the only one.
    pub length: u16,
    /// One more than where the first message to start in this segment starts; 0 if none does.
    pub message_start: u16,
    /// Low 32 bits of the data's place in the stream.
    pub offset: u32,
}

impl SegmentHeader {
    /// Splits a stream symbol into its header and its data.
    pub fn split(symbol: &[u8]) -> Result<(SegmentHeader, &[u8]), Reject> {
        if symbol.len() < SEGMENT_HEADER_BYTES {
            return Err(Reject::Truncated);
        }
        let header = SegmentHeader {
            length: read_u16(symbol, 0),
            message_start: read_u16(symbol, 2),
            offset: read_u32(symbol, 4),
        };
        let data = &symbol[SEGMENT_HEADER_BYTES..];
        // A padded symbol may be longer than its data.
        match data.get(..usize::from(header.length)) {
            Some(_) if header.length > 0 && header.message_start > header.length => Err(Reject::Position),
            Some(data) => Ok((header, data)),
            None => Err(Reject::Truncated),
        }
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let [l0, l1] = self.length.to_be_bytes();
        let [m0, m1] = self.message_start.to_be_bytes();
        let [o0, o1, o2, o3] = self.offset.to_be_bytes();
        [l0, l1, m0, m1, o0, o1, o2, o3]
    }

    /// Where the next segment's data begins.
    pub fn next_offset(self) -> u32 {
        self.offset.wrapping_add(self.length.into())
    }

    /// Whether this segment says that the stream ends here.
    pub fn is_stream_end(self) -> bool {
        self.length == 0 && self.message_start == 0
    }
}
