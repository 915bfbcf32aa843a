//! The switch: which subscriptions get a message, by topic, selector and correlation id.
//!
//! Topics are looked up first, and only the filters of the subscriptions found are asked: however many
//! subscriptions share a filter, it is evaluated once. If a message finds many subscriptions and there are
//! many filters, the filters are asked all at once.

use foldhash::{HashMap, HashMapExt};
use shoal_selector::{CorrelationFilter, CorrelationIndex, FilterId, Selector, SelectorIndex};
use shoal_wire::{DestinationKind, MessageView, TopicError, TopicPattern};

use crate::attributes::{MessageAttributes, Origin};
use crate::topic_index::TopicIndex;

/// Names a subscription.
pub type SubscriptionId = u64;

/// What a subscription wants.
#[derive(Clone, Debug)]
pub struct Interest {
    /// Topics or queues; the same name may be both.
    pub kind: DestinationKind,
    /// Which names.
    pub pattern: TopicPattern,
    /// Only persistent messages.
    pub persistent_only: bool,
    /// A condition on headers and properties.
    pub selector: Option<Selector>,
    /// Correlation ids.
    pub correlation: Option<CorrelationFilter>,
}

impl Interest {
    /// Everything on topics that match.
    pub fn topics(pattern: TopicPattern) -> Interest {
        Interest {
            kind: DestinationKind::Topic,
            pattern,
            persistent_only: false,
            selector: None,
            correlation: None,
        }
    }

    fn is_filtered(&self) -> bool {
        self.persistent_only || self.selector.is_some() || self.correlation.is_some()
    }
}

/// Where filters are asked all at once, one of them is filed anew after so many messages, by what messages
/// turned out to look like. It takes about as long as one of these messages.
const TUNING_INTERVAL: u32 = 64;

/// From so many subscriptions with selectors on, those that match are looked for among them, if all filters were looked up.
const MANY: usize = 64;

/// Where a subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In this process.
    Here,
    /// Behind a link.
    Elsewhere,
}

/// A subscription as the topics know it: whether it gets a message is decided without looking further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// First, so that those of this process come first.
    scope: Scope,
    /// Whether it has a selector: those that have none come before.
    is_selected: bool,
    /// Which subscription.
    pub id: SubscriptionId,
    /// Its selector, by the index's name for it.
    filter: Option<FilterId>,
    /// Whether it wants only some correlation ids.
    is_correlated: bool,
    /// Whether it wants only persistent messages.
    persistent_only: bool,
}

impl Target {
    /// Whether it is in this process.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.scope == Scope::Here
    }

    /// Whether more than the topic decides.
    #[inline]
    pub fn is_filtered(&self) -> bool {
        self.filter.is_some() || self.is_correlated || self.persistent_only
    }
}

#[derive(Debug)]
struct Subscription {
    interest: Interest,
    target: Target,
}

/// The switch.
pub struct Switch {
    topics: TopicIndex<Target>,
    queues: TopicIndex<Target>,
    subscriptions: HashMap<SubscriptionId, Subscription>,
    selectors: SelectorIndex,
    correlations: CorrelationIndex,
    filtered: usize,
    with_correlation: usize,
    /// Messages whose filters were asked all at once, since a filter was last filed anew.
    untuned: u32,
    found: Vec<Target>,
}

impl Switch {
    /// One without subscriptions. A random `seed` keeps others from choosing topics that collide.
    pub fn new(seed: u64) -> Switch {
        Switch {
            topics: TopicIndex::new(seed),
            queues: TopicIndex::new(seed),
            subscriptions: HashMap::new(),
            selectors: SelectorIndex::new(seed),
            correlations: CorrelationIndex::new(seed),
            filtered: 0,
            with_correlation: 0,
            untuned: 0,
            found: Vec::new(),
        }
    }

    /// How often a filter was evaluated for a message, all filters and messages together.
    pub fn evaluations(&self) -> u64 {
        self.selectors.counters().evaluations
    }

    /// Adds a subscription.
    pub fn insert(&mut self, id: SubscriptionId, interest: Interest, scope: Scope) {
        self.filtered += usize::from(interest.is_filtered());
        let filter = interest.selector.as_ref().map(|selector| self.selectors.add(selector, id));
        if let Some(filter) = &interest.correlation {
            self.correlations.add(filter, id);
            self.with_correlation += 1;
        }
        let target = Target {
            id,
            scope,
            is_selected: filter.is_some(),
            filter,
            is_correlated: interest.correlation.is_some(),
            persistent_only: interest.persistent_only,
        };
        self.names(interest.kind).insert(&interest.pattern, target);
        self.subscriptions.insert(id, Subscription { interest, target });
    }

