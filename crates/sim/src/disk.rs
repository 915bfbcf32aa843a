//! A simulated disk with the faults of real ones.
//!
//! When the power fails ([`SimDisk::restart`]), what was not synced is lost, all of it or some sectors of it, and names that were
//! not synced go back to an earlier time. When only the process is killed ([`SimDisk::kill`]), everything that was written is
//! read again, though the next power failure may still take it. A sync can fail, and then nobody knows; the disk can be
//! full; bits can flip. The disk stops at a chosen step, whatever that step is, and nothing works any more until either.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use shoal_log::Disk;

const SECTOR_BYTES: usize = 512;

/// What goes wrong, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// The disk stops at this step, counted from the last restart.
    pub stop_at: Option<u64>,
    /// The sync at this step, or the first after it, fails.
    pub fail_sync_at: Option<u64>,
    /// So many reads from now on one fails.
    pub fail_read_in: Option<u64>,
    /// There is no room for more bytes than these.
    pub capacity_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    /// What is on the platters.
    durable: Vec<u8>,
    /// What a reader sees.
    current: Vec<u8>,
    /// What was written since the last sync, sector by sector.
    dirty: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Add(String, usize),
    Rename(String, String),
    Remove(String),
}

fn apply(names: &mut BTreeMap<String, usize>, change: &NameChange) {
    match change {
        NameChange::Add(name, file) => {
            names.insert(name.clone(), *file);
        }
        NameChange::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        NameChange::Remove(name) => {
            names.remove(name);
        }
    }
}

#[derive(Debug)]
struct State {
    files: Vec<Contents>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    steps: u64,
    bytes_read: u64,
    stopped: bool,
    faults: DiskFaults,
    rng: Rng,
}

impl State {
    /// Nothing goes wrong any more.
    fn go_on(&mut self) {
        self.stopped = false;
        self.faults = DiskFaults::default();
        self.steps = 0;
    }
}

/// A disk that forgets what was not synced.
#[derive(Debug)]
pub struct SimDisk {
    state: Mutex<State>,
}

/// An open file of it.
#[derive(Copy, Clone, Debug)]
pub struct SimFile(usize);

fn stopped() -> io::Error {
    io::Error::other("the disk stopped")
}

impl SimDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> SimDisk {
        let state = State {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            steps: 0,
            bytes_read: 0,
            stopped: false,
            faults: DiskFaults::default(),
            rng: Rng::with_seed(seed),
        };
        SimDisk { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        state.steps += 1;
        if state.faults.stop_at.is_some_and(|at| state.steps >= at) {
            state.stopped = true;
        }
        if state.stopped { Err(stopped()) } else { Ok(state) }
    }

    /// What goes wrong from now on; steps count from here.
    pub fn set_faults(&self, faults: DiskFaults) {
        let mut state = self.lock();
        state.faults = faults;
        state.steps = 0;
    }

