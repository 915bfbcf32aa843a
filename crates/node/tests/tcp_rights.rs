//! Links whose other end may do only what rules allow.

#[path = "support/wires.rs"]
mod wires;

use std::sync::Arc;
use std::time::Duration;

use shoal_node::HubEvent;
use shoal_node::tcp::{Action, Rights, Role, Rule, Rules, TcpNews};
use shoal_norm::Time;
use shoal_wire::TopicPattern;
use wires::{Node, hub_config, tcp_config};

const QUEUE: usize = 4 << 20;

fn rules(allowed: &[(Action, &str)]) -> Rules {
    let rule = |&(action, topic): &(Action, &str)| Rule {
        name: topic.to_owned(),
        allows: true,
        actions: vec![action],
        topics: vec![TopicPattern::new(topic).unwrap()],
    };
    let rules = allowed.iter().map(rule).collect();
    Rules { principal: "guest".to_owned(), source: "rules".to_owned(), rules, bytes_per_s: None }
}

struct Pair {
    ends: [Node; 2],
    now: Time,
    news: [Vec<TcpNews>; 2],
}

impl Pair {
    /// The second end connects to the first, and has these rights there.
    fn new(rights: &Arc<Rights>) -> Pair {
        let now = Time::from_nanos(1_000_000_000);
        let node = |number: u64| Node::made(&hub_config(number, number as u32), tcp_config(), QUEUE);
        let mut pair = Pair { ends: [node(1), node(2)], now, news: [vec![], vec![]] };
        pair.ends[0].links.open(now, 1, Role::Guest, 5);
        pair.ends[1].links.open(now, 1, Role::Dialled(None), 5);
        pair.talk();
        pair.ends[0].links.admit(now, 1, None, Some(rights.clone()));
        pair.talk();
        pair
    }

    /// Gives each end what the other says, until neither says anything.
    fn talk(&mut self) {
        self.now += Duration::from_millis(30);
        loop {
            let mut said = false;
            for (from, to) in [(0, 1), (1, 0)] {
                let ends = &mut self.ends;
                ends[from].links.handle_timeout(self.now);
                let bytes = ends[from].links.transmit(self.now, 1).to_vec();
                ends[from].links.written(self.now, 1, bytes.len());
                ends[to].links.handle_bytes(self.now, 1, &bytes);
                ends[to].links.handle_timeout(self.now);
                said |= !bytes.is_empty();
            }
            if !said {
                break;
            }
        }
        for (end, news) in self.ends.iter_mut().zip(&mut self.news) {
            news.extend(std::iter::from_fn(|| end.links.poll_news()));
            end.take();
            while let Some(event) = end.hub.poll_event() {
                end.events.push(event);
            }
        }
    }

    fn denials(&self, end: usize) -> Vec<(bool, &str)> {
        let denied = |news| match news {
            &TcpNews::Denied { ours, ref why, .. } => Some((ours, why.as_str())),
            _ => None,
        };
        self.news[end].iter().filter_map(denied).collect()
    }

    fn lost(&self, end: usize) -> bool {
        self.ends[end].events.iter().any(|event| matches!(event, HubEvent::Lost(..)))
    }
}

#[test]
fn what_is_denied_does_not_arrive_in_either_direction_and_both_ends_hear_why_once() {
    let rights = Arc::new(Rights::new(rules(&[])));
    let mut pair = Pair::new(&rights);
    for _ in 0..3 {
        let now = pair.now;
        assert!(pair.ends[0].publish(now, 2, 10) && pair.ends[1].publish(now, 2, 10));
        pair.talk();
    }
    assert_eq!((pair.ends[0].read.len(), pair.ends[1].read.len()), (0, 0));
    let why = |ours| {
        [
            (ours, "'guest' may not subscribe >: no rule of rules allows it"),
            (ours, "'guest' may not publish a: no rule of rules allows it"),
        ]
    };
    assert_eq!(pair.denials(0), why(true));
    assert_eq!(pair.denials(1), why(false));
    assert_eq!(pair.ends[0].links.states(pair.now)[0].denied, 4);
    assert!(!pair.lost(0) && !pair.lost(1), "what is not for a program is not missing there");
}

#[test]
fn rules_that_are_replaced_count_at_once() {
    let rights = Arc::new(Rights::new(rules(&[(Action::Publish, ">")])));
    let mut pair = Pair::new(&rights);
    let publish = |pair: &mut Pair| {
        let now = pair.now;
        assert!(pair.ends[0].publish(now, 2, 10) && pair.ends[1].publish(now, 2, 10));
        pair.talk();
        (pair.ends[0].read.len(), pair.ends[1].read.len())
    };
    assert_eq!(publish(&mut pair), (1, 0));
    rights.replace(rules(&[(Action::Subscribe, ">")]));
    pair.ends[0].links.use_rules();
    assert_eq!(publish(&mut pair), (1, 1));
    rights.replace(rules(&[(Action::Publish, ">")]));
    pair.ends[0].links.use_rules();
    assert_eq!(publish(&mut pair), (2, 1));
    assert!(!pair.lost(0), "numbers that were denied are not missing");
}

#[test]
fn a_program_beyond_its_quota_waits_and_loses_nothing() {
    let wanted = rules(&[(Action::Publish, ">")]);
    let rights = Arc::new(Rights::new(Rules { bytes_per_s: Some(10_000), ..wanted }));
    let mut pair = Pair::new(&rights);
    let (began, mut published) = (pair.now, 0);
    while pair.now < began + Duration::from_secs(10) {
        let now = pair.now;
        published += usize::from(pair.ends[1].publish(now, 2, 500));
        pair.talk();
    }
    for _ in 0..1000 {
        pair.talk();
    }
    // A second's worth at once, and what its window holds.
    assert!((150..=260).contains(&published), "{published} of 500 bytes in 10 s");
    assert_eq!(pair.ends[0].read.len(), published);
}

#[test]
fn damaged_bytes_end_the_session_or_are_read_and_nothing_denied_gets_through() {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let rights = Arc::new(Rights::new(rules(&[])));
        let mut pair = Pair::new(&rights);
        for _ in 0..20 {
            let now = pair.now;
            pair.ends[1].publish(now, 2, rng.usize(..600));
            let mut bytes = pair.ends[1].links.transmit(now, 1).to_vec();
            pair.ends[1].links.written(now, 1, bytes.len());
            for _ in 0..rng.usize(..4) {
                if let Some(byte) = bytes.get_mut(rng.usize(..200)) {
                    *byte = rng.u8(..);
                }
            }
            while !bytes.is_empty() {
                let rest = bytes.split_off(rng.usize(1..=bytes.len()));
                pair.ends[0].links.handle_bytes(now, 1, &bytes);
                bytes = rest;
            }
            pair.ends[0].links.handle_timeout(now);
            pair.now += Duration::from_millis(30);
        }
        pair.ends[0].take();
        assert_eq!(pair.ends[0].read, [], "seed {seed}");
    }
}
