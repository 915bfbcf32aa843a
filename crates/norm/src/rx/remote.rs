//! One sender as this receiver knows it: its streams, its timing, and the feedback it is owed.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::nack::{Due, GroupTiming, NackCycle};
use super::objects::RxObjects;
use super::requests;
use super::stream::{RxStream, Take};
use crate::backoff;
use crate::config::{Config, FecId, FeedbackMode, Join, NackingMode, SyncPolicy};
use crate::congestion::receiver::ReceiverCongestion;
use crate::event::{CloseReason, Event, StreamId};
use crate::quantize;
use crate::serial;
use crate::stats::{Reject, Stats};
use crate::time::Time;
use crate::wire::command::{self, Command, Position};
use crate::wire::feedback::{self, FeedbackHeader};
use crate::wire::object::ObjectHeader;
use crate::wire::repair::RepairWriter;
use crate::wire::{
    CcFeedback, Data, Flags, Fti, Info, Nack, PayloadId, RepairFlags, RepairItem, RepairRequests,
    SenderHeader,
};
use crate::{NodeId, ObjectId};

/// Up to so many nodes acknowledge without spreading out in time.
const PROMPT_ACKERS_MAX: usize = 8;
/// Probes are answered after a back-off of at least so many round-trip times.
const PROBE_BACKOFF_MIN: u32 = 4;
/// Answers are spread over at least so much time for each receiver: a host needs that long to hear another's.
const PROBE_SPREAD: Duration = Duration::from_micros(50);
/// About so many receivers answer a probe where nobody can overhear another's answer.
const UNICAST_PROBE_ANSWERS: f64 = 10.0;

/// What the whole session shares with each of its remote senders.
pub struct Shared<'a> {
    pub config: &'a Config,
    pub random: &'a mut fastrand::Rng,
    pub memory_left: &'a mut usize,
    pub stats: &'a mut Stats,
    pub events: &'a mut VecDeque<Event>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum InfoState {
    /// None was promised.
    None,
    Missing,
    Have,
}

/// What is known of an object.
#[derive(Debug)]
enum Body {
    /// It exists; this is what to ask for. `None` asks for the whole object.
    Wanted(Option<Position>),
    /// It was heard, and its owner is to say where to join it.
    Unjoined(Heard),
    Open(Box<RxStream>),
    /// It ended and was read.
    Closed,
}

/// The first that was heard of a stream.
#[derive(Debug)]
struct Heard {
    header: ObjectHeader,
    fti: Fti,
    payload_id: PayloadId,
    symbol: Vec<u8>,
}

#[derive(Debug)]
struct StreamEntry {
    object: ObjectId,
    info: InfoState,
    /// The scheme in which to ask for its NORM_INFO.
    fec_id: FecId,
    body: Body,
    /// A watermark to acknowledge, and from when on.
    ack: Option<(Position, Time)>,
}

/// A probe that is to be answered.
#[derive(Copy, Clone, Debug)]
struct Probe {
    sent_at: Time,
    received_at: Time,
    sequence: u16,
}

/// A remote sender.
#[derive(Debug)]
pub struct Remote {
    pub node: NodeId,
    pub instance: u16,
    /// The instance before this one, whose late datagrams are refused.
    pub previous: Option<u16>,
    pub address: SocketAddr,
    pub last_heard: Time,
    /// It said goodbye or started again; what is here may still be read.
    pub departed: Option<CloseReason>,
    timing: GroupTiming,
    quantized: (u8, u8, u8),
    streams: Vec<StreamEntry>,
    objects: RxObjects,
    nack: NackCycle,
    probe: Option<Probe>,
    answer_probe_at: Time,
    congestion: ReceiverCongestion,
    /// An acknowledgement of an application's own type that is asked for: type, id, and when to give it.
    answer: Option<(u8, u8, Time)>,
    synced: bool,
    /// Where to join streams that were not heard yet.
    told: Vec<(ObjectId, Join)>,
}

impl Remote {
    pub fn new(header: &SenderHeader, address: SocketAddr, now: Time) -> Remote {
        let mut remote = Remote {
            node: header.source,
            instance: header.instance,
            previous: None,
            address,
            last_heard: now,
            departed: None,
            timing: GroupTiming { grtt: Duration::ZERO, backoff_factor: 0, group_size: 0.0 },
            quantized: (255, 255, 255),
            streams: Vec::new(),
            objects: RxObjects::new(header.source, header.instance),
            nack: NackCycle::new(),
            probe: None,
            answer_probe_at: Time::NEVER,
            congestion: ReceiverCongestion::new(now),
            answer: None,
            synced: false,
            told: Vec::new(),
        };
        remote.hear(header, address, now, 0);
        remote
    }

