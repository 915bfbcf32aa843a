//! JSON from outside, written in the value encoding as it is met, with no tree in between.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use shoal_wire::limits::VALUE_DEPTH_MAX;
use shoal_wire::{BodyKind, Scalar, ValueWriter};

/// Appends the encoding of a JSON text, which must be a value of that kind. On an error, some of it may have been
/// appended.
pub(super) fn read_json(json: &[u8], kind: BodyKind, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    Encoding { out, depth: 0, only: Some(kind) }.deserialize(&mut reader)?;
    reader.end()
}

struct Encoding<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
    /// What the outermost value must be.
    only: Option<BodyKind>,
}

impl Encoding<'_> {
    fn inner(&mut self) -> Encoding<'_> {
        Encoding { out: self.out, depth: self.depth + 1, only: None }
    }

    fn scalar<E: Error>(self, value: Scalar<'_>) -> Result<(), E> {
        let is_text = matches!(value, Scalar::Str(_));
        match self.only {
            None => {}
            Some(BodyKind::Value) if !is_text => {}
            Some(_) => return Err(E::custom(if is_text { "it is a text" } else { "it is a single value" })),
        }
        ValueWriter::new(self.out).scalar(value).map_err(E::custom)
    }

    fn enter<E: Error>(&self, kind: BodyKind, found: &'static str) -> Result<usize, E> {
        if self.only.is_some_and(|only| only != kind) {
            return Err(E::custom(found));
        }
        if self.depth == VALUE_DEPTH_MAX {
            return Err(E::custom(format_args!("it is nested more than {VALUE_DEPTH_MAX} deep")));
        }
        Ok(self.out.len())
    }

    /// Puts a header, whose length depends on how many values followed, before those values.
    fn put_header<E: Error>(
        self,
        start: usize,
        write: impl FnOnce(&mut ValueWriter<'_>) -> Result<(), shoal_wire::EncodeError>,
    ) -> Result<(), E> {
        let end = self.out.len();
        write(&mut ValueWriter::new(self.out)).map_err(E::custom)?;
        let header = self.out.len() - end;
        self.out[start..].rotate_right(header);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Encoding<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Encoding<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(Scalar::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(Scalar::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(Scalar::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(Scalar::UInt(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(Scalar::F64(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.scalar(Scalar::Str(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        let start = self.enter(BodyKind::List, "it is a list")?;
        let mut count = 0;
        while values.next_element_seed(self.inner())?.is_some() {
            count += 1;
        }
        self.put_header(start, |writer| writer.begin_list(count))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let start = self.enter(BodyKind::Map, "it is a mapping")?;
        let mut count = 0;
        while entries.next_key_seed(self.inner())?.is_some() {
            entries.next_value_seed(self.inner())?;
            count += 1;
        }
        self.put_header(start, |writer| writer.begin_map(count))
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::write_json;
    use super::*;

    fn there_and_back(json: &str, kind: BodyKind) -> Result<String, String> {
        let (mut encoded, mut back) = (Vec::new(), Vec::new());
        read_json(json.as_bytes(), kind, &mut encoded).map_err(|error| error.to_string())?;
        write_json(&encoded, &mut back).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(back).unwrap())
    }

    #[test]
    fn json_comes_back_in_its_order() {
        let json = r#"{"b":[1,-2,{"z":null,"a":{}}],"a":"x\n","c":1.5,"d":18446744073709551615,"e":[]}"#;
        assert_eq!(there_and_back(json, BodyKind::Map).unwrap(), json);
        let long = format!("[{}]", vec!["7"; 70_000].join(","));
        assert_eq!(there_and_back(&long, BodyKind::List).unwrap(), long);
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        for (json, kind, why) in [
            ("[1]", BodyKind::Map, "it is a list"),
            ("{}", BodyKind::List, "it is a mapping"),
            ("1", BodyKind::Map, "it is a single value"),
            ("\"x\"", BodyKind::Value, "it is a text"),
            ("{\"a\":", BodyKind::Map, "EOF while parsing"),
            ("1 2", BodyKind::Value, "trailing characters"),
        ] {
            let error = there_and_back(json, kind).unwrap_err();
            assert!(error.contains(why), "{json}: {error}");
        }
    }

    #[test]
    fn nesting_has_the_bound_of_the_encoding() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(there_and_back(&nested(VALUE_DEPTH_MAX), BodyKind::List).is_ok());
        let error = there_and_back(&nested(VALUE_DEPTH_MAX + 1), BodyKind::List).unwrap_err();
        assert!(error.contains("nested more than 64 deep"), "{error}");
    }
}
