//! What a queue or a subscription still has to deliver, and to whom it was given.
//!
//! A backlog reads its messages in the order of their offsets, and knows of each that is not done only its
//! [`Facts`]. It keeps a *window* of them; what lies behind the window is in the log, and read when there is room. Everything
//! that was looked at and is not in the window is done, so what is done comes in few runs, however many messages there are
//! and whatever lies between them.
//!
//! A message is *ready*, *waiting* for a time, or *taken* by a consumer. Nothing here is durable: what has to be is returned,
//! and a backlog is made anew from a [`Reader`] and the log. No clock, no file, no policy.

mod facts;
mod lines;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use shoal_norm::Runs;

use crate::deliveries::{Deliveries, Delivery, Grants};
use crate::readers::Reader;
use lines::{Lines, Turn};

pub use facts::{Facts, GROUP_BUCKETS};

/// Messages of a higher priority than this are looked for behind the window, too.
pub const USUAL_PRIORITY_MAX: u8 = 4;
/// Numbers from here on are no consumers: they hold messages for reservations, commits and consumers that may come back.
const HOLDERS_FROM: u64 = 1 << 60;
/// While what is done behind the window comes in more runs than this, nothing is looked for there.
const RUNS_AHEAD_MAX: usize = 65_536;
/// Orders whose last delivery time is over are forgotten when there are more than this and than messages that wait.
const ORDERS_MIN: usize = 1024;
/// A run of granted messages begins so many offsets before its first message at the most: recovery reads it.
const GRANT_REACH: u64 = 1000;
/// So many of the oldest messages are given out while what is done comes in too many runs: each makes one more at the most.
const OLDEST_MAX: usize = 64;

/// How a backlog behaves.
#[derive(Copy, Clone, Debug)]
pub struct BacklogOptions {
    /// Messages that are ready, at the most, before no more are read.
    pub window: usize,
    /// Messages that wait for their time, at the most, before no more are read.
    pub waiting_max: usize,
    /// Whether higher priorities go first; otherwise all go in the order of their offsets.
    pub by_priority: bool,
}

/// Messages that are done: what is to be noted of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Offsets that are done now, each from the first up to before the second.
    pub runs: Vec<(u64, u64)>,
    /// How many messages.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

/// How many messages are where.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ready, as far as they were read.
    pub ready: usize,
    /// Waiting for a time.
    pub waiting: usize,
    /// Given to a consumer and not acknowledged.
    pub taken: usize,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stage {
    Ready,
    Waiting(u64),
    Taken(u64),
    Expired,
}

#[derive(Copy, Clone, Debug)]
struct Entry {
    bytes: u32,
    rank: u8,
    group: Option<u16>,
    /// When it was stored, or its delivery time.
    at_us: u64,
    expires_us: u64,
    stage: Stage,
    /// The consumer that has it said that it handed it to its program.
    handed: bool,
    /// Whoever has it did not ask for it.
    seized: bool,
}

impl Entry {
    fn turn(&self, offset: u64) -> Turn {
        (self.rank, self.at_us, offset)
    }
}

#[derive(Clone, Debug, Default)]
struct Consumer {
    taken: BTreeSet<u64>,
    /// How far it has looked for messages that its own selector wants.
    place: u64,
}

/// The backlog.
#[derive(Debug)]
pub struct Backlog {
    options: BacklogOptions,
    scanned: u64,
    /// What is done at `scanned` or behind it.
    skip: Runs,
    live: BTreeMap<u64, Entry>,
    lines: Lines,
    waiting: BTreeSet<(u64, u64)>,
    /// The last delivery time of messages that keep their order.
    last_due: BTreeMap<u64, u64>,
    expiring: BTreeSet<(u64, u64)>,
    expired: Vec<u64>,
    delivered: Deliveries,
    /// What consumers that are absent were granted: their programs may have received it.
    granted: Grants,
    consumers: BTreeMap<u64, Consumer>,
    taken: usize,
}

