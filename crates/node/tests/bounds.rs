//! However many senders send whatever they like, a node takes no more memory than it may: counted by the allocator.

#[path = "../../norm/tests/support/counting.rs"]
mod counting;
mod support;

use std::net::SocketAddr;
use std::time::Duration;

use counting::{peak_of, with_memory};
use shoal_node::hub::Overflow;
use shoal_node::{
    AnnouncedInterest, Announcer, HubEvent, Interest, InterestBounds, Node, NodeConfig, OwnInterest,
};
use shoal_norm::{Config, NodeId, Session, Source, StreamOptions, Time};
use shoal_selector::Selector;
use shoal_wire::{
    Announce, DestinationKind, Filter, FilterKind, InterestEntry, Position, TopicPattern, Welcome, frame,
};
use support::{QUEUE_BYTES, config};

const START: Time = Time::from_nanos(1_000_000_000_000);
const VICTIM: NodeId = 1;
const RECEIVE_BYTES_MAX: usize = 8 << 20;
/// What is known of senders and members beside all that is counted.
const RECORDS_BYTES: usize = 8 << 20;

fn from(node: NodeId) -> Source {
    let address: SocketAddr = format!("10.0.{}.{}:7474", node >> 8 & 255, node & 255).parse().unwrap();
    Source { address, unicast: false, waited: Duration::ZERO }
}

fn victim_config() -> NodeConfig {
    let mut config = config(VICTIM);
    config.links[0].0.receive_bytes_max = RECEIVE_BYTES_MAX;
    config.links[0].0.receive_window_bytes = 1 << 20;
    config.hub.message_bytes_max = 2 << 20;
    config.hub.assembly_bytes_max = 4 << 20;
    config
}

/// Somebody who knows NORM, and writes into streams whatever he likes.
struct Attacker {
    session: Session,
    lanes: Vec<u16>,
}

impl Attacker {
    fn new(node: NodeId) -> Attacker {
        let mut session = Session::new(Config::new(node, 1, node.into())).unwrap();
        let options = StreamOptions { cache_bytes: 4 << 20, ..StreamOptions::default() };
        let lanes = (0..3).map(|_| session.open_stream(&options).unwrap()).collect();
        Attacker { session, lanes }
    }

    fn write(&mut self, now: Time, lane: usize, mut bytes: &[u8], starts_message: bool) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        let mut starts = starts_message;
        while !bytes.is_empty() {
            let taken = self.session.write(now, self.lanes[lane], bytes, starts).unwrap();
            starts &= taken == 0;
            bytes = &bytes[taken..];
            let _ = self.session.flush(now, self.lanes[lane]);
            while let Some(transmit) = self.session.poll_transmit(now) {
                datagrams.extend(transmit.datagrams().map(<[u8]>::to_vec));
            }
        }
        datagrams
    }
}

fn feed(victim: &mut Node, now: Time, node: NodeId, datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        victim.handle_datagram(now, 0, from(node), datagram);
    }
    serve(victim, now);
}

fn serve(victim: &mut Node, now: Time) {
    victim.handle_timeout(now);
    let mut sent = 0;
    while victim.poll_transmit(now, 0).is_some() {
        sent += 1;
        assert!(sent < 10_000, "it never stops sending");
    }
    while victim.poll_event().is_some() {}
}

/// Has the victim join the attacker's lanes.
fn welcome(node: NodeId) -> Vec<u8> {
    let position =
        |stream: u16| Position { stream, segment: 0, chain: stream.into(), number: 1, missed_from: 0 };
    let mut record = Vec::new();
    let to = config(VICTIM).hub.publisher;
    Welcome { from: 5_000 + u64::from(node), to, positions: vec![position(1), position(2)] }
        .write(&mut record);
    let mut framed = Vec::new();
    frame::write(&record, &mut framed);
    framed
}

/// The beginning of a frame that never ends.
fn endless(length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_length(1 << 20, &mut bytes);
    bytes.resize(length, 7);
    bytes
}

#[test]
fn records_and_messages_that_never_end_are_kept_within_the_bounds_of_all_senders() {
    let parts: Vec<(NodeId, Vec<Vec<u8>>)> = (10..90)
        .map(|node| {
            let mut attacker = Attacker::new(node);
            let mut datagrams = attacker.write(START, 0, &welcome(node), true);
            for lane in 0..3 {
                datagrams.extend(attacker.write(START, lane, &endless(500_000), true));
            }
            (node, datagrams)
        })
        .collect();
    let (peak, _) = peak_of(|| {
        let mut victim = Node::new(&victim_config()).unwrap();
        serve(&mut victim, START);
        for (node, datagrams) in &parts {
            feed(&mut victim, START, *node, datagrams);
        }
        victim
    });
    // A hundred and twenty megabytes came. What is kept of them, and short parts that are not counted, has twice its room at
    // the most.
    let short = 80 * (2 * (64 << 10) + (16 << 10));
    let kept = (16 << 20) + (4 << 20) + short;
    assert!(peak < RECEIVE_BYTES_MAX + 2 * kept + RECORDS_BYTES, "{peak} bytes");
}

