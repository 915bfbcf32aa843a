//! Messages through the switch to one subscription, with and without a selector: for counting instructions, which
//! a busy machine does not change. The difference between two counts of messages leaves the start out.
//!
//! ```text
//! cargo build --release -p shoal-node --example route
//! valgrind --tool=callgrind target/release/examples/route 10000 5 "region = 'EU'"
//! valgrind --tool=callgrind target/release/examples/route 110000 5 "region = 'EU'"
//! ```

use std::hint::black_box;
use std::time::Instant;

use shoal_node::{Interest, Origin, Scope, Switch};
use shoal_selector::Selector;
use shoal_wire::{
    BodyKind, Destination, MessageView, Outgoing, PropertiesWriter, Scalar, Topic, TopicPattern,
};

/// The last is what a selector asks for, so that it has to look past the others.
const PROPERTIES: [(&str, Scalar<'_>); 5] = [
    ("desk", Scalar::Str("equities")),
    ("urgent", Scalar::Bool(true)),
    ("volume", Scalar::Int(100_000)),
    ("price", Scalar::F64(10.25)),
    ("region", Scalar::Str("EU")),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let messages: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let properties: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let selector = arguments.next().map(|text| Selector::parse(&text).expect("a selector"));

    let mut switch = Switch::new(1);
    let pattern = TopicPattern::new("bench/data").expect("a pattern");
    switch.insert(1, Interest { selector, ..Interest::topics(pattern) }, Scope::Here);
    let record = record(properties.min(PROPERTIES.len()));
    let began = Instant::now();
    let mut delivered = 0;
    for number in 0..messages {
        let view = MessageView::parse(black_box(&record)).expect("a message");
        let origin = Origin { publisher: 3, number: number + 1, ..Origin::default() };
        delivered += switch.route(&view, &origin, Scope::Here).map_or(0, <[_]>::len);
    }
    let each = began.elapsed().as_nanos() as f64 / messages as f64;
    println!("{delivered} of {messages} delivered, {each:.1} ns a message");
}

fn record(properties: usize) -> Vec<u8> {
    let mut writer = PropertiesWriter::new();
    for (name, value) in &PROPERTIES[PROPERTIES.len() - properties..] {
        writer.push(name, *value).expect("it fits");
    }
    let destination = Destination::topic(Topic::new("bench/data").expect("a topic"));
    let mut record = Vec::new();
    Outgoing { properties: writer.properties(), ..Outgoing::new(destination, BodyKind::Bytes, &[7; 64]) }
        .encode_into(&mut record)
        .expect("it fits");
    record
}
