//! What a bus does on its link's thread.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use foldhash::{HashMap, HashMapExt};
use shoal_node::{Departure, Interest, MemberEvent, Membership, Origin, SubscriptionId, Switch};
use shoal_norm::{Event, Join, NodeId, ObjectId, Session, StreamId, Time};
use shoal_wire::{Mark, MessageView, RecordKind, frame};

use super::consumer::{Batch, Consumer, Entry};
use super::handle::{DISCOVERY, GREETING, Shared};
use super::lanes::CONTROL;
use crate::norm::Application;

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

struct Subscription<L> {
    consumer: Arc<Consumer<L>>,
    staged: Batch,
    /// What may be staged before its queue has to be looked at.
    room: usize,
}

impl<L> Subscription<L> {
    fn new(consumer: Arc<Consumer<L>>) -> Subscription<L> {
        Subscription { room: consumer.room(), consumer, staged: Batch::default() }
    }

    /// Whether its queue, with what is staged for it, takes no more.
    fn is_full(&self) -> bool {
        self.staged.cost() >= self.consumer.room()
    }

    /// The same, at the price of a comparison as long as there is room.
    fn is_full_now(&mut self) -> bool {
        if self.staged.cost() < self.room {
            return false;
        }
        self.room = self.consumer.room();
        self.staged.cost() >= self.room
    }
}

/// What is known of a stream beside its messages.
#[derive(Copy, Clone, Default)]
struct StreamNotes {
    timestamp_us: u64,
    number: Option<u64>,
    /// The version of its subscriptions that its sender had announced.
    version: u64,
}

/// The application.
pub struct BusApplication<L> {
    shared: Arc<Shared<L>>,
    switch: Switch,
    subscriptions: HashMap<SubscriptionId, Subscription<L>>,
    /// Subscriptions with something staged.
    staged: Vec<SubscriptionId>,
    notes: HashMap<StreamId, StreamNotes>,
    /// Streams that brought more than a subscription has room for, and which subscriptions.
    parked: HashMap<StreamId, Vec<SubscriptionId>>,
    /// Streams that a welcome told where to join.
    welcomed: HashSet<StreamId>,
    data_lanes: Vec<ObjectId>,
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
    pub fn new(shared: Arc<Shared<L>>, data_lanes: Vec<ObjectId>, seed: u64) -> BusApplication<L> {
        BusApplication {
            shared,
            switch: Switch::new(seed),
            subscriptions: HashMap::new(),
            staged: Vec::new(),
            notes: HashMap::new(),
            parked: HashMap::new(),
            welcomed: HashSet::new(),
            data_lanes,
            records: VecDeque::new(),
            heard: false,
            membership_deadline: Time::ZERO,
            version: 0,
            began: None,
            greeting: true,
            changed: false,
        }
    }

    fn message(&mut self, stream: StreamId, record: &[u8]) {
        let notes = self.notes.entry(stream).or_default();
        let number = notes.number;
        if let Some(number) = &mut notes.number {
            *number += 1;
        }
        let origin = Origin {
            node: stream.node,
            instance: stream.instance,
            stream: stream.object,
            number,
            timestamp_us: notes.timestamp_us,
        };
        let view = match MessageView::parse(record) {
            Ok(view) => view,
            Err(error) => return self.shared.tell(BusEvent::Unreadable(stream.node, error.to_string())),
        };
        let Ok(wanted) = self.switch.route(&view, &origin) else { return };
        for &id in wanted {
            let Some(subscription) = self.subscriptions.get_mut(&id) else { continue };
            let batch = &mut subscription.staged;
            if batch.entries.is_empty() {
                self.staged.push(id);
                batch.arrived = Some(Instant::now());
            }
            let start = batch.bytes.len();
            batch.bytes.extend_from_slice(record);
            batch.entries.push(Entry { start, end: batch.bytes.len(), origin });
            if subscription.is_full_now() {
                let waits_for = self.parked.entry(stream).or_default();
                if !waits_for.contains(&id) {
                    waits_for.push(id);
                }
            }
        }
    }

    fn mark(&mut self, now: Time, stream: StreamId, mark: Mark) {
        let Mark { timestamp_us, number, version } = mark;
        let known = self.notes.insert(stream, StreamNotes { timestamp_us, number: Some(number), version });
        // Told before anybody reads what follows, and perhaps answers it: what its sender subscribed to before
        // may not have been heard yet.
        if known.is_none_or(|known| known.version != version)
            && self.shared.membership().on_version(now, stream.node, stream.instance, version)
        {
            self.shared.interest_changed();
            self.membership_deadline = Time::ZERO;
        }
    }

    fn is_any_full(&self, ids: &[SubscriptionId]) -> bool {
        ids.iter().any(|id| self.subscriptions.get(id).is_some_and(Subscription::is_full))
    }

