//! The sender: streams, commands, repairs, and what goes out next.
//!
//! What goes first: requests for acknowledgement, the goodbye, probes, refusals to repair, NORM_INFO,
//! then repairs and new data in turn, and announcements when there is nothing else. Repairs and new
//! data take turns so that neither a receiver that asks for everything nor a fast writer can starve
//! the other.

use std::collections::VecDeque;
use std::time::Duration;

use super::acks::AckOutcome;
use super::cache::{SegmentCache, stamp_repair};
use super::repair::RepairGate;
use super::stream::TxStream;
use crate::config::Watermark;
use crate::event::Event;
use crate::grtt::Grtt;
use crate::pacing::Pacer;
use crate::quantize;
use crate::stats::{Reject, Stats};
use crate::time::Time;
use crate::wire::command::{self, Position};
use crate::wire::object::ObjectHeader;
use crate::wire::repair::{RepairRange, RepairWriter};
use crate::wire::{Ack, AckType, Flags, Info, Nack, RepairFlags, RepairItem, RepairRequests, SenderHeader};
use crate::{Config, NodeId, ObjectId, RepairPolicy, StreamOptions};

/// The most objects named in one refusal.
const INVALID_OBJECTS_MAX: usize = 32;
/// A sender with nothing to send counts as active for so many probe intervals.
const ACTIVE_INTERVALS: u32 = 5;

/// What to hand out: decided first, borrowed afterwards.
enum Plan {
    Scratch { datagram_bytes: usize },
    Run { stream: usize, first: u64, count: usize },
}

/// The sending half of a session.
#[derive(Debug)]
pub struct Sender {
    header: SenderHeader,
    streams: Vec<TxStream>,
    next_object: ObjectId,
    streams_max: usize,
    pub grtt: Grtt,
    pub pacer: Pacer,
    gate: RepairGate,
    collect_factor: u32,
    robust_factor: u32,
    repairs_had_turn: bool,
    burst_bytes_max: usize,
    burst_segments_max: usize,
    invalid_objects: Vec<ObjectId>,
    squelch_at: Time,
    advertise: bool,
    advertise_at: Time,
    leaving: Option<(Time, u32)>,
    last_data_at: Time,
    ackers: Vec<NodeId>,
    asked: Vec<NodeId>,
    scratch: Vec<u8>,
    requests: RepairWriter,
    config: Config,
}

impl Sender {
    pub fn new(config: &Config) -> Sender {
        let grtt = Grtt::new(config);
        Sender {
            header: SenderHeader {
                sequence: 0,
                source: config.node,
                instance: config.instance,
                grtt: grtt.quantized(),
                backoff: config.backoff_factor,
                group_size: quantize::quantize_group_size(config.group_size),
            },
            streams: Vec::new(),
            next_object: 0,
            streams_max: config.send_streams_max,
            grtt,
            pacer: Pacer::new(config.rate_bytes_per_s),
            gate: RepairGate::Idle,
            collect_factor: match config.repair {
                RepairPolicy::AtOnce => 0,
                RepairPolicy::Aggregated => u32::from(config.backoff_factor) + 1,
            },
            robust_factor: config.robust_factor,
            repairs_had_turn: false,
            burst_bytes_max: config.burst_bytes_max,
            burst_segments_max: config.burst_segments_max,
            invalid_objects: Vec::with_capacity(INVALID_OBJECTS_MAX),
            squelch_at: Time::ZERO,
            advertise: false,
            advertise_at: Time::ZERO,
            leaving: None,
            last_data_at: Time::ZERO,
            ackers: Vec::new(),
            asked: Vec::new(),
            scratch: Vec::with_capacity(65_536),
            requests: RepairWriter::default(),
            config: config.clone(),
        }
    }

    // --- commands ---

