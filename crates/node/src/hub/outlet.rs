//! One link's buffer in one lane: frames of what is published here, and of what a router passes on.
//!
//! Messages carry neither number nor publisher: marks between them do. All messages up to the next mark are of one chain, and
//! the first mark behind a run of them is of the same chain. So whoever missed the mark before them, too, knows whose they are.
//!
//! | before a message                                            | goes                                  |
//! |-------------------------------------------------------------|---------------------------------------|
//! | numbers of its chain that this link was not given           | a skip over them                      |
//! | the first, a new millisecond, a new version of our interest | a mark: number, time and version      |
//! | messages of another chain                                   | a mark behind those, and one for this |
//!
//! Before the first skip that was decided under an announcement of a member, the lane says that it applies that announcement.

use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use shoal_norm::{NodeId, Time};
use shoal_wire::{Answered, Applied, Forgets, Mark, PassedOn, Skip, SkipReason, frame};

use super::accept::Key;
use super::applied::AppliedInterest;
use super::chain::{LinkId, Stamp};
use super::kept::Kept;
use super::losers::{Losers, OTHER_END};
use super::passing::Chain;
use super::send_error::SendError;
use crate::load::Load;

/// Chains passed on to a link of which it is known how far they are; beyond it, the one used longest ago is forgotten, and
/// what was not for the link is told there as lost.
const PASSED_MAX: usize = 4096;

/// The most bytes that skips, marks and length take before a message.
const HEAD_BYTES_MAX: usize = 192;

/// How far a chain is that is passed on.
#[derive(Debug)]
struct Passed {
    /// The number that a message has if no skip stands before it.
    next: u64,
    /// What the last mark said: timestamp, version and clock.
    marked: Option<(u64, u64, u64)>,
    hops: u8,
    /// The last number that the link was not given though it was wanted there, for want of room; 0 if there is none.
    dropped: u64,
    /// When it was used last, counted in runs, and when a message of it was appended last.
    used: u64,
    at: Time,
}

/// The answer to a request.
#[derive(Copy, Clone, Debug)]
pub(super) struct Answer {
    pub chain: Chain,
    /// Who publishes here.
    pub publisher: u64,
    /// Its first number, and the one behind the last.
    pub first: u64,
    pub end: u64,
    /// Numbers up to this one are not kept any more.
    pub forgotten: u64,
    /// What is not among the messages is unwanted there. Otherwise it may be lost.
    pub is_whole: bool,
    /// It was asked for by age: numbers before the first are older.
    pub is_by_age: bool,
    /// Whose request it is.
    pub answered: Option<Answered>,
}

/// Numbers of a chain that is passed on which a link does not get, from the first up to the end, and the version of our interest that
/// contains what its members want.
#[derive(Copy, Clone, Debug)]
pub(super) struct Skipped {
    pub key: Key,
    pub first: u64,
    pub end: u64,
    pub interest: u64,
    /// Nothing of the chain was passed on there before.
    pub begins: bool,
}

/// Whether numbers that a link does not get were skipped under that version at least.
pub(super) type IsSure<'a> = dyn Fn(LinkId, &Skipped) -> bool + 'a;
/// The same for one link.
type IsSureHere<'a> = dyn Fn(&Skipped) -> bool + 'a;

/// A link's buffer in a lane.
#[derive(Debug)]
pub(super) struct Outlet {
    pub bytes: Vec<u8>,
    /// Bytes ever appended, and messages.
    pub appended: u64,
    pub messages: u64,
    /// Of our own chain: the number before the first that it could be given, how many it was given, and how many were dropped for
    /// want of room.
    before: u64,
    own: u64,
    own_dropped: u64,
    /// Of our own chain: the number that a message has if no skip stands before it.
    pub next: u64,
    /// What the last mark of our own chain said, unless another chain's came after it.
    marked: Option<(u64, u64)>,
    /// The last mark named our own chain, or there was none.
    is_own: bool,
    /// Messages came after the last mark.
    pub unmarked: bool,
    /// Its link sends nothing of it for now, because its receivers take no more.
    pub blocked: bool,
    /// Some of what it was not given was wanted, and dropped for want of room.
    pub dropped: bool,
    /// It was on standby before anything was sent.
    has_rested: bool,
    /// The version of what we want that was announced there.
    pub version: u64,
    /// Chains that are passed on, and the one that the last mark named; none if that is our own.
    passed: HashMap<(u64, u32), Passed>,
    current: Option<(u64, u32)>,
    /// What the last mark named may have been said before on another way, so long ago.
    again: Option<Duration>,
    /// Those of them of which something was dropped, and not told yet.
    untold: Vec<(u64, u32)>,
    /// Who lost something here for good.
    pub losers: Losers,
    /// When a message of ours was appended last.
    own_at: Time,
    runs: u64,
    /// Links whose sources wait until it has room.
    pub parked: Vec<LinkId>,
    /// The longest message that whoever is behind it takes.
    pub message_bytes_max: usize,
    /// Which announcements of members skips are decided under, and the version of the hub's interest that contains them all.
    pub applied: AppliedInterest,
    pub interest: u64,
}

