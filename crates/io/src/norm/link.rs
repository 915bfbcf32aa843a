//! The handle of a NORM link, and its thread.

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shoal_node::Chains;
use shoal_node::hub::{LinkBell, LinkId, Ring, SendError};
use shoal_node::norm::{Application, Driver};
use shoal_norm::{Config, ConfigError, NodeId, ObjectId, Session, Stats, StreamOptions, Time, WriteError};
use shoal_seal::{Keys, OVERHEAD_BYTES};

use super::engine::{Engine, RUN_BYTES};
use super::sealing::{PLAIN_RUN_BYTES_MAX, Sealing};
use crate::bell::Bell;
use crate::clock::Clock;
use crate::files::Files;
use crate::interfaces::{ETHERNET_MTU, InterfaceInfo};
use crate::udp::{LinkAddress, RUN_BYTES_MAX, SocketOptions, Sockets, Waker, Which};
use crate::waiter::Waiter;

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

/// What to do when a lane is full.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Full {
    /// Wait for room, so long at the most.
    Wait(Option<Duration>),
    /// Refuse.
    Refuse,
}

/// An instance id for a new run of a node. Receivers tell by it that what they know of the node is of an earlier
/// run, and so it comes from the system's randomness, not from a seed that may be the same each time.
pub fn fresh_instance() -> u16 {
    RandomState::new().hash_one(std::process::id()) as u16
}

/// Who publishes, for a new connection: a number that no connection had before, and never 0.
pub fn fresh_publisher() -> u64 {
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // The system's randomness is copied into a forked child, where the process is another one.
    RandomState::new().hash_one((std::process::id(), moment.as_nanos())).max(1)
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
    /// The streams of its lanes. None makes a link that only receives.
    pub lanes: Vec<StreamOptions>,
    /// Whose acknowledgements windows and watermarks wait for.
    pub ackers: Vec<NodeId>,
    /// Bytes that may wait in a lane before its publishers wait.
    pub lane_bytes_max: usize,
    /// The longest message to send or to take.
    pub message_bytes_max: usize,
    /// Where received files go, for an application that stores them.
    pub files_directory: Option<PathBuf>,
    /// Whether closing ends the streams; otherwise it only says goodbye.
    pub end_streams: bool,
    /// The keys of its group, if it has any: then every datagram is sealed.
    pub keys: Option<Keys>,
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
            lanes: vec![StreamOptions::default()],
            ackers: Vec::new(),
            lane_bytes_max: 1 << 20,
            message_bytes_max: 128 << 20,
            files_directory: None,
            end_streams: true,
            keys: None,
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
    chains: Arc<Chains>,
    link: LinkId,
    /// The buffers are the link's own, not a hub's.
    owns_chains: bool,
    sockets: Arc<Sockets>,
    clock: Clock,
    waker: Waker,
    state: Arc<AtomicU8>,
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

    /// The thread sleeps: send from here if nothing was sent a moment ago, otherwise wake it, because
    /// more is likely to follow and one thread gathers better than two.
    fn send_now(&self) {
        if let Ok(mut engine) = self.engine.try_lock()
            && engine.clock.now() >= engine.last_sent + RAPID
        {
            let done = guarded(&mut engine, |engine| {
                let more = engine.write_and_transmit(false);
                let deadline = engine.driver.session.poll_timeout().as_nanos();
                !more && deadline >= self.sleeps_until.load(Ordering::SeqCst)
            });
            if done == Some(true) {
                return;
            }
        }
        self.waker.wake();
    }

    /// Gives the application a turn here and now, and sends what it says, so that whatever the caller does
    /// next comes after it.
    fn serve_now(&self) {
        guarded(&mut self.engine(), Engine::serve_and_transmit);
        self.waker.wake();
    }
}

/// How a hub reaches a NORM link, which is opened after the hub knows of it.
pub struct NormBell {
    state: Arc<AtomicU8>,
    link: Arc<OnceLock<Weak<Shared>>>,
}