    /// Takes note of what every message of a sender says.
    pub fn hear(&mut self, header: &SenderHeader, address: SocketAddr, now: Time, bytes: usize) {
        self.last_heard = now;
        self.address = address;
        self.nack.on_heard(now);
        self.congestion.on_message(now, header.sequence, bytes, self.timing.grtt);
        let quantized = (header.grtt, header.backoff, header.group_size);
        if quantized != self.quantized {
            self.quantized = quantized;
            self.timing = GroupTiming {
                grtt: quantize::unquantize_rtt(header.grtt),
                backoff_factor: header.backoff.into(),
                group_size: quantize::unquantize_group_size(header.group_size),
            };
        }
    }

    fn stream_id(&self, object: ObjectId) -> StreamId {
        StreamId { node: self.node, instance: self.instance, object }
    }

    /// The sender's round-trip time as it advertises it.
    pub fn grtt(&self) -> Duration {
        self.timing.grtt
    }

    // --- input ---

    pub fn handle_data(
        &mut self,
        now: Time,
        data: &Data<'_>,
        take: &mut Take<'_>,
        shared: &mut Shared<'_>,
    ) -> Result<(), Reject> {
        if !data.header.flags.has(Flags::STREAM) {
            self.forget_wanted(data.header.object);
            let handled = self.objects.handle_data(now, data, shared);
            self.after_object(now, shared);
            return handled;
        }
        let index = self.stream_for(&data.header, shared)?;
        let object = &mut self.streams[index];
        if data.header.flags.has(Flags::INFO) && object.info == InfoState::None {
            object.info = InfoState::Missing;
            object.fec_id = data.header.fec_id;
        }
        match &object.body {
            Body::Closed => {
                shared.stats.duplicates_received += 1;
                return Ok(());
            }
            Body::Wanted(_) if shared.config.sync == SyncPolicy::Ask => {
                let fti = data.fti.ok_or(Reject::ObjectInfo)?;
                let symbol = data.payload.to_vec();
                object.body =
                    Body::Unjoined(Heard { header: data.header, fti, payload_id: data.payload_id, symbol });
                let told = self.told.iter().find(|(object, _)| *object == data.header.object);
                if let Some(&(object, join)) = told {
                    return self.join(now, object, join, shared);
                }
                shared.events.push_back(Event::StreamHeard { stream: self.stream_id(data.header.object) });
                return Ok(());
            }
            Body::Wanted(_) => {
                let at = (shared.config.sync != SyncPolicy::Current).then_some(0);
                self.open(index, &data.header, data.fti, data.payload_id, at, shared)?;
            }
            Body::Unjoined(_) => return Ok(()),
            Body::Open(stream) => {
                if stream.fec_id() != data.header.fec_id || data.fti.is_some_and(|fti| fti != stream.fti()) {
                    return Err(Reject::ObjectInfo);
                }
            }
        }
        let Body::Open(stream) = &mut self.streams[index].body else { return Ok(()) };
        let repair = data.header.flags.has(Flags::REPAIR);
        let received =
            stream.receive(data.payload_id, data.payload, repair, take, shared.memory_left, shared.stats);
        self.after_progress(now, index, shared);
        received.map(|_| ())
    }

    pub fn handle_info(&mut self, now: Time, info: &Info<'_>, shared: &mut Shared<'_>) -> Result<(), Reject> {
        if !info.header.flags.has(Flags::STREAM) {
            self.forget_wanted(info.header.object);
            let handled = self.objects.handle_info(now, info, shared);
            self.after_object(now, shared);
            return handled;
        }
        let index = self.stream_for(&info.header, shared)?;
        let stream = self.stream_id(info.header.object);
        let object = &mut self.streams[index];
        let wanted = match object.info {
            InfoState::Have => false,
            InfoState::Missing => true,
            InfoState::None => !matches!(object.body, Body::Closed),
        };
        if wanted {
            object.info = InfoState::Have;
            shared.events.push_back(Event::Info { stream, content: info.content.to_vec() });
        }
        // NORM_INFO says how the stream is cut, but not where it is.
        let from_start = matches!(shared.config.sync, SyncPolicy::Start | SyncPolicy::All);
        if from_start && matches!(object.body, Body::Wanted(_)) && info.fti.is_some() {
            self.open(index, &info.header, info.fti, PayloadId::default(), Some(0), shared)?;
        }
        self.after_progress(now, index, shared);
        Ok(())
    }

