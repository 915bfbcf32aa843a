//! One other node: what it wants, as far as heard, and what it was told.

use std::collections::BTreeSet;
use std::time::Duration;

use shoal_norm::Time;
use shoal_wire::{Announce, JoinedGroups, Position, Process, Roles, Welcome};

use super::beat::Beat;
use super::{Change, REPEAT_FIRST};
use crate::interest::{AnnouncedInterest, Applied, InterestBounds};

/// A member that was here several times is told all its welcomes, at most so many: it may not have heard them.
const WELCOMES_MAX: usize = 4;

/// What to tell a member that is welcomed once more, after what it was told before. Beyond the bound two times it was not
/// counted on become one, with all between them; where it began stays.
pub(super) fn welcome_again(mut before: Vec<Position>, again: &[Position]) -> Vec<Position> {
    let lanes = again.len();
    let streams = |told: &[Position]| told.iter().map(|position| position.stream).collect::<Vec<_>>();
    if before.chunks(lanes.max(1)).any(|told| streams(told) != streams(again)) {
        // It is in other groups now, and begins anew there.
        return again.to_vec();
    }
    before.extend_from_slice(again);
    if before.len() > WELCOMES_MAX * lanes {
        let second: Vec<Position> = before.drain(lanes..2 * lanes).collect();
        for (position, dropped) in before[lanes..2 * lanes].iter_mut().zip(second) {
            position.missed_from = position.missed_from.min(dropped.missed_from);
        }
    }
    before
}

/// What an announcement of a member did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// What it wants changed, or is known again.
    Changed(Change),
    /// Nothing new.
    Nothing,
    /// More of it is to come.
    Partly,
    /// It changes what we do not have: all of it has to be announced.
    Lacking,
    /// It wants more than is kept of one node: it may want anything.
    TooMuch,
}

/// A member as another one sees it.
#[derive(Debug)]
pub(super) struct Member {
    pub instance: u16,
    /// Who it is.
    pub publisher: u64,
    interest: AnnouncedInterest,
    /// What it does beside what its own programs do.
    pub roles: Roles,
    /// The program it is in.
    pub process: Option<Process>,
    /// The groups it is in.
    pub groups: JoinedGroups,
    /// The latest version of it that we heard of, and when; beyond the one we have, what it wants is not known.
    version_heard: u64,
    version_heard_at: Time,
    /// It announced more than is kept of one node.
    too_much: bool,
    pub heard_at: Time,
    pub beat: Beat,
    /// What we told it, and when last.
    pub welcome: Vec<Position>,
    pub welcomed_at: Time,
    /// It welcomed us.
    pub welcomed_us: bool,
}

impl Member {
    /// One that announces itself, and is welcomed at these positions of our streams.
    pub fn new(
        now: Time,
        instance: u16,
        announce: &Announce<'_>,
        bounds: InterestBounds,
        welcome: Vec<Position>,
    ) -> Member {
        Member {
            instance,
            publisher: announce.header.publisher,
            interest: AnnouncedInterest::new(bounds),
            roles: Roles::default(),
            process: None,
            groups: JoinedGroups::of(&announce.facts),
            version_heard: 0,
            version_heard_at: Time::ZERO,
            too_much: false,
            heard_at: now,
            beat: Beat::new(now, Duration::from_millis(announce.header.heartbeat_ms.clamp(10, 3_600_000))),
            welcome,
            welcomed_at: Time::ZERO,
            welcomed_us: false,
        }
    }

    /// When it has been silent for too long, if so many heartbeats may be missed in a row.
    pub fn death_at(&self, missed_max: u32) -> Time {
        self.heard_at + self.beat.silence_max(missed_max) + Duration::from_millis(1)
    }

    /// Whether we have what it announced last.
    pub fn is_known(&self) -> bool {
        self.version_heard <= self.interest.version() && !self.too_much
    }

    /// Whether it has to announce or to welcome us once more.
    pub fn is_lacking(&self) -> bool {
        !self.welcomed_us || (!self.is_known() && !self.too_much)
    }

    /// It was said to have announced a version. True if thereby what it wants is no longer known.
    pub fn hear_version(&mut self, now: Time, version: u64) -> bool {
        let was_known = self.is_known();
        if version > self.version_heard {
            (self.version_heard, self.version_heard_at) = (version, now);
        }
        was_known && !self.is_known()
    }

