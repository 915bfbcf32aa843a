//! Single values of the one encoding for bodies and properties: MessagePack, without its extensions.

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
}
