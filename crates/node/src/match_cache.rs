//! Who matched a topic last time, so that the next message to it costs one hash lookup.

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::SeedableRandomState;

/// Topics whose matches are remembered at most. When it is reached, all are forgotten.
pub const MATCH_CACHE_TOPICS_MAX: usize = 4096;

/// Matches remembered, over all topics. Beyond it, all are forgotten before another topic is remembered.
pub const MATCH_CACHE_IDS_MAX: usize = 1 << 18;

/// Remembered matches. All of them lie in one vector, so remembering allocates little and forgetting frees nothing.
#[derive(Debug)]
pub(crate) struct MatchCache<Id> {
    ranges: HashMap<Box<[u8]>, Range<usize>, SeedableRandomState>,
    ids: Vec<Id>,
    /// The topic found last, most likely that of the next message.
    last: Option<(Vec<u8>, Range<usize>)>,
}

impl<Id: Copy> MatchCache<Id> {
    pub(crate) fn new(hasher: SeedableRandomState) -> Self {
        Self { ranges: HashMap::with_hasher(hasher), ids: Vec::new(), last: None }
    }

    /// Where the matches of `topic` are, if they are remembered.
    #[inline]
    pub(crate) fn find(&mut self, topic: &[u8]) -> Option<Range<usize>> {
        if let Some((last, range)) = &self.last
            && last == topic
        {
            return Some(range.clone());
        }
        let range = self.ranges.get(topic)?.clone();
        let (last, found) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(topic);
        found.clone_from(&range);
        Some(range)
    }

    /// Remembers the matches of `topic`; says where.
    pub(crate) fn remember(&mut self, topic: &[u8], matches: &[Id]) -> Range<usize> {
        if self.ranges.len() >= MATCH_CACHE_TOPICS_MAX || self.ids.len() >= MATCH_CACHE_IDS_MAX {
            self.forget();
        }
        let start = self.ids.len();
        self.ids.extend_from_slice(matches);
        let range = start..self.ids.len();
        self.ranges.insert(topic.into(), range.clone());
        range
    }

    /// What was found at, or remembered at, a place since last forgetting.
    #[inline]
    pub(crate) fn at(&self, range: Range<usize>) -> &[Id] {
        &self.ids[range]
    }

    /// Forgets everything, because patterns changed or the bound was reached.
    pub(crate) fn forget(&mut self) {
        self.ranges.clear();
        self.last = None;
        self.ids.clear();
        self.ids.shrink_to(MATCH_CACHE_IDS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> MatchCache<u32> {
        MatchCache::new(SeedableRandomState::fixed())
    }

    #[test]
    fn what_is_remembered_is_found_until_it_is_forgotten() {
        let mut cache = cache();
        cache.remember(b"a", &[1, 2]);
        cache.remember(b"b", &[]);
        assert_eq!(cache.find(b"a").map(|at| cache.at(at)), Some(&[1, 2][..]));
        assert_eq!(cache.find(b"b").map(|at| cache.at(at)), Some(&[][..]));
        assert_eq!(cache.find(b"c"), None);
        cache.forget();
        assert_eq!(cache.find(b"a"), None);
    }

    #[test]
    fn it_never_remembers_more_topics_than_its_bound() {
        let mut cache = cache();
        for topic in 0..3 * MATCH_CACHE_TOPICS_MAX as u32 {
            let at = cache.remember(&topic.to_be_bytes(), &[topic]);
            assert_eq!(cache.at(at), [topic]);
            assert!(cache.ranges.len() <= MATCH_CACHE_TOPICS_MAX);
        }
    }

    #[test]
    fn it_never_remembers_more_matches_than_its_bound_and_one_topics_more() {
        let mut cache = cache();
        let matches = vec![7; MATCH_CACHE_IDS_MAX / 3];
        for topic in 0..20u32 {
            let at = cache.remember(&topic.to_be_bytes(), &matches);
            assert_eq!(cache.at(at).len(), matches.len());
            assert!(cache.ids.len() <= MATCH_CACHE_IDS_MAX + matches.len());
        }
    }
}
