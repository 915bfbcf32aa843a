//! Opening and setting the sockets of a link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};

#[cfg(target_os = "linux")]
use super::own_filter;
use super::{LinkAddress, Mark, SocketOptions};
use crate::interfaces::{self, Interface, InterfaceInfo};
#[cfg(target_os = "linux")]
use crate::sys;

/// Sockets ready for use, and the interface they are on unless the routing table decides.
pub(super) struct Opened {
    pub group: Socket,
    /// None for a unicast link, which has one socket.
    pub own: Option<Socket>,
    /// Where further groups are heard, if there are any.
    pub others: Option<Socket>,
    /// Where the group or the peer is reached.
    pub destination: SocketAddr,
    pub interface: Option<InterfaceInfo>,
}

pub(super) fn open(address: &LinkAddress, options: &SocketOptions) -> io::Result<Opened> {
    for Mark { dscp, priority } in &options.marks {
        if *dscp > 63 || *priority > 6 {
            let given = format!("a mark has DSCP {dscp} and priority {priority}");
            return Err(invalid(format!("{given}, and they must be 0 to 63 and 0 to 6")));
        }
    }
    #[cfg(windows)]
    if !options.marks.is_empty() {
        // It takes the call and marks nothing: the administrator's policy does.
        return Err(invalid(
            "Windows lets no program mark datagrams: make a QoS policy, and leave mark out".into(),
        ));
    }
    let LinkAddress { group, interface } = address;
    if group.ip().is_multicast() {
        if let Some(port) = options.listen_port {
            return Err(invalid(format!(
                "listen_port is {port}, but only a unicast link has one: {group} is a multicast group, and everybody \
                 listens on its port"
            )));
        }
        return open_multicast(group, interfaces::choose(interface, group.is_ipv6())?, options);
    }
    open_unicast(group, interface, options)
}

/// A socket at an address, for whoever sends to it.
pub(super) fn listen(address: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    open_bound(address, options).map_err(|error| explain(error, format!("listening on {address}")))
}

fn open_multicast(group: &SocketAddr, info: InterfaceInfo, options: &SocketOptions) -> io::Result<Opened> {
    let own = open_own(local(group, &info), options)?;
    let sending = |error| explain(error, format!("sending to {group} on interface {info}"));
    send_multicast_by(&own, &info, options, group.is_ipv6()).map_err(sending)?;
    check_route(group, &info, options).map_err(sending)?;
    let joining = |error| explain(error, format!("joining {group} on interface {info}"));
    let socket = open_group(group, &info, options).map_err(joining)?;
    #[cfg(target_os = "linux")]
    if let Some(own) = own.local_addr()?.as_socket() {
        own_filter::ignore(&socket, own)?;
    }
    let others = match &options.groups[..] {
        [] => None,
        _ => Some(open_others(group, options).map_err(|error| explain(error, "hearing groups".into()))?),
    };
    #[cfg(target_os = "linux")]
    if let (Some(others), Some(own)) = (&others, own.local_addr()?.as_socket()) {
        own_filter::ignore(others, own)?;
    }
    Ok(Opened { group: socket, own: Some(own), others, destination: *group, interface: Some(info) })
}

fn open_unicast(peer: &SocketAddr, interface: &Interface, options: &SocketOptions) -> io::Result<Opened> {
    if peer.ip().is_unspecified() || peer.port() == 0 {
        return Err(invalid(format!(
            "{peer} is no peer: a link over unicast needs its address and its port"
        )));
    }
    let info = match interface {
        Interface::Auto => None,
        // Not every address of this machine is listed: all of 127.0.0.0/8 is on the loopback interface.
        Interface::Address(_) => interfaces::choose(interface, peer.is_ipv6()).ok(),
        wanted => Some(interfaces::choose(wanted, peer.is_ipv6())?),
    };
    let mut listen = match (interface, &info) {
        (Interface::Address(ip), _) if ip.is_ipv6() != peer.is_ipv6() => {
            return Err(invalid(format!("{ip} cannot talk to {peer}: one is IPv4, the other IPv6")));
        }
        (Interface::Address(IpAddr::V6(ip)), Some(info)) => {
            SocketAddrV6::new(*ip, 0, 0, scope(ip, info)).into()
        }
        (Interface::Address(ip), _) => SocketAddr::new(*ip, 0),
        (_, Some(info)) => local(peer, info),
        (_, None) => unspecified(peer),
    };
    listen.set_port(options.listen_port.unwrap_or(peer.port()));
    refuse_oneself(&listen, peer)?;
    let destination = match (peer, &info) {
        (SocketAddr::V6(peer), Some(info)) => {
            SocketAddrV6::new(*peer.ip(), peer.port(), 0, scope(peer.ip(), info)).into()
        }
        _ => *peer,
    };
    let listening = |error| explain(error, format!("listening on {listen} for {peer}"));
    let socket = open_bound(listen, options).map_err(listening)?;
    check_unicast_route(&listen, &destination, options)
        .map_err(|error| explain(error, format!("sending to {peer} from {}", listen.ip())))?;
    Ok(Opened { group: socket, own: None, others: None, destination, interface: info })
}

/// The interface's number where an address means nothing without it.
fn scope(ip: &Ipv6Addr, info: &InterfaceInfo) -> u32 {
    if ip.is_unicast_link_local() { info.index } else { 0 }
}

/// A link whose peer is its own socket would hear nobody but itself.
fn refuse_oneself(listen: &SocketAddr, peer: &SocketAddr) -> io::Result<()> {
    let everywhere = listen.ip().is_unspecified();
    let is_here =
        || interfaces::list().is_ok_and(|all| all.iter().any(|info| info.addresses.contains(&peer.ip())));
    let same_address = listen.ip() == peer.ip() || (everywhere && (peer.ip().is_loopback() || is_here()));
    if listen.port() != peer.port() || !same_address {
        return Ok(());
    }
    Err(invalid(format!("{peer} is where this link itself listens: give it another port to listen on")))
}

