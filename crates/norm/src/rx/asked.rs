//! What other receivers asked for, and in which NACK cycle: a receiver that hears it need not ask.

use std::ops::Range;

use super::entry::InfoState;
use crate::config::NackingMode;
use crate::layout::Layout;
use crate::runs::Runs;
use crate::wanted::Wanted;
use crate::wire::RepairFlags;

/// The most runs of segments of one stream or object that are remembered; what is beyond that is asked for once more.
const RUNS_MAX: usize = 256;

/// Whether an object was asked for as a whole, or its information. Cycles are never 0, so 0 is never.
#[derive(Copy, Clone, Debug, Default)]
pub struct Asked {
    object: u16,
    info: u16,
}

impl Asked {
    /// Somebody else asked. With a whole object of known length comes its information too.
    pub fn overhear(&mut self, flags: RepairFlags, cycle: u16, info_comes_with_object: bool) {
        let object = flags.has(RepairFlags::OBJECT);
        if object {
            self.object = cycle;
        }
        if flags.has(RepairFlags::INFO) || (object && info_comes_with_object) {
            self.info = cycle;
        }
    }

    /// Whether all of it is to be asked for, unless anybody did in this cycle.
    pub fn lacks_object(&self, unless_in: Option<u16>) -> bool {
        unless_in != Some(self.object)
    }

    /// Whether its information is to be asked for, unless anybody did in this cycle.
    pub fn lacks_info(&self, info: InfoState, nacking: NackingMode, unless_in: Option<u16>) -> bool {
        info == InfoState::Missing && nacking != NackingMode::None && unless_in != Some(self.info)
    }
}

/// Which segments were asked for.
#[derive(Debug, Default)]
pub struct AskedSegments {
    cycle: u16,
    segments: Runs,
}

impl AskedSegments {
    /// Somebody else asked for something. What is `within` reach counts; if it is parity of a block, all of the block where
    /// that `suffices` for us.
    pub fn overhear(
        &mut self,
        cycle: u16,
        Wanted { segments, parity }: Wanted,
        within: Range<u64>,
        layout: &Layout,
        suffices: impl Fn(u64) -> bool,
    ) {
        if self.cycle != cycle {
            *self = AskedSegments { cycle, segments: Runs::default() };
        }
        // Symbols asked for by name may be ones we have; parity serves everybody who lacks no more.
        let block = parity.map(|(block, _)| block).filter(|block| segments.is_empty() && suffices(*block));
        let segments = block.map_or(segments, |block| layout.block_segments(block));
        if self.segments.runs() < RUNS_MAX {
            self.segments.insert(segments.start.max(within.start)..segments.end.min(within.end));
        }
    }

    /// Whether all of these were asked for in this cycle.
    pub fn covers(&self, segments: Range<u64>, cycle: u16) -> bool {
        self.cycle == cycle && self.segments.gaps_in(segments).next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FecId, Fti};

    #[test]
    fn a_segment_others_asked_for_needs_no_asking_in_that_cycle() {
        let fti = Fti { object_bytes: 0, segment_bytes: 100, block_symbols: 4, parity_symbols: 2 };
        let layout = Layout::endless(FecId::ReedSolomon8, &fti);
        let mut asked = AskedSegments::default();
        let wanted = |segments: Range<u64>, parity| Wanted { segments, parity };
        asked.overhear(7, wanted(0..5, None), 2..100, &layout, |_| true);
        assert!(asked.covers(2..5, 7));
        assert!(!asked.covers(2..6, 7));
        assert!(!asked.covers(2..5, 8));
        asked.overhear(7, wanted(8..8, Some((2, 0..1))), 0..100, &layout, |block| block == 2);
        assert!(asked.covers(8..12, 7), "parity serves us too");
        asked.overhear(7, wanted(16..16, Some((4, 0..1))), 0..100, &layout, |_| false);
        assert!(!asked.covers(16..17, 7), "more is missing here");
    }
}