impl Outlet {
    /// An empty one; the first message of ours has this number.
    pub fn new(next: u64) -> Outlet {
        Outlet {
            bytes: Vec::new(),
            appended: 0,
            messages: 0,
            before: next - 1,
            own: 0,
            own_dropped: 0,
            next,
            marked: None,
            is_own: true,
            unmarked: false,
            blocked: false,
            dropped: false,
            has_rested: false,
            version: 0,
            passed: HashMap::new(),
            current: None,
            again: None,
            untold: Vec::new(),
            losers: Losers::default(),
            own_at: Time::ZERO,
            runs: 0,
            parked: Vec::new(),
            message_bytes_max: usize::MAX,
            applied: AppliedInterest::default(),
            interest: 0,
        }
    }

    /// What went there, if `last` is the number that was given last.
    pub fn load(&self, last: u64) -> Load {
        Load {
            delivered: self.messages,
            dropped_at_source: (last - self.before).saturating_sub(self.own + self.own_dropped),
            bytes_out: self.appended,
            ..Load::default()
        }
    }

    /// Whether a message can be appended: it is not too long, and there is room.
    #[inline]
    pub fn has_room(&self, length: usize, bytes_max: usize) -> bool {
        (self.bytes.is_empty() || self.bytes.len() + length <= bytes_max) && length <= self.message_bytes_max
    }

    /// Takes memory for a message, whose length is for its publisher to choose.
    #[inline]
    pub fn reserve(&mut self, length: usize) -> Result<(), SendError> {
        self.bytes.try_reserve(length + HEAD_BYTES_MAX).map_err(|_| SendError::NoMemory(length))
    }

    #[inline]
    pub fn append(&mut self, length: usize, parts: &[&[u8]]) {
        let before = self.bytes.len();
        frame::write_length(length, &mut self.bytes);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.appended += (self.bytes.len() - before) as u64;
    }

    /// Appends a message of our own.
    #[inline]
    pub fn publish(&mut self, chain: u32, number: u64, stamp: Stamp, length: usize, parts: &[&[u8]]) {
        if self.current.is_some() {
            self.return_to_own();
        }
        if self.next != number {
            self.skip(chain, number, stamp);
        }
        if self.marked != Some((stamp.timestamp_us, self.version)) {
            self.mark(chain, number, stamp);
        }
        self.next = number + 1;
        self.unmarked = true;
        self.messages += 1;
        self.own += 1;
        self.append(length, parts);
        self.own_at = stamp.clock;
    }

    /// A message of ours has no room here, though it is wanted.
    pub fn drop_own(&mut self, chain: u32, number: u64) {
        self.dropped = true;
        self.own_dropped += 1;
        self.losers.add(OTHER_END, (0, chain), number);
    }

    /// A node lost for good some of what was appended since then. Of each chain it is told how far that is: who knows when a next
    /// message of it comes?
    pub fn note_loser(&mut self, node: NodeId, (chain, stamp): (u32, Stamp), since: Time) {
        let recent = self.passed.iter().filter(|(_, passed)| passed.at > since);
        let recent: Vec<_> = recent.map(|(&key, passed)| (key, passed.next)).collect();
        for (key, next) in recent {
            self.losers.add(node, key, next - 1);
            self.enter(key, chain, stamp);
            self.mark_at(key, next);
        }
        if self.own_at > since {
            self.losers.add(node, (0, chain), self.next - 1);
            self.tell_position(chain, self.next, stamp);
        }
    }

