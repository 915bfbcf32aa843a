//! The handle of a best-effort link, and its thread.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shoal_node::Hub;
use shoal_node::hub::{LinkBell, LinkKind, Ring};
use shoal_node::udp::{To, Transmit, UdpConfig, UdpCounters, UdpLink};
use shoal_norm::Time;

use crate::clock::Clock;
use crate::thread_time::ThreadTime;
use crate::udp::{LinkAddress, ReceiveBuffers, Sight, SocketOptions, Sockets, Waker, Watch, Which};

/// Runs received at once.
const RECEIVE_RUNS: usize = 16;
/// Calls of a kind before the others have their turn.
const CALLS_MAX: usize = 16;
/// The thread wakes at least so often, should a wake-up ever be missed.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// Where a link's socket is.
#[derive(Clone, Debug)]
pub enum UdpOpen {
    /// In a group, or it leads to one peer.
    To(LinkAddress),
    /// It is bound to an address, for whoever connects.
    At(SocketAddr),
}

/// How the hub reaches the link, which is opened after the hub knows of it.
#[derive(Clone, Default)]
struct UdpBell(Arc<OnceLock<(Waker, Arc<Mutex<bool>>)>>);

impl LinkBell for UdpBell {
    fn ring(&self, why: Ring) {
        let Some((waker, wants)) = self.0.get() else { return };
        if why == Ring::Interest {
            *wants.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
        waker.wake();
    }

    fn is_slow(&self) -> bool {
        true
    }
}

struct DatagramCore {
    link: Mutex<UdpLink>,
    /// Those in use: others take their place when the interface changes.
    sockets: Mutex<Arc<Sockets>>,
    waker: Waker,
    /// Why nothing goes out or comes in, while the interface is gone.
    down: Mutex<Option<String>>,
    clock: Clock,
    /// What we want changed.
    wants: Arc<Mutex<bool>>,
    /// Until when everything should have been sent.
    closing: Mutex<Option<Instant>>,
}

impl DatagramCore {
    fn link(&self) -> MutexGuard<'_, UdpLink> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sockets(&self) -> Arc<Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn down(&self) -> MutexGuard<'_, Option<String>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_down(&self, why: String) {
        self.link().down(&why);
        *self.down() = Some(why);
    }

    fn go_on_with(&self, sockets: &Arc<Sockets>) {
        *self.sockets.lock().unwrap_or_else(PoisonError::into_inner) = sockets.clone();
        *self.down() = None;
        let address = sockets.local_addr().map_or_else(|error| error.to_string(), |own| own.to_string());
        self.link().up(&address);
    }

    fn closing(&self) -> MutexGuard<'_, Option<Instant>> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A best-effort link. Dropping it closes it without lingering.
pub struct UdpNet {
    shared: Arc<DatagramCore>,
    thread: Mutex<Option<JoinHandle<()>>>,
    time: Arc<ThreadTime>,
}

impl UdpNet {
    /// Opens the sockets and starts the thread. `config` is told where the sockets lead.
    pub fn open(
        hub: &Arc<Hub>,
        clock: Clock,
        open: &UdpOpen,
        options: &SocketOptions,
        config: impl FnOnce(&Sockets) -> UdpConfig,
    ) -> io::Result<UdpNet> {
        let sockets = match open {
            UdpOpen::To(address) => Sockets::open(address, options)?,
            UdpOpen::At(address) => Sockets::listen(*address, options)?,
        };
        let bell = UdpBell::default();
        let link =
            UdpLink::new(hub.attach("udp", LinkKind::BestEffort, Box::new(bell.clone())), config(&sockets));
        let (waker, wants) = (sockets.waker(), Arc::default());
        let shared = Arc::new(DatagramCore {
            link: Mutex::new(link),
            sockets: Mutex::new(Arc::new(sockets)),
            waker: waker.clone(),
            down: Mutex::default(),
            clock,
            wants: Arc::clone(&wants),
            closing: Mutex::default(),
        });
        let _ = bell.0.set((waker, wants));
        let time = Arc::new(ThreadTime::default());
        let thread = {
            let (shared, time) = (shared.clone(), time.clone());
            std::thread::Builder::new()
                .name("shoal-udp".into())
                .spawn(move || time.run(|| supervise(&shared)))?
        };
        Ok(UdpNet { shared, thread: Mutex::new(Some(thread)), time })
    }

    /// Nanoseconds of processor time that the thread used.
    pub fn cpu_ns(&self) -> u64 {
        self.time.used_ns()
    }

    /// The sockets in use, for what they can tell.
    pub fn sockets(&self) -> Arc<Sockets> {
        self.shared.sockets()
    }

    /// Why nothing goes out or comes in, while its interface is gone.
    pub fn down(&self) -> Option<String> {
        self.shared.down().clone()
    }

    /// What happened so far.
    pub fn counters(&self) -> UdpCounters {
        self.shared.link().counters()
    }

