//! Room on a disk, which the standard library cannot ask for.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Makes a file so long that writing up to there cannot fail for want of room.
pub(super) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
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
