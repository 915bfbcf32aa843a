//! A hub between links that the test drives itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use shoal_node::hub::{
    Asleep, Attempt, Consumer, Departure, Fed, FlushState, Hub, LinkBell, LinkKind, Lost, Overflow, Patience,
    Port, Publication, Refusal, Ring, SendError, Source, SourceId, Told, Unrung, WhenFull,
};
use shoal_node::{
    AnnouncedInterest, Announcer, Applied, HubConfig, HubEvent, Interest, InterestBounds, Moment,
};
use shoal_norm::{Chunk, Time};
use shoal_wire::frame::{self, FrameReader};
use shoal_wire::{
    Announce, BodyKind, Destination, Mark, MessageView, Outgoing, RecordKind, Topic, TopicPattern,
};

const LANE: usize = 2;
const NOW: Moment = Moment { now: Time::from_nanos(5_000_000_000), wall_us: 1_700_000_000_000_000 };

fn hub(lane_bytes_max: usize) -> Arc<Hub> {
    let config = HubConfig {
        publisher: 0xabcd,
        node: 1,
        lanes: 5,
        lane_bytes_max,
        message_bytes_max: 1 << 20,
        assembly_bytes_max: 1 << 20,
        seed: 1,
    };
    Hub::new(&config, Arc::new(Asleep))
}

struct Bell(Arc<Mutex<Vec<Ring>>>);

/// Its ring takes long.
struct SlowBell(Bell);

impl LinkBell for SlowBell {
    fn ring(&self, why: Ring) {
        self.0.ring(why);
    }

    fn is_slow(&self) -> bool {
        true
    }
}

impl LinkBell for Bell {
    fn ring(&self, why: Ring) {
        self.0.lock().unwrap().push(why);
    }
}

/// A link with one member behind it.
struct TestLink {
    port: Port,
    rings: Arc<Mutex<Vec<Ring>>>,
    sent: u64,
    fed: u64,
}

impl TestLink {
    fn new(hub: &Arc<Hub>, name: &str) -> TestLink {
        TestLink::of_kind(hub, name, LinkKind::Alone)
    }

    fn of_kind(hub: &Arc<Hub>, name: &str, kind: LinkKind) -> TestLink {
        let rings = Arc::default();
        let port = hub.attach(name, kind, Box::new(Bell(Arc::clone(&rings))));
        TestLink { port, rings, sent: 0, fed: 0 }
    }

    /// A node is behind it that wants a pattern.
    fn join(&self, node: u32, pattern: &str) {
        self.port.join(node);
        // What another hub would announce.
        let (other, mut known) = (hub(1), AnnouncedInterest::new(InterestBounds { bytes_max: 100_000 }));
        let there = TestLink::new(&other, "there");
        other.subscribe(Time::ZERO, interest(pattern), queue(1), false);
        let announcer = Announcer { domain: 1, publisher: 2, heartbeat_ms: 1000, groups: Default::default() };
        let records = there.port.announcement(announcer, None, &[]);
        let Applied::Changed { added, removed } = known.apply(&Announce::read(&records[0]).unwrap()) else {
            panic!("{records:?}");
        };
        self.port.change_interest(node, &added, &removed);
    }

    fn rang(&self) -> Vec<Ring> {
        std::mem::take(&mut self.rings.lock().unwrap())
    }

    /// What is to be sent: marks with their number, and bodies; without the mark that ends every buffer with messages.
    fn take(&mut self) -> Vec<String> {
        let (mut bytes, mut found) = (Vec::new(), Vec::new());
        if self.port.take(LANE, &mut bytes) {
            self.sent += bytes.len() as u64;
        }
        let each = |record: &[u8], _| {
            found.push(match RecordKind::of(record).unwrap() {
                RecordKind::Mark => format!("mark {}", Mark::read(record).unwrap().number),
                RecordKind::Message => {
                    String::from_utf8_lossy(MessageView::parse(record).unwrap().body()).into_owned()
                }
                other => format!("{other:?}"),
            });
            false
        };
        FrameReader::new(1 << 20).read(&bytes, each).unwrap();
        found.pop_if(|last| last.starts_with("mark"));
        found
    }

    fn feed(&mut self, source: SourceId, topic: &str, body: &str) -> Fed {
        let (mut framed, mut record) = (Vec::new(), Vec::new());
        self.fed += 1;
        let times = Mark {
            answered: None,
            timestamp_us: 1,
            clock_us: 0,
            version: 0,
            earlier_us: 0,
            source: None,
            chain: 2,
            number: self.fed,
        };
        times.write(&mut record);
        frame::write(&record, &mut framed);
        frame::write(&message(topic, body).concat(), &mut framed);
        let chunk = Chunk { bytes: &framed, fresh: false };
        let fed = self.port.feed(NOW.now, source, chunk, |_: Told| ());
        self.port.hand_over(NOW.now);
        fed
    }
}

