//! What a body is, and for arrays what shape it has.

use crate::cursor::{Cursor, text};
use crate::error::{DecodeError, EncodeError};
use crate::limits::{ARRAY_DIMENSIONS_MAX, BODY_DETAIL_BYTES_MAX};
use crate::varint::write_varint;

/// How to read a message's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BodyKind {
    /// No body at all.
    Empty = 0,
    /// Bytes as they are (JMS BytesMessage).
    Bytes = 1,
    /// UTF-8 text (JMS TextMessage).
    Text = 2,
    /// A MessagePack mapping (JMS MapMessage).
    Map = 3,
    /// A MessagePack list (JMS StreamMessage).
    List = 4,
    /// A single MessagePack value: null, boolean or number.
    Value = 5,
    /// An Arrow IPC stream.
    Arrow = 6,
    /// The elements of an array; the body detail is its [`ArrayLayout`].
    Array = 7,
    /// A MessagePack value to be made into an object of the type that the body detail names; only types the
    /// receiver has registered (JMS ObjectMessage).
    Object = 8,
}

impl BodyKind {
    pub(crate) fn from_wire(found: u8) -> Result<Self, DecodeError> {
        Ok(match found {
            0 => Self::Empty,
            1 => Self::Bytes,
            2 => Self::Text,
            3 => Self::Map,
            4 => Self::List,
            5 => Self::Value,
            6 => Self::Arrow,
            7 => Self::Array,
            8 => Self::Object,
            _ => return Err(DecodeError::UnknownBodyKind { found }),
        })
    }
}

impl TryFrom<u8> for BodyKind {
    type Error = DecodeError;

    fn try_from(found: u8) -> Result<Self, DecodeError> {
        Self::from_wire(found)
    }
}

/// The order in which a body holds an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayOrder {
    /// The last index varies fastest.
    C,
    /// The first index varies fastest.
    Fortran,
}

/// Element type and shape of an array body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayLayout<'a> {
    /// The element type as numpy writes it, byte order included: `<f8`, `|u1`.
    pub dtype: &'a str,
    /// The order of the elements.
    pub order: ArrayOrder,
    /// The length of each dimension; none for a single element.
    pub shape: Vec<u64>,
}

impl<'a> ArrayLayout<'a> {
    /// Appends the layout as a body detail. On an error nothing is appended.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let dimensions = self.shape.len();
        if dimensions > ARRAY_DIMENSIONS_MAX {
            return Err(EncodeError::TooManyDimensions { dimensions });
        }
        let start = out.len();
        out.push(match self.order {
            ArrayOrder::C => b'C',
            ArrayOrder::Fortran => b'F',
        });
        write_varint(out, self.dtype.len() as u64);
        out.extend_from_slice(self.dtype.as_bytes());
        for &length in &self.shape {
            write_varint(out, length);
        }
        let bytes = out.len() - start;
        if bytes > BODY_DETAIL_BYTES_MAX {
            out.truncate(start);
            return Err(EncodeError::FieldTooLong {
                field: "array layout",
                bytes,
                max: BODY_DETAIL_BYTES_MAX,
            });
        }
        Ok(())
    }

    /// Reads a body detail. Whether the body is as long as type and shape ask is for the reader of the body.
    pub fn read(detail: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(detail);
        let order = match cursor.byte("array order")? {
            b'C' => ArrayOrder::C,
            b'F' => ArrayOrder::Fortran,
            found => return Err(DecodeError::ArrayOrder { found }),
        };
        let dtype = text(cursor.prefixed("array type", BODY_DETAIL_BYTES_MAX)?, "array type")?;
        let mut shape = Vec::new();
        while !cursor.is_empty() {
            if shape.len() == ARRAY_DIMENSIONS_MAX {
                let max = ARRAY_DIMENSIONS_MAX as u64;
                return Err(DecodeError::OutOfRange { what: "number of dimensions", value: max + 1, max });
            }
            shape.push(cursor.varint("array dimension")?);
        }
        Ok(Self { dtype, order, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_layout_comes_back(
            dtype in "[<>|][a-zA-Z][0-9]{1,3}",
            fortran: bool,
            shape in prop::collection::vec(any::<u64>(), 0..=ARRAY_DIMENSIONS_MAX),
        ) {
            let order = if fortran { ArrayOrder::Fortran } else { ArrayOrder::C };
            let layout = ArrayLayout { dtype: &dtype, order, shape };
            let mut detail = Vec::new();
            layout.write(&mut detail).unwrap();
            prop_assert_eq!(ArrayLayout::read(&detail), Ok(layout));
        }
    }

    #[test]
    fn a_layout_beyond_its_bounds_is_refused_and_leaves_the_buffer_alone() {
        let mut detail = vec![7];
        let flat =
            ArrayLayout { dtype: "<f8", order: ArrayOrder::C, shape: vec![1; ARRAY_DIMENSIONS_MAX + 1] };
        assert_eq!(flat.write(&mut detail), Err(EncodeError::TooManyDimensions { dimensions: 65 }));
        let dtype = "x".repeat(BODY_DETAIL_BYTES_MAX);
        let long = ArrayLayout { dtype: &dtype, order: ArrayOrder::C, shape: vec![] };
        assert!(matches!(
            long.write(&mut detail),
            Err(EncodeError::FieldTooLong { field: "array layout", .. })
        ));
        assert_eq!(detail, [7]);
    }

    #[test]
    fn every_body_kind_reads_back_as_itself_and_others_are_named() {
        for found in 0..16 {
            match BodyKind::from_wire(found) {
                Ok(kind) => assert_eq!(kind as u8, found),
                Err(error) => assert_eq!(error, DecodeError::UnknownBodyKind { found }),
            }
        }
        assert_eq!(BodyKind::from_wire(8), Ok(BodyKind::Object));
    }
}
