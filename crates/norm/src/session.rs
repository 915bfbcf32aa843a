//! A member of a group: it takes datagrams and time, and gives datagrams, deadlines and events.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::config::{Config, ConfigError, FeedbackMode, Join, NackingMode, StreamOptions};
use crate::event::{CloseReason, Event, StreamId};
use crate::rx::Chunk;
use crate::rx::remote::{Remote, Shared};
use crate::stats::{Reject, Stats};
use crate::time::Time;
use crate::tx::objects::FileRead;
use crate::tx::sender::Sender;
use crate::tx::stream::{StreamState, TxStream};
use crate::wire::feedback::FeedbackHeader;
use crate::wire::repair::RepairWriter;
use crate::wire::{AckType, Command, Message, SenderHeader, parse};
use crate::{NodeId, ObjectId};

/// Where a datagram came from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Who sent it.
    pub address: SocketAddr,
    /// Whether it was sent to us alone.
    pub unicast: bool,
}

/// Where a datagram goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The group.
    Group,
    /// One member.
    Node(SocketAddr),
}

/// Datagrams to send.
#[derive(Copy, Clone, Debug)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: Destination,
    /// One or more datagrams side by side.
    pub bytes: &'a [u8],
    /// How long each is; the last may be shorter.
    pub datagram_bytes: usize,
}

impl<'a> Transmit<'a> {
    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.datagram_bytes)
    }
}

/// Why a stream took nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// There is no such stream, or it ended.
    NoStream,
    /// As many streams are open as the configuration allows.
    TooManyStreams,
    /// NORM_INFO is longer than a segment.
    InfoTooLong,
    /// The object is empty, or longer than its FEC scheme can number.
    ObjectLength,
}

impl fmt::Display for WriteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            WriteError::NoStream => "there is no such stream, or it was closed",
            WriteError::TooManyStreams => "too many streams are open: close one, or raise send_streams_max",
            WriteError::ObjectLength => {
                "an object must have at least one byte, and no more than its blocks can be numbered for"
            }
            WriteError::InfoTooLong => {
                "the info does not fit into one segment: shorten it, or raise segment_bytes"
            }
        })
    }
}

impl std::error::Error for WriteError {}

/// One member of one group.
#[derive(Debug)]
pub struct Session {
    config: Config,
    sender: Sender,
    remotes: Vec<Remote>,
    index: HashMap<(NodeId, u16), usize>,
    random: fastrand::Rng,
    stats: Stats,
    events: VecDeque<Event>,
    memory_left: usize,
    feedback_sequence: u16,
    feedback: Vec<u8>,
    requests: RepairWriter,
    /// Remotes that departed and may be forgotten once read.
    departing: bool,
    /// How long the datagram is that is being handled.
    datagram_bytes: usize,
}

macro_rules! shared {
    ($session:ident) => {
        &mut Shared {
            config: &$session.config,
            random: &mut $session.random,
            memory_left: &mut $session.memory_left,
            stats: &mut $session.stats,
            events: &mut $session.events,
        }
    };
}

impl Session {
    /// A session, if its configuration can work.
    pub fn new(config: Config) -> Result<Session, ConfigError> {
        config.check()?;
        Ok(Session {
            sender: Sender::new(&config),
            remotes: Vec::new(),
            index: HashMap::new(),
            random: fastrand::Rng::with_seed(config.seed),
            stats: Stats::default(),
            events: VecDeque::with_capacity(64),
            memory_left: config.receive_bytes_max,
            feedback_sequence: 0,
            feedback: Vec::with_capacity(2048),
            requests: RepairWriter::default(),
            departing: false,
            datagram_bytes: 0,
            config,
        })
    }

    // --- getters ---

    /// Our node id.
    pub fn node(&self) -> NodeId {
        self.config.node
    }

    /// What it was told.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What happened so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Our estimate of the group's round-trip time, as we advertise it.
    pub fn grtt(&self) -> Duration {
        self.sender.grtt.advertised()
    }

    /// The rate we send at now; `None` is as fast as the caller polls.
    pub fn rate_bytes_per_s(&self) -> Option<f64> {
        self.sender.pacer.rate_bytes_per_s()
    }

    /// Bytes of receive buffers in use.
    pub fn receive_bytes(&self) -> usize {
        self.config.receive_bytes_max - self.memory_left
    }

