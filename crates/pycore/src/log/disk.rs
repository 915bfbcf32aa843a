//! The disks that a log can be on: a directory, memory, and a simulated one for tests.

use std::io;
use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use shoal_io::store::{Directory, LockError, MemoryDisk, MemoryFile};
use shoal_log::Disk;
use shoal_sim::disk::{DiskFaults, SimDisk, SimFile};

/// A log as Python has it.
pub type Shared = shoal_io::store::Shared<AnyDisk>;

/// Any of the disks.
pub enum AnyDisk {
    Directory(Directory),
    Memory(MemoryDisk),
    Simulated(Arc<SimDisk>),
}

/// A file on any of them.
pub enum AnyFile {
    Real(Arc<std::fs::File>),
    Memory(Arc<MemoryFile>),
    Simulated(Arc<SimFile>),
}

impl AnyDisk {
    pub fn lock(path: &Path, holder: &str) -> Result<AnyDisk, LockError> {
        Directory::lock(path, holder).map(AnyDisk::Directory)
    }

    /// Lets somebody else have it.
    pub fn unlock(&self) {
        if let AnyDisk::Directory(directory) = self {
            directory.unlock();
        }
    }
}

fn mixed() -> io::Error {
    io::Error::other("the file is of another disk")
}

impl Disk for AnyDisk {
    type File = AnyFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        match self {
            AnyDisk::Directory(disk) => disk.list(),
            AnyDisk::Memory(disk) => disk.list(),
            AnyDisk::Simulated(disk) => disk.list(),
        }
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<AnyFile>> {
        Ok(Arc::new(match self {
            AnyDisk::Directory(disk) => AnyFile::Real(disk.create(name, bytes)?),
            AnyDisk::Memory(disk) => AnyFile::Memory(disk.create(name, bytes)?),
            AnyDisk::Simulated(disk) => AnyFile::Simulated(disk.create(name, bytes)?),
        }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<AnyFile>> {
        Ok(Arc::new(match self {
            AnyDisk::Directory(disk) => AnyFile::Real(disk.open(name)?),
            AnyDisk::Memory(disk) => AnyFile::Memory(disk.open(name)?),
            AnyDisk::Simulated(disk) => AnyFile::Simulated(disk.open(name)?),
        }))
    }

    fn length(&self, file: &AnyFile) -> io::Result<u64> {
        match (self, file) {
            (AnyDisk::Directory(disk), AnyFile::Real(file)) => disk.length(file),
            (AnyDisk::Memory(disk), AnyFile::Memory(file)) => disk.length(file),
            (AnyDisk::Simulated(disk), AnyFile::Simulated(file)) => disk.length(file),
            _ => Err(mixed()),
        }
    }

    fn read(&self, file: &AnyFile, position: u64, into: &mut [u8]) -> io::Result<usize> {
        match (self, file) {
            (AnyDisk::Directory(disk), AnyFile::Real(file)) => disk.read(file, position, into),
            (AnyDisk::Memory(disk), AnyFile::Memory(file)) => disk.read(file, position, into),
            (AnyDisk::Simulated(disk), AnyFile::Simulated(file)) => disk.read(file, position, into),
            _ => Err(mixed()),
        }
    }

    fn write(&self, file: &AnyFile, position: u64, bytes: &[u8]) -> io::Result<()> {
        match (self, file) {
            (AnyDisk::Directory(disk), AnyFile::Real(file)) => disk.write(file, position, bytes),
            (AnyDisk::Memory(disk), AnyFile::Memory(file)) => disk.write(file, position, bytes),
            (AnyDisk::Simulated(disk), AnyFile::Simulated(file)) => disk.write(file, position, bytes),
            _ => Err(mixed()),
        }
    }

    fn truncate(&self, file: &AnyFile, bytes: u64) -> io::Result<()> {
        match (self, file) {
            (AnyDisk::Directory(disk), AnyFile::Real(file)) => disk.truncate(file, bytes),
            (AnyDisk::Memory(disk), AnyFile::Memory(file)) => disk.truncate(file, bytes),
            (AnyDisk::Simulated(disk), AnyFile::Simulated(file)) => disk.truncate(file, bytes),
            _ => Err(mixed()),
        }
    }

    fn sync(&self, file: &AnyFile) -> io::Result<()> {
        match (self, file) {
            (AnyDisk::Directory(disk), AnyFile::Real(file)) => disk.sync(file),
            (AnyDisk::Memory(disk), AnyFile::Memory(file)) => disk.sync(file),
            (AnyDisk::Simulated(disk), AnyFile::Simulated(file)) => disk.sync(file),
            _ => Err(mixed()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match self {
            AnyDisk::Directory(disk) => disk.rename(from, to),
            AnyDisk::Memory(disk) => disk.rename(from, to),
            AnyDisk::Simulated(disk) => disk.rename(from, to),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self {
            AnyDisk::Directory(disk) => disk.remove(name),
            AnyDisk::Memory(disk) => disk.remove(name),
            AnyDisk::Simulated(disk) => disk.remove(name),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        match self {
            AnyDisk::Directory(disk) => disk.sync_directory(),
            AnyDisk::Memory(disk) => disk.sync_directory(),
            AnyDisk::Simulated(disk) => disk.sync_directory(),
        }
    }
}

/// A disk that forgets what was not synced, and fails when told. For simulations.
#[pyclass(module = "shoal._core", frozen)]
pub struct SimulatedDisk {
    pub disk: Arc<SimDisk>,
}

#[pymethods]
impl SimulatedDisk {
    #[new]
    fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk { disk: Arc::new(SimDisk::new(seed)) }
    }

    /// What goes wrong from now on; steps count from here.
    #[pyo3(signature = (*, stop_at = None, fail_sync_at = None, fail_read_in = None, capacity_bytes = None))]
    fn set_faults(
        &self,
        stop_at: Option<u64>,
        fail_sync_at: Option<u64>,
        fail_read_in: Option<u64>,
        capacity_bytes: Option<u64>,
    ) {
        self.disk.set_faults(DiskFaults { stop_at, fail_sync_at, fail_read_in, capacity_bytes });
    }

    /// The power comes back.
    fn restart(&self) {
        self.disk.restart();
    }

    /// The process was killed, and another one begins: the page cache survives.
    fn kill(&self) {
        self.disk.kill();
    }

    #[getter]
    fn is_stopped(&self) -> bool {
        self.disk.is_stopped()
    }

    /// Steps since the faults were set.
    #[getter]
    fn steps(&self) -> u64 {
        self.disk.steps()
    }

    /// Names and lengths of the files, as they are on the platters.
    fn files(&self) -> Vec<(String, usize)> {
        self.disk.contents().into_iter().map(|(name, bytes)| (name, bytes.len())).collect()
    }

    /// Flips a bit of a file, for good.
    fn flip(&self, name: &str, bit: usize) {
        self.disk.flip(name, bit);
    }

    /// Cuts a file off.
    fn cut(&self, name: &str, bytes: usize) {
        self.disk.cut(name, bytes);
    }
}
