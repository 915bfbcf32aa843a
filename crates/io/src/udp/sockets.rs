//! The sockets of a link: one hears the group, one sends and hears what is meant for this node alone. A link over
//! unicast does everything with one.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use socket2::SockRef;

use super::route_news::RouteNews;
use super::{
    LinkAddress, Mark, ReceiveBuffers, SocketOptions, Waker, open, receive_batch, refuses_to_cut,
    send_segmented,
};
use crate::interfaces::{self, Interface, InterfaceInfo, Standing};
use crate::sys;

/// The largest run: what fits in one UDP datagram over IPv4.
pub const RUN_BYTES_MAX: usize = 65_507;
/// The most datagrams in a run that every kernel with GSO takes.
pub const RUN_DATAGRAMS_MAX: usize = 64;

/// One of a link's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Bound to the group's address: what everybody hears, without what this link sent itself (on Linux). A unicast
    /// link has no other.
    Group,
    /// With a port of its own: everything is sent from here, and unicast feedback comes back to it.
    Own,
    /// Hears further groups, once they are joined.
    Others,
}

/// Why [`Sockets::wait`] returned; all false when the time was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There is something to receive on [`Which::Group`].
    pub group: bool,
    /// There is something to receive on [`Which::Own`].
    pub own: bool,
    /// There is something to receive on [`Which::Others`].
    pub others: bool,
    /// There is room to send, if that was asked for.
    pub writable: bool,
    /// A [`Waker`] was used.
    pub woken: bool,
}

/// The sockets of one link. Meant for one thread; only [`Waker`]s are for others.
#[derive(Debug)]
pub struct Sockets {
    group: UdpSocket,
    own: Option<UdpSocket>,
    others: Option<UdpSocket>,
    /// The further groups that were joined, a bit each.
    joined: AtomicU32,
    destination: SocketAddr,
    interface: Option<InterfaceInfo>,
    /// What they were opened for, if they are in a group or lead to a peer.
    asked: Option<(LinkAddress, SocketOptions)>,
    waker: Waker,
    /// Tells that interfaces changed, if the system does; and whether some did since somebody asked.
    news: Option<Arc<RouteNews>>,
    changed: AtomicBool,
    /// Runs of datagrams this large or larger are sent one by one: the kernel refused to cut them.
    uncut_from_bytes: AtomicUsize,
    /// How datagrams of each lane are marked, and the lane that the next ones are of, or [`UNMARKED`].
    marks: Vec<Mark>,
    marked: AtomicUsize,
}

/// No lane has this number.
const UNMARKED: usize = usize::MAX;

impl Sockets {
    /// Opens the sockets and joins the group if it is one; the error says what was tried.
    pub fn open(address: &LinkAddress, options: &SocketOptions) -> io::Result<Self> {
        Self::open_with(address, address, options, Waker::new()?, RouteNews::open().map(Arc::new))
    }

    /// Opens them once more, on another interface or on one that came back; whoever wakes them wakes the new ones.
    pub fn reopen(&self, interface: &str) -> io::Result<Self> {
        let Some((address, options)) = &self.asked else { return Err(io::ErrorKind::Unsupported.into()) };
        let interface = match &address.interface {
            Interface::Address(address) => Interface::Address(*address),
            Interface::Auto | Interface::Name(_) => Interface::Name(interface.to_owned()),
        };
        let there = LinkAddress { group: address.group, interface };
        Self::open_with(&there, address, options, self.waker.clone(), self.news.clone())
    }

