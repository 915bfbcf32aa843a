//! In which NACK cycle somebody else asked for an object as a whole, or for its information.

use super::entry::InfoState;
use crate::config::NackingMode;
use crate::wire::RepairFlags;

/// Cycles are never 0, so 0 is never.
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