    /// Opens a stream; `None` if there are too many.
    pub fn open_stream(&mut self, options: &StreamOptions) -> Option<ObjectId> {
        if self.streams.len() >= self.streams_max {
            // One that ended and was announced may go: nobody can be waiting for it without having asked.
            let done = self.streams.iter().position(TxStream::is_finished)?;
            self.streams.remove(done);
        }
        let object = self.next_object;
        self.next_object = self.next_object.wrapping_add(1);
        let flags = Flags::STREAM | if options.info.is_empty() { 0 } else { Flags::INFO };
        let header =
            ObjectHeader { sender: self.header, flags: Flags(flags), fec_id: self.config.fec_id, object };
        let cache = SegmentCache::new(&self.config, &header, options.cache_bytes);
        let mut stream = TxStream::new(&self.config, object, options, cache);
        stream.acks.set_ackers(&self.ackers, 0);
        let at = self.streams.partition_point(|other| other.precedence <= options.precedence);
        self.streams.insert(at, stream);
        Some(object)
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

    /// Whose acknowledgements count from now on, and from which segment on those of a new one do.
    pub fn set_ackers(&mut self, nodes: &[NodeId], from: impl Fn(&TxStream) -> u64) {
        self.ackers = nodes.to_vec();
        for stream in &mut self.streams {
            let from = from(stream);
            stream.acks.set_ackers(nodes, from);
        }
    }

    pub fn set_group_size(&mut self, size: u32) {
        self.header.group_size = quantize::quantize_group_size(size);
    }

    /// Something may be waiting: make sure round-trip times are being measured.
    pub fn wake(&mut self, now: Time) {
        self.last_data_at = now;
        self.grtt.wake(now);
    }

    /// Nothing waits to be sent, repaired, acknowledged or announced.
    pub fn is_quiet(&self) -> bool {
        self.streams.iter().all(TxStream::is_quiet)
    }

    /// Nothing waits to be sent for the first time.
    pub fn is_sent(&self) -> bool {
        self.streams.iter().all(|stream| stream.waiting() == 0)
    }

    /// Says goodbye as often as the robust factor asks.
    pub fn leave(&mut self, now: Time) {
        self.leaving.get_or_insert((now, self.robust_factor));
    }

    /// Whether the goodbye is said.
    pub fn has_left(&self) -> bool {
        matches!(self.leaving, Some((_, 0)))
    }

    // --- input ---

    pub fn handle_nack(&mut self, now: Time, nack: &Nack<'_>, unicast: bool, stats: &mut Stats) {
        stats.nacks_received += 1;
        self.grtt.on_response(now, nack.header.probe_response);
        // However much one message asks for, it costs no more than one pass over the cache.
        let mut budget: u64 = self.streams.iter().map(|stream| stream.cache().slots() as u64).sum();
        for request in RepairRequests::new(nack.requests) {
            match request {
                Ok(range) => self.request_repair(now, nack.header.source, &range, &mut budget, stats),
                Err(reason) => stats.reject(reason),
            }
        }
        if self.streams.iter().any(|stream| !stream.repairs.is_empty()) {
            self.gate.on_request(now, self.collect_factor * self.grtt.advertised());
            // Others cannot overhear a unicast request; only a sender that collects leaves them time to.
            self.advertise |= unicast && self.gate.deadline() > now && self.gate != RepairGate::Repairing;
        }
    }

    fn request_repair(
        &mut self,
        now: Time,
        node: NodeId,
        range: &RepairRange,
        budget: &mut u64,
        stats: &mut Stats,
    ) {
        let (first, last) = (range.first, range.last);
        let hold_off = self.grtt.advertised();
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.object == first.object) else {
            let room = self.invalid_objects.len() < INVALID_OBJECTS_MAX;
            if room && !self.invalid_objects.contains(&first.object) {
                self.invalid_objects.push(first.object);
            }
            return;
        };
        let flags = range.flags;
        // Whoever asks for all of an object, or its information, may not know our scheme yet.
        let positioned = flags.has(RepairFlags::BLOCK) || flags.has(RepairFlags::SEGMENT);
        if (positioned && first.fec_id != self.config.fec_id) || last.object != first.object {
            return stats.reject(Reject::RepairRequest);
        }
        if flags.has(RepairFlags::INFO) {
            stream.info_pending = !stream.info.is_empty();
        }
        let symbols = u64::from(stream.cache().fti().block_symbols);
        let (from, to) = if flags.has(RepairFlags::OBJECT) {
            (stream.first(), stream.sent())
        } else if flags.has(RepairFlags::BLOCK) {
            let start = |item: RepairItem| stream.segment_at(item.payload_id) / symbols * symbols;
            (start(first), start(last) + symbols)
        } else if flags.has(RepairFlags::SEGMENT) {
            (stream.segment_at(first.payload_id), stream.segment_at(last.payload_id) + 1)
        } else {
            return;
        };
        stream.squelch |= from < stream.first();
        stream.acks.on_request(node, from.min(stream.sent()));
        for segment in from.max(stream.first())..to.min(stream.sent()) {
            if *budget == 0 {
                break;
            }
            *budget -= 1;
            stats.repairs_requested += u64::from(stream.repairs.request(segment, now, hold_off));
        }
    }

