//! The first thing each end of a connection says: which version it speaks, who it is, and which session it means.

use shoal_norm::NodeId;
use shoal_wire::WIRE_VERSION;

/// Every greeting begins with this, and the version of the format.
const MAGIC: [u8; 6] = *b"SHOAL/";
/// What begins it, its version, and its length in two bytes.
const HEADER_BYTES: usize = MAGIC.len() + 3;
/// The longest content.
const CONTENT_BYTES_MAX: usize = 1024;
/// The longest text in it.
const TEXT_BYTES_MAX: usize = 255;

/// How far one end is with a lane of the other's.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Bytes that it has.
    pub received: u64,
    /// How far it may be sent to.
    pub limit: u64,
}

/// Who speaks, and of which session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub domain: String,
    pub publisher: u64,
    pub node: NodeId,
    /// How often it says that it is there.
    pub heartbeat_ms: u32,
    pub session: u64,
    /// The longest message that it takes.
    pub message_bytes_max: u64,
    /// It can still take another node id.
    pub renames: bool,
}

/// Why a connection is refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// It cannot work, and trying again does not help.
    Never,
    /// There is a session already.
    Duplicate,
    /// Not now.
    Busy,
    /// Somebody else has its node id: it is to come with another one.
    Taken,
    /// It is to go to other addresses, which the words name.
    Elsewhere,
}

/// Why bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Misread {
    /// They are of another version: which, and which is ours.
    Version(String),
    /// They are nothing of ours: why.
    Nonsense(String),
}

/// What a greeting says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Of whoever connected. It insists that it has no other session.
    Hello(Identity, bool),
    /// The answer: whether the session goes on, and how far its lanes are.
    Welcome(Identity, bool, Vec<Position>),
    /// The answer if there is to be no session: why, in words, and whose session there is instead.
    Refusal { code: Code, publisher: u64, session: u64, why: String },
}

impl Greeting {
    /// Appends it; `software` names the program.
    pub fn write(&self, software: &str, out: &mut Vec<u8>) {
        let mut content = Vec::new();
        write_text(software, &mut content);
        match self {
            Greeting::Hello(identity, insists) => {
                content.push(1);
                identity.write(&mut content);
                content.push((*insists).into());
                identity.write_traits(&mut content);
            }
            Greeting::Welcome(identity, resumed, positions) => {
                content.push(2);
                identity.write(&mut content);
                content.push((*resumed).into());
                write_positions(positions, &mut content);
                identity.write_traits(&mut content);
            }
            Greeting::Refusal { code, publisher, session, why } => {
                content.push(3);
                content.push(match code {
                    Code::Never => 1,
                    Code::Duplicate => 2,
                    Code::Busy => 3,
                    Code::Taken => 4,
                    Code::Elsewhere => 5,
                });
                content.extend_from_slice(&publisher.to_be_bytes());
                content.extend_from_slice(&session.to_be_bytes());
                write_text(why, &mut content);
            }
        }
        out.extend_from_slice(&MAGIC);
        out.push(WIRE_VERSION);
        out.extend_from_slice(&(content.len() as u16).to_be_bytes());
        out.extend_from_slice(&content);
    }

    /// Reads one from the bytes that came so far: it, and how many bytes it took. `None` if there are too few.
    pub fn read(bytes: &[u8], software: &str) -> Result<Option<(Greeting, usize)>, Misread> {
        let nonsense = |why: &str| Misread::Nonsense(why.to_owned());
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(nonsense(match bytes {
                // How a TLS handshake begins, and how it is refused.
                [0x15 | 0x16, ..] => "it speaks TLS, and this end does not: use tls:// at both ends",
                [b'G' | b'H', ..] => "it speaks HTTP: use ws:// at both ends for links through HTTP",
                _ => "it does not speak Shoal's protocol",
            }));
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([header[7], header[8]]));
        if length > CONTENT_BYTES_MAX {
            let why = format!("its greeting has {length} bytes, and may have {CONTENT_BYTES_MAX}");
            return Err(Misread::Nonsense(why));
        }
        let Some(content) = bytes.get(HEADER_BYTES..HEADER_BYTES + length) else { return Ok(None) };
        let mut fields = Fields(content);
        let other = fields.text().ok_or_else(|| nonsense("its greeting does not name its program"))?;
        if header[6] != WIRE_VERSION {
            return Err(Misread::Version(format!(
                "{other} speaks version {} of the wire format, and {software} version {WIRE_VERSION}: \
                 run the same version of Shoal at both ends",
                header[6]
            )));
        }
        let greeting = fields.greeting().ok_or_else(|| nonsense("its greeting cannot be read"))?;
        Ok(Some((greeting, HEADER_BYTES + length)))
    }
}

