//! In which NACK cycle somebody else asked for an object as a whole, or for its information.

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

    /// Whether anybody asked for all of it in this cycle.
    pub fn for_object(&self, cycle: u16) -> bool {
        self.object == cycle
    }

    /// Whether anybody asked for its information in this cycle.
    pub fn for_info(&self, cycle: u16) -> bool {
        self.info == cycle
    }
}
