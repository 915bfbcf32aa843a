//! The sender: its streams, and what receivers ask of them. What goes out next is `transmission`'s.

use std::collections::VecDeque;
use std::time::Duration;

use shoal_fec::ReedSolomon;

use super::cache::SegmentCache;
use super::nack_budget::StrangerBudget;
use super::object::TxObject;
use super::objects::TxObjects;
use super::questions::Questions;
use super::repair_gate::RepairGate;
use super::stream::TxStream;
use crate::congestion::control::RateControl;
use crate::datagram::{Lag, Source};
use crate::event::Event;
use crate::grtt::Grtt;
use crate::pacing::Pacer;
use crate::quantize;
use crate::serial;
use crate::stats::Stats;
use crate::time::Time;
use crate::wire::command::CcNode;
use crate::wire::feedback::FeedbackHeader;
use crate::wire::object::ObjectHeader;
use crate::wire::repair::RepairWriter;
use crate::wire::{Ack, AckType, Flags, SenderHeader};
use crate::{Config, NodeId, ObjectId, RepairPolicy, StreamOptions, WriteError};

/// The most objects named in one refusal.
pub(super) const INVALID_OBJECTS_MAX: usize = 32;
/// So often receivers are told of an object that was cancelled; who hears none of it asks sooner or later.
const CANCELLED_TIMES: u8 = 5;
/// So often a repair may be lost before an object makes room for others.
const REPAIR_CYCLES: u32 = 4;

/// The sending half of a session.
#[derive(Debug)]
pub struct Sender {
    pub(super) header: SenderHeader,
    pub(super) streams: Vec<TxStream>,
    pub objects: TxObjects,
    pub(super) objects_had_turn: bool,
    pub(super) next_object: ObjectId,
    pub grtt: Grtt,
    pub pacer: Pacer,
    pub control: RateControl,
    pub questions: Questions,
    /// What happened to questions, until it is told.
    pub(super) settled: VecDeque<Event>,
    pub(super) cc_nodes: Vec<CcNode>,
    pub(super) gate: RepairGate,
    pub(super) collect_factor: u32,
    pub(super) repairs_had_turn: bool,
    /// Objects to refuse, and how often still.
    pub(super) invalid_objects: Vec<(ObjectId, u8)>,
    pub(super) squelch_at: Time,
    pub(super) advertise: bool,
    pub(super) advertise_at: Time,
    pub(super) leaving: Option<(Time, u32)>,
    pub(super) last_data_at: Time,
    pub ackers: Vec<NodeId>,
    /// How late we hear what receivers say.
    pub(super) lag: Lag,
    /// Those of them that are waited for, however slow.
    indispensable: Vec<NodeId>,
    bystanders: Vec<NodeId>,
    pub(super) asked: Vec<NodeId>,
    pub(super) scratch: Vec<u8>,
    /// Computes parity, if blocks have any.
    pub(super) code: Option<ReedSolomon>,
    /// The stream or object that a command which is planned is about.
    pub(super) commands_about: Option<ObjectId>,
    /// Parity symbols about to be computed.
    pub(super) rows: Vec<usize>,
    pub(super) requests: RepairWriter,
    /// The group's size as it was given, and as we see it.
    group_size_min: u32,
    group_seen: u32,
    /// What those may ask for who do not count.
    pub(super) strangers: StrangerBudget,
    pub(super) config: Config,
}

impl Sender {
    /// Speaks under another node id from now on, also where it repeats what it said before.
    pub fn rename(&mut self, node: NodeId) {
        (self.header.source, self.config.node) = (node, node);
        self.streams.iter_mut().for_each(|stream| stream.rename(node));
        self.objects.rename(node);
    }

