//! A disk in memory, for a store that keeps nothing beyond its process.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_log::Disk;

/// A file of it. It is as long as what was written, and reads as zeros up to the length it was made with.
#[derive(Debug, Default)]
pub struct MemoryFile {
    contents: Mutex<(Vec<u8>, u64)>,
}

/// Files by name.
#[derive(Debug)]
pub struct MemoryDisk {
    files: Mutex<BTreeMap<String, Arc<MemoryFile>>>,
    bytes_max: u64,
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryDisk {
    /// An empty disk, which has room for so many bytes.
    pub fn new(bytes_max: u64) -> MemoryDisk {
        MemoryDisk { files: Mutex::default(), bytes_max }
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let length = |file: &MemoryFile| locked(&file.contents).1;
        Ok(locked(&self.files).iter().map(|(name, file)| (name.clone(), length(file))).collect())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<MemoryFile>> {
        let mut files = locked(&self.files);
        let used: u64 = files.values().map(|file| locked(&file.contents).1).sum();
        if used + bytes > self.bytes_max {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = Arc::new(MemoryFile { contents: Mutex::new((Vec::new(), bytes)) });
        files.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<Arc<MemoryFile>> {
        locked(&self.files).get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn length(&self, file: &MemoryFile) -> io::Result<u64> {
        Ok(locked(&file.contents).1)
    }

    fn read(&self, file: &MemoryFile, position: u64, into: &mut [u8]) -> io::Result<usize> {
        let contents = locked(&file.contents);
        let count = contents.1.saturating_sub(position).min(into.len() as u64) as usize;
        let written = contents.0.get(position as usize..).unwrap_or_default();
        let copied = written.len().min(count);
        into[..copied].copy_from_slice(&written[..copied]);
        into[copied..count].fill(0);
        Ok(count)
    }

    fn write(&self, file: &MemoryFile, position: u64, bytes: &[u8]) -> io::Result<()> {
        let mut contents = locked(&file.contents);
        let (start, end) = (position as usize, position as usize + bytes.len());
        if contents.0.len() < end {
            contents.0.resize(end, 0);
        }
        contents.0[start..end].copy_from_slice(bytes);
        contents.1 = contents.1.max(end as u64);
        Ok(())
    }

    fn truncate(&self, file: &MemoryFile, bytes: u64) -> io::Result<()> {
        let mut contents = locked(&file.contents);
        contents.0.truncate(bytes as usize);
        contents.1 = contents.1.min(bytes);
        Ok(())
    }

    fn sync(&self, _file: &MemoryFile) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = locked(&self.files);
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        locked(&self.files).remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_as_zeros_where_nothing_was_written_and_no_more_fits_than_there_is_room_for() {
        let disk = MemoryDisk::new(100);
        let file = disk.create("a", 60).unwrap();
        disk.write(&file, 10, b"abc").unwrap();
        let mut read = [9; 70];
        assert_eq!(disk.read(&file, 8, &mut read).unwrap(), 52);
        assert_eq!(&read[..6], b"\0\0abc\0");
        assert_eq!(disk.create("b", 41).unwrap_err().kind(), io::ErrorKind::StorageFull);
        disk.rename("a", "c").unwrap();
        assert!(disk.open("a").is_err() && disk.open("c").is_ok());
        disk.remove("c").unwrap();
        assert!(disk.create("b", 100).is_ok());
    }
}
