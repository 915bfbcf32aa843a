//! The frames of many streams, for an inbox that looks at each and keeps none.

use std::collections::HashMap;
use std::fmt;

use shoal_norm::{Chunk, Event, StreamId};
use shoal_wire::frame::{FrameError, FrameReader};

/// Parts of frames up to this length are not counted, so that whoever holds large ones keeps nobody else's short ones out.
const PART_BYTES_FREE: usize = 16 << 10;

/// Why a stream cannot be read on from here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// These are no frames.
    Frame(FrameError),
    /// Parts of too many large frames came at once: the bound.
    Full(usize),
}

impl fmt::Display for Unread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Frame(error) => error.fmt(out),
            Unread::Full(bound) => {
                write!(out, "parts of too many large frames came at once: {bound} bytes are kept of them")
            }
        }
    }
}

/// A reader for each stream.
#[derive(Debug)]
pub struct Frames {
    readers: HashMap<StreamId, FrameReader>,
    bytes_max: usize,
    /// Bytes of parts whose end has not come yet, of all streams together, and the most there may be.
    parts: usize,
    parts_max: usize,
}

fn cost(reader: &FrameReader) -> usize {
    reader.carried().saturating_sub(PART_BYTES_FREE)
}

impl Frames {
    /// Readers that refuse frames longer than `bytes_max`, and parts that are longer than `parts_max` together.
    pub fn new(bytes_max: usize, parts_max: usize) -> Frames {
        Frames { readers: HashMap::new(), bytes_max, parts: 0, parts_max }
    }

    /// Calls `each` with every frame that ends in a stream's next bytes.
    pub fn read(
        &mut self,
        stream: StreamId,
        chunk: Chunk<'_>,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Unread> {
        let reader = self.readers.entry(stream).or_insert_with(|| FrameReader::new(self.bytes_max));
        self.parts -= cost(reader);
        if chunk.fresh {
            reader.reset();
        }
        let read = reader.read(chunk.bytes, |frame, _| {
            each(frame);
            false
        });
        let fits = self.parts + cost(reader) <= self.parts_max;
        let read = read.map_err(Unread::Frame).and(fits.then_some(()).ok_or(Unread::Full(self.parts_max)));
        if read.is_err() {
            reader.reset();
        }
        self.parts += cost(reader);
        read
    }

    /// Forgets a stream that is closed.
    pub fn on_event(&mut self, event: &Event) {
        if let Event::StreamClosed { stream, .. } = event
            && let Some(reader) = self.readers.remove(stream)
        {
            self.parts -= cost(&reader);
        }
    }
}

#[cfg(test)]
mod tests {
    use shoal_norm::CloseReason;

    use super::*;

    fn stream(node: u32) -> StreamId {
        StreamId { node, instance: 1, object: 0 }
    }

    /// The beginning of a frame of 100,000 bytes.
    fn begin(frames: &mut Frames, node: u32) -> Result<(), Unread> {
        let mut bytes = vec![7; 60_000];
        bytes[..3].copy_from_slice(&[0xa0, 0x8d, 0x06]);
        frames.read(stream(node), Chunk { bytes: &bytes, fresh: true }, |_| panic!("it is cut"))
    }

    #[test]
    fn parts_of_all_streams_together_have_a_bound_and_short_frames_pass_all_the_same() {
        let mut frames = Frames::new(1 << 20, 1 << 20);
        let refused: Vec<u32> = (0..100).filter(|&node| begin(&mut frames, node).is_err()).collect();
        assert_eq!(refused, (24..100).collect::<Vec<_>>());
        let mut short = 0;
        for node in 0..200 {
            let chunk = Chunk { bytes: &[2, 7, 7], fresh: true };
            if node >= 24 {
                frames.read(stream(node), chunk, |_| short += 1).unwrap();
            }
        }
        assert_eq!(short, 176);
        // Whoever ends, or goes on elsewhere, makes room.
        frames.on_event(&Event::StreamClosed { stream: stream(0), reason: CloseReason::Ended });
        assert_eq!(begin(&mut frames, 50), Ok(()));
        assert_eq!(begin(&mut frames, 51), Err(Unread::Full(1 << 20)));
        (1..24).for_each(|node| {
            frames.read(stream(node), Chunk { bytes: &[0], fresh: true }, |_| ()).unwrap();
        });
        assert_eq!(begin(&mut frames, 51), Ok(()));
    }
}
