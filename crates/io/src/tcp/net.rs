//! The handle of a node's TCP links, and their thread.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shoal_node::Hub;
use shoal_node::hub::{LinkBell, LinkId, Ring, Wake as _};
use shoal_node::tcp::{ConnectionId, LinkState, Rights, Role, TcpConfig, TcpLinks, TcpNews};
use shoal_norm::{NodeId, Time};

use super::readiness::{Readiness, Waker};
use super::sockets::{Congestion, Door, Place, TcpSockets};
use super::tls::Tls;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::sys::{self, Pipe};
use crate::thread_time::ThreadTime;
use crate::waiter::Waiter;

/// While a stream flows, less than a run waits so long for company. Windows can wait for no less than a millisecond.
const GATHER: Duration = if cfg!(windows) { Duration::ZERO } else { Duration::from_micros(50) };
const RUN_BYTES: usize = 64 << 10;
/// A publisher that comes so soon after the last data went out is likely to come again at once.
const RAPID: Duration = Duration::from_micros(20);
/// The thread wakes at least so often, should a wake-up ever be missed.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_millis(20);
/// How long what was published has to get there on a connection that we end.
const PARTING: Duration = Duration::from_secs(1);
/// And how long the other ends are waited for after it.
const FAREWELL: Duration = Duration::from_millis(200);
/// What became of connections, for an owner who may not look; the oldest go first.
const NEWS_MAX: usize = 10_000;

/// What the thread is doing, as publishers need to know it.
mod state {
    /// It will look at the hub before it sleeps.
    pub const BUSY: u8 = 0;
    /// It sleeps for a moment to let small amounts gather.
    pub const GATHERING: u8 = 1;
    /// It sleeps until something happens.
    pub const IDLE: u8 = 2;
}

/// What is under the lock.
struct Engine {
    links: TcpLinks,
    sockets: TcpSockets,
    news: VecDeque<(TcpNews, Place)>,
    last_sent: Time,
    /// Until when the thread sleeps, if nothing wakes it.
    wakes_at: Time,
    failure: Option<String>,
}

impl Engine {
    /// Writes what there is. True if there may be more at once.
    fn write(&mut self, now: Time) -> bool {
        let before = self.links.rung_bytes();
        let more = self.sockets.write(now, &mut self.links);
        if before > 0 {
            self.last_sent = now;
        }
        more
    }

    /// Takes what became of connections. True if something did.
    fn take_news(&mut self) -> bool {
        let before = self.news.len();
        while let Some(news) = self.links.poll_news() {
            let place = self.sockets.place(news.connection()).unwrap_or_default();
            self.news.push_back((news, place));
            if self.news.len() > NEWS_MAX {
                self.news.pop_front();
            }
        }
        self.sockets.close_ended(&mut self.links);
        self.news.len() > before
    }
}

struct TcpCore {
    engine: Mutex<Engine>,
    clock: Clock,
    waker: Waker,
    state: AtomicU8,
    /// Whoever waits for news.
    told: Waiter,
    closing: Mutex<Option<Instant>>,
}

impl TcpCore {
    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(&self) -> MutexGuard<'_, Option<Instant>> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread sleeps: write from here if nothing was written a moment ago, otherwise wake it, because more is likely to
    /// follow and one thread gathers better than two.
    fn send_now(&self) {
        if let Ok(mut engine) = self.engine.try_lock() {
            let now = self.clock.now();
            if now >= engine.last_sent + RAPID {
                let written = catch_unwind(AssertUnwindSafe(|| engine.write(now)));
                match written {
                    Ok(false) if engine.links.poll_timeout() >= engine.wakes_at => return,
                    Ok(_) => {}
                    // It fails the links, not whoever happened to publish.
                    Err(_) => engine.failure = Some("writing panicked".to_owned()),
                }
            }
        }
        self.waker.wake();
    }
}

/// How the hub reaches the links, which are opened after the hub knows of them.
#[derive(Clone, Default)]
pub struct TcpBell(Arc<OnceLock<Weak<TcpCore>>>);

