//! What a node announces that it wants: to each of its neighbours what its own programs subscribe to, and, of a router,
//! what those behind its other links want (N − x).
//!
//! Equal entries are kept once, with who asks for them. An entry is *shown* to a link if somebody beside that link asks
//! for it, and, of a router, if no other entry that is shown there covers it: one without a filter on the same topics, or on
//! more. A link's view is what is shown to it, as a version, a digest and the last changes; the entries themselves are
//! shared by all views.

use std::collections::{BTreeMap, HashMap, VecDeque};

use shoal_wire::{
    AnnounceHeader, Announcement, DestinationKind, EncodeError, FACT_GROUPS, FACT_PROCESS, FACT_ROLES, Fact,
    InterestEntry, JoinedGroups, NumberedEntry, Process, Roles, TopicPattern,
};

/// Changes that can be told as such; whoever is further behind gets everything.
const CHANGES_MAX: usize = 1024;
/// A part of an announcement is no longer than this, unless one subscription is.
const PART_BYTES_MAX: usize = 32 << 10;
/// In the place of a subscription's number: not what is wanted changed, but the roles.
const NO_SUBSCRIPTION: u64 = 0;
/// A full announcement is rather sent than changes that are no shorter.
const CHANGES_PER_ENTRY: usize = 1;
/// Entries with wildcards and without a filter that others are compared with; under further ones nothing disappears.
const COVERERS_MAX: usize = 64;

/// A link, by its hub's number for it.
pub type View = usize;

/// Who announces, in every announcement.
#[derive(Copy, Clone, Debug)]
pub struct Announcer {
    /// Its domain.
    pub domain: u64,
    /// Its publisher id.
    pub publisher: u64,
    /// How often it sends heartbeats.
    pub heartbeat_ms: u64,
    /// The groups of the link, if there are any beside the domain's own.
    pub groups: JoinedGroups,
}

/// Who asks for something.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Programs of this process.
    Here,
    /// Somebody behind a link.
    Behind(View),
}

#[derive(Debug)]
struct Held {
    numbered: NumberedEntry,
    /// The same without its number.
    content: Vec<u8>,
    kind: DestinationKind,
    /// `None` if it is not compared with others.
    pattern: Option<TopicPattern>,
    is_filtered: bool,
    /// Others disappear under it, wherever their patterns are covered.
    is_coverer: bool,
    /// Who asks for it, and how often.
    askers: Vec<(Asker, usize)>,
}

impl Held {
    fn is_asked_beside(&self, view: View) -> bool {
        self.askers.iter().any(|(asker, _)| *asker != Asker::Behind(view))
    }

    /// Whether all that `other` asks for is asked for here, too.
    fn covers(&self, other: &Held) -> bool {
        !self.is_filtered
            && self.kind == other.kind
            && match (&self.pattern, &other.pattern) {
                (Some(one), Some(two)) => one.covers(two),
                _ => false,
            }
    }
}

/// What is shown to one link.
#[derive(Debug)]
struct Shown {
    version: u64,
    digest: u64,
    total: u64,
    /// It is shown nothing, because it is not used.
    rests: bool,
    /// What appeared and disappeared, by number, the last of them with the present version.
    changes: VecDeque<u64>,
}

impl Shown {
    fn change(&mut self, id: u64) {
        self.version += 1;
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(id);
    }

    fn flip(&mut self, id: u64, digest: u64, is_shown: bool) {
        if is_shown {
            self.digest = self.digest.wrapping_add(digest);
            self.total += 1;
        } else {
            self.digest = self.digest.wrapping_sub(digest);
            self.total -= 1;
        }
        self.change(id);
    }
}

/// What a node wants, and what each of its links is told of that.
#[derive(Debug, Default)]
pub struct AskedInterest {
    held: BTreeMap<u64, Held>,
    by_content: HashMap<Vec<u8>, u64>,
    by_pattern: HashMap<Box<str>, Vec<u64>>,
    coverers: Vec<u64>,
    last_id: u64,
    roles: Roles,
    process: Option<Process>,
    /// Entries that disappear under others are not shown.
    covering: bool,
    /// Entries that programs of this process ask for.
    here: usize,
    views: BTreeMap<View, Shown>,
}

impl AskedInterest {
    /// Nothing, shown to nobody.
    pub fn new() -> AskedInterest {
        AskedInterest::default()
    }

