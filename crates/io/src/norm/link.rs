//! The handle of a NORM link.

mod bell;
mod options;
mod thread;

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shoal_node::Chains;
use shoal_node::hub::{LinkBell, LinkId, Ring, SendError};
use shoal_node::norm::{Application, Driver};
use shoal_norm::{Config, ConfigError, NodeId, ObjectId, Session, Stats, Time, WriteError};
use shoal_seal::{Keys, OVERHEAD_BYTES};

pub use self::bell::NormBell;
pub use self::options::{LinkError, LinkOptions, fresh_instance, fresh_publisher, fresh_router};
use self::thread::{LinkCore, SLEEP_MAX, supervise};
use super::engine::Engine;
use super::sealing::{PLAIN_RUN_BYTES_MAX, Sealing};
use crate::bell::Bell;
use crate::clock::Clock;
use crate::files::Files;
use crate::interfaces::{ETHERNET_MTU, InterfaceInfo};
use crate::thread_time::ThreadTime;
use crate::udp::{RUN_BYTES_MAX, Sockets, Which};
use crate::waiter::Waiter;

/// Segments in a run at the least, however long packets may be: a run that is lost is lost as a whole.
const RUN_SEGMENTS_MIN: usize = 8;
/// No segment is shorter, even where packets are so short that it takes several.
const SEGMENT_BYTES_MIN: usize = 512;
/// What to do when a lane is full.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Full {
    /// Wait for room, so long at the most.
    Wait(Option<Duration>),
    /// Refuse.
    Refuse,
}

/// A NORM link. Dropping it closes it without lingering.
pub struct NormLink {
    shared: Arc<LinkCore>,
    bell: NormBell,
    /// Where publishers wait, if the buffers are the link's own.
    room: Arc<Waiter>,
    thread: Mutex<Option<JoinHandle<()>>>,
    time: Arc<ThreadTime>,
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

    /// Its number in its hub.
    pub fn hub_link(&self) -> LinkId {
        self.shared.link
    }

    /// The same as [`NormLink::open`], as a link of a hub, which has its buffers and rings its bell.
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
                return Err(LinkError::Config(ConfigError::new("segment_bytes", wanted)));
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
        let shared = Arc::new(LinkCore {
            engine: Mutex::new(engine),
            chains,
            link,
            owns_chains: room.is_some(),
            clock,
            waker: sockets.waker(),
            sockets: Mutex::new(sockets),
            state: bell.state.clone(),
            sleeps_until: AtomicU64::new(0),
            closing: Mutex::new(None),
            end_streams: options.end_streams,
        });
        let _ = bell.link.set(Arc::downgrade(&shared));
        let time = Arc::new(ThreadTime::default());
        let thread = {
            let (shared, time) = (shared.clone(), time.clone());
            std::thread::Builder::new()
                .name("shoal-norm".into())
                .spawn(move || time.run(|| supervise(&shared)))?
        };
        let room = room.unwrap_or_default();
        Ok(NormLink { shared, bell, room, thread: Mutex::new(Some(thread)), time })
    }

    /// Nanoseconds of processor time that the thread used.
    pub fn cpu_ns(&self) -> u64 {
        self.time.used_ns()
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
        self.shared.engine().stats()
    }

    /// The group's round-trip time as we estimate it.
    pub fn grtt(&self) -> Duration {
        self.shared.engine().driver.session.grtt()
    }

    /// The sockets in use, for what they can tell.
    pub fn sockets(&self) -> Arc<Sockets> {
        self.shared.sockets()
    }

    /// Why nothing goes out or comes in, while its interface is gone.
    pub fn down(&self) -> Option<String> {
        self.shared.engine().down.clone()
    }

    /// Hears further groups, a bit each, from now on.
    pub fn join(&self, groups: u32) -> io::Result<()> {
        self.shared.join(groups)
    }

    /// The receive buffer the kernel granted to the group's socket.
    pub fn receive_buffer_bytes(&self) -> io::Result<usize> {
        self.shared.sockets().receive_buffer_bytes(Which::Group)
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

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use std::sync::atomic::{AtomicU8, Ordering};

    use shoal_node::norm::Taken;
    use shoal_norm::{Chunk, Event, StreamId};

    use super::*;
    use crate::interfaces::Interface;
    use crate::udp::LinkAddress;

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
