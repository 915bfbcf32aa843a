//! A hub's NORM link: who is in the group, and which streams carry what they publish.
//!
//! The hub knows members and what they want. What belongs to NORM alone is kept here: control records, where streams are
//! joined, whose acknowledgements count, what rests.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use shoal_norm::{Chunk, CloseReason, Event, Join, NodeId, ObjectId, Session, StreamId, Time};
use shoal_wire::limits::CONTROL_RECORD_BYTES_MAX;
use shoal_wire::{Position, RecordKind, Welcome, frame};

mod renaming;

use super::application::{Application, Taken};
use super::frames::Frames;
use super::groups::{Groups, group_of_lane};
use super::lane::LaneWriter;
use super::lanes::{CONTROL, LANES};
use super::losses::Losses;
use crate::hub::{Departure, Fed, HubEvent, INTEREST_LANE, Lost, Port, Source, SourceId, SourceNews, Told};
use crate::membership::{MemberEvent, Membership, MembershipConfig};

/// A router says so often at the least that it is here: whoever is behind it gets nothing until others know that it is dead.
const ROUTER_HEARTBEAT: Duration = Duration::from_millis(500);
/// The goodbye is said so often; its sender leaves at once after the first.
const GOODBYES: u32 = 1;
/// What is published first waits so long for somebody to answer, so that those who are there miss nothing.
const GREETING: Duration = Duration::from_millis(100);
/// After an announcement members are asked so soon whether they have it.
const ASK_INTEREST: Duration = Duration::from_millis(1);
/// A new node sends whatever is published for so long, because somebody may be about to ask for it.
const DISCOVERY: Duration = Duration::from_secs(2);

/// Parts of control records whose end has not come yet, of all senders together, beside short ones.
const CONTROL_PARTS_BYTES_MAX: usize = 16 << 20;

/// For so long after a router went everything is sent: another one may be about to ask for what that asked for.
const TAKE_OVER: Duration = Duration::from_secs(3);
/// Whoever acknowledges something may not have what was published so long before.
const UNDER_WAY: Duration = Duration::from_secs(5);
/// Routers say again so often where links lead.
const TELL_AGAIN: Duration = Duration::from_secs(5);

/// How new we are.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    /// Nobody is known, and whoever is there may not have answered yet: nothing is sent.
    Greeting,
    /// Somebody may be about to ask for something: everything is sent.
    Discovering,
    Settled,
}

/// The application of a bus on its NORM link.
pub struct NormBus {
    port: Port,
    groups: Arc<Groups>,
    membership: Membership,
    sources: HashMap<StreamId, SourceId>,
    /// The stream that was fed last, most likely the next.
    last: Option<(StreamId, SourceId)>,
    /// Streams that a welcome told where to join.
    welcomed: HashSet<StreamId>,
    /// Who publishes on each node's run that welcomed us.
    publishers: HashMap<(NodeId, u16), u64>,
    /// The last numbers of those who are about to leave.
    goodbyes: HashMap<(NodeId, u16), Vec<(u32, u64)>>,
    /// Welcomes of those that have another node id now, until what came from them under the one before was read.
    moved: Vec<(NodeId, u16, u64, Vec<Position>)>,
    /// Somebody else has our node id, and when we took another one last.
    collided: bool,
    renamed_at: Option<Time>,
    losses: Losses,
    data_lanes: Vec<ObjectId>,
    /// What we want up to this change was announced.
    announced: u64,
    control: Frames,
    /// Members that failed, and when: they rest once what came of them was read.
    failed: Vec<(NodeId, u16, Time)>,
    /// Control records that came since the last turn.
    records: VecDeque<(StreamId, Vec<u8>)>,
    heard: bool,
    /// The version of what we want that the membership has.
    wanted: u64,
    deadline: Time,
    /// When we looked around first.
    began: Option<Time>,
    age: Age,
    told: Vec<Told>,
    /// When a router says again where links lead.
    tell_at: Time,
    /// When routers that have not answered are asked again; never if there are none.
    ask_again_at: Time,
    /// Until when everything is sent, because a router went.
    open_until: Time,
    /// When what was put aside is looked at again.
    aside_at: Time,
}