    pub fn handle_ack(&mut self, now: Time, ack: &Ack<'_>, stats: &mut Stats) {
        stats.acks_received += 1;
        self.grtt.on_response(now, ack.header.probe_response);
        if let AckType::Flush(position) = ack.kind
            && position.fec_id == self.config.fec_id
            && let Some(stream) = self.stream_mut(position.object)
        {
            let segment = stream.segment_at(position.payload_id);
            if segment < stream.sent() {
                stream.acks.on_ack(ack.header.source, segment + 1);
                stream.ask(now);
            }
        }
    }

    // --- output ---

    /// The next datagrams to the group: bytes side by side, and how long each is (the last may be shorter).
    pub fn poll_transmit(&mut self, now: Time, stats: &mut Stats) -> Option<(&[u8], usize)> {
        self.header.grtt = self.grtt.quantized();
        let plan = self.plan(now, stats)?;
        let (bytes, datagram_bytes) = match plan {
            Plan::Scratch { datagram_bytes } => (&self.scratch[..], datagram_bytes),
            Plan::Run { stream, first, count } => {
                self.streams[stream].cache_mut().stamp_run(first, count, &mut self.header)
            }
        };
        stats.bytes_sent += bytes.len() as u64;
        stats.datagrams_sent += bytes.len().div_ceil(datagram_bytes) as u64;
        Some((bytes, datagram_bytes))
    }

    fn plan(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        if self.plan_command(now) {
            stats.commands_sent += 1;
            self.header.sequence = self.header.sequence.wrapping_add(1);
            self.pacer.sent(now, self.scratch.len());
            return Some(Plan::Scratch { datagram_bytes: self.scratch.len() });
        }
        if self.pacer.ready_at() <= now {
            if self.plan_info() {
                self.header.sequence = self.header.sequence.wrapping_add(1);
                self.pacer.sent(now, self.scratch.len());
                return Some(Plan::Scratch { datagram_bytes: self.scratch.len() });
            }
            let data_waits = self.next_data().is_some();
            if !(self.repairs_had_turn && data_waits)
                && let Some(plan) = self.plan_repairs(now, stats)
            {
                self.repairs_had_turn = true;
                return Some(plan);
            }
            self.repairs_had_turn = false;
            if let Some(plan) = self.plan_data(now, stats) {
                return Some(plan);
            }
        }
        if self.plan_announcement(now) {
            stats.commands_sent += 1;
            self.header.sequence = self.header.sequence.wrapping_add(1);
            return Some(Plan::Scratch { datagram_bytes: self.scratch.len() });
        }
        None
    }