    /// Hears further groups, a bit each, from now on. Those that cannot be joined now because the interface is gone are joined
    /// when it is back.
    pub fn join(&self, groups: u32) -> io::Result<()> {
        let added = groups & !self.joined.fetch_or(groups, Ordering::SeqCst);
        let (Some(others), Some(info), Some((_, options))) = (&self.others, &self.interface, &self.asked)
        else {
            return Ok(());
        };
        for (_, address) in options.groups.iter().enumerate().filter(|(group, _)| added >> group & 1 == 1) {
            if let Err(error) = open::join(SockRef::from(others), *address, info)
                && self.look() == Some(Standing::Same)
            {
                self.joined.fetch_and(!added, Ordering::SeqCst);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The further groups that are heard, a bit each.
    pub fn joined(&self) -> u32 {
        self.joined.load(Ordering::SeqCst)
    }

    /// Where a further group is reached, if there is one of this number.
    pub fn group_address(&self, group: usize) -> Option<SocketAddr> {
        let (_, options) = self.asked.as_ref()?;
        options.groups.get(group).map(|ip| SocketAddr::new(*ip, self.destination.port()))
    }

    fn open_with(
        address: &LinkAddress,
        asked: &LinkAddress,
        options: &SocketOptions,
        waker: Waker,
        news: Option<Arc<RouteNews>>,
    ) -> io::Result<Self> {
        let opened = open::open(address, options)?;
        Ok(Self {
            group: opened.group.into(),
            own: opened.own.map(Into::into),
            others: opened.others.map(Into::into),
            joined: AtomicU32::new(0),
            destination: opened.destination,
            interface: opened.interface,
            asked: Some((asked.clone(), options.clone())),
            waker,
            news,
            changed: AtomicBool::new(false),
            uncut_from_bytes: AtomicUsize::new(if options.offload { usize::MAX } else { 0 }),
            marks: options.marks.clone(),
            marked: AtomicUsize::new(UNMARKED),
        })
    }

    /// One socket at an address, for whoever sends to it.
    pub fn listen(address: SocketAddr, options: &SocketOptions) -> io::Result<Self> {
        let opened = open::listen(address, options)?;
        Ok(Self {
            destination: address,
            group: opened.into(),
            own: None,
            others: None,
            joined: AtomicU32::new(0),
            interface: None,
            asked: None,
            waker: Waker::new()?,
            news: None,
            changed: AtomicBool::new(false),
            uncut_from_bytes: AtomicUsize::new(if options.offload { usize::MAX } else { 0 }),
            marks: options.marks.clone(),
            marked: AtomicUsize::new(UNMARKED),
        })
    }

    /// The address everything is sent from.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sending().local_addr()
    }

    /// The group, or the one peer; an IPv6 address that is local to a link names its interface.
    pub fn destination(&self) -> SocketAddr {
        self.destination
    }

    /// The interface in use; none for a unicast link that left it to the routing table.
    pub fn interface(&self) -> Option<&InterfaceInfo> {
        self.interface.as_ref()
    }

    /// Whether the interface is as it was; `None` if the routing table decides.
    pub fn look(&self) -> Option<Standing> {
        let (used, (asked, _)) = (self.interface.as_ref()?, self.asked.as_ref()?);
        // Where the system does not say, nothing is known.
        interfaces::look(&asked.interface, used, self.destination.is_ipv6()).ok()
    }

    /// The receive buffer the kernel granted, as it counts: with its own overhead for each packet.
    pub fn receive_buffer_bytes(&self, which: Which) -> io::Result<usize> {
        SockRef::from(self.socket(which).unwrap_or(&self.group)).recv_buffer_size()
    }

    /// Whether runs of datagrams of this size go to the kernel in one piece.
    pub fn cuts_runs_of(&self, datagram_bytes: usize) -> bool {
        datagram_bytes < self.uncut_from_bytes.load(Ordering::Relaxed)
    }

    /// Marks what is sent from now on as datagrams of a lane, or as what is of none.
    #[inline]
    pub fn mark(&self, lane: Option<usize>) -> io::Result<()> {
        if self.marks.is_empty() {
            return Ok(());
        }
        let lane = lane.filter(|&lane| lane < self.marks.len()).unwrap_or(0);
        let before = self.marked.swap(lane, Ordering::Relaxed);
        if self.marks.get(before) == Some(&self.marks[lane]) {
            return Ok(());
        }
        open::set_mark(SockRef::from(self.sending()), self.destination.is_ipv6(), self.marks[lane])
    }

    /// Sends a run: `bytes` as datagrams of `segment_bytes`, of which the last may be shorter.
    ///
    /// Returns how many bytes went out. That is all of them, or with no offload a whole number of datagrams when
    /// there was no room for more; no room for even one is [`io::ErrorKind::WouldBlock`].
    pub fn send_run(&self, to: SocketAddr, bytes: &[u8], segment_bytes: usize) -> io::Result<usize> {
        if bytes.len() > RUN_BYTES_MAX || bytes.len() > segment_bytes.saturating_mul(RUN_DATAGRAMS_MAX) {
            let size = bytes.len();
            return Err(invalid(format!(
                "a run of {size} bytes in segments of {segment_bytes}: at most {RUN_DATAGRAMS_MAX} segments and \
                 {RUN_BYTES_MAX} bytes go in one"
            )));
        }
        if bytes.len() <= segment_bytes {
            return self.sending().send_to(bytes, to);
        }
        if !self.cuts_runs_of(segment_bytes) {
            return self.send_one_by_one(to, bytes, segment_bytes);
        }
        match send_segmented(self.sending(), &to, bytes, segment_bytes as u16) {
            Ok(()) => Ok(bytes.len()),
            Err(error) if refuses_to_cut(&error) => {
                // Only if the same bytes can be sent otherwise was it the cutting that was refused.
                let sent = self.send_one_by_one(to, bytes, segment_bytes)?;
                self.uncut_from_bytes.fetch_min(segment_bytes, Ordering::Relaxed);
                Ok(sent)
            }
            Err(error) => Err(error),
        }
    }

    /// Receives what has arrived on one socket, without waiting, and returns how many runs that were.
    ///
    /// Nothing there is [`io::ErrorKind::WouldBlock`].
    pub fn receive(&self, which: Which, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        buffers.filled = 0;
        let Some(socket) = self.socket(which) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        buffers.filled = receive_batch(socket, &mut buffers.storage, &mut buffers.entries)?;
        Ok(buffers.filled)
    }

    /// Waits until there is something to do: to receive, to send if `want_write`, a wake-up; at most for `timeout`.
    pub fn wait(&self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        let waker = self.waker.descriptor();
        // What there is not is stood for by another one.
        let news = self.news.as_ref().map_or(waker, |news| news.descriptor());
        let items = [
            (sys::borrow(&self.group), false),
            (sys::borrow(self.sending()), want_write),
            (sys::borrow(self.others.as_ref().unwrap_or(&self.group)), false),
            (waker, false),
            (news, false),
        ];
        let [(group, _), (own, writable), (others, _), (woken, _), (changed, _)] = sys::poll(items, timeout)?;
        let others = others && self.others.is_some();
        let ready = Ready { group, own: own && self.own.is_some(), others, writable, woken };
        if ready.woken {
            self.waker.clear();
        }
        if let Some(news) = self.news.as_ref().filter(|_| changed) {
            news.clear();
            self.changed.store(true, Ordering::Relaxed);
        }
        Ok(ready)
    }

    /// Whether interfaces changed since this was asked last, as far as [`wait`](Self::wait) was told.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed) && self.changed.swap(false, Ordering::Relaxed)
    }

    /// Something that makes [`wait`](Self::wait) return.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// What everything is sent from.
    pub(super) fn sending(&self) -> &UdpSocket {
        self.own.as_ref().unwrap_or(&self.group)
    }

    fn socket(&self, which: Which) -> Option<&UdpSocket> {
        match which {
            Which::Group => Some(&self.group),
            Which::Own => self.own.as_ref(),
            Which::Others => self.others.as_ref(),
        }
    }

    fn send_one_by_one(&self, to: SocketAddr, bytes: &[u8], segment_bytes: usize) -> io::Result<usize> {
        let mut sent = 0;
        for datagram in bytes.chunks(segment_bytes) {
            match self.sending().send_to(datagram, to) {
                Ok(_) => sent += datagram.len(),
                Err(error) if sent > 0 && error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