impl LinkBell for TcpBell {
    #[inline]
    fn is_slow(&self) -> bool {
        let shared = self.0.get().and_then(Weak::upgrade);
        shared.is_some_and(|shared| shared.state.load(Ordering::SeqCst) == state::IDLE)
    }

    #[inline]
    fn ring(&self, why: Ring) {
        let Some(shared) = self.0.get().and_then(Weak::upgrade) else { return };
        match (why, shared.state.load(Ordering::SeqCst)) {
            (Ring::Data(..), state::IDLE) => shared.send_now(),
            (Ring::Data(_, waiting), state::GATHERING) if waiting >= RUN_BYTES => shared.waker.wake(),
            (Ring::Data(..), _) => {}
            (Ring::Interest | Ring::Turn, _) => shared.waker.wake(),
        }
    }
}

/// The TCP links of a node. Dropping it closes it without lingering.
pub struct TcpNet {
    shared: Arc<TcpCore>,
    thread: Mutex<Option<JoinHandle<()>>>,
    time: Arc<ThreadTime>,
}

impl TcpNet {
    /// Starts the thread. There are no links yet.
    pub fn open(hub: Arc<Hub>, clock: Clock, config: TcpConfig) -> io::Result<TcpNet> {
        let bell = TcpBell::default();
        let bells = {
            let bell = bell.clone();
            Box::new(move || Box::new(bell.clone()) as Box<dyn LinkBell>)
        };
        let readiness = Readiness::new()?;
        let waker = readiness.waker()?;
        let engine = Engine {
            links: TcpLinks::new(hub, config, bells),
            sockets: TcpSockets::new(readiness.watch()?)?,
            news: VecDeque::new(),
            last_sent: Time::ZERO,
            wakes_at: Time::ZERO,
            failure: None,
        };
        let shared = Arc::new(TcpCore {
            engine: Mutex::new(engine),
            clock,
            waker,
            state: AtomicU8::new(state::BUSY),
            told: Waiter::default(),
            closing: Mutex::default(),
        });
        let _ = bell.0.set(Arc::downgrade(&shared));
        let time = Arc::new(ThreadTime::default());
        let thread = {
            let (shared, time) = (shared.clone(), time.clone());
            std::thread::Builder::new()
                .name("shoal-tcp".into())
                .spawn(move || time.run(|| supervise(&shared, readiness)))?
        };
        Ok(TcpNet { shared, thread: Mutex::new(Some(thread)), time })
    }

    /// Nanoseconds of processor time that the thread used.
    pub fn cpu_ns(&self) -> u64 {
        self.time.used_ns()
    }

    /// Listens at an address, with TLS or without: the listener's number, and where it listens.
    pub fn listen(
        &self,
        address: SocketAddr,
        door: Door,
        tls: Option<&Tls>,
    ) -> io::Result<(u64, SocketAddr)> {
        let listening = self.shared.engine().sockets.listen(address, door, tls);
        self.shared.waker.wake();
        listening
    }

    /// Begins to connect to an address, where there was this publisher the last time; with TLS, to whoever can prove that
    /// it has this name.
    pub fn dial(
        &self,
        address: SocketAddr,
        last: Option<u64>,
        patience: Duration,
        tls: Option<(&Tls, &str)>,
    ) -> io::Result<ConnectionId> {
        let by = self.shared.clock.now() + patience;
        let dialled = self.shared.engine().sockets.dial(address, last, by, tls);
        self.shared.waker.wake();
        dialled
    }

    /// A listener that a transport of somebody else has.
    pub fn add_listener(&self, door: Door) -> u64 {
        self.shared.engine().sockets.add_listener(None, door, None)
    }

    /// Lets somebody in who is asked about, with rights where rules count, or not: why.
    pub fn admit(&self, id: ConnectionId, refused: Option<&str>, rights: Option<Arc<Rights>>) {
        let now = self.shared.clock.now();
        self.shared.engine().links.admit(now, id, refused, rights);
        self.shared.waker.wake();
    }

    /// Rights were replaced: sessions use the new ones.
    pub fn use_rules(&self) {
        self.shared.engine().links.use_rules();
        self.shared.waker.wake();
    }