impl NormBell {
    /// The bell of a link that is not open yet.
    pub fn new() -> NormBell {
        NormBell { state: Arc::new(AtomicU8::new(state::BUSY)), link: Arc::default() }
    }

    /// Another one of the same link.
    fn twin(&self) -> NormBell {
        NormBell { state: self.state.clone(), link: self.link.clone() }
    }

    /// The two halves: what the hub rings, and what the link is opened with.
    pub fn pair() -> (Box<NormBell>, NormBell) {
        let bell = NormBell::new();
        (Box::new(bell.twin()), bell)
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.link.get().and_then(Weak::upgrade)
    }
}

impl Default for NormBell {
    fn default() -> NormBell {
        NormBell::new()
    }
}

impl LinkBell for NormBell {
    #[inline]
    fn is_slow(&self) -> bool {
        self.state.load(Ordering::SeqCst) == state::IDLE
    }

    #[inline]
    fn ring(&self, why: Ring) {
        match why {
            Ring::Data(_, waiting) => match self.state.load(Ordering::SeqCst) {
                state::IDLE => {
                    if let Some(shared) = self.shared() {
                        shared.send_now();
                    }
                }
                state::GATHERING if waiting >= RUN_BYTES => {
                    if let Some(shared) = self.shared() {
                        shared.waker.wake();
                    }
                }
                _ => {}
            },
            Ring::Interest => {
                if let Some(shared) = self.shared() {
                    shared.serve_now();
                }
            }
            Ring::Turn => {
                if let Some(shared) = self.shared() {
                    shared.waker.wake();
                }
            }
        }
    }
}

/// A NORM link. Dropping it closes it without lingering.
pub struct NormLink {
    shared: Arc<Shared>,
    bell: NormBell,
    /// Where publishers wait, if the buffers are the link's own.
    room: Arc<Waiter>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl NormLink {
    /// Opens the sockets and starts the thread. The link has buffers of its own.
    pub fn open(options: LinkOptions, application: Box<dyn Application>) -> Result<NormLink, LinkError> {
        let room = Arc::new(Waiter::default());
        let chains =
            Chains::new(options.lanes.len(), options.lane_bytes_max, options.message_bytes_max, room.clone());
        chains.open(0);
        let place = (Arc::new(chains), 0);
        NormLink::start(options, Clock::start(), place, NormBell::new(), application, Some(room))
    }

    /// The same, as a link of a hub, which has its buffers and rings its bell.
    pub fn open_on(
        options: LinkOptions,
        clock: Clock,
        place: (Arc<Chains>, LinkId),
        bell: NormBell,
        application: Box<dyn Application>,
    ) -> Result<NormLink, LinkError> {
        NormLink::start(options, clock, place, bell, application, None)
    }

    fn start(
        options: LinkOptions,
        clock: Clock,
        (chains, link): (Arc<Chains>, LinkId),
        bell: NormBell,
        application: Box<dyn Application>,
        room: Option<Arc<Waiter>>,
    ) -> Result<NormLink, LinkError> {
        let sockets = Arc::new(Sockets::open(&options.address, &options.sockets)?);
        let mut norm = options.norm.clone();
        let overhead = if options.keys.is_some() { OVERHEAD_BYTES } else { 0 };
        if options.fit_segments {
            norm.segment_bytes = fitting_segment(&sockets, options.address.group.is_ipv6(), &norm, overhead);
        }
        if options.keys.is_some() {
            norm.burst_bytes_max = norm.burst_bytes_max.min(PLAIN_RUN_BYTES_MAX);
            if usize::from(norm.segment_bytes) + norm.header_bytes() + OVERHEAD_BYTES > RUN_BYTES_MAX {
                let wanted = "so small that a datagram with a key stays within 65507 bytes";
                return Err(LinkError::Config(ConfigError { field: "segment_bytes", wanted }));
            }
        }
        let session = Session::new(norm).map_err(LinkError::Config)?;
        let driver = Driver::new(session, &options.ackers, &options.lanes, chains.clone(), link, application)
            .map_err(LinkError::Stream)?;
        let sealing = options.keys.map(Sealing::new);
        let engine = Engine::new(
            driver,
            clock,
            (chains.clone(), link),
            sockets.clone(),
            sealing,
            options.drop_received,
        );
        let shared = Arc::new(Shared {
            engine: Mutex::new(engine),
            chains,
            link,
            owns_chains: room.is_some(),
            clock,
            waker: sockets.waker(),
            sockets,
            state: bell.state.clone(),
            sleeps_until: AtomicU64::new(0),
            closing: Mutex::new(None),
            end_streams: options.end_streams,
        });
        let _ = bell.link.set(Arc::downgrade(&shared));
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new().name("shoal-norm".into()).spawn(move || supervise(&shared))?
        };
        let room = room.unwrap_or_default();
        Ok(NormLink { shared, bell, room, thread: Mutex::new(Some(thread)) })
    }

