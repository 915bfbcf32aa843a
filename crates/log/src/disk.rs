//! What the log needs of a disk. The real one is in `io`, the simulated one in `sim`.

use std::io;
use std::sync::Arc;

/// A directory of files. Only what was synced is there after a crash: the contents of a file by [`Disk::sync`], its
/// name by [`Disk::sync_directory`].
pub trait Disk: Send + Sync + 'static {
    /// An open file.
    type File: Send + Sync + 'static;

    /// Names and lengths of the files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// Makes a file of so many zero bytes, for which there is room on the disk from then on. `StorageFull` if there
    /// is not, and then there is no file.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<Self::File>>;

    /// Opens a file to read and write.
    fn open(&self, name: &str) -> io::Result<Arc<Self::File>>;

    /// How long a file is.
    fn length(&self, file: &Self::File) -> io::Result<u64>;

    /// Reads as much as there is at a place, up to the length of `into`.
    fn read(&self, file: &Self::File, position: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all of it.
    fn write(&self, file: &Self::File, position: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes a file shorter.
    fn truncate(&self, file: &Self::File, bytes: u64) -> io::Result<()>;

    /// Returns when the contents of the file are durable.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Gives a file another name, in place of whichever had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Returns when names are durable.
    fn sync_directory(&self) -> io::Result<()>;
}
