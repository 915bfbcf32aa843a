//! What encoding and parsing one message costs: `cargo run --release -p shoal-wire --example codec`.
//!
//! Each figure is the median of eleven rounds, nanoseconds per message.

use std::hint::black_box;
use std::time::Instant;

use shoal_wire::{
    BodyKind, Destination, HeaderFields, MessageView, Outgoing, PropertiesWriter, Scalar, TopicBuf,
};

const ROUNDS: usize = 11;
const MESSAGES: usize = 1_000_000;
/// As many messages as fill about one run of segments before the buffer is emptied.
const BATCH: usize = 500;

fn main() {
    let topic = TopicBuf::new("prices/ACME").unwrap();
    let destination = Destination::topic(topic.as_topic());
    let plain = Outgoing::new(destination, BodyKind::Bytes, &[7; 64]);
    let mut properties = PropertiesWriter::new();
    write_five(&mut properties);
    let with_properties = Outgoing { properties: properties.properties(), ..plain };
    let fields =
        HeaderFields { timestamp_us: Some(1_700_000_000_000_000), ttl_us: Some(60_000_000), ..plain.fields };
    let jms_shaped = Outgoing { fields, ..with_properties };

    for (name, message) in [
        ("no properties", plain),
        ("5 properties", with_properties),
        ("5 properties, 2 header fields", jms_shaped),
    ] {
        measure(name, &message);
    }

    let mut scratch = PropertiesWriter::new();
    report(
        "write 5 properties",
        median(|| {
            black_box(&mut scratch).clear();
            write_five(&mut scratch);
            black_box(scratch.properties().as_bytes().len());
        }),
    );
    let view = properties.properties();
    report(
        "look up the fifth property",
        median(|| {
            black_box(black_box(view).get(black_box("lot")).unwrap());
        }),
    );
    report(
        "check a topic",
        median(|| {
            black_box(shoal_wire::Topic::new(black_box("prices/ACME")).unwrap());
        }),
    );
}

fn measure(name: &str, message: &Outgoing<'_>) {
    let mut out = Vec::with_capacity(BATCH * 256);
    let mut count = 0;
    let encode_ns = median(|| {
        count += 1;
        if count % BATCH == 0 {
            out.clear();
        }
        black_box(message).encode_into(black_box(&mut out)).unwrap();
    });
    let mut record = Vec::new();
    message.encode_into(&mut record).unwrap();
    println!("64 B body, {name}: record of {} bytes", record.len());
    report("encode", encode_ns);
    report(
        "parse, and read topic bytes, kind and body",
        median(|| {
            let view = MessageView::parse(black_box(&record)).unwrap();
            black_box((view.name_bytes(), view.body_kind().unwrap(), view.body(), view.priority()));
        }),
    );
    report(
        "parse, and decode header fields",
        median(|| {
            black_box(MessageView::parse(black_box(&record)).unwrap().fields().unwrap());
        }),
    );
}

fn write_five(properties: &mut PropertiesWriter) {
    let five = [
        ("region", Scalar::Str("EU")),
        ("bid", Scalar::F64(10.25)),
        ("volume", Scalar::Int(100_000)),
        ("live", Scalar::Bool(true)),
        ("lot", Scalar::Int(7)),
    ];
    for (name, value) in five {
        properties.push(black_box(name), black_box(value)).unwrap();
    }
}

fn median(mut work: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..MESSAGES).for_each(|_| work());
            start.elapsed().as_nanos() as f64 / MESSAGES as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn report(what: &str, ns: f64) {
    println!("  {what:<46} {ns:>6.1} ns");
}