    /// Takes a subscription away, and returns what it wanted.
    pub fn remove(&mut self, id: SubscriptionId) -> Option<Interest> {
        let Subscription { interest, target } = self.subscriptions.remove(&id)?;
        self.names(interest.kind).remove(&interest.pattern, target);
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

    fn names(&mut self, kind: DestinationKind) -> &mut TopicIndex<Target> {
        match kind {
            DestinationKind::Topic => &mut self.topics,
            DestinationKind::Queue => &mut self.queues,
        }
    }

    /// The subscriptions to a topic, whatever they filter.
    pub fn subscribed(&mut self, topic: &[u8]) -> &[Target] {
        self.topics.matching(topic).unwrap_or(&[])
    }

    /// The subscriptions that get a message: those here, or those elsewhere too.
    #[inline]
    pub fn route(
        &mut self,
        view: &MessageView<'_>,
        origin: &Origin,
        scope: Scope,
    ) -> Result<&[Target], TopicError> {
        let names = match view.destination_kind() {
            DestinationKind::Topic => &mut self.topics,
            DestinationKind::Queue => &mut self.queues,
        };
        let subscribed = names.matching(view.name_bytes())?;
        let subscribed = match scope {
            Scope::Here => &subscribed[..subscribed.partition_point(Target::is_here)],
            Scope::Elsewhere => subscribed,
        };
        if self.filtered == 0 {
            return Ok(subscribed);
        }
        let attributes = MessageAttributes::new(view, origin);
        let correlation_id = if self.with_correlation > 0 { attributes.correlation_id() } else { None };
        let correlated = correlation_id.map_or(&[][..], |id| self.correlations.matches(id));
        let mut verdicts = self.selectors.ask(&attributes, subscribed.len());
        self.found.clear();
        let correlates =
            |target: &Target| !target.is_correlated || correlated.binary_search(&target.id).is_ok();
        let keeps = |target: &Target| !target.persistent_only || view.is_persistent();
        for targets in
            subscribed.chunk_by(|one, two| (one.scope, one.is_selected) == (two.scope, two.is_selected))
        {
            let is_selected = targets.first().is_some_and(|target| target.is_selected);
            if is_selected && targets.len() >= MANY && verdicts.are_looked_up() {
                // Few of many match: those are looked for, and not all asked.
                let start = self.found.len();
                for id in verdicts.accepted().flatten() {
                    let found = targets.binary_search_by_key(id, |target| target.id);
                    self.found.extend(
                        found.ok().map(|at| targets[at]).filter(|target| correlates(target) && keeps(target)),
                    );
                }
                self.found[start..].sort_unstable();
            } else {
                for target in targets {
                    if target.filter.is_none_or(|filter| verdicts.accepts(filter))
                        && correlates(target)
                        && keeps(target)
                    {
                        self.found.push(*target);
                    }
                }
            }
        }
        self.untuned += u32::from(verdicts.are_looked_up());
        if self.untuned == TUNING_INTERVAL {
            self.untuned = 0;
            self.selectors.tune(1);
        }
        Ok(&self.found)
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
            selector: selector.map(|text| Selector::parse(text).unwrap()),
            correlation: correlation.map(|text| CorrelationFilter::parse(text).unwrap()),
            ..Interest::topics(TopicPattern::new(pattern).unwrap())
        }
    }

    fn routed(switch: &mut Switch, record: &[u8]) -> Vec<SubscriptionId> {
        let view = MessageView::parse(record).unwrap();
        let found = switch.route(&view, &Origin::default(), Scope::Here).unwrap();
        let mut ids: Vec<SubscriptionId> = found.iter().map(|target| target.id).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn a_message_goes_where_topic_selector_and_correlation_agree() {
        let mut switch = Switch::new(1);
        switch.insert(1, interest("prices/*", None, None), Scope::Here);
        switch.insert(2, interest("prices/*", Some("region = 'EU'"), None), Scope::Here);
        switch.insert(3, interest("prices/*", Some("region = 'US'"), None), Scope::Here);
        switch.insert(4, interest("prices/*", None, Some("[#7;#13]")), Scope::Here);
        switch.insert(5, interest("orders/*", Some("region = 'EU'"), None), Scope::Here);
        switch.insert(
            6,
            interest("prices/*", Some("JMSPriority >= 4 AND region = 'EU'"), Some("#9")),
            Scope::Here,
        );
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
            switch.insert(id, interest("prices/*", Some(text), None), Scope::Here);
        }
        let before = switch.evaluations();
        assert_eq!(routed(&mut switch, &record("prices/ACME", "EU", None)).len(), 500);
        assert_eq!(switch.evaluations() - before, 2);
    }