fn interest(pattern: &str) -> Interest {
    Interest::topics(TopicPattern::new(pattern).unwrap())
}

fn queue(bytes_max: usize) -> Arc<Consumer> {
    Arc::new(Consumer::new(bytes_max, Overflow::Wait, Arc::new(Asleep)))
}

fn message(topic: &str, body: &str) -> [Vec<u8>; 2] {
    let mut head = Vec::new();
    Outgoing::new(Destination::topic(Topic::new(topic).unwrap()), BodyKind::Bytes, &[])
        .encode_head_into(&mut head)
        .unwrap();
    [head, body.as_bytes().to_vec()]
}

fn bodies(consumer: &Consumer) -> Vec<String> {
    let batches = consumer.take().map(|taken| taken.batches).unwrap_or_default();
    let body =
        |record: &[u8]| String::from_utf8_lossy(MessageView::parse(record).unwrap().body()).into_owned();
    batches
        .iter()
        .flat_map(|batch| batch.entries.iter().map(|entry| body(batch.record(entry))).collect::<Vec<_>>())
        .collect()
}

/// How a message is offered.
#[derive(Clone, Copy)]
struct Offer<'a> {
    when_full: WhenFull,
    now: Time,
    began: Option<Time>,
    caller: Option<&'a Arc<Consumer>>,
}

impl Default for Offer<'_> {
    fn default() -> Self {
        Offer { when_full: WhenFull::Error, now: NOW.now, began: None, caller: None }
    }
}

const PATIENCE: Duration = Duration::from_millis(500);

fn offer(hub: &Hub, topic: &str, body: &str, how: Offer<'_>) -> Attempt {
    let [head, body] = message(topic, body);
    let patience = Patience { when_full: how.when_full, patience: PATIENCE, deadline: None };
    let mut publication = Publication {
        lane: LANE,
        parts: [&head, &body],
        expires: false,
        patience,
        caller: how.caller,
        began: how.began,
        without: Vec::new(),
    };
    let moment = Moment { now: how.now, ..NOW };
    hub.publish(&moment, &hub.plan(topic.as_bytes()), &mut publication)
}