    // --- getters ---

    /// Counts the changes of what a link is shown; 0 if there is no such link.
    pub fn version(&self, view: View) -> u64 {
        self.views.get(&view).map_or(0, |shown| shown.version)
    }

    /// The version of every link.
    pub fn versions(&self) -> Vec<(View, u64)> {
        self.views.iter().map(|(&view, shown)| (view, shown.version)).collect()
    }

    /// How many different subscriptions there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether programs of this process ask for something.
    pub fn is_asked_here(&self) -> bool {
        self.here > 0
    }

    /// Patterns of topics that programs of this process ask for, at most so many.
    pub fn patterns_here(&self, most: usize) -> Vec<String> {
        let is_here = |held: &&Held| held.askers.iter().any(|(asker, _)| *asker == Asker::Here);
        let topics = self.held.values().filter(|held| held.kind == DestinationKind::Topic).filter(is_here);
        let mut patterns: Vec<String> =
            topics.filter_map(|held| Some(held.pattern.as_ref()?.as_str().to_owned())).collect();
        patterns.sort_unstable();
        patterns.dedup();
        patterns.truncate(most);
        patterns
    }

    fn is_shown(&self, id: u64, view: View) -> bool {
        !self.views.get(&view).is_some_and(|shown| shown.rests)
            && self
                .held
                .get(&id)
                .is_some_and(|held| held.is_asked_beside(view) && !self.is_covered(id, held, view))
    }

    fn is_covered(&self, own: u64, held: &Held, view: View) -> bool {
        if !self.covering {
            return false;
        }
        let shows = |id: &u64| {
            *id != own
                && self.held.get(id).is_some_and(|other| other.covers(held) && other.is_asked_beside(view))
        };
        let same = held.pattern.as_ref().and_then(|pattern| self.by_pattern.get(pattern.as_str()));
        (held.is_filtered && same.is_some_and(|ids| ids.iter().any(shows))) || self.coverers.iter().any(shows)
    }

    /// Entries whose being shown may depend on this one.
    fn dependants(&self, id: u64) -> Vec<u64> {
        let mut found = vec![id];
        let Some(held) = self.held.get(&id).filter(|held| self.covering && !held.is_filtered) else {
            return found;
        };
        if held.is_coverer {
            found.extend(
                self.held.iter().filter(|(other, one)| **other != id && held.covers(one)).map(|(id, _)| *id),
            );
        } else if let Some(pattern) = &held.pattern
            && let Some(ids) = self.by_pattern.get(pattern.as_str())
        {
            found.extend(ids.iter().filter(|other| **other != id));
        }
        found
    }

    // --- commands ---

    /// Lets entries that others cover disappear, as routers do.
    pub fn set_covering(&mut self) {
        self.covering = true;
    }

    /// A link is told what others want from now on, from version 1 on.
    pub fn open(&mut self, view: View) {
        let mut shown = Shown { version: 1, digest: 0, total: 0, rests: false, changes: VecDeque::new() };
        for (_, held) in self.held.iter().filter(|(id, _)| self.is_shown(**id, view)) {
            shown.digest = shown.digest.wrapping_add(held.numbered.digest());
            shown.total += 1;
        }
        self.views.insert(view, shown);
    }

    /// A link is gone, and with it whoever asked behind it.
    pub fn shut(&mut self, view: View) {
        self.views.remove(&view);
        let asked: Vec<u64> = self
            .held
            .iter()
            .filter(|(_, held)| held.askers.iter().any(|(asker, _)| *asker == Asker::Behind(view)))
            .map(|(&id, _)| id)
            .collect();
        for id in asked {
            self.change_askers(id, |askers| askers.retain(|(asker, _)| *asker != Asker::Behind(view)));
        }
    }

    /// A link is not used, and nothing is asked for over it; or it is used again.
    pub fn set_resting(&mut self, view: View, rests: bool) {
        let ids: Vec<u64> = self.held.keys().copied().collect();
        let before: Vec<bool> = ids.iter().map(|&id| self.is_shown(id, view)).collect();
        let Some(shown) = self.views.get_mut(&view) else { return };
        shown.rests = rests;
        let after: Vec<bool> = ids.iter().map(|&id| self.is_shown(id, view)).collect();
        for ((id, before), after) in ids.into_iter().zip(before).zip(after) {
            if before != after
                && let (Some(held), Some(shown)) = (self.held.get(&id), self.views.get_mut(&view))
            {
                shown.flip(id, held.numbered.digest(), after);
            }
        }
    }