    /// Senders listened to.
    pub fn senders(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.remotes.iter().map(|remote| remote.node)
    }

    /// The round-trip time a remote sender advertises.
    pub fn remote_grtt(&self, node: NodeId) -> Option<Duration> {
        self.remotes.iter().rfind(|remote| remote.node == node).map(Remote::grtt)
    }

    /// Whether `write` would take something now.
    pub fn has_room(&self, object: ObjectId) -> bool {
        self.sender.stream(object).is_some_and(|stream| stream.has_room())
    }

    /// Segments complete and not sent yet.
    pub fn segments_waiting(&self, object: ObjectId) -> u64 {
        self.sender.stream(object).map_or(0, |stream| stream.waiting())
    }

    /// Segments sent so far.
    pub fn segments_sent(&self, object: ObjectId) -> u64 {
        self.sender.stream(object).map_or(0, |stream| stream.sent())
    }

    /// The oldest segment that can be repaired.
    pub fn oldest_segment(&self, object: ObjectId) -> u64 {
        self.sender.stream(object).map_or(0, |stream| stream.first())
    }

    /// Bytes the stream took so far.
    pub fn bytes_written(&self, object: ObjectId) -> u64 {
        self.sender.stream(object).map_or(0, |stream| stream.bytes_written())
    }

    /// Whether everything written to every stream was sent, and acknowledged or announced often enough.
    pub fn is_quiet(&self) -> bool {
        self.sender.is_quiet()
    }

    /// Whether every acker has acknowledged every stream; those that no longer answer are not forgiven.
    pub fn is_acknowledged(&self) -> bool {
        self.sender.is_acknowledged()
    }

    /// Whether everything written to every stream was sent at least once.
    pub fn is_sent(&self) -> bool {
        self.sender.is_sent()
    }

    /// Whether everything was said after [`Session::leave`].
    pub fn has_left(&self) -> bool {
        self.sender.has_left()
    }

    // --- commands ---

    /// Opens a stream to send.
    pub fn open_stream(&mut self, options: &StreamOptions) -> Result<ObjectId, WriteError> {
        self.check_info(&options.info)?;
        self.sender.open_stream(options).ok_or(WriteError::TooManyStreams)
    }

    /// Appends to a stream; `starts_message` marks where a receiver may begin to read. Returns how much
    /// was taken: less than all of it while the cache is full, and then [`Event::Writable`] follows.
    pub fn write(
        &mut self,
        now: Time,
        object: ObjectId,
        data: &[u8],
        starts_message: bool,
    ) -> Result<usize, WriteError> {
        let stream = self.sender.stream_mut(object).filter(|stream| stream.state() == StreamState::Open);
        let taken = stream.ok_or(WriteError::NoStream)?.write(data, starts_message);
        self.sender.wake(now);
        Ok(taken)
    }

    /// Makes everything written sendable now, though its last segment is not full.
    pub fn flush(&mut self, now: Time, object: ObjectId) -> Result<(), WriteError> {
        self.sender.stream_mut(object).ok_or(WriteError::NoStream)?.push();
        self.sender.wake(now);
        Ok(())
    }

    /// Ends a stream. False if there was no room for its end: try again after [`Event::Writable`].
    pub fn close_stream(&mut self, now: Time, object: ObjectId) -> Result<bool, WriteError> {
        let ended = self.sender.stream_mut(object).ok_or(WriteError::NoStream)?.end();
        self.sender.wake(now);
        Ok(ended)
    }

    /// Forgets a stream at once. Receivers that still miss parts of it are refused.
    pub fn drop_stream(&mut self, object: ObjectId) {
        self.sender.drop_stream(object);
    }

    /// Sends bytes as NORM_OBJECT_DATA. `Ok(None)` if there is no room for them: try again after
    /// [`Event::ObjectRoom`].
    pub fn send_data(
        &mut self,
        now: Time,
        content: &[u8],
        info: &[u8],
    ) -> Result<Option<ObjectId>, WriteError> {
        self.check_info(info)?;
        self.sender.send_object(now, Ok(content), info)
    }

    /// Sends a file of `bytes` as NORM_OBJECT_FILE. Its bytes are asked for with [`Session::poll_read`].
    /// `Ok(None)` if there is no room for it: try again after [`Event::ObjectRoom`].
    pub fn send_file(&mut self, now: Time, bytes: u64, info: &[u8]) -> Result<Option<ObjectId>, WriteError> {
        self.check_info(info)?;
        self.sender.send_object(now, Err(bytes), info)
    }

