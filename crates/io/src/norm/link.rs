//! The handle of a NORM link, and its thread.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shoal_norm::{Config, ConfigError, NodeId, ObjectId, Session, Stats, StreamOptions, Time, WriteError};

use super::Application;
use super::engine::{Engine, RUN_BYTES};
use super::lane::Lane;
use super::outbox::{Full, Outbox, SendError};
use crate::clock::Clock;
use crate::files::Files;
use crate::interfaces::{ETHERNET_MTU, InterfaceInfo};
use crate::udp::{LinkAddress, RUN_BYTES_MAX, SocketOptions, Sockets, Waker, Which};

/// While a stream flows, less than a run waits so long for company.
const GATHER: Duration = Duration::from_micros(50);
/// A publisher that comes so soon after the last data went out is likely to come again at once.
const RAPID: Duration = Duration::from_micros(20);
/// How long to wait for a full socket before looking at the time again.
const SOCKET_PATIENCE: Duration = Duration::from_millis(2);
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_millis(20);
/// Segments in a run at the least, however long packets may be: a run that is lost is lost as a whole.
const RUN_SEGMENTS_MIN: usize = 8;
/// No segment is shorter, even where packets are so short that it takes several.
const SEGMENT_BYTES_MIN: usize = 512;
/// The thread wakes at least so often, should a wake-up ever be missed.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// What the thread is doing, as publishers need to know it.
mod state {
    /// It will look at the outbox before it sleeps.
    pub const BUSY: u8 = 0;
    /// It sleeps for a moment to let small amounts gather.
    pub const GATHERING: u8 = 1;
    /// It sleeps until something happens.
    pub const IDLE: u8 = 2;
}

/// One lane: a stream of its own.
#[derive(Clone, Debug, Default)]
pub struct LaneOptions {
    /// The stream.
    pub stream: StreamOptions,
    /// Whether [`shoal_wire::Mark`]s say when its messages were sent, and number them.
    pub marks: bool,
}

/// An instance id for a new run of a node. Receivers tell by it that what they know of the node is of an earlier
/// run, and so it comes from the system's randomness, not from a seed that may be the same each time.
pub fn fresh_instance() -> u16 {
    RandomState::new().hash_one(std::process::id()) as u16
}

/// A NORM link.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Where it is.
    pub address: LinkAddress,
    /// Its sockets.
    pub sockets: SocketOptions,
    /// Its session.
    pub norm: Config,
    /// Whether segments are as long as the interface takes them; otherwise the session says how long.
    pub fit_segments: bool,
    /// Its lanes, by precedence. None makes a link that only receives.
    pub lanes: Vec<LaneOptions>,
    /// Whose acknowledgements windows and watermarks wait for.
    pub ackers: Vec<NodeId>,
    /// Bytes that may wait in a lane before its publishers wait.
    pub lane_bytes_max: usize,
    /// The longest message to send or to take.
    pub message_bytes_max: usize,
    /// Where received files go; without it their chunks go to the application.
    pub files_directory: Option<PathBuf>,
    /// Whether closing ends the streams; otherwise it only says goodbye.
    pub end_streams: bool,
    /// Share of received datagrams to throw away, for tests of repair.
    pub drop_received: f64,
}

impl LinkOptions {
    /// A link with one lane and the usual bounds.
    pub fn new(address: LinkAddress, norm: Config) -> LinkOptions {
        LinkOptions {
            address,
            sockets: SocketOptions::default(),
            norm,
            fit_segments: false,
            lanes: vec![LaneOptions::default()],
            ackers: Vec::new(),
            lane_bytes_max: 1 << 20,
            message_bytes_max: 128 << 20,
            files_directory: None,
            end_streams: true,
            drop_received: 0.0,
        }
    }
}

/// Why a link could not be opened.
#[derive(Debug)]
pub enum LinkError {
    /// An option cannot work.
    Config(ConfigError),
    /// A stream cannot be opened.
    Stream(WriteError),
    /// The system refused.
    Io(io::Error),
}

impl fmt::Display for LinkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Config(error) => error.fmt(out),
            LinkError::Stream(error) => error.fmt(out),
            LinkError::Io(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for LinkError {}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        LinkError::Io(error)
    }
}

struct Shared {
    engine: Mutex<Engine>,
    outbox: Arc<Outbox>,
    sockets: Arc<Sockets>,
    state: AtomicU8,
    /// Until when the thread sleeps, in the engine's nanoseconds.
    sleeps_until: AtomicU64,
    closing: Mutex<Option<Instant>>,
    end_streams: bool,
}

