//! Windows: sockets in place of descriptors, and no promise about names in a directory.

use std::ffi::OsString;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::windows::ffi::OsStringExt as _;
use std::os::windows::fs::FileExt as _;
use std::os::windows::io::{AsRawSocket as _, BorrowedSocket, IntoRawSocket as _, RawSocket};
use std::path::Path;
use std::time::Duration;
use std::{io, ptr, slice};

pub(crate) use std::os::windows::io::AsSocket as AsDescriptor;

use windows_sys::Win32::Foundation::{
    ERROR_BUFFER_OVERFLOW, ERROR_INVALID_HANDLE, ERROR_NO_DATA, ERROR_SUCCESS,
};
use windows_sys::Win32::NetworkManagement::IpHelper::{
    GAA_FLAG_SKIP_ANYCAST, GAA_FLAG_SKIP_DNS_SERVER, GAA_FLAG_SKIP_MULTICAST, GetAdaptersAddresses,
    IF_TYPE_SOFTWARE_LOOPBACK, IP_ADAPTER_ADDRESSES_LH, IP_ADAPTER_NO_MULTICAST,
};
use windows_sys::Win32::NetworkManagement::Ndis::IfOperStatusUp;
use windows_sys::Win32::Networking::WinSock::{
    AF_INET, AF_INET6, AF_UNSPEC, POLLIN, POLLOUT, SOCKADDR, SOCKADDR_IN, SOCKADDR_IN6, WSAENOTSOCK,
    WSAGetLastError, WSAPOLLFD, WSAPoll,
};

use super::RawInterface;

/// The number that the system has for a socket.
pub type Descriptor = RawSocket;
/// A socket of somebody who keeps it open.
pub(crate) type Borrowed<'a> = BorrowedSocket<'a>;
/// One of two ends that are connected inside this process. Python can wait for sockets alone.
pub type Pipe = TcpStream;
/// An end of what wakes a thread.
pub(crate) type WakeEnd = TcpStream;

/// The descriptor of a socket.
pub(crate) fn borrow(socket: &impl AsDescriptor) -> Borrowed<'_> {
    socket.as_socket()
}

/// What this machine is called; empty if the system does not say.
pub(crate) fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// The number of a socket, valid while it is open.
pub(crate) fn number(socket: &impl AsDescriptor) -> Descriptor {
    socket.as_socket().as_raw_socket()
}

/// Two ends that are connected to each other, over the loopback interface.
pub(crate) fn pipe() -> io::Result<(Pipe, Pipe)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    loop {
        let (far, from) = listener.accept()?;
        // Another program may have connected meanwhile. It is hung up on.
        if from == near.local_addr()? {
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            return Ok((near, far));
        }
    }
}

/// Gives a pipe's end to whoever keeps its number.
pub fn into_descriptor(pipe: Pipe) -> Descriptor {
    pipe.into_raw_socket()
}

/// The end that a thread waits for, and the one to write to.
pub(crate) fn wake_channel() -> io::Result<(WakeEnd, Option<WakeEnd>)> {
    let (reader, writer) = pipe()?;
    reader.set_nonblocking(true)?;
    writer.set_nonblocking(true)?;
    Ok((reader, Some(writer)))
}

