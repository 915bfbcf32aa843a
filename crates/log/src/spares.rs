//! Segments that are made in advance, so that their room on the disk is certain.
//!
//! Two are kept for changes of the state: acknowledgements, holds and deletions still fit on a full disk, and only
//! they make room again. Messages use what is beyond these two.

use std::io;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::LogError;
use crate::log::Class;
use crate::segment::spare_name;

/// Spare segments that messages leave alone.
pub const SPARES_KEPT: usize = 2;

/// A file that no segment is in yet.
pub(crate) struct Spare<D: Disk> {
    pub name: String,
    pub file: Arc<D::File>,
    pub bytes: u64,
}

/// The spare segments of a log.
pub(crate) struct Spares<D: Disk> {
    disk: Arc<D>,
    segment_bytes: u64,
    spares: Vec<Spare<D>>,
    next: u32,
}

impl<D: Disk> Spares<D> {
    pub fn new(disk: Arc<D>, segment_bytes: u64) -> Spares<D> {
        Spares { disk, segment_bytes, spares: Vec::new(), next: 0 }
    }

    pub fn count(&self) -> usize {
        self.spares.len()
    }

    /// Closes them; who opens the log next finds them.
    pub fn let_go(&mut self) {
        self.spares.clear();
    }

    pub fn bytes(&self) -> u64 {
        self.spares.iter().map(|spare| spare.bytes).sum()
    }

    fn add(&mut self, bytes: u64) -> Result<(), LogError> {
        let name = spare_name(self.next);
        self.next += 1;
        match self.disk.create(&name, bytes) {
            Ok(file) => {
                self.spares.push(Spare { name, file, bytes });
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(LogError::Full { bytes }),
            Err(error) => Err(LogError::io(format!("making {name}"), error)),
        }
    }

    /// Makes those that are missing, and one more for the next segment.
    pub fn fill(&mut self) -> Result<(), LogError> {
        while self.spares.len() <= SPARES_KEPT {
            self.add(self.segment_bytes)?;
        }
        Ok(())
    }

    /// Refuses messages while those that are kept from them are not all there: what is left of the last segment, too,
    /// is for changes of the state then.
    pub fn check_kept(&mut self) -> Result<(), LogError> {
        if self.spares.len() < SPARES_KEPT { self.fill() } else { Ok(()) }
    }

    /// A spare that has room for a segment's first frames and what is to follow.
    pub fn take(&mut self, class: Class, bytes: u64) -> Result<Spare<D>, LogError> {
        match (self.fill(), class) {
            (Err(error), Class::Messages) => return Err(error),
            // Changes of the state take what there is.
            (Ok(()), _) | (Err(_), Class::State) => {}
        }
        if !self.spares.iter().any(|spare| spare.bytes >= bytes) {
            self.add(bytes.max(self.segment_bytes))?;
        }
        let fitting = self.spares.iter().enumerate().filter(|(_, spare)| spare.bytes >= bytes);
        match fitting.min_by_key(|(_, spare)| spare.bytes) {
            Some((at, _)) => Ok(self.spares.swap_remove(at)),
            None => Err(LogError::Full { bytes }),
        }
    }
}