impl Backlog {
    /// A backlog of a reader, all of whose consumers are absent.
    pub fn new(options: BacklogOptions, reader: &Reader) -> Backlog {
        Backlog {
            options,
            scanned: reader.base(),
            skip: reader.done.clone(),
            live: BTreeMap::new(),
            lines: Lines::default(),
            waiting: BTreeSet::new(),
            last_due: BTreeMap::new(),
            expiring: BTreeSet::new(),
            expired: Vec::new(),
            delivered: reader.delivered.clone(),
            granted: reader.granted.clone(),
            consumers: BTreeMap::new(),
            taken: 0,
        }
    }

    // Getters.

    /// The offset up to which the log was read.
    pub fn scanned(&self) -> u64 {
        self.scanned
    }

    /// The lowest offset that is still needed.
    pub fn pin(&self) -> u64 {
        self.live.first_key_value().map_or(self.scanned, |(offset, _)| *offset).min(self.scanned)
    }

    /// How many messages are where.
    pub fn counts(&self) -> Counts {
        Counts { ready: self.lines.count(), waiting: self.waiting.len(), taken: self.taken }
    }

    /// Whether so much is known that no more is read.
    pub fn is_full(&self) -> bool {
        self.lines.count() >= self.options.window || self.waiting.len() >= self.options.waiting_max
    }

    /// Whether it is time to read more.
    pub fn is_low(&self) -> bool {
        self.lines.count() * 2 < self.options.window && self.waiting.len() < self.options.waiting_max
    }

    /// Whether urgent messages behind the window may come into it: it grows to twice its size for them.
    pub fn has_room_ahead(&self) -> bool {
        self.options.by_priority
            && self.lines.count() < 2 * self.options.window
            && self.skip.runs() < RUNS_AHEAD_MAX
    }

    /// Messages that were read and are not done, and their bytes.
    pub fn known(&self) -> (u64, u64) {
        (self.live.len() as u64, self.live.values().map(|entry| u64::from(entry.bytes)).sum())
    }

    /// Whether a message that lies behind what was read in order is known, or done.
    pub fn is_known_ahead(&self, offset: u64) -> bool {
        self.live.contains_key(&offset) || self.skip.run_of(offset).is_some()
    }

    /// How long a message that is known may live; `None` if for ever.
    pub fn life_us(&self, offset: u64, now_us: u64) -> Option<u64> {
        let expires_us = self.live.get(&offset)?.expires_us;
        (expires_us < u64::MAX).then(|| expires_us.saturating_sub(now_us))
    }

    /// The next time at which a message is ready or expires.
    pub fn next_wake_us(&self) -> Option<u64> {
        let first = |times: &BTreeSet<(u64, u64)>| times.first().map(|(at, _)| *at);
        [first(&self.waiting), first(&self.expiring)].into_iter().flatten().min()
    }

    /// Which hand-over of a message to a program comes next: 1 is the first. 0 says that a program may have received it
    /// before, and that no hand-over is known.
    pub fn delivery_of(&self, offset: u64) -> u32 {
        match self.delivered.get(offset).map(|delivery| delivery.count) {
            Some(0) => 0,
            Some(count) => count + 1,
            None => u32::from(self.granted.get(offset).is_none()),
        }
    }

    /// What a consumer that is absent was granted under a lease, as runs: (first, last).
    pub fn granted(&self, lease: u64) -> Vec<(u64, u64)> {
        let its = self.granted.iter().filter(|(_, of)| *of == lease);
        its.map(|(run, _)| (run.start, run.end - 1)).collect()
    }

    /// Messages that are neither done nor given to anybody, as far as they were read.
    pub fn untaken(&self) -> impl Iterator<Item = u64> {
        let is_free = |entry: &Entry| matches!(entry.stage, Stage::Ready | Stage::Waiting(_));
        self.live.iter().filter(move |(_, entry)| is_free(entry)).map(|(offset, _)| *offset)
    }

    /// Whether a message is here to be looked at: not done, not waiting, and not yet read or not taken; or taken by a consumer
    /// that has it only ready, if `with_prefetched`.
    pub fn shows(&self, offset: u64, now_us: u64, with_prefetched: bool) -> bool {
        match self.live.get(&offset) {
            Some(entry) => {
                let is_consumers = matches!(entry.stage, Stage::Taken(holder) if holder < HOLDERS_FROM);
                let is_prefetched = is_consumers && !entry.handed && !entry.seized;
                (entry.stage == Stage::Ready || with_prefetched && is_prefetched) && entry.expires_us > now_us
            }
            None => offset >= self.scanned && self.skip.run_of(offset).is_none(),
        }
    }