    /// Sends the other end of a connection to other addresses.
    pub fn redirect(&self, id: ConnectionId, places: &str) {
        let now = self.shared.clock.now();
        self.shared.engine().links.redirect(now, id, places);
        self.shared.waker.wake();
    }

    /// Makes a connection that a transport of somebody else carries: its number, and the end of the pipe that its bytes come and
    /// go through. None if its listener has too many.
    pub fn adopt(&self, place: Place, last: Option<u64>) -> io::Result<Option<(ConnectionId, Pipe)>> {
        let now = self.shared.clock.now();
        let taken = {
            let mut engine = self.shared.engine();
            let Engine { links, sockets, .. } = &mut *engine;
            sockets.adopt(now, place, last, links)
        };
        self.shared.waker.wake();
        taken
    }

    /// Makes a connection with another node of this process, where there was this publisher the last time: its number.
    pub fn join(&self, other: &TcpNet, last: Option<u64>) -> io::Result<ConnectionId> {
        let (near, far) = sys::pipe()?;
        // One lock at a time: two nodes may join each other at once.
        other.take_end(far, Role::Accepted)?;
        self.take_end(near, Role::Dialled(last))
    }

    fn take_end(&self, pipe: Pipe, role: Role) -> io::Result<ConnectionId> {
        let now = self.shared.clock.now();
        let taken = {
            let mut engine = self.shared.engine();
            let Engine { links, sockets, .. } = &mut *engine;
            sockets.join(now, pipe, role, links)
        };
        self.shared.waker.wake();
        taken
    }

    /// The other end of such a connection proved its name.
    pub fn identify(&self, id: ConnectionId, identity: &str) {
        self.shared.engine().sockets.identify(id, identity);
    }

    /// Such a connection is over: why. `refused` says that trying again does not help.
    pub fn end(&self, id: ConnectionId, why: &str, refused: bool) {
        let now = self.shared.clock.now();
        {
            let mut engine = self.shared.engine();
            let Engine { links, sockets, .. } = &mut *engine;
            sockets.end(now, id, why, refused, links);
        }
        self.shared.waker.wake();
    }

    /// Ends a connection: goodbye is said once everything was sent, and its session ends with it.
    pub fn part(&self, id: ConnectionId) {
        let now = self.shared.clock.now();
        {
            let mut engine = self.shared.engine();
            let Engine { links, sockets, .. } = &mut *engine;
            sockets.part(now, id, now + PARTING, links);
        }
        self.shared.waker.wake();
    }

    /// Closes a listener, and ends its connections so.
    pub fn close_listener(&self, listener: u64) {
        let now = self.shared.clock.now();
        {
            let mut engine = self.shared.engine();
            let Engine { links, sockets, .. } = &mut *engine;
            sockets.close_listener(now, listener, now + PARTING, links);
        }
        self.shared.waker.wake();
    }

    /// What decides the rate of connections made from now on.
    pub fn set_congestion(&self, congestion: Option<Congestion>) {
        self.shared.engine().sockets.set_congestion(congestion);
    }

    /// Rings `bell` as `source` when there is news.
    pub fn attach(&self, bell: &Arc<Bell>, source: u64) {
        self.shared.told.attach(bell, source);
    }

    /// What became of connections, each with where it leads.
    pub fn take_news(&self) -> VecDeque<(TcpNews, Place)> {
        std::mem::take(&mut self.shared.engine().news)
    }

    /// The hub's link with a publisher, if there is one.
    pub fn link(&self, publisher: u64) -> Option<LinkId> {
        self.shared.engine().links.link(publisher)
    }

    /// The links as they are now, each with where it leads.
    pub fn states(&self) -> Vec<(LinkState, Place)> {
        let engine = self.shared.engine();
        let states = engine.links.states(self.shared.clock.now()).into_iter();
        let with_place = |state: LinkState| {
            let place = state.connection.and_then(|id| engine.sockets.place(id));
            (state, place.unwrap_or_default())
        };
        states.map(with_place).collect()
    }

    /// The nodes at the other end of open connections, and how long ago each was heard.
    pub fn heard(&self) -> Vec<(NodeId, Duration)> {
        self.shared.engine().links.heard(self.shared.clock.now())
    }