fn publish(hub: &Hub, topic: &str, body: &str) -> u64 {
    match offer(hub, topic, body, Offer::default()) {
        Attempt::Done(number) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_link_is_given_what_those_behind_it_want_under_the_same_numbers() {
    let hub = hub(1 << 20);
    let mut links = [TestLink::new(&hub, "one"), TestLink::new(&hub, "two")];
    links[0].join(10, "a/*");
    links[1].join(20, "*/b");
    assert_eq!(hub.members(), [10, 20]);
    assert_eq!(hub.interested(b"a/b"), [10, 20]);
    for (number, topic) in [(1, "a/a"), (2, "b/b"), (3, "c/c"), (4, "a/b")] {
        assert_eq!(publish(&hub, topic, topic), number);
    }
    assert_eq!(links[0].take(), ["mark 1", "a/a", "Skip", "a/b"]);
    assert_eq!(links[1].take(), ["Skip", "mark 2", "b/b", "Skip", "a/b"]);
    let data = |ring: &&Ring| matches!(ring, Ring::Data(LANE, _));
    assert_eq!(links[0].rang().iter().filter(data).count(), 2);
    links[0].port.set_open(true);
    publish(&hub, "c/c", "c/c");
    assert_eq!((links[0].take(), links[1].take().len()), (vec!["c/c".to_owned()], 0));
    links[0].port.part(10, Departure::Left);
    links[0].port.set_open(false);
    publish(&hub, "a/a", "nobody");
    assert_eq!(links[0].take().len(), 0);
}

#[test]
fn a_publisher_that_must_not_wait_rings_slow_links_by_itself() {
    let hub = hub(1 << 20);
    let rings: Arc<Mutex<Vec<Ring>>> = Arc::default();
    let slow = hub.attach("slow", LinkKind::Alone, Box::new(SlowBell(Bell(rings.clone()))));
    slow.set_open(true);
    let fast = TestLink::new(&hub, "fast");
    fast.join(10, "a");
    fast.rang();
    rings.lock().unwrap().clear();
    let [head, body] = message("a", "body");
    let patience = Patience { when_full: WhenFull::Error, patience: PATIENCE, deadline: None };
    let mut publication = Publication {
        lane: LANE,
        parts: [&head, &body],
        expires: false,
        patience,
        caller: None,
        began: None,
        without: Vec::new(),
    };
    let mut unrung = Unrung::default();
    let attempt = hub.try_publish(&NOW, &hub.plan(b"a"), &mut publication, &mut unrung);
    assert_eq!(attempt, Some(Attempt::Done(1)));
    assert_eq!((fast.rang().len(), rings.lock().unwrap().len()), (1, 0));
    unrung.ring();
    assert!(matches!(rings.lock().unwrap()[..], [Ring::Data(LANE, _)]));
}

#[test]
fn a_message_gets_no_number_by_a_plan_that_somebody_changed_meanwhile() {
    let hub = hub(1 << 20);
    let link = TestLink::new(&hub, "one");
    let before = hub.plan(b"a");
    link.join(10, "a");
    let numbers = link.port.last_numbers();
    let [head, body] = message("a", "body");
    let mut publication = Publication {
        lane: LANE,
        parts: [&head, &body],
        expires: false,
        patience: Patience { when_full: WhenFull::Error, patience: PATIENCE, deadline: None },
        caller: None,
        began: None,
        without: Vec::new(),
    };
    assert_eq!(hub.publish(&NOW, &before, &mut publication), Attempt::Outdated);
    assert_eq!(link.port.last_numbers(), numbers);
    assert_eq!(hub.publish(&NOW, &hub.plan(b"a"), &mut publication), Attempt::Done(1));
}

#[test]
fn what_comes_over_a_link_reaches_the_subscriptions_here_and_no_other_link() {
    let hub = hub(1 << 20);
    let mut links = [TestLink::new(&hub, "one"), TestLink::new(&hub, "two")];
    links[1].join(20, ">");
    let consumer = queue(1 << 20);
    hub.subscribe(Time::ZERO, interest("a"), consumer.clone(), true);
    assert!(links.iter().all(|link| link.rang().contains(&Ring::Interest)));
    let source = links[0].port.open_source(Source { publisher: 7, chain: 2, node: 10 });
    assert_eq!(links[0].feed(source, "a", "heard"), Fed::All);
    assert_eq!(links[0].feed(source, "b", "not wanted"), Fed::All);
    publish(&hub, "a", "our own is not for one that wants no_local");
    let batch = consumer.take().unwrap().batches.pop_front().unwrap();
    assert_eq!(batch.source, Source { publisher: 7, chain: 2, node: 10 });
    assert_eq!(batch.entries.len(), 1);
    assert_eq!(links[1].take(), ["mark 1", "our own is not for one that wants no_local"]);
}

#[test]
fn a_source_that_filled_a_queue_has_no_credit_until_it_was_read() {
    let hub = hub(1 << 20);
    let mut link = TestLink::new(&hub, "one");
    let consumer = queue(100);
    hub.subscribe(Time::ZERO, interest("a"), consumer.clone(), false);
    let [full, other] = [2, 3].map(|chain| link.port.open_source(Source { publisher: 7, chain, node: 10 }));
    assert_eq!(link.feed(full, "a", &"x".repeat(200)), Fed::All);
    assert!(!link.port.has_credit(full) && link.port.has_credit(other));
    assert_eq!(link.feed(full, "b", "whoever it is for"), Fed::Held);
    assert_eq!(link.feed(other, "b", "goes on"), Fed::All);
    link.rang();
    assert!(consumer.take().unwrap().made_room);
    hub.resume();
    assert_eq!(link.rang(), [Ring::Turn]);
    assert!(link.port.has_credit(full));
}

#[test]
fn a_router_takes_what_it_passes_on_in_pieces_much_shorter_than_a_lane() {
    let hub = hub(1 << 20);
    hub.set_router();
    let mut near = TestLink::new(&hub, "near");
    let mut far = TestLink::new(&hub, "far");
    far.join(20, "a");
    let source = near.port.open_source(Source { publisher: 7, chain: 2, node: 10 });
    let body = "x".repeat(20_000);
    let fed =
        (0..50).take_while(|_| near.port.has_credit(source) && near.feed(source, "a", &body) == Fed::All);
    let count = fed.count();
    assert!((5..=8).contains(&count), "{count} messages of 20 kB were taken at once");
    near.rang();
    assert_eq!(far.take().iter().filter(|body| body.len() == 20_000).count(), count);
    assert_eq!(near.rang(), [Ring::Turn]);
    assert!(near.port.has_credit(source));
}

#[test]
fn a_flush_waits_for_every_link_and_fails_with_one_that_fails() {
    let hub = hub(1 << 20);
    let mut links = [TestLink::new(&hub, "one"), TestLink::new(&hub, "two")];
    links.iter().enumerate().for_each(|(at, link)| link.join(10 + at as u32, "a"));
    publish(&hub, "a", "x");
    let flush = hub.begin_flush();
    for (link, silent) in links.iter_mut().zip([vec![], vec![11]]) {
        assert_eq!(hub.flush_state(flush), FlushState::Pending);
        link.port.ask_flushes(|_| 0, |_| panic!("nothing was sent yet"));
        link.take();
        let mut asked = Vec::new();
        link.port.ask_flushes(
            |_| link.sent,
            |lane| {
                asked.push(lane);
                true
            },
        );
        assert_eq!(asked, [LANE]);
        link.port.answer_flush(LANE, &silent);
    }
    assert_eq!(hub.flush_state(flush), FlushState::Done(vec![11]));
    publish(&hub, "a", "y");
    let flush = hub.begin_flush();
    links[1].port.fail("the cable is cut");
    assert_eq!(hub.flush_state(flush), FlushState::Failed("two: the cable is cut".into()));
    assert_eq!(publish(&hub, "a", "the other link goes on"), 3);
    assert_eq!(hub.members(), [10]);
}

#[test]
fn when_the_last_link_fails_everybody_who_waits_is_told_why() {
    let hub = hub(1 << 20);
    let link = TestLink::of_kind(&hub, "norm", LinkKind::Shared);
    link.join(10, "a");
    let consumer = queue(1 << 20);
    hub.subscribe(Time::ZERO, interest("a"), consumer.clone(), false);
    publish(&hub, "a", "before");
    link.port.fail("its socket is gone");
    let why = "norm: its socket is gone";
    assert_eq!(bodies(&consumer), ["before"], "what came can still be read");
    assert!(consumer.take().is_none());
    assert_eq!(consumer.failure().as_deref(), Some(why));
    let refused = Attempt::Refused(Refusal::Send(SendError::Failed(why.into())));
    assert_eq!(offer(&hub, "a", "after", Offer::default()), refused);
    assert_eq!(hub.failure().as_deref(), Some(why));
    let later = queue(1000);
    hub.subscribe(Time::ZERO, interest("b"), later.clone(), false);
    assert_eq!(later.failure().as_deref(), Some(why));
    let events: Vec<HubEvent> = hub.take_events().into();
    assert_eq!(events.last(), Some(&HubEvent::LinkFailed("norm".into(), why.into())));
}

#[test]
fn a_full_buffer_makes_publishers_wait_drops_or_refuses_and_numbers_have_no_holes() {
    let hub = hub(60);
    let mut link = TestLink::new(&hub, "one");
    link.join(10, "a");
    let long = "x".repeat(50);
    assert_eq!(publish(&hub, "a", &long), 1);
    let with = |when_full| offer(&hub, "a", &long, Offer { when_full, ..Offer::default() });
    assert_eq!(with(WhenFull::Error), Attempt::Refused(Refusal::Send(SendError::Full)));
    assert_eq!(with(WhenFull::Block), Attempt::Wait(Time::NEVER));
    assert_eq!(with(WhenFull::Drop), Attempt::Done(0));
    let consumer = queue(1 << 20);
    hub.subscribe(Time::ZERO, interest("a"), consumer.clone(), false);
    assert_eq!(with(WhenFull::Drop), Attempt::Done(2), "somebody here got it");
    link.take();
    assert_eq!(with(WhenFull::Block), Attempt::Done(3));
    assert_eq!(link.take(), ["Skip", &long]);
    assert_eq!(bodies(&consumer).len(), 2);
}

#[test]
fn nobody_waits_for_a_link_that_lags_and_those_behind_it_are_told_what_they_lost() {
    let hub = hub(60);
    let mut links = [TestLink::new(&hub, "one"), TestLink::new(&hub, "two")];
    links.iter().enumerate().for_each(|(at, link)| link.join(10 + at as u32, "a"));
    let long = "x".repeat(50);
    let block = Offer { when_full: WhenFull::Block, ..Offer::default() };
    assert_eq!(offer(&hub, "a", &long, block), Attempt::Done(1));
    links[1].take();
    assert_eq!(offer(&hub, "a", &long, block), Attempt::Wait(Time::NEVER));
    links[0].port.set_lagging(true);
    assert_eq!(offer(&hub, "a", &long, block), Attempt::Done(2));
    assert_eq!(links[1].take(), [&*long]);
    links[0].port.set_lagging(false);
    assert_eq!(links[0].take(), ["mark 1", &long]);
    assert_eq!(offer(&hub, "a", "y", block), Attempt::Done(3));
    assert_eq!(links[0].take(), ["Skip", "y"]);
    let losers = |hub: &Hub| {
        let flush = hub.begin_flush();
        let losers: Vec<u32> = hub.flush_losers(flush).into_iter().collect();
        for link in &links {
            link.port.ask_flushes(|_| u64::MAX, |_| true);
            link.port.answer_flush(LANE, &[]);
        }
        assert_eq!(hub.flush_state(flush), FlushState::Done(vec![]));
        hub.end_flush(flush);
        losers
    };
    assert_eq!(losers(&hub), [10], "a flush does not say that it has everything");
    assert_eq!(losers(&hub), [], "and that is told once");
}

#[test]
fn whoever_lost_what_its_link_cannot_repair_is_named_until_it_is_gone() {
    let hub = hub(1 << 20);
    let link = TestLink::new(&hub, "one");
    [10, 11].iter().for_each(|&node| link.join(node, "a"));
    let flush = hub.begin_flush();
    link.port.note_loser(LANE, 10, Time::ZERO);
    assert!(hub.flush_losers(flush).is_empty(), "nothing was published since then");
    publish(&hub, "a", "x");
    let before = NOW.now - Duration::from_secs(1);
    [10, 11].iter().for_each(|&node| link.port.note_loser(LANE, node, before));
    assert_eq!(hub.flush_losers(flush).into_iter().collect::<Vec<_>>(), [10, 11]);
    link.port.part(11, Departure::Left);
    assert_eq!(hub.flush_losers(flush).into_iter().collect::<Vec<_>>(), [10]);
}

#[test]
fn numbers_of_links_that_are_gone_are_used_again() {
    let hub = hub(60);
    let [one, two] = ["one", "two"].map(|name| TestLink::new(&hub, name));
    assert_eq!((one.port.link(), two.port.link()), (0, 1));
    drop(one);
    assert_eq!(TestLink::new(&hub, "three").port.link(), 0);
    assert_eq!(two.port.link(), 1);
}

#[test]
fn a_full_queue_here_is_waited_for_only_within_patience_if_others_listen_too() {
    let hub = hub(1 << 20);
    let mut link = TestLink::new(&hub, "one");
    link.join(10, "a");
    let (full, other) = (queue(1), queue(1 << 20));
    for consumer in [&full, &other] {
        hub.subscribe(Time::ZERO, interest("a"), consumer.clone(), false);
    }
    let block = Offer { when_full: WhenFull::Block, ..Offer::default() };
    assert_eq!(offer(&hub, "a", "1", block), Attempt::Done(1));
    assert_eq!(offer(&hub, "a", "2", block), Attempt::Wait(NOW.now + PATIENCE));
    assert_eq!(link.take(), ["mark 1", "1"], "nobody got what has to wait");
    let own = Offer { caller: Some(&full), ..block };
    assert_eq!(offer(&hub, "a", "2", own), Attempt::Refused(Refusal::OwnQueue));
    let late = Offer { now: NOW.now + PATIENCE, began: Some(NOW.now), ..block };
    assert_eq!(offer(&hub, "a", "2", late), Attempt::Done(2));
    assert_eq!(offer(&hub, "a", "3", block), Attempt::Done(3), "it was given up already");
    assert_eq!((full.dropped(), bodies(&full)), (2, vec!["1".to_owned()]));
    assert_eq!(bodies(&other), ["1", "2", "3"]);
    assert_eq!(offer(&hub, "a", "4", block), Attempt::Done(4), "it reads again, and counts again");
    drop(link);
    assert_eq!(
        offer(&hub, "a", "5", late),
        Attempt::Wait(Time::NEVER),
        "nobody else waits: neither do we give up"
    );
    let callback = Offer { caller: Some(&other), ..late };
    assert_eq!(offer(&hub, "a", "5", callback), Attempt::Refused(Refusal::Callbacks));
}

#[test]
fn whoever_wants_nothing_is_told_of_no_loss() {
    let hub = hub(1 << 20);
    let link = TestLink::new(&hub, "one");
    let lost = || Lost { node: 10, publisher: 7, chain: 1, first: 3, last: 9, segments: 1 };
    link.port.tell_lost(lost());
    assert!(hub.take_events().is_empty());
    hub.subscribe(Time::ZERO, interest("a"), queue(1 << 20), true);
    link.port.tell_lost(lost());
    assert_eq!(hub.take_events(), [HubEvent::Lost(lost())]);
}
