//! How far a sender is in its stream, as far as what comes in its name is to be believed.
//!
//! Anybody can send a copy of a datagram with another place in it. Were one believed that is far ahead, we would ask for what
//! was never sent, and the sender would take all that is on its way for lost.
//!
//! | what comes, compared with what is known                 | then                                                     |
//! |---------------------------------------------------------|----------------------------------------------------------|
//! | up to [`NEAR`] segments, or a block, ahead              | it is believed                                           |
//! | farther ahead                                           | it is believed if those before it were near it, too; and if the sender was quiet, for no data will tell |
//! | a new segment, not a repair, far behind                 | after some in a row the sender is there, and not ahead   |

/// So many segments may be lost at once without a doubt that they were sent.
const NEAR: u64 = 64;
/// So many places in a row have to be near each other to be believed.
const IN_A_ROW: u32 = 3;
/// What is known to be sent is doubted if the sender sends, for the first time, what comes so many segments before it.
const FAR_BEHIND: u64 = 256;
const FOLLOWING: u32 = 4;

/// What was told, and is not believed yet.
#[derive(Debug)]
pub struct Front {
    near: u64,
    /// The last place far ahead, and how many near each other came in a row.
    ahead: (u64, u32),
    /// The last new segment that came far behind, and how many came one after the other.
    behind: (u64, u32),
}

impl Front {
    /// For a stream with blocks of so many symbols.
    pub fn new(symbols: u64) -> Front {
        Front { near: NEAR.max(symbols), ahead: (0, 0), behind: (0, 0) }
    }

    /// Whether to believe that a sender is at a segment, if it is known to be at `end`.
    pub fn judge(&mut self, segment: u64, end: u64) -> bool {
        if segment.saturating_sub(end) <= self.near {
            return true;
        }
        let (before, count) = self.ahead;
        let is_near = count > 0 && segment >= before && segment - before <= self.near;
        let count = if is_near { count + 1 } else { 1 };
        self.ahead = if count < IN_A_ROW { (segment, count) } else { (0, 0) };
        count >= IN_A_ROW
    }

    /// A segment came that its sender sent for the first time. True if it shows that the sender is there, though it was
    /// known to be at `end`.
    pub fn on_first_time(&mut self, segment: u64, end: u64) -> bool {
        // Whatever was told of places ahead was not the sender's word, or is late.
        self.ahead = (0, 0);
        if end.saturating_sub(segment) <= FAR_BEHIND {
            self.behind = (0, 0);
            return false;
        }
        let (before, count) = self.behind;
        let count = if count > 0 && segment == before + 1 { count + 1 } else { 1 };
        self.behind = if count < FOLLOWING { (segment, count) } else { (0, 0) };
        count >= FOLLOWING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_far_ahead_is_believed_when_others_near_it_follow() {
        let mut front = Front::new(64);
        assert!(front.judge(164, 100), "a burst of losses");
        assert!(!front.judge(5_000, 100));
        assert!(!front.judge(5_001, 100));
        assert!(front.judge(5_030, 100), "we were away");
    }

    #[test]
    fn places_far_ahead_that_contradict_each_other_are_not_believed() {
        let mut front = Front::new(64);
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..100_000 {
            assert!(!front.judge(1_000 + random.u64(..1 << 30), 100));
        }
    }

    #[test]
    fn a_sender_that_goes_on_denies_what_was_told_of_places_ahead() {
        let mut front = Front::new(64);
        for segment in 100..1_000 {
            assert!(!front.on_first_time(segment, segment + 1));
            assert!(!front.judge(500_000 + segment, segment + 1));
            assert!(!front.judge(500_000 + segment, segment + 1));
        }
    }

    #[test]
    fn a_sender_that_goes_on_far_behind_is_not_ahead() {
        let mut front = Front::new(64);
        let told: Vec<bool> = (100..104).map(|segment| front.on_first_time(segment, 9_000)).collect();
        assert_eq!(told, [false, false, false, true]);
        // What comes late, and not one after the other, says nothing.
        assert!(
            [200, 202, 201, 300, 204, 203].into_iter().all(|segment| !front.on_first_time(segment, 9_000))
        );
    }
}
