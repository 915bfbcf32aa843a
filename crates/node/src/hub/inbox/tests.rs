//! What becomes of messages, without a network.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use shoal_wire::{
    Answered, BodyKind, Destination, HeaderFields, Outgoing, PassedOn as PassedMark, Topic, TopicPattern,
    frame,
};

use super::super::accept::Accept;
use super::super::assembly::{Budget, PART_BYTES_FREE};
use super::super::consumer::{Batch, Consumer, Overflow};
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
        Bench::on_link(0, false, Arc::default())
    }

    fn on_link(link: LinkId, asks: bool, accept: Arc<Mutex<Accept>>) -> Bench {
        let bench = Bench {
            inbox: Inbox::new(
                1 << 20,
                Assembly::new(Arc::new(Budget::new(1 << 20))),
                Place {
                    link,
                    rests: false,
                    asks,
                    publisher: 99,
                    accept,
                    owed: Arc::default(),
                    announced: Arc::default(),
                },
                false,
            ),
            routes: Routes::new(1),
            sources: HashMap::default(),
        };
        bench.inbox.note_announced(5, 5);
        bench
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

/// A mark of publisher 7's chain that answers a request of ours.
fn answer(number: u64) -> Vec<u8> {
    let (mut record, mut bytes) = (Vec::new(), Vec::new());
    let source = Some(PassedMark { publisher: 7, hops: 1, again: Some(Duration::ZERO) });
    let answered = Some(Answered { asker: 99, version: 5 });
    Mark { source, answered, ..mark(number, 0, 0) }.write(&mut record);
    frame::write(&record, &mut bytes);
    bytes
}

fn forgets(node: NodeId) -> Vec<u8> {
    let (mut record, mut bytes) = (Vec::new(), Vec::new());
    Forgets { node }.write(&mut record);
    frame::write(&record, &mut bytes);
    bytes
}

/// Two links over which one chain comes. Neighbours answer requests there.
struct TwoWays {
    ways: [Bench; 2],
    accept: Arc<Mutex<Accept>>,
    now: Time,
}

const KEY: Key = (7, 2);

impl TwoWays {
    fn new() -> TwoWays {
        let accept: Arc<Mutex<Accept>> = Arc::default();
        let mut ways = [0, 1].map(|link| Bench::on_link(link, true, Arc::clone(&accept)));
        for (way, node) in ways.iter_mut().zip([2, 3]) {
            way.subscribe("a", 1 << 20);
            way.source(stream(node, 2));
        }
        // A router is on each of them.
        (0..2).for_each(|link| accept.lock().unwrap().set_usable(link, true));
        TwoWays { ways, accept, now: NOW }
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

    /// The number that comes next.
    fn next(&self) -> u64 {
        self.accept.lock().unwrap().next(KEY)
    }

    /// What is asked for over a link a moment later: of whom, and from which number on.
    fn asked(&mut self, way: usize) -> Vec<(u64, u64)> {
        self.now += Duration::from_millis(50);
        let (due, ..) = self.accept.lock().unwrap().poll(self.now, way, u64::MAX);
        due.iter().map(|due| (due.to, due.next)).collect()
    }
}

#[test]
fn a_number_is_taken_once_whichever_link_brings_it() {
    let mut net = TwoWays::new();
    let read = net.ways[1].subscribe("a", 1 << 20);
    assert_eq!(net.come(0, &passed_on(1, 3)), []);
    assert_eq!(net.come(1, &passed_on(2, 4)), []);
    assert_eq!(numbers_of(&read), [4, 5]);
    assert_eq!(net.come(0, &passed_on(4, 2)), []);
    assert_eq!((net.next(), net.asked(0), net.asked(1)), (6, vec![], vec![]));
    assert_eq!(net.come(0, &skipped(SkipReason::Lost, 3, 2)), [], "they came");
}

#[test]
fn a_gap_is_asked_for_where_it_showed_and_what_is_above_it_is_discarded() {
    let mut net = TwoWays::new();
    let read = net.ways[1].subscribe("a", 1 << 20);
    net.come(0, &passed_on(1, 3));
    assert_eq!(net.come(1, &passed_on(6, 2)), []);
    assert_eq!((net.next(), net.asked(0), net.asked(1)), (4, vec![], vec![(3, 4)]));
    assert_eq!(net.asked(1), [], "it may be under way");
    net.come(1, &[answer(4), passed_on(4, 4)].concat());
    assert_eq!(numbers_of(&read), [4, 5, 6, 7]);
    assert_eq!(net.asked(1), []);
}

#[test]
fn a_skip_counts_of_a_neighbour_that_answered_until_it_may_have_left_us_out() {
    let stops = [
        ("its link is on standby", skipped(SkipReason::Rests, 0, 0)),
        ("it forgot us", forgets(44)),
        ("it forgot another node", forgets(45)),
    ];
    for (why, stop) in stops {
        let mut net = TwoWays::new();
        net.ways[0].inbox.set_node(44);
        net.come(0, &passed_on(1, 3));
        net.come(0, &[passed_on(4, 0), skipped(SkipReason::Unwanted, 4, 2)].concat());
        assert_eq!((net.next(), net.asked(0)), (4, vec![(2, 4)]), "it may not know of us");
        net.come(0, &[answer(4), skipped(SkipReason::Unwanted, 4, 2), passed_on(6, 1)].concat());
        assert_eq!((net.next(), net.asked(0)), (7, vec![]));
        net.come(0, &[stop, skipped(SkipReason::Unwanted, 7, 3)].concat());
        let next = if why == "it forgot another node" { 10 } else { 7 };
        assert_eq!(net.next(), next, "{why}");
    }
}

#[test]
fn a_gap_in_a_lane_ends_what_its_sender_knew_of_us() {
    let mut net = TwoWays::new();
    net.come(0, &[answer(1), skipped(SkipReason::Unwanted, 1, 2)].concat());
    assert_eq!(net.next(), 3);
    let Bench { inbox, routes, .. } = &mut net.ways[0];
    let bytes = [passed_on(3, 0), skipped(SkipReason::Unwanted, 3, 2)].concat();
    inbox.feed(net.now, routes, 0, Chunk { bytes: &bytes, fresh: true }, |why| panic!("{why}"), |_| ());
    inbox.finish(net.now);
    assert_eq!((net.next(), net.asked(0)), (3, vec![(2, 3)]));
}

#[test]
fn an_unknown_chain_is_asked_for_by_age_unless_it_begins_with_its_first_number() {
    let mut net = TwoWays::new();
    let read = net.ways[0].subscribe("a", 1 << 20);
    net.come(0, &passed_on(8, 2));
    assert_eq!((net.next(), net.asked(0)), (0, vec![(2, 0)]));
    net.come(0, &[answer(1), skipped(SkipReason::Older, 1, 5), passed_on(6, 4)].concat());
    assert_eq!(numbers_of(&read), [6, 7, 8, 9], "the head was on a path that broke");
    // What is older than one of us is not older than another.
    assert_eq!(net.come(0, &[answer(1), skipped(SkipReason::Older, 1, 12)].concat()), []);
    assert_eq!(net.next(), 10);
}

#[test]
fn what_nobody_answers_is_reported_once() {
    let mut net = TwoWays::new();
    net.come(0, &passed_on(1, 3));
    net.come(0, &passed_on(6, 2));
    assert_eq!(net.asked(0), [(2, 4)]);
    net.now += Duration::from_secs(6);
    let (_, _, given_up) = net.accept.lock().unwrap().poll(net.now, 0, 0);
    assert_eq!(given_up.iter().map(|one| one.lost).collect::<Vec<_>>(), [Some((4, 7))]);
    assert_eq!(net.come(1, &[passed_on(2, 0), skipped(SkipReason::Lost, 2, 6)].concat()), []);
    assert_eq!(net.come(1, &passed_on(8, 1)), []);
    assert_eq!(net.next(), 9);
}

#[test]
fn what_a_publisher_skipped_before_it_left_is_not_lost_though_no_mark_came_with_it() {
    let mut bench = Bench::on_link(0, true, Arc::default());
    bench.subscribe("a", 1 << 20);
    let id = bench.source(stream(7, 2));
    bench.inbox.note(NOW, id, SourceNews::Begins(1), true);
    let Bench { inbox, routes, .. } = &mut bench;
    let mut told = Vec::new();
    let ending = inbox.ending(id, 20).unwrap();
    for bytes in [skipped(SkipReason::Unwanted, 1, 20), ending] {
        let chunk = Chunk { bytes: &bytes, fresh: false };
        inbox.feed(NOW, routes, id, chunk, |why| panic!("{why}"), |news| told.push(news));
    }
    inbox.finish(NOW);
    inbox.note(NOW, id, SourceNews::Ends(20), true);
    assert_eq!((told, inbox.place.accept().next(KEY)), (vec![], 21));
    assert!(!inbox.place.accept().is_lacking(7));
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
    let read = net.ways[1].subscribe("a", 10 << 20);
    assert_eq!(net.come(0, &passed_on(1, 3)), []);
    net.ways[1].inbox.set_resting(net.now, true, true);
    // The other way was heard of up to 3. Whoever brings it dies.
    let long = message("a", 1000, HeaderFields::default());
    let long: Vec<u8> = (1..=200).flat_map(|number| [passed_on(number, 0), long.clone()].concat()).collect();
    assert_eq!(net.come(1, &long), []);
    assert_eq!(read.pending(), 0, "another one should bring it");
    net.ways[1].inbox.set_resting(net.now, false, true);
    assert!(net.ways[1].inbox.part_bytes() > 0);
    assert_eq!(net.come(1, &[]), [], "nothing is lost");
    assert_eq!(net.ways[1].inbox.part_bytes(), 0);
    assert_eq!(numbers_of(&read), (4..=200).collect::<Vec<_>>());
    assert_eq!(net.come(1, &passed_on(201, 1)), []);
    assert_eq!(numbers_of(&read), [201]);
}

#[test]
fn what_a_full_queue_kept_away_of_a_publisher_that_left_is_lost() {
    let accept: Arc<Mutex<Accept>> = Arc::default();
    let mut bench = Bench::on_link(0, true, accept.clone());
    bench.subscribe("a", 1000);
    while bench.deliver(stream(2, 2), "a", 600) {}
    bench.inbox.finish(NOW);
    let (source, next) = (bench.source(stream(2, 2)), accept.lock().unwrap().next((2, 2)));
    bench.inbox.note(NOW, source, SourceNews::Ends(next + 6), true);
    bench.inbox.close(NOW, source, &bench.routes);
    let (_, _, given_up) = accept.lock().unwrap().poll(NOW + Duration::from_millis(20), 0, 5);
    assert_eq!(given_up.iter().map(|given_up| given_up.lost).collect::<Vec<_>>(), [Some((next, next + 6))]);
}
