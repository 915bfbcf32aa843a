//! The commands a sender sends: requests for acknowledgement, the goodbye, probes, refusals, advertisements of
//! what was asked for, and announcements of the last segment.

use std::time::Duration;

use super::sender::Sender;
use crate::ObjectId;
use crate::serial;
use crate::time::Time;
use crate::wire::command::{self, Position};

/// A sender with nothing to send counts as active for so many probe intervals.
const ACTIVE_INTERVALS: u32 = 5;

impl Sender {
    /// Writes the command that is due, if one is.
    pub(super) fn plan_command(&mut self, now: Time) -> bool {
        let grtt = self.grtt.advertised();
        // What is said again and again leaves a slow sender time for data.
        let again = 2 * grtt.max(self.pacer.time_for(self.config.segment_bytes.into()));
        let hold = self.repair_hold();
        self.objects.check_room(now, hold);
        self.streams.retain(|stream| !stream.is_forgettable(now, hold));
        for stream in &mut self.streams {
            stream.pass_time(now, grtt);
            if stream.acks.wanted.is_some() && !stream.acks.is_waiting() {
                // Whoever was asked before may have fallen silent; the others were not asked for all of it yet.
                stream.ask(now);
            }
            if stream.acks.next_request <= now {
                let owed = stream.repairs_needed() * usize::from(self.config.segment_bytes);
                stream.acks.set_owed(self.pacer.time_for(owed));
            }
            if let Some(watermark) = stream.acks.poll(now, again, &mut self.asked) {
                let position = stream.position(watermark.saturating_sub(1));
                return self.write_flush(position);
            }
        }
        if self.objects.ack_deadline() <= now
            && let Some(repairs) = self.objects.repairs_pending()
        {
            let owed = repairs as usize * usize::from(self.config.segment_bytes);
            self.objects.set_owed(self.pacer.time_for(owed));
        }
        if let Some(position) = self.objects.poll_ack_request(now, again, &mut self.asked) {
            return self.write_flush(position);
        }
        self.questions.settle(now, &mut self.settled);
        if self.questions.poll(now, again, &self.header, &mut self.scratch) {
            return true;
        }
        if self.grtt.next_probe <= now {
            let active = now.since(self.last_data_at) < ACTIVE_INTERVALS * self.config.probe_interval;
            let sequence = self.grtt.probe(now, active);
            // Whoever was out of reach while the last segment was announced learns of it now.
            self.streams.iter_mut().for_each(|stream| stream.remind(now));
            self.objects.remind(now);
            let rate = self.pacer.rate_bytes_per_s.unwrap_or(f64::from(u32::MAX));
            if let Some(interval) = self.control.on_probe(now, sequence, grtt, &mut self.cc_nodes)
                && active
            {
                self.grtt.hasten(now + interval);
                self.pacer.set_rate(self.control.rate());
            }
            command::write_probe(&self.header, sequence, now, rate, &self.cc_nodes, &mut self.scratch);
            return true;
        }
        self.plan_squelch(now, grtt) || self.plan_repair_advertisement(now, grtt)
    }

    /// Says goodbye, if that is due.
    pub(super) fn plan_goodbye(&mut self, now: Time) -> bool {
        let again_at = now + 2 * self.grtt.advertised();
        let Some((at, left)) = self.leaving.as_mut().filter(|(at, left)| *left > 0 && *at <= now) else {
            return false;
        };
        (*at, *left) = (again_at, *left - 1);
        command::write_end_of_transmission(&self.header, &mut self.scratch);
        true
    }

    /// Refuses what can no longer be repaired, at most once in two round-trip times.
    fn plan_squelch(&mut self, now: Time, grtt: Duration) -> bool {
        // A stream to which nothing was written when it was asked for may have begun since.
        let streams = &self.streams;
        let began =
            |object: ObjectId| streams.iter().any(|stream| stream.object == object && !stream.is_unused());
        self.invalid_objects.retain(|(object, _)| !began(*object));
        let refused = self.streams.iter().position(|stream| stream.squelch);
        if now < self.squelch_at || (refused.is_none() && self.invalid_objects.is_empty()) {
            return false;
        }
        let position = if let Some(index) = refused {
            let stream = &mut self.streams[index];
            stream.squelch = false;
            stream.position(stream.first)
        } else {
            self.oldest()
        };
        let invalid = self.invalid_objects.iter().map(|(object, _)| *object);
        self.commands_about = Some(position.object);
        command::write_squelch(&self.header, position, invalid, &mut self.scratch);
        self.invalid_objects.retain_mut(|(_, times)| {
            *times -= 1;
            *times > 0
        });
        self.squelch_at = now + 2 * grtt;
        true
    }

    /// The start of the oldest object that can be repaired: receivers give up those before it.
    fn oldest(&self) -> Position {
        let streams = self.streams.iter().map(|stream| stream.position(stream.first));
        let older = |one: Position, other: Position| {
            if serial::before(other.object, one.object) { other } else { one }
        };
        streams.chain(self.objects.oldest()).reduce(older).unwrap_or(Position {
            fec_id: self.config.fec_id,
            object: self.next_object,
            payload_id: Default::default(),
        })
    }

    /// Announces the last segment of a stream that has nothing else to send. Those whose acknowledgement
    /// counts are asked for it, so that one round of answers ends the announcing.
    pub(super) fn plan_announcement(&mut self, now: Time) -> bool {
        let grtt = self.grtt.advertised();
        for stream in &mut self.streams {
            if stream.next_announcement() > now {
                continue;
            }
            stream.announcements.on_said(now + 2 * grtt);
            let last = stream.sent.saturating_sub(1);
            if !stream.is_hushed() {
                stream.acks.request(now, stream.sent);
            }
            stream.acks.poll(now, 2 * grtt, &mut self.asked);
            let position = stream.position(last);
            return self.write_flush(position);
        }
        if self.objects.has_output() || self.objects.has_repairs() {
            return false;
        }
        let position = self.objects.poll_announcement(now, 2 * grtt, &mut self.asked);
        position.is_some_and(|position| self.write_flush(position))
    }

    /// Says that everything up to a place was sent, and asks those for acknowledgement who are to be asked.
    fn write_flush(&mut self, position: Position) -> bool {
        self.commands_about = Some(position.object);
        command::write_flush(&self.header, position, &self.asked, &mut self.scratch);
        true
    }
}
