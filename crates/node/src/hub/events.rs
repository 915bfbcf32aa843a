//! What happened, for an owner who may not look.

use std::collections::VecDeque;

use super::event::HubEvent;

/// Events kept for an owner that does not take them, and bytes of their texts; the oldest go first.
const EVENTS_MAX: usize = 10_000;
const EVENT_BYTES_MAX: usize = 16 << 20;
/// What a text costs beside its bytes.
const TEXT_BYTES: usize = 32;

/// The events.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: VecDeque<HubEvent>,
    bytes: usize,
    /// How many went since any was taken.
    dropped: u64,
}

impl Events {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds one. False if it only extends the one before it.
    pub fn push(&mut self, event: HubEvent) -> bool {
        if let (HubEvent::Lost(lost), Some(HubEvent::Lost(before))) = (&event, self.queue.back_mut())
            && before.extend(lost)
        {
            return false;
        }
        self.bytes += text_bytes(&event);
        self.queue.push_back(event);
        // One that is too large for all bounds is told, if it is taken before the next.
        while self.queue.len() > EVENTS_MAX || (self.bytes > EVENT_BYTES_MAX && self.queue.len() > 1) {
            self.dropped += u64::from(self.pop_oldest().is_some());
        }
        true
    }

    fn pop_oldest(&mut self) -> Option<HubEvent> {
        let event = self.queue.pop_front()?;
        self.bytes -= text_bytes(&event);
        Some(event)
    }

    /// The oldest one; before it, how many older ones went.
    pub fn pop(&mut self) -> Option<HubEvent> {
        self.take_dropped().or_else(|| self.pop_oldest())
    }

    fn take_dropped(&mut self) -> Option<HubEvent> {
        let dropped = std::mem::take(&mut self.dropped);
        (dropped > 0).then_some(HubEvent::Dropped(dropped))
    }

    /// All of them, as [`Events::pop`] gives them.
    pub fn take_all(&mut self) -> VecDeque<HubEvent> {
        self.bytes = 0;
        let mut all = std::mem::take(&mut self.queue);
        if let Some(dropped) = self.take_dropped() {
            all.push_front(dropped);
        }
        all
    }
}

fn text_bytes(event: &HubEvent) -> usize {
    match event {
        HubEvent::Subscriptions(_, added, removed) => {
            added.iter().chain(removed).map(|text| TEXT_BYTES + text.len()).sum()
        }
        HubEvent::Unreadable(_, why) | HubEvent::LinkDown(_, why) | HubEvent::LinkUp(_, why) => {
            TEXT_BYTES + why.len()
        }
        HubEvent::LinkFailed(name, why) => 2 * TEXT_BYTES + name.len() + why.len(),
        HubEvent::Joined(_)
        | HubEvent::Gone(..)
        | HubEvent::Lost(_)
        | HubEvent::Slow(..)
        | HubEvent::Dropped(_)
        | HubEvent::Renamed(..) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_events_go_when_there_are_too_many_and_how_many_is_told_before_the_others() {
        let mut events = Events::default();
        (0..EVENTS_MAX as u32 + 5).for_each(|node| assert!(events.push(HubEvent::Joined(node))));
        assert_eq!(events.pop(), Some(HubEvent::Dropped(5)));
        assert_eq!(events.pop(), Some(HubEvent::Joined(5)));
        (0..3).for_each(|node| assert!(events.push(HubEvent::Joined(node))));
        let all = events.take_all();
        assert_eq!((all.len(), &all[0]), (EVENTS_MAX + 1, &HubEvent::Dropped(2)));
        assert!(events.is_empty() && events.pop().is_none());
    }

    #[test]
    fn the_oldest_events_go_when_their_texts_are_too_long() {
        let mut events = Events::default();
        let long = |node| HubEvent::Unreadable(node, "x".repeat(EVENT_BYTES_MAX / 4));
        (0..20).for_each(|node| assert!(events.push(long(node))));
        assert_eq!(events.queue.len(), 3);
        assert!(events.bytes <= EVENT_BYTES_MAX);
        assert_eq!(events.pop(), Some(HubEvent::Dropped(17)));
        assert_eq!(events.pop(), Some(long(17)));
        events.take_all();
        assert!(events.push(HubEvent::Unreadable(1, "x".repeat(2 * EVENT_BYTES_MAX))), "one is always kept");
        assert!(!events.is_empty());
        events.pop();
        assert_eq!(events.bytes, 0);
    }
}
