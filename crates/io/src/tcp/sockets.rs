//! The sockets of TCP links: those that listen, those that are being connected, and those that are.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use shoal_node::tcp::{ConnectionId, Role, TcpLinks};
use shoal_norm::Time;
use socket2::{Domain, Protocol, Socket, Type};

use crate::norm::fresh_publisher;
use crate::udp::Waker;
use crate::udp::sys::Poller;

/// Read from a socket at once.
const READ_BYTES: usize = 256 << 10;
/// Reads of one socket, and writes to it, before others have their turn.
const CALLS_MAX: usize = 8;
/// Connections that wait in the kernel to be accepted.
const BACKLOG: i32 = 128;
/// Where a connection cannot be accepted, for want of descriptors say, it is tried again after so long.
const ACCEPT_PATIENCE: Duration = Duration::from_millis(100);

/// One that is being connected.
struct Connecting {
    socket: Socket,
    last: Option<u64>,
    by: Time,
}

/// One that is connected.
struct Connected {
    stream: TcpStream,
    address: SocketAddr,
    listener: Option<u64>,
    /// It took no more.
    full: bool,
    /// Nothing more will be written.
    shut: bool,
}

struct Listening {
    socket: TcpListener,
    connections_max: usize,
    /// Not before this.
    accept_at: Time,
    /// Connections that were closed because there were too many.
    refused: u64,
}

/// What a poll is for.
enum Item {
    Waker,
    Listener(u64),
    Connecting(ConnectionId),
    Connected(ConnectionId),
}

/// The sockets.
pub(super) struct TcpSockets {
    listeners: BTreeMap<u64, Listening>,
    connecting: BTreeMap<ConnectionId, Connecting>,
    connected: BTreeMap<ConnectionId, Connected>,
    next: u64,
    items: Vec<Item>,
    buffer: Vec<u8>,
    /// Over, and not closed yet.
    ended: Vec<ConnectionId>,
}

impl TcpSockets {
    pub fn new() -> TcpSockets {
        TcpSockets {
            listeners: BTreeMap::new(),
            connecting: BTreeMap::new(),
            connected: BTreeMap::new(),
            next: 1,
            items: Vec::new(),
            buffer: vec![0; READ_BYTES],
            ended: Vec::new(),
        }
    }

    /// Connections there are, of a listener or all.
    pub fn count(&self, listener: Option<u64>) -> usize {
        let counts = |connected: &&Connected| listener.is_none() || connected.listener == listener;
        self.connected.values().filter(counts).count()
            + if listener.is_none() { self.connecting.len() } else { 0 }
    }

    /// How many were not let in, because there were too many.
    pub fn refused(&self, listener: u64) -> u64 {
        self.listeners.get(&listener).map_or(0, |listening| listening.refused)
    }

    /// Whose connection it is: the address of the other end, and the listener that took it.
    pub fn address(&self, id: ConnectionId) -> Option<(SocketAddr, Option<u64>)> {
        self.connected.get(&id).map(|connected| (connected.address, connected.listener))
    }