    fn check_info(&self, info: &[u8]) -> Result<(), WriteError> {
        if info.len() > usize::from(self.config.segment_bytes) {
            return Err(WriteError::InfoTooLong);
        }
        Ok(())
    }

    /// Bytes of a file, as [`Session::poll_read`] asked for them.
    pub fn supply_file(&mut self, object: ObjectId, offset: u64, bytes: &[u8]) {
        self.sender.objects.supply(object, offset, bytes);
    }

    /// Forgets an object being sent. Receivers that still miss parts of it are refused. False if there is
    /// none.
    pub fn cancel_object(&mut self, object: ObjectId) -> bool {
        self.sender.objects.cancel(object)
    }

    /// Gives up an object being received.
    pub fn abandon_object(&mut self, object: StreamId) {
        if let Some(&index) = self.index.get(&(object.node, object.instance)) {
            self.remotes[index].abandon(object.object, shared!(self));
        }
    }

    /// Sets what to ask for when something is missing.
    pub fn set_nacking(&mut self, nacking: NackingMode) {
        self.config.nacking = nacking;
    }

    /// Sets whose acknowledgements the window and watermarks wait for. One that is new owes nothing that
    /// was sent before.
    pub fn set_ackers(&mut self, nodes: &[NodeId]) {
        self.sender.set_ackers(nodes, TxStream::sent);
    }

    /// As [`Session::set_ackers`], but one that is new owes everything that can still be repaired.
    pub fn set_ackers_from_oldest(&mut self, nodes: &[NodeId]) {
        self.sender.set_ackers(nodes, TxStream::first);
    }

    /// Sets the rate to send at, or the most rate control may choose; `None` is as fast as the caller polls.
    pub fn set_rate(&mut self, rate_bytes_per_s: Option<f64>) {
        self.sender.set_rate(rate_bytes_per_s.map(|rate| rate.max(1.0)));
    }

    /// Sets the group's size, as far as known.
    pub fn set_group_size(&mut self, size: u32) {
        self.sender.set_group_size(size);
    }

    /// Asks the ackers to confirm an object, or everything written to a stream so far; [`Event::WatermarkDone`] tells the outcome.
    pub fn request_watermark(&mut self, now: Time, object: ObjectId) -> Result<(), WriteError> {
        if self.sender.want_object_ack(now, object) {
            return Ok(());
        }
        self.sender.stream_mut(object).ok_or(WriteError::NoStream)?.want_acks(now);
        self.sender.wake(now);
        Ok(())
    }

    /// Says something to everybody with NORM_CMD(APPLICATION), `times` times, because it is not repaired. It
    /// must fit into a segment. False if the last command is still being repeated.
    pub fn send_command(&mut self, now: Time, content: &[u8], times: u32) -> Result<bool, WriteError> {
        self.check_info(content)?;
        self.sender.wake(now);
        Ok(self.sender.questions.say(now, content, times))
    }

    /// Asks nodes for an acknowledgement of a type an application defined (16 to 255), with NORM_CMD(ACK_REQ);
    /// [`Event::AcksDone`] tells who gave it. False if the last question is still open, or the type is NORM's
    /// own.
    pub fn request_acks(&mut self, now: Time, ack_type: u8, ack_id: u8, nodes: &[NodeId]) -> bool {
        let times = self.config.robust_factor;
        let fits = nodes.len() * 4 <= usize::from(self.config.segment_bytes);
        self.sender.wake(now);
        ack_type >= 16 && fits && self.sender.questions.ask(now, ack_type, ack_id, nodes, times)
    }

    /// Says goodbye to the group.
    pub fn leave(&mut self, now: Time) {
        self.sender.leave(now);
    }

    /// Says where to join a stream of a sender that was heard, before or after [`Event::StreamHeard`] tells of it.
    pub fn join(&mut self, now: Time, stream: StreamId, join: Join) {
        if let Some(&index) = self.index.get(&(stream.node, stream.instance))
            && let Err(reason) = self.remotes[index].join(now, stream.object, join, shared!(self))
        {
            self.stats.reject(reason);
        }
    }