    #[test]
    fn filters_of_other_topics_are_not_asked() {
        let mut switch = Switch::new(1);
        for id in 0..100 {
            switch.insert(
                id,
                interest(&format!("prices/{id}"), Some(&format!("size > {id}")), None),
                Scope::Here,
            );
        }
        assert_eq!(routed(&mut switch, &record("prices/7", "EU", None)), []);
        assert_eq!(switch.evaluations(), 1);
    }

    #[test]
    fn many_subscriptions_with_filters_of_their_own_are_found_however_often_they_are_asked() {
        let mut switch = Switch::new(1);
        for id in 0..100 {
            let text = format!("region = 'R{}' AND JMSPriority < {}", id % 50, 4 + id % 3);
            switch.insert(id, interest("prices/*", Some(&text), None), Scope::Here);
        }
        for round in 0..10 * u64::from(TUNING_INTERVAL) {
            let region = round % 50;
            let wanted: Vec<_> = [region, region + 50].into_iter().filter(|id| id % 3 > 0).collect();
            assert_eq!(routed(&mut switch, &record("prices/ACME", &format!("R{region}"), None)), wanted);
            switch.remove(99 - round % 100);
            let id = 99 - round % 100;
            let text = format!("region = 'R{}' AND JMSPriority < {}", id % 50, 4 + id % 3);
            switch.insert(id, interest("prices/*", Some(&text), None), Scope::Here);
        }
        let each = switch.evaluations() / (10 * u64::from(TUNING_INTERVAL));
        assert!(each < 10, "{each} filters looked at for a message");
    }

    #[test]
    fn a_queue_and_a_topic_of_one_name_are_two_and_a_store_hears_what_is_to_be_kept() {
        let mut switch = Switch::new(1);
        let topics = interest("orders", None, None);
        switch.insert(1, topics.clone(), Scope::Here);
        switch.insert(2, Interest { kind: DestinationKind::Queue, ..topics.clone() }, Scope::Here);
        switch.insert(3, Interest { persistent_only: true, ..topics }, Scope::Here);
        let name = Topic::new("orders").unwrap();
        for (destination, persistent, wanted) in [
            (Destination::topic(name), false, &[1][..]),
            (Destination::topic(name), true, &[1, 3]),
            (Destination::queue(name), true, &[2]),
        ] {
            let mut record = Vec::new();
            Outgoing { persistent, ..Outgoing::new(destination, BodyKind::Empty, &[]) }
                .encode_into(&mut record)
                .unwrap();
            assert_eq!(routed(&mut switch, &record), wanted);
        }
    }

    #[test]
    fn what_came_over_a_link_goes_to_those_here_and_no_other_filter_is_asked() {
        let mut switch = Switch::new(1);
        for id in 0..100 {
            switch.insert(id, interest("prices/*", Some(&format!("size > {id}")), None), Scope::Elsewhere);
        }
        switch.insert(100, interest("prices/*", Some("region = 'EU'"), None), Scope::Here);
        let record = record("prices/ACME", "EU", None);
        assert_eq!(routed(&mut switch, &record), [100]);
        assert_eq!(switch.evaluations(), 1);
        let view = MessageView::parse(&record).unwrap();
        assert_eq!(switch.route(&view, &Origin::default(), Scope::Elsewhere).unwrap().len(), 1);
        assert!(switch.evaluations() > 1);
    }

    #[test]
    fn without_filters_the_topic_decides_alone() {
        let mut switch = Switch::new(1);
        switch.insert(1, interest("a/>", None, None), Scope::Here);
        switch.insert(2, interest("b/>", Some("region = 'EU'"), None), Scope::Here);
        assert_eq!(routed(&mut switch, &record("a/b", "EU", None)), [1]);
        assert_eq!(switch.evaluations(), 0);
    }
}
