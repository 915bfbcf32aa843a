//! What the program at the other end of a link may do: the access rules of the node's owner, as far as they name that program.
//!
//! | topic                                         | to publish to it                    | to subscribe to it            |
//! |-----------------------------------------------|-------------------------------------|-------------------------------|
//! | any other                                     | `publish` or `route`, of the topic  | `subscribe`, `store` or `route`, of the pattern |
//! | a queue                                       | the same                            | `consume`, `store` or `route` |
//! | `_reply/…`                                    | everybody                           | one's own; `route` for others |
//! | `_client/…`, `_temporary/…`                   | everybody                           | everybody, without wildcards  |
//! | `_store/who`, `_store/ID/in`                  | everybody                           | `store`                       |
//! | `_store/here`                                 | `store`                             | everybody                     |
//! | `_group/…`                                    | `replicate`                         | `replicate`                   |
//!
//! What a program forwards for others takes `route` of the topic. A link with `route` of anything carries all reserved topics, since
//! answers and stores' records have to pass. Where one of several actions is enough, one that a rule denies does not count.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shoal_norm::Time;
use shoal_wire::{PatternLevel, Topic, TopicPattern};

/// What a rule allows or denies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Publish to a topic, or send to a queue.
    Publish,
    /// Receive from a topic.
    Subscribe,
    /// Receive from a queue.
    Consume,
    /// Forward what others publish, and say where other nodes are.
    Route,
    /// Be a store.
    Store,
    /// Be a member of a group of stores.
    Replicate,
}

impl Action {
    /// The one with a name of a rules file, if links know it.
    pub fn named(name: &str) -> Option<Action> {
        Some(match name {
            "publish" => Action::Publish,
            "subscribe" => Action::Subscribe,
            "consume" => Action::Consume,
            "route" => Action::Route,
            "store" => Action::Store,
            "replicate" => Action::Replicate,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Action::Publish => "publish",
            Action::Subscribe => "subscribe",
            Action::Consume => "consume",
            Action::Route => "route",
            Action::Store => "store",
            Action::Replicate => "replicate",
        }
    }
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What errors call it.
    pub name: String,
    /// It allows; otherwise it denies.
    pub allows: bool,
    /// What.
    pub actions: Vec<Action>,
    /// With which topics.
    pub topics: Vec<TopicPattern>,
}

/// The rules that name one program.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// As rules call the program.
    pub principal: String,
    /// Where the rules stand.
    pub source: String,
    /// In the order of the file.
    pub rules: Vec<Rule>,
    /// Bytes that it may send in a second.
    pub bytes_per_s: Option<u64>,
}

/// A topic, or a pattern of them, that a program names.
#[derive(Copy, Clone, Debug)]
pub enum Named<'a> {
    /// A topic.
    Topic(Topic<'a>),
    /// A pattern.
    Pattern(&'a TopicPattern),
}

impl Named<'_> {
    fn text(&self) -> &str {
        match self {
            Named::Topic(topic) => topic.as_str(),
            Named::Pattern(pattern) => pattern.as_str(),
        }
    }

    /// The first three levels; an empty text stands for a wildcard, and for what is not there.
    fn levels(&self) -> [&str; 3] {
        let mut found = [""; 3];
        match self {
            Named::Topic(topic) => topic.levels().zip(&mut found).for_each(|(level, at)| *at = level),
            Named::Pattern(pattern) => pattern.levels().zip(&mut found).for_each(|(level, at)| {
                if let PatternLevel::Exactly(text) = level {
                    *at = text;
                }
            }),
        }
        found
    }

    fn has_wildcards(&self) -> bool {
        matches!(self, Named::Pattern(pattern) if pattern.has_wildcards())
    }

    fn is_covered(&self, by: &TopicPattern) -> bool {
        match self {
            Named::Topic(topic) => by.matches(*topic),
            Named::Pattern(pattern) => by.covers(pattern),
        }
    }

    fn meets(&self, other: &TopicPattern) -> bool {
        match self {
            Named::Topic(topic) => other.matches(*topic),
            Named::Pattern(pattern) => could_meet(pattern, other),
        }
    }
}

