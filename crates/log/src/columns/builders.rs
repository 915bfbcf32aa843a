//! Arrow arrays in the making: one growing vector per buffer.

/// Memory laid out as Arrow wants it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variants say what they hold")]
pub enum Buffer {
    Bytes(Vec<u8>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float64(Vec<f64>),
}

/// A finished array: its buffers in Arrow's order, the first one validity, and the arrays inside it.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnBuffers {
    /// How many values it has.
    pub length: usize,
    /// How many of them are null.
    pub null_count: usize,
    /// Without nulls there is no validity buffer.
    pub buffers: Vec<Option<Buffer>>,
    /// The arrays that a map's entries are.
    pub children: Vec<Self>,
}

/// Bits, lowest first in each byte.
#[derive(Debug, Default)]
struct BitVector {
    bytes: Vec<u8>,
    length: usize,
}

impl BitVector {
    #[inline]
    fn push(&mut self, bit: bool) {
        if self.length.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if bit && let Some(last) = self.bytes.last_mut() {
            *last |= 1 << (self.length % 8);
        }
        self.length += 1;
    }
}

/// Which values are there. As long as all are, nothing is kept.
#[derive(Debug, Default)]
pub(super) struct Validity {
    bits: Option<BitVector>,
    length: usize,
    null_count: usize,
}

impl Validity {
    #[inline]
    pub(super) fn push(&mut self, valid: bool) {
        if !valid {
            self.null_count += 1;
            let length = self.length;
            self.bits.get_or_insert_with(|| {
                let mut bits = BitVector { bytes: vec![0xff; length / 8], length: length / 8 * 8 };
                (0..length % 8).for_each(|_| bits.push(true));
                bits
            });
        }
        if let Some(bits) = &mut self.bits {
            bits.push(valid);
        }
        self.length += 1;
    }

    fn finish(self, buffers: Vec<Buffer>) -> ColumnBuffers {
        let validity = self.bits.map(|bits| Buffer::Bytes(bits.bytes));
        ColumnBuffers {
            length: self.length,
            null_count: self.null_count,
            buffers: std::iter::once(validity).chain(buffers.into_iter().map(Some)).collect(),
            children: Vec::new(),
        }
    }
}

macro_rules! numbers {
    ($name:ident, $number:ty, $buffer:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Debug, Default)]
        pub(super) struct $name {
            validity: Validity,
            values: Vec<$number>,
        }

        impl $name {
            #[inline]
            pub(super) fn push(&mut self, value: Option<$number>) {
                self.validity.push(value.is_some());
                self.values.push(value.unwrap_or_default());
            }

            pub(super) fn finish(self) -> ColumnBuffers {
                self.validity.finish(vec![Buffer::$buffer(self.values)])
            }
        }
    };
}

numbers!(Int32s, i32, Int32, "Numbers of 32 bits; also the offsets of a map.");
numbers!(Int64s, i64, Int64, "Numbers of 64 bits, and times.");
numbers!(Float64s, f64, Float64, "Floating-point numbers.");

/// True and false.
#[derive(Debug, Default)]
pub(super) struct Bits {
    validity: Validity,
    values: BitVector,
}

impl Bits {
    #[inline]
    pub(super) fn push(&mut self, value: Option<bool>) {
        self.validity.push(value.is_some());
        self.values.push(value.unwrap_or_default());
    }

    pub(super) fn finish(self) -> ColumnBuffers {
        self.validity.finish(vec![Buffer::Bytes(self.values.bytes)])
    }
}

/// Texts or bytes of any length, one after the other.
#[derive(Debug)]
pub(super) struct Texts {
    validity: Validity,
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { validity: Validity::default(), offsets: vec![0], data: Vec::new() }
    }
}

impl Texts {
    #[inline]
    pub(super) fn push(&mut self, value: Option<&[u8]>) {
        self.data.extend_from_slice(value.unwrap_or_default());
        self.end(value.is_some());
    }

    /// Adds what should be text; what is not is replaced by U+FFFD, because Arrow's strings are UTF-8.
    #[inline]
    pub(super) fn push_text(&mut self, value: &[u8]) {
        self.data.extend_from_slice(String::from_utf8_lossy(value).as_bytes());
        self.end(true);
    }

