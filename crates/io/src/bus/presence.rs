//! Who is connected to an `inproc` domain, and what each of them was not told yet: the same events as on a network.

use std::collections::{BTreeMap, VecDeque};

use shoal_node::Departure;
use shoal_norm::NodeId;

use super::application::BusEvent;
use super::handle::EVENTS_MAX;

#[derive(Debug, Default)]
struct Member {
    /// What it subscribes to, and how often.
    patterns: BTreeMap<String, usize>,
    events: VecDeque<BusEvent>,
}

/// The members of a domain.
#[derive(Debug, Default)]
pub struct Presence(BTreeMap<NodeId, Member>);

impl Presence {
    fn tell(&mut self, about: NodeId, event: &BusEvent) {
        for (_, member) in self.0.iter_mut().filter(|(node, _)| **node != about) {
            if member.events.len() >= EVENTS_MAX {
                member.events.pop_front();
            }
            member.events.push_back(event.clone());
        }
    }

    /// A node is here. It is told who else is.
    pub fn join(&mut self, node: NodeId) {
        let mut events = VecDeque::new();
        for (&other, member) in &self.0 {
            events.push_back(BusEvent::Joined(other));
            if !member.patterns.is_empty() {
                let patterns = member.patterns.keys().cloned().collect();
                events.push_back(BusEvent::Subscriptions(other, patterns, Vec::new()));
            }
        }
        self.0.insert(node, Member { events, ..Member::default() });
        self.tell(node, &BusEvent::Joined(node));
    }

    /// A node is gone.
    pub fn leave(&mut self, node: NodeId) {
        if self.0.remove(&node).is_some() {
            self.tell(node, &BusEvent::Gone(node, Departure::Left));
        }
    }

    /// A node subscribes to a pattern, perhaps once more.
    pub fn subscribe(&mut self, node: NodeId, pattern: &str) {
        let Some(member) = self.0.get_mut(&node) else { return };
        let count = member.patterns.entry(pattern.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            self.tell(node, &BusEvent::Subscriptions(node, vec![pattern.to_owned()], Vec::new()));
        }
    }

    /// A node ends one of its subscriptions to a pattern.
    pub fn unsubscribe(&mut self, node: NodeId, pattern: &str) {
        let Some(member) = self.0.get_mut(&node) else { return };
        let Some(count) = member.patterns.get_mut(pattern) else { return };
        *count -= 1;
        if *count == 0 {
            member.patterns.remove(pattern);
            self.tell(node, &BusEvent::Subscriptions(node, Vec::new(), vec![pattern.to_owned()]));
        }
    }

    /// Everybody but `node`.
    pub fn others(&self, node: NodeId) -> Vec<NodeId> {
        self.0.keys().copied().filter(|&other| other != node).collect()
    }

    /// What `node` was not told yet; `None` if it is not here.
    pub fn take_events(&mut self, node: NodeId) -> Option<VecDeque<BusEvent>> {
        Some(std::mem::take(&mut self.0.get_mut(&node)?.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_hears_of_the_others_and_of_each_pattern_once() {
        let mut presence = Presence::default();
        presence.join(1);
        presence.subscribe(1, "a");
        presence.join(2);
        presence.subscribe(2, "b");
        presence.subscribe(2, "b");
        presence.unsubscribe(2, "b");
        presence.unsubscribe(2, "b");
        presence.leave(2);
        let b = || vec!["b".to_owned()];
        let told: Vec<BusEvent> = presence.take_events(1).unwrap().into();
        let wanted = [
            BusEvent::Joined(2),
            BusEvent::Subscriptions(2, b(), Vec::new()),
            BusEvent::Subscriptions(2, Vec::new(), b()),
            BusEvent::Gone(2, Departure::Left),
        ];
        assert_eq!(told, wanted);
        assert!(presence.take_events(2).is_none());
        presence.join(3);
        let a = BusEvent::Subscriptions(1, vec!["a".to_owned()], Vec::new());
        assert_eq!(Vec::from(presence.take_events(3).unwrap()), [BusEvent::Joined(1), a]);
        assert_eq!(presence.others(3), [1]);
    }
}
