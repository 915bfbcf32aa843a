//! Reading MessagePack values, each handed to a builder as it is met, with no tree in between.
//!
//! What a value claims is checked before anybody acts on it: a builder may reserve room for the elements it is
//! told of, because all lists and mappings open at one time never claim more elements than there are bytes.

use rmp::Marker;

use crate::cursor::{Cursor, text};
use crate::error::DecodeError;
use crate::limits::VALUE_DEPTH_MAX;
use crate::value::{Scalar, Typed};

/// Makes somebody's objects out of the values met.
pub trait ValueBuilder {
    /// What a value becomes.
    type Value;
    /// A list being filled.
    type List;
    /// A mapping being filled.
    type Map;
    /// What may go wrong: the bytes, or making an object.
    type Error: From<DecodeError>;

    /// A single value.
    fn scalar(&mut self, value: Scalar<'_>) -> Result<Self::Value, Self::Error>;
    /// A list of `length` values begins.
    fn begin_list(&mut self, length: usize) -> Result<Self::List, Self::Error>;
    /// The next value of a list.
    fn push(&mut self, list: &mut Self::List, value: Self::Value) -> Result<(), Self::Error>;
    /// A list is complete.
    fn end_list(&mut self, list: Self::List) -> Result<Self::Value, Self::Error>;
    /// A mapping of `length` keys begins.
    fn begin_map(&mut self, length: usize) -> Result<Self::Map, Self::Error>;
    /// The next key of a mapping and its value. A key may come twice; the builder decides which counts.
    fn insert(&mut self, map: &mut Self::Map, key: Scalar<'_>, value: Self::Value)
    -> Result<(), Self::Error>;
    /// A mapping is complete.
    fn end_map(&mut self, map: Self::Map) -> Result<Self::Value, Self::Error>;
}

/// Reads the one value `bytes` hold.
pub fn read_value<B: ValueBuilder>(bytes: &[u8], builder: &mut B) -> Result<B::Value, B::Error> {
    let mut reader = Reader { cursor: Cursor::new(bytes), builder, owed: 0 };
    let value = reader.value(0)?;
    reader.cursor.finish("value")?;
    Ok(value)
}

/// Whether `bytes` hold exactly one well-formed value.
pub fn check_value(bytes: &[u8]) -> Result<(), DecodeError> {
    read_value(bytes, &mut NoObjects)
}

/// A single value; `what` names it should it turn out to be a list or a mapping.
#[inline]
pub(crate) fn read_scalar<'a>(
    cursor: &mut Cursor<'a>,
    what: &'static str,
) -> Result<Scalar<'a>, DecodeError> {
    // Short texts apart: they are most of what selectors ask for, and most of what keys are.
    if let [marker @ 0xa0..=0xbf, rest @ ..] = cursor.rest() {
        *cursor = Cursor::new(rest);
        return string(cursor, usize::from(marker & 0x1f));
    }
    match read_token(cursor)? {
        Token::Scalar(scalar) => Ok(scalar),
        Token::List(_) | Token::Map(_) => Err(DecodeError::NotSingle { what }),
    }
}

/// Steps over a single value without looking into it; `what` names it should it be a list or a mapping.
#[inline]
pub(crate) fn skip_scalar(cursor: &mut Cursor<'_>, what: &'static str) -> Result<(), DecodeError> {
    let marker = cursor.byte("value")?;
    let length = match FOLLOWING[usize::from(marker)] {
        Following::Bytes(length) => length.into(),
        Following::Length8 => length8(cursor)?,
        Following::Length16 => length16(cursor)?,
        Following::Length32 => length32(cursor)?,
        Following::Values => return Err(DecodeError::NotSingle { what }),
        Following::Unknown => return Err(unknown(Marker::from_u8(marker))),
    };
    cursor.take(length, "value").map(drop)
}

/// What follows a marker, as far as it must be known to step over it.
#[derive(Copy, Clone)]
enum Following {
    /// So many bytes.
    Bytes(u8),
    /// A length of one, two or four bytes, and so many bytes.
    Length8,
    Length16,
    Length32,
    /// Other values.
    Values,
    Unknown,
}

/// By marker; a table, because selectors step over properties for every message.
static FOLLOWING: [Following; 256] = {
    let mut table = [Following::Unknown; 256];
    let mut marker = 0;
    while marker < table.len() {
        table[marker] = following(Marker::from_u8(marker as u8));
        marker += 1;
    }
    table
};

