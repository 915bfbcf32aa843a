//! What the application does with messages, without a network.

use std::time::Duration;

use shoal_node::MembershipConfig;
use shoal_norm::Config;
use shoal_wire::{BodyKind, Destination, Outgoing, Topic, TopicPattern};

use super::super::consumer::Overflow;
use super::*;
use crate::norm::Outbox;

const LANES: usize = 5;

struct Bench {
    application: BusApplication<()>,
    session: Session,
    shared: Arc<Shared<()>>,
    next: SubscriptionId,
}

impl Bench {
    fn new() -> Bench {
        let membership = Membership::new(MembershipConfig {
            domain: 0,
            node: 1,
            instance: 1,
            heartbeat: Duration::from_secs(4),
            missed_heartbeats_max: 5,
            members_max: 10,
            seed: 1,
        });
        let shared = Arc::new(Shared::new(membership));
        let _ = shared.outbox.set(Arc::new(Outbox::new(LANES, 1 << 20, 1 << 20)));
        let session = Session::new(Config::new(1, 1, 1)).unwrap();
        let application = BusApplication::new(shared.clone(), (1..LANES as ObjectId).collect(), 1);
        Bench { application, session, shared, next: 0 }
    }

    fn subscribe(&mut self, pattern: &str, bytes_max: usize) -> Arc<Consumer<()>> {
        let consumer = Arc::new(Consumer::new(bytes_max, Overflow::Wait));
        let interest = Interest::topics(TopicPattern::new(pattern).unwrap());
        self.next += 1;
        self.shared.change(Change::Subscribe(self.next, Box::new(interest), consumer.clone()));
        self.application.serve(Time::ZERO, &mut self.session, &mut Vec::new());
        consumer
    }

    fn deliver(&mut self, stream: StreamId, topic: &str, bytes: usize) {
        let mut record = Vec::new();
        let body = vec![0; bytes];
        Outgoing::new(Destination::topic(Topic::new(topic).unwrap()), BodyKind::Bytes, &body)
            .encode_into(&mut record)
            .unwrap();
        self.application.frame(Time::ZERO, stream, &record);
    }
}

fn stream(node: NodeId, object: ObjectId) -> StreamId {
    StreamId { node, instance: 1, object }
}

fn take(consumer: &Consumer<()>) {
    consumer.take(Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_full_subscription_parks_the_stream_that_feeds_it_and_no_other() {
    let mut bench = Bench::new();
    let full = bench.subscribe("a", 1000);
    bench.subscribe("b", 1000);
    bench.deliver(stream(2, 2), "a", 600);
    assert!(bench.application.has_room(stream(2, 2)));
    bench.deliver(stream(2, 2), "a", 600);
    assert!(!bench.application.has_room(stream(2, 2)), "also before the batch is put into the queue");
    bench.application.batch_done();
    assert!(!bench.application.has_room(stream(2, 2)));
    for other in [stream(2, 0), stream(2, 1), stream(2, 4), stream(3, 2)] {
        assert!(bench.application.has_room(other), "{other:?}");
    }
    bench.deliver(stream(3, 2), "b", 10);
    assert!(bench.application.has_room(stream(3, 2)));
    take(&full);
    assert!(bench.application.has_room(stream(2, 2)));
}

#[test]
fn a_stream_waits_for_every_subscription_it_filled() {
    let mut bench = Bench::new();
    let consumers = [bench.subscribe("a", 1000), bench.subscribe("*", 500)];
    bench.deliver(stream(2, 2), "a", 1000);
    bench.application.batch_done();
    take(&consumers[0]);
    assert!(!bench.application.has_room(stream(2, 2)));
    take(&consumers[1]);
    assert!(bench.application.has_room(stream(2, 2)));
    bench.application.batch_done();
    assert!(bench.application.parked.is_empty());
}

#[test]
fn a_queue_that_is_full_takes_no_more_than_one_piece_of_each_stream() {
    let mut bench = Bench::new();
    bench.subscribe("a", 1000);
    for node in 2..5 {
        assert!(bench.application.has_room(stream(node, 2)), "nothing of it came yet");
        bench.deliver(stream(node, 2), "a", 1000);
        bench.application.batch_done();
        assert!(!bench.application.has_room(stream(node, 2)));
    }
}

#[test]
fn a_subscription_that_ends_or_drops_holds_nobody_back() {
    let mut bench = Bench::new();
    let full = bench.subscribe("a", 1000);
    bench.deliver(stream(2, 2), "a", 2000);
    bench.application.batch_done();
    assert!(!bench.application.has_room(stream(2, 2)));
    full.close();
    assert!(bench.application.has_room(stream(2, 2)));
}
