//! How often one receiver asks, all senders together.
//!
//! When many nodes start at once each of them misses something of everybody, and everybody hears all that is asked. So in
//! a large group each asks the more rarely the more there are: all of them together ask about as often as a host can
//! listen to.

use std::time::Duration;

use crate::time::Time;

/// In a group of more than so many a receiver asks once in so much time for each of them.
const SMALL_GROUP_MAX: usize = 16;
const INTERVAL_PER_NODE: Duration = Duration::from_micros(500);

#[derive(Debug, Default)]
pub struct NackPacer {
    pub nodes: usize,
    interval: Duration,
    pub next: Time,
}

impl NackPacer {
    /// So many nodes are known.
    pub fn set_group(&mut self, nodes: usize) {
        self.nodes = nodes;
        let waits = if nodes > SMALL_GROUP_MAX { nodes as u32 } else { 0 };
        self.interval = INTERVAL_PER_NODE * waits;
    }

    /// A request goes.
    pub fn asked(&mut self, now: Time) {
        self.next = now + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ask_at_once_and_many_together_no_more_than_a_host_can_hear() {
        let mut pacer = NackPacer::default();
        let now = Time::from_nanos(1);
        pacer.set_group(4);
        pacer.asked(now);
        assert_eq!(pacer.next, now);
        for nodes in [20, 200, 300] {
            pacer.set_group(nodes);
            pacer.asked(now);
            let per_second = nodes as f64 / pacer.next.since(now).as_secs_f64();
            assert!(per_second <= 2001.0, "{nodes} nodes ask {per_second} times a second");
        }
    }
}
