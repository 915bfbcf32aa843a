//! What a node announces that it subscribes to.

use std::collections::{BTreeMap, HashMap, VecDeque};

use shoal_wire::{
    AnnounceHeader, Announcement, EncodeError, FACT_ROLES, Fact, InterestEntry, NumberedEntry, Roles,
};

/// Changes that can be told as such; whoever is further behind gets everything.
const CHANGES_MAX: usize = 1024;
/// A part of an announcement is no longer than this, unless one subscription is.
const PART_BYTES_MAX: usize = 32 << 10;
/// In the place of a subscription's number: not what is wanted changed, but the roles.
const NO_SUBSCRIPTION: u64 = 0;
/// A full announcement is rather sent than changes that are no shorter.
const CHANGES_PER_ENTRY: usize = 1;

/// Who announces, in every announcement.
#[derive(Copy, Clone, Debug)]
pub struct Announcer {
    /// Its domain.
    pub domain: u64,
    /// Its publisher id.
    pub publisher: u64,
    /// How often it sends heartbeats.
    pub heartbeat_ms: u64,
}

#[derive(Debug)]
struct Held {
    numbered: NumberedEntry,
    /// The same without its number.
    content: Vec<u8>,
    /// How often it is subscribed to.
    count: usize,
}

/// A node's own subscriptions. Equal ones are announced once.
#[derive(Debug)]
pub struct OwnInterest {
    held: BTreeMap<u64, Held>,
    by_content: HashMap<Vec<u8>, u64>,
    next_id: u64,
    version: u64,
    digest: u64,
    roles: Roles,
    /// What began and ended, by number, the last of them with the present version.
    changes: VecDeque<u64>,
}

impl Default for OwnInterest {
    fn default() -> OwnInterest {
        OwnInterest::new()
    }
}

impl OwnInterest {
    /// Nothing, at version 1.
    pub fn new() -> OwnInterest {
        OwnInterest {
            held: BTreeMap::new(),
            by_content: HashMap::new(),
            next_id: 1,
            version: 1,
            digest: 0,
            roles: Roles::default(),
            changes: VecDeque::new(),
        }
    }

    /// Counts the changes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many different subscriptions there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Adds a subscription, or counts an equal one once more, and returns its number.
    pub fn subscribe(&mut self, entry: &InterestEntry<'_>) -> Result<u64, EncodeError> {
        let mut content = Vec::new();
        entry.write(&mut content)?;
        if let Some(&id) = self.by_content.get(&content) {
            if let Some(held) = self.held.get_mut(&id) {
                held.count += 1;
            }
            return Ok(id);
        }
        let id = self.next_id;
        let numbered = NumberedEntry::new(id, entry)?;
        self.next_id += 1;
        self.digest = self.digest.wrapping_add(numbered.digest());
        self.by_content.insert(content.clone(), id);
        self.held.insert(id, Held { numbered, content, count: 1 });
        self.change(id);
        Ok(id)
    }

    /// Takes a subscription away, once.
    pub fn unsubscribe(&mut self, id: u64) {
        let Some(held) = self.held.get_mut(&id) else { return };
        held.count -= 1;
        if held.count > 0 {
            return;
        }
        if let Some(held) = self.held.remove(&id) {
            self.digest = self.digest.wrapping_sub(held.numbered.digest());
            self.by_content.remove(&held.content);
            self.change(id);
        }
    }

    /// Has other roles from now on.
    pub fn set_roles(&mut self, roles: Roles) {
        if std::mem::replace(&mut self.roles, roles) != roles {
            self.change(NO_SUBSCRIPTION);
        }
    }

    fn change(&mut self, id: u64) {
        self.version += 1;
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(id);
    }

    /// Everything, and who is lacking.
    pub fn full(&self, announcer: Announcer, missing: &[u64]) -> Vec<Vec<u8>> {
        let added: Vec<&NumberedEntry> = self.held.values().map(|held| &held.numbered).collect();
        self.write(announcer, 0, &[], &added, missing)
    }

    /// What changed since a version, and who is lacking; `None` if that is too long ago, or everything is no longer.
    pub fn increment(&self, announcer: Announcer, since: u64, missing: &[u64]) -> Option<Vec<Vec<u8>>> {
        let behind = usize::try_from(self.version.checked_sub(since)?).ok()?;
        if since == 0 || behind > self.changes.len() || behind > CHANGES_PER_ENTRY * self.held.len().max(1) {
            return None;
        }
        // Each began, ended, or both; only what is different now is told.
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        for &id in self.changes.range(self.changes.len() - behind..) {
            *times.entry(id).or_default() += 1;
        }
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for (id, times) in times {
            match self.held.get(&id) {
                Some(held) => added.push(&held.numbered),
                None if times == 1 && id != NO_SUBSCRIPTION => removed.push(id),
                None => {}
            }
        }
        Some(self.write(announcer, since, &removed, &added, missing))
    }

    fn write(
        &self,
        announcer: Announcer,
        base: u64,
        removed: &[u64],
        added: &[&NumberedEntry],
        missing: &[u64],
    ) -> Vec<Vec<u8>> {
        let header = AnnounceHeader {
            domain: announcer.domain,
            publisher: announcer.publisher,
            version: self.version,
            base,
            heartbeat_ms: announcer.heartbeat_ms,
            total: self.held.len() as u64,
            digest: self.digest,
        };
        let value = self.roles.to_bytes();
        let roles = [Fact { tag: FACT_ROLES, value: &value }];
        let facts = if self.roles == Roles::default() { &[][..] } else { &roles };
        Announcement { header, removed, added, missing, facts }.write(PART_BYTES_MAX)
    }
}
