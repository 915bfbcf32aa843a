//! What becomes of messages, without a network.

use std::sync::Mutex;

use shoal_wire::{
    BodyKind, Destination, HeaderFields, Outgoing, PassedOn as PassedMark, Topic, TopicPattern, frame,
};

use super::super::assembly::{Budget, PART_BYTES_FREE};
use super::super::consumer::{Batch, Consumer, Overflow};
use super::super::origins::{Origins, SILENCE};
use super::super::wake::Asleep;
use super::*;
use crate::switch::Interest;

struct Bench {
    inbox: Inbox,
    routes: Routes,
    sources: HashMap<(NodeId, u32), SourceId>,
}

impl Bench {
    fn new() -> Bench {
        Bench::on_link(0, Arc::default())
    }

    fn on_link(link: LinkId, origins: Arc<Mutex<Origins>>) -> Bench {
        Bench {
            inbox: Inbox::new(
                1 << 20,
                Assembly::new(Arc::new(Budget::new(1 << 20))),
                Place { link, rests: None, publisher: 99, origins, owed: Arc::default() },
                false,
            ),
            routes: Routes::new(1),
            sources: HashMap::default(),
        }
    }

    fn subscribe(&mut self, pattern: &str, bytes_max: usize) -> Arc<Consumer> {
        let consumer = Arc::new(Consumer::new(bytes_max, Overflow::Wait, Arc::new(Asleep)));
        let interest = Interest::topics(TopicPattern::new(pattern).unwrap());
        self.routes.subscribe(Time::ZERO, interest, consumer.clone(), false);
        consumer
    }

    fn source(&mut self, stream: (NodeId, u32)) -> SourceId {
        let source = Source { publisher: stream.0.into(), chain: stream.1, node: stream.0 };
        *self.sources.entry(stream).or_insert_with(|| self.inbox.open(source))
    }

    /// What comes, and what was wrong with it.
    fn feed(&mut self, stream: (NodeId, u32), bytes: &[u8], fresh: bool) -> (Fed, Vec<String>) {
        let begins = !self.sources.contains_key(&stream);
        let id = self.source(stream);
        // Streams begin with a mark.
        if begins && RecordKind::of(&bytes[1..]) != Ok(RecordKind::Mark) {
            self.feed(stream, &framed_mark(1, 0, 0), false);
        }
        let chunk = Chunk { bytes, fresh };
        let mut wrong = Vec::new();
        let fed = self.inbox.feed(NOW, &mut self.routes, id, chunk, |why| wrong.push(why), |_| ());
        (fed, wrong)
    }

    fn take(&mut self, stream: (NodeId, u32), bytes: &[u8]) -> Fed {
        let (fed, wrong) = self.feed(stream, bytes, false);
        assert_eq!(wrong, [""; 0]);
        fed
    }

    fn hand_over(&mut self) {
        self.inbox.hand_over(NOW, &self.routes);
    }

    /// A message comes, and is handed over. False if the stream is parked.
    fn deliver(&mut self, stream: (NodeId, u32), topic: &str, bytes: usize) -> bool {
        let fed = self.take(stream, &message(topic, bytes, HeaderFields::default()));
        self.hand_over();
        fed == Fed::All
    }
}

const NOW: Time = Time::from_nanos(5_000_000_000);

/// A message in its frame.
fn mark(number: u64, version: u64, clock_us: u64) -> Mark {
    Mark { source: None, chain: 2, number, timestamp_us: 1, clock_us, version, earlier_us: 0, answered: None }
}

fn framed_mark(number: u64, version: u64, clock_us: u64) -> Vec<u8> {
    let (mut record, mut framed) = (Vec::new(), Vec::new());
    mark(number, version, clock_us).write(&mut record);
    frame::write(&record, &mut framed);
    framed
}

