//! What is in a datagram.

use shoal_norm::NodeId;
use shoal_wire::WIRE_VERSION;

/// Every datagram begins with this, and the version of the format.
const MAGIC: [u8; 3] = *b"SHU";
/// No frame begins in a datagram.
const NOWHERE: u16 = u16::MAX;
/// Before the content.
const HEADER_BYTES: usize = MAGIC.len() + 1 + 1 + 8 + 8 + 4;
/// And before the bytes of a lane.
pub(super) const DATA_HEADER_BYTES: usize = HEADER_BYTES + 1 + 8 + 2;

/// Who sends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    pub domain: u64,
    pub publisher: u64,
    pub node: NodeId,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// An Announce record.
    Announce(&'a [u8]),
    /// Bytes of a lane, from this place on; and where among them the first frame begins.
    Data {
        lane: usize,
        place: u64,
        first: Option<usize>,
        bytes: &'a [u8],
    },
    Goodbye,
    /// Say this number again, if you are there.
    Challenge(u64),
    Answer(u64),
}

/// Why a datagram cannot be read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Misread {
    /// It is of this version.
    Version(u8),
    Nonsense,
}

impl Sender {
    fn write(&self, kind: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[WIRE_VERSION, kind]);
        out.extend_from_slice(&self.domain.to_be_bytes());
        out.extend_from_slice(&self.publisher.to_be_bytes());
        out.extend_from_slice(&self.node.to_be_bytes());
    }
}

/// Appends a datagram.
pub(super) fn write(sender: &Sender, content: &Content<'_>, out: &mut Vec<u8>) {
    match content {
        Content::Announce(record) => {
            sender.write(1, out);
            out.extend_from_slice(record);
        }
        Content::Data { lane, place, first, bytes } => {
            sender.write(2, out);
            out.push(*lane as u8);
            out.extend_from_slice(&place.to_be_bytes());
            let first = first.and_then(|first| u16::try_from(first).ok()).unwrap_or(NOWHERE);
            out.extend_from_slice(&first.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        Content::Goodbye => sender.write(3, out),
        Content::Challenge(number) | Content::Answer(number) => {
            sender.write(if matches!(content, Content::Challenge(_)) { 4 } else { 5 }, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// Reads a datagram.
pub(super) fn read(bytes: &[u8]) -> Result<(Sender, Content<'_>), Misread> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(Misread::Nonsense)?;
    let (&version, rest) = rest.split_first().ok_or(Misread::Nonsense)?;
    if version != WIRE_VERSION {
        return Err(Misread::Version(version));
    }
    let (&kind, rest) = rest.split_first().ok_or(Misread::Nonsense)?;
    let mut fields = Fields(rest);
    let sender = Sender {
        domain: u64::from_be_bytes(fields.array()?),
        publisher: u64::from_be_bytes(fields.array()?),
        node: u32::from_be_bytes(fields.array()?),
    };
    let content = match kind {
        1 => Content::Announce(fields.0),
        2 => {
            let [lane] = fields.array()?;
            let place = u64::from_be_bytes(fields.array()?);
            let first = u16::from_be_bytes(fields.array()?);
            let bytes = fields.0;
            let first = (first != NOWHERE).then_some(usize::from(first));
            if first.is_some_and(|first| first >= bytes.len())
                || place.checked_add(bytes.len() as u64).is_none()
            {
                return Err(Misread::Nonsense);
            }
            Content::Data { lane: lane.into(), place, first, bytes }
        }
        3 => Content::Goodbye,
        4 => Content::Challenge(u64::from_be_bytes(fields.array()?)),
        5 => Content::Answer(u64::from_be_bytes(fields.array()?)),
        _ => return Err(Misread::Nonsense),
    };
    Ok((sender, content))
}

/// What is left to read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Misread> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Misread::Nonsense)?;
        self.0 = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: Sender = Sender { domain: 7, publisher: 1 << 63, node: 9 };

    #[test]
    fn every_kind_comes_back_and_none_is_longer_than_it_says() {
        let data = Content::Data { lane: 2, place: 1 << 40, first: Some(3), bytes: b"abcdef" };
        for content in [
            Content::Announce(b"record"),
            data.clone(),
            Content::Goodbye,
            Content::Challenge(5),
            Content::Answer(6),
        ] {
            let mut bytes = Vec::new();
            write(&SENDER, &content, &mut bytes);
            assert_eq!(read(&bytes), Ok((SENDER, content)));
        }
        let mut bytes = Vec::new();
        write(&SENDER, &data, &mut bytes);
        assert_eq!(bytes.len(), DATA_HEADER_BYTES + 6);
    }

    #[test]
    fn other_versions_are_told_and_anything_else_is_nonsense() {
        let mut bytes = Vec::new();
        write(&SENDER, &Content::Goodbye, &mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), Err(Misread::Nonsense), "cut at {length}");
        }
        bytes[3] = 99;
        assert_eq!(read(&bytes), Err(Misread::Version(99)));
        assert_eq!(read(b"GET / HTTP/1.1"), Err(Misread::Nonsense));
        let beyond = Content::Data { lane: 1, place: 0, first: Some(6), bytes: b"abcdef" };
        let mut bytes = Vec::new();
        write(&SENDER, &beyond, &mut bytes);
        assert_eq!(read(&bytes), Err(Misread::Nonsense));
    }
}