    /// How far a consumer has looked for messages that its selector wants.
    pub fn place(&self, consumer: u64) -> u64 {
        self.consumers.get(&consumer).map_or(self.scanned, |consumer| consumer.place.max(self.pin()))
    }

    // Reading.

    /// The next message of the log that is ours. Messages are told in the order of their offsets. False if it is done, or
    /// somebody has it.
    pub fn see(&mut self, facts: &Facts, now_us: u64) -> bool {
        if facts.offset < self.scanned {
            return false;
        }
        self.scanned = facts.offset;
        let is_known = self.live.contains_key(&facts.offset) || self.skip.run_of(facts.offset).is_some();
        self.pass_to(facts.offset + 1);
        if !is_known {
            self.enter(facts, now_us);
        }
        !is_known
    }

    /// A message comes into the window.
    fn enter(&mut self, facts: &Facts, now_us: u64) {
        let facts = &self.in_order(facts, now_us);
        let entry = self.entry(facts);
        let due_us = self.due_us(facts);
        self.live.insert(facts.offset, entry);
        if entry.expires_us < u64::MAX {
            self.expiring.insert((entry.expires_us, facts.offset));
        }
        self.stand(facts.offset, due_us, now_us);
    }

    /// The same, not due before those of its publisher that came before it with the same delay, and behind them where both are
    /// due: what is known of how long they were held differs.
    fn in_order(&mut self, facts: &Facts, now_us: u64) -> Facts {
        if facts.order == 0 {
            return *facts;
        }
        if self.last_due.len() >= ORDERS_MIN && self.last_due.len() > self.waiting.len() {
            self.last_due.retain(|_, last| *last > now_us);
        }
        let last = self.last_due.entry(facts.order).or_insert(facts.due_us);
        *last = facts.due_us.max(*last);
        Facts { due_us: *last, at_us: facts.at_us.max(*last), ..*facts }
    }

    /// A message of the log that is ours and lies behind the window. An urgent one comes into it, and need not wait until
    /// everything before it was read.
    pub fn see_ahead(&mut self, facts: &Facts, now_us: u64) {
        let is_urgent = facts.priority > USUAL_PRIORITY_MAX && facts.offset >= self.scanned;
        if is_urgent && self.has_room_ahead() && !self.is_known_ahead(facts.offset) {
            self.enter(facts, now_us);
        }
    }

    /// Everything below an offset was looked at.
    pub fn pass_to(&mut self, offset: u64) {
        if offset > self.scanned {
            self.scanned = offset;
            self.skip.remove(0..offset);
        }
    }

    fn entry(&self, facts: &Facts) -> Entry {
        let rank = if self.options.by_priority { 9 - facts.priority.min(9) } else { 0 };
        let Facts { bytes, group, at_us, expires_us, .. } = *facts;
        Entry { bytes, rank, group, at_us, expires_us, stage: Stage::Ready, handed: false, seized: false }
    }

    fn due_us(&self, facts: &Facts) -> u64 {
        let again = self.delivered.get(facts.offset).map_or(0, |delivery| delivery.due_us);
        facts.due_us.max(again)
    }

    /// Puts a message where it waits or is ready. Its group waits with it only if it was delivered before.
    fn stand(&mut self, offset: u64, due_us: u64, now_us: u64) {
        let holds = self.delivered.get(offset).is_some();
        let Some(entry) = self.live.get_mut(&offset) else { return };
        if entry.expires_us <= now_us {
            entry.stage = Stage::Expired;
            self.expired.push(offset);
        } else if due_us > now_us {
            entry.stage = Stage::Waiting(due_us);
            self.waiting.insert((due_us, offset));
            if holds {
                self.lines.hold(entry.group);
            }
        } else {
            entry.stage = Stage::Ready;
            self.lines.add(entry.turn(offset), entry.group);
            self.look_again_from(offset);
        }
    }