fn message(topic: &str, bytes: usize, fields: HeaderFields<'_>) -> Vec<u8> {
    let (mut record, mut framed) = (Vec::new(), Vec::new());
    let body = vec![0; bytes];
    let destination = Destination::topic(Topic::new(topic).unwrap());
    Outgoing { fields, ..Outgoing::new(destination, BodyKind::Bytes, &body) }
        .encode_into(&mut record)
        .unwrap();
    frame::write(&record, &mut framed);
    framed
}

fn stream(node: NodeId, chain: u32) -> (NodeId, u32) {
    (node, chain)
}

fn read(consumer: &Consumer) {
    consumer.take().unwrap();
}

fn batch(consumer: &Consumer) -> Batch {
    consumer.take().unwrap().batches.pop_front().expect("something came")
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
        mark(1, version, 0).write(&mut record);
        frame::write(&record, &mut framed);
        let id = bench.source(stream(2, 2));
        let Bench { inbox, routes, .. } = &mut bench;
        let chunk = Chunk { bytes: &framed, fresh: false };
        inbox.feed(NOW, routes, id, chunk, |why| panic!("{why}"), |news| told.push(news));
    }
    assert_eq!(told, [Told::Version(3), Told::Version(4)]);
}

#[test]
fn the_time_a_message_waited_at_its_sender_counts_against_its_time_to_live() {
    let mut bench = Bench::new();
    let consumer = bench.subscribe("a", 10_000);
    let (mut record, mut bytes) = (Vec::new(), Vec::new());
    mark(1, 0, 9_000_000).write(&mut record);
    frame::write(&record, &mut bytes);
    // By the sender's clock it is nine seconds: one was published two seconds ago, the other just now.
    for published_us in [7_000_000, 9_000_000] {
        for ttl_us in [1_000_000, 3_000_000] {
            let fields = HeaderFields {
                ttl_us: Some(ttl_us),
                published_us: Some(published_us),
                ..HeaderFields::default()
            };
            bytes.extend(message("a", 10, fields));
        }
    }
    assert_eq!(bench.take(stream(2, 2), &bytes), Fed::All);
    bench.hand_over();
    let batch = batch(&consumer);
    let ages: Vec<u64> = batch.entries.iter().map(|entry| batch.age(entry).as_secs()).collect();
    assert_eq!(ages, [2, 0, 0], "the one that may live for a second is gone, and the others know their age");
}

#[test]
fn parts_of_messages_are_bounded_for_all_streams_together() {
    let mut bench = Bench::new();
    let consumer = bench.subscribe("a", 10 << 20);
    let large = message("a", 700_000, HeaderFields::default());
    let mut lost = Vec::new();
    let (begun, rest) = large.split_at(600_000);
    for node in 2..5 {
        let (fed, wrong) = bench.feed(stream(node, 2), begun, false);
        lost.extend(wrong);
        assert_eq!(fed, if node == 2 { Fed::All } else { Fed::Broken });
        assert!(bench.inbox.assembly.bytes <= bench.inbox.assembly.budget.bytes_max);
    }
    assert!(lost.len() == 2 && lost[0].contains("assembly_bytes_max"), "{lost:?}");
    assert_eq!(bench.take(stream(2, 2), rest), Fed::All);
    bench.hand_over();
    assert_eq!(consumer.take().unwrap().batches.len(), 1);
    assert_eq!(bench.inbox.assembly.bytes, 0);
    bench.take(stream(3, 2), begun);
    let id = bench.source(stream(3, 2));
    bench.inbox.close(NOW, id, &bench.routes);
    assert_eq!(bench.inbox.assembly.bytes, 0, "what will never be completed holds nothing");
}

