//! What a sender sends next.
//!
//! What goes first: requests for acknowledgement, the goodbye, probes, refusals to repair, NORM_INFO,
//! then repairs and new data in turn, and announcements when there is nothing else. Repairs and new
//! data take turns so that neither a receiver that asks for everything nor a fast writer can starve
//! the other. Streams share each of the two by precedence and weight (`share`).

use std::collections::VecDeque;

use super::run::{Run, RunLimit, Segmented};
use super::sender::Sender;
use super::stream::TxStream;
use crate::ObjectId;
use crate::auth;
use crate::event::Event;
use crate::share::next_to_send;
use crate::stats::Stats;
use crate::time::Time;

/// Datagrams to the group.
pub struct Output<'a> {
    /// Side by side.
    pub bytes: &'a mut [u8],
    /// How long each is; the last may be shorter.
    pub datagram_bytes: usize,
    /// The stream that they carry segments of.
    pub stream: Option<ObjectId>,
    /// The stream or object that they are about.
    pub about: Option<ObjectId>,
}

/// What to hand out: decided first, borrowed afterwards.
enum Plan {
    Scratch { datagram_bytes: usize, stream: Option<ObjectId> },
    Run { stream: usize, first: u64, count: usize },
}

/// An empty run, which borrows no more of a sender than it needs.
macro_rules! run {
    ($sender:ident) => {{
        let limit = $sender.run_limit();
        let (out, header, rows) = (&mut $sender.scratch, &mut $sender.header, &mut $sender.rows);
        Run::new(out, header, $sender.code.as_ref(), rows, limit)
    }};
}