impl NormBus {
    /// One that knows nobody.
    pub fn new(port: Port, mut membership: MembershipConfig) -> NormBus {
        let groups = membership.groups.clone();
        port.set_open(true);
        if port.hub().is_router() {
            membership.heartbeat = membership.heartbeat.min(ROUTER_HEARTBEAT);
        }
        NormBus {
            data_lanes: (1..port.lanes() as ObjectId).collect(),
            groups,
            port,
            membership: Membership::new(membership),
            sources: HashMap::new(),
            last: None,
            welcomed: HashSet::new(),
            publishers: HashMap::new(),
            goodbyes: HashMap::new(),
            moved: Vec::new(),
            collided: false,
            renamed_at: None,
            losses: Losses::default(),
            announced: 0,
            control: Frames::new(CONTROL_RECORD_BYTES_MAX, CONTROL_PARTS_BYTES_MAX),
            failed: Vec::new(),
            records: VecDeque::new(),
            heard: false,
            wanted: 0,
            deadline: Time::ZERO,
            began: None,
            age: Age::Greeting,
            told: Vec::new(),
            tell_at: Time::ZERO,
            ask_again_at: Time::NEVER,
            open_until: Time::ZERO,
            aside_at: Time::NEVER,
        }
    }

    /// The hub's end of the link.
    pub fn port(&self) -> &Port {
        &self.port
    }

    fn source(&mut self, stream: StreamId) -> SourceId {
        if let Some((last, source)) = self.last
            && last == stream
        {
            return source;
        }
        let (port, publishers) = (&mut self.port, &self.publishers);
        let source = *self.sources.entry(stream).or_insert_with(|| {
            let publisher = publishers.get(&(stream.node, stream.instance)).copied().unwrap_or(0);
            port.open_source(Source { publisher, chain: stream.object.into(), node: stream.node })
        });
        self.last = Some((stream, source));
        source
    }

    /// A stream ended: what its sender published and we have not got is lost.
    fn close_source(&mut self, now: Time, stream: StreamId) {
        let Some(&source) = self.sources.get(&stream) else { return };
        let last = self.goodbyes.get(&(stream.node, stream.instance));
        let last = last.and_then(|last| last.iter().find(|(chain, _)| *chain == u32::from(stream.object)));
        if let Some(&(_, last)) = last {
            self.note(now, stream, source, SourceNews::Ends(last));
        }
        self.sources.remove(&stream);
        self.port.close_source(now, source);
        self.last = None;
    }

    /// The streams of a node's run.
    fn streams_of(&self, node: NodeId, instance: u16) -> Vec<StreamId> {
        let of_node = |stream: &&StreamId| (stream.node, stream.instance) == (node, instance);
        self.sources.keys().filter(of_node).copied().collect()
    }

    fn handle_records(&mut self, now: Time, session: &Session) {
        let is_new = self.age < Age::Settled;
        while let Some((stream, record)) = self.records.pop_front() {
            let (lanes, port) = (&self.data_lanes, &self.port);
            let positions = |missed: Option<Vec<u64>>| {
                let last = port.last_numbers();
                let position = |&lane: &ObjectId| Position {
                    stream: lane,
                    // Who is met while we are new was there before us, and may have everything we said.
                    segment: if is_new { session.oldest_segment(lane) } else { session.segments_sent(lane) },
                    chain: lane.into(),
                    number: match is_new && missed.is_none() {
                        true if session.oldest_segment(lane) == 0 => 1,
                        true => 0,
                        false => last[usize::from(lane)] + 1,
                    },
                    // Who went a moment ago is still counted on.
                    missed_from: missed.as_ref().map_or(0, |first| {
                        first.get(usize::from(lane)).copied().unwrap_or(last[usize::from(lane)] + 1)
                    }),
                };
                lanes.iter().map(position).collect()
            };
            match self.port.handle_routing(&record) {
                Ok(false) => {}
                Ok(true) => continue,
                Err(error) => {
                    self.port.tell(HubEvent::Unreadable(stream.node, error.to_string()));
                    continue;
                }
            }
            let run = (stream.node, stream.instance);
            let succeeds = |node, instance| session.has_succeeded(run, (node, instance));
            let read = self.membership.handle_record(now, run, &record, succeeds, positions);
            if let Err(error) = read {
                self.port.tell(HubEvent::Unreadable(stream.node, error.to_string()));
            }
        }
    }

