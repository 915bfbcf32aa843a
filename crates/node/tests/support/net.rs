//! Hubs joined by cables that lose nothing: what one end takes from its hub, the other end feeds to its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use shoal_node::hub::{
    Asleep, Attempt, Consumer, Departure, Fed, Hub, HubConfig, HubEvent, LinkKind, Lost, Overflow, Patience,
    Port, Publication, Silent, Source, SourceId, SourceNews, Told, WhenFull,
};
use shoal_node::{AnnouncedInterest, Announcer, Applied, Interest, InterestBounds, Moment, SubscriptionId};
use shoal_norm::{Chunk, Time};
use shoal_selector::Selector;
use shoal_wire::{
    Announce, BodyKind, Destination, HeaderFields, Outgoing, PropertiesWriter, RecordKind, Scalar, Topic,
    TopicPattern,
};

pub const LANES: usize = 5;
pub const LANE: usize = 2;
const WALL_US: u64 = 1_700_000_000_000_000;

/// One end of a cable.
struct End {
    hub: usize,
    port: Port,
    sources: Vec<SourceId>,
    /// What the other end announced, and the version of ours that it was told.
    known: AnnouncedInterest,
    told: u64,
    /// What was taken for the other end, lane by lane, and has not been fed there.
    on_its_way: Vec<Vec<u8>>,
    /// Bytes ever taken, lane by lane.
    taken: Vec<u64>,
}

impl End {
    /// Tells what its source said between its messages.
    fn tell(&self, node: u32, told: Vec<Told>) {
        for news in told {
            if let Told::Lost(source, first, last) = news {
                let (publisher, chain) = (source.publisher, source.chain);
                self.port.tell_lost(Lost { node, publisher, chain, first, last, segments: 0 });
            }
        }
    }
}

pub struct Cable {
    ends: [End; 2],
    /// Bytes of lanes that went over it, and announcements.
    pub bytes: u64,
    pub messages: u64,
    pub announcements: u64,
    /// Nothing goes over it for now.
    pub cut: bool,
    /// What comes to an end is thrown away, and it is told so.
    pub loses: bool,
    /// Nobody hears over it where links lead.
    pub hides_shape: bool,
    /// When a request is due next.
    ask_at: Time,
}

pub struct Net {
    pub hubs: Vec<Arc<Hub>>,
    pub cables: Vec<Option<Cable>>,
    pub now: Time,
    pub events: Vec<(usize, HubEvent)>,
    joined: HashMap<(usize, usize), usize>,
}

fn publisher(hub: usize) -> u64 {
    0x1000 + hub as u64
}

impl Net {
    /// So many hubs, of which these are routers.
    pub fn new(count: usize, routers: &[usize]) -> Net {
        let hub = |number: usize| {
            let config = HubConfig {
                publisher: publisher(number),
                node: number as u32 + 1,
                lanes: LANES,
                lane_bytes_max: 16 << 10,
                message_bytes_max: 1 << 20,
                assembly_bytes_max: 4 << 20,
                seed: number as u64,
            };
            let hub = Hub::new(&config, Arc::new(Asleep));
            if routers.contains(&number) {
                hub.set_router();
            }
            hub
        };
        let hubs = (0..count).map(hub).collect();
        let now = Time::from_nanos(5_000_000_000);
        Net { hubs, cables: Vec::new(), now, events: Vec::new(), joined: HashMap::new() }
    }

    /// Hubs in a row, each joined to the next; all but the first and the last are routers.
    pub fn row(count: usize) -> Net {
        let routers: Vec<usize> = (1..count - 1).collect();
        let mut net = Net::new(count, &routers);
        for place in 1..count {
            net.join(place - 1, place);
        }
        net.run();
        net
    }