    pub fn handle_command(&mut self, now: Time, command: &Command<'_>, shared: &mut Shared<'_>) {
        match *command {
            Command::Flush { position, ackers } => self.handle_flush(now, position, ackers, shared),
            Command::Squelch { position, invalid } => self.handle_squelch(now, position, invalid, shared),
            Command::CongestionControl { sequence, sent_at, rate, nodes } => {
                self.probe = Some(Probe { sent_at, received_at: now, sequence });
                self.schedule_probe_answer(now, rate.is_some(), nodes, shared);
            }
            Command::RepairAdvertisement { content } => self.overhear_requests(content),
            Command::EndOfTransmission => self.departed = Some(CloseReason::Ended),
            Command::AckRequest { ack_type, ack_id, nodes } => {
                if command::lists_node(nodes, shared.config.node) && self.answer.is_none() {
                    let spread = self.timing.grtt.mul_f64(shared.random.f64());
                    let spread = if nodes.len() / 4 > PROMPT_ACKERS_MAX { spread } else { Duration::ZERO };
                    self.answer = Some((ack_type, ack_id, now + spread));
                }
            }
            Command::Application(content) => {
                let (node, instance, content) = (self.node, self.instance, content.to_vec());
                shared.events.push_back(Event::CommandReceived { node, instance, content });
            }
        }
    }

    fn handle_flush(&mut self, now: Time, position: Position, ackers: &[u8], shared: &mut Shared<'_>) {
        let listed = command::lists_node(ackers, shared.config.node);
        let spread = if listed && ackers.len() / 4 > PROMPT_ACKERS_MAX {
            self.timing.grtt.mul_f64(shared.random.f64())
        } else {
            Duration::ZERO
        };
        let is_stream = self.streams.iter().any(|known| known.object == position.object);
        let ack_at = listed.then_some(now + spread);
        if !is_stream && self.objects.announce(now, position, ack_at, shared) {
            return self.after_object(now, shared);
        }
        // Whoever wants nothing old does not ask for what was sent before it came.
        if !is_stream && !listed && shared.config.sync == SyncPolicy::Current {
            return;
        }
        let Ok(index) = self.find_or_add(position.object, Some(position), shared) else { return };
        let object = &mut self.streams[index];
        if let Some(at) = ack_at {
            let at = object.ack.map_or(at, |(_, known)| known.max(now));
            object.ack = Some((position, at));
        }
        if let Body::Open(stream) = &mut object.body
            && stream.fec_id() == position.fec_id
        {
            shared.stats.losses_detected += stream.announce(position.payload_id);
        }
        self.after_progress(now, index, shared);
    }

    fn handle_squelch(&mut self, now: Time, position: Position, invalid: &[u8], shared: &mut Shared<'_>) {
        let is_invalid =
            |object: ObjectId| invalid.chunks_exact(2).any(|entry| entry == object.to_be_bytes());
        let node_instance = (self.node, self.instance);
        self.objects.squelch(position, is_invalid, shared);
        for object in &mut self.streams {
            let refused = is_invalid(object.object);
            match &mut object.body {
                Body::Wanted(_) if refused || serial::before(object.object, position.object) => {
                    object.body = Body::Closed;
                    object.info = InfoState::Have;
                }
                Body::Open(stream) if refused => {
                    *shared.memory_left += stream.memory();
                    let (node, instance) = node_instance;
                    let stream = StreamId { node, instance, object: object.object };
                    shared.events.push_back(Event::StreamClosed { stream, reason: CloseReason::Dropped });
                    object.body = Body::Closed;
                }
                Body::Open(stream)
                    if object.object == position.object && stream.fec_id() == position.fec_id =>
                {
                    stream.squelch(position.payload_id);
                }
                Body::Closed if refused => object.info = InfoState::Have,
                Body::Open(_) | Body::Wanted(_) | Body::Unjoined(_) | Body::Closed => {}
            }
        }
        for index in 0..self.streams.len() {
            self.after_progress(now, index, shared);
        }
    }