    /// A sender says where to join its streams, or once more that it counts on us.
    fn on_welcome(
        &mut self,
        now: Time,
        session: &mut Session,
        (node, instance, publisher): (NodeId, u16, u64),
        positions: &[Position],
    ) {
        let elsewhere = self.streams_elsewhere((node, instance), publisher);
        // Anybody can send a copy of a welcome under another node id: as long as both speak, nobody has moved.
        let stays = |stream: &StreamId| {
            let run = (stream.node, stream.instance);
            !session.is_drained(run.0, run.1) || !session.has_succeeded((node, instance), run)
        };
        if elsewhere.iter().any(stays) {
            self.moved.retain(|(.., known, _)| *known != publisher);
            return self.moved.push((node, instance, publisher, positions.to_vec()));
        }
        for stream in elsewhere {
            // Its chains go on under the other id where we are now.
            self.close_source(now, stream);
        }
        for position in positions {
            let stream = StreamId { node, instance, object: position.stream };
            if !self.data_lanes.contains(&position.stream) {
                continue;
            }
            if group_of_lane(position.stream.into())
                .is_some_and(|group| self.groups.joined() >> group & 1 == 0)
            {
                continue;
            }
            // The first welcome counts; others repeat it for those who missed it.
            if self.welcomed.insert(stream) {
                session.join(now, stream, Join::At(position.segment));
            }
            let source = self.source(stream);
            let news = match position.missed_from {
                0 => SourceNews::Begins(position.number),
                first => SourceNews::NotCounted(first, position.number),
            };
            self.note(now, stream, source, news);
        }
    }

    fn note(&mut self, now: Time, stream: StreamId, source: SourceId, news: SourceNews) {
        let told = &mut self.told;
        self.port.note_source(now, source, news, |told_of| told.push(told_of));
        self.hear_told(now, stream);
    }

    fn handle_members(&mut self, now: Time, session: &mut Session) {
        let next = |port: &Port| -> Vec<u64> { port.last_numbers().iter().map(|last| last + 1).collect() };
        while let Some(event) = self.membership.poll_event() {
            match event {
                MemberEvent::Welcomed { node, instance, publisher, positions } => {
                    self.publishers.insert((node, instance), publisher);
                    self.on_welcome(now, session, (node, instance, publisher), &positions);
                }
                MemberEvent::InterestUnknown(_) => {}
                MemberEvent::Joined(node) => self.port.join(node),
                MemberEvent::Gone(node, instance, departure) => {
                    self.note_router_goes(now, node);
                    if departure == Departure::Failed {
                        self.failed.push((node, instance, now));
                    }
                    // What others publish meanwhile counts as missed.
                    self.membership.note_forgotten(|| next(&self.port));
                    self.port.part(node, departure);
                }
                MemberEvent::Subscriptions(node, change) => {
                    self.port.change_interest(node, &change.added, &change.removed);
                    self.port.apply(node, change.announced, !change.added.is_empty());
                }
                MemberEvent::OtherGroups(node, theirs) => {
                    let (ours, word) =
                        (self.groups.count(), "and neither hears the other: give both the same");
                    let why = format!("it has groups={theirs}, this node has groups={ours}, {word}");
                    self.port.tell(HubEvent::Unreadable(node, why));
                }
                MemberEvent::TooMuch(node) => {
                    let why = "it subscribes to more than is kept of one node: everything is sent to it";
                    self.port.tell(HubEvent::Unreadable(node, why.to_owned()));
                }
            }
        }
        if !self.membership.is_interest_known() {
            self.port.set_open(true);
        }
        if self.membership.count_on_returned(|| next(&self.port)) {
            // Without it whoever returns might never hear of what it missed.
            self.port.tell_position();
        }
        if let Some(ackers) = self.membership.poll_ackers() {
            self.tell_neighbours();
            session.set_indispensable(&self.membership.indispensable());
            let from_oldest = self.age < Age::Settled;
            for lane in LANES..self.groups.lanes() {
                let members = group_of_lane(lane).map(|group| self.membership.members_in(group));
                session.set_stream_ackers(lane as ObjectId, &members.unwrap_or_default(), from_oldest);
            }
            if from_oldest {
                session.set_ackers_from_oldest(&ackers);
            } else {
                session.set_ackers(&ackers);
            }
            session.set_group_size(ackers.len() as u32 + 1);
        }
        if let Some(bystanders) = self.membership.poll_bystanders() {
            session.set_bystanders(&bystanders);
        }
    }

