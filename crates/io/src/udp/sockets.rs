//! The two sockets of a link: one hears the group, one sends and hears what is meant for this node alone.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};

use super::{
    LinkAddress, ReceiveBuffers, SocketOptions, Waker, receive_batch, send_segmented, sys,
};
use crate::interfaces::{self, Interface, InterfaceInfo};

/// The largest run: what fits in one UDP datagram over IPv4.
pub const RUN_BYTES_MAX: usize = 65_507;
/// The most datagrams in a run that every kernel with GSO takes.
pub const RUN_DATAGRAMS_MAX: usize = 64;

/// One of a link's two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Bound to the group's address: what everybody hears. For a unicast link, bound to the port agreed on.
    Group,
    /// With a port of its own: everything is sent from here, and unicast feedback comes back to it.
    Own,
}

/// Why [`Sockets::wait`] returned; all false when the time was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There is something to receive on [`Which::Group`].
    pub group: bool,
    /// There is something to receive on [`Which::Own`].
    pub own: bool,
    /// There is room to send, if that was asked for.
    pub writable: bool,
    /// A [`Waker`] was used.
    pub woken: bool,
}

/// The sockets of one link. Meant for one thread; only [`Waker`]s are for others.
#[derive(Debug)]
pub struct Sockets {
    group: UdpSocket,
    own: UdpSocket,
    interface: Option<InterfaceInfo>,
    waker: Waker,
    /// Runs of datagrams this large or larger are sent one by one: the kernel refused to cut them.
    uncut_from_bytes: AtomicUsize,
}

impl Sockets {
    /// Opens both sockets and joins the group; the error says what was tried.
    pub fn open(address: &LinkAddress, options: &SocketOptions) -> io::Result<Self> {
        let LinkAddress { group, interface } = address;
        if options.dscp > 63 {
            return Err(invalid(format!(
                "dscp is {}, and must be 0 to 63",
                options.dscp
            )));
        }
        let multicast = group.ip().is_multicast();
        let info = if multicast || *interface != Interface::Auto {
            Some(interfaces::choose(interface, group.is_ipv6())?)
        } else {
            None
        };
        let (group_socket, own_socket) = match &info {
            Some(info) if multicast => {
                let context =
                    |error| explain(error, format!("joining {group} on interface {info}"));
                (
                    open_group(group, info, options).map_err(context)?,
                    open_own(local(group, info), options)?,
                )
            }
            _ => {
                let here = info
                    .as_ref()
                    .map_or_else(|| unspecified(group), |info| local(group, info));
                let mut listen = here;
                listen.set_port(group.port());
                let context = |error| explain(error, format!("listening on {listen} for {group}"));
                (
                    open_unicast(listen, options).map_err(context)?,
                    open_own(here, options)?,
                )
            }
        };
        if let (Some(info), true) = (&info, multicast) {
            let context = |error| explain(error, format!("sending to {group} on interface {info}"));
            send_multicast_by(&own_socket, info, options, group.is_ipv6()).map_err(context)?;
            check_route(group, info, options).map_err(context)?;
        }
        Ok(Self {
            group: group_socket.into(),
            own: own_socket.into(),
            interface: info,
            waker: Waker::new()?,
            uncut_from_bytes: AtomicUsize::new(if options.offload { usize::MAX } else { 0 }),
        })
    }