    pub fn listen(&mut self, address: SocketAddr, connections_max: usize) -> io::Result<(u64, SocketAddr)> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let socket: TcpListener = socket.into();
        let (id, bound) = (self.take_id(), socket.local_addr()?);
        self.listeners.insert(id, Listening { socket, connections_max, accept_at: Time::ZERO, refused: 0 });
        Ok((id, bound))
    }

    fn take_id(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Begins to connect.
    pub fn dial(&mut self, address: SocketAddr, last: Option<u64>, by: Time) -> io::Result<ConnectionId> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let id = self.take_id();
        self.connecting.insert(id, Connecting { socket, last, by });
        Ok(id)
    }

    pub fn close_listeners(&mut self) {
        self.listeners.clear();
        self.connecting.clear();
    }

    pub fn clear(&mut self) {
        self.close_listeners();
        self.connected.clear();
    }

    /// When something is to be done though no socket is ready.
    pub fn deadline(&self, now: Time) -> Time {
        let connecting = self.connecting.values().map(|connecting| connecting.by);
        let later = |listening: &Listening| listening.accept_at;
        let listening = self.listeners.values().map(later).filter(|&at| at > now);
        connecting.chain(listening).fold(Time::NEVER, Time::min)
    }

    /// Says what to wait for.
    pub fn prepare(&mut self, now: Time, poller: &mut Poller, waker: &Waker) {
        poller.clear();
        self.items.clear();
        poller.add(waker.descriptor(), true, false);
        self.items.push(Item::Waker);
        for (&id, listening) in self.listeners.iter().filter(|(_, listening)| now >= listening.accept_at) {
            poller.add(listening.socket.as_fd(), true, false);
            self.items.push(Item::Listener(id));
        }
        for (&id, connecting) in &self.connecting {
            poller.add(connecting.socket.as_fd(), false, true);
            self.items.push(Item::Connecting(id));
        }
        for (&id, connected) in &self.connected {
            poller.add(connected.stream.as_fd(), true, connected.full);
            self.items.push(Item::Connected(id));
        }
    }

    /// Does what became possible.
    pub fn handle_ready(&mut self, now: Time, poller: &Poller, waker: &Waker, links: &mut TcpLinks) {
        for (index, item) in std::mem::take(&mut self.items).into_iter().enumerate() {
            let (readable, writable) = poller.ready(index);
            match item {
                Item::Waker if readable => waker.clear(),
                Item::Listener(id) if readable => self.accept(now, id, links),
                Item::Connecting(id) if readable || writable => self.connected(now, id, links),
                Item::Connected(id) => {
                    if let Some(connected) = self.connected.get_mut(&id).filter(|_| writable) {
                        connected.full = false;
                    }
                    if readable {
                        self.read(now, id, links);
                    }
                }
                _ => {}
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
        for _ in 0..CALLS_MAX {
            match listening.socket.accept() {
                Ok((stream, address)) if count < listening.connections_max => {
                    count += 1;
                    accepted.push((stream, address));
                }
                Ok(_) => listening.refused += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Whoever came has gone again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    listening.accept_at = now + ACCEPT_PATIENCE;
                    break;
                }
            }
        }
        for (stream, address) in accepted {
            if stream.set_nonblocking(true).is_ok() {
                let connection = self.take_id();
                self.add(now, connection, (stream, address, Some(id)), Role::Accepted, links);
            }
        }
    }

    fn connected(&mut self, now: Time, id: ConnectionId, links: &mut TcpLinks) {
        let Some(Connecting { socket, last, .. }) = self.connecting.remove(&id) else { return };
        let stream: TcpStream = match socket.take_error() {
            Ok(None) => socket.into(),
            Ok(Some(error)) | Err(error) => return links.handle_unreachable(id, &error.to_string()),
        };
        match stream.peer_addr() {
            Ok(address) => self.add(now, id, (stream, address, None), Role::Dialled(last), links),
            Err(error) => links.handle_unreachable(id, &error.to_string()),
        }
    }

    fn add(
        &mut self,
        now: Time,
        id: ConnectionId,
        (stream, address, listener): (TcpStream, SocketAddr, Option<u64>),
        role: Role,
        links: &mut TcpLinks,
    ) {
        // It only makes small messages wait for each other.
        let _ = stream.set_nodelay(true);
        self.connected.insert(id, Connected { stream, address, listener, full: false, shut: false });
        links.open(now, id, role, fresh_publisher());
    }

    fn read(&mut self, now: Time, id: ConnectionId, links: &mut TcpLinks) {
        let Some(connected) = self.connected.get_mut(&id) else { return };
        for _ in 0..CALLS_MAX {
            let why = match connected.stream.read(&mut self.buffer) {
                Ok(0) => "the other end closed the connection".to_owned(),
                Ok(bytes) => {
                    links.handle_bytes(now, id, &self.buffer[..bytes]);
                    if bytes < self.buffer.len() {
                        return;
                    }
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error.to_string(),
            };
            links.handle_end(now, id, &why);
            self.ended.push(id);
            return;
        }
    }

    /// Writes what there is to be written. True if there may be more at once.
    pub fn write(&mut self, now: Time, links: &mut TcpLinks) -> bool {
        let (mut more, mut gone) = (false, Vec::new());
        for (&id, connected) in self.connected.iter_mut().filter(|(_, connected)| !connected.full) {
            for call in 1..=CALLS_MAX {
                let bytes = links.transmit(now, id);
                if bytes.is_empty() {
                    break;
                }
                let offered = bytes.len();
                match connected.stream.write(bytes) {
                    Ok(written) => {
                        links.written(now, id, written);
                        connected.full = written < offered;
                        more |= call == CALLS_MAX && !connected.full;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        links.written(now, id, 0);
                        connected.full = true;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        gone.push((id, error.to_string()));
                        break;
                    }
                }
                if connected.full {
                    break;
                }
            }
            if !connected.shut && links.is_ending(id) {
                connected.shut = true;
                let _ = connected.stream.shutdown(Shutdown::Write);
            }
        }
        for (id, why) in gone {
            links.handle_end(now, id, &why);
            self.ended.push(id);
        }
        more
    }

    /// Closes what is over.
    pub fn close_ended(&mut self, links: &mut TcpLinks) {
        for id in self.ended.drain(..).chain(std::iter::from_fn(|| links.poll_close())) {
            self.connected.remove(&id);
        }
    }
}
