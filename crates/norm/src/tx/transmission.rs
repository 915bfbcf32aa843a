//! What a sender sends next.
//!
//! What goes first: requests for acknowledgement, the goodbye, probes, refusals to repair, NORM_INFO,
//! then repairs and new data in turn, and announcements when there is nothing else. Repairs and new
//! data take turns so that neither a receiver that asks for everything nor a fast writer can starve
//! the other.

use std::collections::VecDeque;

use super::acks::AckOutcome;
use super::cache::{stamp, stamp_repair};
use super::object_runs::RunLimit;
use super::repair::RepairGate;
use super::sender::Sender;
use super::stream::TxStream;
use crate::auth;
use crate::config::Watermark;
use crate::event::Event;
use crate::stats::Stats;
use crate::time::Time;
use crate::wire::object::ObjectHeader;
use crate::wire::{Flags, Info};

/// What to hand out: decided first, borrowed afterwards.
enum Plan {
    Scratch { datagram_bytes: usize },
    Run { stream: usize, first: u64, count: usize },
}

impl Sender {
    /// The next datagrams to the group: bytes side by side, and how long each is (the last may be shorter).
    pub fn poll_transmit(&mut self, now: Time, stats: &mut Stats) -> Option<(&mut [u8], usize)> {
        self.grtt.set_packet_interval(self.pacer.time_for(self.config.segment_bytes.into()));
        self.header.grtt = self.grtt.quantized();
        let plan = self.plan(now, stats)?;
        let (bytes, datagram_bytes) = match plan {
            Plan::Scratch { datagram_bytes } => (&mut self.scratch[..], datagram_bytes),
            Plan::Run { stream, first, count } => {
                self.streams[stream].cache_mut().stamp_run(first, count, &mut self.header)
            }
        };
        stats.bytes_sent += bytes.len() as u64;
        stats.datagrams_sent += bytes.len().div_ceil(datagram_bytes) as u64;
        Some((bytes, datagram_bytes))
    }

    fn plan(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        if self.leaving.is_some() {
            // Whatever followed a goodbye would make receivers think that we are back.
            return self.plan_goodbye(now).then(|| {
                stats.commands_sent += 1;
                self.plan_message()
            });
        }
        if self.plan_command(now) {
            stats.commands_sent += 1;
            let plan = self.plan_message();
            self.pacer.sent(now, self.scratch.len());
            return Some(plan);
        }
        if self.pacer.ready_at() <= now {
            if self.plan_info() {
                let plan = self.plan_message();
                self.pacer.sent(now, self.scratch.len());
                return Some(plan);
            }
            let data_waits = self.next_data().is_some() || self.objects.has_output();
            if !(self.repairs_had_turn && data_waits)
                && let Some(plan) = self.plan_repairs(now, stats)
            {
                self.repairs_had_turn = true;
                return Some(plan);
            }
            self.repairs_had_turn = false;
            // Streams and objects take turns as long as both have something to send.
            if !(self.objects_had_turn && self.next_data().is_some())
                && let Some(plan) = self.plan_objects(now, stats)
            {
                self.objects_had_turn = true;
                return Some(plan);
            }
            self.objects_had_turn = false;
            if let Some(plan) = self.plan_data(now, stats) {
                return Some(plan);
            }
        }
        if self.plan_announcement(now) {
            stats.commands_sent += 1;
            return Some(self.plan_message());
        }
        None
    }

    /// Sends what is in `scratch`: one message that is no data.
    fn plan_message(&mut self) -> Plan {
        auth::reserve(&mut self.scratch, auth::extension_bytes(&self.config.auth));
        self.header.sequence = self.header.sequence.wrapping_add(1);
        Plan::Scratch { datagram_bytes: self.scratch.len() }
    }