    /// Says that the numbers before this one do not come. Whoever was welcomed expects them, though nothing was sent yet.
    #[cold]
    pub fn skip(&mut self, chain: u32, number: u64, stamp: Stamp) {
        if !self.is_own {
            // A skip belongs to the chain that the mark before it names.
            self.mark(chain, self.next, stamp);
        }
        let dropped = std::mem::take(&mut self.dropped);
        let reason = if dropped { SkipReason::Dropped } else { SkipReason::Unwanted };
        self.append_skip(reason, self.next, number - self.next);
        self.next = number;
    }

    /// What was not sent while the link was on standby may have been for those behind it: that is said before anything else.
    #[cold]
    fn tell_rested(&mut self) {
        self.has_rested = false;
        self.append_skip(SkipReason::Rests, 0, 0);
    }

    fn append_skip(&mut self, reason: SkipReason, number: u64, count: u64) {
        if self.has_rested {
            self.tell_rested();
        }
        if reason == SkipReason::Unwanted {
            self.tell_applied();
        }
        let mut record = Vec::with_capacity(24);
        Skip { reason, number, count }.write(&mut record);
        self.append(record.len(), &[&record]);
    }

    /// Says whose interest skips are decided under from here on, if that changed.
    fn tell_applied(&mut self) {
        let members = self.applied.take_unsaid();
        if !members.is_empty() {
            let mut record = Vec::with_capacity(8 + 18 * members.len());
            Applied { members }.write(&mut record);
            self.append(record.len(), &[&record]);
        }
    }

    /// Skips what this link was not given up to the last number: that was decided before another announcement is applied.
    pub fn tell_decided(&mut self, chain: u32, stamp: Stamp, last: u64) {
        if self.next <= last {
            self.tell_position(chain, last + 1, stamp);
        }
    }

    /// Says which number of ours comes next, and when it was published.
    #[cold]
    pub fn mark(&mut self, chain: u32, number: u64, stamp: Stamp) {
        let earlier_us = self.marked.map_or(0, |(timestamp_us, _)| timestamp_us);
        self.marked = Some((stamp.timestamp_us, self.version));
        self.append_mark(Mark {
            source: None,
            chain,
            number,
            timestamp_us: stamp.timestamp_us,
            clock_us: stamp.clock.as_nanos() / 1000,
            version: self.version,
            earlier_us,
            answered: None,
        });
    }

    /// Whether what waits ends by saying that this number of ours comes next.
    pub fn ends_with(&self, next: u64) -> bool {
        self.next == next && !self.unmarked && self.current.is_none() && !self.bytes.is_empty()
    }

    /// Says how far our own chain is.
    pub fn tell_position(&mut self, chain: u32, next: u64, stamp: Stamp) {
        if self.current.is_some() {
            self.return_to_own();
        }
        if self.next != next {
            self.skip(chain, next, stamp);
        }
        self.mark(chain, next, stamp);
    }

    /// Says that numbers of ours before this one do not come, and nothing after them.
    pub fn skip_own(&mut self, chain: u32, next: u64, stamp: Stamp) {
        if self.current.is_some() {
            self.return_to_own();
        }
        self.skip(chain, next, stamp);
    }

    fn append_mark(&mut self, mark: Mark) {
        if self.has_rested {
            self.tell_rested();
        }
        let mut record = Vec::with_capacity(40);
        mark.write(&mut record);
        (self.unmarked, self.is_own) = (false, mark.source.is_none());
        self.append(record.len(), &[&record]);
    }

    /// Puts a mark behind the last messages, so that who missed the one before them can number them.
    pub fn close_run(&mut self, chain: u32, stamp: Stamp) {
        if !self.unmarked {
            return;
        }
        match self.current {
            None => {
                let version =
                    std::mem::replace(&mut self.version, self.marked.map_or(0, |(_, version)| version));
                self.mark(chain, self.next, stamp);
                self.version = version;
            }
            Some(_) => self.mark_passed(),
        }
    }

    /// Nothing more comes this way for now, if anything did. What others bring meanwhile is not ours to skip, nor to call lost.
    pub fn rest(&mut self, chain: u32, stamp: Stamp) {
        // What was dropped here may come another way. If it does not, those who lack it know that.
        self.losers.forget(OTHER_END);
        if self.appended > 0 {
            self.tell_dropped(chain, stamp);
            self.close_run(chain, stamp);
            self.append_skip(SkipReason::Rests, 0, 0);
            self.passed.clear();
            (self.current, self.marked) = (None, None);
        } else {
            self.has_rested = true;
        }
    }

