//! Properties as columns: all of them as a map of texts, or one of them with a type.

use shoal_wire::{Properties, Scalar};

use super::builders::{Bits, ColumnBuffers, Float64s, Int64s, TextMap, Texts};
use super::selection::PropertyType;
use super::text::push_scalar;

/// All properties of a message; values as text.
#[derive(Debug, Default)]
pub(super) struct PropertyMap {
    map: TextMap,
}

impl PropertyMap {
    /// Adds a row; says how many bytes it took. Of two properties with one name the first counts; those behind
    /// one that cannot be read are left out.
    #[inline]
    pub(super) fn push(&mut self, properties: Properties<'_>) -> usize {
        let mut bytes = size_of::<i32>();
        if !properties.is_empty() {
            let first = self.map.keys.len();
            for (name, value) in properties.iter().map_while(Result::ok) {
                if self.map.keys.since(first).any(|known| known == name.as_bytes()) {
                    continue;
                }
                self.map.keys.push(Some(name.as_bytes()));
                self.map.values.push_with(|data| push_scalar(data, value));
                bytes += self.map.keys.last_bytes() + self.map.values.last_bytes();
            }
        }
        self.map.end_row();
        bytes
    }

    pub(super) fn finish(self) -> ColumnBuffers {
        self.map.finish()
    }
}

/// One property.
#[derive(Debug)]
pub(super) struct PropertyColumn {
    name: Box<str>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    String(Texts),
    Text(Texts),
    Int64(Int64s),
    Float64(Float64s),
    Bool(Bits),
}

impl PropertyColumn {
    pub(super) fn new(name: &str, kind: PropertyType) -> Self {
        let values = match kind {
            PropertyType::String => Values::String(Texts::default()),
            PropertyType::Text => Values::Text(Texts::default()),
            PropertyType::Int64 => Values::Int64(Int64s::default()),
            PropertyType::Float64 => Values::Float64(Float64s::default()),
            PropertyType::Bool => Values::Bool(Bits::default()),
        };
        Self { name: name.into(), values }
    }

    /// Adds a row; says how many bytes it took. Without the property, or if it has another type, the value is null.
    #[inline]
    pub(super) fn push(&mut self, properties: Properties<'_>) -> usize {
        let value = properties.get(&self.name).ok().flatten().unwrap_or(Scalar::Null);
        match &mut self.values {
            Values::String(texts) => {
                texts.push_with(|data| push_scalar(data, value));
                return texts.last_bytes();
            }
            Values::Text(texts) => {
                texts.push(match value {
                    Scalar::Str(text) => Some(text.as_bytes()),
                    _ => None,
                });
                return texts.last_bytes();
            }
            Values::Int64(numbers) => numbers.push(match value {
                Scalar::Int(number) => Some(number),
                Scalar::Typed(value) => value.integer(),
                _ => None,
            }),
            Values::Float64(numbers) => numbers.push(match value {
                Scalar::Int(number) => Some(number as f64),
                Scalar::UInt(number) => Some(number as f64),
                Scalar::F32(number) => Some(number.into()),
                Scalar::F64(number) => Some(number),
                Scalar::Typed(value) => value.integer().map(|number| number as f64),
                _ => None,
            }),
            Values::Bool(flags) => flags.push(match value {
                Scalar::Bool(flag) => Some(flag),
                _ => None,
            }),
        }
        size_of::<u64>()
    }

    pub(super) fn finish(self) -> ColumnBuffers {
        match self.values {
            Values::String(column) | Values::Text(column) => column.finish(),
            Values::Int64(column) => column.finish(),
            Values::Float64(column) => column.finish(),
            Values::Bool(column) => column.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::builders::Buffer;
    use super::*;
    use shoal_wire::PropertiesWriter;

    #[test]
    fn of_two_properties_with_one_name_the_first_counts() {
        let mut writer = PropertiesWriter::new();
        for (name, value) in [("a", 1), ("b", 2), ("a", 3)] {
            writer.push(name, Scalar::Int(value)).unwrap();
        }
        let mut map = PropertyMap::default();
        map.push(writer.properties());
        map.push(Properties::default());
        map.push(writer.properties());
        let finished = map.finish();
        assert_eq!(finished.buffers[1], Some(Buffer::Int32(vec![0, 2, 2, 4])));
        let [keys, values] = &finished.children[0].children[..] else { panic!("not a map") };
        assert_eq!(keys.buffers[2], Some(Buffer::Bytes(b"abab".to_vec())));
        assert_eq!(values.buffers[2], Some(Buffer::Bytes(b"1212".to_vec())));
    }
}
