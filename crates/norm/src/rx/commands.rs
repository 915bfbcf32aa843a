//! What a remote sender and its other receivers say that is no data: commands, and feedback overheard.

use std::time::Duration;

use super::entry::{Body, InfoState};
use super::missing::Missing;
use super::remote::{Probe, Remote};
use super::scope::Scope;
use crate::ObjectId;
use crate::backoff;
use crate::config::{FeedbackMode, SyncPolicy};
use crate::event::{CloseReason, Event};
use crate::serial;
use crate::stats::Reject;
use crate::time::Time;
use crate::wanted::ErasureTally;
use crate::wire::command::{self, Command, Position};
use crate::wire::{CcFeedback, RepairRequests};

/// Whoever said goodbye is gone when nothing else was heard of it for so long: anybody can say goodbye for it.
const DEPARTED_AFTER: Duration = Duration::from_secs(1);
/// Up to so many nodes acknowledge without spreading out in time.
const PROMPT_ACKERS_MAX: usize = 8;
/// Probes are answered after a back-off of at least so many round-trip times.
const PROBE_BACKOFF_MIN: u32 = 4;
/// So long after a probe nothing older is taken for one: somebody may send it once more.
const PROBE_KEPT: Duration = Duration::from_secs(10);
/// By so much, and a fourth of the time since the last one, a probe may come too early or too late without a doubt that its
/// sender's clock goes on as it did.
const PROBE_JITTER_MAX: Duration = Duration::from_secs(1);
/// A sender that sent no data for so long may say only once, and then not for long, how far it is.
const QUIET: Duration = Duration::from_millis(200);
/// Answers are spread over at least so much time for each receiver: a host needs that long to hear another's.
const PROBE_SPREAD: Duration = Duration::from_micros(50);
/// About so many receivers answer a probe where nobody can overhear another's answer.
const UNICAST_PROBE_ANSWERS: f64 = 10.0;

impl Remote {
    /// Takes a command that arrived at a time, which may be long before it is read.
    pub fn handle_command(&mut self, arrived_at: Time, command: &Command<'_>, scope: &mut Scope<'_>) {
        match *command {
            Command::Flush { position, ackers } => self.handle_flush(position, ackers, scope),
            Command::Squelch { position, invalid } => self.handle_squelch(position, invalid, scope),
            Command::CongestionControl { sent_at, .. } if !self.judge_probe(sent_at, arrived_at) => {}
            Command::CongestionControl { sequence, sent_at, rate, nodes } => {
                self.probe = Some(Probe { sent_at, received_at: arrived_at, sequence });
                self.schedule_probe_answer(arrived_at, rate.is_some(), nodes, scope);
            }
            Command::RepairAdvertisement { content } => self.overhear_requests(content),
            Command::EndOfTransmission => {
                self.departed.get_or_insert((CloseReason::Ended, scope.now + DEPARTED_AFTER));
            }
            Command::AckRequest { ack_type, ack_id, nodes } => {
                if command::lists_node(nodes, scope.config.node) && self.answer.is_none() {
                    let spread = self.timing.grtt.mul_f64(scope.random.f64());
                    let spread = if nodes.len() / 4 > PROMPT_ACKERS_MAX { spread } else { Duration::ZERO };
                    self.answer = Some((ack_type, ack_id, scope.now + spread));
                }
            }
            Command::Application(_) if !scope.has_room => scope.stats.reject(Reject::NoRoom),
            Command::Application(content) => {
                let (node, instance, content) = (self.node, self.instance, content.to_vec());
                scope.events.push_back(Event::CommandReceived { node, instance, content });
            }
        }
    }

    /// Whether a probe is to be believed. One that is late, or sent once more, would make the way seem longer than it is; so
    /// would one with another time in it. A sender's clock goes about as fast as ours: where two in a row say that it jumped, it did.
    fn judge_probe(&mut self, sent_at: Time, arrived_at: Time) -> bool {
        let Some(known) = self.probe else { return true };
        if sent_at <= known.sent_at && arrived_at < known.received_at + PROBE_KEPT {
            return false;
        }
        let agrees = |(sent_before, arrived_before): (Time, Time)| {
            let (sent, arrived) = (sent_at.since(sent_before), arrived_at.since(arrived_before));
            sent_at >= sent_before && sent.abs_diff(arrived) <= PROBE_JITTER_MAX + arrived / 4
        };
        let is_fine = agrees((known.sent_at, known.received_at)) || self.doubted_probe.is_some_and(agrees);
        self.doubted_probe = (!is_fine).then_some((sent_at, arrived_at));
        is_fine
    }