    /// Sends a message made of `parts` on a lane of a link that has its own buffers.
    pub fn send(&self, lane: usize, parts: &[&[u8]], full: Full) -> Result<(), SendError> {
        let deadline = match full {
            Full::Wait(limit) => limit.map(|limit| Instant::now() + limit),
            Full::Refuse => Some(Instant::now()),
        };
        loop {
            let seen = self.room.seen();
            match self.shared.chains.append(lane, self.shared.link, parts) {
                Ok(Some(waiting)) => {
                    self.bell.ring(Ring::Data(lane, waiting));
                    return Ok(());
                }
                Ok(None) => return Ok(()),
                Err(SendError::Full) if deadline.is_none_or(|at| at > Instant::now()) => {
                    let far = Instant::now() + SLEEP_MAX;
                    self.room.wait(seen, deadline.map_or(far, |at| at.min(far)));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The application has room again, or wants a turn.
    pub fn resume(&self) {
        self.shared.waker.wake();
    }

    /// Gives a command to the session, and lets the thread act on it.
    pub fn command<R>(&self, command: impl FnOnce(&mut Session, Time) -> R) -> R {
        let mut engine = self.shared.engine();
        let now = engine.clock.now();
        let result = command(&mut engine.driver.session, now);
        drop(engine);
        self.shared.waker.wake();
        result
    }

    /// Microseconds by the clock that [`shoal_wire::Mark`]s show.
    pub fn clock_us(&self) -> u64 {
        self.shared.clock.now().as_nanos() / 1000
    }

    /// Rings `bell` as `source` when there is room after somebody was refused, and at the end.
    pub fn attach(&self, bell: &Arc<Bell>, source: u64) {
        self.room.attach(bell, source);
    }

    /// Begins to close, as [`NormLink::close`] does, without waiting for it.
    pub fn begin_close(&self, linger: Duration) {
        if self.shared.owns_chains {
            self.shared.chains.close();
        }
        let until = Instant::now() + linger;
        self.shared.closing.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(until);
        self.shared.waker.wake();
    }

    /// Whether the thread ended.
    pub fn has_left(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Bytes of a lane's frames that its stream has taken, ever; and who has not acknowledged about how many bytes.
    pub fn progress(&self, lane: usize) -> (u64, Vec<(NodeId, u64)>) {
        let engine = self.shared.engine();
        (engine.driver.written(lane), engine.driver.session.lacking(lane as ObjectId))
    }

    /// Bytes ever given to each lane.
    pub fn appended(&self) -> Vec<u64> {
        self.shared.chains.appended(self.shared.link)
    }

    /// Whether the streams have taken as much as this of each lane.
    pub fn is_written(&self, appended: &[u64]) -> bool {
        let engine = self.shared.engine();
        appended.iter().enumerate().all(|(lane, bytes)| engine.driver.written(lane) >= *bytes)
    }

    /// Our node id.
    pub fn node(&self) -> NodeId {
        self.shared.engine().driver.session.node()
    }

    /// What the session did so far.
    pub fn stats(&self) -> Stats {
        self.shared.engine().driver.session.stats().clone()
    }

    /// The group's round-trip time as we estimate it.
    pub fn grtt(&self) -> Duration {
        self.shared.engine().driver.session.grtt()
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

    /// Sends a file from disk, which is one of the application's files. `None` if there is no room for it now.
    pub fn send_file(
        &self,
        files: &Mutex<Files>,
        path: &Path,
        info: &[u8],
    ) -> Result<Option<ObjectId>, LinkError> {
        let (file, length) = Files::open(path)?;
        let mut engine = self.shared.engine();
        let now = engine.clock.now();
        let sent = engine.driver.session.send_file(now, length, info).map_err(LinkError::Stream)?;
        if let Some(object) = sent {
            files.lock().unwrap_or_else(PoisonError::into_inner).send(object, file);
        }
        drop(engine);
        self.shared.waker.wake();
        Ok(sent)
    }

    /// Forgets an object being sent. Receivers that still miss parts of it are refused. False if there is none.
    pub fn cancel_object(&self, object: ObjectId) -> bool {
        self.command(|session, _| session.cancel_object(object))
    }

    /// Changes the keys of a link that has some. False if it has none.
    pub fn set_keys(&self, keys: Keys) -> bool {
        self.shared.engine().set_keys(keys)
    }

    /// The last error a socket gave, once.
    pub fn take_socket_error(&self) -> Option<String> {
        self.shared.engine().socket_error.take()
    }

    /// Drops what ran on top of a closed link, so that whoever waits for it learns that nothing will come.
    pub fn drop_application(&self) {
        if self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            self.shared.engine().driver.drop_application();
        }
    }

    /// Closes the link: takes nothing more, waits up to `linger` until everything was sent and
    /// acknowledged or announced, says goodbye, and ends the thread. Returns whether all of it went, and every
    /// acker said so: one that stopped answering is not waited for, and not forgiven.
    pub fn close(&self, linger: Duration) -> bool {
        if self.shared.owns_chains {
            self.shared.chains.close();
        }
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return true;
        };
        let until = Instant::now() + linger;
        {
            let mut closing = self.shared.closing.lock().unwrap_or_else(PoisonError::into_inner);
            *closing = Some(closing.map_or(until, |begun| begun.min(until)));
        }
        self.shared.waker.wake();
        let joined = thread.join().is_ok();
        let engine = self.shared.engine();
        joined
            && engine.failure.is_none()
            && engine.is_drained()
            && (engine.driver.session.is_acknowledged() || !engine.driver.has_audience())
    }
}

impl Drop for NormLink {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

/// The longest segment that travels in one packet, and of which a run still takes several.
fn fitting_segment(sockets: &Sockets, ipv6: bool, norm: &Config, overhead: usize) -> u16 {
    let mtu = sockets.interface().map_or(ETHERNET_MTU, InterfaceInfo::mtu);
    let packet_header = if ipv6 { 48 } else { 28 };
    let datagram = mtu.saturating_sub(packet_header).min(RUN_BYTES_MAX / RUN_SEGMENTS_MIN);
    datagram.saturating_sub(norm.header_bytes() + overhead).max(SEGMENT_BYTES_MIN) as u16
}

/// The thread of a link. Whatever ends it before its time, those who wait for it learn why.
fn supervise(shared: &Shared) {
    let why = match catch_unwind(AssertUnwindSafe(|| run(shared))) {
        Ok(Ok(())) => return,
        Ok(Err(why)) => why,
        Err(panic) => panicked(&*panic),
    };
    let mut engine = shared.engine();
    engine.failure = Some(why.clone());
    engine.driver.fail(&why);
    drop(engine);
    if shared.owns_chains {
        shared.chains.fail(&why.into());
    }
}

/// Works on the engine on behalf of its thread. What goes wrong here fails the link, not whoever happened to publish:
/// the thread finds it at its next turn, and tells everybody. None if it did.
fn guarded<R>(engine: &mut Engine, work: impl FnOnce(&mut Engine) -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(|| work(engine))) {
        Ok(done) => Some(done),
        Err(panic) => {
            engine.failure = Some(panicked(&*panic));
            None
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("its thread panicked: {}", text.unwrap_or("no reason given"))
}

fn run(shared: &Shared) -> Result<(), String> {
    let mut goodbye: Option<Instant> = None;
    loop {
        shared.state.store(state::BUSY, Ordering::SeqCst);
        let mut engine = shared.engine();
        let gather_until = engine.last_sent + GATHER;
        let now = engine.clock.now();
        let closing = shared.closing();
        let waiting = engine.driver.waiting();
        let gathering = waiting < RUN_BYTES && now < gather_until && closing.is_none();
        let next = engine.turn(gathering);
        if let Some(why) = &engine.failure {
            return Err(why.clone());
        }
        if let Some(limit) = closing {
            if shared.end_streams && engine.driver.end_streams() {
                continue;
            }
            let over = Instant::now() >= limit;
            match goodbye {
                None if over || engine.is_drained() => {
                    engine.say_last_words();
                    let now = engine.clock.now();
                    engine.driver.session.leave(now);
                    goodbye = Some(Instant::now() + GOODBYE);
                    continue;
                }
                Some(end) if Instant::now() >= end || engine.driver.session.has_left() => return Ok(()),
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
        shared.state.store(state::IDLE, Ordering::SeqCst);
        // A publisher that came before this saw a busy thread, and trusts that we look once more. A stream that takes
        // no more is moved on by its receivers.
        let waits = shared.chains.sendable(shared.link) > 0;
        if waits && !gathering {
            continue;
        }
        if waits {
            shared.state.store(state::GATHERING, Ordering::SeqCst);
        }
        if waits || (gathering && waiting > 0) {
            // Also what its stream had no room for: it may have room now, and nobody else says so.
            deadline = deadline.min(gather_until);
        }
        let wait = deadline.since(now);
        if let Err(error) = shared.sockets.wait(Some(wait), next.want_write) {
            shared.engine().note(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use shoal_node::norm::Taken;
    use shoal_norm::{Chunk, Event, StreamId};

    use super::*;
    use crate::interfaces::Interface;

    /// What it was told when the link failed.
    type Told = Arc<Mutex<Option<String>>>;

    /// Goes wrong at its first turn after it was asked to.
    struct Fragile {
        breaks: Arc<AtomicU8>,
        told: Told,
    }

    impl Application for Fragile {
        fn take(&mut self, _now: Time, _stream: StreamId, _chunk: Chunk<'_>) -> Taken {
            Taken::All
        }

        fn event(&mut self, _now: Time, _session: &mut Session, _event: &Event) {}

        fn batch_done(&mut self, _now: Time) {}

        fn supply(&mut self, _session: &mut Session) {
            assert_eq!(self.breaks.load(Ordering::SeqCst), 0, "it broke");
        }

        fn fail(&mut self, why: &str) {
            *self.told.lock().unwrap() = Some(why.to_owned());
        }
    }

    fn open(application: Fragile) -> NormLink {
        let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let group = format!("239.192.74.214:{port}").parse().unwrap();
        let address = LinkAddress { group, interface: Interface::Name("lo".into()) };
        let mut options = LinkOptions::new(address, Config::new(1, 1, 1));
        options.lane_bytes_max = 10;
        NormLink::open(options, Box::new(application)).unwrap()
    }

    #[test]
    fn a_thread_that_panics_fails_its_link_and_everybody_who_waits_learns_why() {
        let (breaks, told) = (Arc::new(AtomicU8::new(0)), Told::default());
        let link = open(Fragile { breaks: breaks.clone(), told: told.clone() });
        link.send(0, &[b"before"], Full::Wait(None)).unwrap();
        breaks.store(1, Ordering::SeqCst);
        link.resume();
        let why = loop {
            match link.send(0, &[&[7; 10]], Full::Wait(Some(Duration::from_secs(60)))) {
                Ok(()) => {}
                Err(SendError::Failed(why)) => break why,
                Err(other) => panic!("{other:?}"),
            }
        };
        assert!(why.contains("panicked") && why.contains("it broke"), "{why}");
        assert_eq!(told.lock().unwrap().as_deref(), Some(&*why));
        assert!(!link.close(Duration::from_secs(60)), "not everything went");
    }
}
