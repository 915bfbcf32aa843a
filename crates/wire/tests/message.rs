//! Messages out and in again.

mod common;

use common::{Tree, single};
use proptest::prelude::*;
use shoal_wire::limits::{
    CORRELATION_ID_BYTES_MAX, PROPERTIES_BYTES_MAX, PROPERTIES_COUNT_MAX, PROPERTY_NAME_BYTES_MAX,
    TRACE_BYTES_MAX,
};
use shoal_wire::{
    BodyKind, DecodeError, Destination, DestinationKind, EncodeError, HeaderFields, MessageId, MessageView,
    Outgoing, Priority, PropertiesWriter, ReplyStatus, Scalar, Topic,
};

const KINDS: [BodyKind; 9] = [
    BodyKind::Empty,
    BodyKind::Bytes,
    BodyKind::Text,
    BodyKind::Map,
    BodyKind::List,
    BodyKind::Value,
    BodyKind::Arrow,
    BodyKind::Array,
    BodyKind::Object,
];

fn topic(name: &str) -> Destination<'_> {
    Destination::topic(Topic::new(name).unwrap())
}

fn encode(message: &Outgoing<'_>) -> Vec<u8> {
    let mut record = Vec::new();
    message.encode_into(&mut record).unwrap();
    record
}

/// What a message is made of, owned, for generating.
#[derive(Debug, Clone)]
struct Parts {
    name: String,
    queue: bool,
    priority: u8,
    persistent: bool,
    redelivered: bool,
    numbers: [Option<u64>; 13],
    correlation_id: Option<Vec<u8>>,
    reply_to: Option<(bool, String)>,
    message_type: Option<String>,
    origin: Option<MessageId>,
    body_detail: Option<Vec<u8>>,
    group: Option<String>,
    properties: Vec<(String, Tree)>,
    kind: BodyKind,
    body: Vec<u8>,
}

impl Parts {
    fn destination(queue: bool, name: &str) -> Destination<'_> {
        let kind = if queue { DestinationKind::Queue } else { DestinationKind::Topic };
        Destination { kind, name: Topic::new(name).unwrap() }
    }

    fn outgoing<'a>(&'a self, properties: &'a PropertiesWriter) -> Outgoing<'a> {
        let [timestamp_us, ttl_us, delivery_delay_us, delivery_count, published_us, ..] = self.numbers;
        let [.., previous_persistent, reply_status, connection, hops, held_us, lease, key, group_sequence] =
            self.numbers;
        Outgoing {
            destination: Self::destination(self.queue, &self.name),
            priority: Priority::new(self.priority).unwrap(),
            persistent: self.persistent,
            redelivered: self.redelivered,
            fields: HeaderFields {
                timestamp_us,
                ttl_us,
                delivery_delay_us,
                delivery_count,
                published_us,
                previous_persistent,
                reply_status: reply_status.map(ReplyStatus::from_bits),
                connection,
                correlation_id: self.correlation_id.as_deref(),
                reply_to: self.reply_to.as_ref().map(|(queue, name)| Self::destination(*queue, name)),
                message_type: self.message_type.as_deref(),
                origin: self.origin,
                body_detail: self.body_detail.as_deref(),
                group: self.group.as_deref(),
                hops,
                held_us,
                lease,
                key,
                group_sequence,
                trace: self.correlation_id.as_deref().map(|id| &id[..id.len().min(TRACE_BYTES_MAX)]),
                trace_state: self.message_type.as_deref(),
            },
            properties: properties.properties(),
            body_kind: self.kind,
            body: &self.body,
        }
    }

    fn written_properties(&self) -> PropertiesWriter {
        let mut writer = PropertiesWriter::new();
        for (name, value) in &self.properties {
            writer.push(name, value.as_scalar()).unwrap();
        }
        writer
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zä]{1,6}(/[A-Z0-9]{1,6}){0,4}", "[a-z]{1,4}=[A-Z]{1,4}(,[a-z]{1,4}=[A-Z]{1,4}){0,3}"]
}