    /// Who is on the link. Whoever said goodbye passes nothing on any more, though something of it may be under way.
    fn tell_neighbours(&self) {
        let stays = |node: NodeId, instance: u16| !self.goodbyes.contains_key(&(node, instance));
        let neighbours = self.membership.neighbours().filter(|&(_, node, instance, _)| stays(node, instance));
        let neighbours = neighbours.map(|(publisher, node, _, is_router)| (publisher, node, is_router));
        self.port.set_neighbours(self.membership.domain(), neighbours);
    }

    /// Somebody goes who may be a router.
    fn note_router_goes(&mut self, now: Time, node: NodeId) {
        if self.port.is_router(node) {
            self.open_until = now + TAKE_OVER;
            self.port.set_open(true);
        }
    }

    /// Gives back what is held for members that failed. They may only have been silent, and then go on where they were.
    fn rest_failed(&mut self, now: Time, session: &mut Session) {
        for (node, instance, failed_at) in std::mem::take(&mut self.failed) {
            if session.last_heard(node, instance).is_none_or(|heard| heard > failed_at) {
                continue;
            }
            if !session.rest_sender(node, instance) {
                self.failed.push((node, instance, failed_at));
                continue;
            }
            for stream in self.streams_of(node, instance) {
                if self.port.rest_source(now, self.sources[&stream]) {
                    session.resync(now, stream);
                    let why = "it failed in the middle of a large message, which is lost";
                    self.port.tell(HubEvent::Unreadable(node, why.to_owned()));
                }
            }
        }
    }

    /// Looks again at what waits for another source.
    fn read_aside(&mut self, now: Time) {
        let mut told = Vec::new();
        (self.aside_at, _) = self.port.read_aside(now, |source, news| told.push((source, news)));
        for (source, news) in told {
            let stream = self.sources.iter().find(|(_, known)| **known == source).map(|(stream, _)| *stream);
            if let Some(stream) = stream {
                self.told.push(news);
                self.hear_told(now, stream);
            }
        }
        self.port.hand_over(now);
    }

    /// Acts on what stood between messages, before anybody reads those that follow.
    fn hear_told(&mut self, now: Time, stream: StreamId) {
        let mut told = std::mem::take(&mut self.told);
        for news in told.drain(..) {
            match news {
                Told::Version(version) => {
                    if self.membership.on_version(now, stream.node, stream.instance, version) {
                        // What its sender subscribed to before may not have been heard yet.
                        self.port.set_open(true);
                        self.deadline = Time::ZERO;
                    }
                }
                Told::Lost(source, first, last) => {
                    let segments = self.losses.settle(now, stream);
                    self.tell_lost(stream, source, (first, last), segments);
                }
                // What is missing is asked for, or reported later.
                Told::Asked => _ = self.losses.settle(now, stream),
                Told::LostBehind(..) => {}
            }
        }
        self.told = told;
    }

    fn tell_lost(&self, stream: StreamId, source: Source, (first, last): (u64, u64), segments: u64) {
        let Source { publisher, chain, .. } = source;
        self.port.tell_lost(Lost { node: stream.node, publisher, chain, first, last, segments });
    }

    /// Tells of gaps after which no mark said what was lost.
    fn tell_gaps(&mut self, now: Time) {
        for (stream, segments) in self.losses.poll(now) {
            let known = self.sources.get(&stream).and_then(|&source| self.port.source(source));
            let unknown = Source { chain: stream.object.into(), ..Source::default() };
            let (source, first) = known.unwrap_or((unknown, 0));
            self.tell_lost(stream, source, (first, 0), segments);
        }
    }

    /// A sender is gone, with its streams.
    fn end_sources(&mut self, now: Time, node: NodeId, instance: u16) {
        for stream in self.streams_of(node, instance) {
            self.close_source(now, stream);
        }
        self.goodbyes.remove(&(node, instance));
        self.publishers.remove(&(node, instance));
    }

    /// Grows older; returns when that goes on.
    fn grow(&mut self, now: Time, began: Time) -> Time {
        let met = self.membership.members().next().is_some();
        let (age, next) = match now {
            _ if now >= began + DISCOVERY => (Age::Settled, Time::NEVER),
            _ if now >= began + GREETING => (Age::Discovering, began + DISCOVERY),
            _ => (if met { Age::Discovering } else { Age::Greeting }, began + GREETING),
        };
        self.age = self.age.max(age);
        next
    }
}