    /// Somebody asks for something, perhaps once more. Returns its number.
    pub fn ask(&mut self, asker: Asker, entry: &InterestEntry<'_>) -> Result<u64, EncodeError> {
        let mut content = Vec::new();
        entry.write(&mut content)?;
        let id = match self.by_content.get(&content) {
            Some(&id) => id,
            None => self.hold(entry, content)?,
        };
        if asker == Asker::Here {
            self.here += 1;
        }
        let known =
            self.held.get_mut(&id).and_then(|held| held.askers.iter_mut().find(|(known, _)| *known == asker));
        match known {
            Some((_, count)) => *count += 1,
            None => self.change_askers(id, |askers| askers.push((asker, 1))),
        }
        Ok(id)
    }

    /// Keeps an entry that nobody asks for yet.
    fn hold(&mut self, entry: &InterestEntry<'_>, content: Vec<u8>) -> Result<u64, EncodeError> {
        let id = self.last_id + 1;
        let numbered = NumberedEntry::new(id, entry)?;
        self.last_id = id;
        let pattern = TopicPattern::new(entry.pattern).ok();
        let is_filtered = entry.persistent_only || entry.no_local.is_some() || !entry.filters.is_empty();
        let is_coverer = !is_filtered
            && self.coverers.len() < COVERERS_MAX
            && pattern.as_ref().is_some_and(TopicPattern::has_wildcards);
        if is_coverer {
            self.coverers.push(id);
        }
        self.by_pattern.entry(entry.pattern.into()).or_default().push(id);
        self.by_content.insert(content.clone(), id);
        let (kind, askers) = (entry.kind, Vec::new());
        self.held.insert(id, Held { numbered, content, kind, pattern, is_filtered, is_coverer, askers });
        Ok(id)
    }

