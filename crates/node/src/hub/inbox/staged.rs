//! Who gets what of the buffer that is being filled.

use std::time::Duration;

use foldhash::HashMap;
use shoal_norm::Time;
use shoal_wire::{DecodeError, MessageView};

use super::super::chain::LinkId;
use super::super::consumer::{Entry, Source};
use super::super::notes::{Hold, Notes};
use super::super::passing::Outbound;
use super::super::routes::Routes;
use crate::load::Tally;
use crate::switch::SubscriptionId;

/// Who gets what of the buffer that is being filled.
#[derive(Default)]
pub(super) struct Staged {
    pub entries: HashMap<SubscriptionId, Vec<Entry>>,
    /// Subscriptions with something staged.
    pub ids: Vec<SubscriptionId>,
    /// How old messages with a time to live are, by their place in the buffer.
    pub ages: Vec<(u32, Duration)>,
    /// Whose messages they are, from a place in the buffer on.
    pub sources: Vec<(u32, Source)>,
    /// What goes on to other links, and which these are for one message.
    pub outbound: Outbound,
    pub links: Vec<LinkId>,
    /// Links that rest, and behind which programs want it, too.
    pub later: Vec<LinkId>,
    /// What came since it was taken.
    pub tally: Tally,
}

impl Staged {
    /// Stages a message that will lie `at` a place in the buffer. True if somebody wants it.
    #[inline]
    pub fn on_message(
        &mut self,
        now: Time,
        routes: &mut Routes,
        notes: &mut Notes,
        record: &[u8],
        at: usize,
        passes: Option<LinkId>,
    ) -> Result<bool, DecodeError> {
        self.tally.received += 1;
        let origin = notes.next_origin();
        // Our own programs have what we went back for.
        let is_new = !matches!(notes.hold, Hold::Busy { high, .. } if origin.number < high);
        let view = MessageView::parse(record)?;
        let age = match notes.age_and_ttl(&view, now) {
            Some((age, Some(ttl))) if age >= ttl => return Ok(false),
            aged => aged.map(|(age, _)| age),
        };
        let entry = Entry::new(at, record.len(), origin.number, origin.timestamp_us);
        let Staged { entries, ids, ages, sources, outbound, links, later, tally } = self;
        let published = notes.again;
        let each = |id| {
            if !is_new {
                return;
            }
            let staged = entries.entry(id).or_default();
            if staged.is_empty() {
                ids.push(id);
            }
            staged.push(entry);
            tally.delivered += 1;
            tally.bytes_delivered += record.len() as u64;
        };
        let mut kept = false;
        let wanted = match passes.filter(|_| notes.may_pass() && origin.number > 0) {
            None => routes.route_here(&view, &origin, published, each),
            Some(from) => {
                links.clear();
                later.clear();
                let (wanted, is_wanted_later) =
                    routes.route_on(&view, &origin, (from, published), each, links, later);
                let wanted = wanted && is_new;
                // Others may have to get this way later what is read here alone.
                kept = wanted || is_wanted_later || !links.is_empty();
                if kept {
                    let numbered = (origin.number, origin.timestamp_us);
                    outbound.add_message(&notes.chain(), (at, record.len()), numbered, links);
                    outbound.add_owed(notes.key(), origin.number, later);
                } else if notes.left == 0 {
                    notes.left = origin.number;
                }
                wanted
            }
        };
        if wanted && sources.last().is_none_or(|(_, source)| *source != notes.source) {
            sources.push((at as u32, notes.source));
        }
        ages.extend(age.filter(|_| wanted).map(|age| (at as u32, age)));
        self.tally.matched += u64::from(wanted || kept);
        Ok(wanted || kept)
    }
}