    /// Adds what `write` appends, or null if it says no.
    #[inline]
    pub(super) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.data.len();
        let valid = write(&mut self.data);
        if !valid {
            self.data.truncate(start);
        }
        self.end(valid);
    }

    #[inline]
    fn end(&mut self, valid: bool) {
        self.validity.push(valid);
        // Far below the bound: a batch is ended long before, and one record adds less than a gigabyte.
        self.offsets.push(i32::try_from(self.data.len()).unwrap_or(i32::MAX));
    }

    /// Bytes that the value added last takes, its offset included.
    pub(super) fn last_bytes(&self) -> usize {
        match self.offsets[..] {
            [.., before, after] => (after - before) as usize + size_of::<i32>(),
            _ => 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.validity.length
    }

    /// The values added since there were `first` of them.
    pub(super) fn since(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        self.offsets[first..].windows(2).map(|ends| &self.data[ends[0] as usize..ends[1] as usize])
    }

    pub(super) fn finish(self) -> ColumnBuffers {
        self.validity.finish(vec![Buffer::Int32(self.offsets), Buffer::Bytes(self.data)])
    }
}

/// A map of texts to texts that is never null itself.
#[derive(Debug)]
pub(super) struct TextMap {
    offsets: Vec<i32>,
    pub(super) keys: Texts,
    pub(super) values: Texts,
}

impl Default for TextMap {
    fn default() -> Self {
        Self { offsets: vec![0], keys: Texts::default(), values: Texts::default() }
    }
}

impl TextMap {
    /// The entries added since the last row are the next row's.
    #[inline]
    pub(super) fn end_row(&mut self) {
        self.offsets.push(i32::try_from(self.keys.len()).unwrap_or(i32::MAX));
    }

    pub(super) fn finish(self) -> ColumnBuffers {
        let entries = ColumnBuffers {
            length: self.keys.len(),
            null_count: 0,
            buffers: vec![None],
            children: vec![self.keys.finish(), self.values.finish()],
        };
        ColumnBuffers {
            length: self.offsets.len() - 1,
            null_count: 0,
            buffers: vec![None, Some(Buffer::Int32(self.offsets))],
            children: vec![entries],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_nulls_there_is_no_validity_buffer() {
        let mut column = Int64s::default();
        column.push(Some(7));
        let finished = column.finish();
        assert_eq!(finished.null_count, 0);
        assert_eq!(finished.buffers, [None, Some(Buffer::Int64(vec![7]))]);
    }

    proptest! {
        #[test]
        fn validity_and_values_are_read_back(values: Vec<Option<bool>>) {
            let mut column = Bits::default();
            values.iter().for_each(|&value| column.push(value));
            let finished = column.finish();
            let bit = |buffer: &Option<Buffer>, index: usize| match buffer {
                Some(Buffer::Bytes(bytes)) => bytes[index / 8] >> (index % 8) & 1 == 1,
                None => true,
                _ => panic!("not bits"),
            };
            prop_assert_eq!(finished.length, values.len());
            prop_assert_eq!(finished.null_count, values.iter().filter(|value| value.is_none()).count());
            for (index, value) in values.iter().enumerate() {
                let found = bit(&finished.buffers[0], index).then(|| bit(&finished.buffers[1], index));
                prop_assert_eq!(found, *value);
            }
        }

        #[test]
        fn texts_lie_between_their_offsets(values: Vec<Option<Vec<u8>>>) {
            let mut column = Texts::default();
            for value in &values {
                column.push(value.as_deref());
                prop_assert_eq!(column.last_bytes(), value.as_deref().unwrap_or_default().len() + 4);
            }
            let finished = column.finish();
            let [_, Some(Buffer::Int32(offsets)), Some(Buffer::Bytes(data))] = &finished.buffers[..] else {
                panic!("not texts");
            };
            for (ends, value) in offsets.windows(2).zip(&values) {
                let found = &data[ends[0] as usize..ends[1] as usize];
                prop_assert_eq!(found, value.as_deref().unwrap_or_default());
            }
        }
    }
}
