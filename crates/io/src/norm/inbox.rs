//! Where a link delivers.

use shoal_norm::{Event, StreamId};

/// Takes what a link receives. Called on the link's thread, so it must never wait.
pub trait Inbox: Send + 'static {
    /// Whether it takes more. If not, the link stops reading, its window fills, and its senders wait;
    /// [`super::NormLink::resume`] makes it read on.
    fn has_room(&self) -> bool;

    /// A message of a stream.
    fn frame(&mut self, stream: StreamId, frame: &[u8]);

    /// Something else happened.
    fn event(&mut self, event: &Event);

    /// A stream holds what cannot be a frame; it is read on from its next message.
    fn broken(&mut self, stream: StreamId, why: &str);

    /// That was all for now: the time to wake whoever waits.
    fn batch_done(&mut self);
}
