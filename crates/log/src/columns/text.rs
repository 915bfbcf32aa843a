//! Values and identities as text.

use std::io::Write;

use shoal_wire::Scalar;

use super::builders::Texts;
use crate::Row;

const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A number in sixteen hexadecimal digits.
#[inline]
pub(super) fn hex16(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (index, byte) in number.to_be_bytes().into_iter().enumerate() {
        digits[2 * index] = HEX[usize::from(byte >> 4)];
        digits[2 * index + 1] = HEX[usize::from(byte & 0xf)];
    }
    digits
}

/// Appends a number in decimal digits.
#[inline]
pub(super) fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Message ids: `ID:`, the publisher in hexadecimal, chain and number. All but the number is the same for many
/// messages in a row.
#[derive(Debug, Default)]
pub(super) struct MessageIds {
    last: (u64, u32),
    prefix: String,
}

impl MessageIds {
    #[inline]
    pub(super) fn push(&mut self, row: &Row<'_>, column: &mut Texts) {
        let Some(number) = row.number else {
            return column.push(None);
        };
        if self.prefix.is_empty() || self.last != (row.publisher, row.chain) {
            self.last = (row.publisher, row.chain);
            self.prefix = format!("ID:{:016x}-{}-", row.publisher, row.chain);
        }
        column.push_with(|data| {
            data.extend_from_slice(self.prefix.as_bytes());
            push_decimal(data, number);
            true
        });
    }
}

/// Appends a floating-point number in the fewest digits that read back as the same one, always with a point or an
/// exponent. Infinite ones and those that are no number have the names that Java, Spark and Python read.
pub(super) fn push_float(out: &mut Vec<u8>, number: f64, single: bool) {
    let written = match number {
        number if number.is_nan() => write!(out, "NaN"),
        f64::INFINITY => write!(out, "Infinity"),
        f64::NEG_INFINITY => write!(out, "-Infinity"),
        number if single => write!(out, "{:?}", number as f32),
        number => write!(out, "{number:?}"),
    };
    debug_assert!(written.is_ok(), "appending to a Vec failed");
}

/// Appends a whole number.
pub(super) fn push_integer(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push_decimal(out, number.unsigned_abs());
}

/// Appends bytes as base64, padded.
pub(super) fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let [a, b, c] = [group.first(), group.get(1), group.get(2)].map(|byte| *byte.unwrap_or(&0));
        let bits = u32::from_be_bytes([0, a, b, c]);
        for index in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * index) & 0x3f) as usize];
            out.push(if index <= group.len() { digit } else { b'=' });
        }
    }
}

/// Appends a property's value as text; null has none, and `false` is returned.
#[inline]
pub(super) fn push_scalar(out: &mut Vec<u8>, value: Scalar<'_>) -> bool {
    match value {
        Scalar::Null => return false,
        Scalar::Bool(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
        Scalar::Int(number) => push_integer(out, number),
        Scalar::UInt(number) => push_decimal(out, number),
        Scalar::F32(number) => push_float(out, number.into(), true),
        Scalar::F64(number) => push_float(out, number, false),
        Scalar::Str(text) => out.extend_from_slice(text.as_bytes()),
        Scalar::Bytes(bytes) => push_base64(out, bytes),
        Scalar::Typed(value) => match (value.integer(), value.character()) {
            (Some(number), _) => push_integer(out, number),
            (None, character) => {
                let mut text = [0; 4];
                out.extend_from_slice(character.unwrap_or_default().encode_utf8(&mut text).as_bytes());
            }
        },
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::builders::Buffer;
    use super::*;
    use proptest::prelude::*;
    use shoal_wire::MessageId;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_keep_a_point_or_an_exponent() {
        for (number, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e22, "1e22"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(|out| push_float(out, number, false)), expected);
        }
        assert_eq!(text(|out| push_float(out, 0.1f32.into(), true)), "0.1");
    }

    #[test]
    fn a_message_id_is_written_as_the_bus_writes_it() {
        let (mut ids, mut column, mut expected) = (MessageIds::default(), Texts::default(), String::new());
        for (publisher, chain, number) in [(0xbeef, 2, 77), (0xbeef, 2, 78), (0xbeef, 3, 1), (7, 3, u64::MAX)]
        {
            let (offset, stored_us, timestamp_us, record) = (0, 0, 0, &[][..]);
            let row = Row { offset, stored_us, publisher, chain, number: Some(number), timestamp_us, record };
            ids.push(&row, &mut column);
            let id = MessageId { publisher, chain, number };
            expected += &id.to_string();
        }
        assert_eq!(column.finish().buffers[2], Some(Buffer::Bytes(expected.into_bytes())));
    }

    #[test]
    fn base64_is_as_the_rfc_has_it() {
        // RFC 4648, section 10.
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(text(|out| push_base64(out, bytes.as_bytes())), expected);
        }
    }

    proptest! {
        #[test]
        fn numbers_are_written_as_the_standard_library_writes_them(number: i64, unsigned: u64) {
            prop_assert_eq!(text(|out| push_integer(out, number)), number.to_string());
            prop_assert_eq!(text(|out| push_decimal(out, unsigned)), unsigned.to_string());
            prop_assert_eq!(hex16(unsigned).to_vec(), format!("{unsigned:016x}").into_bytes());
        }
    }
}
