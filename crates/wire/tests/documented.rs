//! The worked examples of `docs/reference/wire-format.md` are what the encoder writes.

use shoal_wire::{
    Announce, AnnounceHeader, Announcement, BodyKind, Destination, DestinationKind, Filter, FilterKind,
    Goodbye, HeaderFields, Heartbeat, InterestEntry, Mark, MessageId, MessageView, NumberedEntry, Outgoing,
    Position, Priority, PropertiesWriter, Scalar, Skip, SkipReason, Topic, Typed, ValueWriter, Welcome,
    frame,
};

const PAGE: &str = include_str!("../../../docs/reference/wire-format.md");

const DOMAIN: u64 = 7;
const PUBLISHER: u64 = 0x0123_4567_89ab_cdef;

/// The bytes of the `hex` block under a heading: on each line what stands before two spaces.
fn documented(heading: &str) -> Vec<u8> {
    let (_, section) = PAGE.split_once(&format!("### {heading}\n")).expect("the heading is there");
    let (_, block) = section.split_once("```hex\n").expect("a hex block follows it");
    let (block, _) = block.split_once("```").expect("the block ends");
    block
        .lines()
        .flat_map(|line| line.split("  ").next().unwrap_or_default().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits"))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}

fn assert_documented(heading: &str, message: &Outgoing<'_>) {
    let mut record = Vec::new();
    message.encode_into(&mut record).unwrap();
    let page = documented(heading);
    assert_eq!(hex(&page), hex(&record));
    let view = MessageView::parse(&page).unwrap();
    view.check().unwrap();
    assert_eq!(view.to_outgoing().as_ref(), Ok(message));
}

#[test]
fn the_plain_example_is_what_is_written() {
    let destination = Destination::topic(Topic::new("prices/ACME").unwrap());
    assert_documented("A plain message", &Outgoing::new(destination, BodyKind::Text, "10¼".as_bytes()));
}

#[test]
fn the_full_example_is_what_is_written() {
    let mut properties = PropertiesWriter::new();
    properties.push("region", Scalar::Str("EU")).unwrap();
    properties.push("volume", Scalar::Int(1000)).unwrap();
    properties.push("lots", Scalar::Typed(Typed::Short(12))).unwrap();
    let mut body = Vec::new();
    let mut writer = ValueWriter::new(&mut body);
    writer.begin_map(2).unwrap();
    writer.scalar(Scalar::Str("bid")).unwrap();
    writer.scalar(Scalar::F64(10.25)).unwrap();
    writer.scalar(Scalar::Str("sizes")).unwrap();
    writer.begin_list(2).unwrap();
    writer.scalar(Scalar::Int(-5)).unwrap();
    writer.scalar(Scalar::Null).unwrap();
    writer.end();
    writer.end();

    let destination = Destination::queue(Topic::new("desk=7,side=bid").unwrap());
    let mut message = Outgoing::new(destination, BodyKind::Map, &body);
    message.priority = Priority::new(7).unwrap();
    message.persistent = true;
    message.properties = properties.properties();
    message.fields = HeaderFields {
        timestamp_us: Some(1_700_000_000_000_000),
        ttl_us: Some(1_500_000),
        correlation_id: Some(b"#7"),
        reply_to: Some(Destination::topic(Topic::new("answers").unwrap())),
        message_type: Some("quote"),
        origin: Some(MessageId { publisher: PUBLISHER, chain: 2, number: 300 }),
        previous_persistent: Some(2),
        hops: Some(1),
        held_us: Some(500),
        ..HeaderFields::default()
    };
    assert_documented("A message with everything", &message);
}

#[test]
fn the_beginning_of_a_stream_is_what_is_written() {
    let mark = Mark {
        source: None,
        chain: 2,
        number: 300,
        timestamp_us: 1_700_000_000_000_000,
        clock_us: 1_000_000,
        version: 7,
        earlier_us: 0,
        answered: None,
    };
    let skip = Skip { reason: SkipReason::Unwanted, number: 300, count: 2 };
    assert_eq!(skip.next(), 302);
    let (mut marked, mut skipped, mut stream) = (Vec::new(), Vec::new(), Vec::new());
    mark.write(&mut marked);
    skip.write(&mut skipped);
    frame::write(&marked, &mut stream);
    frame::write(&skipped, &mut stream);
    assert_eq!(hex(&documented("The beginning of a stream")), hex(&stream));
}

fn assert_announced(
    heading: &str,
    header: AnnounceHeader,
    removed: &[u64],
    entry: &NumberedEntry,
    missing: &[u64],
) {
    let header = AnnounceHeader { total: 1, digest: entry.digest(), ..header };
    let records = Announcement { header, removed, added: &[entry], missing, facts: &[] }.write(1400);
    assert_eq!(records.len(), 1);
    let page = documented(heading);
    assert_eq!(hex(&page), hex(&records[0]));
    let read = Announce::read(&page).unwrap();
    assert_eq!((read.header, &read.removed[..], &read.missing[..]), (header, removed, missing));
    assert_eq!(read.added[0].digest, entry.digest());
}

#[test]
fn the_announcements_are_what_is_written() {
    let first = AnnounceHeader {
        domain: DOMAIN,
        publisher: PUBLISHER,
        version: 1,
        base: 0,
        heartbeat_ms: 4000,
        total: 1,
        digest: 0,
    };
    let entry = NumberedEntry::new(1, &InterestEntry::new(DestinationKind::Topic, "prices/*")).unwrap();
    assert_announced("A first announcement", first, &[], &entry, &[]);

    let entry = InterestEntry {
        kind: DestinationKind::Queue,
        pattern: "orders",
        persistent_only: true,
        no_local: Some(3),
        filters: vec![Filter { kind: FilterKind::Selector, bytes: &[1, 1] }],
    };
    let entry = NumberedEntry::new(2, &entry).unwrap();
    assert_announced("What changed", AnnounceHeader { version: 2, base: 1, ..first }, &[1], &entry, &[9]);
}

#[test]
fn the_other_records_are_what_is_written() {
    let mut record = Vec::new();
    let position = Position { stream: 2, segment: 1024, chain: 2, number: 300, missed_from: 250 };
    Welcome { from: PUBLISHER, to: 9, positions: vec![position] }.write(&mut record);
    assert_eq!(hex(&documented("A welcome")), hex(&record));

    record.clear();
    Heartbeat { domain: DOMAIN, publisher: PUBLISHER, version: 2 }.write(&mut record);
    assert_eq!(hex(&documented("A heartbeat")), hex(&record));

    record.clear();
    Goodbye { domain: DOMAIN, publisher: PUBLISHER, last: vec![(2, 300), (3, 0)] }.write(&mut record);
    assert_eq!(hex(&documented("A goodbye")), hex(&record));
}

#[test]
fn the_text_form_on_the_page_is_the_one_that_is_read() {
    let id = MessageId { publisher: PUBLISHER, chain: 2, number: 77 };
    assert!(PAGE.contains(&format!("`{id}`")));
}
