//! Node ids that change: ours, if somebody else has it, and those of others.

use std::time::Duration;

use shoal_norm::{NodeId, Session, StreamId, Time};

use super::NormBus;
use crate::hub::{HubEvent, SourceId};

/// We take another node id at most once in so long: anybody can speak under ours.
const RENAME_PAUSE: Duration = Duration::from_secs(10);
/// After that, members read our streams again from so many segments before those they acknowledged, or from where the message
/// begins of which they may have half, if that is earlier: so they meet a mark that numbers what follows.
const REREAD_SEGMENTS: u64 = 64;

impl NormBus {
    /// When to take another node id.
    pub(super) fn rename_at(&self) -> Time {
        match self.renamed_at {
            _ if !self.collided => Time::NEVER,
            None => Time::ZERO,
            Some(at) => at + RENAME_PAUSE,
        }
    }

    /// Somebody else has our node id: takes another one, and lets everybody join our streams there.
    pub(super) fn rename(&mut self, now: Time, session: &mut Session) {
        let before = session.node();
        let node = session.rename();
        (self.collided, self.renamed_at) = (false, Some(now));
        self.port.rename(node);
        let session = &*session;
        self.membership.rename(now, node, |lane| {
            let acknowledged = session.acknowledged_segments(lane);
            let again = acknowledged.saturating_sub(REREAD_SEGMENTS);
            again.min(session.message_start(lane, acknowledged)).max(session.oldest_segment(lane))
        });
        // What nobody heard of yet is heard of by this.
        self.port.tell_position();
        self.deadline = Time::ZERO;
        self.port.tell(HubEvent::Renamed(before, node));
    }

    /// The streams of a publisher under another node id than this, or of another run.
    pub(super) fn streams_elsewhere(&self, run: (NodeId, u16), publisher: u64) -> Vec<StreamId> {
        let is_elsewhere = |(stream, source): &(&StreamId, &SourceId)| {
            let known = || self.port.source(**source).map_or(0, |(known, _)| known.publisher);
            (stream.node, stream.instance) != run && known() == publisher
        };
        self.sources.iter().filter(is_elsewhere).map(|(stream, _)| *stream).collect()
    }

    /// Goes on with those that have another node id now.
    pub(super) fn follow_moved(&mut self, now: Time, session: &mut Session) {
        for (node, instance, publisher, positions) in std::mem::take(&mut self.moved) {
            self.on_welcome(now, session, (node, instance, publisher), &positions);
        }
    }
}
