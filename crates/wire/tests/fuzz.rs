//! Bytes nobody meant to be a message: reading every part of them must end, without panicking.

use proptest::prelude::*;
use shoal_wire::{
    Announce, AnnounceHeader, Announcement, Answer, Answered, ArrayLayout, BodyKind, Destination,
    DestinationKind, Fact, Filter, FilterKind, Forgets, Goodbye, HeaderFields, Heartbeat, InterestEntry,
    Lacking, LinkState, Mark, MessageId, MessageView, NumberedEntry, Outgoing, PassedOn, Position,
    PropertiesWriter, Question, RecordKind, Replay, ReplyStatus, Scalar, Skip, SkipReason, Topic,
    TopicPattern, Typed, Welcome, check_value,
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
    for (name, value) in [
        ("region", Scalar::Str("EU")),
        ("n", Scalar::Int(-500)),
        ("x", Scalar::F64(0.5)),
        ("t", Scalar::Typed(Typed::Short(-2))),
    ] {
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
        origin: Some(MessageId { publisher: 0xdead_beef, chain: 1, number: 1 << 40 }),
        body_detail: Some(&detail),
        previous_persistent: Some(1),
        reply_status: Some(ReplyStatus::ERROR.and(ReplyStatus::MORE)),
        connection: Some(3),
        group: Some("desk"),
        hops: Some(1),
        held_us: Some(20),
        lease: Some(4),
        key: Some(5),
        group_sequence: Some(6),
        trace: Some(&[7; 26]),
        trace_state: Some("vendor=1"),
    };
    let mut record = Vec::new();
    message.encode_into(&mut record).unwrap();
    record
}

/// Reads bytes as every record that is not a message, whatever their first byte says.
fn read_as_control(record: &[u8]) {
    let _ = RecordKind::of(record);
    let _ = Heartbeat::read(record);
    let _ = Welcome::read(record);
    let _ = Mark::read(record);
    let _ = Skip::read(record).map(Skip::next);
    let _ = Goodbye::read(record);
    let _ = Forgets::read(record);
    let _ = LinkState::read(record);
    let _ = Question::read(record);
    let _ = Answer::read(record);
    if let Ok(replay) = Replay::read(record) {
        assert!(replay.chains.len() < record.len(), "everything that is made takes a byte at least");
    }
    if let Ok(announce) = Announce::read(record) {
        let made =
            announce.added.len() + announce.removed.len() + announce.missing.len() + announce.facts.len();
        assert!(made < record.len(), "everything that is made takes a byte at least");
    }
}

fn control_records() -> Vec<Vec<u8>> {
    let mut records = vec![Vec::new(); 7];
    Heartbeat { domain: 1, publisher: 2, version: 300 }.write(&mut records[0]);
    let position = Position { stream: 3, segment: 1 << 20, chain: 3, number: 1 << 33, missed_from: 5 };
    Welcome { from: 1, to: 2, positions: vec![position; 4] }.write(&mut records[1]);
    Mark {
        source: Some(PassedOn { publisher: 1, hops: 2, again: Some(std::time::Duration::from_secs(3)) }),
        chain: 2,
        number: 3,
        timestamp_us: 1 << 50,
        clock_us: 1 << 40,
        version: 9,
        earlier_us: 1,
        answered: Some(Answered { asker: 3, version: 300 }),
    }
    .write(&mut records[2]);
    Skip { reason: SkipReason::Dropped, number: 1 << 33, count: 7 }.write(&mut records[3]);
    Goodbye { domain: 1, publisher: 2, last: vec![(1, 7), (2, 1 << 40)] }.write(&mut records[4]);
    Forgets { node: 1 << 20 }.write(&mut records[5]);
    let lacking = Lacking { publisher: 7, chain: 2, next: 0, age_ms: 1 << 20 };
    Replay { from: 1, to: 2, version: 300, chains: vec![lacking; 4] }.write(&mut records[6]);
    let filters = vec![Filter { kind: FilterKind::Selector, bytes: &[1; 40] }];
    let entry = InterestEntry {
        persistent_only: true,
        no_local: Some(1),
        filters,
        ..InterestEntry::new(DestinationKind::Queue, "orders/>")
    };
    let entries: Vec<_> = (1..9).map(|id| NumberedEntry::new(id, &entry).unwrap()).collect();
    let header = AnnounceHeader {
        domain: 1,
        publisher: 2,
        version: 9,
        base: 3,
        heartbeat_ms: 4000,
        total: 8,
        digest: entries.iter().fold(0, |sum, entry| sum.wrapping_add(entry.digest())),
    };
    let added: Vec<&NumberedEntry> = entries.iter().collect();
    let facts = [Fact { tag: 1, value: b"x" }];
    let announcement =
        Announcement { header, removed: &[1, 2], added: &added, missing: &[5, 6], facts: &facts };
    records.extend(announcement.write(400));
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn random_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        read_everything(&bytes);
        read_as_control(&bytes);
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
        let mut record = vec![0x61, urgency_and_kind, flags | FIELDS | PROPERTIES, name.len() as u8];
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn mutated_control_records_are_read_without_panic(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut: prop::sample::Index,
        tail in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let records = control_records();
        let mut record = records[which.index(records.len())].clone();
        for (at, byte) in changes {
            let at = at.index(record.len());
            record[at] = byte;
        }
        read_as_control(&record);
        record.truncate(cut.index(record.len() + 1));
        read_as_control(&record);
        record.extend_from_slice(&tail);
        read_as_control(&record);
    }
}

#[test]
fn control_records_are_what_their_kind_says() {
    for record in control_records() {
        read_as_control(&record);
        assert!(!matches!(RecordKind::of(&record), Ok(RecordKind::Unknown(_)) | Err(_)));
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
