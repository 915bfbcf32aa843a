//! What a bus does on its link's thread.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use shoal_node::{Departure, Interest, MemberEvent, Membership, SubscriptionId};
use shoal_norm::{Chunk, Event, Join, NodeId, ObjectId, Session, StreamId, Time};
use shoal_wire::frame;

use super::consumer::Consumer;
use super::handle::{DISCOVERY, GREETING, Shared};
use super::inbox::{Inbox, InboxBounds};
use super::lanes::CONTROL;
use crate::norm::{Application, Frames, Taken};

/// What a node says of itself is no longer than this.
const CONTROL_RECORD_BYTES_MAX: usize = 1 << 20;

/// What a bus tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// A node is here.
    Joined(NodeId),
    /// A node is gone.
    Gone(NodeId, Departure),
    /// A node subscribes to something else now: what is new, and what no longer.
    Subscriptions(NodeId, Vec<String>, Vec<String>),
    /// Messages of a node are lost for good: so many segments of one of its lanes.
    Lost(NodeId, ObjectId, u64),
    /// A node gets nowhere, and publishers no longer wait for it.
    Slow(NodeId),
    /// A node sends what cannot be read: why.
    Unreadable(NodeId, String),
}

/// A change that another thread asked for.
pub enum Change<L> {
    Subscribe(SubscriptionId, Box<Interest>, Arc<Consumer<L>>),
    Unsubscribe(SubscriptionId),
}

/// The application.
pub struct BusApplication<L> {
    shared: Arc<Shared<L>>,
    inbox: Inbox<L>,
    /// Streams that a welcome told where to join.
    welcomed: HashSet<StreamId>,
    data_lanes: Vec<ObjectId>,
    control: Frames,
    /// Members that failed, and when: they rest once what came of them was read.
    failed: Vec<(NodeId, u16, Time)>,
    /// Control records that came since the last turn.
    records: VecDeque<(StreamId, Vec<u8>)>,
    heard: bool,
    membership_deadline: Time,
    /// The version of our subscriptions that is announced.
    version: u64,
    /// When we looked around first.
    began: Option<Time>,
    /// Nobody is known, and whoever is there may not have answered yet.
    greeting: bool,
    changed: bool,
}

impl<L: Send + 'static> BusApplication<L> {
    pub fn new(
        shared: Arc<Shared<L>>,
        data_lanes: Vec<ObjectId>,
        seed: u64,
        bounds: InboxBounds,
    ) -> BusApplication<L> {
        BusApplication {
            shared,
            inbox: Inbox::new(seed, bounds),
            control: Frames::new(CONTROL_RECORD_BYTES_MAX),
            welcomed: HashSet::new(),
            data_lanes,
            failed: Vec::new(),
            records: VecDeque::new(),
            heard: false,
            membership_deadline: Time::ZERO,
            version: 0,
            began: None,
            greeting: true,
            changed: false,
        }
    }

    fn apply_changes(&mut self, now: Time, membership: &mut Membership) {
        for change in self.shared.take_changes() {
            match change {
                Change::Subscribe(id, interest, consumer) => {
                    membership.subscribe(now, interest.pattern.as_str());
                    self.inbox.subscribe(id, *interest, consumer);
                }
                Change::Unsubscribe(id) => {
                    if let Some(interest) = self.inbox.unsubscribe(id) {
                        membership.unsubscribe(now, interest.pattern.as_str());
                    }
                }
            }
        }
    }

    fn handle_records(&mut self, now: Time, session: &Session, membership: &mut Membership) {
        let discovering = self.shared.is_discovering();
        while let Some((stream, record)) = self.records.pop_front() {
            let lanes = &self.data_lanes;
            // Who is met while we are new was there before us, and may have everything we said.
            let position = |lane| match discovering {
                true => session.oldest_segment(lane),
                false => session.segments_sent(lane),
            };
            let positions = || lanes.iter().map(|&lane| (lane, position(lane))).collect();
            if let Err(error) =
                membership.handle_record(now, stream.node, stream.instance, &record, positions)
            {
                self.shared.tell(BusEvent::Unreadable(stream.node, error.to_string()));
            }
        }
    }

    fn handle_members(&mut self, now: Time, session: &mut Session, membership: &mut Membership) {
        while let Some(event) = membership.poll_event() {
            self.changed = true;
            match event {
                MemberEvent::Welcomed { node, instance, positions } => {
                    for (object, segment) in positions {
                        // The first welcome counts; others repeat it for those who missed it.
                        let stream = StreamId { node, instance, object };
                        if self.data_lanes.contains(&object) && self.welcomed.insert(stream) {
                            session.join(now, stream, Join::At(segment));
                        }
                    }
                }
                MemberEvent::InterestUnknown(_) => {}
                MemberEvent::Joined(node) => self.shared.tell(BusEvent::Joined(node)),
                MemberEvent::Gone(node, instance, departure) => {
                    if departure == Departure::Failed {
                        self.failed.push((node, instance, now));
                    }
                    self.shared.tell(BusEvent::Gone(node, departure));
                }
                MemberEvent::Subscriptions(node, added, removed) => {
                    if !added.is_empty() || !removed.is_empty() {
                        self.shared.tell(BusEvent::Subscriptions(node, added, removed));
                    }
                }
            }
        }
        if let Some(ackers) = membership.poll_ackers() {
            if self.shared.is_discovering() {
                session.set_ackers_from_oldest(&ackers);
            } else {
                session.set_ackers(&ackers);
            }
            session.set_group_size(ackers.len() as u32 + 1);
        }
    }
}

