//! One other node: what it wants, as far as heard, and what it was told.

use std::collections::BTreeSet;
use std::time::Duration;

use shoal_norm::{ObjectId, Time};
use shoal_wire::{Announce, Position, Welcome};

use super::REPEAT_FIRST;

/// Patterns that a member added and withdrew.
pub(super) type PatternChange = (Vec<String>, Vec<String>);

/// A member as another one sees it.
#[derive(Debug)]
pub(super) struct Member {
    pub instance: u16,
    /// The version of its subscriptions that we have.
    version: u64,
    /// The latest that we heard of, and when; beyond the other, what it wants is not known.
    version_heard: u64,
    version_heard_at: Time,
    pub patterns: BTreeSet<String>,
    pub heard_at: Time,
    pub heartbeat: Duration,
    /// What we told it, and when last.
    welcome: Vec<(ObjectId, u64)>,
    pub welcomed_at: Time,
    /// It welcomed us.
    pub welcomed_us: bool,
}

impl Member {
    /// One that announces itself, and is welcomed at these positions of our streams.
    pub fn new(now: Time, instance: u16, heartbeat_ms: u64, welcome: Vec<(ObjectId, u64)>) -> Member {
        Member {
            instance,
            version: 0,
            version_heard: 0,
            version_heard_at: Time::ZERO,
            patterns: BTreeSet::new(),
            heard_at: now,
            heartbeat: Duration::from_millis(heartbeat_ms.clamp(10, 3_600_000)),
            welcome,
            welcomed_at: Time::ZERO,
            welcomed_us: false,
        }
    }

    /// Whether we have what it announced last.
    pub fn is_known(&self) -> bool {
        self.version_heard <= self.version
    }

    /// Whether it has to announce or to welcome us once more.
    pub fn is_lacking(&self) -> bool {
        !self.welcomed_us || !self.is_known()
    }

    /// It was said to have announced a version. True if thereby what it wants is no longer known.
    pub fn hear_version(&mut self, now: Time, version: u64) -> bool {
        let was_known = self.is_known();
        if version > self.version_heard {
            (self.version_heard, self.version_heard_at) = (version, now);
        }
        was_known && !self.is_known()
    }

    /// Takes what it announces; what changed, if that is news.
    pub fn take_announce(&mut self, now: Time, announce: &Announce<'_>) -> Option<PatternChange> {
        // Heartbeats and Marks are easily forged. If it announces what we have once more, long after another version
        // was heard of, there is no other. One that is new to us may be followed by that other.
        let repeats = announce.header.version == self.version;
        if repeats && !self.is_known() && now.since(self.version_heard_at) >= REPEAT_FIRST {
            self.version_heard = self.version;
            return Some(PatternChange::default());
        }
        // An older one may come late, where a stream was joined anew.
        if announce.header.version <= self.version {
            return None;
        }
        self.version = announce.header.version;
        self.version_heard = self.version_heard.max(announce.header.version);
        let announced: BTreeSet<String> =
            announce.added.iter().map(|added| added.entry.pattern.to_owned()).collect();
        let added = announced.difference(&self.patterns).cloned().collect();
        let removed = self.patterns.difference(&announced).cloned().collect();
        self.patterns = announced;
        Some((added, removed))
    }

    /// The record that welcomes it: the same each time.
    pub fn welcome(&mut self, now: Time, from: u64, to: u64) -> Vec<u8> {
        self.welcomed_at = now;
        let mut record = Vec::new();
        let position = |&(stream, segment): &(ObjectId, u64)| Position {
            stream,
            segment,
            chain: stream.into(),
            number: 0,
            missed_from: 0,
        };
        Welcome { from, to, positions: self.welcome.iter().map(position).collect() }.write(&mut record);
        record
    }
}
