//! Values as a tree and generators of them, which only tests need.
#![allow(dead_code, reason = "each test program uses its own part")]

use proptest::prelude::*;
use shoal_wire::{DecodeError, EncodeError, Scalar, Typed, ValueBuilder, ValueWriter, read_value};

/// A value as a tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    F32(f32),
    F64(f64),
    Str(String),
    Bytes(Vec<u8>),
    Typed(Typed),
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
}

impl Tree {
    /// A list in a list, `depth` times.
    pub fn nested(depth: usize) -> Self {
        (0..depth).fold(Self::Null, |inner, _| Self::List(vec![inner]))
    }

    pub fn as_scalar(&self) -> Scalar<'_> {
        match self {
            Self::Null => Scalar::Null,
            Self::Bool(value) => Scalar::Bool(*value),
            Self::Int(value) => Scalar::Int(*value),
            Self::UInt(value) => Scalar::UInt(*value),
            Self::F32(value) => Scalar::F32(*value),
            Self::F64(value) => Scalar::F64(*value),
            Self::Str(value) => Scalar::Str(value),
            Self::Bytes(value) => Scalar::Bytes(value),
            Self::Typed(value) => Scalar::Typed(*value),
            Self::List(_) | Self::Map(_) => panic!("not a single value: {self:?}"),
        }
    }

    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        self.write(&mut ValueWriter::new(&mut out))?;
        Ok(out)
    }

    fn write(&self, writer: &mut ValueWriter<'_>) -> Result<(), EncodeError> {
        match self {
            Self::List(values) => {
                writer.begin_list(values.len())?;
                values.iter().try_for_each(|value| value.write(writer))?;
                writer.end();
            }
            Self::Map(entries) => {
                writer.begin_map(entries.len())?;
                for (key, value) in entries {
                    writer.scalar(key.as_scalar())?;
                    value.write(writer)?;
                }
                writer.end();
            }
            single => writer.scalar(single.as_scalar())?,
        }
        Ok(())
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        read_value(bytes, &mut TreeBuilder::default())
    }
}

impl From<Scalar<'_>> for Tree {
    fn from(scalar: Scalar<'_>) -> Self {
        match scalar {
            Scalar::Null => Self::Null,
            Scalar::Bool(value) => Self::Bool(value),
            Scalar::Int(value) => Self::Int(value),
            Scalar::UInt(value) => Self::UInt(value),
            Scalar::F32(value) => Self::F32(value),
            Scalar::F64(value) => Self::F64(value),
            Scalar::Str(value) => Self::Str(value.to_owned()),
            Scalar::Bytes(value) => Self::Bytes(value.to_owned()),
            Scalar::Typed(value) => Self::Typed(value),
        }
    }
}

/// Makes trees, reserving room as it is told to, and counts how much it was told to.
#[derive(Default)]
pub struct TreeBuilder {
    pub reserved: usize,
}

impl ValueBuilder for TreeBuilder {
    type Value = Tree;
    type List = Vec<Tree>;
    type Map = Vec<(Tree, Tree)>;
    type Error = DecodeError;

    fn scalar(&mut self, value: Scalar<'_>) -> Result<Tree, DecodeError> {
        Ok(value.into())
    }
    fn begin_list(&mut self, length: usize) -> Result<Vec<Tree>, DecodeError> {
        self.reserved += length;
        Ok(Vec::with_capacity(length))
    }
    fn push(&mut self, list: &mut Vec<Tree>, value: Tree) -> Result<(), DecodeError> {
        list.push(value);
        Ok(())
    }
    fn end_list(&mut self, list: Vec<Tree>) -> Result<Tree, DecodeError> {
        Ok(Tree::List(list))
    }
    fn begin_map(&mut self, length: usize) -> Result<Vec<(Tree, Tree)>, DecodeError> {
        self.reserved += length;
        Ok(Vec::with_capacity(length))
    }
    fn insert(
        &mut self,
        map: &mut Vec<(Tree, Tree)>,
        key: Scalar<'_>,
        value: Tree,
    ) -> Result<(), DecodeError> {
        map.push((key.into(), value));
        Ok(())
    }
    fn end_map(&mut self, map: Vec<(Tree, Tree)>) -> Result<Tree, DecodeError> {
        Ok(Tree::Map(map))
    }
}

/// Single values of every type, with integers of every size.
pub fn single() -> impl Strategy<Value = Tree> {
    prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        (any::<i64>(), 0..64u32).prop_map(|(value, shift)| Tree::Int(value >> shift)),
        (i64::MAX as u64 + 1..).prop_map(Tree::UInt),
        any::<f32>().prop_map(Tree::F32),
        any::<f64>().prop_map(Tree::F64),
        "\\PC{0,40}".prop_map(Tree::Str),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Tree::Bytes),
        typed().prop_map(Tree::Typed),
    ]
}

fn typed() -> impl Strategy<Value = Typed> {
    prop_oneof![
        any::<i8>().prop_map(Typed::Byte),
        any::<i16>().prop_map(Typed::Short),
        any::<i32>().prop_map(Typed::Int),
        any::<i64>().prop_map(Typed::Long),
        any::<u16>().prop_map(Typed::Char),
    ]
}

/// Values with lists and mappings in them.
pub fn tree() -> impl Strategy<Value = Tree> {
    single().prop_recursive(5, 60, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Tree::List),
            prop::collection::vec((single(), inner), 0..20).prop_map(Tree::Map),
        ]
    })
}