/// What a node announces that wants a lot.
fn announcements(node: NodeId, count: usize, round: usize) -> Vec<Vec<u8>> {
    let mut selector = Vec::new();
    Selector::parse("region = 'EU' AND price > 10").unwrap().encode(&mut selector);
    let mut own = OwnInterest::new();
    for number in 0..count {
        let pattern = match number % 4 {
            0 => format!("prices/{node}/{round}/{number}"),
            1 => format!("*/{node}/{number}/>"),
            2 => format!("a/{}{node}/{number}/{round}", "b/".repeat(20)),
            _ => format!("news/{number}/{node}"),
        };
        let mut entry = InterestEntry::new(DestinationKind::Topic, &pattern);
        if number % 8 == 3 {
            entry.filters.push(Filter { kind: FilterKind::Selector, bytes: &selector });
        }
        own.subscribe(&entry).unwrap();
    }
    // Every round is another version.
    for extra in 0..round {
        own.subscribe(&InterestEntry::new(DestinationKind::Topic, &format!("x/{extra}"))).unwrap();
    }
    let announcer = Announcer {
        domain: 7,
        publisher: 5_000 + u64::from(node),
        heartbeat_ms: 60_000,
        groups: Default::default(),
    };
    own.full(announcer, &[])
}

fn framed(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| frame::write(record, &mut bytes));
    bytes
}

/// What announcements count as.
fn counted(records: &[Vec<u8>]) -> usize {
    let mut interest = AnnouncedInterest::new(InterestBounds { bytes_max: 1 << 30 });
    for record in records {
        interest.apply(&Announce::read(record).unwrap());
    }
    interest.bytes()
}

/// What one node wants, one pattern for each number; some with a selector of their own.
fn wants(
    count: usize,
    pattern: impl Fn(usize) -> String,
    selector: impl Fn(usize) -> Option<String>,
) -> Vec<Vec<u8>> {
    let mut own = OwnInterest::new();
    for number in 0..count {
        let (pattern, mut encoded) = (pattern(number), Vec::new());
        let mut entry = InterestEntry::new(DestinationKind::Topic, &pattern);
        if let Some(text) = selector(number) {
            Selector::parse(&text).unwrap().encode(&mut encoded);
            entry.filters.push(Filter { kind: FilterKind::Selector, bytes: &encoded });
        }
        own.subscribe(&entry).unwrap();
    }
    own.full(Announcer { domain: 7, publisher: 5_010, heartbeat_ms: 60_000, groups: Default::default() }, &[])
}

#[test]
fn what_members_want_takes_no_more_than_it_counts_as() {
    let none = |_| None;
    let long = |number: usize| {
        let any: Vec<String> = (0..200).map(|value| format!("'{number}-{value}'")).collect();
        format!("region IN ({}) OR price > {number}", any.join(","))
    };
    let shapes = [
        ("short topics", wants(20_000, |number| format!("{number}"), none)),
        ("usual topics", wants(20_000, |number| format!("prices/EU/{number}"), none)),
        ("many levels", wants(1_000, |number| format!("{number}{}", "/x".repeat(120)), none)),
        ("wildcards", wants(5_000, |number| format!("*/{number}/*/*/*/>"), none)),
        ("pairs", wants(5_000, |number| format!("a={number},b=*,c={number}"), none)),
        (
            "a selector each",
            wants(5_000, |n| format!("a/{n}"), |n| Some(format!("price > {n} AND region = 'r{n}'"))),
        ),
        ("one topic, many selectors", wants(5_000, |_| "a".to_owned(), |n| Some(format!("price > {n}")))),
        ("long selectors", wants(200, |n| format!("a/{n}"), |n| Some(long(n)))),
        (
            "selectors that no index helps",
            wants(
                2_000,
                |n| format!("a/{n}"),
                |n| Some(format!("a + b * {n} < c - d OR NOT (x LIKE '%{n}%')")),
            ),
        ),
    ];
    for (shape, records) in shapes {
        let count = counted(&records);
        let datagrams = Attacker::new(10).write(START, 0, &framed(&records), true);
        let mut victim = Node::new(&victim_config()).unwrap();
        serve(&mut victim, START);
        let (peak, ()) = peak_of(|| feed(&mut victim, START, 10, &datagrams));
        assert_eq!(victim.hub().members(), [10]);
        println!("{shape}: {peak} bytes, counted as {count}");
        // What comes in is there twice for a moment, and the control stream has a window.
        assert!(peak < count + (4 << 20), "{shape}: {peak} bytes, counted as {count}");
    }
}

