//! What the link's thread does in one turn: receive, deliver, write, transmit.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use shoal_norm::{Chunk, Destination, Event, Session, Source, StreamId, Time};

use super::lane::Lane;
use super::outbox::Outbox;
use super::{Application, Taken};
use crate::clock::Clock;
use crate::files::{FileFailure, Files};
use crate::udp::{ReceiveBuffers, Run, Sockets, Which};

/// Runs received by one call: few enough to stay in the processor's cache until they are read.
const RUNS_RECEIVED: usize = 4;
/// Calls that receive before anything is sent, and runs sent before anything is received.
const RECEIVES_A_TURN: usize = 8;
const SENDS_A_TURN: usize = 16;

/// What an application is offered at once, though its window holds more: it may have room for no more than that.
const READ_BYTES: usize = 64 << 10;

/// A run of datagrams is worth a system call from so many bytes on.
pub const RUN_BYTES: usize = 60_000;

/// A run the socket had no room for.
#[derive(Debug, Default)]
struct Unsent {
    to: Option<SocketAddr>,
    bytes: Vec<u8>,
    datagram_bytes: usize,
}

/// The driven half of a link.
pub struct Engine {
    pub session: Session,
    pub lanes: Vec<Lane>,
    pub clock: Clock,
    /// The last error a socket gave, until somebody asks.
    pub socket_error: Option<String>,
    /// When data went out last.
    pub last_sent: Time,
    outbox: Arc<Outbox>,
    sockets: Arc<Sockets>,
    group: SocketAddr,
    application: Box<dyn Application>,
    /// Streams that may have something to read.
    readable: Vec<StreamId>,
    /// Streams whose reader lost its place.
    broken: Vec<StreamId>,
    buffers: ReceiveBuffers,
    unsent: Unsent,
    /// Share of received datagrams to throw away, for tests of repair.
    drop_received: f64,
    random: fastrand::Rng,
    ending: bool,
    /// Files being sent and received.
    pub files: Files,
    /// Kept for its memory.
    control: Vec<u8>,
}

/// Takes the place of an application that is gone.
struct Deaf;

impl Application for Deaf {
    fn take(&mut self, _now: Time, _stream: StreamId, _chunk: Chunk<'_>) -> Taken {
        Taken::Nothing
    }

    fn event(&mut self, _now: Time, _session: &mut Session, _event: &Event) {}

    fn batch_done(&mut self) {}
}

/// What the thread is to do next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// There may be more to do at once.
    pub again: bool,
    /// Otherwise: when something is due.
    pub deadline: Time,
    /// And whether to wait for room to send.
    pub want_write: bool,
    /// A stream takes no more for now.
    pub blocked: bool,
}

impl Engine {
    pub fn new(
        session: Session,
        lanes: Vec<Lane>,
        group: SocketAddr,
        outbox: Arc<Outbox>,
        sockets: Arc<Sockets>,
        application: Box<dyn Application>,
        drop_received: f64,
    ) -> Engine {
        let random = fastrand::Rng::with_seed(session.config().seed);
        Engine {
            session,
            lanes,
            clock: Clock::start(),
            socket_error: None,
            last_sent: Time::ZERO,
            outbox,
            sockets,
            group,
            application,
            readable: Vec::new(),
            broken: Vec::new(),
            buffers: ReceiveBuffers::new(RUNS_RECEIVED),
            unsent: Unsent::default(),
            drop_received,
            random,
            ending: false,
            files: Files::default(),
            control: Vec::new(),
        }
    }

    /// One turn. `hold_writes` leaves small amounts in the outbox, so that they gather.
    pub fn turn(&mut self, hold_writes: bool) -> Next {
        let received = self.receive();
        self.note_room();
        self.deliver();
        self.serve();
        let sent = self.write_and_transmit(hold_writes);
        self.deliver();
        Next {
            again: received || sent,
            deadline: self.session.poll_timeout().min(self.application.deadline()),
            want_write: self.unsent.to.is_some(),
            blocked: self.application.holds_writes() || self.lanes.iter().any(|lane| lane.waiting() > 0),
        }
    }

