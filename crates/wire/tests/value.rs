//! The encoding of values, checked against another implementation of MessagePack.

mod common;

use common::{Tree, TreeBuilder, single, tree};
use proptest::prelude::*;
use shoal_wire::limits::VALUE_DEPTH_MAX;
use shoal_wire::{DecodeError, EncodeError, Typed, check_value, read_value};

fn as_rmpv(tree: &Tree) -> rmpv::Value {
    match tree {
        Tree::Null => rmpv::Value::Nil,
        Tree::Bool(value) => (*value).into(),
        Tree::Int(value) => (*value).into(),
        Tree::UInt(value) => (*value).into(),
        Tree::F32(value) => (*value).into(),
        Tree::F64(value) => (*value).into(),
        Tree::Str(value) => value.as_str().into(),
        Tree::Bytes(value) => value.as_slice().into(),
        Tree::Typed(Typed::Byte(value)) => rmpv::Value::Ext(1, value.to_be_bytes().to_vec()),
        Tree::Typed(Typed::Short(value)) => rmpv::Value::Ext(2, value.to_be_bytes().to_vec()),
        Tree::Typed(Typed::Int(value)) => rmpv::Value::Ext(3, value.to_be_bytes().to_vec()),
        Tree::Typed(Typed::Long(value)) => rmpv::Value::Ext(4, value.to_be_bytes().to_vec()),
        Tree::Typed(Typed::Char(value)) => rmpv::Value::Ext(5, value.to_be_bytes().to_vec()),
        Tree::List(values) => rmpv::Value::Array(values.iter().map(as_rmpv).collect()),
        Tree::Map(entries) => {
            rmpv::Value::Map(entries.iter().map(|(k, v)| (as_rmpv(k), as_rmpv(v))).collect())
        }
    }
}

proptest! {
    #[test]
    fn a_value_comes_back(tree in tree()) {
        let bytes = tree.encode().unwrap();
        prop_assert_eq!(Tree::decode(&bytes), Ok(tree));
    }

    #[test]
    fn another_implementation_reads_what_we_write_and_we_what_it_writes(tree in tree()) {
        let theirs = as_rmpv(&tree);
        let bytes = tree.encode().unwrap();
        prop_assert_eq!(&rmpv::decode::read_value(&mut &bytes[..]).unwrap(), &theirs);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &theirs).unwrap();
        prop_assert_eq!(Tree::decode(&bytes), Ok(tree));
    }

    #[test]
    fn a_value_cut_short_is_refused_wherever_it_is_cut(tree in tree(), at: prop::sample::Index) {
        let bytes = tree.encode().unwrap();
        prop_assert!(check_value(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn a_value_with_something_behind_it_is_refused(tree in tree(), more in single()) {
        let mut bytes = tree.encode().unwrap();
        let more = more.encode().unwrap();
        bytes.extend_from_slice(&more);
        prop_assert_eq!(check_value(&bytes), Err(DecodeError::LeftOver { what: "value", bytes: more.len() }));
    }

    #[test]
    fn random_bytes_never_reserve_more_than_their_length(bytes: Vec<u8>) {
        let mut builder = TreeBuilder::default();
        let _ = read_value(&bytes, &mut builder);
        prop_assert!(builder.reserved <= bytes.len());
    }
}

#[test]
fn integers_take_the_fewest_bytes() {
    let lengths =
        [(0, 1), (127, 1), (128, 2), (256, 3), (65_536, 5), (1 << 32, 9), (-1, 1), (-32, 1), (-33, 2)];
    for (value, length) in lengths {
        assert_eq!(Tree::Int(value).encode().unwrap().len(), length, "{value}");
    }
}

#[test]
fn floats_keep_their_width() {
    assert_eq!(Tree::decode(&Tree::F32(0.5).encode().unwrap()), Ok(Tree::F32(0.5)));
    assert_eq!(Tree::decode(&Tree::F64(0.5).encode().unwrap()), Ok(Tree::F64(0.5)));
}

#[test]
fn nesting_is_bounded_on_both_sides() {
    let deepest = Tree::nested(VALUE_DEPTH_MAX).encode().unwrap();
    assert_eq!(check_value(&deepest), Ok(()));
    assert_eq!(Tree::nested(VALUE_DEPTH_MAX + 1).encode(), Err(EncodeError::TooDeep));
    let deeper = [&[0x91], &deepest[..]].concat();
    assert_eq!(check_value(&deeper), Err(DecodeError::TooDeep));
}

#[test]
fn a_list_that_claims_more_than_there_is_never_reaches_the_builder() {
    let huge = [0xdd, 0xff, 0xff, 0xff, 0xff, 0x00];
    assert_eq!(check_value(&huge), Err(DecodeError::LengthClaim { elements: 0xffff_ffff }));
    // Each inner list alone could be true; with what the outer ones still owe it cannot.
    let layered = [0x93, 0x93, 0x93, 0x00, 0x00];
    assert_eq!(check_value(&layered), Err(DecodeError::LengthClaim { elements: 3 }));
}

#[test]
fn types_that_shoal_does_not_use_are_named() {
    let error = check_value(&[0xc1]).unwrap_err();
    assert_eq!(error.to_string(), "MessagePack type 0xc1 is not used by Shoal");
    assert_eq!(check_value(&[0xd8, 0x01]), Err(DecodeError::UnknownValueType { marker: 0xd8 }));
    // The right type in the wrong length, and a type nobody has.
    assert_eq!(check_value(&[0xd5, 0x01, 0, 0]), Err(DecodeError::UnknownExtension { kind: 1, bytes: 2 }));
    assert_eq!(check_value(&[0xd4, 0xff, 0x00]), Err(DecodeError::UnknownExtension { kind: -1, bytes: 1 }));
}

#[test]
fn a_mapping_key_is_a_single_value() {
    assert_eq!(check_value(&[0x81, 0x90, 0x00]), Err(DecodeError::NotSingle { what: "mapping key" }));
}

#[test]
fn text_must_be_utf_8() {
    assert_eq!(check_value(&[0xa1, 0xff]), Err(DecodeError::NotText { what: "text value" }));
}
