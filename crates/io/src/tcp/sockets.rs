//! The sockets of TCP links: those that listen, those that are being connected, and those that are.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConnection};
use shoal_node::tcp::{ConnectionId, Role, TcpLinks};
use shoal_norm::Time;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::readiness::{Readiness, WAKER, Waker, Watch};
use super::stream::Stream;
use super::tls::{self, Secure, Tls};
use crate::norm::fresh_publisher;
use crate::sys::{self, AsDescriptor, Pipe};

/// Read from a socket at once.
const READ_BYTES: usize = 256 << 10;
/// Reads of one socket, and writes to it, before others have their turn.
const CALLS_MAX: usize = 8;
/// Connections that wait in the kernel to be accepted.
const BACKLOG: i32 = 128;
/// Where a connection cannot be accepted, for want of descriptors say, it is tried again after so long.
const ACCEPT_PATIENCE: Duration = Duration::from_millis(100);

/// Descriptors that connections of others leave free: for files, for names, for whoever asks how a daemon is.
const DESCRIPTORS_KEPT: u64 = 8;

/// Where another node of this process is.
const INSIDE: &str = "this process";

/// One that is being connected.
struct Connecting {
    socket: TcpStream,
    last: Option<u64>,
    by: Time,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// Where the other end of a connection is, as people are told.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Its address.
    pub address: String,
    /// The name that it proved by a certificate; empty if it proved none.
    pub identity: String,
    /// The listener that took it, if one did.
    pub listener: Option<u64>,
}

/// Whom a listener lets in.
#[derive(Copy, Clone, Debug)]
pub struct Door {
    /// How many at once.
    pub connections_max: usize,
    /// Whether the owner decides about each.
    pub asks: bool,
}

impl Door {
    fn role(self) -> Role {
        if self.asks { Role::Guest } else { Role::Accepted }
    }

    /// Whether there is room for one that came with a descriptor, beside so many.
    fn has_room(self, count: usize, came: &impl AsDescriptor) -> bool {
        count < self.connections_max && sys::leaves_free(came, DESCRIPTORS_KEPT)
    }
}

/// What decides how fast a connection sends.
#[derive(Clone, Debug)]
pub struct Congestion {
    /// As the kernel calls it.
    pub name: String,
    /// Whether it is asked for between programs of this machine, too.
    pub loopback: bool,
}

/// One that is connected.
struct Connected {
    stream: Stream,
    place: Place,
    /// It took no more.
    full: bool,
    /// Nothing more will be written.
    shut: bool,
    /// Nothing follows what can be read.
    closed: bool,
}

struct Listening {
    /// None where a transport of somebody else listens.
    socket: Option<TcpListener>,
    tls: Option<Tls>,
    door: Door,
    /// When it is tried again, if nobody could be accepted.
    accept_at: Time,
    /// Connections that were closed because there were too many.
    refused: u64,
}

impl Connected {
    /// Its socket takes something again.
    fn go_on(&mut self, watch: &Watch, id: ConnectionId) {
        // If it broke, reading says so.
        let _ = self.stream.flush();
        self.set_full(watch, id, self.stream.is_clogged());
        if self.shut && !self.full {
            self.stream.shut();
        }
    }

    /// Room is waited for as long as there is none.
    fn set_full(&mut self, watch: &Watch, id: ConnectionId, full: bool) {
        if full != std::mem::replace(&mut self.full, full) {
            // It is among those that are watched, so this does not fail.
            let _ = watch.change(&mut self.stream, id, true, full);
        }
    }
}

/// Asks the kernel for a congestion control. One that does not have it uses another, which serves as well.
fn choose_congestion(socket: &TcpStream, name: &str) {
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    let _ = SockRef::from(socket).set_tcp_congestion(name.as_bytes());
    #[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
    let _ = (socket, name);
}

fn zeroes(count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(count, 0);
    Ok(bytes)
}

