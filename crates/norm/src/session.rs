//! A member of a group: it takes datagrams and time, and gives datagrams, deadlines and events.

use std::time::Duration;

use crate::auth;
use crate::config::{Config, ConfigError};
use crate::datagram::{Destination, Source, Transmit};
use crate::event::Event;
use crate::event_queue::EventQueue;
use crate::rx::Take;
use crate::rx::nack_pacer::NackPacer;
use crate::rx::remote::Remote;
use crate::rx::remotes::Remotes;
use crate::stats::{Reject, Stats, Taken};
use crate::time::Time;
use crate::tx::objects::FileRead;
use crate::tx::sender::Sender;
use crate::tx::stream::TxStream;
use crate::tx::transmission::Output;
use crate::wire::feedback::FeedbackHeader;
use crate::wire::repair::RepairWriter;
use crate::wire::{AckType, Command, Message, parse};
use crate::write_error::WriteError;
use crate::{NodeId, ObjectId};

/// Somebody else has our node id who spoke so often in a row.
const TAKEN_IN_A_ROW: u32 = 4;

/// One member of one group.
#[derive(Debug)]
pub struct Session {
    pub(crate) config: Config,
    pub(crate) sender: Sender,
    pub(crate) remotes: Remotes,
    pub(crate) random: fastrand::Rng,
    pub(crate) stats: Stats,
    pub(crate) events: EventQueue,
    pub(crate) memory_left: usize,
    pub(crate) nacks: NackPacer,
    /// Whether our application has room for objects and commands.
    pub(crate) has_room: bool,
    /// Somebody else speaks under our node id: as which instance, and how often in a row; and that was told.
    taken_by: (u16, u32),
    told_taken: bool,
    /// When anything was heard or sent last.
    pub(crate) heard_at: Time,
    pub(crate) feedback_sequence: u16,
    pub(crate) feedback: Vec<u8>,
    pub(crate) requests: RepairWriter,
}

macro_rules! scope {
    ($session:ident) => {
        scope!($session, $session.heard_at)
    };
    ($session:ident, $now:expr) => {
        &mut $crate::rx::scope::Scope {
            now: $now,
            config: &$session.config,
            random: &mut $session.random,
            memory_left: &mut $session.memory_left,
            nacks: &mut $session.nacks,
            has_room: $session.has_room && $session.events.has_room($session.config.receive_bytes_max),
            stats: &mut $session.stats,
            events: &mut $session.events,
            sequence: $session.feedback_sequence,
            requests: &mut $session.requests,
            feedback: &mut $session.feedback,
        }
    };
}

pub(crate) use scope;