    pub fn new(config: &Config) -> Sender {
        let grtt = Grtt::new(config);
        let control = RateControl::new(config);
        Sender {
            commands_about: None,
            header: SenderHeader {
                sequence: 0,
                source: config.node,
                instance: config.instance,
                grtt: grtt.quantized,
                backoff: config.backoff_factor,
                group_size: quantize::quantize_group_size(config.group_size),
            },
            streams: Vec::new(),
            objects: TxObjects::new(config),
            objects_had_turn: false,
            next_object: 0,
            grtt,
            pacer: Pacer::new(control.rate(), config),
            control,
            questions: Questions::default(),
            settled: VecDeque::new(),
            cc_nodes: Vec::new(),
            gate: RepairGate::Idle,
            collect_factor: match config.repair {
                RepairPolicy::AtOnce => 0,
                RepairPolicy::Aggregated => u32::from(config.backoff_factor) + 1,
            },
            repairs_had_turn: false,
            invalid_objects: Vec::with_capacity(INVALID_OBJECTS_MAX),
            squelch_at: Time::ZERO,
            advertise: false,
            advertise_at: Time::ZERO,
            leaving: None,
            last_data_at: Time::ZERO,
            ackers: Vec::new(),
            lag: Lag::default(),
            indispensable: Vec::new(),
            bystanders: Vec::new(),
            asked: Vec::new(),
            scratch: Vec::with_capacity(65_536),
            code: (config.parity_symbols > 0)
                .then(|| ReedSolomon::new(config.block_symbols.into(), config.parity_symbols.into()).ok())
                .flatten(),
            rows: Vec::new(),
            requests: RepairWriter::default(),
            group_size_min: config.group_size,
            group_seen: 0,
            strangers: StrangerBudget::default(),
            config: config.clone(),
        }
    }

    // --- commands ---

    /// Opens a stream, unless there are too many.
    pub fn open_stream(&mut self, options: &StreamOptions) -> Result<ObjectId, WriteError> {
        if self.streams.len() >= self.config.send_streams_max {
            // One that ended and was announced may go: nobody can be waiting for it without having asked.
            let done = self.streams.iter().position(TxStream::is_finished);
            self.streams.remove(done.ok_or(WriteError::TooManyStreams)?);
        }
        let object = self.take_number();
        let flags = Flags::STREAM | if options.info.is_empty() { 0 } else { Flags::INFO };
        let header =
            ObjectHeader { sender: self.header, flags: Flags(flags), fec_id: self.config.fec_id, object };
        let cache = SegmentCache::new(&self.config, &header, options.cache_bytes);
        let cache = cache.ok_or(WriteError::NoMemory)?;
        let mut stream = TxStream::new(&self.config, object, options, cache);
        stream.acks.set_ackers(&self.ackers, 0);
        stream.acks.set_indispensable(&self.indispensable);
        stream.acks.set_bystanders(&self.bystanders);
        stream.set_paced(self.control.is_pacing());
        let at = self.streams.partition_point(|other| other.data_share.precedence <= options.precedence);
        self.streams.insert(at, stream);
        Ok(object)
    }

    pub fn stream(&self, object: ObjectId) -> Option<&TxStream> {
        self.streams.iter().find(|stream| stream.object == object)
    }

    /// The stream, if it is open.
    pub fn stream_mut(&mut self, object: ObjectId) -> Option<&mut TxStream> {
        self.streams.iter_mut().find(|stream| stream.object == object)
    }

    /// Forgets a stream at once; requests for it are refused from now on.
    pub fn drop_stream(&mut self, object: ObjectId) {
        self.streams.retain(|stream| stream.object != object);
    }

    /// Takes an object to send: bytes, or the length of a file. `Ok(None)` if there is no room for it now.
    pub fn send_object(
        &mut self,
        now: Time,
        content: Result<&[u8], u64>,
        info: &[u8],
    ) -> Result<Option<ObjectId>, WriteError> {
        let id = self.free_number();
        let hold = self.repair_hold();
        let needed = (TxObject::memory_needed(&self.config, content, info), id);
        if !self.objects.make_room(needed, now, hold) {
            return Ok(None);
        }
        let object = TxObject::new(&self.config, id, content, info)?;
        self.take_number();
        self.objects.push(object);
        self.wake(now);
        Ok(Some(id))
    }