    fn schedule_probe_answer(&mut self, now: Time, wanted: bool, nodes: &[u8], shared: &mut Shared<'_>) {
        let listed = command::find_cc_node(nodes, shared.config.node);
        self.congestion.on_probe(listed);
        if listed.is_some() {
            self.answer_probe_at = now;
        } else if wanted && self.answer_probe_at == Time::NEVER {
            let overheard = shared.config.feedback == FeedbackMode::Multicast;
            let chosen = overheard || shared.random.f64() * self.timing.group_size < UNICAST_PROBE_ANSWERS;
            if chosen {
                let longest = self.timing.grtt * self.timing.backoff_factor.max(PROBE_BACKOFF_MIN);
                let longest = longest.max(PROBE_SPREAD.mul_f64(self.timing.group_size));
                self.answer_probe_at = now + backoff::draw(shared.random, longest, self.timing.group_size);
            }
        }
    }

    /// Another receiver asked this sender for repairs: it asked for us too.
    pub fn overhear_requests(&mut self, content: &[u8]) {
        if !self.nack.is_backing_off() {
            return;
        }
        let cycle = self.nack.number();
        let mut tally = requests::ErasureTally::default();
        for range in RepairRequests::new(content).flatten() {
            let erasures = tally.add(&range);
            self.objects.overhear(&range, cycle, erasures);
            let found = self.streams.iter_mut().find(|object| object.object == range.first.object);
            let Some(StreamEntry { body: Body::Open(stream), .. }) = found else { continue };
            if stream.fec_id() != range.first.fec_id {
                continue;
            }
            requests::overhear(stream, &range, cycle, erasures);
        }
    }

    /// Another receiver answered this sender's probe: that is enough if it can take no more than we can.
    pub fn overhear_probe_answer(&mut self, feedback: Option<CcFeedback>) {
        if self.congestion.is_covered_by(feedback, self.timing.grtt) {
            self.answer_probe_at = Time::NEVER;
        }
    }

    // --- objects ---

    fn stream_for(&mut self, header: &ObjectHeader, shared: &mut Shared<'_>) -> Result<usize, Reject> {
        self.objects.is_stream(header.object);
        self.find_or_add(header.object, None, shared)
    }

    /// A number that was asked for as if it were a stream's is an object's.
    fn forget_wanted(&mut self, object: ObjectId) {
        if !self.streams.is_empty() {
            self.streams.retain(|known| known.object != object || !matches!(known.body, Body::Wanted(_)));
        }
    }

    /// Something about an object of known length changed: start asking if something is missing.
    fn after_object(&mut self, now: Time, shared: &mut Shared<'_>) {
        if self.departed.is_none() && self.objects.is_missing(shared.config.nacking) {
            self.nack.on_loss(now, &self.timing, shared.random);
        }
    }

    /// Our application wants no more of an object.
    pub fn abandon(&mut self, object: ObjectId, shared: &mut Shared<'_>) {
        self.objects.abandon(object, shared);
    }

    /// Gives up objects of which nothing came for too long.
    pub fn expire(&mut self, now: Time, shared: &mut Shared<'_>) {
        self.objects.expire(now, shared);
    }

    fn find_or_add(
        &mut self,
        object: ObjectId,
        position: Option<Position>,
        shared: &mut Shared<'_>,
    ) -> Result<usize, Reject> {
        if let Some(index) = self.streams.iter().position(|known| known.object == object) {
            return Ok(index);
        }
        self.add(object, position, shared.config)?;
        if !self.synced {
            self.synced = true;
            if shared.config.sync == SyncPolicy::All {
                let older = (0..object).rev().take(shared.config.streams_per_sender_max);
                for object in older {
                    if self.add(object, None, shared.config).is_err() {
                        break;
                    }
                }
            }
        }
        self.streams.iter().position(|known| known.object == object).ok_or(Reject::TooManyObjects)
    }

    fn add(&mut self, object: ObjectId, position: Option<Position>, config: &Config) -> Result<(), Reject> {
        if self.streams.len() >= config.streams_per_sender_max {
            let closed = self.streams.iter().position(|known| matches!(known.body, Body::Closed));
            self.streams.remove(closed.ok_or(Reject::TooManyObjects)?);
        }
        self.streams.push(StreamEntry {
            object,
            info: InfoState::None,
            fec_id: FecId::ReedSolomon8,
            body: Body::Wanted(position),
            ack: None,
        });
        Ok(())
    }

