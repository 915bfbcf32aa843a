//! Looks whether the interface of a link is still there: when the system says that something changed, and now and then.

use std::sync::Arc;
use std::time::Duration;

use shoal_norm::Time;

use super::Sockets;
use crate::interfaces::Standing;

/// It looks so often, if nobody says that something changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Where the system does say so it looks so often at the most: one change is told as several.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// What became of a link's interface.
#[derive(Debug)]
pub enum Sight {
    /// It is gone, and nothing goes out or comes in: why.
    Down(String),
    /// It is there again, or another one is in its place: the sockets to go on with.
    Up(Arc<Sockets>),
}

/// One link's look-out.
#[derive(Debug)]
pub struct Watch {
    /// When it looked last, and when to look next.
    looked: Time,
    at: Time,
    is_down: bool,
    /// Something changed that it has not seen yet.
    is_hasty: bool,
}

impl Watch {
    /// One whose link was opened a moment ago.
    pub fn new(now: Time) -> Watch {
        Watch { looked: now, at: now + LOOK_EVERY, is_down: false, is_hasty: false }
    }

    /// When the thread has to wake for it: somebody who waits for an interface has nothing else to do.
    pub fn deadline(&self) -> Time {
        if self.is_down || self.is_hasty { self.at } else { Time::NEVER }
    }

    /// Looks, if it is time.
    pub fn look(&mut self, now: Time, sockets: &Sockets) -> Option<Sight> {
        if sockets.take_changed() {
            (self.at, self.is_hasty) = (self.at.min(self.looked + LOOK_PAUSE), true);
        }
        if now < self.at {
            return None;
        }
        (self.looked, self.at, self.is_hasty) = (now, now + LOOK_EVERY, false);
        let interface = match sockets.look()? {
            Standing::Same if !self.is_down => return None,
            // The system may have forgotten that the group was joined.
            Standing::Same => sockets.interface()?.name.clone(),
            Standing::Changed(interface) => interface,
            Standing::Away(why) => return self.note_down(why),
        };
        match sockets.reopen(&interface) {
            Ok(sockets) => {
                self.is_down = false;
                Some(Sight::Up(Arc::new(sockets)))
            }
            Err(error) => self.note_down(error.to_string()),
        }
    }

    fn note_down(&mut self, why: String) -> Option<Sight> {
        (!std::mem::replace(&mut self.is_down, true)).then_some(Sight::Down(why))
    }
}
