//! What the link's thread does in one turn: it moves datagrams between its sockets and the driver.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use shoal_node::Chains;
use shoal_node::hub::LinkId;
use shoal_node::norm::{Driver, group_of_lane};
use shoal_norm::{Destination, Reject, Source, Stats, Time};
use shoal_seal::Witness;

use super::sealing::Sealing;
use crate::clock::Clock;
use crate::sys;
use crate::udp::{ReceiveBuffers, Run, Sockets, Which};

/// Runs received by one call: few enough to stay in the processor's cache until they are read.
const RUNS_RECEIVED: usize = 4;
/// Calls that receive before anything is sent, and runs sent before anything is received.
const RECEIVES_A_TURN: usize = 8;
const SENDS_A_TURN: usize = 16;

/// A run of datagrams is worth a system call from so many bytes on.
pub const RUN_BYTES: usize = 60_000;

/// A run the socket had no room for.
#[derive(Debug, Default)]
struct Unsent {
    to: Option<SocketAddr>,
    /// The lane that it is of.
    lane: Option<usize>,
    bytes: Vec<u8>,
    datagram_bytes: usize,
}

/// The driven half of a link.
pub struct Engine {
    pub driver: Driver,
    pub clock: Clock,
    /// The last error a socket gave, until somebody asks.
    pub socket_error: Option<String>,
    /// Why nothing goes out or comes in, while its interface is gone.
    pub down: Option<String>,
    /// Why the link cannot go on.
    pub failure: Option<String>,
    /// When data went out last.
    pub last_sent: Time,
    chains: Arc<Chains>,
    link: LinkId,
    sockets: Arc<Sockets>,
    group: SocketAddr,
    buffers: ReceiveBuffers,
    unsent: Unsent,
    /// What a link with a key has.
    sealing: Option<Sealing>,
    /// Who cannot be read because we have no key; and that it was told.
    sealed: Witness,
    told_of_key: bool,
    /// Share of received datagrams to throw away, for tests of repair.
    drop_received: f64,
    random: fastrand::Rng,
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
}

impl Engine {
    pub fn new(
        driver: Driver,
        clock: Clock,
        (chains, link): (Arc<Chains>, LinkId),
        sockets: Arc<Sockets>,
        sealing: Option<Sealing>,
        drop_received: f64,
    ) -> Engine {
        Engine {
            random: fastrand::Rng::with_seed(driver.session.config().seed),
            driver,
            clock,
            socket_error: None,
            down: None,
            failure: None,
            last_sent: Time::ZERO,
            chains,
            link,
            group: sockets.destination(),
            sockets,
            buffers: ReceiveBuffers::new(RUNS_RECEIVED),
            unsent: Unsent::default(),
            sealing,
            sealed: Witness::default(),
            told_of_key: false,
            drop_received,
        }
    }

    /// One turn. `hold_writes` leaves small amounts where they wait, so that they gather.
    pub fn turn(&mut self, hold_writes: bool) -> Next {
        let received = self.receive();
        let now = self.clock.now();
        self.driver.note_room(now);
        self.driver.deliver(now);
        self.driver.serve(now);
        let sent = self.write_and_transmit(hold_writes);
        self.driver.deliver(self.clock.now());
        Next {
            again: received || sent,
            deadline: self.driver.poll_timeout(),
            want_write: self.unsent.to.is_some(),
        }
    }

    /// A turn of the application between the thread's own.
    pub fn serve_and_transmit(&mut self) {
        self.driver.serve(self.clock.now());
        self.write_and_transmit(false);
    }