impl Identity {
    fn write(&self, out: &mut Vec<u8>) {
        write_text(&self.domain, out);
        out.extend_from_slice(&self.publisher.to_be_bytes());
        out.extend_from_slice(&self.node.to_be_bytes());
        out.extend_from_slice(&self.heartbeat_ms.to_be_bytes());
        out.extend_from_slice(&self.session.to_be_bytes());
    }

    /// What was added to greetings later, and stands last.
    fn write_traits(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.message_bytes_max.to_be_bytes());
        out.push(self.renames.into());
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    let mut length = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    out.push(length as u8);
    out.extend_from_slice(&text.as_bytes()[..length]);
}

/// Appends how far lanes are.
pub(super) fn write_positions(positions: &[Position], out: &mut Vec<u8>) {
    out.push(positions.len() as u8);
    for position in positions {
        out.extend_from_slice(&position.received.to_be_bytes());
        out.extend_from_slice(&position.limit.to_be_bytes());
    }
}

/// Reads how far lanes are.
pub(super) fn read_positions(bytes: &[u8]) -> Option<Vec<Position>> {
    Fields(bytes).positions()
}

/// Whether the first thing that a connection brings is a greeting that has come whole; why it is none.
///
/// For transports that bring nothing to the engine before that. A greeting of another version is one: the engine answers it.
pub fn is_greeting_whole(bytes: &[u8]) -> Result<bool, String> {
    match Greeting::read(bytes, "") {
        Ok(found) => Ok(found.is_some()),
        Err(Misread::Version(_)) => Ok(true),
        Err(Misread::Nonsense(why)) => Err(why),
    }
}

