//! How far objects of known length may be ahead of those whose acknowledgement counts.
//!
//! The segments of all objects are counted through, in the order in which they are sent: the *row*. An
//! acknowledgement of a place in an object stands for everything before it, so it is one number in the row. What is
//! not acknowledged is kept, and no more than the window is sent beyond it. Whoever does not answer for the ackers'
//! patience no longer holds the window, but is not forgiven what it owes.

use super::acks::{AckOutcome, AckProcess};
use crate::time::Time;
use crate::{Config, NodeId};

/// Acknowledgement is asked for whenever one in so many of what may be unacknowledged was sent.
const ASK_ONE_IN: u64 = 8;
/// So many debts are remembered one by one; whoever owes more owes it for good.
const DEBTS_MAX: usize = 64;
/// A place in the row that nobody can acknowledge.
const NEVER: u64 = u64::MAX;

/// What was sent, in segments and in objects.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sent {
    /// Everything before this place in the row was sent.
    pub row: u64,
    /// Objects that were sent completely, ever.
    pub objects: u64,
}

/// The window of all objects of a sender.
#[derive(Debug, Default)]
pub struct ObjectWindow {
    /// Who has everything before which place.
    pub acks: AckProcess,
    segments_max: u64,
    objects_max: u64,
    asked: Sent,
    /// Who did not acknowledge which place in the row. An acknowledgement of a later one does not settle it: after a
    /// silence it may leave out what was given up.
    debts: Vec<(NodeId, u64)>,
    /// An object was dropped that somebody had not acknowledged.
    dropped_unacknowledged: bool,
}

impl ObjectWindow {
    pub fn new(config: &Config) -> ObjectWindow {
        // What is sent together is acknowledged together, and goes on while it is waited for.
        let together = u64::from(config.block_symbols) * u64::from(config.interleave_blocks);
        let segments_max = (config.object_window_bytes / usize::from(config.segment_bytes)) as u64;
        ObjectWindow {
            acks: AckProcess::new(config),
            segments_max: segments_max.max(2 * together),
            objects_max: config.send_objects_max as u64,
            ..ObjectWindow::default()
        }
    }

    /// Replaces the list of nodes that count. A new one owes nothing before `from`.
    pub fn set_ackers(&mut self, nodes: &[NodeId], from: u64) {
        self.acks.set_ackers(nodes, from);
        self.debts.retain(|(node, _)| nodes.contains(node));
    }

    /// Places before this one may be sent.
    pub fn end(&self) -> u64 {
        self.acks.acked().map_or(u64::MAX, |acked| acked + self.segments_max)
    }

    /// Whether somebody listed, though he may be silent, has not acknowledged everything before this place.
    pub fn is_owed(&self, row: u64) -> bool {
        self.dropped_unacknowledged || !self.debts.is_empty() || self.acks.is_owed(row)
    }

    /// Asks for acknowledgement of what was sent if that is enough, or if something waits for it.
    pub fn ask(&mut self, now: Time, sent: Sent, is_waited_for: bool) {
        let Some(acked) = self.acks.acked() else { return };
        let enough = sent.row - self.asked.row.min(sent.row) >= self.segments_max / ASK_ONE_IN
            || sent.objects - self.asked.objects >= (self.objects_max / ASK_ONE_IN).max(1);
        if sent.row > acked && (enough || is_waited_for) {
            self.ask_everybody(now, sent);
        }
    }

    /// Asks everybody who has not all that was sent, also those who fell silent: they may be back.
    pub fn ask_everybody(&mut self, now: Time, sent: Sent) {
        if !self.acks.is_waiting() {
            self.asked = sent;
            self.acks.request(now, sent.row);
        }
    }

    /// `node` acknowledged the place `row`. With objects that are gone, which nobody owes, it has all before `has`. One
    /// that fell silent counts again when it has caught up: earlier, everybody else would wait for it to.
    pub fn on_ack(&mut self, now: Time, node: NodeId, row: u64, has: u64, sent: Sent) {
        self.debts.retain(|debt| *debt != (node, row));
        self.acks.on_ack(now, node, has, sent.row.saturating_sub(self.segments_max));
    }

    /// Somebody did not acknowledge a place though he was asked for long enough.
    pub fn on_silence(&mut self, node: NodeId, row: u64) {
        if self.debts.len() + 1 >= DEBTS_MAX {
            self.debts.truncate(DEBTS_MAX - 1);
            self.debts.push((node, NEVER));
        } else if !self.debts.contains(&(node, row)) {
            self.debts.push((node, row));
        }
    }

    /// An object that ends here is dropped to make room.
    pub fn on_drop(&mut self, end: u64) {
        self.dropped_unacknowledged |= self.acks.is_owed(end);
    }

    /// Who stopped answering, and where; call until `None`.
    pub fn poll_silent(&mut self) -> Option<(NodeId, u64)> {
        loop {
            match self.acks.poll_outcome()? {
                AckOutcome::Silent(node) => {
                    let row = self.asked.row;
                    self.on_silence(node, row);
                    return Some((node, row));
                }
                // Watermarks of an application are asked for object by object, and so is what cannot be repaired.
                AckOutcome::Settled(..) | AckOutcome::Lost(..) => {}
            }
        }
    }
}
