//! What was appended, on its way to the disk: one write and one sync for everybody who waits.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::LogError;
use crate::segment::segment_name;

/// So much behind what is written is written as zeros with it, where little is written at a time.
///
/// Blocks that a file system promised and that nobody wrote yet cost more than those that were: syncing them changes its
/// own journal, too. So one sync in many pays for that, and not each.
pub(crate) const CLEARED_BYTES: u64 = 256 << 10;

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

impl<D: Disk> Chunk<D> {
    /// Clears what lies behind in a file of so many bytes that is written up to `written`: up to where it is then.
    pub fn clear_ahead(&mut self, written: u64, capacity: u64) -> u64 {
        let to = cleared_to(self.position, self.bytes.len() as u64, written, capacity);
        if to > self.position + self.bytes.len() as u64 && to > written {
            self.bytes.resize((to - self.position) as usize, 0);
        }
        to
    }
}

/// Up to where a file is written after a write of so many bytes, with what it clears behind itself.
fn cleared_to(position: u64, bytes: u64, written: u64, capacity: u64) -> u64 {
    let end = position + bytes;
    if end <= written {
        written
    } else if bytes >= CLEARED_BYTES / 4 {
        // Much at a time: the file system's own part is small beside it.
        end
    } else {
        capacity.min(end + CLEARED_BYTES).max(end)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_writes_clear_the_file_ahead_of_them_and_never_beyond_its_end() {
        let clear = |position, bytes, written| cleared_to(position, bytes, written, 1 << 20);
        assert_eq!(clear(0, 100, 0), 100 + CLEARED_BYTES);
        // Nothing more as long as that lasts.
        assert_eq!(clear(100, 1000, 100 + CLEARED_BYTES), 100 + CLEARED_BYTES);
        assert_eq!(clear(CLEARED_BYTES, 101, 100 + CLEARED_BYTES), 2 * CLEARED_BYTES + 101);
        assert_eq!(clear((1 << 20) - 50, 50, 0), 1 << 20);
        assert_eq!(clear((1 << 20) - 60, 50, 0), 1 << 20);
    }

    #[test]
    fn long_writes_clear_nothing() {
        assert_eq!(cleared_to(10, CLEARED_BYTES / 4, 0, 1 << 20), 10 + CLEARED_BYTES / 4);
        assert_eq!(cleared_to(10, 1 << 18, 0, 1 << 20), 10 + (1 << 18));
    }
}
