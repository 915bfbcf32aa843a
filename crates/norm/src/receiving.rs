//! What a session tells of the senders it hears, and what it does with what they sent.

use std::time::Duration;

use crate::NodeId;
use crate::config::Join;
use crate::event::StreamId;
use crate::rx::Chunk;
use crate::rx::remote::Remote;
use crate::rx::remotes::SILENT_FOR;
use crate::session::{Session, scope};
use crate::time::Time;

/// A node that has another id now is silent under the one before, for so long: anybody can say that it has another one.
const MOVED_AFTER: Duration = Duration::from_millis(100);

impl Session {
    /// Senders listened to.
    pub fn senders(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.remotes.iter().map(|remote| remote.node)
    }

    /// When anything was heard of a sender last.
    pub fn last_heard(&self, node: NodeId, instance: u16) -> Option<Time> {
        self.remotes.get(node, instance).map(|remote| remote.last_heard)
    }

    /// Whether a node's run speaks, and has done so a few times since another one was heard last, which is silent.
    pub fn has_succeeded(&self, new: (NodeId, u16), old: (NodeId, u16)) -> bool {
        let since = self.last_heard(old.0, old.1).unwrap_or(Time::ZERO);
        let speaks = self.remotes.get(new.0, new.1).is_some_and(|remote| remote.row_began() > since);
        let patience = if new.0 == old.0 { SILENT_FOR } else { MOVED_AFTER };
        speaks && self.heard_at.since(since) >= patience
    }

    /// Whether a node said goodbye, and nothing else was heard of it since: in a moment it is gone.
    pub fn is_departing(&self, node: NodeId) -> bool {
        self.remotes.iter().any(|remote| remote.node == node && remote.departed.is_some())
    }

    /// Whether everything that came from a sender was read.
    pub fn is_drained(&self, node: NodeId, instance: u16) -> bool {
        self.remotes.get(node, instance).is_none_or(Remote::is_drained)
    }

    /// Gives up an object being received, or one that came completely and could not be kept. It is not acknowledged.
    pub fn abandon_object(&mut self, object: StreamId) {
        if let Some(remote) = self.remotes.get_mut(object.node, object.instance) {
            remote.objects.abandon(object.object, scope!(self));
        }
    }

    /// Sets whether our application has room for objects and commands. While it has none, what comes of them is
    /// refused: objects are asked for again when there is room, if their sender still has them; commands are gone.
    pub fn set_room(&mut self, now: Time, has_room: bool) {
        let has_room_again = has_room && !self.has_room;
        self.has_room = has_room;
        if has_room_again {
            self.remotes.change_all(|remote| remote.on_room(scope!(self, now)));
        }
    }

    /// A sender is not expected to say more: gives its receive buffers back, but keeps its streams' places. Should it
    /// speak again they go on from there. False if something of it waits to be read: then call again.
    pub fn rest_sender(&mut self, node: NodeId, instance: u16) -> bool {
        self.remotes.get_mut(node, instance).is_none_or(|remote| remote.rest(scope!(self)))
    }

    /// Says where to join a stream of a sender that was heard, before or after [`Event::StreamHeard`] tells of it.
    pub fn join(&mut self, now: Time, stream: StreamId, join: Join) {
        if let Some(remote) = self.remotes.get_mut(stream.node, stream.instance)
            && let Err(reason) = remote.join(stream.object, join, scope!(self, now))
        {
            self.stats.reject(reason);
        }
    }

    /// What can be read of a stream now.
    pub fn read(&mut self, stream: StreamId) -> Option<Chunk<'_>> {
        let found = self.remotes.get_mut(stream.node, stream.instance)?.stream_mut(stream.object)?;
        found.reader.read(&found.window)
    }

    /// So many bytes of what [`Session::read`] gave were used.
    pub fn consume(&mut self, now: Time, stream: StreamId, bytes: usize) {
        if let Some(remote) = self.remotes.get_mut(stream.node, stream.instance) {
            remote.consume(stream.object, bytes, scope!(self, now));
        }
    }

    /// The reader of a stream lost its place; it goes on where the next message starts.
    pub fn resync(&mut self, now: Time, stream: StreamId) {
        if let Some(remote) = self.remotes.get_mut(stream.node, stream.instance)
            && let Some(found) = remote.stream_mut(stream.object)
        {
            found.reader.resync(&mut found.window);
            remote.consume(stream.object, 0, scope!(self, now));
        }
    }
}