    /// Joins two hubs by a cable; its number.
    pub fn join(&mut self, one: usize, two: usize) -> usize {
        let end = |hub: usize, other: usize| {
            let mut port = self.hubs[hub].attach("cable", LinkKind::Alone, Box::new(Silent));
            let node = other as u32 + 1;
            port.join(node);
            port.set_neighbours(1, [(publisher(other), node, self.hubs[other].is_router())]);
            port.tell_position();
            let source = |chain: usize| Source {
                publisher: publisher(other),
                chain: chain as u32,
                node: other as u32 + 1,
            };
            let sources = (1..LANES).map(|lane| port.open_source(source(lane))).collect();
            let known = AnnouncedInterest::new(InterestBounds { bytes_max: 16 << 20 });
            End {
                hub,
                port,
                sources,
                known,
                told: 0,
                on_its_way: vec![Vec::new(); LANES],
                taken: vec![0; LANES],
            }
        };
        let ends = [end(one, two), end(two, one)];
        self.cables.push(Some(Cable {
            ends,
            bytes: 0,
            messages: 0,
            announcements: 0,
            cut: false,
            loses: false,
            hides_shape: false,
            ask_at: Time::NEVER,
        }));
        self.joined.insert((one.min(two), one.max(two)), self.cables.len() - 1);
        self.cables.len() - 1
    }

    /// The cable between two hubs.
    pub fn cable(&mut self, one: usize, two: usize) -> &mut Cable {
        let number = self.joined[&(one.min(two), one.max(two))];
        self.cables[number].as_mut().unwrap()
    }

    /// Takes a cable away.
    pub fn part(&mut self, one: usize, two: usize) {
        let number = self.joined.remove(&(one.min(two), one.max(two))).unwrap();
        let mut cable = self.cables[number].take().unwrap();
        let nodes = [cable.ends[1].hub as u32 + 1, cable.ends[0].hub as u32 + 1];
        for (end, node) in cable.ends.iter_mut().zip(nodes) {
            end.port.set_neighbours(1, []);
            end.port.part(node, Departure::Failed);
            for source in std::mem::take(&mut end.sources) {
                end.port.close_source(self.now, source);
            }
        }
    }

    /// An end of a cable has its turn, and acts on which links are used.
    pub fn settle(&mut self, hub: usize, other: usize) {
        let now = self.now;
        self.end(hub, other).port.settle(now);
    }

    /// What waits at one hub for another is fed there, and not handed over yet.
    pub fn feed(&mut self, hub: usize, to: usize) {
        let now = self.now;
        let mut bytes = Vec::new();
        assert!(self.end(hub, to).port.take(LANE, &mut bytes));
        let end = self.end(to, hub);
        let chunk = Chunk { bytes: &bytes, fresh: false };
        assert_eq!(end.port.feed(now, end.sources[LANE - 1], chunk, |_| ()), Fed::All);
    }

    /// What was fed is handed over.
    pub fn hand_over(&mut self, hub: usize, from: usize) {
        let now = self.now;
        self.end(hub, from).port.hand_over(now);
    }

    /// One end of a cable has its turn, and gives the other what it has for it.
    pub fn turn(&mut self, from: usize, to: usize) {
        let now = self.now;
        let cable = self.cable(from, to);
        let forth = cable.ends[0].hub == from;
        cable.turn(now, forth);
    }

    fn end(&mut self, hub: usize, other: usize) -> &mut End {
        self.cable(hub, other).ends.iter_mut().find(|end| end.hub == hub).unwrap()
    }

    /// A hub says goodbye over a cable, with its last numbers, and the cable is taken away.
    pub fn leave(&mut self, hub: usize, other: usize) {
        let (last, now) = (self.hubs[hub].chains().last_numbers(), self.now);
        let cable = self.cable(hub, other);
        let end = cable.ends.iter_mut().find(|end| end.hub == other).unwrap();
        for (lane, last) in last.into_iter().enumerate().skip(1) {
            let mut told = Vec::new();
            end.port.note_source(now, end.sources[lane - 1], SourceNews::Ends(last), |news| told.push(news));
            end.tell(hub as u32 + 1, told);
        }
        self.part(hub, other);
    }

