//! Which messages a reader of history wants: topic patterns and a selector.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use shoal_node::{MessageAttributes, Origin};
use shoal_selector::Selector;
use shoal_wire::{DestinationKind, MessageView, Topic, TopicPattern};

use crate::Row;
use crate::cursor::Query;

/// Topics whose answer is remembered at most. When it is reached, all are forgotten.
pub const FILTER_TOPICS_MAX: usize = 4096;

/// Topic patterns, of which one must match, and a selector. Cheap to ask again about a topic it has seen.
#[derive(Debug, Clone)]
pub struct Filter {
    patterns: Vec<TopicPattern>,
    selector: Option<Selector>,
    seen: HashMap<Box<[u8]>, bool, FixedState>,
    /// The topic asked about last, most likely that of the next message.
    last: Option<(Vec<u8>, bool)>,
}

impl Filter {
    /// Without a pattern every destination is meant, reserved topics and queues too.
    pub fn new(patterns: Vec<TopicPattern>, selector: Option<Selector>) -> Self {
        Self { patterns, selector, seen: HashMap::default(), last: None }
    }

    /// What a cursor has to read for it, between two offsets.
    pub(crate) fn query(&self, start: u64, end: u64) -> Query {
        Query { start, end, patterns: self.patterns.clone(), selector: self.selector.clone() }
    }

    /// Whether it lets every message through.
    pub fn is_everything(&self) -> bool {
        self.patterns.is_empty() && self.selector.is_none()
    }

    /// Whether every topic is meant.
    pub fn is_any_topic(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether the message is wanted. One that cannot be read is, if everything is.
    #[inline]
    pub fn wants(&mut self, row: &Row<'_>) -> bool {
        self.is_everything() || MessageView::parse(row.record).is_ok_and(|view| self.matches(row, &view))
    }

    /// Whether it asks for more than the topic.
    pub fn has_selector(&self) -> bool {
        self.selector.is_some()
    }

    /// Whether a topic of this name may hold messages that match; for looking through an index.
    pub fn topic_matches(&self, name: &[u8]) -> bool {
        self.patterns.is_empty()
            || Topic::from_bytes(name)
                .is_ok_and(|topic| self.patterns.iter().any(|pattern| pattern.matches(topic)))
    }

    /// Whether the message is wanted.
    #[inline]
    pub fn matches(&mut self, row: &Row<'_>, view: &MessageView<'_>) -> bool {
        self.destination_matches(view)
            && self
                .selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&MessageAttributes::new(view, &origin(row))))
    }

    /// Whether its destination is a topic that is meant.
    #[inline]
    pub fn destination_matches(&mut self, view: &MessageView<'_>) -> bool {
        if self.patterns.is_empty() {
            return true;
        }
        if view.destination_kind() == DestinationKind::Queue {
            return false;
        }
        let name = view.name_bytes();
        match &self.last {
            Some((last, matched)) if last == name => *matched,
            _ => self.look_up(name),
        }
    }

    fn look_up(&mut self, name: &[u8]) -> bool {
        let matched = match self.seen.get(name) {
            Some(&matched) => matched,
            None => {
                let matched = self.topic_matches(name);
                if self.seen.len() >= FILTER_TOPICS_MAX {
                    self.seen.clear();
                }
                self.seen.insert(name.into(), matched);
                matched
            }
        };
        let (last, answer) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(name);
        *answer = matched;
        matched
    }
}

/// The identity as selectors see it.
fn origin(row: &Row<'_>) -> Origin {
    Origin {
        publisher: row.publisher,
        chain: row.chain,
        number: row.number.unwrap_or(0),
        timestamp_us: row.timestamp_us,
        node: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_wire::{BodyKind, Destination, Outgoing, PropertiesWriter, Scalar};

    fn filter(patterns: &[&str], selector: Option<&str>) -> Filter {
        let patterns = patterns.iter().map(|text| TopicPattern::new(text).unwrap()).collect();
        Filter::new(patterns, selector.map(|text| Selector::parse(text).unwrap()))
    }

    fn record(destination: Destination<'_>, region: &str) -> Vec<u8> {
        let mut properties = PropertiesWriter::new();
        properties.push("region", Scalar::Str(region)).unwrap();
        let mut record = Vec::new();
        let message = Outgoing::new(destination, BodyKind::Bytes, b"x");
        Outgoing { properties: properties.properties(), ..message }.encode_into(&mut record).unwrap();
        record
    }

    fn matches(filter: &mut Filter, record: &[u8]) -> bool {
        let (publisher, chain, number, timestamp_us) = (1, 2, Some(3), 4);
        let row = Row { offset: 7, stored_us: 0, publisher, chain, number, timestamp_us, record };
        filter.matches(&row, &MessageView::parse(record).unwrap())
    }

    fn topic(name: &str) -> Destination<'_> {
        Destination::topic(Topic::new(name).unwrap())
    }

    #[test]
    fn one_of_several_patterns_is_enough_and_the_selector_must_hold_too() {
        let mut filter = filter(&["prices/*", "orders/>"], Some("region = 'EU'"));
        for (name, region, wanted) in [
            ("prices/ACME", "EU", true),
            ("prices/ACME", "US", false),
            ("prices/ACME/bid", "EU", false),
            ("orders/7/new", "EU", true),
            ("news", "EU", false),
            ("prices/ACME", "EU", true),
        ] {
            assert_eq!(matches(&mut filter, &record(topic(name), region)), wanted, "{name} {region}");
        }
    }

    #[test]
    fn without_patterns_reserved_topics_and_queues_are_wanted_too() {
        let queue = record(Destination::queue(Topic::new("prices").unwrap()), "EU");
        let reserved = record(topic("_reply/7"), "EU");
        let mut all = filter(&[], None);
        assert!(all.is_everything());
        assert!(matches(&mut all, &queue) && matches(&mut all, &reserved));
        let mut named = filter(&[">"], None);
        assert!(!matches(&mut named, &queue) && !matches(&mut named, &reserved));
    }

    #[test]
    fn more_topics_than_are_remembered_are_answered_all_the_same() {
        let mut filter = filter(&["a/*"], None);
        for _ in 0..2 {
            for number in 0..=FILTER_TOPICS_MAX {
                let name = format!("{}/{number}", if number % 2 == 0 { "a" } else { "b" });
                assert_eq!(matches(&mut filter, &record(topic(&name), "EU")), number % 2 == 0);
            }
        }
        assert!(filter.seen.len() <= FILTER_TOPICS_MAX);
    }
}
