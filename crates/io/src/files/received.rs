//! A file on its way to disk.
//!
//! As long as something of it is missing it is called `NAME.part`; under its name it appears when it is complete,
//! and never in the place of another. It is not synced to disk: a receiver that says "received" has given the bytes
//! to the operating system, which survives its own end but not that of the machine. What is dropped before it is
//! complete is removed; what a process that was killed left behind keeps its name, and nobody writes to it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use shoal_norm::StreamId;

use crate::sys;

/// So many files may have come under the same node, instance and number.
const SAME_NAMES_MAX: u32 = 10_000;

/// A file being received.
#[derive(Debug)]
pub struct ReceivedFile {
    file: File,
    part: PathBuf,
    directory: PathBuf,
    object: StreamId,
    /// The number of its name among those of the same object.
    number: u32,
}

/// The name of the file of an object; numbers repeat, so there may be others of it.
fn name_of(object: StreamId, number: u32) -> String {
    let name = format!("{}-{}-{}", object.node, object.instance, object.object);
    if number > 1 { format!("{name}-{number}") } else { name }
}

fn too_many() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "too many files of this name are there")
}

fn is_taken(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

impl ReceivedFile {
    /// Begins a file of `bytes` under a name nobody has.
    pub fn begin(directory: &Path, object: StreamId, bytes: u64) -> io::Result<ReceivedFile> {
        for number in 1..=SAME_NAMES_MAX {
            let name = name_of(object, number);
            let part = directory.join(format!("{name}.part"));
            if is_taken(&directory.join(&name)) {
                continue;
            }
            let file = match OpenOptions::new().write(true).create_new(true).open(&part) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            };
            let received = ReceivedFile { file, part, directory: directory.to_owned(), object, number };
            received.file.set_len(bytes)?;
            return Ok(received);
        }
        Err(too_many())
    }

    /// Writes bytes where they belong.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        sys::write_all_at(&self.file, bytes, offset)
    }

    /// Gives it its name, since it is complete.
    pub fn finish(mut self) -> io::Result<PathBuf> {
        while self.number <= SAME_NAMES_MAX {
            let path = self.directory.join(name_of(self.object, self.number));
            match self.name_as(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.number += 1,
                Err(error) => return Err(error),
            }
        }
        Err(too_many())
    }

    /// A link does not replace what is there, as renaming would; but not every file system has links.
    fn name_as(&self, path: &Path) -> io::Result<()> {
        match fs::hard_link(&self.part, path) {
            Ok(()) => Ok(()),
            Err(error) if is_taken(path) || !is_taken(&self.part) => Err(error),
            Err(_) => fs::rename(&self.part, path),
        }
    }
}

impl Drop for ReceivedFile {
    fn drop(&mut self) {
        // If it has its name, that remains.
        let _ = fs::remove_file(&self.part);
    }
}
