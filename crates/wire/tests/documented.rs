//! The worked examples of `docs/reference/wire-format.md` are what the encoder writes.

use shoal_wire::{
    BodyKind, Destination, HeaderFields, MessageId, MessageView, Outgoing, Priority, PropertiesWriter,
    Scalar, Topic, ValueWriter,
};

const PAGE: &str = include_str!("../../../docs/reference/wire-format.md");

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
        origin: Some(MessageId { node: 0xbeef, stream: 2, sequence: 300 }),
        ..HeaderFields::default()
    };
    assert_documented("A message with everything", &message);
}
