//! A body in the value encoding, written again as JSON.
//!
//! JSON has no bytes, no keys but texts, and no numbers that are infinite or none: bytes become base64, keys their
//! text, such numbers null.

use shoal_wire::{DecodeError, Scalar, Typed, ValueBuilder, read_value};

use super::text::{push_base64, push_scalar};

/// Appends the JSON of the one value that `encoded` holds. On an error, some of it may have been appended.
pub(super) fn write_json(encoded: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    read_value(encoded, &mut JsonBuilder { out }).map(drop)
}

struct JsonBuilder<'a> {
    out: &'a mut Vec<u8>,
}

/// Where a value begins in what was written. Whatever follows it there is that value.
struct At(usize);

impl JsonBuilder<'_> {
    fn string(&mut self, text: &str) {
        self.out.push(b'"');
        let mut plain_from = 0;
        for (index, byte) in text.bytes().enumerate() {
            let escape = match byte {
                b'"' => b"\\\"".as_slice(),
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                b'\t' => b"\\t",
                0..0x20 => b"\\u00",
                _ => continue,
            };
            self.out.extend_from_slice(&text.as_bytes()[plain_from..index]);
            self.out.extend_from_slice(escape);
            if escape.len() == 4 {
                self.out
                    .extend_from_slice(&[b'0' + (byte >> 4), b"0123456789abcdef"[usize::from(byte & 0xf)]]);
            }
            plain_from = index + 1;
        }
        self.out.extend_from_slice(&text.as_bytes()[plain_from..]);
        self.out.push(b'"');
    }

    fn write(&mut self, value: Scalar<'_>) {
        match value {
            Scalar::Str(text) => self.string(text),
            Scalar::Bytes(bytes) => {
                self.out.push(b'"');
                push_base64(self.out, bytes);
                self.out.push(b'"');
            }
            Scalar::Typed(value) if value.character().is_some() => {
                let mut text = [0; 4];
                self.string(value.character().unwrap_or_default().encode_utf8(&mut text));
            }
            Scalar::F32(number) if !number.is_finite() => self.out.extend_from_slice(b"null"),
            Scalar::F64(number) if !number.is_finite() => self.out.extend_from_slice(b"null"),
            value => {
                if !push_scalar(self.out, value) {
                    self.out.extend_from_slice(b"null");
                }
            }
        }
    }

    /// A key and its colon. What is no text is written as the text of it.
    fn key(&mut self, key: Scalar<'_>) {
        match key {
            Scalar::Str(_) | Scalar::Bytes(_) | Scalar::Typed(Typed::Char(_)) => self.write(key),
            _ => {
                self.out.push(b'"');
                self.write(key);
                self.out.push(b'"');
            }
        }
        self.out.push(b':');
    }

    /// Ends a list or mapping, whose last value is followed by a comma.
    fn close(&mut self, bracket: u8) {
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
        self.out.push(bracket);
    }

    fn open(&mut self, bracket: u8) -> At {
        let at = At(self.out.len());
        self.out.push(bracket);
        at
    }
}

impl ValueBuilder for JsonBuilder<'_> {
    type Value = At;
    type List = At;
    type Map = At;
    type Error = DecodeError;

    fn scalar(&mut self, value: Scalar<'_>) -> Result<At, DecodeError> {
        let at = At(self.out.len());
        self.write(value);
        Ok(at)
    }

    fn begin_list(&mut self, _length: usize) -> Result<At, DecodeError> {
        Ok(self.open(b'['))
    }

    fn push(&mut self, _list: &mut At, _value: At) -> Result<(), DecodeError> {
        self.out.push(b',');
        Ok(())
    }

    fn end_list(&mut self, list: At) -> Result<At, DecodeError> {
        self.close(b']');
        Ok(list)
    }

    fn begin_map(&mut self, _length: usize) -> Result<At, DecodeError> {
        Ok(self.open(b'{'))
    }

    /// The reader hands over a key after its value was written: the key changes places with it.
    fn insert(&mut self, _map: &mut At, key: Scalar<'_>, At(value): At) -> Result<(), DecodeError> {
        let key_at = self.out.len();
        self.key(key);
        let key_bytes = self.out.len() - key_at;
        self.out[value..].rotate_right(key_bytes);
        self.out.push(b',');
        Ok(())
    }

    fn end_map(&mut self, map: At) -> Result<At, DecodeError> {
        self.close(b'}');
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_wire::ValueWriter;

    fn json(write: impl FnOnce(&mut ValueWriter<'_>)) -> String {
        let (mut encoded, mut out) = (Vec::new(), Vec::new());
        write(&mut ValueWriter::new(&mut encoded));
        write_json(&encoded, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_stand_before_their_values_however_deep() {
        let written = json(|writer| {
            writer.begin_map(2).unwrap();
            writer.scalar(Scalar::Str("a")).unwrap();
            writer.begin_list(3).unwrap();
            writer.scalar(Scalar::Int(-1)).unwrap();
            writer.begin_map(0).unwrap();
            writer.end();
            writer.begin_list(0).unwrap();
            writer.end();
            writer.end();
            writer.scalar(Scalar::Int(7)).unwrap();
            writer.scalar(Scalar::F64(f64::NAN)).unwrap();
            writer.end();
        });
        assert_eq!(written, r#"{"a":[-1,{},[]],"7":null}"#);
    }

    #[test]
    fn what_json_has_no_letter_for_is_escaped() {
        let written = json(|writer| writer.scalar(Scalar::Str("a\"\\\n\u{1}\u{1f}ä")).unwrap());
        assert_eq!(written, "\"a\\\"\\\\\\n\\u0001\\u001fä\"");
    }

    #[test]
    fn typed_values_are_numbers_and_texts() {
        let written = json(|writer| {
            writer.begin_map(3).unwrap();
            writer.scalar(Scalar::Typed(Typed::Char('"' as u16))).unwrap();
            writer.scalar(Scalar::Typed(Typed::Byte(-5))).unwrap();
            writer.scalar(Scalar::Typed(Typed::Short(300))).unwrap();
            writer.scalar(Scalar::Typed(Typed::Long(i64::MIN))).unwrap();
            writer.scalar(Scalar::Str("half a pair")).unwrap();
            writer.scalar(Scalar::Typed(Typed::Char(0xd800))).unwrap();
            writer.end();
        });
        assert_eq!(written, "{\"\\\"\":-5,\"300\":-9223372036854775808,\"half a pair\":\"\u{fffd}\"}");
    }

    #[test]
    fn bytes_are_base64_as_values_and_as_keys() {
        let written = json(|writer| {
            writer.begin_map(1).unwrap();
            writer.scalar(Scalar::Bytes(b"k")).unwrap();
            writer.scalar(Scalar::Bytes(b"foo")).unwrap();
            writer.end();
        });
        assert_eq!(written, r#"{"aw==":"Zm9v"}"#);
    }
}
