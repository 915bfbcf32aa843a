//! Which of many subscriptions match a topic.
//!
//! A trie over levels: from a node, one edge per level text, one for `*`; subscriptions that end at a node, and those
//! that end there with `>`. A topic is looked up by following both kinds of edge at once. Both ways of writing a topic
//! (`a/b`, `a=b`) have the same levels, so the trie knows nothing of them.

use std::collections::HashMap;

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use shoal_wire::{Levels, PatternLevel, Topic, TopicError, TopicPattern, is_reserved};

use crate::match_cache::MatchCache;

type NodeKey = usize;

const ROOT: NodeKey = 0;

/// Finds the subscriptions whose pattern matches a topic. `Id` is whatever the owner calls a subscription by; it may
/// have several patterns.
#[derive(Debug)]
pub struct TopicIndex<Id> {
    nodes: Vec<Node<Id>>,
    free: Vec<NodeKey>,
    len: usize,
    hasher: SeedableRandomState,
    cache: MatchCache<Id>,
    /// Kept for its memory.
    found: Vec<Id>,
}

#[derive(Debug)]
struct Node<Id> {
    children: HashMap<Box<str>, NodeKey, SeedableRandomState>,
    any_one: Option<NodeKey>,
    here: Vec<Id>,
    rest: Vec<Id>,
}

impl<Id> Node<Id> {
    fn new(hasher: SeedableRandomState) -> Self {
        Self { children: HashMap::with_hasher(hasher), any_one: None, here: Vec::new(), rest: Vec::new() }
    }

    fn is_unused(&self) -> bool {
        self.children.is_empty() && self.any_one.is_none() && self.here.is_empty() && self.rest.is_empty()
    }
}

impl<Id: Copy + Ord> TopicIndex<Id> {
    /// An empty index. A random `seed` keeps others from choosing topics that collide in its hash tables.
    pub fn new(seed: u64) -> Self {
        let hasher = SeedableRandomState::with_seed(seed, SharedSeed::global_fixed());
        Self {
            nodes: vec![Node::new(hasher.clone())],
            free: Vec::new(),
            len: 0,
            cache: MatchCache::new(hasher.clone()),
            hasher,
            found: Vec::new(),
        }
    }

    /// How many patterns are subscribed to, counted per subscription.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody subscribes to anything.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a subscription's pattern; false if it was there already.
    pub fn insert(&mut self, pattern: &TopicPattern, id: Id) -> bool {
        let mut node = ROOT;
        let mut ends_with_rest = false;
        for level in pattern.levels() {
            match level {
                PatternLevel::Exactly(text) => node = self.child_or_new(node, text),
                PatternLevel::AnyOne => node = self.any_one_or_new(node),
                PatternLevel::Rest => ends_with_rest = true,
            }
        }
        let node = &mut self.nodes[node];
        let ids = if ends_with_rest { &mut node.rest } else { &mut node.here };
        let Err(place) = ids.binary_search(&id) else {
            return false;
        };
        ids.insert(place, id);
        self.len += 1;
        self.cache.forget();
        true
    }

    /// Takes a subscription's pattern away; false if it was not there.
    pub fn remove(&mut self, pattern: &TopicPattern, id: Id) -> bool {
        let mut path = vec![ROOT];
        let mut ends_with_rest = false;
        for level in pattern.levels() {
            let node = &self.nodes[path[path.len() - 1]];
            let next = match level {
                PatternLevel::Exactly(text) => node.children.get(text).copied(),
                PatternLevel::AnyOne => node.any_one,
                PatternLevel::Rest => {
                    ends_with_rest = true;
                    break;
                }
            };
            let Some(next) = next else { return false };
            path.push(next);
        }
        let node = &mut self.nodes[path[path.len() - 1]];
        let ids = if ends_with_rest { &mut node.rest } else { &mut node.here };
        let Ok(place) = ids.binary_search(&id) else {
            return false;
        };
        ids.remove(place);
        self.len -= 1;
        self.cache.forget();
        self.prune(&path, pattern);
        true
    }

    /// The subscriptions that match a topic, in order and each once. The topic is given as it travelled; only one not
    /// seen lately is checked and looked up level by level.
    #[inline]
    pub fn matching(&mut self, topic: &[u8]) -> Result<&[Id], TopicError> {
        let range = match self.cache.find(topic) {
            Some(range) => range,
            None => {
                let mut found = std::mem::take(&mut self.found);
                let looked_up = Topic::from_bytes(topic).map(|topic| self.look_up(topic, &mut found));
                let remembered = looked_up.map(|()| self.cache.remember(topic, &found));
                self.found = found;
                remembered?
            }
        };
        Ok(self.cache.at(range))
    }

    /// The same as [`TopicIndex::matching`] without remembering anything; replaces what `found` holds.
    pub fn look_up(&self, topic: Topic<'_>, found: &mut Vec<Id>) {
        found.clear();
        self.collect(ROOT, topic.levels(), found);
        found.sort_unstable();
        found.dedup();
    }

    /// As deep as a topic has levels, which its length bounds.
    fn collect(&self, node: NodeKey, mut levels: Levels<'_>, found: &mut Vec<Id>) {
        let is_root = node == ROOT;
        let node = &self.nodes[node];
        let Some(level) = levels.next() else {
            found.extend_from_slice(&node.here);
            return;
        };
        if !(is_root && is_reserved(level.as_bytes())) {
            found.extend_from_slice(&node.rest);
            if let Some(any_one) = node.any_one {
                self.collect(any_one, levels.clone(), found);
            }
        }
        if let Some(&child) = node.children.get(level) {
            self.collect(child, levels, found);
        }
    }

