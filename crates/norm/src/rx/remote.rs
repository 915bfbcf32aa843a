//! One sender as this receiver knows it: its streams, its objects, its timing.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::entry::{Body, Heard, InfoState, StreamEntry};
use super::nack::{GroupTiming, NackCycle};
use super::objects::RxObjects;
use super::reader::{Chunk, Take};
use super::scope::Scope;
use super::stream::RxStream;
use crate::config::{Config, Join, NackingMode, SyncPolicy};
use crate::congestion::receiver::ReceiverCongestion;
use crate::datagram::{Lag, Source};
use crate::event::{CloseReason, Event, StreamId};
use crate::quantize;
use crate::stats::{Reject, Taken};
use crate::time::Time;
use crate::wire::{Data, Flags, Info, PayloadId, SenderHeader};
use crate::{NodeId, ObjectId};

/// A message that lags behind by more is not late: we were away.
const OVERTAKEN_BY_MAX: u16 = 1024;
/// A sender is established after so many messages.
const ESTABLISHED_AFTER: usize = 4;
/// So many objects that were refused are remembered.
const REFUSED_MAX: usize = 16;

/// A probe that is to be answered.
#[derive(Copy, Clone, Debug)]
pub(super) struct Probe {
    pub(super) sent_at: Time,
    pub(super) received_at: Time,
    pub(super) sequence: u16,
}

#[derive(Debug)]
pub struct Remote {
    pub node: NodeId,
    pub instance: u16,
    /// The instance before this one, whose late datagrams are refused.
    pub previous: Option<u16>,
    pub address: SocketAddr,
    /// Where the message in hand came from.
    heard_from: SocketAddr,
    pub last_heard: Time,
    /// When data of it came last.
    pub(super) data_at: Time,
    /// Messages heard, and when each of the last [`ESTABLISHED_AFTER`] was.
    heard: usize,
    heard_at: [Time; ESTABLISHED_AFTER],
    /// The newest message's number, and whether the one in hand is older.
    newest_sequence: u16,
    pub(super) overtaken: bool,
    /// It said goodbye or started again, and when that is true unless more is heard of it; what is here may still be
    /// read.
    pub departed: Option<(CloseReason, Time)>,
    pub(super) timing: GroupTiming,
    lag: Lag,
    /// The least and the greatest round-trip time it is believed to have.
    grtt_limits: (Duration, Duration),
    quantized: (u8, u8, u8),
    /// Bytes of data that came from it.
    pub received_bytes: u64,
    /// How many had come when it was asked for something last.
    pub(super) received_when_asked: u64,
    pub(super) streams: Vec<StreamEntry>,
    pub objects: RxObjects,
    /// Objects of which something came that was refused: what is announced of them is no stream to ask for.
    pub(super) refused: VecDeque<ObjectId>,
    pub(super) nack: NackCycle,
    /// What was lost a moment ago is not asked for before this.
    pub(super) not_before: Time,
    pub(super) probe: Option<Probe>,
    /// When a probe was sent and came that contradicts the one before it.
    pub(super) doubted_probe: Option<(Time, Time)>,
    pub(super) answer_probe_at: Time,
    pub(super) congestion: ReceiverCongestion,
    /// An acknowledgement of an application's own type that is asked for: type, id, and when to give it.
    pub(super) answer: Option<(u8, u8, Time)>,
    /// When it is noted to have something to do, and whether that may have changed: its owner's.
    pub(super) scheduled: Time,
    pub(super) is_noted: bool,
    pub(super) synced: bool,
    /// Where to join streams that were not heard yet.
    pub(super) told: Vec<(ObjectId, Join)>,
}

