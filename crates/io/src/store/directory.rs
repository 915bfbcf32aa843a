//! A directory that one store has to itself.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_log::Disk;

use crate::sys::{self, OpenDirectory};

const LOCK: &str = "LOCK";
/// Who holds a lock says so in no more bytes.
const HOLDER_BYTES_MAX: u64 = 1000;

/// Why a directory could not be had.
#[derive(Debug)]
pub enum LockError {
    /// Somebody else has it: what they wrote into the lock's file.
    Held(String),
    /// The disk refused.
    Io(io::Error),
}

/// The files of one store. Whoever has it open has locked it, as long as the process lives.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    directory: OpenDirectory,
    lock: File,
}

impl Directory {
    /// Makes the directory if it is missing, and locks it. `holder` tells others who has it.
    pub fn lock(path: &Path, holder: &str) -> Result<Directory, LockError> {
        make(path).map_err(LockError::Io)?;
        let name = path.join(LOCK);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(name);
        let mut lock = opened.map_err(LockError::Io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = Read::by_ref(&mut lock).take(HOLDER_BYTES_MAX).read_to_string(&mut text);
                return Err(LockError::Held(text));
            }
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        let mut write = || {
            lock.set_len(0)?;
            lock.seek(SeekFrom::Start(0))?;
            lock.write_all(holder.as_bytes())?;
            OpenDirectory::open(path)
        };
        let directory = write().map_err(LockError::Io)?;
        Ok(Directory { path: path.to_owned(), directory, lock })
    }

    /// Lets somebody else have it, though it is still open to read.
    pub fn unlock(&self) {
        // The system does it at the latest when the file is closed.
        let _ = self.lock.unlock();
    }
}

/// Makes a directory, and those that it lies in, with names that survive a power failure: a name is durable when the
/// directory that has it was synced.
fn make(path: &Path) -> io::Result<()> {
    let is_missing = |one: &&Path| !one.as_os_str().is_empty() && !one.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(path)?;
    let sync = |one: &Path| {
        let parent = one.parent().filter(|parent| !parent.as_os_str().is_empty());
        OpenDirectory::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync())
    };
    missing.iter().try_for_each(|one| sync(one))?;
    // It may be there because a process made it that died before it synced the name; or because somebody else did, in a
    // directory that is not ours to read.
    match sync(path) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

impl Disk for Directory {
    type File = File;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                files.push((name, entry.metadata()?.len()));
            }
        }
        Ok(files)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<File>> {
        let path = self.path.join(name);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        if let Err(error) = sys::allocate(&file, bytes) {
            fs::remove_file(&path)?;
            return Err(error);
        }
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<File>> {
        OpenOptions::new().read(true).write(true).open(self.path.join(name)).map(Arc::new)
    }

    fn length(&self, file: &File) -> io::Result<u64> {
        file.metadata().map(|metadata| metadata.len())
    }

    fn read(&self, file: &File, position: u64, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match sys::read_at(file, into, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn write(&self, file: &File, position: u64, bytes: &[u8]) -> io::Result<()> {
        sys::write_all_at(file, bytes, position)
    }

    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()> {
        file.set_len(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync()
    }
}