#[test]
fn a_node_that_failed_holds_no_part_of_a_large_message_and_loses_no_small_one() {
    let mut bench = Bench::new();
    let consumer = bench.subscribe("a", 10 << 20);
    let (large, small) =
        (message("a", 700_000, HeaderFields::default()), message("a", 900, HeaderFields::default()));
    bench.take(stream(2, 2), &large[..600_000]);
    bench.take(stream(2, 3), &small[..500]);
    bench.take(stream(3, 2), &large[..300_000]);
    let others = bench.inbox.assembly.bytes - (600_000 - PART_BYTES_FREE);
    for (chain, cut) in [(2, true), (3, false)] {
        let id = bench.source(stream(2, chain));
        assert_eq!(bench.inbox.rest(NOW, id, &bench.routes), cut);
    }
    assert_eq!(bench.inbox.assembly.bytes, others, "only what the node that failed had is given back");
    assert_eq!(bench.take(stream(2, 3), &small[500..]), Fed::All);
    assert_eq!(bench.take(stream(2, 2), &[small, framed_mark(9, 0, 0)].concat()), Fed::All);
    bench.hand_over();
    assert_eq!(consumer.take().unwrap().batches.len(), 2, "it was only silent, and goes on");
}

#[test]
fn a_small_message_is_put_together_though_large_ones_hold_everything() {
    let mut bench = Bench::new();
    let consumer = bench.subscribe("a", 10 << 20);
    let large = message("a", 1_000_000, HeaderFields::default());
    bench.take(stream(2, 1), &large[..999_000]);
    bench.take(stream(2, 2), &large[..150_000]);
    let small = message("a", 1000, HeaderFields::default());
    assert_eq!(bench.take(stream(3, 2), &small[..500]), Fed::All);
    assert_eq!(bench.take(stream(3, 2), &small[500..]), Fed::All);
    bench.hand_over();
    assert_eq!(consumer.take().unwrap().batches.len(), 1);
}

#[test]
fn a_subscription_that_wants_little_holds_no_more_than_a_few_times_that() {
    let mut bench = Bench::new();
    let (everything, little) = (bench.subscribe(">", 10 << 20), bench.subscribe("rare", 10 << 20));
    let mut bytes = message("rare", 64, HeaderFields::default());
    for _ in 0..100 {
        bytes.extend(message("often", 1000, HeaderFields::default()));
    }
    bench.take(stream(2, 2), &bytes);
    bench.hand_over();
    let (all, one) = (batch(&everything), batch(&little));
    assert_eq!((all.entries.len(), one.entries.len()), (101, 1));
    assert!(one.bytes.len() < 100, "{} bytes", one.bytes.len());
    assert_eq!(one.record(&one.entries[0]), all.record(&all.entries[0]));
}

#[test]
fn after_a_gap_messages_wait_for_the_mark_that_numbers_them() {
    let mut bench = Bench::new();
    let consumer = bench.subscribe("a", 10_000);
    let bytes = message("a", 1, HeaderFields::default());
    bench.take(stream(2, 2), &[framed_mark(7, 0, 0), bytes.clone()].concat());
    bench.feed(stream(2, 2), &bytes, true);
    bench.take(stream(2, 2), &bytes);
    bench.hand_over();
    let numbers = |batch: &Batch| -> Vec<u64> {
        batch.entries.iter().map(|entry| batch.origin(entry).number).collect()
    };
    assert_eq!(numbers(&batch(&consumer)), [7]);
    bench.take(stream(2, 2), &framed_mark(100, 0, 0));
    bench.hand_over();
    assert_eq!(numbers(&batch(&consumer)), [98, 99]);
}