    fn open(
        &mut self,
        index: usize,
        header: &ObjectHeader,
        fti: Option<Fti>,
        heard: PayloadId,
        at: Option<u64>,
        shared: &mut Shared<'_>,
    ) -> Result<(), Reject> {
        let fti = fti.ok_or(Reject::ObjectInfo)?;
        let id = self.stream_id(header.object);
        let bounds = (shared.config.receive_window_bytes, u64::from(shared.config.interleave_blocks) - 1);
        let heard = PayloadId { symbol: heard.symbol.min(fti.block_symbols - 1), ..heard };
        let stream = RxStream::join(id, (header.fec_id, fti), heard, at, bounds, shared.memory_left)?;
        self.streams[index].body = Body::Open(Box::new(stream));
        shared.events.push_back(Event::StreamOpened { stream: id });
        Ok(())
    }

    /// The owner says where to join a stream, before or after it was heard.
    pub fn join(
        &mut self,
        now: Time,
        object: ObjectId,
        join: Join,
        shared: &mut Shared<'_>,
    ) -> Result<(), Reject> {
        let index = self.streams.iter().position(|known| known.object == object);
        let heard = index.and_then(|index| match &mut self.streams[index].body {
            Body::Unjoined(heard) => {
                Some((index, heard.header, heard.fti, heard.payload_id, std::mem::take(&mut heard.symbol)))
            }
            _ => None,
        });
        let Some((index, header, fti, payload_id, symbol)) = heard else {
            if self.told.len() < shared.config.streams_per_sender_max {
                self.told.push((object, join));
            }
            return Ok(());
        };
        let at = match join {
            Join::Here => None,
            Join::At(segment) => Some(segment),
        };
        self.open(index, &header, Some(fti), payload_id, at, shared)?;
        if let Body::Open(stream) = &mut self.streams[index].body {
            // What was heard may lie before where we join, and then counts as a duplicate.
            stream.receive(
                payload_id,
                &symbol,
                false,
                &mut |_, _| false,
                shared.memory_left,
                shared.stats,
            )?;
        }
        self.after_progress(now, index, shared);
        Ok(())
    }

    /// Something about an object changed: move its reader on, and start asking if something is missing.
    fn after_progress(&mut self, now: Time, index: usize, shared: &mut Shared<'_>) {
        self.settle(index, shared);
        if shared.config.nacking != NackingMode::Full
            && let Body::Open(stream) = &mut self.streams[index].body
        {
            stream.on_asked();
        }
        if self.departed.is_none() && is_missing(&self.streams[index], shared.config.nacking) {
            self.nack.on_loss(now, &self.timing, shared.random);
        }
    }

    fn settle(&mut self, index: usize, shared: &mut Shared<'_>) {
        let object = &mut self.streams[index];
        let Body::Open(stream) = &mut object.body else { return };
        stream.settle(shared.stats, |event| shared.events.push_back(event));
        if stream.has_ended() {
            *shared.memory_left += stream.memory();
            object.body = Body::Closed;
        }
    }

    // --- reading ---

    pub fn stream_mut(&mut self, object: ObjectId) -> Option<&mut RxStream> {
        self.streams.iter_mut().find_map(|known| match &mut known.body {
            Body::Open(stream) if known.object == object => Some(&mut **stream),
            _ => None,
        })
    }

    /// So many bytes of a stream were read.
    pub fn consume(&mut self, now: Time, object: ObjectId, bytes: usize, shared: &mut Shared<'_>) {
        let Some(index) = self.streams.iter().position(|known| known.object == object) else { return };
        if let Body::Open(stream) = &mut self.streams[index].body {
            stream.consume(bytes);
            self.after_progress(now, index, shared);
        }
    }

    /// Whether everything that came was read.
    pub fn is_drained(&self) -> bool {
        self.streams.iter().all(|object| match &object.body {
            Body::Open(stream) => stream.window().first() == stream.window().complete(),
            Body::Wanted(_) | Body::Unjoined(_) | Body::Closed => true,
        })
    }

    /// Gives all memory back and says that every stream is closed.
    pub fn close(&mut self, reason: CloseReason, shared: &mut Shared<'_>) {
        for object in self.streams.drain(..) {
            if let Body::Open(stream) = object.body {
                *shared.memory_left += stream.memory();
                shared.events.push_back(Event::StreamClosed { stream: stream.id, reason });
            }
        }
        self.objects.close_all(shared);
        shared.events.push_back(Event::SenderGone { node: self.node, instance: self.instance, reason });
    }