impl Shared {
    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(&self) -> Option<Instant> {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A NORM link. Dropping it closes it without lingering.
pub struct NormLink {
    clock: Clock,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl NormLink {
    /// Opens the sockets and starts the thread.
    pub fn open(options: LinkOptions, application: Box<dyn Application>) -> Result<NormLink, LinkError> {
        let sockets = Arc::new(Sockets::open(&options.address, &options.sockets)?);
        let mut norm = options.norm.clone();
        if options.fit_segments {
            norm.segment_bytes = fitting_segment(&sockets, options.address.group.is_ipv6(), &norm);
        }
        let mut session = Session::new(norm).map_err(LinkError::Config)?;
        session.set_ackers(&options.ackers);
        let mut lanes = Vec::new();
        for lane in &options.lanes {
            let object = session.open_stream(&lane.stream).map_err(LinkError::Stream)?;
            lanes.push(Lane::new(object, lane.marks));
        }
        let outbox = Arc::new(Outbox::new(lanes.len(), options.lane_bytes_max, options.message_bytes_max));
        let mut engine = Engine::new(
            session,
            lanes,
            sockets.destination(),
            outbox.clone(),
            sockets.clone(),
            application,
            options.drop_received,
        );
        engine.files = Files::new(options.files_directory.clone());
        let (waker, clock) = (sockets.waker(), engine.clock);
        let shared = Arc::new(Shared {
            engine: Mutex::new(engine),
            outbox,
            sockets,
            state: AtomicU8::new(state::BUSY),
            sleeps_until: AtomicU64::new(0),
            closing: Mutex::new(None),
            end_streams: options.end_streams,
        });
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new().name("shoal-norm".into()).spawn(move || run(&shared))?
        };
        Ok(NormLink { clock, shared, waker, thread: Mutex::new(Some(thread)) })
    }

    /// Sends a message made of `parts` on a lane.
    pub fn send(&self, lane: usize, parts: &[&[u8]], full: Full) -> Result<(), SendError> {
        let waiting = self.shared.outbox.append(lane, parts, full)?;
        match self.shared.state.load(Ordering::SeqCst) {
            state::IDLE => self.send_now(),
            state::GATHERING if waiting >= RUN_BYTES => self.waker.wake(),
            _ => {}
        }
        Ok(())
    }

    /// The thread sleeps: send from here if nothing was sent a moment ago, otherwise wake it, because
    /// more is likely to follow and one thread gathers better than two.
    fn send_now(&self) {
        if let Ok(mut engine) = self.shared.engine.try_lock()
            && engine.clock.now() >= engine.last_sent + RAPID
        {
            let more = engine.write_and_transmit(false);
            let deadline = engine.session.poll_timeout().as_nanos();
            if !more && deadline >= self.shared.sleeps_until.load(Ordering::SeqCst) {
                return;
            }
        }
        self.waker.wake();
    }

    /// The application has room again, or wants a turn.
    pub fn resume(&self) {
        self.waker.wake();
    }

    /// Gives the application a turn here and now, and sends what it says, so that whatever the caller does
    /// next comes after it.
    pub fn serve_now(&self) {
        self.shared.engine().serve_and_transmit();
        self.waker.wake();
    }

    /// Gives a command to the session, and lets the thread act on it.
    pub fn command<R>(&self, command: impl FnOnce(&mut Session, Time) -> R) -> R {
        let mut engine = self.shared.engine();
        let now = engine.clock.now();
        let result = command(&mut engine.session, now);
        drop(engine);
        self.waker.wake();
        result
    }

    /// Microseconds by the clock that [`shoal_wire::Mark`]s show.
    pub fn clock_us(&self) -> u64 {
        self.clock.now().as_nanos() / 1000
    }

    /// What waits to be sent.
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.shared.outbox
    }

    /// Our node id.
    pub fn node(&self) -> NodeId {
        self.shared.engine().session.node()
    }

    /// What the session did so far.
    pub fn stats(&self) -> Stats {
        self.shared.engine().session.stats().clone()
    }

    /// The group's round-trip time as we estimate it.
    pub fn grtt(&self) -> Duration {
        self.shared.engine().session.grtt()
    }

    /// The sockets, for what they can tell.
    pub fn sockets(&self) -> &Sockets {
        &self.shared.sockets
    }

    /// The receive buffer the kernel granted to the group's socket.
    pub fn receive_buffer_bytes(&self) -> io::Result<usize> {
        self.shared.sockets.receive_buffer_bytes(Which::Group)
    }

    /// Sends bytes as one object. `None` if there is no room for them now.
    pub fn send_data(&self, content: &[u8], info: &[u8]) -> Result<Option<ObjectId>, WriteError> {
        self.command(|session, now| session.send_data(now, content, info))
    }

    /// Sends a file from disk. `None` if there is no room for it now.
    pub fn send_file(&self, path: &Path, info: &[u8]) -> Result<Option<ObjectId>, LinkError> {
        let (file, length) = Files::open(path)?;
        let mut engine = self.shared.engine();
        let now = engine.clock.now();
        let sent = engine.session.send_file(now, length, info).map_err(LinkError::Stream)?;
        if let Some(object) = sent {
            engine.files.send(object, file);
        }
        drop(engine);
        self.waker.wake();
        Ok(sent)
    }

    /// Forgets an object being sent. Receivers that still miss parts of it are refused. False if there is none.
    pub fn cancel_object(&self, object: ObjectId) -> bool {
        self.command(|session, _| session.cancel_object(object))
    }

    /// The last thing the disk refused, once.
    pub fn take_file_error(&self) -> Option<String> {
        self.shared.engine().files.error.take()
    }

    /// The last error a socket gave, once.
    pub fn take_socket_error(&self) -> Option<String> {
        self.shared.engine().socket_error.take()
    }

    /// Drops what ran on top of a closed link, so that whoever waits for it learns that nothing will come.
    pub fn drop_application(&self) {
        if self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            self.shared.engine().drop_application();
        }
    }

