//! What runs on top of a link.

use shoal_norm::{Event, Session, StreamId, Time};

use crate::files::FileFailure;

/// Takes what a link receives, and may speak for itself. Called on the link's thread, so it must never wait.
pub trait Application: Send + 'static {
    /// Whether it takes more of a stream. If not, the link stops reading it, its window fills, and its sender
    /// waits; [`super::NormLink::resume`] makes it read on.
    fn has_room(&self, stream: StreamId) -> bool;

    /// A message of a stream.
    fn frame(&mut self, now: Time, stream: StreamId, frame: &[u8]);

    /// Something else happened.
    fn event(&mut self, now: Time, session: &mut Session, event: &Event);

    /// A stream holds what cannot be a frame; it is read on from its next message.
    fn broken(&mut self, stream: StreamId, why: &str);

    /// The disk refused a file of ours or of somebody else.
    fn file_failed(&mut self, _failure: &FileFailure) {}

    /// That was all for now: the time to wake whoever waits.
    fn batch_done(&mut self);

    /// Its turn to act: frames appended to `control` go out on the first lane, before anything else.
    fn serve(&mut self, _now: Time, _session: &mut Session, _control: &mut Vec<u8>) {}

    /// Whether lanes other than the first are not to be written to yet.
    fn holds_writes(&self) -> bool {
        false
    }

    /// Whether somebody may be there who has not everything yet, though everything was sent.
    fn has_audience(&self, _session: &Session) -> bool {
        true
    }

    /// When it wants a turn though nothing comes in.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
}
