//! The frames of many streams, for an inbox that looks at each and keeps none.

use std::collections::HashMap;

use shoal_norm::{Chunk, Event, StreamId};
use shoal_wire::frame::{FrameError, FrameReader};

/// A reader for each stream.
#[derive(Debug)]
pub struct Frames {
    readers: HashMap<StreamId, FrameReader>,
    bytes_max: usize,
}

impl Frames {
    /// Readers that refuse frames longer than `bytes_max`.
    pub fn new(bytes_max: usize) -> Frames {
        Frames { readers: HashMap::new(), bytes_max }
    }

    /// Calls `each` with every frame that ends in a stream's next bytes.
    pub fn read(
        &mut self,
        stream: StreamId,
        chunk: Chunk<'_>,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), FrameError> {
        let reader = self.readers.entry(stream).or_insert_with(|| FrameReader::new(self.bytes_max));
        if chunk.fresh {
            reader.reset();
        }
        let read = reader.read(chunk.bytes, |frame, _| {
            each(frame);
            false
        });
        if read.is_err() {
            reader.reset();
        }
        read
    }

    /// Forgets a stream that is closed.
    pub fn on_event(&mut self, event: &Event) {
        if let Event::StreamClosed { stream, .. } = event {
            self.readers.remove(stream);
        }
    }
}
