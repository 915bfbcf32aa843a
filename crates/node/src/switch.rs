//! The switch: which subscriptions get a message, by topic, selector and correlation id.
//!
//! Topics are looked up first. Only if one of the subscriptions found has a filter are the filters
//! asked, all of them at once: however many subscriptions share a filter, it is evaluated once.

use foldhash::{HashMap, HashMapExt};
use shoal_selector::{CorrelationFilter, CorrelationIndex, Selector, SelectorIndex};
use shoal_wire::{MessageView, TopicError, TopicPattern};

use crate::attributes::{MessageAttributes, Origin};
use crate::topic_index::TopicIndex;

/// Names a subscription.
pub type SubscriptionId = u64;

/// What a subscription wants.
#[derive(Clone, Debug)]
pub struct Interest {
    /// Topics.
    pub pattern: TopicPattern,
    /// A condition on headers and properties.
    pub selector: Option<Selector>,
    /// Correlation ids.
    pub correlation: Option<CorrelationFilter>,
}

impl Interest {
    /// Everything on topics that match.
    pub fn topics(pattern: TopicPattern) -> Interest {
        Interest { pattern, selector: None, correlation: None }
    }

    fn is_filtered(&self) -> bool {
        self.selector.is_some() || self.correlation.is_some()
    }
}

#[derive(Debug)]
struct Subscription {
    interest: Interest,
    /// The last message its selector, and its correlation filter, accepted.
    selected: u64,
    correlated: u64,
}

/// The switch.
pub struct Switch {
    topics: TopicIndex<SubscriptionId>,
    subscriptions: HashMap<SubscriptionId, Subscription>,
    selectors: SelectorIndex,
    correlations: CorrelationIndex,
    filtered: usize,
    with_correlation: usize,
    /// Counts messages whose filters were asked.
    message: u64,
    found: Vec<SubscriptionId>,
}

impl Switch {
    /// One without subscriptions. A random `seed` keeps others from choosing topics that collide.
    pub fn new(seed: u64) -> Switch {
        Switch {
            topics: TopicIndex::new(seed),
            subscriptions: HashMap::new(),
            selectors: SelectorIndex::new(seed),
            correlations: CorrelationIndex::new(seed),
            filtered: 0,
            with_correlation: 0,
            message: 0,
            found: Vec::new(),
        }
    }

    /// How often a filter was evaluated for a message, all filters and messages together.
    pub fn evaluations(&self) -> u64 {
        self.selectors.counters().evaluations
    }

    /// Adds a subscription.
    pub fn insert(&mut self, id: SubscriptionId, interest: Interest) {
        self.topics.insert(&interest.pattern, id);
        self.filtered += usize::from(interest.is_filtered());
        if let Some(selector) = &interest.selector {
            self.selectors.add(selector, id);
        }
        if let Some(filter) = &interest.correlation {
            self.correlations.add(filter, id);
            self.with_correlation += 1;
        }
        self.subscriptions.insert(id, Subscription { interest, selected: 0, correlated: 0 });
    }

    /// Takes a subscription away, and returns what it wanted.
    pub fn remove(&mut self, id: SubscriptionId) -> Option<Interest> {
        let Subscription { interest, .. } = self.subscriptions.remove(&id)?;
        self.topics.remove(&interest.pattern, id);
        self.filtered -= usize::from(interest.is_filtered());
        if let Some(selector) = &interest.selector {
            self.selectors.remove(selector, id);
        }
        if let Some(filter) = &interest.correlation {
            self.correlations.remove(filter, id);
            self.with_correlation -= 1;
        }
        Some(interest)
    }

    /// The subscriptions to a topic, whatever they filter.
    pub fn subscribed(&mut self, topic: &[u8]) -> &[SubscriptionId] {
        self.topics.matching(topic).unwrap_or(&[])
    }

    /// The subscriptions that get a message.
    pub fn route(
        &mut self,
        view: &MessageView<'_>,
        origin: &Origin,
    ) -> Result<&[SubscriptionId], TopicError> {
        if self.filtered == 0 {
            return self.topics.matching(view.name_bytes());
        }
        self.found.clear();
        self.found.extend_from_slice(self.topics.matching(view.name_bytes())?);
        let filtered =
            |id: &SubscriptionId| self.subscriptions.get(id).is_some_and(|s| s.interest.is_filtered());
        if !self.found.iter().any(filtered) {
            return Ok(&self.found);
        }
        self.ask_filters(view, origin);
        let (subscriptions, message) = (&self.subscriptions, self.message);
        self.found.retain(|id| {
            subscriptions.get(id).is_some_and(|subscription| {
                let Interest { selector, correlation, .. } = &subscription.interest;
                (selector.is_none() || subscription.selected == message)
                    && (correlation.is_none() || subscription.correlated == message)
            })
        });
        Ok(&self.found)
    }

