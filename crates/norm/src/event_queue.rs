//! Events that wait to be told, and the bytes they carry.
//!
//! What an event carries was memory of a receive buffer before. Until the owner takes it, it is still counted: while as
//! much waits as may, the session has no room for objects, information and commands.

use std::collections::VecDeque;

use crate::event::Event;

/// So many events may wait before what makes more of them is refused.
const EVENTS_MAX: usize = 16_384;

/// Of the bytes that may be received and not read yet, one part in so many may be carried by events that wait.
const EVENT_BYTES_ONE_IN: usize = 4;

#[derive(Debug, Default)]
pub struct EventQueue {
    events: VecDeque<Event>,
    bytes: usize,
}

impl EventQueue {
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether more may come that carries bytes, where `receive_bytes_max` may be received and not read yet.
    pub fn has_room(&self, receive_bytes_max: usize) -> bool {
        self.bytes < receive_bytes_max / EVENT_BYTES_ONE_IN && self.events.len() < EVENTS_MAX
    }

    pub fn push_back(&mut self, event: Event) {
        self.bytes += carried_bytes(&event);
        self.events.push_back(event);
    }

    pub fn pop_front(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= carried_bytes(&event);
        if self.events.is_empty() && self.events.capacity() > EVENTS_MAX {
            self.events = VecDeque::new();
        }
        Some(event)
    }

    /// For events that carry nothing.
    pub fn news(&mut self) -> &mut VecDeque<Event> {
        &mut self.events
    }
}

fn carried_bytes(event: &Event) -> usize {
    match event {
        Event::Info { content, .. }
        | Event::DataReceived { content, .. }
        | Event::FileChunk { bytes: content, .. }
        | Event::CommandReceived { content, .. } => content.capacity(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_events_carry_counts_until_they_are_taken() {
        let mut queue = EventQueue::default();
        let command = || Event::CommandReceived { node: 1, instance: 1, content: vec![7; 100] };
        queue.push_back(command());
        assert!(queue.has_room(4 * 101));
        queue.push_back(command());
        assert!(!queue.has_room(4 * 200));
        assert!(queue.pop_front().is_some());
        assert!(queue.has_room(4 * 200));
    }
}
