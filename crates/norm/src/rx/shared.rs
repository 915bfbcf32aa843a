//! What the whole session shares with each of its remote senders.

use std::collections::VecDeque;

use crate::config::Config;
use crate::event::Event;
use crate::stats::Stats;

/// What the whole session shares with each of its remote senders.
pub struct Shared<'a> {
    pub config: &'a Config,
    pub random: &'a mut fastrand::Rng,
    pub memory_left: &'a mut usize,
    pub stats: &'a mut Stats,
    pub events: &'a mut VecDeque<Event>,
}
