//! The messages that were appended last, in memory: whoever keeps up reads no file.

use std::collections::VecDeque;
use std::sync::Arc;

/// Rows that are kept, unless one frame alone is longer.
pub const RECENT_BYTES_MAX: usize = 8 << 20;

/// The rows of one frame.
#[derive(Clone, Debug)]
pub struct RecentFrame {
    /// The offset of its first row.
    pub first: u64,
    /// The offset after its last.
    pub end: u64,
    /// When it was stored.
    pub stored_us: u64,
    /// The rows.
    pub rows: Arc<Vec<u8>>,
}

/// The last frames, without a hole between them.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    frames: VecDeque<RecentFrame>,
    bytes: usize,
}

impl Recent {
    /// A frame was appended.
    pub fn push(&mut self, frame: RecentFrame) {
        if self.frames.back().is_some_and(|last| last.end != frame.first) {
            self.frames.clear();
            self.bytes = 0;
        }
        self.bytes += frame.rows.len();
        self.frames.push_back(frame);
        while self.bytes > RECENT_BYTES_MAX && self.frames.len() > 1 {
            self.bytes -= self.frames.pop_front().map_or(0, |frame| frame.rows.len());
        }
    }

    /// The frames that have the offsets from one up to before another; none if the first of them is not there any more.
    pub fn between(&self, from: u64, to: u64) -> Option<Vec<RecentFrame>> {
        let first = self.frames.front()?.first;
        if from < first || from >= to {
            return None;
        }
        let skipped = self.frames.partition_point(|frame| frame.end <= from);
        Some(self.frames.iter().skip(skipped).take_while(|frame| frame.first < to).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u64, end: u64, bytes: usize) -> RecentFrame {
        RecentFrame { first, end, stored_us: 1, rows: Arc::new(vec![0; bytes]) }
    }

    fn firsts(recent: &Recent, from: u64, to: u64) -> Option<Vec<u64>> {
        recent.between(from, to).map(|frames| frames.iter().map(|frame| frame.first).collect())
    }

    #[test]
    fn a_hole_begins_it_anew() {
        let mut recent = Recent::default();
        recent.push(frame(0, 5, 10));
        recent.push(frame(5, 6, 10));
        assert_eq!(firsts(&recent, 0, 6), Some(vec![0, 5]));
        assert_eq!(firsts(&recent, 5, 6), Some(vec![5]));
        assert_eq!(firsts(&recent, 0, 5), Some(vec![0]));
        recent.push(frame(9, 12, 10));
        assert_eq!(firsts(&recent, 5, 12), None, "somebody else appended in between");
        assert_eq!(firsts(&recent, 10, 12), Some(vec![9]));
        assert_eq!(firsts(&recent, 12, 12), None);
    }

    #[test]
    fn it_keeps_no_more_than_its_bound() {
        let mut recent = Recent::default();
        for at in 0..10 {
            recent.push(frame(at, at + 1, RECENT_BYTES_MAX / 4));
        }
        assert_eq!(recent.frames.len(), 4);
        recent.push(frame(10, 11, RECENT_BYTES_MAX * 2));
        assert_eq!(recent.frames.len(), 1, "one that is longer is kept alone");
    }
}