impl Remote {
    pub fn new(header: &SenderHeader, from: Source, now: Time, config: &Config) -> Remote {
        let mut remote = Remote {
            node: header.source,
            instance: header.instance,
            previous: None,
            address: from.address,
            heard_from: from.address,
            last_heard: now,
            data_at: Time::ZERO,
            heard: 0,
            heard_at: [Time::ZERO; ESTABLISHED_AFTER],
            newest_sequence: header.sequence,
            overtaken: false,
            departed: None,
            timing: GroupTiming::default(),
            lag: Lag::default(),
            grtt_limits: (config.grtt_min, config.grtt_max),
            quantized: (255, 255, 255),
            received_bytes: 0,
            received_when_asked: 0,
            streams: Vec::new(),
            objects: RxObjects::new(header.source, header.instance),
            refused: VecDeque::new(),
            nack: NackCycle::new(),
            not_before: Time::ZERO,
            probe: None,
            doubted_probe: None,
            answer_probe_at: Time::NEVER,
            congestion: ReceiverCongestion::new(now - from.waited),
            answer: None,
            scheduled: Time::NEVER,
            is_noted: false,
            synced: false,
            told: Vec::new(),
        };
        remote.hear(header, from, now, 0);
        remote
    }

    /// Takes note of what every message of a sender says.
    pub fn hear(&mut self, header: &SenderHeader, from: Source, now: Time, bytes: usize) {
        (self.last_heard, self.heard_from) = (now, from.address);
        self.heard_at[self.heard % ESTABLISHED_AFTER] = now;
        self.heard = self.heard.wrapping_add(1);
        self.overtaken = (1..OVERTAKEN_BY_MAX).contains(&self.newest_sequence.wrapping_sub(header.sequence));
        if !self.overtaken {
            self.newest_sequence = header.sequence;
        }
        self.nack.on_heard(now);
        self.lag.hear(from.waited);
        self.timing.lag = self.lag.get();
        self.congestion.on_message(now - from.waited, header.sequence, bytes, self.timing.grtt);
        let quantized = (header.grtt, header.backoff, header.group_size);
        if quantized != self.quantized {
            self.quantized = quantized;
            let before = self.timing.grtt;
            self.timing = GroupTiming {
                grtt: quantize::unquantize_rtt(header.grtt).clamp(self.grtt_limits.0, self.grtt_limits.1),
                backoff_factor: header.backoff.into(),
                group_size: quantize::unquantize_group_size(header.group_size),
                ..self.timing
            };
            self.nack.on_timing(now, before, &self.timing);
        }
    }

    /// Bytes of the session's memory it holds.
    pub fn memory(&self) -> usize {
        self.streams.iter().map(StreamEntry::memory).sum::<usize>() + self.objects.memory
    }

    /// Gives back memory for somebody of whom more came: what lies behind a gap, what was not joined, what is not
    /// complete. All of it can be asked for again. True if it gave something back.
    pub fn make_way(&mut self, scope: &mut Scope<'_>) -> bool {
        let held = self.memory();
        self.rest_streams(scope);
        self.streams.retain(|known| {
            let is_unjoined = matches!(known.body, Body::Unjoined(_));
            *scope.memory_left += if is_unjoined { known.memory() } else { 0 };
            !is_unjoined
        });
        self.objects.make_way(scope);
        self.memory() < held
    }

    /// When the first of its last messages was heard, of which there are enough to be more than somebody's passing message;
    /// [`Time::ZERO`] if there are not.
    pub fn row_began(&self) -> Time {
        self.heard_at.into_iter().fold(Time::NEVER, Time::min)
    }

    pub(super) fn stream_id(&self, object: ObjectId) -> StreamId {
        StreamId { node: self.node, instance: self.instance, object }
    }

    // --- input ---

    pub fn handle_data(&mut self, data: &Data<'_>, take: &mut Take<'_>, scope: &mut Scope<'_>) -> Taken {
        let is_next = self.take_data(data, take, scope)?;
        // Only with data that was waited for does a sender move: whatever else it says takes nothing to make up, or to send
        // once more.
        if is_next {
            self.address = self.heard_from;
        }
        self.received_bytes += data.payload.len() as u64;
        self.data_at = scope.now;
        Ok(())
    }