    /// A node behind the link is not counted on any more.
    pub fn forget(&mut self, node: NodeId, has_failed: bool) {
        self.applied.forget(node);
        if has_failed && self.appended > 0 {
            let mut record = Vec::with_capacity(8);
            Forgets { node }.write(&mut record);
            self.append(record.len(), &[&record]);
        }
    }

    // --- what is passed on ---

    /// What follows is our own again.
    #[cold]
    fn return_to_own(&mut self) {
        if self.unmarked {
            self.mark_passed();
        }
        (self.current, self.marked, self.again) = (None, None, None);
    }

    /// Says which number of the chain that is being passed on comes next.
    fn mark_passed(&mut self) {
        if let Some(key) = self.current
            && let Some(next) = self.passed.get(&key).map(|passed| passed.next)
        {
            self.mark_at(key, next);
        }
    }

    /// What follows is of a chain that is passed on; `own` and `stamp` are of our own chain of this lane.
    fn enter(&mut self, key: (u64, u32), own: u32, stamp: Stamp) {
        if self.current == Some(key) {
            return;
        }
        self.close_run(own, stamp);
        self.current = Some(key);
        (self.marked, self.again) = (None, None);
        self.runs += 1;
        let runs = self.runs;
        if let Some(passed) = self.passed.get_mut(&key) {
            (passed.used, passed.marked) = (runs, None);
        }
    }

    /// The number of a chain that comes next here, if it is passed on.
    pub fn passed_next(&self, key: (u64, u32)) -> u64 {
        self.passed.get(&key).map_or(0, |passed| passed.next)
    }

    /// The chain, from this number on if it was not passed on before.
    fn begin(&mut self, key: (u64, u32), number: u64) {
        if self.passed.contains_key(&key) {
            return;
        }
        if self.passed.len() >= PASSED_MAX {
            let oldest = self.passed.iter().min_by_key(|(_, passed)| passed.used).map(|(&key, _)| key);
            oldest.map(|key| self.passed.remove(&key));
        }
        let used = self.runs + 1;
        self.passed
            .insert(key, Passed { next: number, marked: None, hops: 0, dropped: 0, used, at: Time::ZERO });
    }

    /// Appends a message of a chain that is passed on. False if it is there already.
    #[inline]
    pub fn pass(
        &mut self,
        now: Time,
        (own, stamp): (u32, Stamp),
        chain: &Chain,
        (number, timestamp_us): (u64, u64),
        record: &[u8],
        is_sure: &IsSureHere<'_>,
    ) -> bool {
        let key = chain.key();
        if self.passed.get(&key).is_some_and(|passed| number < passed.next) {
            // Others asked for it again.
            return false;
        }
        if self.current != Some(key) || self.again.is_some() != chain.again.is_some() {
            // A chain that nobody there wanted so far begins with what was left out: whoever knows nothing of it need not ask.
            let left_out = Skipped { key, first: 1, end: number, interest: self.interest, begins: true };
            let is_new = number > 1 && !self.passed.contains_key(&key);
            self.begin(key, if is_new && is_sure(&left_out) { 1 } else { number });
            self.close_run(own, stamp);
            self.current = None;
            self.enter(key, own, stamp);
        }
        self.again = chain.again.map(|published| now.since(published));
        let version = self.version;
        let Some(passed) = self.passed.get_mut(&key) else { return false };
        passed.at = now;
        let before = std::mem::replace(&mut passed.next, number + 1);
        let said = passed.marked.map(|(timestamp_us, version, _)| (timestamp_us, version));
        if said != Some((timestamp_us, version)) || before != number {
            let dropped = before < number && std::mem::take(&mut passed.dropped) > 0;
            let clock_us = chain.clock_us(now);
            passed.marked = Some((timestamp_us, version, clock_us));
            passed.hops = chain.hops;
            let again = self.again;
            let mark = |number| Mark {
                source: Some(PassedOn { publisher: key.0, hops: chain.hops, again }),
                chain: key.1,
                number,
                timestamp_us,
                clock_us,
                version,
                earlier_us: said.map_or(0, |(timestamp_us, _)| timestamp_us),
                answered: None,
            };
            // A skip belongs to the chain that the mark before it names.
            if said.is_none() {
                self.append_mark(mark(before.min(number)));
            }
            if before < number {
                self.skip_passed(key, (before, number), dropped, is_sure);
            }
            if said.is_some_and(|said| said != (timestamp_us, version)) {
                self.append_mark(mark(number));
            }
        }
        self.unmarked = true;
        self.messages += 1;
        self.append(record.len(), &[record]);
        true
    }