    fn handle_flush(&mut self, position: Position, ackers: &[u8], scope: &mut Scope<'_>) {
        let listed = command::lists_node(ackers, scope.config.node);
        let spread = if listed && ackers.len() / 4 > PROMPT_ACKERS_MAX {
            self.timing.grtt.mul_f64(scope.random.f64())
        } else {
            Duration::ZERO
        };
        let is_stream = self.streams.iter().any(|known| known.object == position.object);
        let ack_at = listed.then_some(scope.now + spread);
        // What is refused, or there is no room for, is not missing yet, and not to be acknowledged.
        let is_refused = self.refused.contains(&position.object);
        if !is_stream && (is_refused || !scope.has_room && self.objects.synced) {
            return;
        }
        if !is_stream && self.objects.announce(position, ack_at, scope) {
            self.mark_streams(scope);
            return self.after_object(scope);
        }
        // Whoever wants nothing old does not ask for what was sent before it came.
        if !is_stream && !listed && scope.config.sync == SyncPolicy::Current {
            return;
        }
        let Ok(index) = self.find_or_add(position.object, Some(position), scope) else { return };
        let object = &mut self.streams[index];
        if let Body::Open(stream) = &object.body
            && stream.blocks.layout.fec_id != position.fec_id
        {
            return;
        }
        if let Some(at) = ack_at {
            let at = object.ack.map_or(at, |(_, known)| known.max(scope.now));
            let position = match (&object.body, object.ack) {
                (Body::Open(stream), Some((known, _))) => stream.more_urgent(position, known),
                _ => position,
            };
            object.ack = Some((position, at));
        }
        if let Body::Open(stream) = &mut object.body {
            let is_quiet = scope.now.since(self.data_at) >= QUIET;
            scope.stats.losses_detected += stream.announce(position.payload_id, is_quiet);
            if stream.window.is_full() {
                object.full_at = object.full_at.or(ack_at);
            }
        }
        self.after_progress(index, scope);
    }

    fn handle_squelch(&mut self, position: Position, invalid: &[u8], scope: &mut Scope<'_>) {
        let is_invalid =
            |object: ObjectId| invalid.chunks_exact(2).any(|entry| entry == object.to_be_bytes());
        self.objects.squelch(position, is_invalid, scope);
        // There is nothing of it, or nothing yet: if it begins, it is heard of again.
        self.streams.retain(|object| {
            let refused = is_invalid(object.object) || serial::before(object.object, position.object);
            !(refused && matches!(object.body, Body::Wanted(_)))
        });
        for object in &mut self.streams {
            let refused = is_invalid(object.object);
            match &mut object.body {
                // Anybody can say so: whoever lacks nothing loses nothing by not believing it, and whoever lacks something hears
                // it again when it asks again. An old refusal may be overtaken by the beginning of what it refused.
                Body::Open(stream) if refused && !self.overtaken => {
                    if !stream.on_refusal() {
                        continue;
                    }
                    *scope.memory_left += stream.memory();
                    let stream = stream.blocks.id;
                    scope.events.push_back(Event::StreamClosed { stream, reason: CloseReason::Dropped });
                    object.body = Body::Closed;
                }
                Body::Open(stream)
                    if object.object == position.object && stream.blocks.layout.fec_id == position.fec_id =>
                {
                    stream.squelch(position.payload_id);
                }
                Body::Closed if refused => object.info = InfoState::Have,
                Body::Open(_) | Body::Wanted(_) | Body::Unjoined(_) | Body::Closed => {}
            }
        }
        for index in 0..self.streams.len() {
            self.after_progress(index, scope);
        }
    }

    fn schedule_probe_answer(&mut self, arrived_at: Time, wanted: bool, nodes: &[u8], scope: &mut Scope<'_>) {
        let listed = command::find_cc_node(nodes, scope.config.node);
        self.congestion.on_probe(scope.now, arrived_at, listed, self.timing.grtt);
        if listed.is_some() {
            self.answer_probe_at = scope.now;
        } else if wanted && self.answer_probe_at == Time::NEVER {
            let overheard = scope.config.feedback != FeedbackMode::Unicast;
            let chosen = overheard || scope.random.f64() * self.timing.group_size < UNICAST_PROBE_ANSWERS;
            if chosen {
                let longest = self.timing.grtt * self.timing.backoff_factor.max(PROBE_BACKOFF_MIN);
                let longest = longest.max(PROBE_SPREAD.mul_f64(self.timing.group_size));
                self.answer_probe_at =
                    scope.now + backoff::draw(scope.random, longest, self.timing.group_size);
            }
        }
    }

    /// Another receiver asked this sender for repairs: it asked for us too.
    pub fn overhear_requests(&mut self, content: &[u8]) {
        if !self.nack.is_backing_off() {
            return;
        }
        let cycle = self.nack.number;
        let mut tally = ErasureTally::default();
        for range in RepairRequests::new(content).flatten() {
            let erasures = tally.add_range(&range);
            self.objects.overhear(&range, cycle, erasures);
            let count = range.last.object.wrapping_sub(range.first.object);
            for entry in &mut self.streams {
                if entry.object.wrapping_sub(range.first.object) > count {
                    continue;
                }
                entry.asked.overhear(range.flags, cycle, false);
                if let Body::Open(stream) = &mut entry.body
                    && stream.blocks.layout.fec_id == range.first.fec_id
                {
                    stream.overhear(&range, cycle, erasures);
                }
            }
        }
    }

    /// Another receiver answered this sender's probe: that is enough if it can take no more than we can.
    pub fn overhear_probe_answer(&mut self, feedback: Option<CcFeedback>) {
        if self.congestion.is_covered_by(feedback, self.timing.grtt) {
            self.answer_probe_at = Time::NEVER;
        }
    }
}
