//! What runs on top of a NORM link.

use shoal_norm::{Chunk, Event, Session, StreamId, Time};

use super::lane::LaneWriter;

/// What became of the bytes an application was offered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It has them.
    All,
    /// It has no room. The link stops reading the stream, its window fills, and its sender waits.
    Nothing,
    /// They are no frames. The stream is read on from its next message.
    Broken,
}

/// Takes what a link receives, and may speak for itself. It must never wait.
pub trait Application: std::any::Any + Send {
    /// The next bytes of a stream.
    fn take(&mut self, now: Time, stream: StreamId, chunk: Chunk<'_>) -> Taken;

    /// Something else happened.
    fn event(&mut self, now: Time, session: &mut Session, event: &Event);

    /// Whether it has room for objects and commands; without it they are refused, and objects asked for again later.
    fn has_room(&self) -> bool {
        true
    }

    /// That was all for now: the time to wake whoever waits.
    fn batch_done(&mut self, now: Time);

    /// Its turn to act: frames appended to `control` go out on the first lane, before anything else.
    fn serve(&mut self, _now: Time, _session: &mut Session, _lanes: &[LaneWriter], _control: &mut Vec<u8>) {}

    /// Gives the session what it asks for before it sends, such as parts of files.
    fn supply(&mut self, _session: &mut Session) {}

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

    /// Somebody is not heard, and does not hear us: why.
    fn tell(&mut self, _why: &str) {}

    /// The link's interface is gone, and nothing goes out or comes in: why.
    fn down(&mut self, _why: &str) {}

    /// The link is on an interface again, with this address of our own.
    fn up(&mut self, _address: &str) {}

    /// The link is about to say goodbye; what it says now goes out before that.
    fn leave(&mut self, _now: Time, _session: &mut Session) {}

    /// The link failed, and nothing more will come: why.
    fn fail(&mut self, why: &str);

    /// When it wants a turn though nothing comes in.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
}