const fn following(marker: Marker) -> Following {
    match marker {
        Marker::Null | Marker::False | Marker::True | Marker::FixPos(_) | Marker::FixNeg(_) => {
            Following::Bytes(0)
        }
        Marker::U8 | Marker::I8 => Following::Bytes(1),
        Marker::U16 | Marker::I16 => Following::Bytes(2),
        Marker::U32 | Marker::I32 | Marker::F32 => Following::Bytes(4),
        Marker::U64 | Marker::I64 | Marker::F64 => Following::Bytes(8),
        Marker::FixStr(length) => Following::Bytes(length),
        // One byte more, for its type.
        Marker::FixExt1 => Following::Bytes(2),
        Marker::FixExt2 => Following::Bytes(3),
        Marker::FixExt4 => Following::Bytes(5),
        Marker::FixExt8 => Following::Bytes(9),
        Marker::Str8 | Marker::Bin8 => Following::Length8,
        Marker::Str16 | Marker::Bin16 => Following::Length16,
        Marker::Str32 | Marker::Bin32 => Following::Length32,
        Marker::FixArray(_)
        | Marker::Array16
        | Marker::Array32
        | Marker::FixMap(_)
        | Marker::Map16
        | Marker::Map32 => Following::Values,
        _ => Following::Unknown,
    }
}

fn unknown(marker: Marker) -> DecodeError {
    DecodeError::UnknownValueType { marker: marker.to_u8() }
}

struct Reader<'a, 'b, B> {
    cursor: Cursor<'a>,
    builder: &'b mut B,
    /// Values the open lists and mappings have claimed and not yet had.
    owed: usize,
}

impl<B: ValueBuilder> Reader<'_, '_, B> {
    fn value(&mut self, depth: usize) -> Result<B::Value, B::Error> {
        match read_token(&mut self.cursor)? {
            Token::Scalar(scalar) => self.builder.scalar(scalar),
            Token::List(length) => {
                self.descend(depth, length, length)?;
                let mut list = self.builder.begin_list(length)?;
                for _ in 0..length {
                    self.owed -= 1;
                    let value = self.value(depth + 1)?;
                    self.builder.push(&mut list, value)?;
                }
                self.builder.end_list(list)
            }
            Token::Map(length) => {
                self.descend(depth, length, length.saturating_mul(2))?;
                let mut map = self.builder.begin_map(length)?;
                for _ in 0..length {
                    self.owed -= 2;
                    let key = read_scalar(&mut self.cursor, "mapping key")?;
                    let value = self.value(depth + 1)?;
                    self.builder.insert(&mut map, key, value)?;
                }
                self.builder.end_map(map)
            }
        }
    }

    /// Enters a list or mapping that claims `values` more values, each at least one byte long.
    fn descend(&mut self, depth: usize, elements: usize, values: usize) -> Result<(), DecodeError> {
        if depth == VALUE_DEPTH_MAX {
            return Err(DecodeError::TooDeep);
        }
        let owed = self.owed.saturating_add(values);
        if owed > self.cursor.rest().len() {
            return Err(DecodeError::LengthClaim { elements });
        }
        self.owed = owed;
        Ok(())
    }
}

enum Token<'a> {
    Scalar(Scalar<'a>),
    List(usize),
    Map(usize),
}

#[inline]
fn read_token<'a>(cursor: &mut Cursor<'a>) -> Result<Token<'a>, DecodeError> {
    let marker = Marker::from_u8(cursor.byte("value")?);
    let scalar = match marker {
        Marker::Null => Scalar::Null,
        Marker::False => Scalar::Bool(false),
        Marker::True => Scalar::Bool(true),
        Marker::FixPos(value) => Scalar::Int(value.into()),
        Marker::FixNeg(value) => Scalar::Int(value.into()),
        Marker::U8 => Scalar::Int(u8::from_be_bytes(number(cursor)?).into()),
        Marker::U16 => Scalar::Int(u16::from_be_bytes(number(cursor)?).into()),
        Marker::U32 => Scalar::Int(u32::from_be_bytes(number(cursor)?).into()),
        Marker::U64 => unsigned(u64::from_be_bytes(number(cursor)?)),
        Marker::I8 => Scalar::Int(i8::from_be_bytes(number(cursor)?).into()),
        Marker::I16 => Scalar::Int(i16::from_be_bytes(number(cursor)?).into()),
        Marker::I32 => Scalar::Int(i32::from_be_bytes(number(cursor)?).into()),
        Marker::I64 => Scalar::Int(i64::from_be_bytes(number(cursor)?)),
        Marker::F32 => Scalar::F32(f32::from_be_bytes(number(cursor)?)),
        Marker::F64 => Scalar::F64(f64::from_be_bytes(number(cursor)?)),
        Marker::FixStr(length) => string(cursor, length.into())?,
        Marker::Str8 => length8(cursor).and_then(|length| string(cursor, length))?,
        Marker::Str16 => length16(cursor).and_then(|length| string(cursor, length))?,
        Marker::Str32 => length32(cursor).and_then(|length| string(cursor, length))?,
        Marker::Bin8 => length8(cursor).and_then(|length| binary(cursor, length))?,
        Marker::Bin16 => length16(cursor).and_then(|length| binary(cursor, length))?,
        Marker::Bin32 => length32(cursor).and_then(|length| binary(cursor, length))?,
        Marker::FixArray(length) => return Ok(Token::List(length.into())),
        Marker::Array16 => return Ok(Token::List(length16(cursor)?)),
        Marker::Array32 => return Ok(Token::List(length32(cursor)?)),
        Marker::FixMap(length) => return Ok(Token::Map(length.into())),
        Marker::Map16 => return Ok(Token::Map(length16(cursor)?)),
        Marker::Map32 => return Ok(Token::Map(length32(cursor)?)),
        Marker::FixExt1 => typed(cursor, 1)?,
        Marker::FixExt2 => typed(cursor, 2)?,
        Marker::FixExt4 => typed(cursor, 4)?,
        Marker::FixExt8 => typed(cursor, 8)?,
        Marker::Reserved | Marker::FixExt16 | Marker::Ext8 | Marker::Ext16 | Marker::Ext32 => {
            return Err(unknown(marker));
        }
    };
    Ok(Token::Scalar(scalar))
}

