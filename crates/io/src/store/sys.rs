//! Room on a disk, which the standard library cannot ask for.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

/// Makes a file so long that writing up to there cannot fail for want of room.
#[cfg(target_os = "linux")]
pub(super) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;

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

/// Makes a file so long. Elsewhere the system promises no room: a full disk shows when the file is written.
#[cfg(not(target_os = "linux"))]
pub(super) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() < bytes { file.set_len(bytes) } else { Ok(()) }
}