#[test]
fn announcements_that_replace_each_other_leave_nothing_behind() {
    let mut attacker = Attacker::new(10);
    let rounds: Vec<(usize, Vec<Vec<u8>>)> = (1..12)
        .map(|round| {
            let records = announcements(10, 3_000, round);
            // Of every second one the end does not come.
            let told = if round % 2 == 0 { &records[..records.len() - 1] } else { &records[..] };
            (counted(&records), attacker.write(START, 0, &framed(told), true))
        })
        .collect();
    let most = rounds.iter().map(|(count, _)| *count).max().unwrap();
    let mut victim = Node::new(&victim_config()).unwrap();
    serve(&mut victim, START);
    let (peak, ()) = peak_of(|| {
        for (round, (_, datagrams)) in rounds.iter().enumerate() {
            feed(&mut victim, START + Duration::from_secs(round as u64), 10, datagrams);
        }
    });
    // The one that is known, the one that comes in, and the events that tell of both.
    assert!(peak < 3 * most + RECEIVE_BYTES_MAX, "{peak} bytes, one of them counts as {most}");
}

#[test]
fn changed_datagrams_of_members_make_a_node_take_no_more_than_it_may() {
    for seed in 0..3 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut recorded = Vec::new();
        for node in 10..16 {
            let mut attacker = Attacker::new(node);
            let records = framed(&announcements(node, 300, 1));
            recorded.extend(attacker.write(START, 0, &[welcome(node), records].concat(), true));
            for lane in 1..3 {
                recorded.extend(attacker.write(
                    START,
                    lane,
                    &[endless(70_000), vec![0; 3_000]].concat(),
                    true,
                ));
            }
        }
        let mut victim = Node::new(&victim_config()).unwrap();
        let interest = Interest::topics(TopicPattern::new("prices/>").unwrap());
        victim.subscribe(START, interest, (QUEUE_BYTES, Overflow::DropOld), false);
        let (peak, ()) = peak_of(|| {
            let mut now = START;
            for round in 0..40_000 {
                let mut copy = recorded[random.usize(..recorded.len())].clone();
                for _ in 0..random.usize(..4) {
                    let first = if random.bool() { 48.min(copy.len()) } else { copy.len() };
                    copy[random.usize(..first)] = random.u8(..);
                }
                copy.truncate(if random.u8(..) < 8 { random.usize(..copy.len()) } else { copy.len() });
                victim.handle_datagram(now, 0, from(random.u32(10..500)), &copy);
                if round % 16 == 0 {
                    now += Duration::from_micros(random.u64(..20_000));
                    serve(&mut victim, now);
                }
            }
        });
        let kept = (16 << 20) + (4 << 20);
        assert!(peak < RECEIVE_BYTES_MAX + QUEUE_BYTES + kept + RECORDS_BYTES, "seed {seed}: {peak} bytes");
    }
}

#[test]
fn where_there_is_no_memory_for_a_message_it_is_lost_and_told_and_nothing_ends() {
    let mut config = victim_config();
    (config.hub.message_bytes_max, config.hub.assembly_bytes_max) = (64 << 20, 128 << 20);
    let mut victim = Node::new(&config).unwrap();
    serve(&mut victim, START);
    let mut attacker = Attacker::new(10);
    let hello = attacker.write(START, 0, &welcome(10), true);
    feed(&mut victim, START, 10, &hello);
    let mut endless = endless(3 << 20);
    endless[..4].copy_from_slice(&[0x80, 0x80, 0x80, 0x18]);
    let datagrams = attacker.write(START, 1, &endless, true);
    let mut told = Vec::new();
    let (refused, ()) = with_memory(1 << 20, || {
        for datagram in &datagrams {
            victim.handle_datagram(START, 0, from(10), datagram);
            while let Some(event) = victim.poll_event() {
                told.push(event);
            }
        }
    });
    assert!(refused > 0, "there was memory for everything");
    let is_told = |event: &HubEvent| matches!(event, HubEvent::Unreadable(10, why) if why.contains("memory"));
    assert!(told.iter().any(is_told), "{told:?}");
}