    fn apply_changes(&mut self, now: Time, membership: &mut Membership) {
        for change in self.shared.take_changes() {
            match change {
                Change::Subscribe(id, interest, consumer) => {
                    membership.subscribe(now, interest.pattern.as_str());
                    self.switch.insert(id, *interest);
                    self.subscriptions.insert(id, Subscription::new(consumer));
                }
                Change::Unsubscribe(id) => {
                    if let Some(interest) = self.switch.remove(id) {
                        membership.unsubscribe(now, interest.pattern.as_str());
                    }
                    if let Some(subscription) = self.subscriptions.remove(&id) {
                        subscription.consumer.close();
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
                        if self.welcomed.insert(stream) {
                            session.join(now, stream, Join::At(segment));
                        }
                    }
                }
                MemberEvent::InterestUnknown(_) => {}
                MemberEvent::Joined(node) => self.shared.tell(BusEvent::Joined(node)),
                MemberEvent::Gone(node, departure) => self.shared.tell(BusEvent::Gone(node, departure)),
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

impl<L: Send + 'static> Application for BusApplication<L> {
    fn has_room(&self, stream: StreamId) -> bool {
        self.parked.get(&stream).is_none_or(|waits_for| !self.is_any_full(waits_for))
    }

    fn frame(&mut self, now: Time, stream: StreamId, record: &[u8]) {
        if stream.object == CONTROL {
            self.records.push_back((stream, record.to_vec()));
            return;
        }
        match RecordKind::of(record) {
            Ok(RecordKind::Message) => self.message(stream, record),
            Ok(RecordKind::Mark) => match Mark::read(record) {
                Ok(mark) => self.mark(now, stream, mark),
                Err(error) => self.shared.tell(BusEvent::Unreadable(stream.node, error.to_string())),
            },
            Ok(_) => {}
            Err(error) => self.shared.tell(BusEvent::Unreadable(stream.node, error.to_string())),
        }
    }

    fn event(&mut self, now: Time, session: &mut Session, event: &Event) {
        match event {
            Event::SenderHeard { .. } => self.heard = true,
            Event::SenderGone { node, instance, .. } => {
                // What it said before it went would make it a member again.
                self.records.retain(|(stream, _)| (stream.node, stream.instance) != (*node, *instance));
                self.shared.membership().on_sender_gone(*node, *instance);
                self.welcomed.retain(|stream| (stream.node, stream.instance) != (*node, *instance));
                self.notes.retain(|stream, _| (stream.node, stream.instance) != (*node, *instance));
                self.parked.retain(|stream, _| (stream.node, stream.instance) != (*node, *instance));
                self.membership_deadline = Time::ZERO;
            }
            Event::StreamHeard { stream } if stream.object == CONTROL => {
                session.join(now, *stream, Join::Here)
            }
            Event::Gap { stream, segments, .. } => {
                self.notes.remove(stream);
                self.shared.tell(BusEvent::Lost(stream.node, stream.object, *segments));
            }
            Event::CommandReceived { node, instance, content } => {
                let stream = StreamId { node: *node, instance: *instance, object: CONTROL };
                self.records.push_back((stream, content.clone()));
            }
            Event::AckerSilent { node, .. } => self.shared.tell(BusEvent::Slow(*node)),
            Event::WatermarkDone(watermark) => self.shared.flushes.on_watermark(watermark),
            _ => {}
        }
    }

    fn broken(&mut self, stream: StreamId, why: &str) {
        self.notes.remove(&stream);
        self.shared.tell(BusEvent::Unreadable(stream.node, why.to_owned()));
    }

    fn batch_done(&mut self) {
        for id in self.staged.drain(..) {
            if let Some(subscription) = self.subscriptions.get_mut(&id) {
                subscription.consumer.put_batch(&mut subscription.staged);
                subscription.room = 0;
            }
        }
        if !self.parked.is_empty() {
            let mut parked = std::mem::take(&mut self.parked);
            parked.retain(|_, waits_for| self.is_any_full(waits_for));
            self.parked = parked;
        }
    }

    fn serve(&mut self, now: Time, session: &mut Session, control: &mut Vec<u8>) {
        let shared = self.shared.clone();
        shared.flushes.serve(now, session, shared.outbox());
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
        let began = *self.began.get_or_insert(now);
        self.greeting &= now < began + GREETING && membership.members().next().is_none();
        self.membership_deadline = membership.poll_timeout();
        let next = if self.greeting { began + GREETING } else { began + DISCOVERY };
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

impl<L> Drop for BusApplication<L> {
    fn drop(&mut self) {
        for subscription in self.subscriptions.values() {
            subscription.consumer.close();
        }
    }
}

#[cfg(test)]
mod tests;