    /// Skips numbers of a chain that is passed on, from the first up to the end, which is not among them.
    fn skip_passed(
        &mut self,
        key: (u64, u32),
        (first, end): (u64, u64),
        dropped: bool,
        is_sure: &IsSureHere<'_>,
    ) {
        let reason = match dropped {
            true => SkipReason::Dropped,
            false if is_sure(&Skipped { key, first, end, interest: self.interest, begins: false }) => {
                SkipReason::Unwanted
            }
            false => SkipReason::Unsure,
        };
        self.append_skip(reason, first, end - first);
    }

    /// Answers a request: what follows of the chain begins with a number, is decided under the asker's interest, and goes on from the
    /// last one. Beyond `room` bytes messages are reported as lost.
    pub fn replay(
        &mut self,
        now: Time,
        (own, stamp): (u32, Stamp),
        answer: &Answer,
        messages: &[Kept<'_>],
        room: usize,
    ) {
        let &Answer { chain, publisher, first, end, forgotten, .. } = answer;
        let (key, full) = (chain.key(), self.appended + room as u64);
        self.begin_answer((now, own, stamp), answer);
        let mut next = first;
        if forgotten >= next {
            let last = forgotten.min(end - 1);
            self.append_skip(SkipReason::Lost, next, last + 1 - next);
            self.note_unreplayed(publisher, key, last);
            next = last + 1;
        }
        let absent = if answer.is_whole { SkipReason::Unwanted } else { SkipReason::Lost };
        let mut marked = None;
        for &Kept { number, timestamp_us, at, record, lost, .. } in messages {
            if number + lost.max(1) <= next || number >= end {
                continue;
            }
            if self.appended + record.len() as u64 > full || self.reserve(record.len()).is_err() {
                break;
            }
            if next < number {
                self.append_skip(absent, next, number - next);
                next = number;
            }
            if lost > 0 {
                self.append_skip(SkipReason::Lost, next, number + lost - next);
                next = number + lost;
                continue;
            }
            if marked.replace(timestamp_us) != Some(timestamp_us) {
                self.mark_again((now, at), &chain, stamp, (number, timestamp_us), None);
            }
            self.messages += 1;
            self.append(record.len(), &[record]);
            next = number + 1;
        }
        if next < end {
            let is_cut = messages.last().is_some_and(|last| last.number >= next);
            let reason = if is_cut { SkipReason::Lost } else { absent };
            self.append_skip(reason, next, end - next);
            if reason == SkipReason::Lost {
                self.note_unreplayed(publisher, key, end - 1);
            }
        }
        self.mark_again((now, now), &chain, stamp, (end, marked.unwrap_or_default()), None);
        self.go_on_with(publisher, &chain, end);
    }

    /// Says that what follows of a chain answers a request, and goes back to where that begins.
    pub fn begin_answer(&mut self, (now, own, stamp): (Time, u32, Stamp), answer: &Answer) {
        let &Answer { chain, publisher, first, is_by_age, answered, .. } = answer;
        self.close_run(own, stamp);
        let start = if is_by_age { 1 } else { first };
        self.mark_again((now, now), &chain, stamp, (start, 0), answered);
        if first > start {
            self.append_skip(SkipReason::Older, start, first - start);
        }
        self.go_on_with(publisher, &chain, first);
    }

    /// The next message of a chain has this number; the last mark named the chain.
    fn go_on_with(&mut self, publisher: u64, chain: &Chain, next: u64) {
        (self.marked, self.again, self.current) = (None, None, None);
        if chain.publisher == publisher {
            (self.next, self.is_own) = (next, true);
            return;
        }
        let key = chain.key();
        self.begin(key, next);
        self.current = Some(key);
        if let Some(passed) = self.passed.get_mut(&key) {
            (passed.next, passed.marked, passed.dropped, passed.hops) = (next, None, 0, chain.hops);
        }
    }

    fn note_unreplayed(&mut self, publisher: u64, key: (u64, u32), last: u64) {
        self.losers.add(OTHER_END, if key.0 == publisher { (0, key.1) } else { key }, last);
    }

    fn mark_again(
        &mut self,
        (now, published): (Time, Time),
        chain: &Chain,
        stamp: Stamp,
        (number, timestamp_us): (u64, u64),
        answered: Option<Answered>,
    ) {
        let again = Some(now.since(published));
        let clock_us = if chain.hops == 0 { stamp.clock.as_nanos() / 1000 } else { chain.clock_us(now) };
        self.append_mark(Mark {
            source: Some(PassedOn { publisher: chain.publisher, hops: chain.hops, again }),
            chain: chain.chain,
            number,
            timestamp_us,
            clock_us,
            version: self.version,
            earlier_us: timestamp_us,
            answered,
        });
    }

    /// A message of a chain that is passed on has no room here.
    pub fn drop_passed(&mut self, chain: &Chain, number: u64) {
        self.begin(chain.key(), number);
        if let Some(passed) = self.passed.get_mut(&chain.key()) {
            if passed.dropped == 0 && !self.untold.contains(&chain.key()) {
                self.untold.push(chain.key());
            }
            passed.dropped = number;
        }
        self.losers.add(OTHER_END, chain.key(), number);
    }

    /// Says what was dropped of chains that are passed on: who knows when a next message of them comes?
    pub fn tell_dropped(&mut self, own: u32, stamp: Stamp) {
        for key in std::mem::take(&mut self.untold) {
            let Some(passed) = self.passed.get_mut(&key) else { continue };
            let (first, last) = (passed.next, std::mem::take(&mut passed.dropped));
            if last >= first {
                passed.next = last + 1;
                self.enter(key, own, stamp);
                self.mark_at(key, first);
                self.append_skip(SkipReason::Dropped, first, last - first + 1);
            }
        }
    }

    /// Numbers of a chain that is passed on are lost to us, and may have been for those behind this link: if some of it was
    /// passed on there, or if it `begins` with that.
    pub fn lose(
        &mut self,
        (own, stamp): (u32, Stamp),
        chain: &Chain,
        (first, last): (u64, u64),
        begins: bool,
        is_sure: &IsSureHere<'_>,
    ) {
        let key = chain.key();
        if begins {
            self.begin(key, first);
        }
        if !self.passed.contains_key(&key) {
            return;
        }
        self.enter(key, own, stamp);
        let Some(passed) = self.passed.get_mut(&key) else { return };
        passed.hops = passed.hops.max(chain.hops);
        let (next, dropped) = (passed.next, std::mem::take(&mut passed.dropped) > 0);
        passed.next = next.max(last + 1);
        self.mark_at(key, next);
        if first > next {
            self.skip_passed(key, (next, first), dropped, is_sure);
        }
        // What was skipped as unwanted before, and is known to be lost only now, stands behind where we are.
        if first < next {
            self.append_skip(SkipReason::Lost, first, last.min(next - 1) - first + 1);
        }
        if last >= next {
            let first = first.max(next);
            self.append_skip(SkipReason::Lost, first, last - first + 1);
        }
    }

    /// Says how far a chain is that is passed on: whoever read some of it another way before may lack what came since.
    pub fn tell_passed(
        &mut self,
        (own, stamp): (u32, Stamp),
        key: (u64, u32),
        next: u64,
        is_sure: &IsSureHere<'_>,
    ) {
        self.begin(key, next);
        let Some(passed) = self.passed.get_mut(&key) else { return };
        let before = passed.next;
        passed.next = next.max(before);
        let dropped = std::mem::take(&mut passed.dropped) > 0;
        self.enter(key, own, stamp);
        self.mark_at(key, before);
        if before < next {
            self.skip_passed(key, (before, next), dropped, is_sure);
        }
    }

    /// A chain that was passed on here comes from here now: others bring it, and what they bring is not for us to skip.
    #[inline]
    pub fn leave(&mut self, (own, stamp): (u32, Stamp), key: (u64, u32)) {
        let Some(passed) = self.passed.get(&key) else { return };
        let next = passed.next;
        self.enter(key, own, stamp);
        self.mark_at(key, next);
        self.append_skip(SkipReason::Rests, next, 0);
        self.passed.remove(&key);
        (self.current, self.marked) = (None, None);
    }

    fn mark_at(&mut self, key: (u64, u32), number: u64) {
        let Some(passed) = self.passed.get(&key) else { return };
        let (timestamp_us, _, clock_us) = passed.marked.unwrap_or_default();
        self.append_mark(Mark {
            source: Some(PassedOn { publisher: key.0, hops: passed.hops, again: self.again }),
            chain: key.1,
            number,
            timestamp_us,
            clock_us,
            version: self.version,
            earlier_us: timestamp_us,
            answered: None,
        });
    }
}