    /// What one hub is asked for by another: patterns, and how many entries have a filter.
    pub fn asked(&mut self, hub: usize, by: usize) -> (Vec<String>, usize) {
        let cable = self.cable(hub, by);
        let end = cable.ends.iter().find(|end| end.hub == hub).unwrap();
        let mut patterns: Vec<String> = end.known.entries().map(|(_, entry)| entry.pattern.clone()).collect();
        patterns.sort();
        (patterns, end.known.entries().filter(|(_, entry)| !entry.filters.is_empty()).count())
    }

    /// Moves everything until nothing moves. The number of rounds.
    pub fn run(&mut self) -> usize {
        for round in 0..10_000 {
            let mut moved = false;
            for cable in self.cables.iter_mut().flatten().filter(|cable| !cable.cut) {
                moved |= cable.turn(self.now, true) | cable.turn(self.now, false);
            }
            for (place, hub) in self.hubs.iter().enumerate() {
                self.events.extend(hub.take_events().into_iter().map(|event| (place, event)));
            }
            if !moved {
                // What is missing is asked for after a while, and again.
                let ask_at =
                    self.cables.iter().flatten().filter(|cable| !cable.cut).map(|cable| cable.ask_at);
                match ask_at.min().filter(|&ask_at| ask_at != Time::NEVER) {
                    Some(ask_at) => self.now = self.now.max(ask_at) + Duration::from_millis(1),
                    None => return round,
                }
            }
        }
        panic!("it never ends");
    }

    pub fn wait(&mut self, span: Duration) {
        self.now += span;
    }

    pub fn subscribe(
        &self,
        hub: usize,
        pattern: &str,
        selector: Option<&str>,
    ) -> (SubscriptionId, Arc<Consumer>) {
        self.subscribe_within(hub, pattern, selector, 1 << 20)
    }

    pub fn subscribe_within(
        &self,
        hub: usize,
        pattern: &str,
        selector: Option<&str>,
        bytes_max: usize,
    ) -> (SubscriptionId, Arc<Consumer>) {
        let consumer = Arc::new(Consumer::new(bytes_max, Overflow::Wait, Arc::new(Asleep)));
        let interest = Interest {
            selector: selector.map(|text| Selector::parse(text).unwrap()),
            ..Interest::topics(TopicPattern::new(pattern).unwrap())
        };
        (self.hubs[hub].subscribe(self.now, interest, consumer.clone(), false), consumer)
    }

    /// Publishes a message whose property `region` is this; its number, or `None` if there is no room.
    pub fn offer(
        &self,
        hub: usize,
        topic: &str,
        region: &str,
        body: &[u8],
        ttl: Option<Duration>,
    ) -> Option<u64> {
        let mut properties = PropertiesWriter::new();
        properties.push("region", Scalar::Str(region)).unwrap();
        let now_us = self.now.as_nanos() / 1000;
        let fields = HeaderFields {
            ttl_us: ttl.map(|ttl| ttl.as_micros() as u64),
            published_us: ttl.map(|_| now_us),
            ..HeaderFields::default()
        };
        let destination = Destination::topic(Topic::new(topic).unwrap());
        let mut head = Vec::new();
        Outgoing {
            properties: properties.properties(),
            fields,
            ..Outgoing::new(destination, BodyKind::Bytes, &[])
        }
        .encode_head_into(&mut head)
        .unwrap();
        let patience = Patience { when_full: WhenFull::Error, patience: Duration::ZERO, deadline: None };
        let mut publication = Publication {
            lane: LANE,
            parts: [&head, body],
            expires: ttl.is_some(),
            patience,
            caller: None,
            began: None,
            without: Vec::new(),
        };
        let moment = Moment { now: self.now, wall_us: WALL_US + now_us };
        let plan = self.hubs[hub].plan(topic.as_bytes());
        match self.hubs[hub].publish(&moment, &plan, &mut publication) {
            Attempt::Done(number) => Some(number),
            _ => None,
        }
    }

