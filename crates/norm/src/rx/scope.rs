//! What the whole session shares with each of its remote senders.

use super::nack_pacer::NackPacer;
use crate::config::{Config, NackingMode};
use crate::event_queue::EventQueue;
use crate::stats::{Reject, Stats, Taken};
use crate::time::Time;
use crate::wire::repair::RepairWriter;

/// What the whole session shares with each of its remote senders.
pub struct Scope<'a> {
    pub now: Time,
    pub config: &'a Config,
    pub random: &'a mut fastrand::Rng,
    pub memory_left: &'a mut usize,
    /// How often anybody is asked.
    pub nacks: &'a mut NackPacer,
    /// Whether the application has room for objects, information and commands.
    pub has_room: bool,
    pub stats: &'a mut Stats,
    pub events: &'a mut EventQueue,
    /// The number of the next feedback message, and where it is written.
    pub sequence: u16,
    pub requests: &'a mut RepairWriter,
    pub feedback: &'a mut Vec<u8>,
}

impl Scope<'_> {
    /// Whether objects of known length are taken, and if not, why.
    pub fn check_object(&self) -> Taken {
        match (self.config.receive_objects, self.has_room) {
            (false, _) => Err(Reject::Unwanted),
            (true, false) => Err(Reject::NoRoom),
            (true, true) => Ok(()),
        }
    }

    /// What to ask for when something of an object is missing.
    pub fn object_nacking(&self) -> NackingMode {
        if self.has_room { self.config.nacking } else { NackingMode::None }
    }
}
