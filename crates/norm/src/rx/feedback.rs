//! The feedback a receiver owes one sender: acknowledgements, repair requests, answers to probes.

use super::entry::StreamEntry;
use super::remote::Remote;
use super::scope::Scope;
use super::stream::RxStream;
use crate::config::FeedbackMode;
use crate::datagram::Destination;
use crate::event::Event;
use crate::time::Time;
use crate::wire::Nack;
use crate::wire::feedback::{self, FeedbackHeader};

/// A probe that was held for more round-trip times than this is not answered: what our clock is wrong by, in so
/// long a time, would pass for a part of the round trip.
const PROBE_HELD_GRTTS_MAX: u32 = 100;

/// A sender of which so much came since it was asked last is asked again at once.
const MUCH_BYTES: u64 = 16 << 10;

impl Remote {
    fn feedback_header(&self, scope: &Scope<'_>) -> FeedbackHeader {
        let held = self.probe.map(|probe| (probe, scope.now.since(probe.received_at)));
        let fresh = held.filter(|(_, held)| *held <= PROBE_HELD_GRTTS_MAX * self.timing.grtt);
        let probe_response = fresh.map_or(Time::ZERO, |(probe, held)| probe.sent_at + held);
        FeedbackHeader {
            sequence: scope.sequence,
            source: scope.config.node,
            sender: self.node,
            instance: self.instance,
            probe_response,
            cc: None,
        }
    }

    /// Writes feedback that is due into `out`, and says where it goes. `None` if none is.
    pub fn poll_transmit(&mut self, scope: &mut Scope<'_>) -> Option<Destination> {
        let acknowledged = self.poll_ack(scope) || self.poll_answer(scope);
        if !acknowledged && !self.poll_nack(scope) && !self.poll_probe_answer(scope) {
            return None;
        }
        Some(match scope.config.feedback {
            FeedbackMode::Unicast => Destination::Node(self.address),
            FeedbackMode::UnicastAcks if acknowledged => Destination::Node(self.address),
            FeedbackMode::Multicast | FeedbackMode::UnicastAcks => Destination::Group,
        })
    }

    fn poll_ack(&mut self, scope: &mut Scope<'_>) -> bool {
        let due =
            |object: &StreamEntry| object.is_ack_ready() && object.ack.is_some_and(|(_, at)| at <= scope.now);
        let header = self.feedback_header(scope);
        let of_stream =
            self.streams.iter_mut().find(|object| due(object)).and_then(|object| object.ack.take());
        let due = of_stream.map(|(position, _)| position).or_else(|| self.objects.take_ack(scope));
        let full = || self.streams.iter_mut().find_map(|object| object.take_full(scope.now));
        let Some(position) = due.or_else(full) else { return false };
        feedback::write_flush_ack(&header, position, scope.feedback);
        scope.stats.acks_sent += 1;
        true
    }

    fn poll_answer(&mut self, scope: &mut Scope<'_>) -> bool {
        let Some((ack_type, ack_id, _)) = self.answer.take_if(|(.., at)| *at <= scope.now) else {
            return false;
        };
        let header = self.feedback_header(scope);
        feedback::write_other_ack(&header, ack_type, ack_id, scope.feedback);
        scope.stats.acks_sent += 1;
        scope.events.push_back(Event::AckGiven { node: self.node, ack_type, ack_id });
        true
    }

