//! What all links of a node may hold together: what waits for readers, what waits to be acknowledged, and parts of messages.
//!
//! | what                                     | bound                                                  | beyond it                            |
//! |------------------------------------------|--------------------------------------------------------|--------------------------------------|
//! | credit of a lane, in and out             | an equal share of `assembly_bytes_max` for every lane  | there is none until bytes were taken |
//! | what came and waits for readers          | `assembly_bytes_max`, or an equal share of a session   | the connection ends                  |
//! | parts of messages, while more than half of `assembly_bytes_max` is taken | 5 s for every 64 KiB   | the session ends                     |

use std::time::Duration;

use shoal_norm::Time;

use super::agenda::Party;
use super::links::{Line, TcpLinks};

/// A lane has so much credit at the least, if `window_bytes` is not less.
const WINDOW_BYTES_MIN: usize = 64 << 10;
/// Whoever holds part of a long message while there is little room brings so much more of it in this time.
const PROGRESS_BYTES: u64 = 64 << 10;
const PROGRESS_TIME: Duration = Duration::from_secs(5);

impl TcpLinks {
    fn bytes_max(&self) -> usize {
        self.hub.part_bytes().0
    }

    fn count(&self) -> usize {
        (self.peers.len() + self.draining.len()).max(1)
    }

    /// The credit of a lane.
    pub(super) fn window(&self) -> usize {
        let most = self.config.window_bytes;
        let share = self.bytes_max() / (self.count() * (self.lanes - 1).max(1));
        share.clamp(WINDOW_BYTES_MIN.min(most), most)
    }

    /// There are more sessions, or fewer: their lanes have less credit, or more.
    pub(super) fn share_out(&mut self) {
        let window = self.window();
        for (&publisher, peer) in &mut self.peers {
            let Some(session) = &mut peer.session else { continue };
            session.set_window(window);
            if session.is_blocked() {
                // It may have credit now.
                self.agenda.touch(Party::Session(publisher));
            }
        }
    }

    /// Whether what comes in a session may wait for readers.
    pub(super) fn may_hold(&self, publisher: u64, bytes: usize) -> bool {
        let session = self.peers.get(&publisher).and_then(|peer| peer.session.as_ref());
        let held = session.map_or(0, |session| session.held_bytes());
        let share = self.bytes_max() / self.count();
        held == 0 || held + bytes <= share || self.held_bytes() + bytes <= self.bytes_max()
    }

    /// Ends sessions that hold parts of long messages and bring no more of them, while others may need the room.
    pub(super) fn end_idle_parts(&mut self, now: Time) {
        let (bytes_max, bytes) = self.hub.part_bytes();
        if bytes <= bytes_max / 2 {
            self.parts_at = Time::NEVER;
            return;
        }
        if self.parts_at != Time::NEVER && now < self.parts_at {
            return;
        }
        self.parts_at = now + PROGRESS_TIME / 4;
        let mut idle: Vec<(u64, Line)> = Vec::new();
        for (&publisher, peer) in &mut self.peers {
            let Some(session) = &mut peer.session else { continue };
            // Whoever waits for a reader here cannot bring more.
            if session.part_bytes() == 0 || session.held_bytes() > 0 {
                session.part_since = None;
                continue;
            }
            let received = session.received.total;
            let (since, before) = *session.part_since.get_or_insert((now, received));
            if received >= before + PROGRESS_BYTES {
                session.part_since = Some((now, received));
            } else if now >= since + PROGRESS_TIME {
                idle.push((publisher, peer.line));
            }
        }
        for (publisher, line) in idle {
            let why = "the rest of a long message does not come, and others need the room";
            self.fail_peer(now, publisher, line, why);
        }
    }
}