fn parts() -> impl Strategy<Value = Parts> {
    let bytes = |max| prop::collection::vec(any::<u8>(), 0..=max);
    let origin = any::<(u64, u32, u64)>().prop_map(|(publisher, chain, number)| MessageId {
        publisher,
        chain,
        number,
    });
    let head = (name(), any::<bool>(), 0..=9u8, any::<bool>(), any::<bool>());
    let fields = (
        any::<[Option<u64>; 13]>(),
        prop::option::of(bytes(CORRELATION_ID_BYTES_MAX)),
        prop::option::of((any::<bool>(), name())),
        prop::option::of("\\PC{0,60}"),
        prop::option::of(origin),
        prop::option::of(bytes(300)),
        prop::option::of("\\PC{0,60}"),
    );
    let rest = (
        prop::collection::vec(("[a-zA-Z_]{1,12}", single()), 0..8),
        prop::sample::select(&KINDS[..]),
        bytes(200),
    );
    (head, fields, rest).prop_map(|(head, fields, rest)| Parts {
        name: head.0,
        queue: head.1,
        priority: head.2,
        persistent: head.3,
        redelivered: head.4,
        numbers: fields.0,
        correlation_id: fields.1,
        reply_to: fields.2,
        message_type: fields.3,
        origin: fields.4,
        body_detail: fields.5,
        group: fields.6,
        properties: rest.0,
        kind: rest.1,
        body: rest.2,
    })
}

proptest! {
    #[test]
    fn a_message_comes_back_part_by_part(parts in parts()) {
        let properties = parts.written_properties();
        let sent = parts.outgoing(&properties);
        let record = encode(&sent);
        let view = MessageView::parse(&record).unwrap();

        prop_assert_eq!(view.name().unwrap(), sent.destination.name);
        prop_assert_eq!(view.destination_kind(), sent.destination.kind);
        prop_assert_eq!(view.priority(), sent.priority);
        prop_assert_eq!(view.is_persistent(), sent.persistent);
        prop_assert_eq!(view.is_redelivered(), sent.redelivered);
        prop_assert_eq!(view.fields().unwrap(), sent.fields);
        prop_assert_eq!(view.ttl_us().unwrap(), sent.fields.ttl_us);
        prop_assert_eq!(view.timestamp_us().unwrap(), sent.fields.timestamp_us);
        prop_assert_eq!(view.origin().unwrap(), sent.fields.origin);
        prop_assert_eq!(view.body_kind().unwrap(), sent.body_kind);
        prop_assert_eq!(view.body(), sent.body);
        let received: Result<Vec<_>, _> = view.properties().iter().collect();
        let expected: Vec<_> = parts.properties.iter().map(|(n, v)| (n.as_str(), v.as_scalar())).collect();
        prop_assert_eq!(received.unwrap(), expected);
        prop_assert_eq!(view.to_outgoing().unwrap(), sent);
    }

    #[test]
    fn a_property_is_found_by_its_name(parts in parts(), missing in "[0-9]{3}") {
        let properties = parts.written_properties();
        for (name, _) in &parts.properties {
            let first = &parts.properties.iter().find(|(n, _)| n == name).unwrap().1;
            prop_assert_eq!(properties.properties().get(name).unwrap(), Some(first.as_scalar()));
        }
        prop_assert_eq!(properties.properties().get(&missing).unwrap(), None);
    }
}

#[test]
fn a_plain_message_costs_four_bytes_beyond_topic_and_body() {
    let record = encode(&Outgoing::new(topic("prices/ACME"), BodyKind::Bytes, &[7; 64]));
    assert_eq!(record.len(), 4 + "prices/ACME".len() + 64);
}

#[test]
fn encoding_appends_and_a_refused_message_appends_nothing() {
    let mut out = b"before".to_vec();
    let mut message = Outgoing::new(topic("a"), BodyKind::Empty, &[]);
    let id = [0; CORRELATION_ID_BYTES_MAX + 1];
    message.fields.correlation_id = Some(&id);
    let error = message.encode_into(&mut out).unwrap_err();
    assert_eq!(error.to_string(), "the correlation id has 129 bytes; at most 128 are allowed");
    assert_eq!(out, b"before");
    message.fields.correlation_id = Some(&id[1..]);
    message.encode_into(&mut out).unwrap();
    assert!(out.starts_with(b"before") && out.len() > 128);
}

#[test]
fn a_head_followed_by_the_body_is_the_whole_record() {
    let message = Outgoing::new(topic("a/b"), BodyKind::Text, b"hello");
    let mut record = Vec::new();
    message.encode_head_into(&mut record).unwrap();
    record.extend_from_slice(b"hello");
    assert_eq!(record, encode(&message));
}

#[test]
fn names_written_as_tags_travel_untouched() {
    let record = encode(&Outgoing::new(topic("Courses=CPS616, Session=HPJava"), BodyKind::Empty, &[]));
    let view = MessageView::parse(&record).unwrap();
    assert_eq!(view.name_bytes(), b"Courses=CPS616, Session=HPJava");
}

