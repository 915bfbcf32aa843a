//! In which order a stream's segments and their unasked parity go out.
//!
//! Without parity and interleaving: as they were written. With parity: a block, then its parity. With
//! interleaving, while enough whole blocks wait: the first segment of each, the second of each, and so on, then
//! the parity of all of them in the same way. A burst of loss then takes a few segments of many blocks, which
//! parity repairs, instead of more of one block than it has parity for.

use crate::Config;

/// The order.
#[derive(Debug)]
pub struct SendOrder {
    symbols: u64,
    auto_parity: usize,
    interleave: u64,
    /// How many segments of the blocks that are being mixed went out.
    mixed: Option<u64>,
    /// Blocks whose unasked parity went out, and how much of the next one's.
    parity_blocks: u64,
    parity_row: usize,
    /// Where several blocks were mixed their parity is too: so many of them sent this row.
    parity_column: u64,
}

impl SendOrder {
    pub fn new(config: &Config) -> SendOrder {
        SendOrder {
            symbols: config.block_symbols.into(),
            auto_parity: config.auto_parity.into(),
            interleave: config.interleave_blocks.into(),
            mixed: None,
            parity_blocks: 0,
            parity_row: 0,
            parity_column: 0,
        }
    }

    /// Where a run that starts at `first` must end: anywhere, or at the end of its block.
    pub fn run_end(&self, first: u64, sendable: u64) -> u64 {
        if self.auto_parity == 0 && self.interleave == 1 {
            return sendable;
        }
        sendable.min((first / self.symbols + 1) * self.symbols)
    }

    /// Whether the segments from `sent` on are to be mixed.
    pub fn is_mixing(&mut self, sent: u64, sendable: u64) -> bool {
        if self.interleave > 1
            && self.mixed.is_none()
            && sent.is_multiple_of(self.symbols)
            && sendable.saturating_sub(sent) >= self.interleave * self.symbols
        {
            self.mixed = Some(0);
        }
        self.mixed.is_some()
    }

    /// While mixing from `sent` on: the next segment to go.
    pub fn mixed_segment(&self, sent: u64) -> Option<u64> {
        let next = self.mixed?;
        Some(sent + next % self.interleave * self.symbols + next / self.interleave)
    }

    /// It went. Returns how many segments are complete with it: none, or all that were mixed.
    pub fn mixed_one(&mut self) -> u64 {
        let all = self.interleave * self.symbols;
        let next = self.mixed.map_or(0, |next| next + 1);
        self.mixed = (next < all).then_some(next);
        if next < all { 0 } else { all }
    }

    /// The block whose unasked parity is due, once everything before `sent` went, and which of it is next.
    pub fn parity_due(&self, sent: u64) -> Option<(u64, usize)> {
        (self.parity_columns(sent) > 0).then_some((self.parity_blocks + self.parity_column, self.parity_row))
    }

    /// How many blocks have unasked parity to be sent.
    fn parity_columns(&self, sent: u64) -> u64 {
        if self.auto_parity == 0 { 0 } else { (sent / self.symbols).saturating_sub(self.parity_blocks) }
    }

    /// How much unasked parity of that block goes at once.
    pub fn parity_left(&self, sent: u64) -> usize {
        if self.parity_columns(sent) == 1 { self.auto_parity - self.parity_row } else { 1 }
    }

    /// So much more of it went.
    pub fn parity_sent(&mut self, rows: usize, sent: u64) {
        let columns = self.parity_columns(sent);
        self.parity_column += 1;
        if self.parity_column < columns {
            return;
        }
        self.parity_column = 0;
        self.parity_row += rows;
        if self.parity_row >= self.auto_parity {
            self.parity_row = 0;
            self.parity_blocks += columns;
        }
    }

    /// Segments before this one are no longer needed for unasked parity.
    pub fn releasable(&self, sent: u64) -> u64 {
        if self.auto_parity == 0 { sent } else { sent.min(self.parity_blocks * self.symbols) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(auto_parity: u16, interleave_blocks: u16) -> SendOrder {
        let mut config = Config::new(1, 1, 1);
        config.block_symbols = 4;
        (config.parity_symbols, config.auto_parity) = (2, auto_parity);
        config.interleave_blocks = interleave_blocks;
        SendOrder::new(&config)
    }

    #[test]
    fn parity_follows_its_block() {
        let mut order = order(2, 1);
        assert_eq!(order.run_end(1, 9), 4);
        assert_eq!(order.parity_due(3), None);
        assert_eq!(order.parity_due(4), Some((0, 0)));
        assert_eq!(order.releasable(4), 0);
        order.parity_sent(1, 4);
        assert_eq!(order.parity_due(4), Some((0, 1)));
        order.parity_sent(1, 4);
        assert_eq!(order.parity_due(4), None);
        assert_eq!(order.releasable(4), 4);
    }

    #[test]
    fn parity_of_blocks_that_were_mixed_is_mixed_too() {
        let mut order = order(2, 3);
        let mut went = Vec::new();
        while let Some((block, row)) = order.parity_due(12) {
            assert_eq!(order.parity_left(12), 1);
            order.parity_sent(1, 12);
            went.push((block, row));
        }
        assert_eq!(went, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn mixed_blocks_go_segment_by_segment_and_all_of_them_once() {
        let mut order = order(1, 3);
        assert!(!order.is_mixing(0, 11), "only two whole blocks wait");
        assert!(!order.is_mixing(1, 100), "not at the start of a block");
        assert!(order.is_mixing(4, 16));
        let mut went = Vec::new();
        let complete = loop {
            went.push(order.mixed_segment(4).unwrap());
            let complete = order.mixed_one();
            if complete > 0 {
                break complete;
            }
        };
        assert_eq!(went[..4], [4, 8, 12, 5]);
        went.sort_unstable();
        assert_eq!(went, (4..16).collect::<Vec<u64>>());
        assert_eq!(complete, 12);
        assert_eq!(order.mixed_segment(16), None);
    }

    #[test]
    fn without_parity_runs_end_where_they_like() {
        assert_eq!(order(0, 1).run_end(1, 900), 900);
        assert_eq!(order(0, 1).releasable(900), 900);
    }
}