impl<L: Send + 'static> BusApplication<L> {
    /// Gives back what is held for members that failed. They may only have been silent, and then go on where they were.
    fn rest_failed(&mut self, now: Time, session: &mut Session) {
        let BusApplication { failed, inbox, shared, .. } = self;
        failed.retain(|&(node, instance, failed_at)| {
            if session.last_heard(node, instance).is_none_or(|heard| heard > failed_at) {
                return false;
            }
            if !session.rest_sender(node, instance) {
                return true;
            }
            for stream in inbox.rest(node, instance) {
                session.resync(now, stream);
                let why = "it failed in the middle of a large message, which is lost";
                shared.tell(BusEvent::Unreadable(node, why.to_owned()));
            }
            false
        });
    }
}

impl<L: Send + 'static> Application for BusApplication<L> {
    fn take(&mut self, now: Time, stream: StreamId, chunk: Chunk<'_>) -> Taken {
        let shared = &self.shared;
        let unreadable = |why| shared.tell(BusEvent::Unreadable(stream.node, why));
        if stream.object != CONTROL {
            let deadline = &mut self.membership_deadline;
            // Told before anybody reads what follows, and perhaps answers it: what its sender subscribed to before
            // may not have been heard yet.
            let announced = |version| {
                if shared.membership().on_version(now, stream.node, stream.instance, version) {
                    shared.interest_changed();
                    *deadline = Time::ZERO;
                }
            };
            return self.inbox.take(now, stream, chunk, unreadable, announced);
        }
        // A reader that is slow must not make us deaf to who is here: everybody would seem dead.
        let records = &mut self.records;
        match self.control.read(stream, chunk, |record| records.push_back((stream, record.to_vec()))) {
            Ok(()) => Taken::All,
            Err(error) => {
                unreadable(error.to_string());
                Taken::Broken
            }
        }
    }

    fn event(&mut self, now: Time, session: &mut Session, event: &Event) {
        self.control.on_event(event);
        match event {
            Event::StreamClosed { stream, .. } => self.inbox.close_stream(*stream),
            Event::SenderHeard { .. } => self.heard = true,
            Event::SenderGone { node, instance, .. } => {
                // What it said before it went would make it a member again.
                self.records.retain(|(stream, _)| (stream.node, stream.instance) != (*node, *instance));
                self.shared.membership().on_sender_gone(*node, *instance);
                self.welcomed.retain(|stream| (stream.node, stream.instance) != (*node, *instance));
                self.inbox.forget(*node, *instance);
                self.membership_deadline = Time::ZERO;
            }
            Event::StreamHeard { stream } if stream.object == CONTROL => {
                session.join(now, *stream, Join::Here)
            }
            Event::Gap { stream, segments, .. } => {
                self.shared.tell(BusEvent::Lost(stream.node, stream.object, *segments));
            }
            Event::CommandReceived { node, instance, content } => {
                let stream = StreamId { node: *node, instance: *instance, object: CONTROL };
                self.records.push_back((stream, content.clone()));
            }
            Event::AckerSilent { node, .. } => self.shared.tell(BusEvent::Slow(*node)),
            Event::WatermarkDone(watermark) => {
                self.shared.flushes.on_watermark(watermark);
                self.shared.bells.ring();
            }
            _ => {}
        }
    }

    fn batch_done(&mut self) {
        self.inbox.hand_over();
    }

    fn serve(&mut self, now: Time, session: &mut Session, control: &mut Vec<u8>) {
        let shared = self.shared.clone();
        let began = *self.began.get_or_insert(now);
        // Who answers our greeting counts, though somebody else may have answered and acknowledged already.
        if now >= began + GREETING {
            shared.flushes.serve(now, session, shared.outbox());
        }
        self.rest_failed(now, session);
        let busy = self.heard || !self.records.is_empty() || shared.has_changes();
        if !busy && now < self.membership_deadline {
            return;
        }
        let mut membership = shared.membership();
        self.apply_changes(now, &mut membership);
        if std::mem::take(&mut self.heard) {
            membership.on_sender_heard(now);
        }
        self.handle_records(now, session, &mut membership);
        membership.handle_timeout(now, |node, instance| session.last_heard(node, instance));
        self.handle_members(now, session, &mut membership);
        while let Some(record) = membership.poll_record() {
            frame::write(&record, control);
        }
        if let Some(heartbeat) = membership.poll_heartbeat() {
            // It fits into a segment, and nothing else is said this way.
            let _ = session.send_command(now, &heartbeat, 1);
        }
        self.version = membership.version();
        self.greeting &= now < began + GREETING && membership.members().next().is_none();
        self.membership_deadline = membership.poll_timeout();
        let next = if now < began + GREETING { began + GREETING } else { began + DISCOVERY };
        if next > now {
            self.membership_deadline = self.membership_deadline.min(next);
        } else {
            self.changed |= shared.end_discovery();
        }
        drop(membership);
        if std::mem::take(&mut self.changed) {
            shared.interest_changed();
        }
    }

    /// A welcome tells where to join streams, and what comes before that is not kept.
    fn wants_turn(&self) -> bool {
        !self.records.is_empty()
    }

    fn announced_version(&self) -> u64 {
        self.version
    }

    fn holds_writes(&self) -> bool {
        self.greeting
    }

    fn has_audience(&self, session: &Session) -> bool {
        let published = self.data_lanes.iter().any(|&lane| session.segments_sent(lane) > 0);
        (published && self.shared.is_discovering()) || self.shared.membership().members().next().is_some()
    }

    fn deadline(&self) -> Time {
        self.membership_deadline
    }
}