    /// Takes data. True if it is what its stream's reader waited for, or something new of an object.
    fn take_data(&mut self, data: &Data<'_>, take: &mut Take<'_>, scope: &mut Scope<'_>) -> Taken<bool> {
        if !data.header.flags.has(Flags::STREAM) {
            self.check_object(data.header.object, scope)?;
            let duplicates = scope.stats.duplicates_received;
            let handled = self.objects.handle_data(data, scope);
            self.mark_streams(scope);
            self.after_object(scope);
            return handled.map(|()| scope.stats.duplicates_received == duplicates);
        }
        let index = self.stream_for(&data.header, scope)?;
        let object = &mut self.streams[index];
        if data.header.flags.has(Flags::INFO) && object.info == InfoState::None {
            object.info = InfoState::Missing;
            object.fec_id = data.header.fec_id;
        }
        // Nobody gets anything of a stream before the news that there is one.
        let mut nobody = |_: StreamId, _: Chunk<'_>| false;
        let is_new = matches!(object.body, Body::Wanted(_));
        let take: &mut Take<'_> = if is_new { &mut nobody } else { take };
        match &object.body {
            Body::Closed => {
                scope.stats.duplicates_received += 1;
                return Ok(false);
            }
            Body::Wanted(_) if scope.config.sync == SyncPolicy::Ask => {
                let fti = data.fti.ok_or(Reject::ObjectInfo)?;
                let left = scope.memory_left.checked_sub(data.payload.len()).ok_or(Reject::NoMemory)?;
                *scope.memory_left = left;
                let symbol = data.payload.to_vec();
                object.body =
                    Body::Unjoined(Heard { header: data.header, fti, payload_id: data.payload_id, symbol });
                let told = self.told.iter().find(|(object, _)| *object == data.header.object);
                if let Some(&(object, join)) = told {
                    return self.join(object, join, scope).map(|()| false);
                }
                scope.events.push_back(Event::StreamHeard { stream: self.stream_id(data.header.object) });
                return Ok(false);
            }
            Body::Wanted(_) => {
                let at = (scope.config.sync != SyncPolicy::Current).then_some(0);
                self.open(index, data, at, scope)?;
            }
            Body::Unjoined(_) => return Ok(false),
            Body::Open(stream) => {
                if stream.blocks.layout.fec_id != data.header.fec_id
                    || data.fti.is_some_and(|fti| fti != stream.blocks.fti)
                {
                    return Err(Reject::ObjectInfo);
                }
            }
        }
        let Body::Open(stream) = &mut self.streams[index].body else { return Ok(false) };
        let complete = stream.window.complete;
        let received = stream.receive(data, take, scope);
        let is_next = stream.window.complete > complete;
        self.after_progress(index, scope);
        received.map(|_| is_next)
    }

    pub fn handle_info(&mut self, info: &Info<'_>, scope: &mut Scope<'_>) -> Taken {
        if !info.header.flags.has(Flags::STREAM) {
            self.check_object(info.header.object, scope)?;
            let handled = self.objects.handle_info(info, scope);
            self.mark_streams(scope);
            self.after_object(scope);
            return handled;
        }
        let index = self.stream_for(&info.header, scope)?;
        let stream = self.stream_id(info.header.object);
        let object = &mut self.streams[index];
        let wanted = match object.info {
            InfoState::Have => false,
            InfoState::Missing => true,
            InfoState::None => !matches!(object.body, Body::Closed),
        };
        if wanted && !scope.has_room {
            return Err(Reject::NoRoom);
        }
        if wanted {
            object.info = InfoState::Have;
            scope.events.push_back(Event::Info { stream, content: info.content.to_vec() });
        }
        // NORM_INFO says how the stream is cut, but not where it is.
        let from_start = matches!(scope.config.sync, SyncPolicy::Start | SyncPolicy::All);
        if from_start && matches!(object.body, Body::Wanted(_)) && info.fti.is_some() {
            let (header, fti, payload_id) = (info.header, info.fti, PayloadId::default());
            self.open(index, &Data { header, fti, payload_id, payload: &[] }, Some(0), scope)?;
        }
        self.after_progress(index, scope);
        Ok(())
    }