/// Fails now rather than at the first datagram when there is no way to the peer.
fn check_unicast_route(listen: &SocketAddr, peer: &SocketAddr, options: &SocketOptions) -> io::Result<()> {
    let probe = new_socket(peer, options)?;
    let mut from = *listen;
    from.set_port(0);
    probe.bind(&from.into())?;
    probe.connect(&(*peer).into())
}

fn open_group(group: &SocketAddr, info: &InterfaceInfo, options: &SocketOptions) -> io::Result<Socket> {
    let socket = new_socket(group, options)?;
    // Several processes of one machine listen to one group.
    socket.set_reuse_address(true)?;
    #[cfg(all(unix, not(target_os = "linux")))]
    socket.set_reuse_port(true)?;
    // Windows has programs bind to no group, gives them those that they joined, and asks here whether they hear this machine.
    #[cfg(windows)]
    {
        if group.is_ipv6() {
            socket.set_multicast_loop_v6(options.loopback)?;
        } else {
            socket.set_multicast_loop_v4(options.loopback)?;
        }
    }
    let bind_to = match group {
        group if cfg!(windows) => SocketAddr::new(unspecified(group).ip(), group.port()),
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

/// A socket for groups that are joined later, on the port of the first.
fn open_others(group: &SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = new_socket(group, options)?;
    socket.set_reuse_address(true)?;
    #[cfg(all(unix, not(target_os = "linux")))]
    socket.set_reuse_port(true)?;
    #[cfg(windows)]
    if group.is_ipv6() {
        socket.set_multicast_loop_v6(options.loopback)?;
    } else {
        socket.set_multicast_loop_v4(options.loopback)?;
    }
    // Otherwise it would hear groups that other programs joined.
    #[cfg(target_os = "linux")]
    if group.is_ipv6() {
        socket.set_multicast_all_v6(false)?;
    } else {
        socket.set_multicast_all_v4(false)?;
    }
    socket.bind(&SocketAddr::new(unspecified(group).ip(), group.port()).into())?;
    Ok(socket)
}

/// Has a socket hear one more group.
pub(super) fn join(socket: SockRef<'_>, group: IpAddr, info: &InterfaceInfo) -> io::Result<()> {
    match group {
        IpAddr::V4(ip) => socket.join_multicast_v4_n(&ip, &InterfaceIndexOrAddress::Index(info.index)),
        IpAddr::V6(ip) => socket.join_multicast_v6(&ip, info.index),
    }
    .map_err(|error| explain(error, format!("joining {group} on interface {info}")))
}

fn open_bound(listen: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = new_socket(&listen, options)?;
    socket.bind(&listen.into())?;
    Ok(socket)
}

fn open_own(here: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    open_bound(here, options).map_err(|error| explain(error, format!("opening a port on {}", here.ip())))
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
fn check_route(group: &SocketAddr, info: &InterfaceInfo, options: &SocketOptions) -> io::Result<()> {
    let probe = new_socket(group, options)?;
    send_multicast_by(&probe, info, options, group.is_ipv6())?;
    match probe.connect(&(*group).into()) {
        // Linux gives the loopback interface no route for IPv6 multicast.
        Err(error) if group.is_ipv6() && error.kind() == io::ErrorKind::NetworkUnreachable => {
            let remedy = format!("ip -6 route add multicast ff00::/8 dev {} table local", info.name);
            Err(explain(error, format!("no route; `{remedy}` adds one")))
        }
        result => result,
    }
}

fn new_socket(address: &SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(*address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    set_buffers(&socket, options)?;
    // Without it nobody knows how long a datagram lay unread.
    #[cfg(target_os = "linux")]
    let _ = sys::linux::set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
    #[cfg(target_os = "linux")]
    if options.offload {
        // An old kernel does not know it; datagrams then come one by one.
        let _ = sys::linux::set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    }
    Ok(socket)
}

/// Marks what a socket sends from now on.
pub(super) fn set_mark(socket: SockRef<'_>, is_ipv6: bool, mark: Mark) -> io::Result<()> {
    #[cfg(not(windows))]
    if is_ipv6 {
        socket.set_tclass_v6(u32::from(mark.dscp) << 2)?;
    } else {
        socket.set_tos_v4(u32::from(mark.dscp) << 2)?;
    }
    // The order matters: IP_TOS sets a priority of its own.
    #[cfg(target_os = "linux")]
    sys::linux::set_option(&*socket, libc::SOL_SOCKET, libc::SO_PRIORITY, mark.priority.into())?;
    #[cfg(windows)]
    let _ = (socket, is_ipv6, mark);
    Ok(())
}

/// Asks for more than the system's limit first, which root may have, and then for what anybody may.
fn set_buffers(socket: &Socket, options: &SocketOptions) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    for (force, bytes) in [
        (libc::SO_RCVBUFFORCE, options.receive_buffer_bytes),
        (libc::SO_SNDBUFFORCE, options.send_buffer_bytes),
    ] {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        if sys::linux::set_option(socket, libc::SOL_SOCKET, force, bytes).is_err() {
            let plain = if force == libc::SO_RCVBUFFORCE { libc::SO_RCVBUF } else { libc::SO_SNDBUF };
            sys::linux::set_option(socket, libc::SOL_SOCKET, plain, bytes)?;
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
    let ip: IpAddr = if like.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 0)
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

fn explain(error: io::Error, doing: String) -> io::Error {
    io::Error::new(error.kind(), format!("{doing}: {error}"))
}
