//! Where a message goes.

use crate::topic::Topic;

/// Whether every subscriber or one receiver gets a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DestinationKind {
    /// For every subscriber.
    #[default]
    Topic,
    /// For one receiver.
    Queue,
}

/// A topic or a queue. Queue names follow the rules of topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination<'a> {
    /// Topic or queue.
    pub kind: DestinationKind,
    /// Its name, exactly as the publisher wrote it.
    pub name: Topic<'a>,
}

impl<'a> Destination<'a> {
    /// A topic.
    pub fn topic(name: Topic<'a>) -> Self {
        Self { kind: DestinationKind::Topic, name }
    }

    /// A queue.
    pub fn queue(name: Topic<'a>) -> Self {
        Self { kind: DestinationKind::Queue, name }
    }
}