    /// Something of an object of known length came: whether it is taken.
    fn check_object(&mut self, object: ObjectId, scope: &Scope<'_>) -> Taken {
        self.forget_wanted(object);
        let checked = scope.check_object();
        if checked.is_err() && !self.refused.contains(&object) {
            if self.refused.len() >= REFUSED_MAX {
                self.refused.pop_front();
            }
            self.refused.push_back(object);
        }
        checked
    }

    /// There is room again for what was refused.
    pub fn on_room(&mut self, scope: &mut Scope<'_>) {
        self.refused.clear();
        self.after_object(scope);
    }

    /// Numbers that objects passed over may be those of streams that began long before: these are not missing.
    pub(super) fn mark_streams(&mut self, scope: &mut Scope<'_>) {
        if std::mem::take(&mut self.objects.grown) {
            let begun = |known: &&StreamEntry| matches!(known.body, Body::Unjoined(_) | Body::Open(_));
            for known in self.streams.iter().filter(begun) {
                self.objects.set_stream(known.object, scope);
            }
        }
    }

    /// Something about an object of known length changed: start asking if something is missing.
    pub(super) fn after_object(&mut self, scope: &mut Scope<'_>) {
        self.timing.seen = scope.nacks.nodes as f64;
        if self.departed.is_none() && self.objects.is_missing(scope.object_nacking(), None) {
            self.nack.on_loss(scope.now, &self.timing, scope.random);
        }
    }

    /// Something about an object changed: move its reader on, and start asking if something is missing.
    pub(super) fn after_progress(&mut self, index: usize, scope: &mut Scope<'_>) {
        self.timing.seen = scope.nacks.nodes as f64;
        self.settle(index, scope);
        if scope.config.nacking != NackingMode::Full
            && let Some(stream) = self.streams[index].open_mut()
        {
            stream.on_asked();
        }
        if self.departed.is_none() && self.streams[index].is_missing(scope.config.nacking, None) {
            self.nack.on_loss(scope.now, &self.timing, scope.random);
        }
    }

    fn settle(&mut self, index: usize, scope: &mut Scope<'_>) {
        let object = &mut self.streams[index];
        let Body::Open(stream) = &mut object.body else { return };
        stream.reader.settle(&mut stream.window, scope.stats, |event| scope.events.push_back(event));
        if stream.reader.ended {
            *scope.memory_left += stream.memory();
            object.body = Body::Closed;
        }
    }

    // --- reading ---

    pub fn stream_mut(&mut self, object: ObjectId) -> Option<&mut RxStream> {
        self.streams.iter_mut().find(|known| known.object == object)?.open_mut()
    }

    /// So many bytes of a stream were read.
    pub fn consume(&mut self, object: ObjectId, bytes: usize, scope: &mut Scope<'_>) {
        let Some(index) = self.streams.iter().position(|known| known.object == object) else { return };
        if let Body::Open(stream) = &mut self.streams[index].body {
            stream.reader.consume(&mut stream.window, bytes);
            self.after_progress(index, scope);
        }
    }

    /// Whether everything that came was read.
    pub fn is_drained(&self) -> bool {
        let mut windows = self.streams.iter().filter_map(StreamEntry::open).map(|stream| &stream.window);
        windows.all(|window| window.first == window.complete)
    }

    /// Gives all memory back and says that every stream is closed.
    pub fn close(&mut self, reason: CloseReason, scope: &mut Scope<'_>) {
        for object in self.streams.drain(..) {
            *scope.memory_left += object.memory();
            if let Body::Open(stream) = object.body {
                scope.events.push_back(Event::StreamClosed { stream: stream.blocks.id, reason });
            }
        }
        self.objects.close_all(scope);
        scope.events.push_back(Event::SenderGone { node: self.node, instance: self.instance, reason });
    }
}