    // --- output ---

    fn feedback_header(&self, now: Time, sequence: u16, node: NodeId) -> FeedbackHeader {
        let probe_response = match self.probe {
            Some(probe) => probe.sent_at + now.since(probe.received_at),
            None => Time::ZERO,
        };
        FeedbackHeader {
            sequence,
            source: node,
            sender: self.node,
            instance: self.instance,
            probe_response,
            cc: None,
        }
    }

    /// Writes feedback that is due into `out`. False if none is.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        sequence: u16,
        requests: &mut RepairWriter,
        out: &mut Vec<u8>,
        shared: &mut Shared<'_>,
    ) -> bool {
        self.poll_ack(now, sequence, out, shared)
            || self.poll_answer(now, sequence, out, shared)
            || self.poll_nack(now, sequence, requests, out, shared)
            || self.poll_probe_answer(now, sequence, out, shared)
    }

    fn is_ack_ready(object: &StreamEntry) -> bool {
        object.ack.is_some_and(|(position, _)| match &object.body {
            Body::Open(stream) => stream.fec_id() == position.fec_id && stream.has_up_to(position.payload_id),
            Body::Closed => true,
            Body::Wanted(_) | Body::Unjoined(_) => false,
        })
    }

    fn poll_ack(&mut self, now: Time, sequence: u16, out: &mut Vec<u8>, shared: &mut Shared<'_>) -> bool {
        let due =
            |object: &StreamEntry| Self::is_ack_ready(object) && object.ack.is_some_and(|(_, at)| at <= now);
        let header = self.feedback_header(now, sequence, shared.config.node);
        let of_stream =
            self.streams.iter_mut().find(|object| due(object)).and_then(|object| object.ack.take());
        let due = of_stream.map(|(position, _)| position).or_else(|| self.objects.take_ack(now));
        let Some(position) = due else { return false };
        feedback::write_flush_ack(&header, position, out);
        shared.stats.acks_sent += 1;
        true
    }

    fn poll_answer(&mut self, now: Time, sequence: u16, out: &mut Vec<u8>, shared: &mut Shared<'_>) -> bool {
        let Some((ack_type, ack_id, _)) = self.answer.take_if(|(.., at)| *at <= now) else {
            return false;
        };
        let header = self.feedback_header(now, sequence, shared.config.node);
        feedback::write_other_ack(&header, ack_type, ack_id, out);
        shared.stats.acks_sent += 1;
        shared.events.push_back(Event::AckGiven { node: self.node, ack_type, ack_id });
        true
    }

    fn poll_nack(
        &mut self,
        now: Time,
        sequence: u16,
        requests: &mut RepairWriter,
        out: &mut Vec<u8>,
        shared: &mut Shared<'_>,
    ) -> bool {
        let nacking = shared.config.nacking;
        let missing = self.departed.is_none()
            && (self.streams.iter().any(|object| is_missing(object, nacking))
                || self.objects.is_missing(nacking));
        // Without back-off nobody speaks for others, and what was lost since the last request need not wait
        // until that is answered.
        let fresh_only = missing && self.has_fresh_losses() && self.nack.deadline() > now;
        if !fresh_only && self.nack.poll(now, missing, &self.timing, shared.random) == Due::Nothing {
            return false;
        }
        if fresh_only {
            return self.write_nack(now, sequence, true, requests, out, shared);
        }
        self.nack.on_asked(now, &self.timing, shared.config.robust_factor);
        let cycle = self.nack.number();
        let of_streams = self.streams.iter().filter(|object| is_missing(object, nacking)).any(|object| {
            object.info == InfoState::Missing
                || match &object.body {
                    Body::Open(stream) => stream.window().needs_asking(cycle),
                    Body::Wanted(_) => true,
                    Body::Unjoined(_) | Body::Closed => false,
                }
        });
        if !of_streams && !self.objects.needs_asking(nacking, cycle) {
            shared.stats.nacks_suppressed += 1;
            return false;
        }
        self.write_nack(now, sequence, false, requests, out, shared)
    }

    fn has_fresh_losses(&self) -> bool {
        self.timing.backoff_factor == 0
            && self.streams.iter().any(|object| match &object.body {
                Body::Open(stream) => stream.has_fresh_losses(),
                _ => false,
            })
    }

    /// Asks for everything missing, or only for what was never asked for. False if that is nothing.
    fn write_nack(
        &mut self,
        now: Time,
        sequence: u16,
        fresh_only: bool,
        requests: &mut RepairWriter,
        out: &mut Vec<u8>,
        shared: &mut Shared<'_>,
    ) -> bool {
        requests.reset(self.request_bytes_max());
        let nacking = shared.config.nacking;
        let missing = self.streams.iter().filter(|object| is_missing(object, nacking));
        if missing.into_iter().all(|object| write_requests(object, nacking, fresh_only, requests)) {
            self.objects.write_requests(nacking, requests);
        }
        for object in &mut self.streams {
            if let Body::Open(stream) = &mut object.body {
                stream.on_asked();
            }
        }
        if requests.content().is_empty() {
            return false;
        }
        let mut header = self.feedback_header(now, sequence, shared.config.node);
        header.cc = self.probe.map(|probe| self.congestion.feedback(probe.sequence, self.timing.grtt));
        Nack::write(&header, requests.content(), out);
        shared.stats.nacks_sent += 1;
        true
    }

    /// A NACK is no longer than a segment of the sender it goes to.
    fn request_bytes_max(&self) -> usize {
        let segment = self.streams.iter().find_map(|object| match &object.body {
            Body::Open(stream) => Some(stream.window().segment_bytes()),
            Body::Wanted(_) | Body::Unjoined(_) | Body::Closed => None,
        });
        segment.or(self.objects.segment_bytes()).unwrap_or(512).clamp(64, 1400)
    }

    fn poll_probe_answer(
        &mut self,
        now: Time,
        sequence: u16,
        out: &mut Vec<u8>,
        shared: &mut Shared<'_>,
    ) -> bool {
        let Some(probe) = self.probe.filter(|_| self.answer_probe_at <= now) else {
            return false;
        };
        self.answer_probe_at = Time::NEVER;
        let mut header = self.feedback_header(now, sequence, shared.config.node);
        header.cc = Some(self.congestion.feedback(probe.sequence, self.timing.grtt));
        feedback::write_probe_ack(&header, out);
        shared.stats.acks_sent += 1;
        true
    }

    pub fn deadline(&self) -> Time {
        let acks =
            self.streams.iter().filter(|object| Self::is_ack_ready(object)).filter_map(|object| object.ack);
        let ack = acks.map(|(_, at)| at).min().unwrap_or(Time::NEVER);
        let objects = self.objects.ack_deadline().min(self.objects.next_expiry());
        let answer = self.answer.map_or(Time::NEVER, |(.., at)| at);
        if self.has_fresh_losses() && self.departed.is_none() {
            return Time::ZERO;
        }
        self.nack.deadline().min(answer).min(self.answer_probe_at).min(ack).min(objects)
    }
}

