//! How long an owner may deliver: until a majority of the voters may vote for another member.
//!
//! Every message carries the sender's clock. A member that heard its owner returns the owner's last clock in
//! everything that it sends to it. So an owner knows, by its own clock alone, when it sent what a voter has heard.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::entries::Members;

/// When each voter was last heard to follow, by the clock of the owner.
#[derive(Debug, Default)]
pub struct Lease {
    /// The term that the owner owns, and since when.
    owned: Option<(u64, Duration)>,
    /// By voter: when the last message was sent that it answered.
    followed: BTreeMap<u64, Duration>,
}

impl Lease {
    /// This member is the owner of a term.
    pub fn begin(&mut self, now: Duration, term: u64) {
        if self.owned.is_none_or(|(owned, _)| owned != term) {
            self.owned = Some((term, now));
            self.followed.clear();
        }
    }

    /// This member owns nothing.
    pub fn end(&mut self) {
        self.owned = None;
        self.followed.clear();
    }

    /// A voter follows in a term, and heard what was sent at a time.
    pub fn follows(&mut self, voter: u64, term: u64, sent_at: Duration) {
        if self.owned.is_some_and(|(owned, since)| owned == term && sent_at >= since) {
            let last = self.followed.entry(voter).or_default();
            *last = (*last).max(sent_at);
        }
    }

    /// Whether a member answered something that was sent at a time or later, or could not have: the term is younger.
    pub fn heard_since(&self, member: u64, at: Duration) -> bool {
        let is_young = self.owned.is_some_and(|(_, since)| since >= at);
        is_young || self.followed.get(&member).is_some_and(|sent_at| *sent_at >= at)
    }

    /// When a majority of the voters may elect another owner; none if there is no majority.
    pub fn until(&self, own: u64, now: Duration, members: &Members, promised: Duration) -> Option<Duration> {
        self.owned?;
        let mut until = self.majority(own, now, &members.voters)?;
        if !members.outgoing.is_empty() {
            until = until.min(self.majority(own, now, &members.outgoing)?);
        }
        Some(until + promised)
    }

    /// The latest time such that a majority heard what was sent then, or later.
    fn majority(&self, own: u64, now: Duration, voters: &[u64]) -> Option<Duration> {
        let mut heard: Vec<Duration> = voters
            .iter()
            .filter_map(|voter| if *voter == own { Some(now) } else { self.followed.get(voter).copied() })
            .collect();
        heard.sort_unstable_by(|one, other| other.cmp(one));
        heard.get(voters.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_majority_that_followed_gives_a_lease_from_when_the_owner_sent() {
        let mut lease = Lease::default();
        let members = Members::voting([1, 2, 3]);
        assert_eq!(lease.until(1, ms(10), &members, ms(100)), None, "it owns nothing");
        lease.begin(ms(10), 4);
        assert_eq!(lease.until(1, ms(20), &members, ms(100)), None, "one of three is no majority");
        lease.follows(2, 4, ms(12));
        assert_eq!(lease.until(1, ms(20), &members, ms(100)), Some(ms(112)));
        lease.follows(3, 4, ms(18));
        assert_eq!(lease.until(1, ms(20), &members, ms(100)), Some(ms(118)));
        lease.follows(3, 4, ms(15));
        assert_eq!(lease.until(1, ms(20), &members, ms(100)), Some(ms(118)), "older answers change nothing");
    }

    #[test]
    fn answers_of_another_term_or_from_before_the_election_do_not_count() {
        let mut lease = Lease::default();
        let members = Members::voting([1, 2, 3]);
        lease.begin(ms(10), 4);
        lease.follows(2, 3, ms(12));
        lease.follows(2, 4, ms(9));
        assert_eq!(lease.until(1, ms(20), &members, ms(100)), None);
        lease.follows(2, 4, ms(12));
        lease.begin(ms(30), 6);
        assert_eq!(lease.until(1, ms(31), &members, ms(100)), None, "a new term begins with no answer");
    }

    #[test]
    fn while_members_change_both_majorities_count() {
        let mut lease = Lease::default();
        let members = Members { voters: vec![1, 2, 3], outgoing: vec![1, 4, 5], ..Members::default() };
        lease.begin(ms(0), 1);
        lease.follows(2, 1, ms(50));
        assert_eq!(lease.until(1, ms(60), &members, ms(100)), None);
        lease.follows(5, 1, ms(40));
        assert_eq!(lease.until(1, ms(60), &members, ms(100)), Some(ms(140)));
    }

    #[test]
    fn a_group_of_two_needs_both() {
        let mut lease = Lease::default();
        let members = Members::voting([1, 2]);
        lease.begin(ms(0), 1);
        assert_eq!(lease.until(1, ms(5), &members, ms(100)), None);
        lease.follows(2, 1, ms(3));
        assert_eq!(lease.until(1, ms(5), &members, ms(100)), Some(ms(103)));
    }
}