    /// Bytes that are kept of what it wants.
    pub fn interest_bytes(&self) -> usize {
        self.interest.bytes()
    }

    /// Takes what it announces, of which at most so many bytes are kept.
    pub fn take_announce(&mut self, now: Time, announce: &Announce<'_>, bytes_max: usize) -> Heard {
        self.interest.set_bytes_max(bytes_max);
        let version = announce.header.version;
        if announce.part == 0 && version > self.interest.version() {
            self.roles = Roles::of(&announce.facts);
            self.process = Process::of(&announce.facts);
            self.groups = JoinedGroups::of(&announce.facts);
        }
        // Heartbeats and Marks are easily forged. If it announces what we have once more, long after another version
        // was heard of, there is no other. One that is new to us may be followed by that other.
        let repeats = version == self.interest.version();
        if repeats && !self.is_known() && now.since(self.version_heard_at) >= REPEAT_FIRST {
            self.version_heard = version;
            return Heard::Changed(Change::default());
        }
        match self.interest.apply(announce) {
            Applied::Changed { added, removed } => {
                self.too_much = false;
                self.version_heard = self.version_heard.max(version);
                Heard::Changed(Change { added, removed, announced: (self.publisher, version) })
            }
            Applied::Old => Heard::Nothing,
            Applied::Partly => {
                self.hear_version(now, version);
                Heard::Partly
            }
            Applied::Lacking => {
                self.hear_version(now, version);
                Heard::Lacking
            }
            Applied::TooMuch => {
                self.hear_version(now, version);
                if std::mem::replace(&mut self.too_much, true) { Heard::Nothing } else { Heard::TooMuch }
            }
        }
    }

    /// It is in further groups, and joins the streams of these groups here.
    pub fn welcome_in_groups(&mut self, positions: impl IntoIterator<Item = Position>) {
        self.welcome.extend(positions);
        self.welcome.sort_by_key(|position| position.stream);
    }

    /// The record that welcomes it: the same each time.
    pub fn welcome_record(&self, from: u64) -> Vec<u8> {
        let mut record = Vec::new();
        Welcome { from, to: self.publisher, positions: self.welcome.clone() }.write(&mut record);
        record
    }

    /// It is counted on from these numbers of the chains on, and was not before, since it went last.
    pub fn count_on(&mut self, next: &[u64]) {
        let mut chains = BTreeSet::new();
        for position in self.welcome.iter_mut().rev().filter(|position| position.missed_from > 0) {
            if chains.insert(position.chain)
                && let Some(&number) = next.get(position.chain as usize)
            {
                position.number = position.number.max(number);
            }
        }
    }

    /// Whether it is known to read nothing that programs publish.
    pub fn is_bystander(&self) -> bool {
        self.is_known() && self.interest.is_bystander()
    }

    /// The version that is known of what it wants.
    #[cfg(test)]
    pub fn interest_version(&self) -> u64 {
        self.interest.version()
    }

    /// The patterns it subscribes to, as far as heard.
    #[cfg(test)]
    pub fn patterns(&self) -> Vec<&str> {
        self.interest.entries().map(|(_, entry)| entry.pattern.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(missed_from: u64, number: u64) -> Position {
        Position { stream: 1, segment: number, chain: 1, number, missed_from }
    }

    #[test]
    fn a_member_that_returns_again_and_again_is_told_where_it_began_and_every_time_it_was_away() {
        let mut welcome = vec![position(0, 5)];
        for away in 1..=3 {
            welcome = welcome_again(welcome, &[position(10 * away, 10 * away + 5)]);
        }
        let told: Vec<_> = welcome.iter().map(|told| (told.missed_from, told.number)).collect();
        assert_eq!(told, [(0, 5), (10, 15), (20, 25), (30, 35)]);
        welcome = welcome_again(welcome, &[position(40, 45)]);
        let told: Vec<_> = welcome.iter().map(|told| (told.missed_from, told.number)).collect();
        assert_eq!(told, [(0, 5), (10, 25), (30, 35), (40, 45)], "rather too much than too little");
    }
}
