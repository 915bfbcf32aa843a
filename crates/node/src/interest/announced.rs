//! What another node announced that it subscribes to, as far as heard.

use std::collections::BTreeMap;

use shoal_wire::{Announce, Announced, DestinationKind, FilterKind, InterestEntry, is_reserved};

/// What a subscription costs beside its texts, here and in the indexes that find it: itself, each level of its pattern, and
/// each filter.
const ENTRY_BYTES: usize = 768;
const LEVEL_BYTES: usize = 384;
const FILTER_BYTES: usize = 1024;
/// What a byte of a filter costs once it is read.
const FILTER_FACTOR: usize = 64;

/// How much of another node's subscriptions is kept.
#[derive(Copy, Clone, Debug)]
pub struct InterestBounds {
    /// Bytes of all of them together, and as many again while a long announcement comes in.
    pub bytes_max: usize,
}

/// A subscription of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Topics or queues.
    pub kind: DestinationKind,
    /// Which names.
    pub pattern: String,
    /// Only persistent messages.
    pub persistent_only: bool,
    /// Not what this one of the announcer's connections publishes.
    pub no_local: Option<u64>,
    /// Further conditions.
    pub filters: Vec<(FilterKind, Vec<u8>)>,
    digest: u64,
}

impl Entry {
    fn new(entry: &InterestEntry<'_>, digest: u64) -> Entry {
        Entry {
            kind: entry.kind,
            pattern: entry.pattern.to_owned(),
            persistent_only: entry.persistent_only,
            no_local: entry.no_local,
            filters: entry.filters.iter().map(|filter| (filter.kind, filter.bytes.to_vec())).collect(),
            digest,
        }
    }

    fn bytes(&self) -> usize {
        let filters = self.filters.iter().map(|(_, bytes)| FILTER_BYTES + FILTER_FACTOR * bytes.len());
        let levels = 1 + self.pattern.bytes().filter(|byte| b"/=,".contains(byte)).count();
        ENTRY_BYTES + LEVEL_BYTES * levels + self.pattern.len() + filters.sum::<usize>()
    }
}

/// What an announcement did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Subscriptions began and ended.
    Changed {
        /// Those that began, by number.
        added: Vec<(u64, Entry)>,
        /// Those that ended.
        removed: Vec<(u64, Entry)>,
    },
    /// More parts of it are to come.
    Partly,
    /// It was known already.
    Old,
    /// It changes a version that is not known here, or does not lead to what it says: everything has to be announced.
    Lacking,
    /// It is more than is kept of one node.
    TooMuch,
}

/// Parts of an announcement that is not complete.
#[derive(Debug)]
struct Pending {
    version: u64,
    base: u64,
    parts: u64,
    next: u64,
    removed: Vec<u64>,
    added: BTreeMap<u64, Entry>,
    bytes: usize,
}

/// What another node subscribes to.
#[derive(Debug)]
pub struct AnnouncedInterest {
    entries: BTreeMap<u64, Entry>,
    version: u64,
    digest: u64,
    bytes: usize,
    pending: Option<Pending>,
    bounds: InterestBounds,
}

impl AnnouncedInterest {
    /// Of one that has announced nothing yet.
    pub fn new(bounds: InterestBounds) -> AnnouncedInterest {
        AnnouncedInterest { entries: BTreeMap::new(), version: 0, digest: 0, bytes: 0, pending: None, bounds }
    }

