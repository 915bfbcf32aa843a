//! One sender as this receiver knows it: its streams, its timing, and the feedback it is owed.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::nack::{Due, GroupTiming, NackCycle};
use super::stream::RxStream;
use crate::backoff;
use crate::config::{Config, FecId, FeedbackMode, Join, SyncPolicy};
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
struct RxObject {
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
    objects: Vec<RxObject>,
    nack: NackCycle,
    probe: Option<Probe>,
    answer_probe_at: Time,
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
            objects: Vec::new(),
            nack: NackCycle::new(),
            probe: None,
            answer_probe_at: Time::NEVER,
            synced: false,
            told: Vec::new(),
        };
        remote.hear(header, address, now);
        remote
    }

    /// Takes note of what every message of a sender says.
    pub fn hear(&mut self, header: &SenderHeader, address: SocketAddr, now: Time) {
        self.last_heard = now;
        self.address = address;
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

    pub fn handle_data(&mut self, now: Time, data: &Data<'_>, shared: &mut Shared<'_>) -> Result<(), Reject> {
        let index = self.object_for(&data.header, shared)?;
        let object = &mut self.objects[index];
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
        let Body::Open(stream) = &mut self.objects[index].body else { return Ok(()) };
        let received = stream.receive(data.payload_id, data.payload, shared.memory_left, shared.stats);
        self.after_progress(now, index, shared);
        received.map(|_| ())
    }

    pub fn handle_info(&mut self, now: Time, info: &Info<'_>, shared: &mut Shared<'_>) -> Result<(), Reject> {
        let index = self.object_for(&info.header, shared)?;
        let stream = self.stream_id(info.header.object);
        let object = &mut self.objects[index];
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
            Command::AckRequest { .. } | Command::Application(_) => {}
        }
    }

    fn handle_flush(&mut self, now: Time, position: Position, ackers: &[u8], shared: &mut Shared<'_>) {
        let listed = command::lists_node(ackers, shared.config.node);
        // Whoever wants nothing old does not ask for what was sent before it came.
        let known = self.objects.iter().any(|object| object.object == position.object);
        if !known && !listed && shared.config.sync == SyncPolicy::Current {
            return;
        }
        let Ok(index) = self.find_or_add(position.object, Some(position), shared) else { return };
        let object = &mut self.objects[index];
        if listed {
            let spread = if ackers.len() / 4 > PROMPT_ACKERS_MAX {
                self.timing.grtt.mul_f64(shared.random.f64())
            } else {
                Duration::ZERO
            };
            let at = object.ack.map_or(now + spread, |(_, at)| at.max(now));
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
        for object in &mut self.objects {
            let refused = is_invalid(object.object);
            match &mut object.body {
                Body::Wanted(_) if refused || serial::before(object.object, position.object) => {
                    object.body = Body::Closed;
                    object.info = InfoState::Have;
                }
                Body::Open(stream) if refused => {
                    *shared.memory_left += stream.window().memory();
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
        for index in 0..self.objects.len() {
            self.after_progress(now, index, shared);
        }
    }

    fn schedule_probe_answer(&mut self, now: Time, wanted: bool, nodes: &[u8], shared: &mut Shared<'_>) {
        if command::lists_cc_node(nodes, shared.config.node) {
            self.answer_probe_at = now;
        } else if wanted && self.answer_probe_at == Time::NEVER {
            let overheard = shared.config.feedback == FeedbackMode::Multicast;
            let chosen = overheard || shared.random.f64() * self.timing.group_size < UNICAST_PROBE_ANSWERS;
            if chosen {
                let longest = self.timing.grtt * self.timing.backoff_factor.max(PROBE_BACKOFF_MIN);
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
        for range in RepairRequests::new(content).flatten() {
            let found = self.objects.iter_mut().find(|object| object.object == range.first.object);
            let Some(RxObject { body: Body::Open(stream), .. }) = found else { continue };
            if stream.fec_id() != range.first.fec_id {
                continue;
            }
            let symbols = stream.symbols();
            let (first, last) =
                (stream.segment_at(range.first.payload_id), stream.segment_at(range.last.payload_id));
            if range.flags.has(RepairFlags::OBJECT) {
                stream.window_mut().mark_asked(0, u64::MAX, cycle);
            } else if range.flags.has(RepairFlags::BLOCK) {
                stream.window_mut().mark_asked(
                    first / symbols * symbols,
                    (last / symbols + 1) * symbols,
                    cycle,
                );
            } else if range.flags.has(RepairFlags::SEGMENT) {
                stream.window_mut().mark_asked(first, last + 1, cycle);
            }
        }
    }

    /// Another receiver answered this sender's probe: one answer is enough.
    pub fn overhear_probe_answer(&mut self) {
        self.answer_probe_at = Time::NEVER;
    }

    // --- objects ---

    fn object_for(&mut self, header: &ObjectHeader, shared: &mut Shared<'_>) -> Result<usize, Reject> {
        if !header.flags.has(Flags::STREAM) {
            return Err(Reject::ObjectType);
        }
        self.find_or_add(header.object, None, shared)
    }

    fn find_or_add(
        &mut self,
        object: ObjectId,
        position: Option<Position>,
        shared: &mut Shared<'_>,
    ) -> Result<usize, Reject> {
        if let Some(index) = self.objects.iter().position(|known| known.object == object) {
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
        self.objects.iter().position(|known| known.object == object).ok_or(Reject::TooManyObjects)
    }

    fn add(&mut self, object: ObjectId, position: Option<Position>, config: &Config) -> Result<(), Reject> {
        if self.objects.len() >= config.streams_per_sender_max {
            let closed = self.objects.iter().position(|known| matches!(known.body, Body::Closed));
            self.objects.remove(closed.ok_or(Reject::TooManyObjects)?);
        }
        self.objects.push(RxObject {
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
        let window_bytes = shared.config.receive_window_bytes;
        let heard = PayloadId { symbol: heard.symbol.min(fti.block_symbols - 1), ..heard };
        let stream = RxStream::join(id, (header.fec_id, fti), heard, at, window_bytes, shared.memory_left)?;
        self.objects[index].body = Body::Open(Box::new(stream));
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
        let index = self.objects.iter().position(|known| known.object == object);
        let heard = index.and_then(|index| match &mut self.objects[index].body {
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
        if let Body::Open(stream) = &mut self.objects[index].body {
            // What was heard may lie before where we join, and then counts as a duplicate.
            stream.receive(payload_id, &symbol, shared.memory_left, shared.stats)?;
        }
        self.after_progress(now, index, shared);
        Ok(())
    }

    /// Something about an object changed: move its reader on, and start asking if something is missing.
    fn after_progress(&mut self, now: Time, index: usize, shared: &mut Shared<'_>) {
        self.settle(index, shared);
        if self.departed.is_none() && self.is_missing(&self.objects[index]) {
            self.nack.on_loss(now, &self.timing, shared.random);
        }
    }

    fn settle(&mut self, index: usize, shared: &mut Shared<'_>) {
        let object = &mut self.objects[index];
        let Body::Open(stream) = &mut object.body else { return };
        stream.settle(shared.stats, |event| shared.events.push_back(event));
        if stream.has_ended() {
            *shared.memory_left += stream.window().memory();
            object.body = Body::Closed;
        }
    }

    fn is_missing(&self, object: &RxObject) -> bool {
        object.info == InfoState::Missing
            || match &object.body {
                Body::Wanted(_) => true,
                Body::Open(stream) => stream.window().has_missing(),
                Body::Unjoined(_) | Body::Closed => false,
            }
    }

    // --- reading ---

    pub fn stream_mut(&mut self, object: ObjectId) -> Option<&mut RxStream> {
        self.objects.iter_mut().find_map(|known| match &mut known.body {
            Body::Open(stream) if known.object == object => Some(&mut **stream),
            _ => None,
        })
    }

    /// So many bytes of a stream were read.
    pub fn consume(&mut self, now: Time, object: ObjectId, bytes: usize, shared: &mut Shared<'_>) {
        let Some(index) = self.objects.iter().position(|known| known.object == object) else { return };
        if let Body::Open(stream) = &mut self.objects[index].body {
            stream.consume(bytes);
            self.after_progress(now, index, shared);
        }
    }

    /// Whether everything that came was read.
    pub fn is_drained(&self) -> bool {
        self.objects.iter().all(|object| match &object.body {
            Body::Open(stream) => stream.window().first() == stream.window().complete(),
            Body::Wanted(_) | Body::Unjoined(_) | Body::Closed => true,
        })
    }

    /// Gives all memory back and says that every stream is closed.
    pub fn close(&mut self, reason: CloseReason, shared: &mut Shared<'_>) {
        for object in self.objects.drain(..) {
            if let Body::Open(stream) = object.body {
                *shared.memory_left += stream.window().memory();
                shared.events.push_back(Event::StreamClosed { stream: stream.id, reason });
            }
        }
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
            || self.poll_nack(now, sequence, requests, out, shared)
            || self.poll_probe_answer(now, sequence, out, shared)
    }

    fn is_ack_ready(object: &RxObject) -> bool {
        object.ack.is_some_and(|(position, _)| match &object.body {
            Body::Open(stream) => stream.fec_id() == position.fec_id && stream.has_up_to(position.payload_id),
            Body::Closed => true,
            Body::Wanted(_) | Body::Unjoined(_) => false,
        })
    }

    fn poll_ack(&mut self, now: Time, sequence: u16, out: &mut Vec<u8>, shared: &mut Shared<'_>) -> bool {
        let due =
            |object: &RxObject| Self::is_ack_ready(object) && object.ack.is_some_and(|(_, at)| at <= now);
        let header = self.feedback_header(now, sequence, shared.config.node);
        let Some((position, _)) =
            self.objects.iter_mut().find(|object| due(object)).and_then(|object| object.ack.take())
        else {
            return false;
        };
        feedback::write_flush_ack(&header, position, out);
        shared.stats.acks_sent += 1;
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
        let missing = self.departed.is_none() && self.objects.iter().any(|object| self.is_missing(object));
        // Without back-off nobody speaks for others, and what was lost since the last request need not wait
        // until that is answered.
        let fresh_only = missing && self.has_fresh_losses() && self.nack.deadline() > now;
        if !fresh_only && self.nack.poll(now, missing, &self.timing, shared.random) == Due::Nothing {
            return false;
        }
        if fresh_only {
            return self.write_nack(now, sequence, true, requests, out, shared);
        }
        self.nack.on_asked(now, &self.timing);
        let cycle = self.nack.number();
        let needed = self.objects.iter().any(|object| {
            object.info == InfoState::Missing
                || match &object.body {
                    Body::Open(stream) => stream.window().needs_asking(cycle),
                    Body::Wanted(_) => true,
                    Body::Unjoined(_) | Body::Closed => false,
                }
        });
        if !needed {
            shared.stats.nacks_suppressed += 1;
            return false;
        }
        self.write_nack(now, sequence, false, requests, out, shared)
    }

    fn has_fresh_losses(&self) -> bool {
        self.timing.backoff_factor == 0
            && self.objects.iter().any(|object| match &object.body {
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
        for object in &self.objects {
            if !write_requests(object, fresh_only, requests) {
                break;
            }
        }
        for object in &mut self.objects {
            if let Body::Open(stream) = &mut object.body {
                stream.on_asked();
            }
        }
        if requests.content().is_empty() {
            return false;
        }
        let header = self.feedback_header(now, sequence, shared.config.node);
        Nack::write(&header, requests.content(), out);
        shared.stats.nacks_sent += 1;
        true
    }

    /// A NACK is no longer than a segment of the sender it goes to.
    fn request_bytes_max(&self) -> usize {
        let segment = self.objects.iter().find_map(|object| match &object.body {
            Body::Open(stream) => Some(stream.window().segment_bytes()),
            Body::Wanted(_) | Body::Unjoined(_) | Body::Closed => None,
        });
        segment.unwrap_or(512).clamp(64, 1400)
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
        header.cc = Some(CcFeedback {
            sequence: probe.sequence,
            flags: CcFeedback::START,
            rtt: quantize::quantize_rtt(self.timing.grtt),
            loss: 0,
            rate: quantize::quantize_rate(f64::from(u32::MAX)),
        });
        feedback::write_probe_ack(&header, out);
        shared.stats.acks_sent += 1;
        true
    }

    pub fn deadline(&self) -> Time {
        let acks =
            self.objects.iter().filter(|object| Self::is_ack_ready(object)).filter_map(|object| object.ack);
        let ack = acks.map(|(_, at)| at).min().unwrap_or(Time::NEVER);
        if self.has_fresh_losses() && self.departed.is_none() {
            return Time::ZERO;
        }
        self.nack.deadline().min(self.answer_probe_at).min(ack)
    }
}

/// Asks for what is missing of one object. False if there was no room for all of it.
fn write_requests(object: &RxObject, fresh_only: bool, requests: &mut RepairWriter) -> bool {
    if object.info == InfoState::Missing {
        let whole =
            RepairItem { fec_id: object.fec_id, object: object.object, payload_id: PayloadId::default() };
        if !requests.push(RepairFlags::INFO, whole, whole) {
            return false;
        }
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
            let item = |segment: u64| RepairItem {
                fec_id: stream.fec_id(),
                object: object.object,
                payload_id: stream.payload_id(segment),
            };
            let mut fits = true;
            let least = if fresh_only { stream.asked_to() } else { 0 };
            stream.window().missing_runs(|from, to| {
                let from = from.max(least).min(to);
                fits = fits && write_run(from, to, stream.symbols(), &item, requests);
                fits
            });
            fits
        }
    }
}

/// Asks for segments `from..to`: whole blocks as blocks, the rest as segments of one block each.
fn write_run(
    from: u64,
    to: u64,
    symbols: u64,
    item: &impl Fn(u64) -> RepairItem,
    requests: &mut RepairWriter,
) -> bool {
    let mut at = from;
    while at < to {
        let block_end = (at / symbols + 1) * symbols;
        let whole_blocks_end = to / symbols * symbols;
        let (flags, next) = if at.is_multiple_of(symbols) && whole_blocks_end > at {
            (RepairFlags::BLOCK, whole_blocks_end)
        } else {
            (RepairFlags::SEGMENT, block_end.min(to))
        };
        let last = if flags == RepairFlags::BLOCK { next - symbols } else { next - 1 };
        if !requests.push(flags, item(at), item(last)) {
            return false;
        }
        at = next;
    }
    true
}