    pub fn publish(&self, hub: usize, topic: &str, body: &[u8]) -> u64 {
        self.offer(hub, topic, "EU", body, None).unwrap()
    }

    /// What a hub was told that it lost.
    pub fn lost(&self, hub: usize) -> Vec<(u64, u64, u64)> {
        let lost = |(place, event): &(usize, HubEvent)| match event {
            HubEvent::Lost(lost) if *place == hub => Some((lost.publisher, lost.first, lost.last)),
            _ => None,
        };
        self.events.iter().filter_map(lost).collect()
    }
}

impl Cable {
    /// One end gives the other what it has for it. True if that was anything.
    fn turn(&mut self, now: Time, forth: bool) -> bool {
        let [one, two] = &mut self.ends;
        let (from, to) = if forth { (one, two) } else { (two, one) };
        let mut moved = false;
        let version = from.port.wanted_version();
        let node = from.hub as u32 + 1;
        if version != from.told {
            let announcer = Announcer {
                domain: 1,
                publisher: publisher(from.hub),
                heartbeat_ms: 1000,
                groups: Default::default(),
            };
            let since = Some(from.told).filter(|&since| since > 0);
            for record in from.port.announcement(announcer, since, &[]) {
                match to.known.apply(&Announce::read(&record).unwrap()) {
                    Applied::Changed { added, removed } => {
                        to.port.change_interest(node, &added, &removed);
                        to.port.apply(node, (publisher(from.hub), version), !added.is_empty());
                    }
                    Applied::Partly => {}
                    other => panic!("{other:?}"),
                }
                self.announcements += 1;
            }
            from.told = version;
            moved = true;
        }
        from.port.settle(now);
        from.port.answer_replays(now);
        let mut told = Vec::new();
        let (ask_at, is_broken) = from.port.read_aside(now, |_, news| told.push(news));
        assert!(!is_broken);
        self.ask_at = if forth { ask_at } else { self.ask_at.min(ask_at) };
        from.tell(to.hub as u32 + 1, told);
        from.port.hand_over(now);
        while let Some(record) = from.port.poll_routing() {
            moved = true;
            if !self.hides_shape || RecordKind::of(&record) != Ok(RecordKind::LinkState) {
                assert!(to.port.handle_routing(&record).unwrap());
            }
        }
        for lane in 1..LANES {
            let bytes = &mut from.on_its_way[lane];
            if bytes.is_empty() {
                if !from.port.take(lane, bytes) {
                    continue;
                }
                from.taken[lane] += bytes.len() as u64;
            }
            let source = to.sources[lane - 1];
            if self.loses {
                bytes.clear();
                moved = true;
                continue;
            }
            let mut told = Vec::new();
            match to.port.feed(now, source, Chunk { bytes, fresh: false }, |news| told.push(news)) {
                Fed::All => {
                    self.bytes += bytes.len() as u64;
                    self.messages += count(bytes);
                    bytes.clear();
                    moved = true;
                }
                Fed::Held => {}
                Fed::Broken => panic!("broken"),
            }
            to.tell(node, told);
            to.port.hand_over(now);
        }
        // What was taken and not held is with the other hub.
        let waits: Vec<bool> = from.on_its_way.iter().map(|bytes| !bytes.is_empty()).collect();
        let (mut asked, taken) = (Vec::new(), &from.taken);
        from.port.ask_flushes(
            |lane| if waits[lane] { 0 } else { taken[lane] },
            |lane| {
                asked.push(lane);
                true
            },
        );
        moved |= !asked.is_empty();
        asked.into_iter().for_each(|lane| from.port.answer_flush(lane, &[]));
        moved
    }
}

/// Messages among frames.
fn count(bytes: &[u8]) -> u64 {
    let mut messages = 0;
    let each = |record: &[u8], _| {
        messages += u64::from(RecordKind::of(record) == Ok(RecordKind::Message));
        false
    };
    shoal_wire::frame::FrameReader::new(1 << 20).read(bytes, each).unwrap();
    messages
}