/// The sockets.
pub(super) struct TcpSockets {
    listeners: BTreeMap<u64, Listening>,
    connecting: BTreeMap<ConnectionId, Connecting>,
    connected: BTreeMap<ConnectionId, Connected>,
    next: u64,
    congestion: Option<Congestion>,
    watch: Watch,
    /// Listeners and connections that were not read to the end.
    unread: BTreeSet<u64>,
    buffer: Vec<u8>,
    /// What TLS reads before it knows what it says.
    encrypted: Vec<u8>,
    /// Over, and not closed yet.
    ended: Vec<ConnectionId>,
}

impl TcpSockets {
    /// None yet; fails where there is no memory to read into.
    pub fn new(watch: Watch) -> io::Result<TcpSockets> {
        Ok(TcpSockets {
            listeners: BTreeMap::new(),
            connecting: BTreeMap::new(),
            connected: BTreeMap::new(),
            next: 1,
            congestion: None,
            watch,
            unread: BTreeSet::new(),
            buffer: zeroes(READ_BYTES)?,
            encrypted: zeroes(tls::READ_BYTES)?,
            ended: Vec::new(),
        })
    }

    /// Connections there are, of a listener or all.
    pub fn count(&self, listener: Option<u64>) -> usize {
        let counts = |connected: &&Connected| listener.is_none() || connected.place.listener == listener;
        self.connected.values().filter(counts).count()
            + if listener.is_none() { self.connecting.len() } else { 0 }
    }

    /// How many were not let in, because there were too many.
    pub fn refused(&self, listener: u64) -> u64 {
        self.listeners.get(&listener).map_or(0, |listening| listening.refused)
    }

    /// Whose connection it is.
    pub fn place(&self, id: ConnectionId) -> Option<Place> {
        let connected = self.connected.get(&id)?;
        let mut place = connected.place.clone();
        if let Some(identity) = connected.stream.identity() {
            place.identity = identity;
        }
        Some(place)
    }

    pub fn listen(
        &mut self,
        address: SocketAddr,
        door: Door,
        tls: Option<&Tls>,
    ) -> io::Result<(u64, SocketAddr)> {
        let none =
            || io::Error::new(io::ErrorKind::InvalidInput, "a listener needs a certificate of its own");
        if let Some(tls) = tls {
            tls.server().ok_or_else(none)?;
        }
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // Where it means that a port may be taken from another program, it is not asked for.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let mut socket = TcpListener::from_std(socket.into());
        let bound = socket.local_addr()?;
        self.watch.add(&mut socket, self.next, true, false)?;
        Ok((self.add_listener(Some(socket), door, tls.cloned()), bound))
    }

    /// A listener; without a socket, one that somebody else has.
    pub fn add_listener(&mut self, socket: Option<TcpListener>, door: Door, tls: Option<Tls>) -> u64 {
        let id = self.take_id();
        let listening = Listening { socket, tls, door, accept_at: Time::NEVER, refused: 0 };
        self.listeners.insert(id, listening);
        id
    }

    /// Takes a connection that somebody else made, where there was this publisher the last time if no listener took it: its number, and the other end of the pipe to it. None if its listener has
    /// too many.
    pub fn adopt(
        &mut self,
        now: Time,
        place: Place,
        last: Option<u64>,
        links: &mut TcpLinks,
    ) -> io::Result<Option<(ConnectionId, Pipe)>> {
        let (near, far) = sys::pipe()?;
        let mut role = Role::Dialled(last);
        if let Some(listener) = place.listener {
            let count = self.count(Some(listener));
            let Some(listening) = self.listeners.get_mut(&listener) else { return Ok(None) };
            if !listening.door.has_room(count, &far) {
                listening.refused += 1;
                return Ok(None);
            }
            role = listening.door.role();
        }
        let mut stream = Stream::piped(near)?;
        let id = self.take_id();
        self.watch.add(&mut stream, id, true, false)?;
        self.add(now, id, (stream, place), role, links);
        Ok(Some((id, far)))
    }