/// What is left to read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn text(&mut self) -> Option<String> {
        let [length] = self.array()?;
        let (text, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        // It is shown to people.
        let plain = |text: &str| text.chars().filter(|letter| !letter.is_control()).collect();
        std::str::from_utf8(text).ok().map(plain)
    }

    fn identity(&mut self) -> Option<Identity> {
        Some(Identity {
            domain: self.text()?,
            publisher: u64::from_be_bytes(self.array()?),
            node: u32::from_be_bytes(self.array()?),
            heartbeat_ms: u32::from_be_bytes(self.array()?),
            session: u64::from_be_bytes(self.array()?),
            message_bytes_max: u64::MAX,
            renames: false,
        })
    }

    /// Whoever says nothing of it may take anything.
    fn traits(&mut self, identity: &mut Identity) {
        if let Some(bytes) = self.array() {
            identity.message_bytes_max = u64::from_be_bytes(bytes);
        }
        identity.renames = self.array() == Some([1]);
    }

    fn positions(&mut self) -> Option<Vec<Position>> {
        let [count] = self.array()?;
        let mut positions = Vec::new();
        for _ in 0..count {
            positions.push(Position {
                received: u64::from_be_bytes(self.array()?),
                limit: u64::from_be_bytes(self.array()?),
            });
        }
        Some(positions)
    }

    fn greeting(&mut self) -> Option<Greeting> {
        match self.array()? {
            [1] => {
                let mut identity = self.identity()?;
                let [insists] = self.array()?;
                self.traits(&mut identity);
                Some(Greeting::Hello(identity, insists != 0))
            }
            [2] => {
                let mut identity = self.identity()?;
                let [resumed] = self.array()?;
                let positions = self.positions()?;
                self.traits(&mut identity);
                Some(Greeting::Welcome(identity, resumed != 0, positions))
            }
            [3] => {
                let code = match self.array()? {
                    [1] => Code::Never,
                    [2] => Code::Duplicate,
                    [4] => Code::Taken,
                    [5] => Code::Elsewhere,
                    _ => Code::Busy,
                };
                Some(Greeting::Refusal {
                    code,
                    publisher: u64::from_be_bytes(self.array()?),
                    session: u64::from_be_bytes(self.array()?),
                    why: self.text()?,
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            domain: "desk".into(),
            publisher: 1 << 63,
            node: 7,
            heartbeat_ms: 4000,
            session: 9,
            message_bytes_max: 1 << 27,
            renames: true,
        }
    }

    fn greetings() -> [Greeting; 3] {
        [
            Greeting::Hello(identity(), true),
            Greeting::Welcome(identity(), false, vec![Position { received: 5, limit: 1 << 40 }; 4]),
            Greeting::Refusal { code: Code::Duplicate, publisher: 3, session: 4, why: "twice".into() },
        ]
    }

    #[test]
    fn a_greeting_comes_back_and_a_cut_one_is_waited_for() {
        for greeting in greetings() {
            let mut bytes = Vec::new();
            greeting.write("shoal 1", &mut bytes);
            for length in 0..bytes.len() {
                assert_eq!(Greeting::read(&bytes[..length], "shoal 1"), Ok(None), "cut at {length}");
            }
            let length = bytes.len();
            bytes.push(1);
            assert_eq!(Greeting::read(&bytes, "shoal 1"), Ok(Some((greeting, length))));
        }
    }

    #[test]
    fn what_a_greeting_does_not_say_bounds_nothing() {
        let mut bytes = Vec::new();
        greetings()[0].write("shoal 1", &mut bytes);
        let length = bytes.len() - HEADER_BYTES - 9;
        bytes.truncate(HEADER_BYTES + length);
        bytes[HEADER_BYTES - 1] = length as u8;
        let Ok(Some((Greeting::Hello(read, true), _))) = Greeting::read(&bytes, "shoal 1") else {
            panic!("{bytes:?}");
        };
        assert_eq!(read, Identity { message_bytes_max: u64::MAX, renames: false, ..identity() });
    }

    #[test]
    fn another_version_is_named_and_other_protocols_are_refused_at_their_first_byte() {
        let mut bytes = Vec::new();
        greetings()[0].write("shoal 9.1", &mut bytes);
        bytes[6] = WIRE_VERSION + 1;
        let Err(Misread::Version(refused)) = Greeting::read(&bytes, "shoal 1") else { panic!("{bytes:?}") };
        assert!(refused.contains("shoal 9.1 speaks version 4") && refused.contains("shoal 1 version 3"));
        assert!(Greeting::read(b"GET / HTTP/1.1", "shoal 1").is_err());
        assert!(Greeting::read(b"\x16", "shoal 1").is_err());
        let long = Greeting::read(b"SHOAL/\x03\xff\xff", "shoal 1");
        assert!(matches!(long, Err(Misread::Nonsense(why)) if why.contains("65535 bytes")));
    }

    #[test]
    fn a_greeting_is_known_to_be_whole_and_what_is_none_at_its_first_byte() {
        let mut bytes = Vec::new();
        greetings()[0].write("shoal 9.1", &mut bytes);
        assert_eq!(is_greeting_whole(&bytes[..bytes.len() - 1]), Ok(false));
        assert_eq!(is_greeting_whole(&bytes), Ok(true));
        bytes[6] = WIRE_VERSION + 1;
        assert_eq!(is_greeting_whole(&bytes), Ok(true), "it is answered");
        assert_eq!(is_greeting_whole(b"x"), Err("it does not speak Shoal's protocol".to_owned()));
    }

    #[test]
    fn long_texts_are_cut_between_letters_and_what_is_shown_has_no_control_characters() {
        let why = format!("\x1b[2J{}", "ä".repeat(200));
        let greeting = Greeting::Refusal { code: Code::Busy, publisher: 0, session: 0, why };
        let mut bytes = Vec::new();
        greeting.write("shoal 1", &mut bytes);
        let Ok(Some((Greeting::Refusal { why, .. }, _))) = Greeting::read(&bytes, "shoal 1") else {
            panic!("{bytes:?}");
        };
        assert_eq!(why, format!("[2J{}", "ä".repeat(125)));
    }
}