    /// Begins to close, as [`NormLink::close`] does, without waiting for it.
    pub fn begin_close(&self, linger: Duration) {
        self.shared.outbox.close();
        let until = Instant::now() + linger;
        self.shared.closing.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(until);
        self.waker.wake();
    }

    /// Whether the thread ended.
    pub fn has_left(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Closes the link: takes nothing more, waits up to `linger` until everything was sent and
    /// acknowledged or announced, says goodbye, and ends the thread. Returns whether all of it went, and every
    /// acker said so: one that stopped answering is not waited for, and not forgiven.
    pub fn close(&self, linger: Duration) -> bool {
        self.shared.outbox.close();
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return true;
        };
        let until = Instant::now() + linger;
        {
            let mut closing = self.shared.closing.lock().unwrap_or_else(PoisonError::into_inner);
            *closing = Some(closing.map_or(until, |begun| begun.min(until)));
        }
        self.waker.wake();
        let joined = thread.join().is_ok();
        let mut engine = self.shared.engine();
        engine.files.discard_incoming();
        joined && engine.is_drained() && (engine.session.is_acknowledged() || !engine.has_audience())
    }
}

impl Drop for NormLink {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

/// The longest segment that travels in one packet, and of which a run still takes several.
fn fitting_segment(sockets: &Sockets, ipv6: bool, norm: &Config) -> u16 {
    let mtu = sockets.interface().map_or(ETHERNET_MTU, InterfaceInfo::mtu);
    let packet_header = if ipv6 { 48 } else { 28 };
    let datagram = mtu.saturating_sub(packet_header).min(RUN_BYTES_MAX / RUN_SEGMENTS_MIN);
    datagram.saturating_sub(norm.header_bytes()).max(SEGMENT_BYTES_MIN) as u16
}

/// The thread of a link.
fn run(shared: &Shared) {
    let mut goodbye: Option<Instant> = None;
    loop {
        shared.state.store(state::BUSY, Ordering::SeqCst);
        let mut engine = shared.engine();
        let gather_until = engine.last_sent + GATHER;
        let now = engine.clock.now();
        let closing = shared.closing();
        let waiting = engine.waiting();
        let gathering = waiting < RUN_BYTES && now < gather_until && closing.is_none();
        let next = engine.turn(gathering);
        if let Some(limit) = closing {
            if shared.end_streams && engine.end_streams() {
                continue;
            }
            let over = Instant::now() >= limit;
            match goodbye {
                None if over || engine.is_drained() => {
                    let now = engine.clock.now();
                    engine.session.leave(now);
                    goodbye = Some(Instant::now() + GOODBYE);
                    continue;
                }
                Some(end) if Instant::now() >= end || engine.session.has_left() => return,
                _ => {}
            }
        }
        if next.again {
            continue;
        }
        let now = engine.clock.now();
        drop(engine);

        let mut deadline = next.deadline.min(now + SLEEP_MAX);
        if next.want_write {
            // Whatever is due has to wait for the socket.
            deadline = deadline.max(now + SOCKET_PATIENCE);
        }
        if closing.is_some() {
            deadline = deadline.min(now + Duration::from_millis(1));
        }
        shared.sleeps_until.store(deadline.as_nanos(), Ordering::SeqCst);
        // A stream that takes no more is moved on by its receivers; publishers need not wake us.
        if !next.blocked {
            shared.state.store(state::IDLE, Ordering::SeqCst);
            // A publisher that came before this saw a busy thread, and trusts that we look once more.
            let waits = shared.outbox.waiting() > 0;
            if waits && !gathering {
                continue;
            }
            if waits {
                deadline = deadline.min(gather_until);
                shared.state.store(state::GATHERING, Ordering::SeqCst);
            }
        }
        let wait = deadline.since(now);
        if let Err(error) = shared.sockets.wait(Some(wait), next.want_write) {
            shared.engine().socket_error = Some(error.to_string());
        }
    }
}