    /// What can be read of a stream now.
    pub fn read(&mut self, stream: StreamId) -> Option<Chunk<'_>> {
        let index = *self.index.get(&(stream.node, stream.instance))?;
        self.remotes[index].stream_mut(stream.object)?.chunk()
    }

    /// So many bytes of what [`Session::read`] gave were used.
    pub fn consume(&mut self, now: Time, stream: StreamId, bytes: usize) {
        if let Some(&index) = self.index.get(&(stream.node, stream.instance)) {
            self.remotes[index].consume(now, stream.object, bytes, shared!(self));
        }
    }

    /// The reader of a stream lost its place; it goes on where the next message starts.
    pub fn resync(&mut self, now: Time, stream: StreamId) {
        if let Some(&index) = self.index.get(&(stream.node, stream.instance))
            && let Some(found) = self.remotes[index].stream_mut(stream.object)
        {
            found.resync();
            self.remotes[index].consume(now, stream.object, 0, shared!(self));
        }
    }

    // --- input ---

    /// Takes one datagram. Whatever it holds, the worst that happens is that it is counted.
    pub fn handle_datagram(&mut self, now: Time, from: Source, datagram: &[u8]) {
        self.stats.datagrams_received += 1;
        self.stats.bytes_received += datagram.len() as u64;
        self.datagram_bytes = datagram.len();
        if let Err(reason) = parse(datagram).and_then(|message| self.handle_message(now, from, &message)) {
            self.stats.reject(reason);
        }
    }

    fn handle_message(&mut self, now: Time, from: Source, message: &Message<'_>) -> Result<(), Reject> {
        match message {
            Message::Data(data) => {
                let Some(remote) = self.hear(now, from, &data.header.sender, true)? else { return Ok(()) };
                self.remotes[remote].handle_data(now, data, shared!(self))
            }
            Message::Info(info) => {
                let Some(remote) = self.hear(now, from, &info.header.sender, true)? else { return Ok(()) };
                self.remotes[remote].handle_info(now, info, shared!(self))
            }
            Message::Command(header, command) => {
                // A goodbye is no reason to get acquainted.
                let new_is_welcome = !matches!(command, Command::EndOfTransmission);
                let Some(remote) = self.hear(now, from, header, new_is_welcome)? else { return Ok(()) };
                self.remotes[remote].handle_command(now, command, shared!(self));
                self.departing |= self.remotes[remote].departed.is_some();
                Ok(())
            }
            Message::Nack(nack) => {
                if self.is_for_us(&nack.header)? {
                    self.sender.handle_nack(now, nack, from.unicast, &mut self.stats);
                } else if let Some(remote) = self.remote_of(&nack.header) {
                    remote.overhear_requests(nack.requests);
                }
                Ok(())
            }
            Message::Ack(ack) => {
                if self.is_for_us(&ack.header)? {
                    self.sender.handle_ack(now, ack, &mut self.stats);
                } else if ack.kind == AckType::Probe
                    && let Some(remote) = self.remote_of(&ack.header)
                {
                    remote.overhear_probe_answer(ack.header.cc);
                }
                Ok(())
            }
            Message::Report => Ok(()),
        }
    }

    fn is_for_us(&self, header: &FeedbackHeader) -> Result<bool, Reject> {
        if header.source == self.config.node {
            return Err(Reject::OwnNode);
        }
        if header.sender != self.config.node {
            return Ok(false);
        }
        if header.instance != self.config.instance {
            return Err(Reject::StaleInstance);
        }
        Ok(true)
    }

    fn remote_of(&mut self, header: &FeedbackHeader) -> Option<&mut Remote> {
        let index = *self.index.get(&(header.sender, header.instance))?;
        self.remotes.get_mut(index)
    }

    /// Finds the sender of a message, or gets to know it. `None` if it is not to be listened to.
    fn hear(
        &mut self,
        now: Time,
        from: Source,
        header: &SenderHeader,
        new_is_welcome: bool,
    ) -> Result<Option<usize>, Reject> {
        if header.source == self.config.node {
            return Err(Reject::OwnNode);
        }
        if !self.config.receive {
            return Ok(None);
        }
        if let Some(&index) = self.index.get(&(header.source, header.instance)) {
            self.remotes[index].hear(header, from.address, now, self.datagram_bytes);
            return Ok(Some(index));
        }
        if !new_is_welcome {
            return Ok(None);
        }
        let previous = self.remotes.iter().rposition(|remote| remote.node == header.source);
        if let Some(previous) = previous
            && self.remotes[previous].previous == Some(header.instance)
        {
            return Err(Reject::StaleInstance);
        }
        if self.remotes.len() >= self.config.senders_max && !self.forget_idle(now) {
            return Err(Reject::TooManySenders);
        }
        let mut remote = Remote::new(header, from.address, now);
        if let Some(old) = self.remotes.iter_mut().rfind(|remote| remote.node == header.source) {
            remote.previous = Some(old.instance);
            old.departed = Some(CloseReason::Restarted);
            self.departing = true;
        }
        self.events.push_back(Event::SenderHeard { node: remote.node, instance: remote.instance });
        self.index.insert((remote.node, remote.instance), self.remotes.len());
        self.remotes.push(remote);
        Ok(Some(self.remotes.len() - 1))
    }

    /// Makes room by forgetting the sender that was silent longest, if it was silent long enough.
    fn forget_idle(&mut self, now: Time) -> bool {
        let oldest = (0..self.remotes.len()).min_by_key(|&index| self.remotes[index].last_heard);
        let idle = oldest
            .filter(|&index| now.since(self.remotes[index].last_heard) >= self.config.sender_idle_after);
        if let Some(index) = idle {
            self.forget(index, CloseReason::Idle);
        }
        idle.is_some()
    }

    fn forget(&mut self, index: usize, reason: CloseReason) {
        let mut remote = self.remotes.swap_remove(index);
        self.index.remove(&(remote.node, remote.instance));
        if let Some(moved) = self.remotes.get(index) {
            self.index.insert((moved.node, moved.instance), index);
        }
        remote.close(reason, shared!(self));
    }

    /// A deadline that [`Session::poll_timeout`] gave has come. Everything timed is decided by
    /// [`Session::poll_transmit`]; what is left to do here is to forget senders that are gone.
    pub fn handle_timeout(&mut self, _now: Time) {
        self.forget_departed();
    }

    fn forget_departed(&mut self) {
        if !self.departing {
            return;
        }
        let gone = |remote: &Remote| remote.departed.filter(|_| remote.is_drained());
        while let Some((index, reason)) = self
            .remotes
            .iter()
            .enumerate()
            .find_map(|(index, remote)| gone(remote).map(|reason| (index, reason)))
        {
            self.forget(index, reason);
        }
        self.departing = self.remotes.iter().any(|remote| remote.departed.is_some());
    }

    // --- output ---

    /// The next datagrams to send, if any may go now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        if let Some(to) = self.poll_feedback(now) {
            self.stats.datagrams_sent += 1;
            self.stats.bytes_sent += self.feedback.len() as u64;
            return Some(Transmit { to, bytes: &self.feedback, datagram_bytes: self.feedback.len() });
        }
        let (bytes, datagram_bytes) = self.sender.poll_transmit(now, &mut self.stats)?;
        Some(Transmit { to: Destination::Group, bytes, datagram_bytes })
    }

    fn poll_feedback(&mut self, now: Time) -> Option<Destination> {
        for remote in &mut self.remotes {
            if remote.deadline() > now {
                continue;
            }
            remote.expire(now, shared!(self));
            let wrote = remote.poll_transmit(
                now,
                self.feedback_sequence,
                &mut self.requests,
                &mut self.feedback,
                shared!(self),
            );
            if wrote {
                self.feedback_sequence = self.feedback_sequence.wrapping_add(1);
                return Some(match self.config.feedback {
                    FeedbackMode::Multicast => Destination::Group,
                    FeedbackMode::Unicast => Destination::Node(remote.address),
                });
            }
        }
        None
    }

    /// The next bytes of a file to read and to give to [`Session::supply_file`], if any.
    pub fn poll_read(&mut self) -> Option<FileRead> {
        self.sender.objects.poll_read()
    }

    /// The next thing to tell, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.forget_departed();
            self.sender.collect_events(&mut self.events);
        }
        self.events.pop_front()
    }

    /// When to call again if nothing comes in; [`Time::NEVER`] if only input can change anything.
    pub fn poll_timeout(&self) -> Time {
        self.remotes.iter().map(Remote::deadline).fold(self.sender.deadline(), Time::min)
    }
}
