//! Group keys, their names, and what is derived from them.

use std::fmt;

use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

/// What a key begins with where it is written.
const PREFIX: &str = "shoal-key-1:";
const KEY_BYTES: usize = 32;
const ID_INFO: &[u8] = b"shoal key id 1";
const SEALING_INFO: &[u8] = b"shoal datagram 1";

/// Says which group key was used, without saying anything about it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 3]);

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Why a text is no key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// It does not begin as keys do.
    Prefix,
    /// It is not 64 hexadecimal digits.
    Digits,
    /// There is none.
    Empty,
}

impl fmt::Display for KeyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Prefix => write!(out, "a key begins with {PREFIX}"),
            KeyError::Digits => write!(out, "after {PREFIX} a key has 64 hexadecimal digits"),
            KeyError::Empty => write!(out, "there is no key"),
        }
    }
}

impl std::error::Error for KeyError {}

/// A key that all members of a group have.
#[derive(Clone, PartialEq, Eq)]
pub struct GroupKey {
    bytes: [u8; KEY_BYTES],
    id: KeyId,
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "GroupKey({})", self.id)
    }
}

impl GroupKey {
    /// A key of random bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> GroupKey {
        let mut id = [0; 3];
        derive(&bytes, &[], ID_INFO, &mut id);
        GroupKey { bytes, id: KeyId(id) }
    }

    /// Reads a key as [`GroupKey::to_text`] writes it.
    pub fn parse(text: &str) -> Result<GroupKey, KeyError> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(KeyError::Prefix)?.as_bytes();
        let mut bytes = [0; KEY_BYTES];
        if digits.len() != 2 * KEY_BYTES {
            return Err(KeyError::Digits);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(KeyError::Digits);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(GroupKey::new(bytes))
    }

    /// The key as it is written in files.
    pub fn to_text(&self) -> String {
        let digits: String = self.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{digits}")
    }

    /// Its name.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What seals the datagrams of one run.
    pub(crate) fn sealing(&self, salt: &[u8]) -> LessSafeKey {
        let mut key = [0; KEY_BYTES];
        derive(&self.bytes, salt, SEALING_INFO, &mut key);
        // The length is the algorithm's own.
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes"))
    }
}

struct Length(usize);

impl ring::hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(key: &[u8], salt: &[u8], info: &[u8], out: &mut [u8]) {
    let secret = Salt::new(HKDF_SHA256, salt).extract(key);
    // Only an output longer than 8160 bytes is refused.
    secret.expand(&[info], Length(out.len())).and_then(|okm| okm.fill(out)).expect("a few bytes");
}

/// The keys of a group: the first seals, all of them open. A group changes its key by adding the new one everywhere, then
/// putting it first everywhere, then taking the old one out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    keys: Vec<GroupKey>,
}

impl Keys {
    /// Reads keys, one in a line; empty lines and those that begin with # mean nothing.
    pub fn parse(text: &str) -> Result<Keys, KeyError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys: Vec<GroupKey> = lines.map(GroupKey::parse).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(KeyError::Empty);
        }
        Ok(Keys { keys })
    }

    /// The key that seals.
    pub fn first(&self) -> &GroupKey {
        &self.keys[0]
    }

    /// The key with a name.
    pub fn find(&self, id: KeyId) -> Option<&GroupKey> {
        self.keys.iter().find(|key| key.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written_and_has_a_name_that_does_not_tell_it() {
        let key = GroupKey::new(std::array::from_fn(|at| at as u8));
        let text = key.to_text();
        assert_eq!(GroupKey::parse(&format!(" {text}\n")).unwrap(), key);
        assert!(!text.contains(&key.id().to_string()));
        assert!(!format!("{key:?}").contains("0001"), "a key is not shown in reports");
    }

    #[test]
    fn a_text_that_is_no_key_is_refused_and_says_why() {
        for (text, error) in [
            ("secret", KeyError::Prefix),
            ("shoal-key-1:abc", KeyError::Digits),
            (&format!("shoal-key-1:{}", "g".repeat(64)), KeyError::Digits),
            ("# nothing\n\n", KeyError::Empty),
        ] {
            assert_eq!(Keys::parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn several_keys_are_found_by_their_names() {
        let keys: Vec<GroupKey> = [1, 2].map(|byte| GroupKey::new([byte; 32])).to_vec();
        let text = format!("# old and new\n{}\n\n{}\n", keys[0].to_text(), keys[1].to_text());
        let read = Keys::parse(&text).unwrap();
        assert_eq!(read.first(), &keys[0]);
        assert_eq!(read.find(keys[1].id()), Some(&keys[1]));
    }
}