fn is_missing(object: &StreamEntry, nacking: NackingMode) -> bool {
    let info = object.info == InfoState::Missing && nacking != NackingMode::None;
    info || nacking == NackingMode::Full
        && match &object.body {
            Body::Wanted(_) => true,
            Body::Open(stream) => stream.window().has_missing(),
            Body::Unjoined(_) | Body::Closed => false,
        }
}

/// Asks for what is missing of one object. False if there was no room for all of it.
fn write_requests(
    object: &StreamEntry,
    nacking: NackingMode,
    fresh_only: bool,
    requests: &mut RepairWriter,
) -> bool {
    if object.info == InfoState::Missing {
        let whole =
            RepairItem { fec_id: object.fec_id, object: object.object, payload_id: PayloadId::default() };
        if !requests.push(RepairFlags::INFO, whole, whole) {
            return false;
        }
    }
    if nacking != NackingMode::Full {
        return true;
    }
    match &object.body {
        Body::Unjoined(_) | Body::Closed => true,
        Body::Wanted(position) => {
            let Position { fec_id, object, payload_id } = position.unwrap_or(Position {
                fec_id: object.fec_id,
                object: object.object,
                payload_id: PayloadId::default(),
            });
            let flags = if position.is_some() { RepairFlags::SEGMENT } else { RepairFlags::OBJECT };
            let item = RepairItem { fec_id, object, payload_id };
            requests.push(flags, item, item)
        }
        Body::Open(stream) => {
            let least = if fresh_only { stream.asked_to() } else { 0 };
            requests::write(stream, least, requests)
        }
    }
}