#[test]
fn properties_are_bounded_in_name_count_and_size() {
    let mut writer = PropertiesWriter::new();
    assert_eq!(writer.push("", Scalar::Null), Err(EncodeError::PropertyNameEmpty));
    let name = "n".repeat(PROPERTY_NAME_BYTES_MAX + 1);
    assert_eq!(writer.push(&name, Scalar::Null), Err(EncodeError::PropertyNameTooLong { bytes: 256 }));
    assert_eq!(writer.push(&name[1..], Scalar::Null), Ok(()));

    writer.clear();
    // Name and its length take two bytes; a long byte string's own head takes three.
    let value = vec![0; PROPERTIES_BYTES_MAX - 5];
    assert_eq!(writer.push("a", Scalar::Bytes(&value)), Ok(()));
    let full = writer.properties().as_bytes().to_vec();
    assert_eq!(full.len(), PROPERTIES_BYTES_MAX);
    assert!(matches!(writer.push("b", Scalar::Null), Err(EncodeError::PropertiesTooLong { .. })));
    assert_eq!(writer.properties().as_bytes(), full);

    writer.clear();
    for index in 0..PROPERTIES_COUNT_MAX {
        writer.push(&index.to_string(), Scalar::Null).unwrap();
    }
    assert_eq!(writer.push("more", Scalar::Null), Err(EncodeError::TooManyProperties));
}

#[test]
fn the_largest_properties_survive_the_trip() {
    let mut writer = PropertiesWriter::new();
    let value = vec![9; PROPERTIES_BYTES_MAX - 5];
    writer.push("a", Scalar::Bytes(&value)).unwrap();
    let mut message = Outgoing::new(topic("t"), BodyKind::Bytes, b"body");
    message.properties = writer.properties();
    let record = encode(&message);
    let view = MessageView::parse(&record).unwrap();
    assert_eq!(view.properties().get("a"), Ok(Some(Scalar::Bytes(&value))));
    assert_eq!(view.body(), b"body");
}

/// A record of `prices` with the given second and third byte and what follows the name.
fn record(urgency_and_kind: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
    [&[0x61, urgency_and_kind, flags, 6], &b"prices"[..], rest].concat()
}

const FIELDS: u8 = 1 << 4;
const PROPERTIES: u8 = 1 << 5;

#[test]
fn a_record_that_is_no_message_is_refused_with_the_reason() {
    let refused = |record: &[u8]| MessageView::parse(record).unwrap_err().to_string();
    assert_eq!(refused(&[]), "the bytes end inside the record");
    assert_eq!(
        refused(&[0x21, 0, 0, 0]),
        "the sender speaks version 1 of the format, this program version 3"
    );
    assert_eq!(refused(&[0x7f, 0, 0, 0]), "record kind 31 is not a message");
    assert_eq!(refused(&[0x61, 0x41]), "the bytes end inside the message header");
    assert_eq!(refused(&[0x61, 0xa1, 0, 1, b'a']), "priority 10 is not between 0 and 9");
    assert_eq!(refused(&[0x61, 0x41, 0, 0]), "the message has no destination");
    assert_eq!(refused(&[0x61, 0x41, 0, 2, b'a']), "the bytes end inside the destination");
    assert_eq!(refused(&record(0x41, FIELDS, &[0])), "the bytes end inside the header fields");
    assert_eq!(refused(&record(0x41, PROPERTIES, &[0, 2, 1])), "the bytes end inside the properties");
}

#[test]
fn a_body_kind_of_a_later_version_does_not_hide_the_rest() {
    let record = record(0x4f, 0, b"body");
    let view = MessageView::parse(&record).unwrap();
    assert_eq!(view.body_kind(), Err(DecodeError::UnknownBodyKind { found: 15 }));
    assert_eq!(view.body(), b"body");
    assert_eq!(view.name().unwrap().as_str(), "prices");
}

#[test]
fn flags_of_a_later_version_are_ignored() {
    let record = record(0x41, 0b1100_0000, b"body");
    assert_eq!(MessageView::parse(&record).unwrap().body(), b"body");
}

#[test]
fn header_fields_of_a_later_version_are_stepped_over() {
    // Fields 1 (ttl), 10 (type), 14 (bytes added later), 16 (hops), 23 (a number added later), 27 (bytes added later),
    // and one number and one text of a third word.
    let words = [0xc4, 0x02, 0x88, 0x81, 0x01, 0x01];
    let content = [60, 1, b'T', 2, 0xff, 0xff, 3, 0x85, 0x01, 1, 7, 9, 0];
    let fields = [&[0, (words.len() + content.len()) as u8], &words[..], &content].concat();
    let record = record(0x41, FIELDS, &fields);
    let view = MessageView::parse(&record).unwrap();
    let expected =
        HeaderFields { ttl_us: Some(60), message_type: Some("T"), hops: Some(3), ..HeaderFields::default() };
    assert_eq!(view.fields(), Ok(expected));
}