    /// The next number that neither a stream nor an object has: in a long session they come round.
    fn free_number(&self) -> ObjectId {
        let is_used = |number| {
            self.streams.iter().any(|stream| stream.object == number)
                || self.objects.index_of(number).is_some()
        };
        let mut number = self.next_object;
        while is_used(number) {
            number = number.wrapping_add(1);
        }
        number
    }

    /// Gives that number to a stream or an object.
    fn take_number(&mut self) -> ObjectId {
        let number = self.free_number();
        self.next_object = number.wrapping_add(1);
        // Whatever had it before may still be refused: this one is not.
        self.invalid_objects.retain(|(refused, _)| *refused != number);
        number
    }

    /// How long an object is kept after it was sent, though others wait for its room: time to ask for it and
    /// to repair it a few times, each with the receivers' back-off and hold-off.
    pub(super) fn repair_hold(&self) -> Duration {
        REPAIR_CYCLES * (2 * u32::from(self.config.backoff_factor) + 2) * self.grtt.advertised()
    }

    /// Whose acknowledgements count from now on, and from which segment on those of a new one do.
    pub fn set_ackers(&mut self, nodes: &[NodeId], from: impl Fn(&TxStream) -> u64) {
        self.ackers = nodes.to_vec();
        self.ackers.sort_unstable();
        for stream in self.streams.iter_mut().filter(|stream| !stream.has_own_ackers) {
            let from = from(stream);
            stream.acks.set_ackers(nodes, from);
            stream.acks.set_indispensable(&self.indispensable);
            stream.acks.set_bystanders(&self.bystanders);
        }
    }