/// Waits until one of the sockets is ready or the time is over; `None` waits for ever.
///
/// Each item is a socket and whether to wait for room to write as well. Returns (readable, writable) for each.
pub(crate) fn poll<const N: usize>(
    items: [(Borrowed<'_>, bool); N],
    timeout: Option<Duration>,
) -> io::Result<[(bool, bool); N]> {
    let mut polled = items.map(|(socket, write)| WSAPOLLFD {
        fd: socket.as_raw_socket() as usize,
        events: if write { POLLIN | POLLOUT } else { POLLIN },
        revents: 0,
    });
    // Rounded up: waking a little late is better than spinning until the millisecond is over.
    let limit_ms =
        timeout.map_or(-1, |timeout| timeout.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX));
    // SAFETY: `polled` outlives the call, and the sockets are open because they are borrowed.
    if unsafe { WSAPoll(polled.as_mut_ptr(), N as u32, limit_ms) } < 0 {
        // SAFETY: a plain call.
        return Err(io::Error::from_raw_os_error(unsafe { WSAGetLastError() }));
    }
    // An error on a socket shows as readable, so that the next receive reports it.
    Ok(polled.map(|item| (item.revents & !POLLOUT != 0, item.revents & POLLOUT != 0)))
}

/// Whether a socket that was made a moment ago leaves so many for others: the system has no such limit.
pub(crate) fn leaves_free(_: &impl AsDescriptor, _: u64) -> bool {
    true
}

/// What all interfaces take is asked for again where there are more of them by then.
const LIST_CALLS_MAX: usize = 5;

/// Every address of every interface, in the system's order.
pub(crate) fn interfaces() -> io::Result<Vec<RawInterface>> {
    let flags = GAA_FLAG_SKIP_ANYCAST | GAA_FLAG_SKIP_MULTICAST | GAA_FLAG_SKIP_DNS_SERVER;
    let mut bytes: u32 = 16 << 10;
    for _ in 0..LIST_CALLS_MAX {
        // Of numbers, so that it is aligned as the list in it has to be.
        let mut list = vec![0u64; (bytes as usize).div_ceil(8)];
        let first = list.as_mut_ptr().cast::<IP_ADAPTER_ADDRESSES_LH>();
        // SAFETY: `list` has `bytes` bytes and outlives the call.
        match unsafe { GetAdaptersAddresses(AF_UNSPEC.into(), flags, ptr::null(), first, &raw mut bytes) } {
            // SAFETY: the system made a linked list in `list`, which lives until this function returns.
            ERROR_SUCCESS => return Ok(unsafe { read_interfaces(first) }),
            ERROR_NO_DATA => return Ok(Vec::new()),
            ERROR_BUFFER_OVERFLOW => {}
            code => return Err(io::Error::from_raw_os_error(code as i32)),
        }
    }
    Err(io::Error::other("the list of interfaces changes all the time"))
}

/// # Safety
/// `first` is null or the first of a linked list that `GetAdaptersAddresses` made and that is still there.
unsafe fn read_interfaces(first: *const IP_ADAPTER_ADDRESSES_LH) -> Vec<RawInterface> {
    let mut found = Vec::new();
    // SAFETY: by the contract above. Names end with a zero; addresses are as long as their family says. Both members of each
    // union are plain numbers.
    unsafe {
        let mut next = first;
        while let Some(item) = next.as_ref() {
            let length = (0..).take_while(|&at| *item.FriendlyName.add(at) != 0).count();
            let name = OsString::from_wide(slice::from_raw_parts(item.FriendlyName, length));
            let index = match item.Anonymous1.Anonymous.IfIndex {
                // It has no IPv4.
                0 => item.Ipv6IfIndex,
                index => index,
            };
            let is_up = item.OperStatus == IfOperStatusUp;
            let interface = |address| RawInterface {
                name: name.to_string_lossy().into_owned(),
                index,
                address,
                up: is_up,
                running: is_up,
                multicast: item.Anonymous2.Flags & IP_ADAPTER_NO_MULTICAST == 0,
                loopback: item.IfType == IF_TYPE_SOFTWARE_LOOPBACK,
            };
            let known = found.len();
            let mut address = item.FirstUnicastAddress;
            while let Some(unicast) = address.as_ref() {
                found.extend(ip_address(unicast.Address.lpSockaddr).map(|ip| interface(Some(ip))));
                address = unicast.Next;
            }
            if found.len() == known {
                found.push(interface(None));
            }
            next = item.Next;
        }
    }
    found
}

/// # Safety
/// `address` is null or points at a socket address of the length its family has.
unsafe fn ip_address(address: *const SOCKADDR) -> Option<IpAddr> {
    // SAFETY: by the contract above. All members of the unions are bytes.
    unsafe {
        match address.as_ref()?.sa_family {
            AF_INET => {
                let address = ptr::read_unaligned(address.cast::<SOCKADDR_IN>());
                Some(IpAddr::from(address.sin_addr.S_un.S_addr.to_ne_bytes()))
            }
            AF_INET6 => {
                let address = ptr::read_unaligned(address.cast::<SOCKADDR_IN6>());
                Some(IpAddr::from(address.sin6_addr.u.Byte))
            }
            _ => None,
        }
    }
}

/// Whether an error says that the socket itself is no longer one.
pub(crate) fn is_socket_gone(error: &io::Error) -> bool {
    let gone = [WSAENOTSOCK, ERROR_INVALID_HANDLE as i32];
    error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

/// Opens a file to read.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Reads some bytes at a position.
pub(crate) fn read_at(file: &File, into: &mut [u8], position: u64) -> io::Result<usize> {
    file.seek_read(into, position)
}

/// Reads bytes at a position, all of them.
pub(crate) fn read_exact_at(file: &File, mut into: &mut [u8], mut position: u64) -> io::Result<()> {
    while !into.is_empty() {
        match file.seek_read(into, position)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                into = &mut into[count..];
                position += count as u64;
            }
        }
    }
    Ok(())
}

/// Writes bytes at a position, all of them.
pub(crate) fn write_all_at(file: &File, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, position)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => {
                bytes = &bytes[count..];
                position += count as u64;
            }
        }
    }
    Ok(())
}

/// A directory whose names have to survive a power failure.
#[derive(Debug)]
pub(crate) struct OpenDirectory;

impl OpenDirectory {
    pub fn open(_: &Path) -> io::Result<OpenDirectory> {
        Ok(OpenDirectory)
    }

    /// Does nothing: the file system has a journal of names, and no call that syncs a directory.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
