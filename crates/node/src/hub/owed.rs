//! What others are to bring over links that rest. A program there wants it, and it came here: whoever serves that network passes it on,
//! and we hear that on multicast. If that one is dead, stood still or has just begun, nobody does. So whoever asks whether those behind
//! us have everything gets no answer until it was heard there, or is said by us when the link is taken up.

use std::time::Duration;

use foldhash::HashMap;
use shoal_norm::Time;

use super::accept::Key;
use super::chain::LinkId;

/// Chains of which something is owed; of more it is not noted.
const OWED_MAX: usize = 16_384;
/// What is older is not waited for: whoever asked has given up, and it is not kept any longer, either.
const OWED_FOR: Duration = Duration::from_secs(30);

/// What is owed on which link: the last number of each chain, and since when.
#[derive(Debug, Default)]
pub(super) struct Owed {
    chains: HashMap<(LinkId, Key), (u64, Time)>,
}

impl Owed {
    /// A message came that a program behind a link wants, and the link rests.
    pub fn add(&mut self, now: Time, link: LinkId, key: Key, number: u64) {
        if self.chains.len() < OWED_MAX || self.chains.contains_key(&(link, key)) {
            self.chains.insert((link, key), (number, now));
        }
    }

    /// Whether something of a publisher is owed on a link.
    pub fn is_lacking(&self, link: LinkId, publisher: u64) -> bool {
        self.chains.keys().any(|&(of, (from, _))| (of, from) == (link, publisher))
    }

    /// Forgets what was heard on a link, and what is too old; `next` tells which number of a chain comes next there.
    pub fn settle(&mut self, now: Time, link: LinkId, next: impl Fn(Key) -> u64) {
        self.chains
            .retain(|&(of, key), &mut (number, at)| of != link || number >= next(key) && now < at + OWED_FOR);
    }

    /// A link is gone, or taken up: what is kept is said there.
    pub fn forget(&mut self, link: LinkId) {
        self.chains.retain(|(of, _), _| *of != link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_on_the_link_or_is_too_old_is_owed_no_longer() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut owed = Owed::default();
        owed.add(at(1), 3, (7, 2), 5);
        owed.add(at(1), 4, (8, 2), 5);
        assert!(owed.is_lacking(3, 7) && !owed.is_lacking(3, 8) && !owed.is_lacking(4, 7));
        owed.settle(at(2), 3, |_| 5);
        assert!(owed.is_lacking(3, 7), "the fifth comes next");
        owed.settle(at(2), 3, |_| 6);
        assert!(!owed.is_lacking(3, 7) && owed.is_lacking(4, 8));
        owed.settle(at(31), 4, |_| 0);
        assert!(!owed.is_lacking(4, 8));
        owed.add(at(40), 4, (8, 2), 6);
        owed.forget(4);
        assert!(!owed.is_lacking(4, 8));
    }

    #[test]
    fn what_is_owed_is_bounded() {
        let mut owed = Owed::default();
        for publisher in 0..2 * OWED_MAX as u64 {
            owed.add(Time::ZERO, 1, (publisher, 2), 1);
        }
        assert_eq!(owed.chains.len(), OWED_MAX);
    }
}