    fn plan_info(&mut self) -> bool {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.info_pending) else {
            let Some(object) = self.objects.take_info() else { return false };
            object.write_info(&self.header, &mut self.scratch);
            return true;
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

    /// Bytes that may go in one run.
    fn run_bytes_max(&self) -> usize {
        self.burst_bytes_max.min(self.pacer.burst_bytes())
    }

    /// Gathers repairs into one run of equal datagrams.
    fn plan_repairs(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        if !self.gate.is_open(now) {
            return None;
        }
        self.control.on_sent(now, self.grtt.advertised(), stats.bytes_sent);
        self.pacer.set_rate(self.control.rate());
        let Some(index) = self.streams.iter().position(TxStream::has_repairs) else {
            let plan = self.plan_object_repairs(now, stats);
            if plan.is_none() && !self.objects.has_repairs() {
                self.gate.on_all_repaired();
            }
            return plan;
        };
        let datagram_bytes = if self.streams[index].repairs_by_parity() {
            self.write_parity_repairs(index, now, stats)
        } else {
            self.write_repairs(index, now, stats)
        };
        self.pacer.sent(now, self.scratch.len());
        (!self.scratch.is_empty()).then_some(Plan::Scratch { datagram_bytes })
    }

    fn run_limit(&self) -> RunLimit {
        RunLimit { bytes_max: self.run_bytes_max(), segments_max: self.burst_segments_max }
    }

    fn plan_object_repairs(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        let limit = self.run_limit();
        let (code, header) = (self.code.as_ref(), &mut self.header);
        let datagram_bytes = self.objects.write_repairs(now, limit, code, header, stats, &mut self.scratch);
        if !self.scratch.is_empty() {
            // Whoever asked may lose the answer too, and asks again only when it hears of it.
            self.objects.on_sent(now, self.grtt.advertised());
        }
        self.pacer.sent(now, self.scratch.len());
        (!self.scratch.is_empty()).then_some(Plan::Scratch { datagram_bytes })
    }

    fn plan_objects(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        let limit = self.run_limit();
        let (code, header) = (self.code.as_ref(), &mut self.header);
        let datagram_bytes = self.objects.write_new(now, limit, code, header, stats, &mut self.scratch);
        if self.scratch.is_empty() {
            return None;
        }
        self.objects.on_sent(now, self.grtt.advertised());
        self.last_data_at = now;
        self.control.on_sent(now, self.grtt.advertised(), stats.bytes_sent);
        self.pacer.set_rate(self.control.rate());
        self.pacer.sent(now, self.scratch.len());
        Some(Plan::Scratch { datagram_bytes })
    }

    fn write_repairs(&mut self, index: usize, now: Time, stats: &mut Stats) -> usize {
        let bytes_max = self.run_bytes_max();
        let stream = &mut self.streams[index];
        self.scratch.clear();
        let mut datagram_bytes = 0;
        let mut count = 0;
        let sent = stream.sent();
        while let Some(segment) = stream.next_repair() {
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
        datagram_bytes
    }

    fn write_parity_repairs(&mut self, index: usize, now: Time, stats: &mut Stats) -> usize {
        let bytes_max = self.run_bytes_max();
        let stream = &mut self.streams[index];
        let datagram_bytes = stream.cache().parity_datagram_bytes();
        let count_max = (bytes_max / datagram_bytes).clamp(1, self.burst_segments_max);
        self.scratch.clear();
        let mut count = 0;
        while count < count_max
            && let Some(block) = stream.next_parity()
        {
            self.rows.clear();
            stream.parity.take(block, count_max - count, now, &mut self.rows);
            count += self.rows.len();
            if let Some(code) = self.code.as_ref().filter(|_| stream.has_block(block)) {
                stream.cache().write_parity(code, block, &self.rows, &mut self.scratch);
            }
        }
        for datagram in self.scratch.chunks_mut(datagram_bytes) {
            stamp_repair(datagram, &mut self.header);
        }
        stream.announce_again(now, self.grtt.advertised(), self.robust_factor);
        stats.parity_sent += count as u64;
        stats.repairs_sent += count as u64;
        datagram_bytes
    }

    fn next_data(&self) -> Option<usize> {
        self.streams.iter().position(TxStream::has_output)
    }

    fn plan_data(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        let index = self.next_data()?;
        self.last_data_at = now;
        self.control.on_sent(now, self.grtt.advertised(), stats.bytes_sent);
        self.pacer.set_rate(self.control.rate());
        let stream = &mut self.streams[index];
        let (first, sendable) = (stream.sent(), stream.sendable());
        if stream.order.parity_due(first).is_some() {
            return Some(self.plan_unasked_parity(index, now, stats));
        }
        if stream.order.is_mixing(first, sendable) {
            return Some(self.plan_mixed(index, now, stats));
        }
        let bytes_max = self.burst_bytes_max.min(self.pacer.burst_bytes());
        let end = stream.order.run_end(first, sendable.min(first.saturating_add(stream.run_max())));
        let count = stream.cache().run_length(first, end, self.burst_segments_max, bytes_max);
        let mut bytes = 0;
        for segment in first..first + count as u64 {
            bytes += stream.cache().datagram(segment).len();
            stats.payload_bytes_sent += stream.cache().data_bytes(segment) as u64;
        }
        stats.segments_sent += count as u64;
        stream.on_sent(count, now, self.grtt.advertised(), self.robust_factor);
        self.pacer.sent(now, bytes);
        Some(Plan::Run { stream: index, first, count })
    }

    fn plan_unasked_parity(&mut self, index: usize, now: Time, stats: &mut Stats) -> Plan {
        let bytes_max = self.run_bytes_max();
        let stream = &mut self.streams[index];
        let datagram_bytes = stream.cache().parity_datagram_bytes();
        let count_max = (bytes_max / datagram_bytes).clamp(1, self.burst_segments_max);
        self.scratch.clear();
        let mut count = 0;
        while count < count_max
            && let Some((block, row)) = stream.order.parity_due(stream.sent())
        {
            let rows = stream.order.parity_left(stream.sent()).min(count_max - count);
            self.rows.clear();
            self.rows.extend(row..row + rows);
            if let Some(code) = &self.code {
                stream.cache().write_parity(code, block, &self.rows, &mut self.scratch);
            }
            let sent = stream.sent();
            stream.order.parity_sent(rows, sent);
            count += rows;
        }
        for datagram in self.scratch.chunks_mut(datagram_bytes) {
            stamp(datagram, &mut self.header);
        }
        stats.parity_sent += count as u64;
        self.pacer.sent(now, self.scratch.len());
        Plan::Scratch { datagram_bytes }
    }

    /// Segments of several blocks in turn. They do not lie side by side, so they are copied.
    fn plan_mixed(&mut self, index: usize, now: Time, stats: &mut Stats) -> Plan {
        let bytes_max = self.run_bytes_max();
        let stream = &mut self.streams[index];
        self.scratch.clear();
        let (mut datagram_bytes, mut count) = (0, 0);
        while let Some(segment) = stream.order.mixed_segment(stream.sent()) {
            let datagram = stream.cache().datagram(segment);
            let fits = self.scratch.len() + datagram.len() <= bytes_max && count < self.burst_segments_max;
            if count > 0 && (datagram.len() > datagram_bytes || !fits) {
                break;
            }
            let start = self.scratch.len();
            if count == 0 {
                datagram_bytes = datagram.len();
            }
            self.scratch.extend_from_slice(datagram);
            stamp(&mut self.scratch[start..], &mut self.header);
            stats.payload_bytes_sent += stream.cache().data_bytes(segment) as u64;
            count += 1;
            let complete = stream.order.mixed_one();
            if complete > 0 {
                stream.on_sent(complete as usize, now, self.grtt.advertised(), self.robust_factor);
                break;
            }
            if self.scratch.len() - start < datagram_bytes {
                break;
            }
        }
        stats.segments_sent += count as u64;
        self.pacer.sent(now, self.scratch.len());
        Plan::Scratch { datagram_bytes }
    }

    /// When to poll again if nothing else happens.
    pub fn deadline(&self) -> Time {
        if let Some((at, left)) = self.leaving {
            return if left > 0 { at } else { Time::NEVER };
        }
        let mut next = self.grtt.deadline().min(self.questions.deadline());
        let repairs_wait = self.streams.iter().any(TxStream::has_repairs) || self.objects.has_repairs();
        next = next.min(self.objects.deadline(self.pacer.ready_at(), self.repair_hold()));
        for stream in &self.streams {
            next = next.min(stream.acks.deadline());
            next = next.min(stream.next_announcement());
            next = next.min(stream.window_deadline());
            if stream.squelch {
                next = next.min(self.squelch_at);
            }
            if stream.info_pending || stream.has_output() {
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
        self.objects.collect_events(events);
        events.append(&mut self.settled);
    }
}