    /// Connections that a listener has, and how many it did not let in because there were too many.
    pub fn listener(&self, id: u64) -> (usize, u64) {
        let engine = self.shared.engine();
        (engine.sockets.count(Some(id)), engine.sockets.refused(id))
    }

    /// Bytes that were not sent yet, and who has not acknowledged how many that were.
    pub fn backlog(&self) -> (u64, Vec<(u32, u64)>) {
        let states = self.shared.engine().links.states(self.shared.clock.now());
        let waiting = states.iter().map(|state| state.waiting).sum();
        let lacking = states.iter().filter(|state| state.lacking > 0);
        (waiting, lacking.map(|state| (state.node, state.lacking)).collect())
    }

    /// Begins to say goodbye, as [`TcpNet::close`] does, without waiting for it.
    pub fn begin_close(&self, linger: Duration) {
        let until = Instant::now() + linger.max(GOODBYE);
        self.shared.closing().get_or_insert(until);
        self.shared.waker.wake();
    }

    /// Whether the goodbye was said.
    pub fn has_left(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Says goodbye once everything was sent, at the latest after `linger`, and ends the thread. True if everybody had
    /// acknowledged everything.
    pub fn close(&self, linger: Duration) -> bool {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return true;
        };
        self.begin_close(linger);
        let joined = thread.join().is_ok();
        let mut engine = self.shared.engine();
        let states = engine.links.states(self.shared.clock.now());
        engine.links.close();
        engine.sockets.clear();
        joined && engine.failure.is_none() && states.iter().all(|state| state.waiting + state.lacking == 0)
    }
}

impl Drop for TcpNet {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

/// The thread. Whatever ends it before its time, those who wait for its links learn why.
fn supervise(shared: &TcpCore, readiness: Readiness) {
    let why = match catch_unwind(AssertUnwindSafe(|| run(shared, readiness))) {
        Ok(Ok(())) => return shared.told.wake(),
        Ok(Err(why)) => why,
        Err(_) => "its thread panicked".to_owned(),
    };
    let mut engine = shared.engine();
    engine.links.fail(&why);
    engine.failure = Some(why);
    engine.sockets.clear();
    drop(engine);
    shared.told.wake();
}

fn run(shared: &TcpCore, mut readiness: Readiness) -> Result<(), String> {
    let mut leaving = false;
    loop {
        shared.state.store(state::BUSY, Ordering::SeqCst);
        let mut guard = shared.engine();
        let engine = &mut *guard;
        if let Some(why) = engine.failure.take() {
            return Err(why);
        }
        let now = shared.clock.now();
        engine.sockets.handle_ready(now, &readiness, &shared.waker, &mut engine.links);
        engine.links.handle_timeout(now);
        let closing = *shared.closing();
        if let Some(limit) = closing {
            if !std::mem::replace(&mut leaving, true) {
                engine.sockets.close_listeners();
                engine.links.leave(now, shared.clock.at(limit));
            }
            if engine.sockets.count(None) == 0 || Instant::now() >= limit + FAREWELL {
                return Ok(());
            }
        }
        let gather_until = engine.last_sent + GATHER;
        let gathering = closing.is_none() && now < gather_until && engine.links.rung_bytes() < RUN_BYTES;
        let more = !gathering && engine.write(now);
        let told = engine.take_news();
        let now = shared.clock.now();
        let mut deadline = engine.links.poll_timeout().min(engine.sockets.deadline()).min(now + SLEEP_MAX);
        shared.state.store(state::IDLE, Ordering::SeqCst);
        // A publisher that came before this saw a busy thread, and trusts that we look once more.
        let waits = engine.links.rung_bytes() > 0;
        engine.wakes_at = deadline;
        drop(guard);
        if told {
            shared.told.wake();
        }
        if let Some(limit) = closing {
            deadline = deadline.min(shared.clock.at(limit)).max(now).min(now + Duration::from_millis(1));
        }
        if more || (waits && !gathering) {
            deadline = now;
        } else if gathering {
            if waits {
                shared.state.store(state::GATHERING, Ordering::SeqCst);
            }
            deadline = deadline.min(gather_until);
        }
        readiness.wait(deadline.since(now)).map_err(|error| error.to_string())?;
    }
}
