//! What was appended, on its way to the disk: one write and one sync for everybody who waits.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::LogError;
use crate::segment::segment_name;

/// Up to where the log is durable, and so visible.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    /// The last segment with durable frames.
    pub segment: u32,
    /// Where they end in its file.
    pub position: u64,
    /// The offset after the last message.
    pub end: u64,
}

/// Frames of one file that lie one behind the other.
pub(crate) struct Chunk<D: Disk> {
    pub segment: u32,
    pub file: Arc<D::File>,
    pub position: u64,
    pub bytes: Vec<u8>,
    /// The segment begins here: its file still has this name.
    pub born_as: Option<String>,
    /// The segment before it, and where that ends: the rest of its file is not needed.
    pub previous: Option<(Arc<D::File>, u64)>,
}

/// Frames that are being made durable. Nothing of the log is locked meanwhile.
pub struct Flush<D: Disk> {
    pub(crate) disk: Arc<D>,
    pub(crate) chunks: Vec<Chunk<D>>,
    pub(crate) reached: Durable,
}

impl<D: Disk> Flush<D> {
    /// Bytes it writes.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes.len()).sum()
    }

    /// Writes and syncs. A segment is sealed before the next begins, and one that begins is synced, and its name,
    /// before this returns. After an error nobody knows what is on the disk.
    pub fn run(&self) -> Result<(), LogError> {
        for chunk in &self.chunks {
            let name = segment_name(chunk.segment);
            let failed = |what: &str| {
                let what = format!("{what} {name}");
                move |error| LogError::io(what, error)
            };
            self.disk.write(&chunk.file, chunk.position, &chunk.bytes).map_err(failed("writing"))?;
            self.disk.sync(&chunk.file).map_err(failed("syncing"))?;
            if let Some(spare) = &chunk.born_as {
                self.disk.rename(spare, &name).map_err(failed("naming"))?;
                self.disk.sync_directory().map_err(failed("syncing the directory of"))?;
            }
            if let Some((file, end)) = &chunk.previous {
                // Only to give room back: a file that stays longer is read the same.
                let _ = self.disk.truncate(file, *end);
            }
        }
        Ok(())
    }
}
