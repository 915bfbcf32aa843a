//! What Linux, macOS and the BSDs share.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd as _, RawFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::{io, ptr};

pub(crate) use std::os::fd::AsFd as AsDescriptor;

use super::RawInterface;

/// The number that the system has for a socket.
pub type Descriptor = RawFd;
/// A socket of somebody who keeps it open.
pub(crate) type Borrowed<'a> = BorrowedFd<'a>;
/// One of two ends that are connected inside this process.
pub type Pipe = UnixStream;
/// An end of what wakes a thread.
pub(crate) type WakeEnd = File;

/// The descriptor of a socket.
pub(crate) fn borrow(socket: &impl AsDescriptor) -> Borrowed<'_> {
    socket.as_fd()
}

/// The number of a socket, valid while it is open.
pub(crate) fn number(socket: &impl AsDescriptor) -> Descriptor {
    socket.as_fd().as_raw_fd()
}

/// What this machine is called; empty if the system does not say.
pub(crate) fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the system writes at most as many bytes as the array has, which outlives the call.
    let told = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    if told == 0 { String::from_utf8_lossy(&name[..end]).into_owned() } else { String::new() }
}

/// Two ends that are connected to each other.
pub(crate) fn pipe() -> io::Result<(Pipe, Pipe)> {
    UnixStream::pair()
}

/// Gives a pipe's end to whoever keeps its number.
pub fn into_descriptor(pipe: Pipe) -> Descriptor {
    pipe.into_raw_fd()
}

/// The end that a thread waits for, and the one to write to.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has eventfd"))]
pub(crate) fn wake_channel() -> io::Result<(WakeEnd, Option<WakeEnd>)> {
    let (reader, writer) = pipe()?;
    reader.set_nonblocking(true)?;
    writer.set_nonblocking(true)?;
    let end = |pipe: UnixStream| File::from(std::os::fd::OwnedFd::from(pipe));
    Ok((end(reader), Some(end(writer))))
}

/// Waits until one of the descriptors is ready or the time is over; `None` waits for ever.
///
/// Each item is a descriptor and whether to wait for room to write as well. Returns (readable, writable) for each.
pub(crate) fn poll<const N: usize>(
    items: [(Borrowed<'_>, bool); N],
    timeout: Option<Duration>,
) -> io::Result<[(bool, bool); N]> {
    let mut polled = items.map(|(fd, write)| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: if write { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN },
        revents: 0,
    });
    match check(poll_raw(&mut polled, timeout)) {
        Ok(_) => {}
        // A signal is no reason to fail: the caller looks at the clock and waits again.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok([(false, false); N]),
        Err(error) => return Err(error),
    }
    // An error on a socket shows as readable, so that the next receive reports it.
    Ok(polled.map(|item| (item.revents & !libc::POLLOUT != 0, item.revents & libc::POLLOUT != 0)))
}

#[cfg(target_os = "linux")]
pub(super) fn poll_raw(polled: &mut [libc::pollfd], timeout: Option<Duration>) -> libc::c_int {
    let limit = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `polled` and `limit` outlive the call; no signal mask is given.
    unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit, ptr::null()) }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn poll_raw(polled: &mut [libc::pollfd], timeout: Option<Duration>) -> libc::c_int {
    // Rounded up: waking a little late is better than spinning until the millisecond is over.
    let limit_ms =
        timeout.map_or(-1, |timeout| timeout.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX));
    // SAFETY: `polled` outlives the call.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit_ms) }
}

/// Whether a descriptor that was given out a moment ago leaves so many for others.
pub(crate) fn leaves_free(came: &impl AsDescriptor, kept: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes into `limit`, which lives until the call returns. If it fails, nothing is written.
    let _ = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    // The system gives out the lowest number that is free.
    let used = u64::try_from(came.as_fd().as_raw_fd()).unwrap_or(0);
    used.saturating_add(kept) < limit.rlim_cur
}

/// Every address of every interface, in the system's order.
pub(crate) fn interfaces() -> io::Result<Vec<RawInterface>> {
    let mut found = Vec::new();
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `getifaddrs` gives a linked list that stays valid until `freeifaddrs`; names are C strings in it, and
    // addresses are as long as their family says.
    unsafe {
        check(libc::getifaddrs(&raw mut first))?;
        let mut next = first;
        while let Some(item) = next.as_ref() {
            let has = |flag: libc::c_int| item.ifa_flags & flag as libc::c_uint != 0;
            found.push(RawInterface {
                name: CStr::from_ptr(item.ifa_name).to_string_lossy().into_owned(),
                index: libc::if_nametoindex(item.ifa_name),
                address: ip_address(item.ifa_addr),
                up: has(libc::IFF_UP),
                running: has(libc::IFF_RUNNING),
                multicast: has(libc::IFF_MULTICAST),
                loopback: has(libc::IFF_LOOPBACK),
            });
            next = item.ifa_next;
        }
        libc::freeifaddrs(first);
    }
    Ok(found)
}

/// # Safety
/// `address` is null or points at a socket address of the length its family has.
unsafe fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: by the contract above.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let address = ptr::read_unaligned(address.cast::<libc::sockaddr_in>());
                Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                let address = ptr::read_unaligned(address.cast::<libc::sockaddr_in6>());
                Some(IpAddr::from(address.sin6_addr.s6_addr))
            }
            _ => None,
        }
    }
}

pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether an error says that the socket itself is no longer one.
pub(crate) fn is_socket_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK))
}

/// Opens a file to read. It may be a pipe, whose writer would be waited for.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Reads some bytes at a position.
pub(crate) fn read_at(file: &File, into: &mut [u8], position: u64) -> io::Result<usize> {
    file.read_at(into, position)
}

/// Reads bytes at a position, all of them.
pub(crate) fn read_exact_at(file: &File, into: &mut [u8], position: u64) -> io::Result<()> {
    file.read_exact_at(into, position)
}

/// Writes bytes at a position, all of them.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    file.write_all_at(bytes, position)
}

/// A directory whose names have to survive a power failure.
#[derive(Debug)]
pub(crate) struct OpenDirectory(File);

impl OpenDirectory {
    pub fn open(path: &Path) -> io::Result<OpenDirectory> {
        File::open(path).map(OpenDirectory)
    }

    /// Returns when the names in it are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}
