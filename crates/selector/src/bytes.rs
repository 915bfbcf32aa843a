//! Reading and writing the few shapes that encoded filters are made of.

use crate::error::DecodeError;

/// Appends `value` in LEB128.
pub(crate) fn put_count(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the text.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// What is left to read.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes) }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    /// A count of things that take at least one byte each, so that a lie is found before anything is
    /// allocated.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let mut value = 0usize;
        for shift in (0..).step_by(7).take(4) {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return if value <= self.rest.len() { Ok(value) } else { Err(DecodeError::Truncated) };
            }
        }
        Err(DecodeError::TooLarge)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = self.count()?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| DecodeError::NotUtf8)
    }
}