    /// Takes an end of a pipe whose other end another node of this process has: its number.
    pub fn join(
        &mut self,
        now: Time,
        pipe: Pipe,
        role: Role,
        links: &mut TcpLinks,
    ) -> io::Result<ConnectionId> {
        let mut stream = Stream::piped(pipe)?;
        let id = self.take_id();
        self.watch.add(&mut stream, id, true, false)?;
        let place = Place { address: INSIDE.to_owned(), ..Place::default() };
        self.add(now, id, (stream, place), role, links);
        Ok(id)
    }

    /// The other end of somebody else's connection proved its name.
    pub fn identify(&mut self, id: ConnectionId, identity: &str) {
        if let Some(connected) = self.connected.get_mut(&id) {
            connected.place.identity = identity.to_owned();
        }
    }

    /// Somebody else's connection is over: why, and whether trying again would help.
    pub fn end(&mut self, now: Time, id: ConnectionId, why: &str, refused: bool, links: &mut TcpLinks) {
        if !self.connected.contains_key(&id) {
            return;
        }
        if refused {
            links.handle_distrust(now, id, why);
            self.ended.push(id);
        } else {
            self.break_off(now, id, why, links);
        }
    }

    /// A connection cannot go on. What came before that is read: it may say why.
    fn break_off(&mut self, now: Time, id: ConnectionId, why: &str, links: &mut TcpLinks) {
        self.read(now, id, links);
        links.handle_end(now, id, why);
        self.ended.push(id);
    }