impl Application for NormBus {
    fn take(&mut self, now: Time, stream: StreamId, chunk: Chunk<'_>) -> Taken {
        if stream.object != CONTROL {
            let source = self.source(stream);
            let told = &mut self.told;
            let fed = self.port.feed(now, source, chunk, |news| told.push(news));
            if !self.told.is_empty() {
                self.hear_told(now, stream);
            }
            self.port.hand_over_if_full(now);
            return match fed {
                Fed::All => Taken::All,
                Fed::Held => Taken::Nothing,
                Fed::Broken => Taken::Broken,
            };
        }
        // A reader that is slow must not make us deaf to who is here: everybody would seem dead.
        let (records, publisher) = (&mut self.records, self.membership.publisher());
        let keep = |record: &[u8]| {
            if !Welcome::is_for_another(record, publisher) {
                records.push_back((stream, record.to_vec()));
            }
        };
        match self.control.read(stream, chunk, keep) {
            Ok(()) => Taken::All,
            Err(error) => {
                self.port.tell(HubEvent::Unreadable(stream.node, error.to_string()));
                Taken::Broken
            }
        }
    }

    fn event(&mut self, now: Time, session: &mut Session, event: &Event) {
        self.control.on_event(event);
        match event {
            Event::StreamClosed { stream, .. } => self.close_source(now, *stream),
            Event::SenderHeard { .. } => self.heard = true,
            Event::SenderGone { node, instance, reason } => {
                // What it said before it went would make it a member again.
                self.records.retain(|(stream, _)| (stream.node, stream.instance) != (*node, *instance));
                let said = *reason == CloseReason::Ended;
                let departure = if said { Departure::Left } else { Departure::Failed };
                self.membership.on_sender_gone(*node, *instance, departure);
                self.welcomed.retain(|stream| (stream.node, stream.instance) != (*node, *instance));
                self.end_sources(now, *node, *instance);
                self.deadline = Time::ZERO;
            }
            Event::StreamHeard { stream } if stream.object == CONTROL => {
                session.join(now, *stream, Join::Here)
            }
            Event::Gap { stream, .. } if stream.object == CONTROL => {
                self.membership.on_control_lost(now, stream.node, stream.instance);
                self.deadline = Time::ZERO;
            }
            Event::Gap { stream, segments, .. } => self.losses.add(now, *stream, *segments),
            Event::CommandReceived { node, instance, content } => {
                // Its end follows at once, and is told before records are looked at.
                if self.publishers.contains_key(&(*node, *instance))
                    && let Some(last) = self.membership.read_goodbye(content)
                {
                    self.goodbyes.insert((*node, *instance), last);
                    self.note_router_goes(now, *node);
                    self.tell_neighbours();
                }
                // Whatever changes what we know of a node comes on its control stream, where nothing is read twice.
                if RecordKind::of(content) == Ok(RecordKind::Heartbeat) {
                    let stream = StreamId { node: *node, instance: *instance, object: CONTROL };
                    self.records.push_back((stream, content.clone()));
                }
            }
            Event::NodeIdTaken => self.collided = true,
            // Who is about to be gone acknowledges nothing, and is not slow.
            Event::AckerSilent { node, .. } if !session.is_departing(*node) => {
                self.port.tell(HubEvent::Slow(*node, self.membership.process(*node)));
            }
            Event::AckerLost { object, node, since } if !session.is_departing(*node) => {
                self.port.note_loser(usize::from(*object), *node, *since - UNDER_WAY);
            }
            Event::WatermarkDone(watermark) => {
                let mut silent = watermark.silent.clone();
                silent.retain(|&node| !session.is_departing(node));
                let is_control = watermark.object == CONTROL;
                let lane = if is_control { INTEREST_LANE } else { usize::from(watermark.object) };
                self.port.answer_flush(lane, &silent);
            }
            _ => {}
        }
    }

    fn batch_done(&mut self, now: Time) {
        self.port.hand_over(now);
    }

