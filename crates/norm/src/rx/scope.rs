//! What the whole session shares with each of its remote senders.

use super::nack_pacer::NackPacer;
use crate::config::{Config, NackingMode};
use crate::event_queue::EventQueue;
use crate::stats::{Reject, Stats};

/// What the whole session shares with each of its remote senders.
pub struct SessionScope<'a> {
    pub config: &'a Config,
    pub random: &'a mut fastrand::Rng,
    pub memory_left: &'a mut usize,
    /// How often anybody is asked.
    pub nacks: &'a mut NackPacer,
    /// Whether the application has room for objects, information and commands.
    pub has_room: bool,
    pub stats: &'a mut Stats,
    pub events: &'a mut EventQueue,
}

impl SessionScope<'_> {
    /// Whether objects of known length are taken, and if not, why.
    pub fn check_object(&self) -> Result<(), Reject> {
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