    fn receive(&mut self) -> bool {
        let mut more = false;
        // What the own group's commands ask for came before them in further groups.
        for which in [Which::Own, Which::Others, Which::Group] {
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
                            self.note(&error);
                        }
                        break;
                    }
                }
                more |= turn + 1 == RECEIVES_A_TURN;
            }
        }
        more
    }

    fn handle_received(&mut self, which: Which) {
        let mut buffers = std::mem::take(&mut self.buffers);
        let unicast = which == Which::Own;
        if let Some(mut sealing) = self.sealing.take() {
            for run in buffers.runs_mut() {
                let now = self.begin_run();
                let from = Source { address: run.from, unicast, waited: run.waited };
                let (random, share) = (&mut self.random, self.drop_received);
                let heard = run.bytes.chunks_mut(run.segment_bytes.max(1));
                let heard = heard.filter(|_| share == 0.0 || random.f64() >= share);
                let opened = heard.filter_map(|datagram| sealing.open(now, run.from, datagram));
                self.driver.handle_datagrams(now, from, opened);
                self.attend(now, &mut sealing);
                self.end_run(now);
            }
            self.sealing = Some(sealing);
        } else {
            for run in buffers.runs() {
                let now = self.begin_run();
                let from = Source { address: run.from, unicast, waited: run.waited };
                self.handle_run(now, from, &run);
                self.end_run(now);
            }
        }
        self.buffers = buffers;
        self.driver.batch_done(self.clock.now());
    }

    fn begin_run(&mut self) -> Time {
        let now = self.clock.now();
        self.driver.note_room(now);
        now
    }

    /// What was said in this run may decide what becomes of the next.
    fn end_run(&mut self, now: Time) {
        if self.driver.wants_turn() {
            self.driver.deliver(now);
            self.driver.serve(now);
        }
    }

    /// Challenges and answers go out, what waited for an answer is read, and wrong keys are told of.
    fn attend(&mut self, now: Time, sealing: &mut Sealing) {
        while let Some((to, datagram)) = sealing.seal.poll_transmit() {
            // One that does not get out is said again.
            if let Err(error) = self.sockets.send_run(to, &datagram, datagram.len())
                && error.kind() != ErrorKind::WouldBlock
            {
                self.note(&error);
            }
        }
        while let Some((address, datagram)) = sealing.seal.poll_released() {
            let from = Source { address, unicast: false, waited: std::time::Duration::ZERO };
            self.driver.handle_datagrams(now, from, [&datagram[..]]);
        }
        while let Some(notice) = sealing.seal.poll_notice() {
            self.tell(&notice.to_string());
        }
    }

    /// Tells the application, and whoever asks for errors.
    fn tell(&mut self, why: &str) {
        self.socket_error = Some(why.to_owned());
        self.driver.tell(why);
    }

    fn handle_run(&mut self, now: Time, from: Source, run: &Run<'_>) {
        if !self.told_of_key
            && shoal_seal::is_sealed(run.bytes)
            && self.sealed.hear(run.from, run.bytes).is_some()
        {
            self.told_of_key = true;
            self.tell(&format!("{} has a key, and this node has none: neither hears the other", run.from));
        }
        if self.drop_received > 0.0 {
            let (random, share) = (&mut self.random, self.drop_received);
            self.driver.handle_datagrams(now, from, run.datagrams().filter(|_| random.f64() >= share));
        } else {
            self.driver.handle_datagrams(now, from, run.datagrams());
        }
    }

    /// Moves what waits into the streams and onto the network. True if there may be more.
    pub fn write_and_transmit(&mut self, hold_writes: bool) -> bool {
        if !hold_writes {
            self.driver.write(self.clock.now());
        }
        for _ in 0..SENDS_A_TURN {
            if !self.transmit() {
                return self.driver.settle() && !hold_writes;
            }
            // What came meanwhile goes along if it fills a run; otherwise it may gather until the next turn.
            if !hold_writes && self.chains.waiting(self.link) >= RUN_BYTES {
                self.driver.write(self.clock.now());
            }
        }
        true
    }

    /// Sends one run. False if there is none, or no room for it.
    fn transmit(&mut self) -> bool {
        let now = self.clock.now();
        if let Some(to) = self.unsent.to {
            self.mark(self.unsent.lane);
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
        let segments = self.driver.session.stats().segments_sent;
        let Some(out) = self.driver.poll_transmit(now) else {
            return false;
        };
        let lane = out.stream.map(usize::from);
        let group = out.about.and_then(|about| group_of_lane(about.into()));
        let further = || group.and_then(|group| self.sockets.group_address(group));
        let to = match out.to {
            Destination::Group => further().unwrap_or(self.group),
            Destination::Node(address) => address,
        };
        // What cannot be marked goes all the same.
        let marked = self.sockets.mark(lane);
        let (bytes, datagram_bytes) = match &mut self.sealing {
            Some(sealing) => sealing.seal_run(out.bytes, out.datagram_bytes),
            None => (out.bytes, out.datagram_bytes),
        };
        let sent = match self.sockets.send_run(to, bytes, datagram_bytes) {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => {
                self.fail(&error);
                return true;
            }
        };
        if sent < bytes.len() {
            (self.unsent.to, self.unsent.lane) = (Some(to), lane);
            self.unsent.datagram_bytes = datagram_bytes;
            self.unsent.bytes.clear();
            self.unsent.bytes.extend_from_slice(&bytes[sent..]);
            return false;
        }
        if let Err(error) = marked {
            self.note(&error);
        }
        if self.driver.session.stats().segments_sent > segments {
            self.last_sent = now;
        }
        true
    }

    fn mark(&mut self, lane: Option<usize>) {
        if let Err(error) = self.sockets.mark(lane) {
            self.note(&error);
        }
    }

    /// Lets the application say its last word, as far as the socket has room.
    pub fn say_last_words(&mut self) {
        self.driver.begin_leaving(self.clock.now());
        self.write_and_transmit(false);
    }

    /// What could not be sent counts as lost on the way: it will be repaired.
    fn fail(&mut self, error: &io::Error) {
        self.unsent.to = None;
        self.note(error);
    }

    /// A socket gave an error. Most pass: a network that is down comes up again.
    pub fn note(&mut self, error: &io::Error) {
        self.socket_error = Some(error.to_string());
        if sys::is_socket_gone(error) {
            self.failure = Some(format!("its socket is gone: {error}"));
        }
    }

    /// Its interface is gone: why.
    pub fn go_down(&mut self, why: &str) {
        self.down = Some(why.to_owned());
        self.driver.down(why);
    }

    /// Goes on with other sockets, after the interface came back or changed.
    pub fn go_up(&mut self, sockets: Arc<Sockets>) {
        self.down = None;
        // It was for an address that may not be ours any more.
        self.unsent.to = None;
        self.group = sockets.destination();
        let address = sockets.local_addr().map_or_else(|error| error.to_string(), |own| own.to_string());
        self.sockets = sockets;
        self.driver.up(&address);
    }

    /// What the session did so far, and what could not be opened before it came there.
    pub fn stats(&self) -> Stats {
        let mut stats = self.driver.session.stats().clone();
        let refused = self.sealing.as_ref().map_or(0, |sealing| sealing.seal.refused);
        stats.rejected[Reject::Authentication as usize] += refused;
        stats
    }

    /// Changes the keys of a link that has some. False if it has none.
    pub fn set_keys(&mut self, keys: shoal_seal::Keys) -> bool {
        self.sealing.as_mut().map(|sealing| sealing.seal.set_keys(keys)).is_some()
    }

    /// Everything given to the link was sent, and acknowledged or announced.
    pub fn is_drained(&self) -> bool {
        self.unsent.to.is_none() && self.driver.is_drained()
    }
}