impl Sender {
    /// The next datagrams to the group.
    pub fn poll_transmit(&mut self, now: Time, stats: &mut Stats) -> Option<Output<'_>> {
        self.grtt.set_packet_interval(self.pacer.time_for(self.config.segment_bytes.into()));
        self.header.grtt = self.grtt.quantized;
        self.commands_about = None;
        let plan = self.plan(now, stats)?;
        let about = self.commands_about;
        let (bytes, datagram_bytes, stream) = match plan {
            Plan::Scratch { datagram_bytes, stream } => (&mut self.scratch[..], datagram_bytes, stream),
            Plan::Run { stream, first, count } => {
                let stream = &mut self.streams[stream];
                let (bytes, datagram_bytes) = stream.cache.stamp_run(first, count, &mut self.header);
                (bytes, datagram_bytes, Some(stream.object))
            }
        };
        stats.bytes_sent += bytes.len() as u64;
        stats.datagrams_sent += bytes.len().div_ceil(datagram_bytes) as u64;
        Some(Output { bytes, datagram_bytes, stream, about: stream.or(about) })
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
            self.pacer.sent_command(now, self.scratch.len());
            return Some(plan);
        }
        if self.pacer.ready_at() <= now {
            if self.plan_info() {
                let plan = self.plan_message();
                self.pacer.sent_command(now, self.scratch.len());
                return Some(plan);
            }
            let data_waits = self.has_data() || self.objects.has_output();
            if !(self.repairs_had_turn && data_waits)
                && let Some(plan) = self.plan_repairs(now, stats)
            {
                self.repairs_had_turn = true;
                return Some(plan);
            }
            self.repairs_had_turn = false;
            // Streams and objects take turns as long as both have something to send.
            if !(self.objects_had_turn && self.has_data())
                && let Some(plan) = self.plan_objects(now, stats)
            {
                self.objects_had_turn = true;
                return Some(plan);
            }
            self.objects_had_turn = false;
            if let Some(plan) = self.plan_data(now, stats) {
                return Some(plan);
            }
        } else if self.has_data() || self.objects.has_output() || self.has_repairs() {
            self.pacer.hold(now);
        }
        if self.plan_announcement(now) {
            stats.commands_sent += 1;
            return Some(self.plan_message());
        }
        if !self.has_backlog() {
            self.pacer.idle();
        }
        None
    }

    /// Sends what is in `scratch`: one message that is no data.
    fn plan_message(&mut self) -> Plan {
        auth::reserve(&mut self.scratch, auth::extension_bytes(&self.config.auth));
        self.header.sequence = self.header.sequence.wrapping_add(1);
        Plan::Scratch { datagram_bytes: self.scratch.len(), stream: None }
    }

    fn plan_info(&mut self) -> bool {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.owed.info) {
            stream.owed.info = false;
            stream.template().write_info(&self.header, &stream.info, &mut self.scratch);
            return true;
        }
        let Some(object) = self.objects.take_info() else { return false };
        object.template().write_info(&self.header, &object.info, &mut self.scratch);
        true
    }

    fn run_limit(&self) -> RunLimit {
        RunLimit {
            bytes_max: self.config.burst_bytes_max.min(self.pacer.burst_bytes()),
            segments_max: self.config.burst_segments_max.min(self.pacer.burst_datagrams()),
        }
    }

    /// Bytes that a stream of weight 1 sends in a round: a run, which slow rates make short.
    fn quantum(&self) -> usize {
        self.run_limit().bytes_max.max(self.config.segment_bytes.into())
    }

    /// Gathers repairs: of a stream that owes any, or of objects.
    fn plan_repairs(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        if !self.gate.open_if_due(now) {
            return None;
        }
        self.follow_control(now, stats);
        let (grtt, robust_factor) = (self.grtt.advertised(), self.config.robust_factor);
        let quantum = self.quantum();
        let owes = |stream: &TxStream| stream.owed.has_repairs();
        let next = next_to_send(&mut self.streams, quantum, |stream| &mut stream.repair_share, owes);
        let mut run = run!(self);
        if let Some(index) = next {
            let stream = &mut self.streams[index];
            run.add_repairs(stream, now, |stream, step| stream.on_repaired(step, now, grtt, robust_factor));
        } else {
            self.objects.add_repairs(now, &mut run);
            if !run.is_empty() {
                // Whoever asked may lose the answer too, and asks again only when it hears of it.
                self.objects.on_sent(now, grtt);
            } else if !self.objects.has_repairs() {
                self.gate.on_all_repaired();
            }
        }
        let datagram_bytes = run.finish(true, stats);
        let stream = next.map(|index| {
            let stream = &mut self.streams[index];
            stream.repair_share.charge(self.scratch.len());
            stream.object
        });
        self.plan_run(now, datagram_bytes, stream, stats)
    }

    /// Gathers new segments of objects.
    fn plan_objects(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        let mut run = run!(self);
        self.objects.add_new(now, &mut run);
        if run.is_empty() {
            return None;
        }
        let datagram_bytes = run.finish(false, stats);
        self.objects.on_sent(now, self.grtt.advertised());
        self.last_data_at = now;
        self.follow_control(now, stats);
        self.plan_run(now, datagram_bytes, None, stats)
    }

    /// Sends what was gathered of a stream or of objects, if that is anything.
    fn plan_run(
        &mut self,
        now: Time,
        datagram_bytes: usize,
        stream: Option<ObjectId>,
        stats: &mut Stats,
    ) -> Option<Plan> {
        if self.scratch.is_empty() {
            return None;
        }
        let bytes = self.scratch.len();
        self.pacer.sent(now, bytes, bytes.div_ceil(datagram_bytes), stats);
        Some(Plan::Scratch { datagram_bytes, stream })
    }

    /// Something is sent: the rate may change.
    fn follow_control(&mut self, now: Time, stats: &Stats) {
        self.control.on_sent(now, self.grtt.advertised(), stats.bytes_sent);
        self.pacer.set_rate(self.control.rate());
    }

    /// Whether data waits to be sent, also behind a window that is closed.
    fn has_backlog(&self) -> bool {
        self.has_repairs() || !self.is_sent()
    }

    fn has_data(&self) -> bool {
        self.streams.iter().any(TxStream::has_output)
    }

    /// Sends new segments of a stream as they lie in its cache, side by side; what goes out in another order, and
    /// unasked parity, is copied.
    fn plan_data(&mut self, now: Time, stats: &mut Stats) -> Option<Plan> {
        let (quantum, wants) = (self.quantum(), TxStream::has_output);
        let index = next_to_send(&mut self.streams, quantum, |stream| &mut stream.data_share, wants)?;
        self.last_data_at = now;
        self.follow_control(now, stats);
        let (limit, grtt, robust_factor) =
            (self.run_limit(), self.grtt.advertised(), self.config.robust_factor);
        let stream = &mut self.streams[index];
        let (first, sendable) = (stream.sent, stream.sendable());
        if let Some(end) = stream.order.begin_run(sendable) {
            let end = end.min(first.saturating_add(stream.run_max()));
            let count = stream.cache.run_length(first, end, limit.segments_max, limit.bytes_max);
            let mut bytes = 0;
            for segment in first..first + count as u64 {
                bytes += stream.cache.datagram(segment).len();
                stats.payload_bytes_sent += stream.cache.data_bytes(segment) as u64;
            }
            stats.segments_sent += count as u64;
            stream.order.ran(count as u64);
            stream.on_sent(count, now, grtt, robust_factor);
            stream.data_share.charge(bytes);
            self.pacer.sent(now, bytes, count, stats);
            return Some(Plan::Run { stream: index, first, count });
        }
        let mut run = run!(self);
        let stream = &mut self.streams[index];
        while let Some(step) = stream.order.next(run.parity_max(stream))
            && run.add(stream, &step, false)
        {
            stream.order.advance(&step);
            let complete = stream.order.prefix() - first;
            if complete > 0 {
                stream.on_sent(complete as usize, now, grtt, robust_factor);
                break;
            }
        }
        let datagram_bytes = run.finish(false, stats);
        let stream = &mut self.streams[index];
        stream.data_share.charge(self.scratch.len());
        let object = stream.object;
        self.plan_run(now, datagram_bytes, Some(object), stats)
    }

    /// When to poll again if nothing else happens.
    pub fn deadline(&self) -> Time {
        if let Some((at, left)) = self.leaving {
            return if left > 0 { at } else { Time::NEVER };
        }
        let (ready_at, when) =
            (self.pacer.ready_at(), |is: bool, at: Time| if is { at } else { Time::NEVER });
        let has_refusals =
            !self.invalid_objects.is_empty() || self.streams.iter().any(|stream| stream.squelch);
        let of_stream = |stream: &TxStream| {
            let timed =
                stream.acks.next_request.min(stream.next_announcement()).min(stream.window_deadline());
            timed.min(when(stream.owed.info || stream.has_output(), ready_at))
        };
        let objects = self.objects.deadline(ready_at, self.repair_hold());
        let next = self.streams.iter().map(of_stream).fold(objects, Time::min);
        next.min(self.grtt.next_probe)
            .min(self.questions.deadline())
            .min(when(self.has_repairs(), self.gate.opens_at().max(ready_at)))
            .min(when(has_refusals, self.squelch_at))
            .min(when(self.advertise, self.advertise_at))
    }

    /// Tells what became of writes, watermarks and announcements.
    pub fn collect_events(&mut self, events: &mut VecDeque<Event>) {
        for stream in &mut self.streams {
            let object = stream.object;
            while let Some(outcome) = stream.acks.poll_outcome() {
                events.push_back(outcome.into_event(object));
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