#[test]
fn a_bad_header_field_is_named() {
    let fields = |bytes: &[u8]| {
        let record = record(0x41, FIELDS, &[&[0, bytes.len() as u8], bytes].concat());
        MessageView::parse(&record).unwrap().fields().unwrap_err().to_string()
    };
    assert_eq!(fields(&[0]), "the bytes end inside the header fields");
    assert_eq!(fields(&[0, 1]), "the bytes end inside the header number");
    assert_eq!(fields(&[0, 0, 9]), "1 bytes are left over after the header fields");
    assert_eq!(fields(&[1, 0, 0x81, 1]), "the correlation id has 129 bytes; at most 128 are allowed");
    assert_eq!(
        fields(&[2, 0, 1, b'*']),
        "the reply-to is not valid: '*' at position 0: a wildcard may be subscribed to, not published to"
    );
    assert_eq!(fields(&[4, 0, 1, 0xff]), "the message type is not UTF-8 text");
    assert_eq!(fields(&[8, 0, 1, 5]), "the bytes end inside the origin publisher");
    assert_eq!(fields(&[0x20, 0, 1, 0xff]), "the group is not UTF-8 text");
    assert_eq!(fields(&[0x80, 0]), "the bytes end inside the header fields");
    assert_eq!(
        fields(&[0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0]),
        "the number of presence words is 5; at most 4 is allowed"
    );
}

#[test]
fn a_bad_property_is_an_error_and_ends_the_properties() {
    let first_error = |properties: &[u8]| {
        let record = record(0x41, PROPERTIES, &[&[0, properties.len() as u8], properties].concat());
        let properties = MessageView::parse(&record).unwrap().properties();
        let mut entries = properties.iter();
        let error = entries.find_map(Result::err).unwrap();
        assert!(entries.next().is_none());
        error.to_string()
    };
    assert_eq!(first_error(&[0, 0xc0]), "a property has an empty name");
    assert_eq!(first_error(&[1, b'a', 0xc0, 5, b'b']), "the bytes end inside the property name");
    assert_eq!(
        first_error(&[1, b'a', 0x90]),
        "a property is a list or a mapping; only single values are allowed there"
    );
    assert_eq!(first_error(&[1, 0xff, 0xc0]), "the property name is not UTF-8 text");
}

#[test]
fn looking_for_a_property_past_a_bad_one_is_an_error() {
    let record = record(0x41, PROPERTIES, &[0, 6, 1, b'a', 0x90, 1, b'b', 5]);
    let properties = MessageView::parse(&record).unwrap().properties();
    assert_eq!(properties.get("b"), Err(DecodeError::NotSingle { what: "property" }));
}

#[test]
fn more_properties_than_allowed_are_an_error_when_read() {
    let properties = [1, b'a', 0xc0].repeat(PROPERTIES_COUNT_MAX + 1);
    let length = (properties.len() as u16).to_be_bytes();
    let record = record(0x41, PROPERTIES, &[&length, &properties[..]].concat());
    let view = MessageView::parse(&record).unwrap();
    assert_eq!(view.properties().get("b"), Err(DecodeError::TooManyProperties));
}

#[test]
fn checking_a_message_reads_every_part() {
    let check = |record: &[u8]| MessageView::parse(record).unwrap().check();
    assert_eq!(check(&record(0x43, 0, &[0x81, 0xa1, b'k', 5])), Ok(()));
    assert_eq!(check(&record(0x40, 0, &[1])), Err(DecodeError::LeftOver { what: "empty body", bytes: 1 }));
    assert_eq!(check(&record(0x42, 0, &[0xff])), Err(DecodeError::NotText { what: "body" }));
    assert_eq!(check(&record(0x44, 0, &[0x92, 1])), Err(DecodeError::LengthClaim { elements: 2 }));
    assert_eq!(check(&record(0x41, PROPERTIES, &[0, 1, 0])), Err(DecodeError::PropertyNameEmpty));
    assert_eq!(check(&record(0x47, 0, &[1])), Err(DecodeError::NoBodyDetail));
    assert_eq!(
        check(&record(0x47, FIELDS, &[0, 4, 0x10, 0, 1, b'X'])),
        Err(DecodeError::ArrayOrder { found: b'X' })
    );
    // A list or a mapping with objects inside has no type of its own.
    assert_eq!(check(&record(0x48, 0, &[1])), Ok(()));
    assert_eq!(check(&record(0x48, FIELDS, &[0, 4, 0x10, 0, 1, b'T', 1])), Ok(()));
    assert!(matches!(check(&[0x61, 0x41, 0, 1, b'*']), Err(DecodeError::Destination { .. })));
}
