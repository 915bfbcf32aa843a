//! Single values of the one encoding for bodies and properties: MessagePack, and five extensions for types that JMS
//! tells apart and MessagePack does not.

/// A value that holds no others.
///
/// 32- and 64-bit floats stay distinct. An integer that fits `i64` is always read as [`Scalar::Int`], however
/// it was written; [`Scalar::UInt`] is for those above.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    /// Nothing: Python's `None`.
    Null,
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// Text.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A number or character that keeps its type.
    Typed(Typed),
}

/// A value whose type is part of it, because JMS converts a byte otherwise than an int. Floats keep their width anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typed {
    /// An integer of 8 bits.
    Byte(i8),
    /// An integer of 16 bits.
    Short(i16),
    /// An integer of 32 bits.
    Int(i32),
    /// An integer of 64 bits.
    Long(i64),
    /// A character: a UTF-16 code unit, as in Java.
    Char(u16),
}

impl Typed {
    pub(crate) const BYTE: i8 = 1;
    pub(crate) const SHORT: i8 = 2;
    pub(crate) const INT: i8 = 3;
    pub(crate) const LONG: i8 = 4;
    pub(crate) const CHAR: i8 = 5;

    /// The integer; `None` if it is a character.
    #[inline]
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Byte(number) => Some(number.into()),
            Self::Short(number) => Some(number.into()),
            Self::Int(number) => Some(number.into()),
            Self::Long(number) => Some(number),
            Self::Char(_) => None,
        }
    }

    /// The character; `None` if it is an integer. Half a pair of UTF-16 stands for nothing that text could hold, and is
    /// the replacement character.
    #[inline]
    pub fn character(self) -> Option<char> {
        match self {
            Self::Char(unit) => Some(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
            _ => None,
        }
    }
}