/// Whether a topic could match both.
fn could_meet(one: &TopicPattern, other: &TopicPattern) -> bool {
    let reserved = |level| matches!(level, Some(PatternLevel::Exactly(text)) if text.starts_with('_'));
    let (mut ours, mut theirs) = (one.levels(), other.levels());
    let mut is_first = true;
    loop {
        let (left, right) = (ours.next(), theirs.next());
        if is_first && reserved(left) != reserved(right) {
            return false;
        }
        is_first = false;
        match (left, right) {
            (None, None) => return true,
            (None, _) | (_, None) => return false,
            (Some(PatternLevel::Rest), _) | (_, Some(PatternLevel::Rest)) => return true,
            (Some(PatternLevel::Exactly(one)), Some(PatternLevel::Exactly(other))) if one != other => {
                return false;
            }
            _ => {}
        }
    }
}

/// What a request takes.
enum Takes {
    Nothing,
    /// One of these, with the topic.
    Of(&'static [Action]),
    /// One of these, with anything.
    Held(&'static [Action]),
}

impl Rules {
    /// Why the program may not publish to a topic; `forwards` says that another one published it.
    pub fn refuses_publish(&self, topic: Topic<'_>, is_queue: bool, forwards: bool) -> Option<String> {
        let named = Named::Topic(topic);
        let takes = match named.levels() {
            _ if is_queue && forwards => Takes::Of(&[Action::Route]),
            _ if is_queue => Takes::Of(&[Action::Publish, Action::Route]),
            [first, ..] if !first.starts_with('_') || first == "_queue" => match forwards {
                true => Takes::Of(&[Action::Route]),
                false => Takes::Of(&[Action::Publish, Action::Route]),
            },
            _ if forwards => Takes::Held(&[Action::Route, Action::Store]),
            ["_reply" | "_client" | "_temporary", ..] | ["_store", "who", _] | ["_store", _, "in"] => {
                Takes::Nothing
            }
            ["_store", ..] => Takes::Held(&[Action::Store, Action::Route]),
            ["_group", ..] => Takes::Held(&[Action::Replicate, Action::Route]),
            _ => Takes::Of(&[Action::Publish, Action::Route]),
        };
        self.refusal(&takes, named, is_queue)
    }

    /// Why the program, which has this publisher, may not subscribe to a pattern.
    pub fn refuses_interest(&self, pattern: &TopicPattern, is_queue: bool, publisher: u64) -> Option<String> {
        let named = Named::Pattern(pattern);
        let takes = match named.levels() {
            ["_queue", ..] => Takes::Of(&[Action::Consume, Action::Store, Action::Route]),
            _ if is_queue => Takes::Of(&[Action::Consume, Action::Store, Action::Route]),
            ["_reply", whose, _] if whose == format!("{publisher:016x}") => Takes::Nothing,
            ["_client" | "_temporary", ..] if !named.has_wildcards() => Takes::Nothing,
            ["_reply" | "_client" | "_temporary", ..] => Takes::Held(&[Action::Route]),
            ["_store", "here", _] => Takes::Nothing,
            ["_store", ..] => Takes::Held(&[Action::Store, Action::Route]),
            ["_group", ..] => Takes::Held(&[Action::Replicate, Action::Route]),
            [first, ..] if first.starts_with('_') => Takes::Of(&[Action::Subscribe, Action::Route]),
            _ => Takes::Of(&[Action::Subscribe, Action::Store, Action::Route]),
        };
        self.refusal(&takes, named, is_queue)
    }

    /// Whether some rule allows an action with anything.
    pub fn holds(&self, action: Action) -> bool {
        self.rules.iter().any(|rule| rule.allows && rule.actions.contains(&action))
    }

    fn refusal(&self, takes: &Takes, named: Named<'_>, is_queue: bool) -> Option<String> {
        match takes {
            Takes::Nothing => None,
            Takes::Held(actions) if actions.iter().any(|&action| self.holds(action)) => None,
            Takes::Held(actions) => Some(self.words(actions[0], named, None)),
            Takes::Of(actions) => {
                let in_queues = is_queue
                    .then(|| format!("_queue/{}", named.text()))
                    .filter(|_| !named.levels()[0].starts_with('_'));
                if let Some(text) = in_queues {
                    // Rules name the queue `orders` so, however the message does.
                    let Ok(pattern) = TopicPattern::new(&text) else {
                        return Some(self.words(actions[0], named, None));
                    };
                    return self.first_refusal(actions, Named::Pattern(&pattern));
                }
                self.first_refusal(actions, named)
            }
        }
    }

    /// Why none of some actions is allowed; the first of them explains it.
    fn first_refusal(&self, actions: &[Action], named: Named<'_>) -> Option<String> {
        let mut first = None;
        for &action in actions {
            let why = match self.decide(action, named) {
                Ok(()) => return None,
                Err(rule) => self.words(action, named, rule),
            };
            first.get_or_insert(why);
        }
        first
    }

    /// Whether an action is allowed; the rule that denies it, if one does.
    fn decide(&self, action: Action, named: Named<'_>) -> Result<(), Option<&Rule>> {
        let mut concerned = self.rules.iter().filter(|rule| rule.actions.contains(&action));
        let denies =
            concerned.clone().find(|rule| !rule.allows && rule.topics.iter().any(|topic| named.meets(topic)));
        if denies.is_some() {
            return Err(denies);
        }
        let allows =
            concerned.any(|rule| rule.allows && rule.topics.iter().any(|topic| named.is_covered(topic)));
        if allows { Ok(()) } else { Err(None) }
    }

    fn words(&self, action: Action, named: Named<'_>, rule: Option<&Rule>) -> String {
        let Rules { principal, source, .. } = self;
        let mut text = format!("'{principal}' may not {} {}: ", action.name(), named.text());
        let _ = match rule {
            Some(rule) => write!(text, "the rule '{}' of {source} denies it", rule.name),
            None => write!(text, "no rule of {source} allows it"),
        };
        text
    }
}

/// What a program may do, shared by its links; replaced when the file changes.
#[derive(Debug, Default)]
pub struct Rights {
    rules: Mutex<Arc<Rules>>,
    version: AtomicU64,
    /// Bytes that the program may send at once, less those it sent, and when that was so.
    budget: Mutex<(f64, Time)>,
}

impl Rights {
    /// With these rules.
    pub fn new(rules: Rules) -> Rights {
        let rights = Rights::default();
        rights.replace(rules);
        rights
    }

    /// Other rules count from now on.
    pub fn replace(&self, rules: Rules) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The rules, and which they are.
    pub(super) fn current(&self) -> (Arc<Rules>, u64) {
        let version = self.version();
        (self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone(), version)
    }

    /// Grows with each change.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The program sent so many bytes, of so many in a second: when it may go on.
    pub(super) fn charge(&self, now: Time, bytes: usize, per_s: u64) -> Time {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, at) = *budget;
        let rate = per_s as f64;
        let left = (left + now.since(at).as_secs_f64() * rate).min(rate) - bytes as f64;
        *budget = (left, now);
        if left >= 0.0 { Time::ZERO } else { now + Duration::from_secs_f64(-left / rate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &[(&str, bool, &[Action], &[&str])]) -> Rules {
        let rule = |&(name, allows, actions, topics): &(&str, bool, &[Action], &[&str])| Rule {
            name: name.to_owned(),
            allows,
            actions: actions.to_vec(),
            topics: topics.iter().map(|topic| TopicPattern::new(topic).unwrap()).collect(),
        };
        Rules {
            principal: "desk-1".to_owned(),
            source: "rules.toml".to_owned(),
            rules: lines.iter().map(rule).collect(),
            bytes_per_s: None,
        }
    }

    fn publishes(rules: &Rules, topic: &str) -> bool {
        rules.refuses_publish(Topic::new(topic).unwrap(), false, false).is_none()
    }

    fn subscribes(rules: &Rules, pattern: &str) -> bool {
        rules.refuses_interest(&TopicPattern::new(pattern).unwrap(), false, 7).is_none()
    }

    #[test]
    fn what_no_rule_allows_is_denied_and_a_rule_that_denies_wins() {
        let rules = rules(&[
            ("prices", true, &[Action::Publish, Action::Subscribe], &["prices/>"]),
            ("drafts", false, &[Action::Publish, Action::Subscribe], &["prices/draft/*"]),
        ]);
        assert!(publishes(&rules, "prices/a") && publishes(&rules, "prices=a"));
        assert!(!publishes(&rules, "prices/draft/a") && !publishes(&rules, "orders/a"));
        assert!(
            subscribes(&rules, "prices/*") && !subscribes(&rules, "prices/>") && !subscribes(&rules, ">")
        );
        assert!(!subscribes(&rules, "prices/*/*"), "some of it is denied");
        let why = rules.refuses_publish(Topic::new("prices/draft/a").unwrap(), false, false);
        let said = "'desk-1' may not publish prices/draft/a: the rule 'drafts' of rules.toml denies it";
        assert_eq!(why.as_deref(), Some(said));
        let why = rules.refuses_interest(&TopicPattern::new("x").unwrap(), false, 7);
        assert_eq!(why.as_deref(), Some("'desk-1' may not subscribe x: no rule of rules.toml allows it"));
    }

    #[test]
    fn programs_without_rules_answer_and_find_stores_and_overhear_nobody() {
        let none = Rules::default();
        for topic in ["_reply/0000000000000009/1", "_store/who", "_store/5/in", "_client/x", "_temporary/q"] {
            assert!(publishes(&none, topic), "{topic}");
        }
        for topic in ["_store/here", "_store/owner", "_group/a/1", "_shoal/nodes", "_retained/fetch", "a"] {
            assert!(!publishes(&none, topic), "{topic}");
        }
        for pattern in ["_reply/0000000000000007/>", "_reply/0000000000000007", "_store/here", "_client/x"] {
            assert!(subscribes(&none, pattern), "{pattern}");
        }
        for pattern in ["_reply/>", "_reply/*/1", "_reply/0000000000000009/>", "_store/*/in", "_temporary/>"]
        {
            assert!(!subscribes(&none, pattern), "{pattern}");
        }
        let store = rules(&[("it", true, &[Action::Store], &["orders/>"])]);
        assert!(
            subscribes(&store, "_store/who") && subscribes(&store, "orders/*") && !subscribes(&store, "a")
        );
        assert!(publishes(&store, "_store/here") && !publishes(&store, "orders/1"));
    }

    #[test]
    fn a_queue_is_the_topic_of_its_name_and_forwarding_takes_route() {
        let some = rules(&[("q", true, &[Action::Publish, Action::Consume], &["_queue/orders"])]);
        let topic = Topic::new("orders").unwrap();
        assert!(some.refuses_publish(topic, true, false).is_none());
        assert!(some.refuses_publish(topic, false, false).is_some());
        assert!(some.refuses_interest(&TopicPattern::new("orders").unwrap(), true, 7).is_none());
        assert!(subscribes(&some, "_queue/orders") && !subscribes(&some, "_queue/>"));
        assert!(some.refuses_publish(topic, true, true).is_some(), "it is not its own");
        let router = rules(&[("r", true, &[Action::Route], &["prices/>"])]);
        let price = Topic::new("prices/a").unwrap();
        assert!(router.refuses_publish(price, false, true).is_none());
        assert!(router.refuses_publish(topic, false, true).is_some());
        let answer = Topic::new("_reply/0000000000000009").unwrap();
        assert!(router.refuses_publish(answer, false, true).is_none() && subscribes(&router, "_reply/>"));
    }

    #[test]
    fn a_program_that_sends_more_than_its_quota_waits_as_long_as_that_takes() {
        let rights = Rights::default();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        assert_eq!(rights.charge(at(1000), 1000, 1000), Time::ZERO, "a second's worth at once");
        assert_eq!(rights.charge(at(1000), 500, 1000), at(1500));
        assert_eq!(rights.charge(at(2000), 500, 1000), Time::ZERO);
    }
}
