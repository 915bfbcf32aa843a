//! When a sender may begin to repair: it collects requests for a while, so that one repair answers many.

use std::time::Duration;

use crate::time::Time;

/// When requested repairs may go out.
///
/// | state      | a request comes             | its time comes | everything is repaired |
/// |------------|-----------------------------|----------------|------------------------|
/// | Idle       | Collecting for (K + 1) GRTT |                |                        |
/// | Collecting | stays                       | Repairing      |                        |
/// | Repairing  | stays                       |                | Idle                   |
///
/// With the policy "at once" collecting takes no time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RepairGate {
    Idle,
    Collecting { until: Time },
    Repairing,
}

impl RepairGate {
    pub fn on_request(&mut self, now: Time, collect_for: Duration) {
        if *self == RepairGate::Idle {
            *self = RepairGate::Collecting { until: now + collect_for };
        }
    }

    /// Whether repairs may go now.
    pub fn open_if_due(&mut self, now: Time) -> bool {
        if let RepairGate::Collecting { until } = *self
            && until <= now
        {
            *self = RepairGate::Repairing;
        }
        *self == RepairGate::Repairing
    }

    pub fn on_all_repaired(&mut self) {
        if *self == RepairGate::Repairing {
            *self = RepairGate::Idle;
        }
    }

    /// When repairs may go.
    pub fn opens_at(&self) -> Time {
        match *self {
            RepairGate::Collecting { until } => until,
            RepairGate::Idle | RepairGate::Repairing => Time::ZERO,
        }
    }
}
