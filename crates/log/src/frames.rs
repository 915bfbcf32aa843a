//! Reads frames of one file, with a window over it so that many small frames cost one read.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{BadFrame, HEADER_BYTES, Header, Place};
use crate::segment::segment_name;

/// How much is read ahead when frames are read one after the other.
pub(crate) const AHEAD_BYTES: usize = 1 << 20;
/// The same for frames here and there.
pub(crate) const NEAR_BYTES: usize = 32 << 10;
/// A window that became longer, for a long frame, is given back.
const WINDOW_BYTES_KEPT: usize = 4 << 20;

/// A file of frames, open to read.
pub(crate) struct Frames<D: Disk> {
    disk: Arc<D>,
    file: Arc<D::File>,
    name: String,
    store: u64,
    segment: u32,
    ahead: usize,
    window: Vec<u8>,
    window_at: u64,
    /// Where in the window the payload of the frame read last is.
    payload: std::ops::Range<usize>,
}

impl<D: Disk> Frames<D> {
    pub fn open(disk: &Arc<D>, store: u64, segment: u32) -> Result<Frames<D>, LogError> {
        let name = segment_name(segment);
        let file = disk.open(&name).map_err(|error| LogError::io(format!("opening {name}"), error))?;
        Ok(Frames::new(disk, file, name, store, segment))
    }

    pub fn new(disk: &Arc<D>, file: Arc<D::File>, name: String, store: u64, segment: u32) -> Frames<D> {
        Frames {
            disk: disk.clone(),
            file,
            name,
            store,
            segment,
            ahead: AHEAD_BYTES,
            window: Vec::new(),
            window_at: 0,
            payload: 0..0,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn store(&self) -> u64 {
        self.store
    }

    pub fn segment(&self) -> u32 {
        self.segment
    }

    pub fn file(&self) -> &Arc<D::File> {
        &self.file
    }

    /// Frames of another store are expected from now on.
    pub fn set_store(&mut self, store: u64) {
        self.store = store;
    }

    pub fn set_ahead(&mut self, bytes: usize) {
        self.ahead = bytes;
    }

    pub fn length(&self) -> Result<u64, LogError> {
        self.disk.length(&self.file).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: std::io::Error) -> LogError {
        LogError::io(format!("reading {}", self.name), error)
    }

    /// At least so many bytes from a place on, fewer only at the end of the file.
    pub fn bytes(&mut self, position: u64, at_least: usize) -> Result<&[u8], LogError> {
        let end = self.window_at + self.window.len() as u64;
        if position < self.window_at || position + at_least as u64 > end {
            let wanted = at_least.max(self.ahead);
            if self.window.capacity() > WINDOW_BYTES_KEPT.max(wanted) {
                self.window = Vec::new();
            }
            self.window.resize(wanted, 0);
            self.window_at = position;
            let mut filled = 0;
            while filled < wanted {
                let read = self.disk.read(&self.file, position + filled as u64, &mut self.window[filled..]);
                match read {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) => {
                        self.window.clear();
                        return Err(self.failed(error));
                    }
                }
            }
            self.window.truncate(filled);
        }
        Ok(&self.window[(position - self.window_at) as usize..])
    }

    /// Reads the frame at a place, and checks it.
    pub fn read(&mut self, position: u64) -> Result<Result<Header, BadFrame>, LogError> {
        let place = Place { store: self.store, segment: self.segment, position };
        let header = match Header::read(self.bytes(position, HEADER_BYTES)?, place) {
            Ok(header) => header,
            Err(bad) => return Ok(Err(bad)),
        };
        let whole = HEADER_BYTES + header.length as usize;
        if position + whole as u64 > self.window_at + self.window.len() as u64
            && position + whole as u64 > self.length()?
        {
            return Ok(Err(BadFrame::Short));
        }
        let checked = header.verify(self.bytes(position, whole)?);
        let start = (position - self.window_at) as usize;
        self.payload = start + HEADER_BYTES..start + whole;
        Ok(checked.map(|()| header))
    }

    /// The frame that was read last, without the zeros behind it.
    pub fn frame(&self) -> &[u8] {
        &self.window[self.payload.start - HEADER_BYTES..self.payload.end]
    }

    /// The payload of the frame that was read last.
    pub fn payload(&self) -> &[u8] {
        &self.window[self.payload.clone()]
    }
}