impl Session {
    /// A session, if its configuration can work.
    pub fn new(config: Config) -> Result<Session, ConfigError> {
        config.check()?;
        Ok(Session {
            sender: Sender::new(&config),
            remotes: Remotes::default(),
            random: fastrand::Rng::with_seed(config.seed),
            stats: Stats::default(),
            events: EventQueue::default(),
            memory_left: config.receive_bytes_max,
            nacks: NackPacer::default(),
            has_room: true,
            taken_by: (0, 0),
            told_taken: false,
            heard_at: Time::ZERO,
            feedback_sequence: 0,
            feedback: Vec::with_capacity(2048),
            requests: RepairWriter::default(),
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
        self.sender.pacer.rate_bytes_per_s
    }

    /// The time from one full datagram to the next that the rate and the send delay ask for now; zero if neither does.
    pub fn send_delay(&self) -> Duration {
        self.sender.pacer.send_delay()
    }

    /// The receiver whose reports hold our rate down, where NORM-CC decides it.
    pub fn limiting_receiver(&self) -> Option<NodeId> {
        self.sender.control.limiting_receiver()
    }

    /// Bytes of receive buffers in use.
    pub fn receive_bytes(&self) -> usize {
        self.config.receive_bytes_max - self.memory_left
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
        self.sender.stream(object).map_or(0, |stream| stream.sent)
    }

    /// The oldest segment that can be repaired.
    pub fn oldest_segment(&self, object: ObjectId) -> u64 {
        self.sender.stream(object).map_or(0, |stream| stream.first)
    }

    /// The segment in which the message begins that a receiver may have a part of, if it has everything before `segment`;
    /// `segment` if its beginning is not kept.
    pub fn message_start(&self, object: ObjectId, segment: u64) -> u64 {
        self.sender.stream(object).map_or(0, |stream| stream.message_start(segment))
    }

    /// Every acker has everything of a stream before this segment, whether it still answers or not.
    pub fn acknowledged_segments(&self, object: ObjectId) -> u64 {
        self.sender.stream(object).map_or(0, TxStream::acknowledged)
    }

    /// Bytes the stream took so far.
    pub fn bytes_written(&self, object: ObjectId) -> u64 {
        self.sender.stream(object).map_or(0, |stream| stream.bytes_written())
    }

    /// Ackers that have not everything written to a stream so far, and about how many bytes each lacks.
    pub fn lacking(&self, object: ObjectId) -> Vec<(NodeId, u64)> {
        self.sender.stream(object).map_or_else(Vec::new, |stream| stream.lacking().collect())
    }

    /// Whether everything written to every stream was sent, and acknowledged or announced often enough.
    pub fn is_quiet(&self) -> bool {
        self.sender.is_quiet()
    }

    /// Whether every acker has acknowledged every stream and object; those that no longer answer are not forgiven.
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

    /// Speaks under another node id from now on, which nobody has as far as was heard, and returns it. To receivers this is
    /// another sender, whose streams go on where they are.
    pub fn rename(&mut self) -> NodeId {
        let is_taken = |session: &Session, node| session.senders().any(|sender| sender == node);
        let mut node = self.config.node;
        while node == self.config.node || is_taken(self, node) {
            node = self.random.u32(1..NodeId::MAX);
        }
        self.config.node = node;
        self.sender.rename(node);
        (self.taken_by, self.told_taken) = ((0, 0), false);
        node
    }

    /// Sets whose acknowledgements the window and watermarks wait for. One that is new owes nothing that
    /// was sent before.
    pub fn set_ackers(&mut self, nodes: &[NodeId]) {
        self.sender.set_ackers(nodes, |stream| stream.sent);
        self.sender.objects.set_ackers(nodes, false);
    }

    /// As [`Session::set_ackers`], but one that is new owes everything that can still be repaired.
    pub fn set_ackers_from_oldest(&mut self, nodes: &[NodeId]) {
        self.sender.set_ackers(nodes, |stream| stream.first);
        self.sender.objects.set_ackers(nodes, true);
    }

    /// Sets the same for one stream, which then has ackers of its own.
    pub fn set_stream_ackers(&mut self, object: ObjectId, nodes: &[NodeId], from_oldest: bool) {
        self.sender.set_stream_ackers(object, nodes, from_oldest);
    }

    /// Sets which ackers the windows of streams wait for, however slow they are and however long they are silent: nobody goes
    /// on without them as long as they are listed.
    pub fn set_indispensable(&mut self, nodes: &[NodeId]) {
        self.sender.set_indispensable(nodes);
    }

    /// Sets which ackers read nothing of the streams: that they have room makes nobody slow who does.
    pub fn set_bystanders(&mut self, nodes: &[NodeId]) {
        self.sender.set_bystanders(nodes);
    }

    /// Sets the rate to send at, or the most rate control may choose; `None` is as fast as the caller polls.
    pub fn set_rate(&mut self, rate_bytes_per_s: Option<f64>) {
        self.sender.set_rate(rate_bytes_per_s.map(|rate| rate.max(1.0)));
    }

    /// Sets the group's size, as far as known.
    pub fn set_group_size(&mut self, size: u32) {
        self.sender.set_group_size(size);
    }

    /// Asks the ackers to confirm an object, or everything written to a stream so far; [`Event::WatermarkDone`] tells
    /// the outcome.
    pub fn request_watermark(&mut self, now: Time, object: ObjectId) -> Result<(), WriteError> {
        if self.sender.objects.want_ack(object, &self.sender.ackers, now) {
            return Ok(());
        }
        self.sender.stream_mut(object).ok_or(WriteError::NoStream)?.want_acks(now);
        self.sender.wake(now);
        Ok(())
    }

    /// Says goodbye to the group.
    pub fn leave(&mut self, now: Time) {
        self.sender.leave(now);
    }

    // --- input ---

    /// Takes one datagram. Whatever it holds, the worst that happens is that it is counted.
    pub fn handle_datagram(&mut self, now: Time, from: Source, datagram: &[u8]) {
        self.handle_datagram_with(now, from, datagram, &mut |_, _| false);
    }

    /// As [`Session::handle_datagram`], but bytes of a stream whose reader has everything before them are
    /// offered to `take` where they are. What it takes is read, and is not kept.
    pub fn handle_datagram_with(&mut self, now: Time, from: Source, datagram: &[u8], take: &mut Take<'_>) {
        self.heard_at = self.heard_at.max(now);
        self.stats.datagrams_received += 1;
        self.stats.bytes_received += datagram.len() as u64;
        if let Err(reason) = self.take_datagram(now, from, datagram, take) {
            self.stats.reject(reason);
        }
    }

    /// What a receiver says, to us or to another sender.
    fn handle_feedback(&mut self, now: Time, from: Source, message: &Message<'_>) -> Taken {
        match message {
            Message::Nack(nack) => {
                if self.is_for_us(&nack.header)? {
                    self.sender.handle_nack(now, from, nack, &mut self.stats);
                } else if let Some(remote) = self.remote_of(&nack.header) {
                    remote.overhear_requests(nack.requests);
                }
                Ok(())
            }
            Message::Ack(ack) => {
                if self.is_for_us(&ack.header)? {
                    self.sender.handle_ack(now, from, ack, &mut self.stats);
                } else if ack.kind == AckType::Probe
                    && let Some(remote) = self.remote_of(&ack.header)
                {
                    remote.overhear_probe_answer(ack.header.cc);
                }
                Ok(())
            }
            Message::Data(_) | Message::Info(_) | Message::Command(..) | Message::Report => Ok(()),
        }
    }

    fn take_datagram(&mut self, now: Time, from: Source, datagram: &[u8], take: &mut Take<'_>) -> Taken {
        let message = parse(datagram)?;
        auth::verify(&self.config.auth, datagram, &message)?;
        let Some(header) = message.sender_header() else { return self.handle_feedback(now, from, &message) };
        if header.source == self.config.node {
            self.hear_own_id(header.instance);
            return Err(Reject::OwnNode);
        }
        if !self.config.receive {
            return Ok(());
        }
        // A goodbye is no reason to get acquainted.
        let new_is_welcome = !matches!(message, Message::Command(_, Command::EndOfTransmission));
        let scope = scope!(self, now);
        let Some(remote) = self.remotes.hear(from, header, new_is_welcome, datagram.len(), scope)? else {
            return Ok(());
        };
        match &message {
            Message::Data(data) => {
                let mut handled = remote.handle_data(data, take, scope);
                // Memory goes to whom something comes from, not to whom it is only promised by.
                if handled == Err(Reject::NoMemory)
                    && self.remotes.make_way(header.source, header.instance, scope)
                    && let Some(remote) = self.remotes.get_mut(header.source, header.instance)
                {
                    handled = remote.handle_data(data, take, scope);
                }
                handled
            }
            Message::Info(info) => remote.handle_info(info, scope),
            Message::Command(_, command) => {
                remote.handle_command(from.arrived_at(now), command, scope);
                if remote.departed.is_some() {
                    self.remotes.departing = true;
                }
                Ok(())
            }
            Message::Nack(_) | Message::Ack(_) | Message::Report => Ok(()),
        }
    }

    /// Something came under our node id. A copy of our own words with a byte changed may seem to be of another instance;
    /// somebody who has our id speaks as one and the same.
    fn hear_own_id(&mut self, instance: u16) {
        if instance == self.config.instance {
            return;
        }
        let (before, times) = self.taken_by;
        let times = if before == instance { times.saturating_add(1) } else { 1 };
        self.taken_by = (instance, times);
        if times >= TAKEN_IN_A_ROW && !std::mem::replace(&mut self.told_taken, true) {
            self.events.push_back(Event::NodeIdTaken);
        }
    }

    fn is_for_us(&self, header: &FeedbackHeader) -> Taken<bool> {
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
        self.remotes.get_mut(header.sender, header.instance)
    }

    /// A deadline that [`Session::poll_timeout`] gave has come. Everything timed is decided by
    /// [`Session::poll_transmit`]; what is left to do here is to forget senders that are gone.
    pub fn handle_timeout(&mut self, now: Time) {
        self.remotes.forget_departed(scope!(self, now));
    }

    // --- output ---

    /// The next datagrams to send, if any may go now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        self.heard_at = self.heard_at.max(now);
        if let Some(to) = self.poll_feedback(now) {
            auth::reserve(&mut self.feedback, auth::extension_bytes(&self.config.auth));
            let datagram_bytes = self.feedback.len();
            auth::seal(&self.config.auth, &mut self.feedback, datagram_bytes);
            self.stats.datagrams_sent += 1;
            self.stats.bytes_sent += self.feedback.len() as u64;
            return Some(Transmit { to, bytes: &self.feedback, datagram_bytes, stream: None, about: None });
        }
        let Output { bytes, datagram_bytes, stream, about } =
            self.sender.poll_transmit(now, &mut self.stats)?;
        auth::seal(&self.config.auth, bytes, datagram_bytes);
        Some(Transmit { to: Destination::Group, bytes, datagram_bytes, stream, about })
    }

    fn poll_feedback(&mut self, now: Time) -> Option<Destination> {
        // Whom we hear is about who hears us.
        self.nacks.set_group(self.remotes.count());
        self.sender.observe_group(self.remotes.count() as u32 + 1);
        let scope = scope!(self, now);
        let to = self.remotes.serve(now, |remote| {
            remote.objects.expire(scope);
            remote.poll_transmit(scope)
        });
        if to.is_some() {
            self.feedback_sequence = self.feedback_sequence.wrapping_add(1);
        }
        to
    }

    /// The next bytes of a file to read and to give to [`Session::supply_file`], if any.
    pub fn poll_read(&mut self) -> Option<FileRead> {
        self.sender.objects.poll_read()
    }

    /// Whether there is something to tell at once.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next thing to tell, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.remotes.forget_departed(scope!(self));
            self.sender.collect_events(self.events.news());
        }
        self.events.pop_front()
    }

    /// When to call again if nothing comes in; [`Time::NEVER`] if only input can change anything.
    pub fn poll_timeout(&self) -> Time {
        self.sender.deadline().min(self.remotes.deadline())
    }
}