    fn poll_nack(&mut self, scope: &mut Scope<'_>) -> bool {
        let nacking = scope.config.nacking;
        let missing = self.departed.is_none()
            && (self.streams.iter().any(|object| object.is_missing(nacking, None))
                || self.objects.is_missing(scope.object_nacking(), None));
        // Without back-off nobody speaks for others, and what was lost since the last request need not wait
        // until that is answered.
        let fresh_only = missing
            && self.has_fresh_losses()
            && self.nack.deadline() > scope.now
            && self.not_before <= scope.now;
        if !fresh_only && !self.nack.poll(scope.now, missing, &self.timing, scope.random) {
            return false;
        }
        // Who sends much is asked whenever it has to be: there are few of those.
        let sends_much = self.received_bytes - self.received_when_asked >= MUCH_BYTES;
        if scope.nacks.next > scope.now && !sends_much {
            // It is not the turn of this sender: a little later, so that those that wait take turns.
            self.not_before = scope.nacks.next + self.timing.grtt.mul_f64(scope.random.f64());
            self.nack.postpone(self.not_before);
            return false;
        }
        if fresh_only {
            return self.write_nack(true, scope);
        }
        self.nack.on_asked(scope.now, &self.timing, scope.config.robust_factor);
        let cycle = Some(self.nack.number);
        let of_streams = self.streams.iter().any(|object| object.is_missing(nacking, cycle));
        if !of_streams && !self.objects.is_missing(scope.object_nacking(), cycle) {
            scope.stats.nacks_suppressed += 1;
            return false;
        }
        self.write_nack(false, scope)
    }

    fn has_fresh_losses(&self) -> bool {
        self.timing.backoff_factor == 0
            && !self.timing.is_large()
            && self.streams.iter().filter_map(StreamEntry::open).any(RxStream::has_fresh_losses)
    }

    /// Asks for everything missing, or only for what was never asked for. False if that is nothing.
    fn write_nack(&mut self, fresh_only: bool, scope: &mut Scope<'_>) -> bool {
        scope.requests.reset(self.request_bytes_max());
        let nacking = scope.config.nacking;
        // Whoever comes first may fill a NACK, so that all streams, and the objects together, take turns.
        let turns = self.streams.len() + 1;
        let first = usize::from(self.nack.number) % turns;
        let mut in_turn = (first..turns).chain(0..first);
        in_turn.all(|turn| match self.streams.get(turn) {
            Some(stream) if stream.is_missing(nacking, None) => {
                stream.write_requests(nacking, fresh_only, scope.requests)
            }
            Some(_) => true,
            None => self.objects.write_requests(scope.object_nacking(), scope.requests),
        });
        self.streams.iter_mut().filter_map(StreamEntry::open_mut).for_each(RxStream::on_asked);
        if scope.requests.content().is_empty() {
            return false;
        }
        let mut header = self.feedback_header(scope);
        header.cc = self.probe.map(|probe| self.congestion.feedback(probe.sequence, self.timing.grtt));
        Nack::write(&header, scope.requests.content(), scope.feedback);
        if self.received_bytes - self.received_when_asked < MUCH_BYTES {
            scope.nacks.asked(scope.now);
        }
        self.received_when_asked = self.received_bytes;
        scope.stats.nacks_sent += 1;
        true
    }

    /// A NACK is no longer than a segment of the sender it goes to.
    fn request_bytes_max(&self) -> usize {
        let segment = self.streams.iter().find_map(StreamEntry::open).map(|open| open.window.segment_bytes);
        segment.or(self.objects.segment_bytes()).unwrap_or(512).clamp(64, 1400)
    }

    fn poll_probe_answer(&mut self, scope: &mut Scope<'_>) -> bool {
        let Some(probe) = self.probe.filter(|_| self.answer_probe_at <= scope.now) else {
            return false;
        };
        self.answer_probe_at = Time::NEVER;
        let mut header = self.feedback_header(scope);
        header.cc = Some(self.congestion.feedback(probe.sequence, self.timing.grtt));
        feedback::write_probe_ack(&header, scope.feedback);
        scope.stats.acks_sent += 1;
        true
    }

    pub fn deadline(&self) -> Time {
        let acks = self.streams.iter().filter(|object| object.is_ack_ready()).filter_map(|object| object.ack);
        let ack = acks.map(|(_, at)| at).min().unwrap_or(Time::NEVER);
        let full = self.streams.iter().filter_map(|object| object.full_at).min().unwrap_or(Time::NEVER);
        let objects = self.objects.ack_deadline().min(self.objects.expiry);
        let answer = self.answer.map_or(Time::NEVER, |(.., at)| at);
        let fresh =
            if self.has_fresh_losses() && self.departed.is_none() { self.not_before } else { Time::NEVER };
        fresh.min(self.nack.deadline()).min(answer).min(self.answer_probe_at).min(ack).min(full).min(objects)
    }
}