    fn take_id(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Begins to connect.
    pub fn dial(
        &mut self,
        address: SocketAddr,
        last: Option<u64>,
        by: Time,
        tls: Option<(&Tls, &str)>,
    ) -> io::Result<ConnectionId> {
        let tls = tls.map(|(tls, name)| tls.client(name)).transpose()?;
        let mut socket = TcpStream::connect(address)?;
        let id = self.take_id();
        self.watch.add(&mut socket, id, false, true)?;
        self.connecting.insert(id, Connecting { socket, last, by, tls });
        Ok(id)
    }

    /// What decides the rate of connections made from now on: as the kernel calls it, or `None` for what it has.
    pub fn set_congestion(&mut self, congestion: Option<Congestion>) {
        self.congestion = congestion;
    }

    /// Sets what every connection has.
    fn tune(&self, socket: &TcpStream, peer: SocketAddr) {
        // It only makes small messages wait for each other.
        let _ = socket.set_nodelay(true);
        if let Some(Congestion { name, loopback }) = &self.congestion
            && (*loopback || !peer.ip().to_canonical().is_loopback())
        {
            choose_congestion(socket, name);
        }
    }

    /// Ends a connection, or what is to become one, by then at the latest.
    pub fn part(&mut self, now: Time, id: ConnectionId, by: Time, links: &mut TcpLinks) {
        if self.connecting.remove(&id).is_none() {
            links.part(now, id, by);
        }
    }

    /// Lets nobody in any more where a listener is, and ends the connections it has.
    pub fn close_listener(&mut self, now: Time, listener: u64, by: Time, links: &mut TcpLinks) {
        self.listeners.remove(&listener);
        let its = self.connected.iter().filter(|(_, one)| one.place.listener == Some(listener));
        for id in its.map(|(&id, _)| id).collect::<Vec<_>>() {
            links.part(now, id, by);
        }
    }

    pub fn close_listeners(&mut self) {
        self.listeners.clear();
        self.connecting.clear();
    }

    pub fn clear(&mut self) {
        self.close_listeners();
        self.connected.clear();
    }

    /// When something is to be done though no socket becomes ready.
    pub fn deadline(&self) -> Time {
        if !self.unread.is_empty() {
            return Time::ZERO;
        }
        let connecting = self.connecting.values().map(|connecting| connecting.by);
        let listening = self.listeners.values().map(|listening| listening.accept_at);
        connecting.chain(listening).fold(Time::NEVER, Time::min)
    }

    /// Does what became possible.
    pub fn handle_ready(&mut self, now: Time, readiness: &Readiness, waker: &Waker, links: &mut TcpLinks) {
        for ready in readiness.ready() {
            if ready.id == WAKER {
                waker.clear();
            } else if self.connecting.contains_key(&ready.id) {
                self.connected(now, ready.id, links);
            } else {
                if let Some(connected) = self.connected.get_mut(&ready.id) {
                    connected.closed |= ready.closed;
                    if ready.writable && connected.full {
                        connected.go_on(&self.watch, ready.id);
                        links.handle_room(ready.id);
                    }
                }
                if ready.readable {
                    self.unread.insert(ready.id);
                }
            }
        }
        let again = self.listeners.iter_mut().filter(|(_, listening)| now >= listening.accept_at);
        for (&id, listening) in again {
            listening.accept_at = Time::NEVER;
            self.unread.insert(id);
        }
        for id in std::mem::take(&mut self.unread) {
            if self.listeners.contains_key(&id) {
                self.accept(now, id, links);
            } else {
                self.read(now, id, links);
            }
        }
        let late: Vec<ConnectionId> =
            self.connecting.iter().filter(|(_, one)| now >= one.by).map(|(&id, _)| id).collect();
        for id in late {
            self.connecting.remove(&id);
            links.handle_unreachable(id, "nobody answered in time");
        }
    }

    fn accept(&mut self, now: Time, id: u64, links: &mut TcpLinks) {
        let mut count = self.count(Some(id));
        let mut accepted = Vec::new();
        let Some(listening) = self.listeners.get_mut(&id) else { return };
        let (Some(socket), tls) = (&listening.socket, &listening.tls) else { return };
        // As it is now: certificates may have been read again.
        let (tls, role) = (tls.as_ref().map(Tls::server), listening.door.role());
        // It may have more than these.
        self.unread.insert(id);
        for _ in 0..CALLS_MAX {
            match socket.accept() {
                Ok((stream, address)) if listening.door.has_room(count, &stream) => {
                    count += 1;
                    accepted.push((stream, address));
                }
                Ok(_) => listening.refused += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unread.remove(&id);
                    break;
                }
                // Whoever came has gone again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.unread.remove(&id);
                    listening.accept_at = now + ACCEPT_PATIENCE;
                    break;
                }
            }
        }
        for (socket, address) in accepted {
            self.tune(&socket, address);
            let mut stream = match &tls {
                None => Stream::Plain(socket),
                Some(None) => continue,
                // It fails for want of random numbers alone.
                Some(Some(tls)) => match ServerConnection::new(tls.clone()) {
                    Ok(tls) => Stream::Secure(Box::new(Secure::new(socket, tls))),
                    Err(_) => continue,
                },
            };
            let place = Place { address: address.to_string(), listener: Some(id), ..Place::default() };
            let connection = self.take_id();
            if self.watch.add(&mut stream, connection, true, false).is_err() {
                continue;
            }
            self.add(now, connection, (stream, place), role, links);
        }
    }

    fn connected(&mut self, now: Time, id: ConnectionId, links: &mut TcpLinks) {
        let Some(Connecting { socket, last, tls, .. }) = self.connecting.remove(&id) else { return };
        if let Ok(Some(error)) | Err(error) = socket.take_error() {
            return links.handle_unreachable(id, &error.to_string());
        }
        let address = match socket.peer_addr() {
            // The system may give out the very port that is dialled, and where nobody listens the two ends meet.
            Ok(address) if socket.local_addr().is_ok_and(|local| local == address) => {
                // Otherwise the port would be taken for a minute.
                let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
                return links.handle_unreachable(id, "no program listens there: it connected to itself");
            }
            Ok(address) => address,
            Err(error) => return links.handle_unreachable(id, &error.to_string()),
        };
        self.tune(&socket, address);
        let address = address.to_string();
        let mut stream = match tls {
            None => Stream::Plain(socket),
            Some((tls, name)) => match ClientConnection::new(tls, name) {
                Ok(tls) => Stream::Secure(Box::new(Secure::new(socket, tls))),
                Err(error) => return links.handle_unreachable(id, &error.to_string()),
            },
        };
        if let Err(error) = self.watch.change(&mut stream, id, true, false) {
            return links.handle_unreachable(id, &error.to_string());
        }
        self.add(now, id, (stream, Place { address, ..Place::default() }), Role::Dialled(last), links);
    }

    fn add(
        &mut self,
        now: Time,
        id: ConnectionId,
        (stream, place): (Stream, Place),
        role: Role,
        links: &mut TcpLinks,
    ) {
        self.connected.insert(id, Connected { stream, place, full: false, shut: false, closed: false });
        links.open(now, id, role, fresh_publisher());
    }

    fn read(&mut self, now: Time, id: ConnectionId, links: &mut TcpLinks) {
        let Some(connected) = self.connected.get_mut(&id) else { return };
        for _ in 0..CALLS_MAX {
            let outcome = connected.stream.read(&mut self.buffer, &mut self.encrypted);
            // What TLS has to answer may not have gone out.
            if connected.stream.is_clogged() {
                connected.set_full(&self.watch, id, true);
                links.clog(now, id);
            }
            match outcome {
                Ok((0, _)) => links.handle_end(now, id, connected.stream.end()),
                Ok((bytes, may_have_more)) => {
                    links.handle_bytes(now, id, &self.buffer[..bytes]);
                    if !may_have_more && !connected.closed {
                        return;
                    }
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    links.handle_distrust(now, id, &error.to_string());
                }
                Err(error) => links.handle_end(now, id, &error.to_string()),
            }
            self.ended.push(id);
            return;
        }
        self.unread.insert(id);
    }

    /// Writes what there is to be written. True if there may be more at once.
    pub fn write(&mut self, now: Time, links: &mut TcpLinks) -> bool {
        let (mut more, mut gone) = (false, Vec::new());
        for id in links.take_unsent() {
            let Some(connected) = self.connected.get_mut(&id).filter(|connected| !connected.full) else {
                continue;
            };
            match write(now, id, connected, &self.watch, links) {
                Ok(is_written) => {
                    if !is_written {
                        links.note_unsent(id);
                        more = true;
                    }
                }
                Err(error) => gone.push((id, error.to_string())),
            }
            if !connected.shut && links.is_ending(id) {
                connected.shut = true;
                connected.stream.shut();
            }
        }
        for (id, why) in gone {
            self.break_off(now, id, &why, links);
        }
        more
    }

    /// Closes what is over.
    pub fn close_ended(&mut self, links: &mut TcpLinks) {
        for id in self.ended.drain(..).chain(std::iter::from_fn(|| links.poll_close())) {
            self.connected.remove(&id);
            self.unread.remove(&id);
        }
    }
}

/// Writes to one connection. False if there may be more, and it has room.
fn write(
    now: Time,
    id: ConnectionId,
    connected: &mut Connected,
    watch: &Watch,
    links: &mut TcpLinks,
) -> io::Result<bool> {
    for _ in 0..CALLS_MAX {
        let bytes = links.transmit(now, id);
        if bytes.is_empty() {
            return Ok(true);
        }
        let offered = bytes.len();
        match connected.stream.write(bytes) {
            Ok(written) => {
                links.written(now, id, written);
                if written < offered || connected.stream.is_clogged() {
                    connected.set_full(watch, id, true);
                    links.clog(now, id);
                    return Ok(true);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                links.written(now, id, 0);
                connected.set_full(watch, id, true);
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