    /// Changes how much of them is kept; what is here already stays.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bounds = InterestBounds { bytes_max };
    }

    /// The version that is known here; 0 if none is.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The subscriptions, by number.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().map(|(&id, entry)| (id, entry))
    }

    /// Whether nothing that programs publish is among them: reserved topics are everybody's.
    pub fn is_bystander(&self) -> bool {
        self.entries.values().all(|entry| is_reserved(entry.pattern.as_bytes()))
    }

    /// Bytes that the subscriptions take, those of an announcement that is not complete included.
    pub fn bytes(&self) -> usize {
        self.bytes + self.pending.as_ref().map_or(0, |pending| pending.bytes)
    }

    /// Takes an announcement, or a part of one. Whatever is not `Changed` changes nothing.
    pub fn apply(&mut self, announce: &Announce<'_>) -> Applied {
        let header = &announce.header;
        if header.version <= self.version {
            return Applied::Old;
        }
        if header.base > self.version {
            self.pending = None;
            return Applied::Lacking;
        }
        match self.collect(announce) {
            Ok(None) => Applied::Partly,
            Ok(Some(complete)) => self.complete(complete, header.total, header.digest),
            Err(refused) => {
                self.pending = None;
                refused
            }
        }
    }

    /// Puts parts together; the whole once it is complete.
    fn collect(&mut self, announce: &Announce<'_>) -> Result<Option<Pending>, Applied> {
        let header = &announce.header;
        let same = |pending: &Pending| {
            (pending.version, pending.base, pending.parts) == (header.version, header.base, announce.parts)
        };
        if announce.part == 0 {
            self.pending = Some(Pending {
                version: header.version,
                base: header.base,
                parts: announce.parts,
                next: 0,
                removed: Vec::new(),
                added: BTreeMap::new(),
                bytes: 0,
            });
        }
        let Some(pending) = self.pending.as_mut().filter(|pending| same(pending)) else {
            return Err(Applied::Lacking);
        };
        if announce.part < pending.next {
            return Ok(None);
        }
        if announce.part > pending.next {
            return Err(Applied::Lacking);
        }
        pending.next += 1;
        pending.bytes += announce.removed.len() * size_of::<u64>();
        pending.removed.extend_from_slice(&announce.removed);
        for Announced { id, entry, digest } in &announce.added {
            let entry = Entry::new(entry, *digest);
            pending.bytes += entry.bytes();
            if pending.bytes > self.bounds.bytes_max {
                return Err(Applied::TooMuch);
            }
            pending.added.insert(*id, entry);
        }
        if pending.bytes > self.bounds.bytes_max {
            return Err(Applied::TooMuch);
        }
        Ok(if pending.next == pending.parts { self.pending.take() } else { None })
    }

    fn complete(&mut self, pending: Pending, total: u64, digest: u64) -> Applied {
        let Pending { version, base, removed, added, .. } = pending;
        let removed: Vec<u64> = if base == 0 {
            self.entries.keys().filter(|id| !added.contains_key(id)).copied().collect()
        } else {
            removed
                .into_iter()
                .filter(|id| self.entries.contains_key(id) && !added.contains_key(id))
                .collect()
        };
        let mut removed: BTreeMap<u64, &Entry> =
            removed.into_iter().filter_map(|id| Some((id, self.entries.get(&id)?))).collect();
        let added: Vec<(u64, Entry)> =
            added.into_iter().filter(|(id, entry)| self.entries.get(id) != Some(entry)).collect();
        // A number that stands for something else now is a node that does not keep the rules: take its word.
        for (id, _) in &added {
            if let Some(entry) = self.entries.get(id) {
                removed.insert(*id, entry);
            }
        }
        let sum = |entries: &mut dyn Iterator<Item = &Entry>| {
            entries.fold((0u64, 0usize), |(digest, bytes), entry| {
                (digest.wrapping_add(entry.digest), bytes + entry.bytes())
            })
        };
        let (digest_added, bytes_added) = sum(&mut added.iter().map(|(_, entry)| entry));
        let (digest_removed, bytes_removed) = sum(&mut removed.values().copied());
        let count = self.entries.len() + added.len() - removed.len();
        let reached = self.digest.wrapping_add(digest_added).wrapping_sub(digest_removed);
        if (count as u64, reached) != (total, digest) {
            return Applied::Lacking;
        }
        let bytes = self.bytes + bytes_added - bytes_removed;
        if bytes > self.bounds.bytes_max {
            return Applied::TooMuch;
        }
        let removed: Vec<u64> = removed.into_keys().collect();
        let removed = removed.into_iter().filter_map(|id| Some((id, self.entries.remove(&id)?))).collect();
        self.entries.extend(added.iter().cloned());
        (self.version, self.digest, self.bytes) = (version, reached, bytes);
        Applied::Changed { added, removed }
    }
}