    fn plan_command(&mut self, now: Time) -> bool {
        let grtt = self.grtt.advertised();
        for stream in &mut self.streams {
            if let Some(watermark) = stream.acks.poll(now, 2 * grtt, &mut self.asked) {
                let position = stream.position(watermark.saturating_sub(1));
                command::write_flush(&self.header, position, &self.asked, &mut self.scratch);
                return true;
            }
        }
        if let Some((at, left)) = &mut self.leaving
            && *left > 0
            && *at <= now
        {
            *left -= 1;
            *at = now + 2 * grtt;
            command::write_end_of_transmission(&self.header, &mut self.scratch);
            return true;
        }
        if self.grtt.deadline() <= now {
            let active = now.since(self.last_data_at) < ACTIVE_INTERVALS * self.config.probe_interval;
            let sequence = self.grtt.probe(now, active);
            // Whoever was out of reach while the last segment was announced learns of it now.
            self.streams.iter_mut().for_each(|stream| stream.remind(now));
            let rate = self.pacer.rate_bytes_per_s().unwrap_or(f64::from(u32::MAX));
            command::write_probe(&self.header, sequence, now, rate, &mut self.scratch);
            return true;
        }
        self.plan_squelch(now, grtt) || self.plan_repair_advertisement(now, grtt)
    }

    /// Refuses what can no longer be repaired, at most once in two round-trip times.
    fn plan_squelch(&mut self, now: Time, grtt: Duration) -> bool {
        let refused = self.streams.iter().position(|stream| stream.squelch);
        if now < self.squelch_at || (refused.is_none() && self.invalid_objects.is_empty()) {
            return false;
        }
        let position = match self.streams.get_mut(refused.unwrap_or(0)) {
            Some(stream) => {
                stream.squelch = false;
                stream.position(stream.first())
            }
            None => Position {
                fec_id: self.config.fec_id,
                object: self.next_object,
                payload_id: Default::default(),
            },
        };
        command::write_squelch(&self.header, position, &self.invalid_objects, &mut self.scratch);
        self.invalid_objects.clear();
        self.squelch_at = now + 2 * grtt;
        true
    }

    /// Tells the group what was asked for by unicast, at most once in a round-trip time.
    fn plan_repair_advertisement(&mut self, now: Time, grtt: Duration) -> bool {
        if !self.advertise || now < self.advertise_at {
            return false;
        }
        self.advertise = false;
        self.advertise_at = now + grtt;
        self.requests.reset(self.config.segment_bytes.into());
        for stream in &mut self.streams {
            let mut segment = stream.first();
            while segment < stream.sent() && !stream.repairs.is_empty() {
                if stream.repairs.is_pending(segment) {
                    let Position { fec_id, object, payload_id } = stream.position(segment);
                    let item = RepairItem { fec_id, object, payload_id };
                    if !self.requests.push(RepairFlags::SEGMENT, item, item) {
                        break;
                    }
                }
                segment += 1;
            }
        }
        if self.requests.content().is_empty() {
            return false;
        }
        command::write_repair_advertisement(&self.header, self.requests.content(), &mut self.scratch);
        true
    }

