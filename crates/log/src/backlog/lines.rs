//! Messages that are ready, in the order in which they go out: by rank, then by delivery time, then by offset.
//!
//! Messages of a group stand in the line of their bucket. Of each bucket only the first is offered: to everybody as long
//! as nobody has one of its messages, then to that consumer alone; to nobody while the bucket is held.

use std::collections::{BTreeMap, BTreeSet};

/// Rank, delivery time, offset.
pub(super) type Turn = (u8, u64, u64);

#[derive(Debug, Default)]
struct Bucket {
    line: BTreeSet<Turn>,
    owner: Option<u64>,
    /// Messages that its owner has.
    taken: usize,
    /// Messages of it that must wait, and everything behind them.
    held: usize,
    /// Where its first is offered now: to whom, and which.
    offered: Option<(Option<u64>, Turn)>,
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    plain: BTreeSet<Turn>,
    buckets: BTreeMap<u16, Bucket>,
    /// The first of each bucket that nobody has.
    free: BTreeSet<(Turn, u16)>,
    /// The first of each bucket that a consumer has.
    own: BTreeMap<u64, BTreeSet<(Turn, u16)>>,
    count: usize,
}

impl Lines {
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn add(&mut self, turn: Turn, group: Option<u16>) {
        self.count += 1;
        match group {
            None => {
                self.plain.insert(turn);
            }
            Some(group) => {
                self.buckets.entry(group).or_default().line.insert(turn);
                self.offer(group);
            }
        }
    }

    /// Takes one out of its line, whoever it is for.
    pub fn remove(&mut self, turn: Turn, group: Option<u16>) {
        let was_there = match group {
            None => self.plain.remove(&turn),
            Some(group) => {
                let removed = self.buckets.get_mut(&group).is_some_and(|bucket| bucket.line.remove(&turn));
                self.offer(group);
                removed
            }
        };
        self.count -= usize::from(was_there);
    }

    /// The next one for a consumer.
    pub fn best(&self, consumer: u64) -> Option<Turn> {
        let plain = self.plain.first().copied();
        let free = self.free.first().map(|(turn, _)| *turn);
        let own = self.own.get(&consumer).and_then(|own| own.first()).map(|(turn, _)| *turn);
        [plain, free, own].into_iter().flatten().min()
    }

    /// Whether a message of a group may go to a consumer now.
    pub fn allows(&self, consumer: u64, group: Option<u16>) -> bool {
        let bucket = group.and_then(|group| self.buckets.get(&group));
        bucket.is_none_or(|bucket| bucket.held == 0 && bucket.owner.is_none_or(|owner| owner == consumer))
    }

    /// A consumer has a message of a group now.
    pub fn taken(&mut self, consumer: u64, group: Option<u16>) {
        if let Some(group) = group {
            let bucket = self.buckets.entry(group).or_default();
            bucket.owner = Some(consumer);
            bucket.taken += 1;
            self.offer(group);
        }
    }

    /// It has it no more.
    pub fn untaken(&mut self, group: Option<u16>) {
        if let Some(group) = group {
            if let Some(bucket) = self.buckets.get_mut(&group) {
                bucket.taken = bucket.taken.saturating_sub(1);
                if bucket.taken == 0 {
                    bucket.owner = None;
                }
            }
            self.offer(group);
        }
    }

    /// A message of a group must wait, and so must those behind it.
    pub fn hold(&mut self, group: Option<u16>) {
        if let Some(group) = group {
            self.buckets.entry(group).or_default().held += 1;
            self.offer(group);
        }
    }

    pub fn unhold(&mut self, group: Option<u16>) {
        if let Some(group) = group {
            if let Some(bucket) = self.buckets.get_mut(&group) {
                bucket.held = bucket.held.saturating_sub(1);
            }
            self.offer(group);
        }
    }

    /// The offset of the first of a bucket that is offered.
    pub fn first_of(&self, group: u16) -> Option<u64> {
        let bucket = self.buckets.get(&group)?;
        bucket.line.iter().map(|(_, _, offset)| *offset).min()
    }

    /// Brings the lists of what is offered up to date.
    fn offer(&mut self, group: u16) {
        let Some(bucket) = self.buckets.get_mut(&group) else { return };
        let now = bucket.line.first().filter(|_| bucket.held == 0).map(|turn| (bucket.owner, *turn));
        if now != bucket.offered {
            if let Some((owner, turn)) = std::mem::replace(&mut bucket.offered, now) {
                match owner {
                    None => {
                        self.free.remove(&(turn, group));
                    }
                    Some(owner) => {
                        if let Some(own) = self.own.get_mut(&owner) {
                            own.remove(&(turn, group));
                            if own.is_empty() {
                                self.own.remove(&owner);
                            }
                        }
                    }
                }
            }
            match now {
                Some((None, turn)) => {
                    self.free.insert((turn, group));
                }
                Some((Some(owner), turn)) => {
                    self.own.entry(owner).or_default().insert((turn, group));
                }
                None => {}
            }
        }
        if bucket.line.is_empty() && bucket.taken == 0 && bucket.held == 0 {
            self.buckets.remove(&group);
        }
    }
}
