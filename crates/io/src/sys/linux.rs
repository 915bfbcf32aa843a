//! What only Linux has.

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, SystemTime};
use std::{io, mem, ptr};

use socket2::{SockAddr, SockAddrStorage};

use super::WakeEnd;
use super::unix::{check, poll_raw};
use crate::udp::receive::{BATCH_MAX, Entry, SLOT_BYTES};

/// Room for the control messages we send or ask for: an integer and a time.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// The clock of the processor time that a thread uses. Any thread may read it.
#[derive(Debug)]
pub(crate) struct ThreadClock(libc::clockid_t);

/// The clock of the calling thread.
pub(crate) fn thread_clock() -> Option<ThreadClock> {
    let mut clock = 0;
    // SAFETY: the calling thread runs, so that its handle is valid; the number is written to where `clock` is.
    let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
    (result == 0).then_some(ThreadClock(clock))
}

impl ThreadClock {
    /// Nanoseconds of processor time so far; `None` once the thread is gone.
    pub(crate) fn read_ns(&self) -> Option<u64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one `timespec`, which lives until the call returns.
        let result = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// Sets an integer socket option.
pub(crate) fn set_option(socket: &impl AsRawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<i32>()` bytes of `value`, which lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// An integer socket option as it is.
#[cfg(test)]
pub(crate) fn get_option(socket: &impl AsRawFd, level: i32, option: i32) -> io::Result<i32> {
    let (mut value, mut length) = (0i32, mem::size_of::<i32>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` bytes to `value`; both live until the call returns.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length)
    };
    check(result).map(|_| value)
}

/// The two ends of what wakes a thread that waits in [`poll`](super::poll): both are one eventfd.
pub(crate) fn wake_channel() -> io::Result<(WakeEnd, Option<WakeEnd>)> {
    // SAFETY: a plain call; the descriptor it returns belongs to nobody else.
    let event = unsafe {
        let fd = check(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))?;
        OwnedFd::from_raw_fd(fd)
    };
    Ok((event.into(), None))
}

/// Waits until a descriptor can be read or the time is over. One that is closed can be read.
pub(crate) fn wait_readable(fd: RawFd, timeout: Duration) -> io::Result<()> {
    let mut polled = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    match check(poll_raw(&mut polled, Some(timeout))) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// A socket that hears what becomes of interfaces and of their addresses.
pub(crate) fn route_news() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
    // SAFETY: all zeroes are a valid address; the kernel reads as much of it as it has, and it outlives the call. The
    // descriptor belongs to nobody else.
    unsafe {
        let fd = OwnedFd::from_raw_fd(check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?);
        let mut address: libc::sockaddr_nl = mem::zeroed();
        (address.nl_family, address.nl_groups) = (libc::AF_NETLINK as u16, groups as u32);
        let length = mem::size_of_val(&address) as libc::socklen_t;
        check(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length))?;
        Ok(fd)
    }
}

/// Sends `bytes` as datagrams of `segment_bytes` (the last may be shorter), cut by the kernel or the device.
pub(crate) fn send_segmented(
    socket: &UdpSocket,
    to: &SocketAddr,
    bytes: &[u8],
    segment_bytes: u16,
) -> io::Result<()> {
    let to = SockAddr::from(*to);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    // SAFETY: `message` points at `to`, `vector` and `control`, which outlive the call, and the kernel only reads
    // through it. The control buffer is aligned for `cmsghdr` and larger than the space of one `u16`.
    let sent = unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len();
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(mem::size_of::<u16>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<u16>() as u32) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<u16>(), segment_bytes);
        check_size(libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL))?
    };
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::WriteZero, format!("{sent} of {} bytes sent", bytes.len())))
    }
}

/// Receives what is there into slots of [`SLOT_BYTES`], without waiting; returns how many entries were filled.
pub(crate) fn receive_batch(
    socket: &UdpSocket,
    storage: &mut [u8],
    entries: &mut [Entry],
) -> io::Result<usize> {
    let count = entries.len().min(storage.len() / SLOT_BYTES).min(BATCH_MAX);
    let mut names = std::array::from_fn::<_, BATCH_MAX, _>(|_| SockAddrStorage::zeroed());
    let mut controls = [const { Control([0; 64]) }; BATCH_MAX];
    // SAFETY: all-zero is a valid value of these C structures.
    let mut vectors: [libc::iovec; BATCH_MAX] = unsafe { mem::zeroed() };
    let mut messages: [libc::mmsghdr; BATCH_MAX] = unsafe { mem::zeroed() };
    for (index, slot) in storage.chunks_exact_mut(SLOT_BYTES).take(count).enumerate() {
        vectors[index] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        let message = &mut messages[index].msg_hdr;
        message.msg_name = (&raw mut names[index]).cast();
        message.msg_namelen = names[index].size_of();
        message.msg_iov = &raw mut vectors[index];
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut controls[index]).cast();
        message.msg_controllen = mem::size_of::<Control>() as _;
    }
    // SAFETY: the first `count` headers point at names, vectors, controls and disjoint slots of `storage` that are
    // mutably borrowed until this function returns; the lengths given are theirs.
    let received = unsafe {
        check(libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        ))?
    };
    let received = received as usize;
    let now = SystemTime::now();
    for ((entry, message), name) in entries.iter_mut().zip(&messages).zip(names).take(received) {
        let length = message.msg_len as usize;
        // SAFETY: the kernel filled in the name and its length.
        let from = unsafe { SockAddr::new(name, message.msg_hdr.msg_namelen) };
        let control = ReceivedControl::read(&message.msg_hdr);
        *entry = Entry {
            from: from.as_socket(),
            length,
            segment_bytes: control.segment_bytes.unwrap_or(length),
            truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            // A clock that was set back meanwhile says nothing.
            waited: control
                .arrived_at
                .map_or(Duration::ZERO, |at| now.duration_since(at).unwrap_or_default()),
        };
    }
    Ok(received)
}

/// What the kernel says about what it received.
#[derive(Default)]
struct ReceivedControl {
    /// The size of the datagrams that it put together, if it did (UDP_GRO).
    segment_bytes: Option<usize>,
    /// When it had them (SO_TIMESTAMPNS).
    arrived_at: Option<SystemTime>,
}

impl ReceivedControl {
    fn read(message: &libc::msghdr) -> ReceivedControl {
        let mut control = ReceivedControl::default();
        // SAFETY: the control buffer was filled by the kernel and `msg_controllen` says how far; `CMSG_NXTHDR`
        // stays within it. The values may be unaligned.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(message);
            while !header.is_null() {
                match ((*header).cmsg_level, (*header).cmsg_type) {
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let size = ptr::read_unaligned(libc::CMSG_DATA(header).cast::<libc::c_int>());
                        control.segment_bytes = usize::try_from(size).ok().filter(|&size| size > 0);
                    }
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        control.arrived_at = system_time(ptr::read_unaligned(libc::CMSG_DATA(header).cast()));
                    }
                    _ => {}
                }
                header = libc::CMSG_NXTHDR(message, header);
            }
        }
        control
    }
}

fn system_time(time: libc::timespec) -> Option<SystemTime> {
    let since = Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Makes a file so long that writing up to there cannot fail for want of room.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    if bytes == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: the descriptor is open for as long as the file is borrowed, and no memory is passed.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes) } {
            0 => return Ok(()),
            libc::EINTR => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Whether an error says that there is no such offload, or not for datagrams of this size on this device.
pub(crate) fn refuses_to_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
        || matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}
