//! What runs on top of a link.

use shoal_norm::{Chunk, Event, Session, StreamId, Time};

use crate::files::{FileFailure, StoredFile};

/// What became of the bytes an application was offered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It has them.
    All,
    /// It has no room. The link stops reading the stream, its window fills, and its sender waits;
    /// [`super::NormLink::resume`] makes the link read on.
    Nothing,
    /// They are no frames. The stream is read on from its next message.
    Broken,
}

/// Takes what a link receives, and may speak for itself. Called on the link's thread, so it must never wait.
pub trait Application: Send + 'static {
    /// The next bytes of a stream.
    fn take(&mut self, now: Time, stream: StreamId, chunk: Chunk<'_>) -> Taken;

    /// Something else happened.
    fn event(&mut self, now: Time, session: &mut Session, event: &Event);

    /// A file of somebody else is complete, and where it was to go.
    fn file_stored(&mut self, _stored: &StoredFile) {}

    /// The disk refused a file of ours or of somebody else.
    fn file_failed(&mut self, _failure: &FileFailure) {}

    /// Whether it has room for objects and commands; without it they are refused, and objects asked for again later.
    fn has_room(&self) -> bool {
        true
    }

    /// That was all for now: the time to wake whoever waits.
    fn batch_done(&mut self);

    /// Its turn to act: frames appended to `control` go out on the first lane, before anything else.
    fn serve(&mut self, _now: Time, _session: &mut Session, _control: &mut Vec<u8>) {}

    /// What [`shoal_wire::Mark`]s say of it: how often it changed what it asks others for.
    fn announced_version(&self) -> u64 {
        0
    }

    /// Whether what it was given makes it want its turn before anything else is received.
    fn wants_turn(&self) -> bool {
        false
    }

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
