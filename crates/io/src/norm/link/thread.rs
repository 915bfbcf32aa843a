//! The thread of a link: it turns the engine, and sleeps between.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_node::Chains;
use shoal_node::hub::LinkId;

use super::super::engine::{Engine, RUN_BYTES};
use super::bell::state;
use crate::clock::Clock;
use crate::udp::{Sight, Sockets, Waker, Watch};

/// While a stream flows, less than a run waits so long for company.
const GATHER: Duration = Duration::from_micros(50);
/// A publisher that comes so soon after the last data went out is likely to come again at once.
const RAPID: Duration = Duration::from_micros(20);
/// How long to wait for a full socket before looking at the time again.
const SOCKET_PATIENCE: Duration = Duration::from_millis(2);
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_millis(20);
/// The thread wakes at least so often, should a wake-up ever be missed.
pub const SLEEP_MAX: Duration = Duration::from_secs(5);

/// What the thread has in common with those who publish, and with the handle.
pub struct LinkCore {
    pub engine: Mutex<Engine>,
    pub chains: Arc<Chains>,
    pub link: LinkId,
    /// The buffers are the link's own, not a hub's.
    pub owns_chains: bool,
    /// Those in use: others take their place when the interface changes.
    pub sockets: Mutex<Arc<Sockets>>,
    pub clock: Clock,
    pub waker: Waker,
    pub state: Arc<AtomicU8>,
    /// Until when the thread sleeps, in the engine's nanoseconds.
    pub sleeps_until: AtomicU64,
    pub closing: Mutex<Option<Instant>>,
    pub end_streams: bool,
}

impl LinkCore {
    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn sockets(&self) -> Arc<Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Hears further groups, a bit each, also after the sockets were opened anew.
    pub fn join(&self, groups: u32) -> io::Result<()> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).join(groups)
    }

    fn go_on_with(&self, sockets: &Arc<Sockets>) {
        let mut used = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = sockets.join(used.joined()) {
            self.engine().note(&error);
        }
        *used = sockets.clone();
        drop(used);
        self.engine().go_up(sockets.clone());
    }

    fn closing(&self) -> Option<Instant> {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread sleeps: send from here if nothing was sent a moment ago, otherwise wake it, because
    /// more is likely to follow and one thread gathers better than two.
    pub fn send_now(&self) {
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
    pub fn serve_now(&self) {
        guarded(&mut self.engine(), Engine::serve_and_transmit);
        self.waker.wake();
    }
}

/// The thread of a link. Whatever ends it before its time, those who wait for it learn why.
pub fn supervise(shared: &LinkCore) {
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

fn run(shared: &LinkCore) -> Result<(), String> {
    let mut goodbye: Option<Instant> = None;
    let (mut sockets, mut watch) = (shared.sockets(), Watch::new(shared.clock.now()));
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

        match watch.look(now, &sockets) {
            None => {}
            Some(Sight::Down(why)) => shared.engine().go_down(&why),
            Some(Sight::Up(anew)) => {
                sockets = anew;
                shared.go_on_with(&sockets);
                continue;
            }
        }
        let mut deadline = next.deadline.min(now + SLEEP_MAX).min(watch.deadline());
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
        if let Err(error) = sockets.wait(Some(wait), next.want_write) {
            shared.engine().note(&error);
        }
    }
}
