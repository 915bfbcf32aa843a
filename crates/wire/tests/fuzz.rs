//! Bytes nobody meant to be a message: reading every part of them must end, without panicking.

use proptest::prelude::*;
use shoal_wire::{
    ArrayLayout, BodyKind, Destination, HeaderFields, MessageId, MessageView, Outgoing, PropertiesWriter,
    Scalar, Topic, TopicPattern, check_value,
};

const FIELDS: u8 = 1 << 4;
const PROPERTIES: u8 = 1 << 5;

/// Asks for everything a receiver could ask for, and checks that parts lie inside the record.
fn read_everything(record: &[u8]) {
    let Ok(view) = MessageView::parse(record) else {
        return;
    };
    let parts = view.name_bytes().len() + view.properties().as_bytes().len() + view.body().len();
    assert!(parts + 4 <= record.len());
    let _ = view.name();
    let _ = view.body_kind();
    let _ = view.properties().get("region");
    let _ = view.check();
    if let Ok(fields) = view.fields() {
        let _ = fields.body_detail.map(ArrayLayout::read);
    }
    if let Ok(message) = view.to_outgoing() {
        let mut again = Vec::new();
        message.encode_into(&mut again).expect("what was read keeps the bounds of what is written");
        assert_eq!(MessageView::parse(&again).unwrap().to_outgoing(), Ok(message));
    }
}

fn full_record() -> Vec<u8> {
    let mut properties = PropertiesWriter::new();
    for (name, value) in [("region", Scalar::Str("EU")), ("n", Scalar::Int(-500)), ("x", Scalar::F64(0.5))] {
        properties.push(name, value).unwrap();
    }
    let destination = Destination::queue(Topic::new("orders/new").unwrap());
    let mut detail = Vec::new();
    let layout = ArrayLayout { dtype: "<f8", order: shoal_wire::ArrayOrder::C, shape: vec![3, 500] };
    layout.write(&mut detail).unwrap();
    let mut message =
        Outgoing::new(destination, BodyKind::Map, &[0x81, 0xa1, b'k', 0x92, 0xcd, 0xff, 0xff, 0xc0]);
    message.properties = properties.properties();
    message.fields = HeaderFields {
        timestamp_us: Some(1_700_000_000_000_000),
        ttl_us: Some(30_000_000),
        delivery_delay_us: Some(1000),
        delivery_count: Some(2),
        published_us: Some(5_000_000),
        correlation_id: Some(b"#7"),
        reply_to: Some(Destination::topic(Topic::new("answers=all").unwrap())),
        message_type: Some("order"),
        origin: Some(MessageId { node: 0xdead_beef, stream: 1, sequence: 1 << 40 }),
        body_detail: Some(&detail),
    };
    let mut record = Vec::new();
    message.encode_into(&mut record).unwrap();
    record
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn random_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        read_everything(&bytes);
        let _ = check_value(&bytes);
        let _ = Topic::from_bytes(&bytes);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let _ = TopicPattern::new(text);
        }
    }

    #[test]
    fn random_parts_rightly_delimited_are_read_without_panic(
        urgency_and_kind in 0..0xa0u8,
        flags: u8,
        name in "[ab/=,*>]{1,6}",
        fields in prop::collection::vec(any::<u8>(), 0..60),
        properties in prop::collection::vec(0..0xc8u8, 0..60),
        body in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut record = vec![0x41, urgency_and_kind, flags | FIELDS | PROPERTIES, name.len() as u8];
        record.extend_from_slice(name.as_bytes());
        for section in [fields, properties] {
            record.extend_from_slice(&(section.len() as u16).to_be_bytes());
            record.extend_from_slice(&section);
        }
        record.extend_from_slice(&body);
        read_everything(&record);
    }

    #[test]
    fn a_mutated_message_is_read_without_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut: prop::sample::Index,
        tail in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut record = full_record();
        for (at, byte) in changes {
            let at = at.index(record.len());
            record[at] = byte;
        }
        read_everything(&record);
        record.truncate(cut.index(record.len() + 1));
        read_everything(&record);
        record.extend_from_slice(&tail);
        read_everything(&record);
    }
}

#[test]
fn a_message_cut_anywhere_is_read_without_panic() {
    let record = full_record();
    MessageView::parse(&record).unwrap().check().unwrap();
    for end in 0..record.len() {
        read_everything(&record[..end]);
    }
}