    /// Whose acknowledgements of one stream count from now on.
    pub fn set_stream_ackers(&mut self, object: ObjectId, nodes: &[NodeId], from_oldest: bool) {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.object == object) else { return };
        stream.has_own_ackers = true;
        stream.acks.set_ackers(nodes, if from_oldest { stream.first } else { stream.sent });
        stream.acks.set_indispensable(&self.indispensable);
        stream.acks.set_bystanders(&self.bystanders);
    }

    pub fn set_indispensable(&mut self, nodes: &[NodeId]) {
        self.indispensable = nodes.to_vec();
        self.streams.iter_mut().for_each(|stream| stream.acks.set_indispensable(nodes));
    }

    pub fn set_bystanders(&mut self, nodes: &[NodeId]) {
        self.bystanders = nodes.to_vec();
        self.streams.iter_mut().for_each(|stream| stream.acks.set_bystanders(nodes));
    }

    /// Sets the rate, or the most rate control may choose.
    pub fn set_rate(&mut self, rate_max: Option<f64>) {
        self.control.set_max(rate_max);
        self.streams.iter_mut().for_each(|stream| stream.set_paced(self.control.is_pacing()));
        self.pacer.set_rate(self.control.rate());
    }

    pub fn set_group_size(&mut self, size: u32) {
        self.group_size_min = size;
        self.header.group_size = quantize::quantize_group_size(size.max(self.group_seen));
    }

    /// So many nodes are in the group as far as we see: no less is advertised, whatever was configured.
    pub fn observe_group(&mut self, nodes: u32) {
        let nodes = nodes.max(self.ackers.len() as u32);
        if nodes != self.group_seen {
            self.group_seen = nodes;
            self.set_group_size(self.group_size_min);
        }
    }

    /// Something may be waiting: make sure round-trip times are being measured.
    pub fn wake(&mut self, now: Time) {
        self.last_data_at = now;
        self.grtt.wake(now);
    }

    /// Nothing waits to be sent, repaired, acknowledged or announced.
    pub fn is_quiet(&self) -> bool {
        self.streams.iter().all(TxStream::is_quiet) && self.objects.is_quiet()
    }

    /// Every acker, silent ones too, has acknowledged every stream and every object.
    pub fn is_acknowledged(&self) -> bool {
        !self.streams.iter().any(TxStream::is_owed_acks) && self.objects.is_acknowledged()
    }

    /// Nothing waits to be sent for the first time.
    pub fn is_sent(&self) -> bool {
        self.streams.iter().all(|stream| stream.waiting() == 0 && !stream.has_output())
            && self.objects.is_sent()
    }

    /// Says goodbye as often as the robust factor asks.
    pub fn leave(&mut self, now: Time) {
        self.leaving.get_or_insert((now, self.config.robust_factor));
    }

    /// Whether the goodbye is said.
    pub fn has_left(&self) -> bool {
        matches!(self.leaving, Some((_, 0)))
    }

    // --- input ---

    /// Takes note of what all feedback says: the round-trip time, and the rate the receiver can take.
    pub(super) fn hear_feedback(&mut self, now: Time, from: Source, header: &FeedbackHeader) {
        self.streams.iter_mut().for_each(|stream| stream.acks.on_heard(header.source));
        self.objects.window.acks.on_heard(header.source);
        self.lag.hear(from.waited);
        // Nobody waits for it, so its round trip is nobody's timing.
        let counts = self.is_known(header.source) && !self.is_left_behind(header.source);
        let rtt = self.grtt.on_response(from.arrived_at(now), header.probe_response, counts);
        self.control.on_feedback(now, header, rtt);
        self.pacer.set_rate(self.control.rate());
    }

    /// Whether it is one of those who count, as far as it is known who does.
    pub(super) fn is_known(&self, node: NodeId) -> bool {
        self.ackers.is_empty() || self.ackers.binary_search(&node).is_ok()
    }

    /// Whether it is an acker that the others no longer wait for.
    pub(super) fn is_left_behind(&self, node: NodeId) -> bool {
        self.streams.iter().any(|stream| stream.acks.is_left_behind(node))
            || self.objects.window.acks.is_left_behind(node)
    }

    /// An object that is not here will not be repaired.
    pub(super) fn refuse(&mut self, object: ObjectId, times: u8) {
        let room = self.invalid_objects.len() < INVALID_OBJECTS_MAX;
        if let Some((_, left)) = self.invalid_objects.iter_mut().find(|(refused, _)| *refused == object) {
            *left = times.max(*left);
        } else if room && serial::before(object, self.next_object) {
            self.invalid_objects.push((object, times));
        }
    }

    /// Forgets an object. Who got something of it may miss nothing so far, and would not ask: it is told unasked.
    pub fn cancel_object(&mut self, object: ObjectId) -> bool {
        let cancelled = self.objects.cancel(object);
        if cancelled == Some(true) {
            self.refuse(object, CANCELLED_TIMES);
        }
        cancelled.is_some()
    }

    pub fn handle_ack(&mut self, now: Time, from: Source, ack: &Ack<'_>, stats: &mut Stats) {
        stats.acks_received += 1;
        self.hear_feedback(now, from, &ack.header);
        let node = ack.header.source;
        match ack.kind {
            AckType::Other(ack_type, ack_id) => self.questions.on_answer(node, ack_type, ack_id),
            AckType::Flush(position) if position.fec_id == self.config.fec_id => {
                let Some(stream) = self.stream_mut(position.object) else {
                    return self.objects.on_ack(now, node, position);
                };
                let segment = stream.segment_at(position.payload_id);
                if segment < stream.sent {
                    stream.on_ack(now, node, segment + 1);
                    if let Some(took) = stream.take_epoch(now) {
                        stats.epochs_acknowledged += 1;
                        stats.epoch_ack_ns += took.as_nanos() as u64;
                    }
                }
            }
            AckType::Flush(_) | AckType::Probe => {}
        }
    }
}