    /// A turn of the application between the thread's own.
    pub fn serve_and_transmit(&mut self) {
        self.serve();
        self.write_and_transmit(false);
    }

    /// Gives the application its turn.
    fn serve(&mut self) {
        let now = self.clock.now();
        let mut control = std::mem::take(&mut self.control);
        self.application.serve(now, &mut self.session, &mut control);
        if let Some(lane) = self.lanes.first_mut() {
            lane.say_first(&control);
        }
        control.clear();
        self.control = control;
    }

    fn receive(&mut self) -> bool {
        let mut more = false;
        for which in [Which::Own, Which::Group] {
            for turn in 0..RECEIVES_A_TURN {
                match self.sockets.receive(which, &mut self.buffers) {
                    Ok(runs) => {
                        self.handle_received(which);
                        if runs < RUNS_RECEIVED {
                            break;
                        }
                    }
                    Err(error) => {
                        if error.kind() != ErrorKind::WouldBlock {
                            self.socket_error = Some(error.to_string());
                        }
                        break;
                    }
                }
                more |= turn + 1 == RECEIVES_A_TURN;
            }
        }
        more
    }

    /// Tells the session whether the application has room, which asks for what it could not take if it has it again.
    fn note_room(&mut self) {
        self.session.set_room(self.clock.now(), self.application.has_room());
    }

    fn handle_received(&mut self, which: Which) {
        let buffers = std::mem::take(&mut self.buffers);
        for run in buffers.runs() {
            self.note_room();
            let from = Source { address: run.from, unicast: which == Which::Own, waited: run.waited };
            self.handle_run(from, &run);
            // What was said in this run may decide what becomes of the next.
            if self.session.has_events() || self.application.wants_turn() {
                self.deliver();
                self.serve();
            }
        }
        self.buffers = buffers;
        self.application.batch_done();
    }