    /// The address of the socket with a port of its own.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.own.local_addr()
    }

    /// The interface in use; none for a unicast link that left it to the routing table.
    pub fn interface(&self) -> Option<&InterfaceInfo> {
        self.interface.as_ref()
    }

    /// The receive buffer the kernel granted, as it counts: with its own overhead for each packet.
    pub fn receive_buffer_bytes(&self, which: Which) -> io::Result<usize> {
        SockRef::from(self.socket(which)).recv_buffer_size()
    }

    /// Whether runs of datagrams of this size go to the kernel in one piece.
    pub fn cuts_runs_of(&self, datagram_bytes: usize) -> bool {
        datagram_bytes < self.uncut_from_bytes.load(Ordering::Relaxed)
    }

    /// Sends a run: `bytes` as datagrams of `segment_bytes`, of which the last may be shorter.
    ///
    /// Returns how many bytes went out. That is all of them, or with no offload a whole number of datagrams when
    /// there was no room for more; no room for even one is [`io::ErrorKind::WouldBlock`].
    pub fn send_run(
        &self,
        to: SocketAddr,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> io::Result<usize> {
        if bytes.len() > RUN_BYTES_MAX
            || bytes.len() > segment_bytes.saturating_mul(RUN_DATAGRAMS_MAX)
        {
            let size = bytes.len();
            return Err(invalid(format!(
                "a run of {size} bytes in segments of {segment_bytes}: at most {RUN_DATAGRAMS_MAX} segments and \
                 {RUN_BYTES_MAX} bytes go in one"
            )));
        }
        if bytes.len() <= segment_bytes {
            return self.own.send_to(bytes, to);
        }
        if !self.cuts_runs_of(segment_bytes) {
            return self.send_one_by_one(to, bytes, segment_bytes);
        }
        match send_segmented(&self.own, &to, bytes, segment_bytes as u16) {
            Ok(()) => Ok(bytes.len()),
            Err(error) if refuses_to_cut(&error) => {
                // Only if the same bytes can be sent otherwise was it the cutting that was refused.
                let sent = self.send_one_by_one(to, bytes, segment_bytes)?;
                self.uncut_from_bytes
                    .fetch_min(segment_bytes, Ordering::Relaxed);
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
        buffers.filled = receive_batch(
            self.socket(which),
            &mut buffers.storage,
            &mut buffers.entries,
        )?;
        Ok(buffers.filled)
    }

    /// Waits until there is something to do: to receive, to send if `want_write`, a wake-up; at most for `timeout`.
    pub fn wait(&self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        let items = [
            (self.group.as_fd(), false),
            (self.own.as_fd(), want_write),
            (self.waker.descriptor(), false),
        ];
        let [(group, _), (own, writable), (woken, _)] = sys::poll(items, timeout)?;
        if woken {
            self.waker.clear();
        }
        Ok(Ready {
            group,
            own,
            writable,
            woken,
        })
    }

    /// Something that makes [`wait`](Self::wait) return.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    #[cfg(test)]
    pub(super) fn own_socket(&self) -> &UdpSocket {
        &self.own
    }

    fn socket(&self, which: Which) -> &UdpSocket {
        match which {
            Which::Group => &self.group,
            Which::Own => &self.own,
        }
    }

    fn send_one_by_one(
        &self,
        to: SocketAddr,
        bytes: &[u8],
        segment_bytes: usize,
    ) -> io::Result<usize> {
        let mut sent = 0;
        for datagram in bytes.chunks(segment_bytes) {
            match self.own.send_to(datagram, to) {
                Ok(_) => sent += datagram.len(),
                Err(error) if sent > 0 && error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}

/// No such offload, or not for datagrams of this size on this device.
fn refuses_to_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
        || matches!(
            error.raw_os_error(),
            Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP)
        )
}

fn open_group(
    group: &SocketAddr,
    info: &InterfaceInfo,
    options: &SocketOptions,
) -> io::Result<Socket> {
    let socket = new_socket(group, options)?;
    // Several processes of one machine listen to one group.
    socket.set_reuse_address(true)?;
    #[cfg(not(target_os = "linux"))]
    socket.set_reuse_port(true)?;
    let bind_to = match group {
        SocketAddr::V4(_) => *group,
        SocketAddr::V6(group) => SocketAddrV6::new(*group.ip(), group.port(), 0, info.index).into(),
    };
    socket.bind(&bind_to.into())?;
    match group.ip() {
        IpAddr::V4(ip) => {
            #[cfg(target_os = "linux")]
            socket.set_multicast_all_v4(false)?;
            socket.join_multicast_v4_n(&ip, &InterfaceIndexOrAddress::Index(info.index))?;
        }
        IpAddr::V6(ip) => {
            #[cfg(target_os = "linux")]
            socket.set_multicast_all_v6(false)?;
            socket.join_multicast_v6(&ip, info.index)?;
        }
    }
    Ok(socket)
}

fn open_unicast(listen: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = new_socket(&listen, options)?;
    socket.bind(&listen.into())?;
    Ok(socket)
}

fn open_own(here: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    open_unicast(here, options)
        .map_err(|error| explain(error, format!("opening a port on {}", here.ip())))
}

fn send_multicast_by(
    socket: &Socket,
    info: &InterfaceInfo,
    options: &SocketOptions,
    ipv6: bool,
) -> io::Result<()> {
    if ipv6 {
        socket.set_multicast_if_v6(info.index)?;
        socket.set_multicast_hops_v6(options.ttl)?;
        return socket.set_multicast_loop_v6(options.loopback);
    }
    if let Some(IpAddr::V4(address)) = info.address(false) {
        socket.set_multicast_if_v4(&address)?;
    }
    socket.set_multicast_ttl_v4(options.ttl)?;
    socket.set_multicast_loop_v4(options.loopback)
}

/// Fails now rather than at the first datagram when the routing table has no place for the group.
fn check_route(
    group: &SocketAddr,
    info: &InterfaceInfo,
    options: &SocketOptions,
) -> io::Result<()> {
    let probe = new_socket(group, options)?;
    send_multicast_by(&probe, info, options, group.is_ipv6())?;
    match probe.connect(&(*group).into()) {
        // Linux gives the loopback interface no route for IPv6 multicast.
        Err(error) if group.is_ipv6() && error.kind() == io::ErrorKind::NetworkUnreachable => {
            let remedy = format!(
                "ip -6 route add multicast ff00::/8 dev {} table local",
                info.name
            );
            Err(explain(error, format!("no route; `{remedy}` adds one")))
        }
        result => result,
    }
}

fn new_socket(address: &SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(*address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
        socket.set_tclass_v6(u32::from(options.dscp) << 2)?;
    } else {
        socket.set_tos_v4(u32::from(options.dscp) << 2)?;
    }
    set_buffers(&socket, options)?;
    #[cfg(target_os = "linux")]
    if options.offload {
        // An old kernel does not know it; datagrams then come one by one.
        let _ = sys::set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    }
    Ok(socket)
}

/// Asks for more than the system's limit first, which root may have, and then for what anybody may.
fn set_buffers(socket: &Socket, options: &SocketOptions) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    for (force, bytes) in [
        (libc::SO_RCVBUFFORCE, options.receive_buffer_bytes),
        (libc::SO_SNDBUFFORCE, options.send_buffer_bytes),
    ] {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        if sys::set_option(socket, libc::SOL_SOCKET, force, bytes).is_err() {
            let plain = if force == libc::SO_RCVBUFFORCE {
                libc::SO_RCVBUF
            } else {
                libc::SO_SNDBUF
            };
            sys::set_option(socket, libc::SOL_SOCKET, plain, bytes)?;
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        socket.set_recv_buffer_size(options.receive_buffer_bytes)?;
        socket.set_send_buffer_size(options.send_buffer_bytes)?;
    }
    Ok(())
}

/// The interface's own address with a port that the system chooses.
fn local(group: &SocketAddr, info: &InterfaceInfo) -> SocketAddr {
    match info.address(group.is_ipv6()) {
        Some(IpAddr::V6(ip)) => SocketAddrV6::new(ip, 0, 0, info.index).into(),
        Some(ip) => SocketAddr::new(ip, 0),
        None => unspecified(group),
    }
}

fn unspecified(like: &SocketAddr) -> SocketAddr {
    let ip: IpAddr = if like.is_ipv6() {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    SocketAddr::new(ip, 0)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn explain(error: io::Error, doing: String) -> io::Error {
    io::Error::new(error.kind(), format!("{doing}: {error}"))
}
