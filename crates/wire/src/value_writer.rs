//! Writing values as MessagePack, always in the shortest form.

use rmp::encode;

use crate::error::EncodeError;
use crate::limits::VALUE_DEPTH_MAX;
use crate::value::{Scalar, Typed};

/// The most bytes a value takes beside its content.
const HEAD_BYTES_MAX: usize = 16;

/// Appends values one after the other, so that a tree of foreign objects is encoded while it is walked.
///
/// A list is `begin_list(n)`, n values, `end()`; a mapping is `begin_map(n)`, n times a key and a value, `end()`.
#[derive(Debug)]
pub struct ValueWriter<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
}

impl<'a> ValueWriter<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, depth: 0 }
    }

    /// Writes one single value.
    #[inline]
    pub fn scalar(&mut self, value: Scalar<'_>) -> Result<(), EncodeError> {
        write_scalar(self.out, value)
    }

    /// Starts a list of `length` values.
    pub fn begin_list(&mut self, length: usize) -> Result<(), EncodeError> {
        let length = self.descend(length)?;
        appended(encode::write_array_len(self.out, length));
        Ok(())
    }

    /// Starts a mapping of `length` keys, each followed by its value.
    pub fn begin_map(&mut self, length: usize) -> Result<(), EncodeError> {
        let length = self.descend(length)?;
        appended(encode::write_map_len(self.out, length));
        Ok(())
    }

    /// Ends the list or mapping begun last.
    pub fn end(&mut self) {
        debug_assert!(self.depth > 0, "end without a begin");
        self.depth = self.depth.saturating_sub(1);
    }

    fn descend(&mut self, length: usize) -> Result<u32, EncodeError> {
        if self.depth == VALUE_DEPTH_MAX {
            return Err(EncodeError::TooDeep);
        }
        let length = short_enough(length)?;
        reserve(self.out, 0)?;
        self.depth += 1;
        Ok(length)
    }
}

#[inline]
pub(crate) fn write_scalar(out: &mut Vec<u8>, value: Scalar<'_>) -> Result<(), EncodeError> {
    let content_bytes = match value {
        Scalar::Str(value) => value.len(),
        Scalar::Bytes(value) => value.len(),
        _ => 0,
    };
    reserve(out, content_bytes)?;
    match value {
        Scalar::Null => appended(encode::write_nil(out)),
        Scalar::Bool(value) => appended(encode::write_bool(out, value)),
        Scalar::Int(value) => appended(encode::write_sint(out, value)),
        Scalar::UInt(value) => appended(encode::write_uint(out, value)),
        Scalar::F32(value) => appended(encode::write_f32(out, value)),
        Scalar::F64(value) => appended(encode::write_f64(out, value)),
        Scalar::Str(value) => {
            short_enough(value.len())?;
            appended(encode::write_str(out, value));
        }
        Scalar::Bytes(value) => {
            short_enough(value.len())?;
            appended(encode::write_bin(out, value));
        }
        Scalar::Typed(value) => write_typed(out, value),
    }
    Ok(())
}

/// Makes room for a value: how long values are, and how many, is for others to say.
#[inline]
fn reserve(out: &mut Vec<u8>, content_bytes: usize) -> Result<(), EncodeError> {
    let bytes = content_bytes + HEAD_BYTES_MAX;
    out.try_reserve(bytes).map_err(|_| EncodeError::NoMemory { bytes })
}

fn write_typed(out: &mut Vec<u8>, value: Typed) {
    let mut extension = |kind: i8, bytes: &[u8]| {
        appended(encode::write_ext_meta(out, bytes.len() as u32, kind));
        out.extend_from_slice(bytes);
    };
    match value {
        Typed::Byte(value) => extension(Typed::BYTE, &value.to_be_bytes()),
        Typed::Short(value) => extension(Typed::SHORT, &value.to_be_bytes()),
        Typed::Int(value) => extension(Typed::INT, &value.to_be_bytes()),
        Typed::Long(value) => extension(Typed::LONG, &value.to_be_bytes()),
        Typed::Char(value) => extension(Typed::CHAR, &value.to_be_bytes()),
    }
}

fn short_enough(length: usize) -> Result<u32, EncodeError> {
    u32::try_from(length).map_err(|_| EncodeError::ValueTooLong { length })
}

/// `rmp` writes to anything that may fail; a `Vec` does not.
#[inline]
fn appended<T, E>(result: Result<T, E>) {
    debug_assert!(result.is_ok(), "appending to a Vec failed");
}