    fn child_or_new(&mut self, node: NodeKey, text: &str) -> NodeKey {
        if let Some(&child) = self.nodes[node].children.get(text) {
            return child;
        }
        let child = self.new_node();
        self.nodes[node].children.insert(text.into(), child);
        child
    }

    fn any_one_or_new(&mut self, node: NodeKey) -> NodeKey {
        if let Some(child) = self.nodes[node].any_one {
            return child;
        }
        let child = self.new_node();
        self.nodes[node].any_one = Some(child);
        child
    }

    fn new_node(&mut self) -> NodeKey {
        if let Some(key) = self.free.pop() {
            return key;
        }
        self.nodes.push(Node::new(self.hasher.clone()));
        self.nodes.len() - 1
    }

    /// Frees the nodes at the end of `path` that nothing hangs on any more.
    fn prune(&mut self, path: &[NodeKey], pattern: &TopicPattern) {
        let levels: Vec<_> = pattern.levels().collect();
        for depth in (1..path.len()).rev() {
            if !self.nodes[path[depth]].is_unused() {
                return;
            }
            // A node that once had many children would keep their table.
            self.nodes[path[depth]] = Node::new(self.hasher.clone());
            self.free.push(path[depth]);
            let parent = &mut self.nodes[path[depth - 1]];
            match levels[depth - 1] {
                PatternLevel::Exactly(text) => {
                    parent.children.remove(text);
                }
                PatternLevel::AnyOne | PatternLevel::Rest => parent.any_one = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> TopicPattern {
        TopicPattern::new(text).unwrap()
    }

    fn index(patterns: &[&str]) -> TopicIndex<usize> {
        let mut index = TopicIndex::new(1);
        for (id, text) in patterns.iter().enumerate() {
            assert!(index.insert(&pattern(text), id));
        }
        index
    }

    #[test]
    fn exact_and_wildcard_patterns_are_found_together_in_order() {
        let mut index = index(&["a/b", "a/*", ">", "a/>", "*/b", "a", "a/b/c", "b/*"]);
        assert_eq!(index.matching(b"a/b"), Ok(&[0, 1, 2, 3, 4][..]));
        assert_eq!(index.matching(b"a"), Ok(&[2, 5][..]));
        assert_eq!(index.matching(b"a/b/c"), Ok(&[2, 3, 6][..]));
        assert_eq!(index.matching(b"c/d/e/f"), Ok(&[2][..]));
    }

    #[test]
    fn wildcards_leave_out_reserved_topics_unless_the_first_level_is_named() {
        let mut index = index(&[">", "*/*", "_reply/*", "_reply/>", "*/>"]);
        assert_eq!(index.matching(b"_reply/7"), Ok(&[2, 3][..]));
        assert_eq!(index.matching(b"reply/_7"), Ok(&[0, 1, 4][..]));
    }

    #[test]
    fn a_subscription_with_two_matching_patterns_is_found_once() {
        let mut index = TopicIndex::new(1);
        index.insert(&pattern("a/*"), 7);
        index.insert(&pattern("*/b"), 7);
        assert_eq!(index.matching(b"a/b"), Ok(&[7][..]));
        assert_eq!(index.len(), 2);
    }

    #[test]
    fn both_ways_of_writing_meet() {
        let mut index = index(&["Courses=*,Session=HPJava", "Courses/CPS616/>"]);
        assert_eq!(index.matching(b"Courses/CPS616/Session/HPJava"), Ok(&[0, 1][..]));
        assert_eq!(index.matching(b"Courses=CPS616, Session=HPJava"), Ok(&[0, 1][..]));
    }

    #[test]
    fn remembered_matches_do_not_outlive_a_change() {
        let mut index = index(&["a/*"]);
        assert_eq!(index.matching(b"a/b"), Ok(&[0][..]));
        index.insert(&pattern("a/b"), 1);
        assert_eq!(index.matching(b"a/b"), Ok(&[0, 1][..]));
        index.remove(&pattern("a/*"), 0);
        assert_eq!(index.matching(b"a/b"), Ok(&[1][..]));
    }

    #[test]
    fn adding_twice_and_removing_what_is_not_there_change_nothing() {
        let mut index = index(&["a/b"]);
        assert!(!index.insert(&pattern("a/b"), 0));
        assert!(!index.insert(&pattern("a=b"), 0));
        assert!(!index.remove(&pattern("a/b"), 1));
        assert!(!index.remove(&pattern("a/*"), 0));
        assert!(!index.remove(&pattern("a/b/>"), 0));
        assert!(!index.remove(&pattern("a"), 0));
        assert_eq!(index.len(), 1);
    }

    #[test]
    fn a_bad_topic_is_refused_every_time() {
        let mut index = index(&[">"]);
        for _ in 0..2 {
            assert_eq!(index.matching(b"a//b"), Err(TopicError::EmptyLevel { position: 2 }));
            assert_eq!(index.matching(b"\xff"), Err(TopicError::NotText { position: 0 }));
        }
    }

    #[test]
    fn subscriptions_that_come_and_go_leave_nothing_behind() {
        let mut index = TopicIndex::new(1);
        for round in 0..100 {
            let patterns = [format!("a/{round}/*"), format!("b/{round}/c/>"), "a/>".to_owned()];
            for text in &patterns {
                assert!(index.insert(&pattern(text), round));
            }
            for text in &patterns {
                assert!(index.remove(&pattern(text), round));
            }
        }
        assert!(index.is_empty());
        assert!(index.nodes[ROOT].is_unused());
        assert_eq!(index.free.len() + 1, index.nodes.len());
        assert!(index.nodes.len() < 10, "{} nodes", index.nodes.len());
    }
}