    /// Steps since the faults were set.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// Bytes that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.lock().bytes_read
    }

    /// Whether it stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// The power comes back: what was not synced is there or not, sector by sector, and the names are those of some
    /// moment since they were synced.
    pub fn restart(&self) {
        let state = &mut *self.lock();
        for file in &mut state.files {
            for (at, bytes) in file.dirty.drain(..) {
                if state.rng.bool() {
                    let end = at + bytes.len();
                    if file.durable.len() < end {
                        file.durable.resize(end, 0);
                    }
                    file.durable[at..end].copy_from_slice(&bytes);
                }
            }
            file.current = file.durable.clone();
        }
        let kept = state.rng.usize(..=state.name_changes.len());
        for change in &state.name_changes[..kept] {
            apply(&mut state.durable_names, change);
        }
        state.name_changes.clear();
        state.names = state.durable_names.clone();
        state.go_on();
    }

    /// The process was killed, and another one begins: the page cache survives, synced or not.
    pub fn kill(&self) {
        self.lock().go_on();
    }

    /// Everything is durable: the disk was shut down in an orderly way.
    pub fn sync_all(&self) {
        let state = &mut *self.lock();
        for file in &mut state.files {
            file.durable = file.current.clone();
            file.dirty.clear();
        }
        state.durable_names = state.names.clone();
        state.name_changes.clear();
    }

    /// Names and contents, as they are on the platters.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        state
            .durable_names
            .iter()
            .map(|(name, &file)| (name.clone(), state.files[file].durable.clone()))
            .collect()
    }

    /// Flips a bit of a file, for good.
    pub fn flip(&self, name: &str, bit: usize) {
        let state = &mut *self.lock();
        if let Some(&file) = state.names.get(name) {
            let Contents { durable, current, .. } = &mut state.files[file];
            durable[bit / 8] ^= 1 << (bit % 8);
            current[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Cuts a file off.
    pub fn cut(&self, name: &str, bytes: usize) {
        let state = &mut *self.lock();
        if let Some(&file) = state.names.get(name) {
            state.files[file].durable.truncate(bytes);
            state.files[file].current.truncate(bytes);
        }
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for SimDisk {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let state = self.step()?;
        let length = |file: &usize| state.files[*file].current.len() as u64;
        Ok(state.names.iter().map(|(name, file)| (name.clone(), length(file))).collect())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<SimFile>> {
        let mut state = self.step()?;
        let used: u64 = state.names.values().map(|&file| state.files[file].current.len() as u64).sum();
        if state.faults.capacity_bytes.is_some_and(|capacity| used + bytes > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let current = vec![0; bytes as usize];
        // Its length and its zeros are as good as durable: a sync of anything in the file needs them.
        state.files.push(Contents { durable: current.clone(), current, dirty: Vec::new() });
        let file = state.files.len() - 1;
        state.names.insert(name.to_owned(), file);
        state.name_changes.push(NameChange::Add(name.to_owned(), file));
        Ok(Arc::new(SimFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<SimFile>> {
        let state = self.step()?;
        state.names.get(name).map(|&file| Arc::new(SimFile(file))).ok_or_else(not_found)
    }

    fn length(&self, file: &SimFile) -> io::Result<u64> {
        Ok(self.step()?.files[file.0].current.len() as u64)
    }

    fn read(&self, file: &SimFile, position: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.step()?;
        match &mut state.faults.fail_read_in {
            Some(0) => {
                state.faults.fail_read_in = None;
                return Err(io::Error::other("the read failed"));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let bytes = state.files[file.0].current.get(position as usize..).unwrap_or_default();
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        state.bytes_read += count as u64;
        Ok(count)
    }

    fn write(&self, file: &SimFile, position: u64, bytes: &[u8]) -> io::Result<()> {
        // A write that the stop meets may have reached the disk in part.
        let met_stop = self.step().is_err();
        let mut state = self.lock();
        if met_stop && state.steps != state.faults.stop_at.unwrap_or(0) {
            return Err(stopped());
        }
        let (start, end) = (position as usize, position as usize + bytes.len());
        let file = &mut state.files[file.0];
        if file.current.len() < end {
            file.current.resize(end, 0);
        }
        file.current[start..end].copy_from_slice(bytes);
        let mut at = start;
        while at < end {
            let next = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
            file.dirty.push((at, file.current[at..next].to_vec()));
            at = next;
        }
        if met_stop { Err(stopped()) } else { Ok(()) }
    }

    fn truncate(&self, file: &SimFile, bytes: u64) -> io::Result<()> {
        let mut state = self.step()?;
        let lost = state.rng.bool();
        let file = &mut state.files[file.0];
        file.current.truncate(bytes as usize);
        if !lost {
            file.durable.truncate(bytes as usize);
        }
        Ok(())
    }

    fn sync(&self, file: &SimFile) -> io::Result<()> {
        let mut state = self.step()?;
        if state.faults.fail_sync_at.is_some_and(|at| state.steps >= at) {
            state.faults.fail_sync_at = None;
            // As on Linux: what was dirty counts as clean, though some of it never reached the disk.
            let State { files, rng, .. } = &mut *state;
            let file = &mut files[file.0];
            file.dirty.retain(|_| rng.bool());
            return Err(io::Error::other("the sync failed"));
        }
        let file = &mut state.files[file.0];
        for (at, bytes) in std::mem::take(&mut file.dirty) {
            let end = at + bytes.len();
            if file.durable.len() < end {
                file.durable.resize(end, 0);
            }
            file.durable[at..end].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.step()?;
        if !state.names.contains_key(from) {
            return Err(not_found());
        }
        let change = NameChange::Rename(from.to_owned(), to.to_owned());
        apply(&mut state.names, &change);
        state.name_changes.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.step()?;
        if !state.names.contains_key(name) {
            return Err(not_found());
        }
        let change = NameChange::Remove(name.to_owned());
        apply(&mut state.names, &change);
        state.name_changes.push(change);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.step()?;
        for change in std::mem::take(&mut state.name_changes) {
            apply(&mut state.durable_names, &change);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(disk: &SimDisk, name: &str) -> Vec<u8> {
        let file = disk.open(name).unwrap();
        let mut bytes = vec![0; 4096];
        let count = disk.read(&file, 0, &mut bytes).unwrap();
        bytes.truncate(count);
        bytes
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_may_not() {
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..64 {
            let disk = SimDisk::new(seed);
            let file = disk.create("a", 2048).unwrap();
            disk.sync_directory().unwrap();
            disk.write(&file, 0, &[1; 1024]).unwrap();
            disk.sync(&file).unwrap();
            disk.write(&file, 1024, &[2; 1024]).unwrap();
            disk.restart();
            let bytes = read(&disk, "a");
            assert_eq!(bytes[..1024], [1; 1024]);
            match bytes[1024..].iter().filter(|&&byte| byte == 2).count() {
                0 => lost += 1,
                1024 => kept += 1,
                512 => torn += 1,
                _ => panic!("sectors are whole"),
            }
        }
        assert!(lost > 0 && kept > 0 && torn > 0);
    }

    #[test]
    fn a_name_that_was_not_synced_may_be_the_old_one() {
        let names = |seed| {
            let disk = SimDisk::new(seed);
            disk.create("a", 8).unwrap();
            disk.sync_directory().unwrap();
            disk.rename("a", "b").unwrap();
            disk.restart();
            disk.list().unwrap()[0].0.clone()
        };
        let seen: std::collections::BTreeSet<_> = (0..32).map(names).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_failed_sync_loses_what_it_should_have_kept() {
        let lost = (0..32).filter(|&seed| {
            let disk = SimDisk::new(seed);
            let file = disk.create("a", 512).unwrap();
            disk.sync_directory().unwrap();
            disk.set_faults(DiskFaults { fail_sync_at: Some(0), ..DiskFaults::default() });
            disk.write(&file, 0, &[1; 512]).unwrap();
            assert!(disk.sync(&file).is_err());
            assert!(disk.sync(&file).is_ok(), "only one fails");
            disk.restart();
            read(&disk, "a") != [1; 512]
        });
        assert!(lost.count() > 0);
    }

    #[test]
    fn what_a_killed_process_wrote_is_read_and_lost_with_the_power_unless_it_is_written_again() {
        let lost = |is_written_again: bool| {
            let is_lost = |&seed: &u64| {
                let disk = SimDisk::new(seed);
                let file = disk.create("spare", 512).unwrap();
                disk.sync_directory().unwrap();
                disk.set_faults(DiskFaults { fail_sync_at: Some(0), ..DiskFaults::default() });
                disk.write(&file, 0, &[1; 512]).unwrap();
                assert!(disk.sync(&file).is_err());
                disk.rename("spare", "a").unwrap();
                disk.kill();
                assert_eq!(read(&disk, "a"), [1; 512], "the page cache has it");
                if is_written_again {
                    disk.write(&file, 0, &[1; 512]).unwrap();
                }
                disk.sync(&file).unwrap();
                disk.sync_directory().unwrap();
                disk.restart();
                read(&disk, "a") != [1; 512]
            };
            (0..32).filter(is_lost).count()
        };
        assert!(lost(false) > 0);
        assert_eq!(lost(true), 0);
    }

    #[test]
    fn a_full_disk_makes_no_file() {
        let disk = SimDisk::new(1);
        disk.set_faults(DiskFaults { capacity_bytes: Some(100), ..DiskFaults::default() });
        disk.create("a", 60).unwrap();
        assert_eq!(disk.create("b", 60).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(disk.open("b").is_err());
    }

    #[test]
    fn nothing_works_after_the_stop() {
        let disk = SimDisk::new(1);
        disk.set_faults(DiskFaults { stop_at: Some(2), ..DiskFaults::default() });
        disk.list().unwrap();
        assert!(disk.list().is_err());
        assert!(disk.create("a", 1).is_err());
        disk.restart();
        assert!(disk.list().unwrap().is_empty());
    }
}