#[test]
fn a_stream_that_begins_again_brings_nothing_twice() {
    let mut bench = Bench::new();
    let consumer = bench.subscribe("a", 10_000);
    let bytes = message("a", 1, HeaderFields::default());
    let three = [bytes.clone(), bytes.clone(), bytes].concat();
    bench.take(stream(2, 2), &[framed_mark(1, 0, 0), three.clone()].concat());
    bench.feed(stream(2, 2), &[framed_mark(2, 0, 0), three].concat(), true);
    bench.hand_over();
    let batch = batch(&consumer);
    let numbers: Vec<u64> = batch.entries.iter().map(|entry| batch.origin(entry).number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
}

/// What a chain of publisher 7 looks like that somebody passes on: its mark, and so many messages.
fn passed_on(number: u64, messages: usize) -> Vec<u8> {
    let (mut record, mut bytes) = (Vec::new(), Vec::new());
    let source = Some(PassedMark { publisher: 7, hops: 1, again: None });
    Mark { source, ..mark(number, 0, 0) }.write(&mut record);
    frame::write(&record, &mut bytes);
    (0..messages).for_each(|_| bytes.extend(message("a", 1, HeaderFields::default())));
    bytes
}

fn skipped(reason: SkipReason, number: u64, count: u64) -> Vec<u8> {
    let (mut record, mut bytes) = (Vec::new(), Vec::new());
    Skip { reason, number, count }.write(&mut record);
    frame::write(&record, &mut bytes);
    bytes
}

/// Two links over which one chain comes, and what each of them tells.
struct TwoWays {
    ways: [Bench; 2],
    now: Time,
}

impl TwoWays {
    fn new() -> TwoWays {
        let origins = Arc::default();
        TwoWays { ways: [0, 1].map(|link| Bench::on_link(link, Arc::clone(&origins))), now: NOW }
    }

    /// What comes over one of them is delivered. What is told as lost.
    fn come(&mut self, way: usize, bytes: &[u8]) -> Vec<(u64, u64)> {
        let Bench { inbox, routes, .. } = &mut self.ways[way];
        let mut lost = Vec::new();
        let told = |news| {
            if let Told::Lost(_, first, last) = news {
                lost.push((first, last));
            }
        };
        let chunk = Chunk { bytes, fresh: false };
        assert_eq!(inbox.feed(self.now, routes, 0, chunk, |why| panic!("{why}"), told), Fed::All);
        inbox.hand_over(self.now, routes);
        inbox.finish(self.now);
        lost
    }

    fn open(&mut self) {
        for (way, node) in self.ways.iter_mut().zip([2, 3]) {
            way.subscribe("a", 1 << 20);
            way.source(stream(node, 2));
        }
    }
}

#[test]
fn whoever_held_a_chain_before_tells_nothing_as_lost_that_came_another_way() {
    let mut net = TwoWays::new();
    net.open();
    assert_eq!(net.come(0, &passed_on(1, 3)), []);
    net.now += 2 * SILENCE;
    assert_eq!(net.come(1, &passed_on(4, 6)), [], "the other way goes on");
    // The first one is back: it says how far it is, and what it lost itself.
    assert_eq!(net.come(0, &passed_on(8, 0)), [], "4 to 7 came");
    assert_eq!(net.come(0, &skipped(SkipReason::Lost, 8, 2)), [], "and so did 8 and 9");
    assert_eq!(net.come(0, &skipped(SkipReason::Unwanted, 10, 5)), []);
    assert_eq!(net.come(1, &passed_on(10, 5)), [], "it is not its turn");
}

#[test]
fn nobody_waits_longer_for_what_another_way_may_bring_than_until_it_did() {
    let mut net = TwoWays::new();
    net.open();
    assert_eq!(net.come(0, &passed_on(1, 3)), []);
    assert_eq!(net.come(1, &passed_on(4, 2)), []);
    let until = net.ways[1].inbox.aside().0;
    assert!(until > net.now && until < Time::NEVER, "the other way may bring 4 as well");
    assert_eq!(net.come(0, &passed_on(4, 2)), []);
    assert_eq!(net.ways[1].inbox.aside().0, Time::ZERO, "it did");
    assert_eq!(net.come(1, &[]), []);
    assert_eq!(net.ways[1].inbox.aside().0, Time::NEVER);
}

#[test]
fn a_skip_without_a_mark_counts_only_of_whoever_holds_the_chain() {
    let mut net = TwoWays::new();
    net.open();
    assert_eq!(net.come(0, &passed_on(1, 3)), []);
    net.now += 2 * SILENCE;
    assert_eq!(net.come(1, &passed_on(4, 6)), []);
    assert_eq!(net.come(0, &skipped(SkipReason::Lost, 4, 4)), []);
    assert_eq!(net.come(1, &skipped(SkipReason::Lost, 10, 4)), [(10, 13)], "it does hold it");
    net.now += 2 * SILENCE;
    assert_eq!(net.come(0, &skipped(SkipReason::Lost, 10, 6)), [(14, 15)], "only what nobody told");
    assert_eq!(net.come(0, &passed_on(16, 1)), []);
}

#[test]
fn what_another_one_says_is_lost_counts_once_the_holder_is_silent_though_nothing_more_comes() {
    for said in [skipped(SkipReason::Lost, 4, 5), passed_on(9, 0)] {
        let mut net = TwoWays::new();
        net.open();
        assert_eq!(net.come(0, &passed_on(1, 3)), []);
        assert_eq!(net.come(1, &[passed_on(4, 0), said].concat()), [], "the holder may bring it");
        net.now += SILENCE / 2;
        assert_eq!(net.come(0, &passed_on(4, 2)), [], "and does, some of it");
        net.now += 2 * SILENCE;
        assert_eq!(net.come(1, &[]), [(6, 8)]);
    }
}

#[test]
fn what_a_goodbye_tells_as_lost_nobody_tells_again() {
    let mut net = TwoWays::new();
    let origins = Arc::default();
    net.ways = [0, 1].map(|link| Bench::on_link(link, Arc::clone(&origins)));
    net.ways[0].subscribe("a", 1 << 20);
    net.ways[0].source(stream(7, 2));
    net.ways[1].source(stream(3, 2));
    let own = [framed_mark(1, 0, 0), message("a", 1, HeaderFields::default())].concat();
    assert_eq!(net.come(0, &own), []);
    let mut lost = Vec::new();
    let told = |news| lost.push(news);
    net.ways[0].inbox.note(net.now, 0, SourceNews::Ends(5), &[], told);
    let source = Source { publisher: 7, chain: 2, node: 7 };
    assert_eq!(lost, [Told::Lost(source, 2, 5)]);
    net.ways[0].inbox.close(net.now, 0, &Routes::new(1));
    assert_eq!(net.come(1, &[passed_on(2, 0), skipped(SkipReason::Lost, 2, 4)].concat()), []);
}

fn numbers_of(consumer: &Consumer) -> Vec<u64> {
    let batches = consumer.take().map(|taken| taken.batches).unwrap_or_default();
    let numbers =
        |batch: &Batch| batch.entries.iter().map(|entry| batch.origin(entry).number).collect::<Vec<_>>();
    batches.iter().flat_map(numbers).collect()
}

#[test]
fn what_came_while_a_link_rested_is_read_when_it_is_taken_up_and_its_memory_given_back() {
    let mut net = TwoWays::new();
    net.open();
    let read = net.ways[1].subscribe("a", 10 << 20);
    assert_eq!(net.come(0, &passed_on(1, 3)), []);
    net.ways[1].inbox.set_resting(net.now, true, false);
    net.now += 2 * SILENCE;
    // The other way was heard of up to 3. Whoever brings it dies.
    let long = message("a", 1000, HeaderFields::default());
    let long: Vec<u8> = (1..=200).flat_map(|number| [passed_on(number, 0), long.clone()].concat()).collect();
    assert_eq!(net.come(1, &long), []);
    assert_eq!(read.pending(), 0, "another one should bring it");
    net.now += 2 * SILENCE;
    net.ways[1].inbox.set_resting(net.now, false, false);
    assert!(net.ways[1].inbox.part_bytes() > 0);
    assert_eq!(net.come(1, &[]), [], "nothing is lost");
    assert_eq!(net.ways[1].inbox.part_bytes(), 0);
    assert_eq!(numbers_of(&read), (4..=200).collect::<Vec<_>>());
    assert_eq!(net.come(1, &passed_on(201, 1)), []);
    assert_eq!(numbers_of(&read), [201]);
}