    /// Consumers with selectors look at a message again.
    fn look_again_from(&mut self, offset: u64) {
        for consumer in self.consumers.values_mut() {
            consumer.place = consumer.place.min(offset);
        }
    }

    // Consumers.

    /// A consumer begins.
    pub fn attach(&mut self, consumer: u64) {
        self.consumers.entry(consumer).or_default();
    }

    /// A consumer has looked so far.
    pub fn set_place(&mut self, consumer: u64, place: u64) {
        if let Some(consumer) = self.consumers.get_mut(&consumer) {
            consumer.place = place;
        }
    }

    /// Gives a consumer the next messages, in the order in which they go out: at most so many, and no more once they have
    /// so many bytes.
    pub fn take(&mut self, consumer: u64, now_us: u64, messages_max: usize, bytes_max: u64) -> Vec<u64> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < messages_max && bytes < bytes_max && self.consumers.contains_key(&consumer) {
            let Some(turn) = self.lines.best(consumer) else { break };
            let offset = turn.2;
            let Some(entry) = self.live.get_mut(&offset) else { break };
            self.lines.remove(turn, entry.group);
            if entry.expires_us <= now_us {
                entry.stage = Stage::Expired;
                self.expired.push(offset);
                continue;
            }
            bytes += u64::from(entry.bytes);
            self.give(consumer, offset);
            taken.push(offset);
        }
        taken
    }

    /// Gives a consumer messages among the oldest ones that are not done, in the order of their offsets.
    pub fn take_oldest(
        &mut self,
        consumer: u64,
        now_us: u64,
        messages_max: usize,
        bytes_max: u64,
    ) -> Vec<u64> {
        let oldest: Vec<u64> = self.live.keys().copied().take(OLDEST_MAX).collect();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        for offset in oldest {
            let Some(&entry) = self.live.get(&offset) else { continue };
            let is_free = entry.stage == Stage::Ready && self.lines.allows(consumer, entry.group);
            if !is_free || entry.expires_us <= now_us || !self.consumers.contains_key(&consumer) {
                continue;
            }
            if taken.len() >= messages_max || bytes >= bytes_max {
                break;
            }
            self.lines.remove(entry.turn(offset), entry.group);
            bytes += u64::from(entry.bytes);
            self.give(consumer, offset);
            taken.push(offset);
        }
        taken
    }

    /// The offset behind the oldest messages that are not done.
    pub fn oldest_end(&self) -> u64 {
        self.live.keys().nth(OLDEST_MAX).map_or(self.scanned, |offset| (*offset).min(self.scanned))
    }

    /// Gives a consumer one message that it chose, if it may have it now. One that lies behind the window comes into
    /// it.
    pub fn take_one(&mut self, consumer: u64, facts: &Facts, now_us: u64) -> bool {
        if !self.consumers.contains_key(&consumer) || facts.expires_us <= now_us {
            return false;
        }
        let offset = facts.offset;
        match self.live.get(&offset) {
            Some(entry) => {
                if entry.stage != Stage::Ready || !self.lines.allows(consumer, entry.group) {
                    return false;
                }
                self.lines.remove(entry.turn(offset), entry.group);
            }
            None => {
                let is_behind = offset >= self.scanned && self.skip.run_of(offset).is_none();
                if !is_behind || self.due_us(facts) > now_us || !self.lines.allows(consumer, facts.group) {
                    return false;
                }
                let entry = self.entry(facts);
                self.live.insert(offset, entry);
                if entry.expires_us < u64::MAX {
                    self.expiring.insert((entry.expires_us, offset));
                }
            }
        }
        self.give(consumer, offset);
        true
    }

    fn give(&mut self, consumer: u64, offset: u64) {
        let (Some(entry), Some(to)) = (self.live.get_mut(&offset), self.consumers.get_mut(&consumer)) else {
            return;
        };
        entry.stage = Stage::Taken(consumer);
        (entry.handed, entry.seized) = (false, false);
        to.taken.insert(offset);
        self.taken += 1;
        self.lines.taken(consumer, entry.group);
    }

    /// What of these runs, both ends included, a consumer has.
    fn chosen(&self, consumer: u64, runs: &[(u64, u64)]) -> Vec<u64> {
        let Some(consumer) = self.consumers.get(&consumer) else { return Vec::new() };
        let inside = |&(first, last): &(u64, u64)| consumer.taken.range(first..=last.max(first)).copied();
        let mut chosen: Vec<u64> = runs.iter().filter(|run| run.0 <= run.1).flat_map(inside).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// How many of these runs, both ends included, a consumer has.
    pub fn has(&self, consumer: u64, runs: &[(u64, u64)]) -> usize {
        self.chosen(consumer, runs).len()
    }

    /// What acknowledging these runs, both ends included, would come to. Changes nothing.
    pub fn weigh(&self, consumer: u64, runs: &[(u64, u64)]) -> Finished {
        let mut finished = Finished::default();
        let mut exactly = Runs::default();
        for offset in self.chosen(consumer, runs) {
            exactly.insert(offset..offset + 1);
            finished.messages += 1;
            finished.bytes += self.live.get(&offset).map_or(0, |entry| u64::from(entry.bytes));
        }
        finished.runs = exactly.iter().map(|run| (run.start, run.end)).collect();
        finished
    }

    /// A consumer gets these, though it did not ask, if nobody has them.
    pub fn seize(&mut self, consumer: u64, offsets: &[u64]) {
        self.attach(consumer);
        for &offset in offsets {
            let Some(entry) = self.live.get(&offset).copied() else { continue };
            match entry.stage {
                Stage::Ready => self.lines.remove(entry.turn(offset), entry.group),
                Stage::Waiting(due_us) => {
                    self.waiting.remove(&(due_us, offset));
                    if self.delivered.get(offset).is_some() {
                        self.lines.unhold(entry.group);
                    }
                }
                Stage::Expired => {}
                Stage::Taken(_) => continue,
            }
            self.give(consumer, offset);
            if let Some(entry) = self.live.get_mut(&offset) {
                entry.seized = true;
            }
        }
    }

    /// A consumer acknowledges what it has of these runs, both ends included.
    pub fn acknowledge(&mut self, consumer: u64, runs: &[(u64, u64)]) -> Finished {
        let chosen = self.chosen(consumer, runs);
        self.finish(&chosen)
    }

    /// A commit takes what a consumer has of these runs, both ends included, out of its hold, under another number, until it is
    /// known whether the commit is done. Groups stay bound as they were. What acknowledging them comes to.
    pub fn transfer(&mut self, from: u64, to: u64, runs: &[(u64, u64)]) -> Finished {
        let weighed = self.weigh(from, runs);
        self.attach(to);
        for offset in self.chosen(from, runs) {
            if let Some(consumer) = self.consumers.get_mut(&from) {
                consumer.taken.remove(&offset);
            }
            if let Some(entry) = self.live.get_mut(&offset) {
                entry.stage = Stage::Taken(to);
            }
            if let Some(consumer) = self.consumers.get_mut(&to) {
                consumer.taken.insert(offset);
            }
        }
        weighed
    }

    /// A consumer handed what it has of these runs, both ends included, to its program.
    pub fn hand_over(&mut self, consumer: u64, runs: &[(u64, u64)]) {
        for offset in self.chosen(consumer, runs) {
            if let Some(entry) = self.live.get_mut(&offset) {
                entry.handed = true;
            }
        }
    }

    /// A consumer that was absent came back, and said what it handed over: no program received the rest under its lease.
    pub fn absolve(&mut self, lease: u64) {
        self.granted.remove_value(lease);
    }

    /// Programs may have received messages between two offsets: what of the range was not known as delivered.
    pub fn presume(&mut self, range: Range<u64>) -> Vec<(u64, u64)> {
        let known: Vec<_> = self.delivered.within(range.clone()).collect();
        let mut news = Runs::default();
        news.insert(range.clone());
        self.delivered.set(range, Delivery::default());
        for (run, delivery) in known {
            news.remove(run.clone());
            self.delivered.set(run, delivery);
        }
        news.iter().map(|run| (run.start, run.end)).collect()
    }

    /// Messages that were taken, in the order of their offsets, as runs: (first, end). A run begins right behind the message
    /// before that is not done, so that runs touch whatever was stored between their messages.
    pub fn grants_of(&self, offsets: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for offset in offsets {
            let before = self.live.range(..offset).next_back().filter(|_| offset < self.scanned);
            let start =
                before.map_or(offset, |(before, _)| (before + 1).max(offset.saturating_sub(GRANT_REACH)));
            match runs.last_mut() {
                Some(last) if last.1 >= start => last.1 = offset + 1,
                _ => runs.push((start, offset + 1)),
            }
        }
        runs
    }

    /// A message that an absent consumer may have handed over is given to another one: it stays marked, whatever the absent
    /// one says.
    pub fn keep_mark(&mut self, offset: u64) {
        if self.delivered.get(offset).is_none() {
            self.delivered.set(self.reach_of(offset), Delivery::default());
        }
    }

    /// A consumer gives back what it has of these runs, both ends included. What its program has `seen` counts as delivered:
    /// each with how often that is now.
    pub fn give_back(
        &mut self,
        consumer: u64,
        runs: &[(u64, u64)],
        seen: bool,
        due_us: u64,
        now_us: u64,
    ) -> Vec<(u64, u32)> {
        let chosen = self.chosen(consumer, runs);
        let mut counted = Vec::new();
        // From the last to the first, so that a line never offers a later one before an earlier one.
        for offset in chosen.into_iter().rev() {
            self.untake(consumer, offset);
            if seen {
                let count = self.delivered.get(offset).map_or(1, |prior| prior.count + 1);
                let due_us = if due_us > now_us { due_us } else { 0 };
                self.delivered.set(self.reach_of(offset), Delivery { count, due_us });
                counted.push((offset, count));
            }
            self.stand(offset, due_us, now_us);
        }
        counted.reverse();
        counted
    }

    fn untake(&mut self, consumer: u64, offset: u64) {
        if let Some(consumer) = self.consumers.get_mut(&consumer) {
            consumer.taken.remove(&offset);
        }
        self.taken -= 1;
        if let Some(entry) = self.live.get(&offset) {
            self.lines.untaken(entry.group);
            if let Some(first) = entry.group.and_then(|group| self.lines.first_of(group)) {
                self.look_again_from(first);
            }
        }
    }

    /// A consumer ends. What it has goes back; what it has not `unseen`, both ends included, counts as delivered.
    pub fn detach(&mut self, consumer: u64, unseen: &[(u64, u64)], now_us: u64) -> Vec<(u64, u32)> {
        self.give_back(consumer, unseen, false, 0, now_us);
        let counted = self.give_back(consumer, &[(0, u64::MAX)], true, 0, now_us);
        self.consumers.remove(&consumer);
        counted
    }

    /// A consumer is gone without a word. What it said that it handed over counts as delivered: each with how often that is
    /// now. The rest its program may have received, as far as it was granted under its lease and is not absolved.
    pub fn abandon(&mut self, consumer: u64, lease: u64, now_us: u64) -> Vec<(u64, u32)> {
        let all = self.chosen(consumer, &[(0, u64::MAX)]);
        let is_handed = |offset: &u64| self.live.get(offset).is_some_and(|entry| entry.handed);
        let (handed, perhaps): (Vec<u64>, Vec<u64>) = all.into_iter().partition(is_handed);
        let each = |offsets: &[u64]| offsets.iter().map(|&offset| (offset, offset)).collect::<Vec<_>>();
        for &offset in &perhaps {
            self.granted.set(self.reach_of(offset), lease);
        }
        self.give_back(consumer, &each(&perhaps), false, 0, now_us);
        let counted = self.give_back(consumer, &each(&handed), true, 0, now_us);
        self.consumers.remove(&consumer);
        counted
    }

    /// A message and everything behind it up to the next one that is not done.
    fn reach_of(&self, offset: u64) -> Range<u64> {
        let next = self.live.range(offset + 1..).next().map_or(self.scanned, |(next, _)| *next);
        offset..next.min(self.scanned).max(offset + 1)
    }

    /// Messages with how often each was given out, in the order of their offsets, as runs with equal counts: (first, end,
    /// count). A run lies over whatever is between its messages and is of no concern to this reader any more.
    pub fn runs_of(&self, counted: &[(u64, u32)]) -> Vec<(u64, u64, u32)> {
        let mut runs: Vec<(u64, u64, u32)> = Vec::new();
        for &(offset, count) in counted {
            let end = self.reach_of(offset).end;
            match runs.last_mut() {
                Some(last) if (last.1, last.2) == (offset, count) => last.1 = end,
                _ => runs.push((offset, end, count)),
            }
        }
        runs
    }

    // Ends of messages.

    /// These are done, whoever has them.
    pub fn finish(&mut self, offsets: &[u64]) -> Finished {
        let mut finished = Finished::default();
        let mut gone = Vec::with_capacity(offsets.len());
        for &offset in offsets {
            let Some(entry) = self.live.get(&offset).copied() else { continue };
            match entry.stage {
                Stage::Ready => self.lines.remove(entry.turn(offset), entry.group),
                Stage::Waiting(due_us) => {
                    self.waiting.remove(&(due_us, offset));
                    if self.delivered.get(offset).is_some() {
                        self.lines.unhold(entry.group);
                    }
                }
                Stage::Taken(consumer) => self.untake(consumer, offset),
                Stage::Expired => {}
            }
            if entry.expires_us < u64::MAX {
                self.expiring.remove(&(entry.expires_us, offset));
            }
            self.live.remove(&offset);
            finished.messages += 1;
            finished.bytes += u64::from(entry.bytes);
            gone.push(offset);
        }
        let mut runs = Runs::default();
        for offset in gone {
            if runs.run_of(offset).is_none() {
                runs.insert(self.run_around(offset));
            }
        }
        for run in runs.iter() {
            self.delivered.remove(run.clone());
            self.granted.remove(run);
        }
        finished.runs = runs.iter().map(|run| (run.start, run.end)).collect();
        finished
    }

    /// Everything around an offset that is done.
    fn run_around(&mut self, offset: u64) -> std::ops::Range<u64> {
        if offset >= self.scanned {
            self.skip.insert(offset..offset + 1);
            return offset..offset + 1;
        }
        let start = self.live.range(..offset).next_back().map_or(0, |(before, _)| before + 1);
        let next = self.live.range(offset + 1..).next().map_or(self.scanned, |(next, _)| *next);
        start..next.min(self.scanned)
    }

    // Time.

    /// It is so late: what waited for it is ready. Returns what expired, which is to be [finished](Backlog::finish), or
    /// [seized](Backlog::seize) and moved.
    pub fn wake(&mut self, now_us: u64) -> Vec<u64> {
        while let Some(&(due_us, offset)) = self.waiting.first().filter(|(due_us, _)| *due_us <= now_us) {
            self.waiting.remove(&(due_us, offset));
            if let Some(entry) = self.live.get(&offset).copied() {
                if self.delivered.get(offset).is_some() {
                    self.lines.unhold(entry.group);
                }
                self.stand(offset, 0, now_us);
                if let Some(first) = entry.group.and_then(|group| self.lines.first_of(group)) {
                    self.look_again_from(first);
                }
            }
        }
        let mut expired = std::mem::take(&mut self.expired);
        while let Some(&(expires_us, offset)) = self.expiring.first().filter(|(at, _)| *at <= now_us) {
            self.expiring.remove(&(expires_us, offset));
            let Some(entry) = self.live.get_mut(&offset) else { continue };
            match entry.stage {
                Stage::Ready => {
                    self.lines.remove(entry.turn(offset), entry.group);
                    entry.stage = Stage::Expired;
                    expired.push(offset);
                }
                Stage::Waiting(due_us) => {
                    self.waiting.remove(&(due_us, offset));
                    if self.delivered.get(offset).is_some() {
                        self.lines.unhold(entry.group);
                    }
                    entry.stage = Stage::Expired;
                    expired.push(offset);
                }
                // Whoever has it may still acknowledge it; if it comes back, it is not given out again.
                Stage::Taken(_) | Stage::Expired => {}
            }
        }
        // One that was seized and came back is there twice, or is somebody's.
        expired.sort_unstable();
        expired.dedup();
        expired.retain(|offset| self.live.get(offset).is_some_and(|entry| entry.stage == Stage::Expired));
        expired
    }
}