    /// Marks the subscriptions whose filters accept a message.
    fn ask_filters(&mut self, view: &MessageView<'_>, origin: &Origin) {
        self.message += 1;
        let attributes = MessageAttributes::new(view, origin);
        if !self.selectors.is_empty() {
            for (_, accepted) in self.selectors.matches(&attributes).subscribers() {
                for id in accepted {
                    if let Some(subscription) = self.subscriptions.get_mut(id) {
                        subscription.selected = self.message;
                    }
                }
            }
        }
        if self.with_correlation > 0
            && let Some(correlation_id) = attributes.correlation_id()
        {
            for id in self.correlations.matches(correlation_id) {
                if let Some(subscription) = self.subscriptions.get_mut(id) {
                    subscription.correlated = self.message;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_wire::{BodyKind, Destination, HeaderFields, Outgoing, PropertiesWriter, Scalar, Topic};

    fn record(topic: &str, region: &str, correlation_id: Option<&str>) -> Vec<u8> {
        let mut properties = PropertiesWriter::new();
        properties.push("region", Scalar::Str(region)).unwrap();
        let fields =
            HeaderFields { correlation_id: correlation_id.map(str::as_bytes), ..HeaderFields::default() };
        let destination = Destination::topic(Topic::new(topic).unwrap());
        let mut out = Vec::new();
        Outgoing {
            properties: properties.properties(),
            fields,
            ..Outgoing::new(destination, BodyKind::Bytes, b"x")
        }
        .encode_into(&mut out)
        .unwrap();
        out
    }

    fn interest(pattern: &str, selector: Option<&str>, correlation: Option<&str>) -> Interest {
        Interest {
            pattern: TopicPattern::new(pattern).unwrap(),
            selector: selector.map(|text| Selector::parse(text).unwrap()),
            correlation: correlation.map(|text| CorrelationFilter::parse(text).unwrap()),
        }
    }

    fn routed(switch: &mut Switch, record: &[u8]) -> Vec<SubscriptionId> {
        let view = MessageView::parse(record).unwrap();
        switch.route(&view, &Origin::default()).unwrap().to_vec()
    }

    #[test]
    fn a_message_goes_where_topic_selector_and_correlation_agree() {
        let mut switch = Switch::new(1);
        switch.insert(1, interest("prices/*", None, None));
        switch.insert(2, interest("prices/*", Some("region = 'EU'"), None));
        switch.insert(3, interest("prices/*", Some("region = 'US'"), None));
        switch.insert(4, interest("prices/*", None, Some("[#7;#13]")));
        switch.insert(5, interest("orders/*", Some("region = 'EU'"), None));
        switch.insert(6, interest("prices/*", Some("JMSPriority >= 4 AND region = 'EU'"), Some("#9")));
        assert_eq!(routed(&mut switch, &record("prices/ACME", "EU", None)), [1, 2]);
        assert_eq!(routed(&mut switch, &record("prices/ACME", "EU", Some("#9"))), [1, 2, 4, 6]);
        assert_eq!(routed(&mut switch, &record("orders/1", "US", None)), []);
        assert!(switch.remove(2).is_some());
        assert_eq!(routed(&mut switch, &record("prices/ACME", "EU", None)), [1]);
    }

    #[test]
    fn a_thousand_subscriptions_with_two_filters_cost_two_evaluations() {
        let mut switch = Switch::new(1);
        for id in 0..1000 {
            let text = if id % 2 == 0 { "region LIKE '%U'" } else { "region LIKE '%S'" };
            switch.insert(id, interest("prices/*", Some(text), None));
        }
        let before = switch.evaluations();
        assert_eq!(routed(&mut switch, &record("prices/ACME", "EU", None)).len(), 500);
        assert_eq!(switch.evaluations() - before, 2);
    }

    #[test]
    fn without_filters_the_topic_decides_alone() {
        let mut switch = Switch::new(1);
        switch.insert(1, interest("a/>", None, None));
        switch.insert(2, interest("b/>", Some("region = 'EU'"), None));
        assert_eq!(routed(&mut switch, &record("a/b", "EU", None)), [1]);
        assert_eq!(switch.evaluations(), 0);
    }
}