    fn serve(&mut self, now: Time, session: &mut Session, lanes: &[LaneWriter], control: &mut Vec<u8>) {
        self.port.settle(now);
        self.read_aside(now);
        let began = *self.began.get_or_insert(now);
        // Who answers our greeting counts, though somebody else may have answered and acknowledged already.
        if now >= began + GREETING {
            let is_said = lanes.first().is_some_and(|control| control.waiting() == 0);
            let announced = if is_said { self.announced } else { 0 };
            let sent = |lane: usize| match lane {
                INTEREST_LANE => announced,
                _ => lanes.get(lane).map_or(0, LaneWriter::written),
            };
            let object = |lane: usize| if lane == INTEREST_LANE { CONTROL } else { lane as ObjectId };
            self.port.ask_flushes(sent, |lane| session.request_watermark(now, object(lane)).is_ok());
        }
        self.ask_again_at = self.port.ask_again_in_time(now);
        self.rest_failed(now, session);
        self.tell_gaps(now);
        self.follow_moved(now, session);
        if now >= self.rename_at() {
            self.rename(now, session);
        }
        let version = self.port.wanted_version();
        let busy = self.heard
            || !self.records.is_empty()
            || version != self.wanted
            || self.port.has_routing()
            || now >= self.tell_at && self.port.hub().is_router();
        if !busy && now < self.deadline {
            return;
        }
        if version != self.wanted {
            self.wanted = version;
            self.membership.set_wanted(now, version);
        }
        if std::mem::take(&mut self.heard) {
            self.membership.on_sender_heard(now);
        }
        self.handle_records(now, session);
        self.membership.handle_timeout(now, |node, instance| session.last_heard(node, instance));
        self.handle_members(now, session);
        self.port.answer_replays(now);
        let port = &self.port;
        let announcement = |announcer, since, missing: &[u64]| port.announcement(announcer, since, missing);
        while let Some(record) = self.membership.poll_record(announcement) {
            frame::write(&record, control);
        }
        if now >= self.tell_at && self.port.hub().is_router() {
            // Whoever missed a part of it hears it then.
            self.tell_at = now + TELL_AGAIN;
            self.port.tell_link_states();
        }
        while let Some(record) = self.port.poll_routing() {
            frame::write(&record, control);
        }
        if let Some(heartbeat) = self.membership.poll_heartbeat() {
            // It fits into a segment, and nothing else is said this way.
            let _ = session.send_command(now, &heartbeat, 1);
        }
        self.announced = self.membership.version();
        self.port.set_announced(self.announced);
        let next = self.grow(now, began);
        self.deadline = self.membership.poll_timeout().min(next);
        if self.age > Age::Greeting && self.port.awaits_interest() {
            // What was announced just now is on its way then, and members can be asked.
            self.deadline = self.deadline.min(now + ASK_INTEREST);
        }
        let is_open = now < self.open_until;
        if is_open {
            self.deadline = self.deadline.min(self.open_until);
        }
        self.port.set_open(is_open || self.age < Age::Settled || !self.membership.is_interest_known());
    }

    /// A welcome tells where to join streams, and what comes before that is not kept.
    fn wants_turn(&self) -> bool {
        !self.records.is_empty()
    }

    fn holds_writes(&self) -> bool {
        self.age == Age::Greeting
    }

    fn has_audience(&self, session: &Session) -> bool {
        let published = self.data_lanes.iter().any(|&lane| session.segments_sent(lane) > 0);
        (published && self.age < Age::Settled) || self.membership.members().next().is_some()
    }

    fn tell(&mut self, why: &str) {
        // Of a node that cannot be read not even its number is known.
        self.port.tell(HubEvent::Unreadable(0, why.to_owned()));
    }

    fn down(&mut self, why: &str) {
        self.port.tell(HubEvent::LinkDown(self.port.link(), why.to_owned()));
    }

    fn up(&mut self, address: &str) {
        self.port.tell(HubEvent::LinkUp(self.port.link(), address.to_owned()));
    }

    fn fail(&mut self, why: &str) {
        self.port.fail(why);
    }

    fn leave(&mut self, now: Time, session: &mut Session) {
        let last = self.port.last_numbers();
        let last = self.data_lanes.iter().map(|&lane| (lane.into(), last[usize::from(lane)])).collect();
        // It fits into a segment; should it be lost, nobody learns what he lost at the end.
        let _ = session.send_command(now, &self.membership.goodbye(last), GOODBYES);
    }

    fn deadline(&self) -> Time {
        let tells = if self.port.hub().is_router() { self.tell_at } else { Time::NEVER };
        let asks = tells.min(self.aside_at).min(self.ask_again_at);
        self.deadline.min(self.losses.deadline()).min(self.rename_at()).min(asks)
    }
}
