//! How far a subscription is with publishers of persistent messages.
//!
//! A store that hears no more of a publisher publishes its last messages again, marked as redelivered, for those who
//! may have missed them. Whoever read them before drops them.

use std::collections::HashMap;

use shoal_wire::MessageView;

/// Chains that are remembered, at the most; then all are forgotten, and what comes again is read again.
const SEEN_MAX: usize = 4096;

/// The highest number read of each publisher, chain and priority class: classes overtake each other.
#[derive(Default)]
pub struct Seen(HashMap<(u64, u32, u8), u64>);

impl Seen {
    /// A message is read next. False if it is marked as redelivered, and was read before.
    pub fn is_new(&mut self, view: &MessageView<'_>) -> bool {
        if !view.is_persistent() {
            return true;
        }
        let Ok(Some(id)) = view.origin() else { return true };
        let chain = (id.publisher, id.chain, view.priority().class() as u8);
        if let Some(last) = self.0.get_mut(&chain) {
            let is_later = id.number > *last;
            *last = id.number.max(*last);
            return is_later || !view.is_redelivered();
        }
        if self.0.len() >= SEEN_MAX {
            self.0.clear();
        }
        self.0.insert(chain, id.number);
        true
    }
}
