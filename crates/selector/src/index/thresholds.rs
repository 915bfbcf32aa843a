//! Entries sorted by a key, in chunks: those up to a key, or from a key on, are read front to back or back to
//! front.

use crate::index::posting::Entry;

/// A chunk that grows beyond this is cut in two; moving half of one is what an insertion costs at most.
const CHUNK_ENTRIES_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold {
    pub key: i64,
    pub entry: Entry,
}

impl Threshold {
    fn order(&self) -> (i64, u32) {
        (self.key, self.entry.branch)
    }
}

/// Sorted by key and branch. No chunk is empty.
#[derive(Debug, Default)]
pub(crate) struct Thresholds {
    chunks: Vec<Vec<Threshold>>,
}

impl Thresholds {
    /// The chunk in which the place of `order` is.
    fn chunk(&self, order: (i64, u32)) -> usize {
        self.chunks.partition_point(|chunk| chunk[0].order() <= order).saturating_sub(1)
    }

    pub(crate) fn insert(&mut self, key: i64, entry: Entry) {
        let threshold = Threshold { key, entry };
        let at = self.chunk(threshold.order());
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(vec![threshold]);
            return;
        };
        let position = chunk.partition_point(|known| known.order() < threshold.order());
        chunk.insert(position, threshold);
        if chunk.len() > CHUNK_ENTRIES_MAX {
            let upper = chunk.split_off(chunk.len() / 2);
            self.chunks.insert(at + 1, upper);
        }
    }

    pub(crate) fn remove(&mut self, key: i64, branch: u32) {
        let at = self.chunk((key, branch));
        let Some(chunk) = self.chunks.get_mut(at) else {
            return;
        };
        if let Ok(position) = chunk.binary_search_by_key(&(key, branch), Threshold::order) {
            chunk.remove(position);
        }
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
    }

    /// Everything with a key up to `key`.
    #[inline]
    pub(crate) fn up_to(&self, key: i64) -> impl Iterator<Item = &Entry> {
        let all = self.chunks.iter().flatten();
        all.take_while(move |threshold| threshold.key <= key).map(|threshold| &threshold.entry)
    }

    /// Everything with a key from `key` on.
    #[inline]
    pub(crate) fn from(&self, key: i64) -> impl Iterator<Item = &Entry> {
        let all = self.chunks.iter().rev().flat_map(|chunk| chunk.iter().rev());
        all.take_while(move |threshold| threshold.key >= key).map(|threshold| &threshold.entry)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let entries: usize = self.chunks.iter().map(Vec::capacity).sum();
        entries * size_of::<Threshold>() + self.chunks.capacity() * size_of::<Vec<Threshold>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::guard::Guards;

    #[test]
    fn it_holds_what_was_inserted_and_not_removed() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut thresholds = Thresholds::default();
        let mut expected = std::collections::BTreeSet::new();
        for branch in 0..2000 {
            let key = rng.i64(0..50);
            thresholds.insert(key, Entry { branch, guards: Guards::of([]) });
            expected.insert((key, branch));
            if rng.u8(..3) == 0 {
                let (key, branch) = *expected.iter().nth(rng.usize(..expected.len())).unwrap();
                expected.remove(&(key, branch));
                thresholds.remove(key, branch);
            }
            let limit = rng.i64(-1..51);
            let below: Vec<_> =
                expected.iter().filter(|(key, _)| *key <= limit).map(|(_, branch)| *branch).collect();
            assert_eq!(thresholds.up_to(limit).map(|entry| entry.branch).collect::<Vec<_>>(), below);
            let above: Vec<_> =
                expected.iter().rev().filter(|(key, _)| *key >= limit).map(|(_, branch)| *branch).collect();
            assert_eq!(thresholds.from(limit).map(|entry| entry.branch).collect::<Vec<_>>(), above);
        }
        for (key, branch) in expected {
            thresholds.remove(key, branch);
        }
        assert!(thresholds.chunks.is_empty());
    }
}