/// An extension of so many bytes.
#[inline(never)]
fn typed<'a>(cursor: &mut Cursor<'a>, bytes: usize) -> Result<Scalar<'a>, DecodeError> {
    let kind = i8::from_be_bytes(cursor.array("extension type")?);
    Ok(Scalar::Typed(match (kind, bytes) {
        (Typed::BYTE, 1) => Typed::Byte(i8::from_be_bytes(number(cursor)?)),
        (Typed::SHORT, 2) => Typed::Short(i16::from_be_bytes(number(cursor)?)),
        (Typed::INT, 4) => Typed::Int(i32::from_be_bytes(number(cursor)?)),
        (Typed::LONG, 8) => Typed::Long(i64::from_be_bytes(number(cursor)?)),
        (Typed::CHAR, 2) => Typed::Char(u16::from_be_bytes(number(cursor)?)),
        _ => return Err(DecodeError::UnknownExtension { kind, bytes }),
    }))
}

#[inline]
fn number<const N: usize>(cursor: &mut Cursor<'_>) -> Result<[u8; N], DecodeError> {
    cursor.array("number")
}

#[inline]
fn unsigned(value: u64) -> Scalar<'static> {
    i64::try_from(value).map_or(Scalar::UInt(value), Scalar::Int)
}

#[inline]
fn string<'a>(cursor: &mut Cursor<'a>, length: usize) -> Result<Scalar<'a>, DecodeError> {
    Ok(Scalar::Str(text(cursor.take(length, "text")?, "text value")?))
}

#[inline]
fn binary<'a>(cursor: &mut Cursor<'a>, length: usize) -> Result<Scalar<'a>, DecodeError> {
    Ok(Scalar::Bytes(cursor.take(length, "bytes")?))
}

fn length8(cursor: &mut Cursor<'_>) -> Result<usize, DecodeError> {
    Ok(cursor.byte("length")?.into())
}

fn length16(cursor: &mut Cursor<'_>) -> Result<usize, DecodeError> {
    Ok(u16::from_be_bytes(cursor.array("length")?).into())
}

fn length32(cursor: &mut Cursor<'_>) -> Result<usize, DecodeError> {
    let length = u32::from_be_bytes(cursor.array("length")?);
    Ok(usize::try_from(length).unwrap_or(usize::MAX))
}

/// Checks without making anything.
struct NoObjects;

impl ValueBuilder for NoObjects {
    type Value = ();
    type List = ();
    type Map = ();
    type Error = DecodeError;

    fn scalar(&mut self, _: Scalar<'_>) -> Result<(), DecodeError> {
        Ok(())
    }
    fn begin_list(&mut self, _: usize) -> Result<(), DecodeError> {
        Ok(())
    }
    fn push(&mut self, (): &mut (), (): ()) -> Result<(), DecodeError> {
        Ok(())
    }
    fn end_list(&mut self, (): ()) -> Result<(), DecodeError> {
        Ok(())
    }
    fn begin_map(&mut self, _: usize) -> Result<(), DecodeError> {
        Ok(())
    }
    fn insert(&mut self, (): &mut (), _: Scalar<'_>, (): ()) -> Result<(), DecodeError> {
        Ok(())
    }
    fn end_map(&mut self, (): ()) -> Result<(), DecodeError> {
        Ok(())
    }
}
