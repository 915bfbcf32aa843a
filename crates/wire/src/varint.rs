//! Unsigned numbers of variable length: seven bits per byte, lowest first, the top bit set on all but the last.

use crate::error::DecodeError;

/// Bytes a 64-bit number takes at most.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends `value`.
#[inline]
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    let mut encoded = [0; VARINT_BYTES_MAX];
    let mut length = 0;
    while value >= 0x80 {
        encoded[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    encoded[length] = value as u8;
    out.extend_from_slice(&encoded[..=length]);
}

/// Bytes `value` takes.
#[inline]
pub fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// The number at the start of `bytes`, and what follows it. `what` names it in errors.
#[inline]
pub fn read_varint<'a>(bytes: &'a [u8], what: &'static str) -> Result<(u64, &'a [u8]), DecodeError> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        if index == VARINT_BYTES_MAX - 1 && byte > 1 {
            return Err(DecodeError::NumberTooLarge { what });
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok((value, &bytes[index + 1..]));
        }
    }
    Err(DecodeError::Truncated { what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_comes_back_with_what_follows_it(value: u64, shift in 0..64u32, tail: Vec<u8>) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            write_varint(&mut bytes, value);
            prop_assert_eq!(bytes.len(), varint_len(value));
            bytes.extend_from_slice(&tail);
            prop_assert_eq!(read_varint(&bytes, "number"), Ok((value, &tail[..])));
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        let mut bytes = [0xff; VARINT_BYTES_MAX];
        assert_eq!(read_varint(&bytes, "ttl"), Err(DecodeError::NumberTooLarge { what: "ttl" }));
        bytes[VARINT_BYTES_MAX - 1] = 1;
        assert_eq!(read_varint(&bytes, "ttl"), Ok((u64::MAX, &[][..])));
    }

    #[test]
    fn a_number_cut_short_is_refused() {
        assert_eq!(read_varint(&[], "ttl"), Err(DecodeError::Truncated { what: "ttl" }));
        assert_eq!(read_varint(&[0x80], "ttl"), Err(DecodeError::Truncated { what: "ttl" }));
    }
}
