//! Reading bytes from front to back, every step checked.

use crate::error::DecodeError;
use crate::varint::read_varint;

/// What is left to read of some bytes. `what` in its methods names the thing for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated { what })?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes, for `from_be_bytes`.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated { what })?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn byte(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    #[inline]
    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let (value, rest) = read_varint(self.rest, what)?;
        self.rest = rest;
        Ok(value)
    }

    /// A varint of at most `max`.
    pub(crate) fn varint_up_to(&mut self, what: &'static str, max: u64) -> Result<u64, DecodeError> {
        let value = self.varint(what)?;
        if value > max { Err(DecodeError::OutOfRange { what, value, max }) } else { Ok(value) }
    }

    /// A varint of at most 32 bits.
    pub(crate) fn varint32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(self.varint_up_to(what, u32::MAX.into())? as u32)
    }

    /// How many things of at least `least` bytes each follow: never more than the bytes that are left can hold.
    pub(crate) fn count(&mut self, what: &'static str, least: usize) -> Result<usize, DecodeError> {
        let elements = usize::try_from(self.varint(what)?).unwrap_or(usize::MAX);
        if elements > self.rest.len() / least {
            return Err(DecodeError::CountClaim { what, elements });
        }
        Ok(elements)
    }

    /// A length as varint, at most `max`, and that many bytes.
    pub(crate) fn prefixed(&mut self, what: &'static str, max: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.varint(what)?;
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        if bytes > max {
            return Err(DecodeError::TooLong { what, bytes, max });
        }
        self.take(bytes, what)
    }

    /// Nothing may be left.
    pub(crate) fn finish(self, what: &'static str) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::LeftOver { what, bytes }),
        }
    }
}

/// Bytes that must be text.
pub(crate) fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::NotText { what })
}
