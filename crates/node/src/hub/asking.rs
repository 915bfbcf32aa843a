//! What a subscription asks others for, and what another node's subscription asks us for.
//!
//! Filters travel with subscriptions, so that what nobody wants is not sent. A filter that cannot be told, or not be
//! read, is left out: then more is sent than is wanted, and the subscriber leaves it aside.

use shoal_selector::{CorrelationFilter, Selector};
use shoal_wire::{EncodeError, Filter, FilterKind, InterestEntry, TopicPattern};

use super::chain::LinkId;
use crate::interest::{AskedInterest, Asker, Entry};
use crate::switch::Interest;

/// Header fields that a message gets only when it is published, or on its way: nobody else can judge by them.
const LATE_HEADERS: [&str; 2] = ["JMSMessageID", "JMSTimestamp"];

/// Asks others for what a subscription of this process wants; returns its number.
pub(super) fn ask_here(asked: &mut AskedInterest, interest: &Interest) -> Result<u64, EncodeError> {
    let (mut selector, mut correlation) = (Vec::new(), Vec::new());
    let mut filters = Vec::new();
    if let Some(condition) = interest.selector.as_ref().filter(|selector| is_early(selector)) {
        condition.encode(&mut selector);
        filters.push(Filter { kind: FilterKind::Selector, bytes: &selector });
    }
    if let Some(ids) = &interest.correlation {
        ids.encode(&mut correlation);
        filters.push(Filter { kind: FilterKind::Correlation, bytes: &correlation });
    }
    let entry = InterestEntry {
        persistent_only: interest.persistent_only,
        filters,
        ..InterestEntry::new(interest.kind, interest.pattern.as_str())
    };
    match asked.ask(Asker::Here, &entry) {
        // A filter may be longer than an announcement takes.
        Err(_) => asked.ask(Asker::Here, &InterestEntry { filters: Vec::new(), ..entry }),
        announced => announced,
    }
}

/// Asks others for what somebody behind a link asks us for; returns its number.
pub(super) fn ask_behind(asked: &mut AskedInterest, link: LinkId, entry: &Entry) -> Result<u64, EncodeError> {
    let filters = entry.filters.iter().map(|(kind, bytes)| Filter { kind: *kind, bytes }).collect();
    let persistent_only = entry.persistent_only;
    let entry =
        InterestEntry { persistent_only, filters, ..InterestEntry::new(entry.kind, entry.pattern.as_str()) };
    asked.ask(Asker::Behind(link), &entry)
}

fn is_early(selector: &Selector) -> bool {
    !selector.names().iter().any(|name| LATE_HEADERS.contains(&name.as_ref()))
}

/// The interest that another node announced; `None` if its pattern is none.
pub(super) fn interest_of(entry: &Entry) -> Option<Interest> {
    let mut interest = Interest {
        kind: entry.kind,
        persistent_only: entry.persistent_only,
        ..Interest::topics(TopicPattern::new(&entry.pattern).ok()?)
    };
    for (kind, bytes) in &entry.filters {
        match kind {
            FilterKind::Selector => interest.selector = Selector::decode(bytes).ok(),
            FilterKind::Correlation => interest.correlation = CorrelationFilter::decode(bytes).ok(),
            FilterKind::Other(_) => {}
        }
    }
    Some(interest)
}
