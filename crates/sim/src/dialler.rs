//! Who keeps dialling on a cable, as a program does that connects by TCP.

use std::time::Duration;

use shoal_node::tcp::{Over, TcpNews};
use shoal_norm::Time;

use crate::cable::WireId;

/// A connection that is over, or could not be made, is tried again after so many milliseconds.
const AGAIN_MS: std::ops::Range<u64> = 20..400;

/// The end of a cable that dials. Times are those of its node.
#[derive(Debug)]
pub(crate) struct Dialler {
    pub cable: usize,
    /// Whom it reached last.
    pub last: Option<u64>,
    pub wire: Option<WireId>,
    pub dial_at: Time,
    random: fastrand::Rng,
}

impl Dialler {
    pub fn new(now: Time, cable: usize, seed: u64) -> Dialler {
        let random = fastrand::Rng::with_seed(seed ^ cable as u64);
        Dialler { cable, last: None, wire: None, dial_at: now, random }
    }

    /// Its node starts over.
    pub fn forget(&mut self) {
        (self.last, self.wire, self.dial_at) = (None, None, Time::ZERO);
    }

    fn later(&mut self, now: Time) -> Time {
        now + Duration::from_millis(self.random.u64(AGAIN_MS))
    }

    /// There will be a connection, or nobody was reached.
    pub fn dialled(&mut self, now: Time, wire: Option<WireId>) {
        self.wire = wire;
        self.dial_at = if wire.is_some() { Time::NEVER } else { self.later(now) };
    }

    /// Something became of a connection of its node.
    pub fn hear(&mut self, now: Time, news: &TcpNews) {
        match news {
            TcpNews::Up { connection, publisher, .. } if self.wire == Some(*connection) => {
                self.last = Some(*publisher);
            }
            TcpNews::Over { connection, why, .. } if self.wire == Some(*connection) => {
                if let Over::Duplicate(publisher) | Over::Stale(publisher) = why {
                    self.last = Some(*publisher);
                }
                (self.wire, self.dial_at) = (None, self.later(now));
            }
            _ => {}
        }
    }
}
