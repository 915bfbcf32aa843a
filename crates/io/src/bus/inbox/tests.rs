//! What becomes of messages, without a network.

use std::time::Duration;

use shoal_norm::ObjectId;
use shoal_wire::{BodyKind, Destination, Outgoing, Topic, TopicPattern, frame};

use super::super::consumer::Overflow;
use super::*;

struct Bench {
    inbox: Inbox<()>,
    next: SubscriptionId,
}

impl Bench {
    fn new() -> Bench {
        Bench { inbox: Inbox::new(1, 1 << 20), next: 0 }
    }

    fn subscribe(&mut self, pattern: &str, bytes_max: usize) -> Arc<Consumer<()>> {
        let consumer = Arc::new(Consumer::new(bytes_max, Overflow::Wait));
        self.next += 1;
        self.inbox.subscribe(
            self.next,
            Interest::topics(TopicPattern::new(pattern).unwrap()),
            consumer.clone(),
        );
        consumer
    }

    fn take(&mut self, stream: StreamId, bytes: &[u8]) -> Taken {
        let chunk = Chunk { bytes, fresh: false };
        self.inbox.take(stream, chunk, |why| panic!("{why}"), |_| ())
    }

    /// A message comes, and is handed over. False if the stream is parked.
    fn deliver(&mut self, stream: StreamId, topic: &str, bytes: usize) -> bool {
        let (mut record, mut framed) = (Vec::new(), Vec::new());
        let body = vec![0; bytes];
        Outgoing::new(Destination::topic(Topic::new(topic).unwrap()), BodyKind::Bytes, &body)
            .encode_into(&mut record)
            .unwrap();
        frame::write(&record, &mut framed);
        let taken = self.take(stream, &framed);
        self.inbox.hand_over();
        taken == Taken::All
    }
}

fn stream(node: NodeId, object: ObjectId) -> StreamId {
    StreamId { node, instance: 1, object }
}

fn read(consumer: &Consumer<()>) {
    consumer.take(Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_full_subscription_parks_the_stream_that_feeds_it_and_no_other() {
    let mut bench = Bench::new();
    let full = bench.subscribe("a", 1000);
    bench.subscribe("b", 1000);
    assert!(bench.deliver(stream(2, 2), "a", 600));
    assert!(bench.deliver(stream(2, 2), "a", 600));
    assert!(!bench.deliver(stream(2, 2), "b", 10), "what follows in the stream waits, whoever it is for");
    for other in [stream(2, 1), stream(2, 4), stream(3, 2)] {
        assert!(bench.deliver(other, "b", 10), "{other:?}");
    }
    read(&full);
    assert!(bench.deliver(stream(2, 2), "a", 600));
}

#[test]
fn a_stream_waits_for_every_subscription_it_filled() {
    let mut bench = Bench::new();
    let consumers = [bench.subscribe("a", 1000), bench.subscribe("*", 500)];
    assert!(bench.deliver(stream(2, 2), "a", 1000));
    read(&consumers[0]);
    assert!(!bench.deliver(stream(2, 2), "c", 1));
    read(&consumers[1]);
    assert!(bench.deliver(stream(2, 2), "c", 1));
    assert!(bench.inbox.parked.is_empty());
}

#[test]
fn a_queue_that_is_full_takes_no_more_than_one_piece_of_each_stream() {
    let mut bench = Bench::new();
    bench.subscribe("a", 1000);
    for node in 2..5 {
        assert!(bench.deliver(stream(node, 2), "a", 1000), "nothing of it came yet");
        assert!(!bench.deliver(stream(node, 2), "a", 1000));
    }
}

#[test]
fn a_subscription_that_ends_holds_nobody_back() {
    let mut bench = Bench::new();
    let full = bench.subscribe("a", 1000);
    assert!(bench.deliver(stream(2, 2), "a", 2000));
    assert!(!bench.deliver(stream(2, 2), "a", 1));
    full.close();
    assert!(bench.deliver(stream(2, 2), "a", 1));
}

#[test]
fn a_version_that_a_mark_names_is_told_once_and_before_the_messages_after_it() {
    let mut bench = Bench::new();
    let mut told = Vec::new();
    for version in [3, 3, 4] {
        let (mut record, mut framed) = (Vec::new(), Vec::new());
        Mark { timestamp_us: 1, number: 0, version }.write(&mut record);
        frame::write(&record, &mut framed);
        let chunk = Chunk { bytes: &framed, fresh: false };
        bench.inbox.take(stream(2, 2), chunk, |why| panic!("{why}"), |version| told.push(version));
    }
    assert_eq!(told, [3, 4]);
}
