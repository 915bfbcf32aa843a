//! What a session does with the rights of the program at its other end: messages and subscriptions that are denied do not reach the
//! hub, and both ends hear why, once for each reason.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use shoal_norm::Time;
use shoal_wire::{DestinationKind, LinkState, RecordKind, Topic, TopicPattern};

use super::rights::{Action, Rights, Rules};
use super::sieve::{Sent, Sieve};
use crate::interest::{AnnouncedInterest, Entry};

/// Decisions that are remembered; then all are forgotten. And reasons that are told, of one session.
const DECIDED_MAX: usize = 4096;
const TOLD_MAX: usize = 64;

/// Subscriptions, by number.
type Entries = Vec<(u64, Entry)>;

/// The gate of one session.
pub(super) struct Gate {
    rights: Arc<Rights>,
    rules: Arc<Rules>,
    version: u64,
    publisher: u64,
    /// By name, whether it is a queue's, and whether it is forwarded.
    decided: HashMap<(Vec<u8>, bool, bool), Option<String>>,
    /// One for each lane.
    sieves: Vec<Sieve>,
    /// The subscriptions that reached the hub.
    granted: BTreeSet<u64>,
    /// Messages and subscriptions that were denied.
    pub denied: u64,
    told: BTreeSet<String>,
    /// Reasons that are to be told at both ends.
    pub news: Vec<String>,
    /// No more is acknowledged before then: the program sent more than its quota.
    pub paid_at: Time,
}

/// What of some bytes may pass, and the state after it.
pub(super) struct Passed {
    pub bytes: Vec<u8>,
    sieve: Sieve,
    whys: Vec<String>,
    denied: u64,
}

impl Gate {
    pub fn new(rights: Arc<Rights>, publisher: u64, lanes: usize) -> Gate {
        let (rules, version) = rights.current();
        Gate {
            rights,
            rules,
            version,
            publisher,
            decided: HashMap::new(),
            sieves: vec![Sieve::default(); lanes],
            granted: BTreeSet::new(),
            denied: 0,
            told: BTreeSet::new(),
            news: Vec::new(),
            paid_at: Time::ZERO,
        }
    }

    /// Another connection carries the session, perhaps of another principal.
    pub fn set_rights(&mut self, rights: Arc<Rights>) {
        if !Arc::ptr_eq(&self.rights, &rights) {
            // No version is 0: the rules are looked at again.
            (self.rights, self.version) = (rights, 0);
        }
    }

    /// Whether the rules are those that were used last; if not, others are from now on.
    pub fn is_current(&mut self) -> bool {
        if self.rights.version() == self.version {
            return true;
        }
        (self.rules, self.version) = self.rights.current();
        self.decided.clear();
        self.told.clear();
        false
    }

    /// Whether the program forwards, and so may say where others are.
    pub fn routes(&self) -> bool {
        self.rules.holds(Action::Route)
    }

    /// Whether a record by which routers know the network may pass: without the right to route, what a program says of its own
    /// links, if it is no router.
    pub fn passes(&self, record: &[u8]) -> bool {
        let is_own = |state: LinkState| state.publisher == self.publisher && !state.is_router;
        RecordKind::of(record) != Ok(RecordKind::LinkState)
            || self.routes()
            || LinkState::read(record).is_ok_and(is_own)
    }

    /// What of the bytes of a lane may pass. Nothing changed until [`Gate::passed`].
    pub fn sift(&mut self, lane: usize, bytes: &[u8]) -> Result<Passed, String> {
        let mut passed =
            Passed { bytes: Vec::new(), sieve: self.sieves[lane].clone(), whys: Vec::new(), denied: 0 };
        let Passed { bytes: out, sieve, whys, denied } = &mut passed;
        let (decided, rules) = (&mut self.decided, &self.rules);
        sieve.pass(self.publisher, bytes, out, |sent| {
            if decided.len() >= DECIDED_MAX {
                decided.clear();
            }
            let key = (sent.name.to_vec(), sent.is_queue, sent.forwards);
            let why = decided.entry(key).or_insert_with(|| refusal(rules, sent));
            if let Some(why) = why {
                *denied += 1;
                whys.push(why.clone());
            }
            why.is_none()
        })?;
        Ok(passed)
    }

    /// The hub took what passed of so many bytes of a lane.
    pub fn passed(&mut self, now: Time, lane: usize, passed: Passed, bytes: usize) {
        self.sieves[lane] = passed.sieve;
        self.denied += passed.denied;
        passed.whys.into_iter().for_each(|why| self.tell(why));
        if let Some(per_s) = self.rules.bytes_per_s {
            self.paid_at = self.rights.charge(now, bytes, per_s);
        }
    }

    /// What of a change of subscriptions may pass.
    pub fn grant(&mut self, added: Entries, removed: Entries) -> (Entries, Entries) {
        let removed = removed.into_iter().filter(|(id, _)| self.granted.remove(id)).collect();
        let added: Vec<_> = added.into_iter().filter(|(_, entry)| self.allows(entry)).collect();
        self.granted.extend(added.iter().map(|(id, _)| *id));
        (added, removed)
    }

    /// How the hub's view of the subscriptions changes with the rules.
    pub fn regrant(&mut self, announced: &AnnouncedInterest) -> (Entries, Entries) {
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for (id, entry) in announced.entries() {
            match (self.granted.contains(&id), self.allows(entry)) {
                (false, true) => added.push((id, entry.clone())),
                (true, false) => removed.push((id, entry.clone())),
                _ => {}
            }
        }
        self.granted.extend(added.iter().map(|(id, _)| *id));
        self.granted.retain(|id| removed.iter().all(|(gone, _)| gone != id));
        (added, removed)
    }

    fn allows(&mut self, entry: &Entry) -> bool {
        let is_queue = entry.kind == DestinationKind::Queue;
        let why = match TopicPattern::new(&entry.pattern) {
            Ok(pattern) => self.rules.refuses_interest(&pattern, is_queue, self.publisher),
            Err(error) => Some(error.to_string()),
        };
        let Some(why) = why else { return true };
        self.denied += 1;
        self.tell(why);
        false
    }

    fn tell(&mut self, why: String) {
        if self.told.len() < TOLD_MAX && self.told.insert(why.clone()) {
            self.news.push(why);
        }
    }
}

fn refusal(rules: &Rules, sent: Sent<'_>) -> Option<String> {
    match Topic::from_bytes(sent.name) {
        Ok(topic) => rules.refuses_publish(topic, sent.is_queue, sent.forwards),
        // The hub says what is wrong with it.
        Err(_) => None,
    }
}