    fn plan_info(&mut self) -> bool {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.info_pending) else {
            return false;
        };
        stream.info_pending = false;
        let header = ObjectHeader {
            sender: self.header,
            flags: Flags(Flags::STREAM | Flags::INFO),
            fec_id: self.config.fec_id,
            object: stream.object,
        };
        Info::write(&header, Some(stream.cache().fti()), &stream.info, &mut self.scratch);
        true
    }

    /// Gathers repairs into one run of equal datagrams.
    fn plan_repairs(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        if !self.gate.is_open(now) {
            return None;
        }
        let bytes_max = self.burst_bytes_max.min(self.pacer.burst_bytes());
        let Some(stream) = self.streams.iter_mut().find(|stream| !stream.repairs.is_empty()) else {
            self.gate.on_all_repaired();
            return None;
        };
        self.scratch.clear();
        let mut datagram_bytes = 0;
        let mut count = 0;
        let sent = stream.sent();
        while let Some(segment) = stream.repairs.first(sent) {
            let datagram = stream.cache().datagram(segment);
            let fits = self.scratch.len() + datagram.len() <= bytes_max && count < self.burst_segments_max;
            if count > 0 && (datagram.len() > datagram_bytes || !fits) {
                break;
            }
            let start = self.scratch.len();
            self.scratch.extend_from_slice(datagram);
            stamp_repair(&mut self.scratch[start..], &mut self.header);
            stream.repairs.repaired(segment, now);
            if segment + 1 == sent {
                stream.announce_again(now, self.grtt.advertised(), self.robust_factor);
            }
            count += 1;
            if count == 1 {
                datagram_bytes = self.scratch.len();
            } else if self.scratch.len() - start < datagram_bytes {
                break;
            }
        }
        stats.repairs_sent += count as u64;
        self.pacer.sent(now, self.scratch.len());
        Some(Plan::Scratch { datagram_bytes })
    }

    fn next_data(&self) -> Option<usize> {
        self.streams.iter().position(|stream| stream.sendable() > stream.sent())
    }

    fn plan_data(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        let index = self.next_data()?;
        let bytes_max = self.burst_bytes_max.min(self.pacer.burst_bytes());
        let stream = &mut self.streams[index];
        let first = stream.sent();
        let count = stream.cache().run_length(first, stream.sendable(), self.burst_segments_max, bytes_max);
        let mut bytes = 0;
        for segment in first..first + count as u64 {
            bytes += stream.cache().datagram(segment).len();
            stats.payload_bytes_sent += stream.cache().data_bytes(segment) as u64;
        }
        stats.segments_sent += count as u64;
        stream.on_sent(count, now, self.grtt.advertised(), self.robust_factor);
        self.pacer.sent(now, bytes);
        self.last_data_at = now;
        Some(Plan::Run { stream: index, first, count })
    }

    /// Announces the last segment of a stream that has nothing else to send. Those whose acknowledgement
    /// counts are asked for it, so that one round of answers ends the announcing.
    fn plan_announcement(&mut self, now: Time) -> bool {
        let grtt = self.grtt.advertised();
        for stream in &mut self.streams {
            if stream.next_announcement() > now {
                continue;
            }
            stream.announced(now + 2 * grtt);
            let last = stream.sent().saturating_sub(1);
            stream.acks.request(now, stream.sent());
            if stream.acks.poll(now, 2 * grtt, &mut self.asked).is_none() {
                self.asked.clear();
            }
            command::write_flush(&self.header, stream.position(last), &self.asked, &mut self.scratch);
            return true;
        }
        false
    }

    /// When to poll again if nothing else happens.
    pub fn deadline(&self) -> Time {
        let mut next = self.grtt.deadline();
        if let Some((at, left)) = self.leaving
            && left > 0
        {
            next = next.min(at);
        }
        let repairs_wait = self.streams.iter().any(|stream| !stream.repairs.is_empty());
        for stream in &self.streams {
            next = next.min(stream.acks.deadline());
            next = next.min(stream.next_announcement());
            if stream.squelch {
                next = next.min(self.squelch_at);
            }
            if stream.info_pending || stream.sendable() > stream.sent() {
                next = next.min(self.pacer.ready_at());
            }
        }
        if repairs_wait {
            let gate = match self.gate {
                RepairGate::Collecting { until } => until,
                RepairGate::Repairing | RepairGate::Idle => Time::ZERO,
            };
            next = next.min(gate.max(self.pacer.ready_at()));
        }
        if !self.invalid_objects.is_empty() {
            next = next.min(self.squelch_at);
        }
        if self.advertise {
            next = next.min(self.advertise_at);
        }
        next
    }

    /// Tells what became of writes, watermarks and announcements.
    pub fn collect_events(&mut self, events: &mut VecDeque<Event>) {
        for stream in &mut self.streams {
            let object = stream.object;
            while let Some(outcome) = stream.acks.poll_outcome() {
                events.push_back(match outcome {
                    AckOutcome::Silent(node) => Event::AckerSilent { object, node },
                    AckOutcome::Settled(acked, silent) => {
                        Event::WatermarkDone(Watermark { object, acked, silent })
                    }
                });
            }
            if stream.write_refused && stream.has_room() {
                stream.write_refused = false;
                events.push_back(Event::Writable { object });
            }
            if stream.take_flushed() {
                events.push_back(Event::Flushed { object });
            }
        }
        self.streams.retain(|stream| !(stream.is_finished() && stream.all_acked()));
    }
}