    /// Bytes that were published and not sent yet.
    pub fn waiting(&self) -> u64 {
        self.shared.link().waiting()
    }

    /// Begins to say goodbye, as [`UdpNet::close`] does, without waiting for it.
    pub fn begin_close(&self, linger: Duration) {
        self.shared.closing().get_or_insert(Instant::now() + linger);
        self.shared.waker.wake();
    }

    /// Whether the goodbye was said.
    pub fn has_left(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Says goodbye once everything was sent, at the latest after `linger`, and ends the thread. True if everything was.
    pub fn close(&self, linger: Duration) -> bool {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return true;
        };
        self.begin_close(linger);
        thread.join().is_ok() && self.waiting() == 0
    }
}

impl Drop for UdpNet {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

/// The thread. Whatever ends it before its time, those who wait for the link learn why.
fn supervise(shared: &DatagramCore) {
    let why = match catch_unwind(AssertUnwindSafe(|| run(shared))) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "its thread panicked".to_owned(),
    };
    shared.link().fail(&why);
}

fn run(shared: &DatagramCore) -> io::Result<()> {
    let mut buffers = ReceiveBuffers::new(RECEIVE_RUNS);
    let mut unsent = Unsent::default();
    let (mut sockets, mut watch) = (shared.sockets(), Watch::new(shared.clock.now()));
    loop {
        let now = shared.clock.now();
        let mut guard = shared.link();
        let link = &mut *guard;
        let mut more = receive(&sockets, now, link, &mut buffers)?;
        if std::mem::take(&mut *shared.wants.lock().unwrap_or_else(PoisonError::into_inner)) {
            link.want(now);
        }
        link.handle_timeout(now);
        let mut clogged = !unsent.retry(&sockets)?;
        for call in 1..=CALLS_MAX {
            if clogged {
                break;
            }
            let Some(transmit) = link.poll_transmit(now) else { break };
            unsent.load(&transmit);
            unsent.to.extend(match transmit.to {
                To::One(address) => vec![address],
                To::All => link.destinations().collect(),
            });
            clogged = !unsent.retry(&sockets)?;
            more |= call == CALLS_MAX;
        }
        // What was sent may be what a flush waits for.
        link.handle_timeout(now);
        let closing = *shared.closing();
        if let Some(limit) = closing {
            let late = Instant::now() >= limit;
            if link.has_left() && (!clogged || late) {
                return Ok(());
            }
            if late || link.waiting() == 0 {
                link.leave();
                more |= !clogged;
            }
        }
        let deadline = link.poll_timeout(clogged).min(now + SLEEP_MAX);
        let deadline = closing.map_or(deadline, |limit| deadline.min(shared.clock.at(limit)));
        drop(guard);
        match watch.look(now, &sockets) {
            None => {}
            Some(Sight::Down(why)) => shared.go_down(why),
            Some(Sight::Up(anew)) => {
                sockets = anew;
                shared.go_on_with(&sockets);
                continue;
            }
        }
        let deadline = deadline.min(watch.deadline());
        let timeout = if more { Duration::ZERO } else { deadline.since(shared.clock.now()) };
        sockets.wait(Some(timeout), clogged)?;
    }
}

/// Takes what came. True if there may be more.
fn receive(
    sockets: &Sockets,
    now: Time,
    link: &mut UdpLink,
    buffers: &mut ReceiveBuffers,
) -> io::Result<bool> {
    let mut more = false;
    for which in [Which::Group, Which::Own] {
        for call in 1..=CALLS_MAX {
            match sockets.receive(which, buffers) {
                Ok(_) => more |= call == CALLS_MAX,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Somebody we sent to is not there.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            for run in buffers.runs() {
                for datagram in run.datagrams() {
                    link.handle_datagram(now, run.from, datagram);
                }
            }
        }
    }
    link.hand_over(now);
    Ok(more)
}

/// A run that was not sent to everybody yet.
#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    segment_bytes: usize,
    lane: Option<usize>,
    /// How much of it the next one was sent.
    at: usize,
    to: Vec<SocketAddr>,
}

impl Unsent {
    fn load(&mut self, transmit: &Transmit<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(transmit.bytes);
        (self.segment_bytes, self.lane, self.at) = (transmit.segment_bytes, transmit.lane, 0);
    }

    /// Sends what is left. False if the socket takes no more.
    fn retry(&mut self, sockets: &Sockets) -> io::Result<bool> {
        if !self.to.is_empty() {
            sockets.mark(self.lane)?;
        }
        while let Some(&to) = self.to.last() {
            match sockets.send_run(to, &self.bytes[self.at..], self.segment_bytes) {
                Ok(sent) if self.at + sent < self.bytes.len() => self.at += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Sent, or it cannot be: nothing is promised.
                Ok(_) | Err(_) => {
                    self.to.pop();
                    self.at = 0;
                }
            }
        }
        Ok(true)
    }
}