    /// Somebody asks for something no longer, or once less.
    pub fn withdraw(&mut self, asker: Asker, id: u64) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let Some((_, count)) = held.askers.iter_mut().find(|(known, _)| *known == asker) else { return };
        if asker == Asker::Here {
            self.here -= 1;
        }
        *count -= 1;
        if *count == 0 {
            self.change_askers(id, |askers| askers.retain(|(known, _)| *known != asker));
        }
    }

    /// Changes who asks for an entry, and notes for each link what appears and what disappears.
    fn change_askers(&mut self, id: u64, change: impl FnOnce(&mut Vec<(Asker, usize)>)) {
        let dependants = self.dependants(id);
        let states = |asked: &AskedInterest| -> Vec<Vec<bool>> {
            let of = |view: &View| dependants.iter().map(|&id| asked.is_shown(id, *view)).collect();
            asked.views.keys().map(of).collect()
        };
        let before = states(self);
        let Some(held) = self.held.get_mut(&id) else { return };
        change(&mut held.askers);
        let is_over = held.askers.is_empty();
        let after = states(self);
        for (shown, (before, after)) in self.views.values_mut().zip(before.into_iter().zip(after)) {
            for ((id, before), after) in dependants.iter().zip(before).zip(after) {
                if before != after
                    && let Some(held) = self.held.get(id)
                {
                    shown.flip(*id, held.numbered.digest(), after);
                }
            }
        }
        if is_over {
            self.drop_entry(id);
        }
    }

    fn drop_entry(&mut self, id: u64) {
        let Some(held) = self.held.remove(&id) else { return };
        self.by_content.remove(&held.content);
        self.coverers.retain(|coverer| *coverer != id);
        if let Some(pattern) = &held.pattern
            && let Some(ids) = self.by_pattern.get_mut(pattern.as_str())
        {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_pattern.remove(pattern.as_str());
            }
        }
    }

    /// Says which program this is. To be said before anything is announced.
    pub fn set_process(&mut self, process: Process) {
        self.process = Some(process);
    }

    /// Has other roles from now on.
    pub fn set_roles(&mut self, roles: Roles) {
        if std::mem::replace(&mut self.roles, roles) != roles {
            self.views.values_mut().for_each(|shown| shown.change(NO_SUBSCRIPTION));
        }
    }

    // --- output ---

    /// Everything that a link is shown, and who is lacking.
    pub fn full(&self, view: View, announcer: Announcer, missing: &[u64]) -> Vec<Vec<u8>> {
        let Some(shown) = self.views.get(&view) else { return Vec::new() };
        let visible = self.held.iter().filter(|(id, _)| self.is_shown(**id, view));
        let added: Vec<&NumberedEntry> = visible.map(|(_, held)| &held.numbered).collect();
        self.write(shown, announcer, 0, &[], &added, missing)
    }

    /// What changed for a link since a version, and who is lacking; `None` if that is too long ago, or everything is no
    /// longer.
    pub fn increment(
        &self,
        view: View,
        announcer: Announcer,
        since: u64,
        missing: &[u64],
    ) -> Option<Vec<Vec<u8>>> {
        let shown = self.views.get(&view)?;
        let behind = usize::try_from(shown.version.checked_sub(since)?).ok()?;
        let most = CHANGES_PER_ENTRY * usize::try_from(shown.total).ok()?.max(1);
        if since == 0 || behind > shown.changes.len() || behind > most {
            return None;
        }
        // Each appeared and disappeared in turn; only what is different now is told.
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        for &id in shown.changes.range(shown.changes.len() - behind..) {
            *times.entry(id).or_default() += 1;
        }
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for (id, times) in times {
            if times % 2 == 0 || id == NO_SUBSCRIPTION {
                continue;
            }
            match self.held.get(&id).filter(|_| self.is_shown(id, view)) {
                Some(held) => added.push(&held.numbered),
                None => removed.push(id),
            }
        }
        Some(self.write(shown, announcer, since, &removed, &added, missing))
    }

    fn write(
        &self,
        shown: &Shown,
        announcer: Announcer,
        base: u64,
        removed: &[u64],
        added: &[&NumberedEntry],
        missing: &[u64],
    ) -> Vec<Vec<u8>> {
        let header = AnnounceHeader {
            domain: announcer.domain,
            publisher: announcer.publisher,
            version: shown.version,
            base,
            heartbeat_ms: announcer.heartbeat_ms,
            total: shown.total,
            digest: shown.digest,
        };
        let roles = (self.roles != Roles::default()).then(|| (FACT_ROLES, self.roles.to_bytes()));
        let process = self.process.as_ref().map(|process| (FACT_PROCESS, process.to_bytes()));
        let groups = (announcer.groups.count > 0).then(|| (FACT_GROUPS, announcer.groups.to_bytes()));
        let facts: Vec<_> = roles.into_iter().chain(process).chain(groups).collect();
        let facts: Vec<Fact<'_>> = facts.iter().map(|(tag, value)| Fact { tag: *tag, value }).collect();
        Announcement { header, removed, added, missing, facts: &facts }.write(PART_BYTES_MAX)
    }
}

/// What a node without links announces, for tests and tools: an [`AskedInterest`] with one view.
#[derive(Debug)]
pub struct OwnInterest(AskedInterest);

impl Default for OwnInterest {
    fn default() -> OwnInterest {
        OwnInterest::new()
    }
}

impl OwnInterest {
    /// Nothing, at version 1.
    pub fn new() -> OwnInterest {
        let mut asked = AskedInterest::new();
        asked.open(0);
        OwnInterest(asked)
    }

    /// Counts the changes.
    pub fn version(&self) -> u64 {
        self.0.version(0)
    }

    /// How many different subscriptions there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a subscription, or counts an equal one once more, and returns its number.
    pub fn subscribe(&mut self, entry: &InterestEntry<'_>) -> Result<u64, EncodeError> {
        self.0.ask(Asker::Here, entry)
    }

    /// Takes a subscription away, once.
    pub fn unsubscribe(&mut self, id: u64) {
        self.0.withdraw(Asker::Here, id);
    }

    /// Has other roles from now on.
    pub fn set_roles(&mut self, roles: Roles) {
        self.0.set_roles(roles);
    }

    /// Everything, and who is lacking.
    pub fn full(&self, announcer: Announcer, missing: &[u64]) -> Vec<Vec<u8>> {
        self.0.full(0, announcer, missing)
    }

    /// What changed since a version, and who is lacking; `None` if that is too long ago, or everything is no longer.
    pub fn increment(&self, announcer: Announcer, since: u64, missing: &[u64]) -> Option<Vec<Vec<u8>>> {
        self.0.increment(0, announcer, since, missing)
    }
}