    fn handle_run(&mut self, from: Source, run: &Run<'_>) {
        let now = self.clock.now();
        let Engine { session, application, broken, random, drop_received, .. } = self;
        let mut take = |stream, chunk: Chunk<'_>| {
            // What follows in this run belongs to a message of which the beginning was thrown away.
            if broken.contains(&stream) {
                return false;
            }
            let taken = application.take(now, stream, chunk);
            if taken == Taken::Broken {
                broken.push(stream);
            }
            taken != Taken::Nothing
        };
        for datagram in run.datagrams() {
            if *drop_received > 0.0 && random.f64() < *drop_received {
                continue;
            }
            session.handle_datagram_with(now, from, datagram, &mut take);
        }
        for stream in self.broken.drain(..) {
            self.session.resync(now, stream);
        }
    }

    /// Hands everything that can be read to the application.
    fn deliver(&mut self) {
        let mut told = false;
        let now = self.clock.now();
        while let Some(event) = self.session.poll_event() {
            told = true;
            match event {
                Event::Readable { stream } => {
                    if !self.readable.contains(&stream) {
                        self.readable.push(stream);
                    }
                    self.read_streams();
                }
                Event::Writable { .. } => {}
                event if self.files.on_event(&event) => told |= self.tell_files(),
                event => self.application.event(now, &mut self.session, &event),
            }
        }
        told |= self.read_streams();
        told |= self.tell_files();
        if told {
            self.application.batch_done();
        }
    }

    /// Tells what is complete, and what the disk refused, and asks nobody for more of that.
    fn tell_files(&mut self) -> bool {
        let stored = std::mem::take(&mut self.files.stored);
        stored.iter().for_each(|stored| self.application.file_stored(stored));
        let failures = std::mem::take(&mut self.files.failures);
        for failure in &failures {
            if let FileFailure::Receiving(object, _) = failure {
                self.session.abandon_object(*object);
            }
            self.application.file_failed(failure);
        }
        !stored.is_empty() || !failures.is_empty()
    }

    fn read_streams(&mut self) -> bool {
        if self.readable.is_empty() {
            return false;
        }
        let now = self.clock.now();
        let mut readable = std::mem::take(&mut self.readable);
        readable.retain(|&stream| self.read_stream(stream, now));
        self.readable = readable;
        true
    }

    /// Reads a stream as far as the application takes it. True if there may be more.
    fn read_stream(&mut self, stream: StreamId, now: Time) -> bool {
        while let Some(chunk) = self.session.read(stream) {
            let used = chunk.bytes.len().min(READ_BYTES);
            let taken = self.application.take(now, stream, Chunk { bytes: &chunk.bytes[..used], ..chunk });
            if taken == Taken::Nothing {
                return true;
            }
            self.session.consume(now, stream, used);
            if taken == Taken::Broken {
                self.session.resync(now, stream);
            }
        }
        false
    }

    /// Moves what waits into the streams and onto the network. True if there may be more.
    pub fn write_and_transmit(&mut self, hold_writes: bool) -> bool {
        if !hold_writes {
            self.write();
        }
        for _ in 0..SENDS_A_TURN {
            if !self.transmit() {
                return false;
            }
            // What came meanwhile goes along if it fills a run; otherwise it may gather until the next turn.
            if !hold_writes && self.outbox.waiting() >= RUN_BYTES {
                self.write();
            }
        }
        true
    }

    fn write(&mut self) {
        let now = self.clock.now();
        let version = self.application.announced_version();
        let open = if self.application.holds_writes() { 1 } else { self.lanes.len() };
        for (index, lane) in self.lanes[..open].iter_mut().enumerate() {
            lane.write(now, &mut self.session, &self.outbox, index, version);
            if self.ending && lane.waiting() == 0 {
                let _ = self.session.close_stream(now, lane.object);
            }
        }
    }

    /// Sends one run. False if there is none, or no room for it.
    fn transmit(&mut self) -> bool {
        let now = self.clock.now();
        if let Some(to) = self.unsent.to {
            match self.sockets.send_run(to, &self.unsent.bytes, self.unsent.datagram_bytes) {
                Ok(sent) if sent >= self.unsent.bytes.len() => self.unsent.to = None,
                Ok(sent) => {
                    self.unsent.bytes.drain(..sent);
                    return false;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => self.fail(&error),
            }
        }
        self.files.serve(&mut self.session);
        let segments = self.session.stats().segments_sent;
        let Some(out) = self.session.poll_transmit(now) else {
            return false;
        };
        let to = match out.to {
            Destination::Group => self.group,
            Destination::Node(address) => address,
        };
        let sent = match self.sockets.send_run(to, out.bytes, out.datagram_bytes) {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => {
                self.fail(&error);
                return true;
            }
        };
        if sent < out.bytes.len() {
            self.unsent.to = Some(to);
            self.unsent.datagram_bytes = out.datagram_bytes;
            self.unsent.bytes.clear();
            self.unsent.bytes.extend_from_slice(&out.bytes[sent..]);
            return false;
        }
        if self.session.stats().segments_sent > segments {
            self.last_sent = now;
        }
        true
    }

    /// What could not be sent counts as lost on the way: it will be repaired.
    fn fail(&mut self, error: &std::io::Error) {
        self.unsent.to = None;
        self.socket_error = Some(error.to_string());
    }

    /// Puts an application in place of the one there was, which hears nothing.
    pub fn drop_application(&mut self) {
        self.application = Box::new(Deaf);
    }

    /// Ends every lane's stream once its frames are written. True if that was not asked for before.
    pub fn end_streams(&mut self) -> bool {
        !std::mem::replace(&mut self.ending, true)
    }

    /// Everything given to the link was sent, and acknowledged or announced.
    pub fn is_drained(&self) -> bool {
        self.unsent.to.is_none()
            && self.outbox.waiting() == 0
            && self.lanes.iter().all(|lane| lane.waiting() == 0)
            && (self.session.is_quiet() || (self.session.is_sent() && !self.has_audience()))
    }

    /// Whether somebody may be there who has not everything yet.
    pub fn has_audience(&self) -> bool {
        self.application.has_audience(&self.session)
    }

    /// Bytes that wait to be written to streams.
    pub fn waiting(&self) -> usize {
        self.outbox.waiting() + self.lanes.iter().map(Lane::waiting).sum::<usize>()
    }
}
