//! The log between threads: many append, one syncs for all of them.
//!
//! Whoever needs durability and finds nobody syncing takes everything that was appended so far, writes and syncs it
//! without the lock, and wakes the others. So the number of syncs does not grow with the number of appenders.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_log::{
    Appended, Clock, CommitOutcome, Copying, Cursor, Disk, Durable, Extent, GapRow, Identity, Incarnation,
    Log, LogError, MarkKey, Marks, Options, Query, Recent, RecentFrame, Recovery, RowsWriter, Snapshot,
    Source, TopicEntry, Turn, build_index, compact, extent, find_marks, gaps, offset_at, split, topics,
};

use shoal_replica::{
    Beginning, Event, MemberLog, Options as ReplicaOptions, Refused, Replica, Transmit, term_of,
};
use shoal_wire::{MessageView, TopicPattern};

use super::wall_clock::WallClock;
use crate::bell::Bells;

/// How long the rows of a frame are, unless segments are short.
const FRAME_BYTES: u64 = 256 << 10;

/// Frames of so many bytes may wait for a majority; then appenders wait, too.
const OPEN_BYTES_MAX: usize = 32 << 20;

/// Segments stay for a member that lacks them, unless it was silent for so many election timeouts: then it gets a copy.
const AWAY_TIMEOUTS: u32 = 20;

/// Who a member of a group is.
pub struct MemberOptions {
    /// How its replica behaves.
    pub replica: ReplicaOptions,
    /// How it begins, if it has no log yet.
    pub beginning: Option<Beginning>,
}

/// What making durable has cost so far.
#[derive(Copy, Clone, Debug, Default)]
pub struct SyncStats {
    /// How many syncs.
    pub count: u64,
    /// What they wrote.
    pub bytes: u64,
    /// How long all of them took, and the longest.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
    /// The last.
    pub last: Duration,
}

/// A log, alone or as a member of a group has it.
enum Held<D: Disk> {
    Alone(Box<Log<D>>),
    Member(Box<Replica<MemberLog<D>>>),
}

pub(super) struct Inner<D: Disk> {
    held: Held<D>,
    /// The clock of a member's replica began here.
    epoch: Instant,
    /// How often the log had been cut off when it was looked at last.
    cuts: u64,
    /// Segments that a follower may remove once an index is committed.
    removable: Option<(u64, Vec<u32>)>,
    stats: SyncStats,
    is_closed: bool,
    /// Threads that wait for something to become durable.
    waiting: usize,
    /// Segments below this have their index.
    indexed_below: u32,
    recent: Recent,
    clock: WallClock,
    /// What time it is, where somebody says so: microseconds since 1970.
    clock_us: Option<u64>,
}

impl<D: Disk> Inner<D> {
    pub(super) fn log(&self) -> &Log<D> {
        match &self.held {
            Held::Alone(log) => log,
            Held::Member(replica) => replica.log().log(),
        }
    }

    fn log_mut(&mut self) -> &mut Log<D> {
        match &mut self.held {
            Held::Alone(log) => log,
            Held::Member(replica) => replica.log_mut().log_mut(),
        }
    }

    /// Now, for a replica.
    pub(super) fn now(&self) -> Duration {
        self.clock_us.map_or_else(|| self.epoch.elapsed(), Duration::from_micros)
    }

    /// The replica, if a group keeps the log.
    pub(super) fn member(&mut self) -> Option<&mut Replica<MemberLog<D>>> {
        match &mut self.held {
            Held::Alone(_) => None,
            Held::Member(replica) => Some(replica),
        }
    }

    /// The term in which this member was elected; 0 if no group keeps the log.
    fn elected(&self) -> Result<u64, LogError> {
        match &self.held {
            Held::Alone(_) => Ok(0),
            Held::Member(replica) if replica.is_elected() => Ok(replica.term()),
            Held::Member(replica) => Err(replica.failure().map_or_else(
                || LogError::Refused("another store owns the group".into()),
                |failure| LogError::Failed { why: failure.to_string() },
            )),
        }
    }

    /// Replicates what this member appended as the owner.
    fn propose_born(&mut self) -> Result<(), LogError> {
        let now = self.now();
        let Held::Member(replica) = &mut self.held else { return Ok(()) };
        for frame in replica.log_mut().log_mut().take_born() {
            match replica.propose(now, &frame.bytes) {
                Ok(index) if index == frame.index => {}
                // The log has a frame that the group does not: nothing can follow it.
                refused => {
                    let why = format!("frame {} could not be replicated: {refused:?}", frame.index);
                    replica.handle_failure(shoal_replica::LogError(why.clone()));
                    return Err(LogError::Failed { why });
                }
            }
        }
        Ok(())
    }

    /// What is on this disk counts for the group.
    fn note_synced(&mut self, number: Option<u64>) {
        let now = self.now();
        if let (Some(number), Held::Member(replica)) = (number, &mut self.held) {
            replica.handle_synced(now, number);
        }
    }

    /// The replica has done something: see what is committed. Whether it has something to send or to tell.
    fn look_at_member(&mut self) -> bool {
        let Held::Member(replica) = &mut self.held else { return false };
        while replica.poll_committed().is_some() {}
        let committed = replica.commit();
        replica.log_mut().commit_to(committed);
        let cuts = replica.log().cuts();
        let has_output = replica.has_output();
        if cuts != self.cuts {
            self.cuts = cuts;
            self.recent = Recent::default();
            self.indexed_below = 0;
            self.removable = None;
        }
        has_output
    }

    /// Removes segments below a floor that the owner raised.
    fn trim_as_follower(&mut self) -> Result<(), LogError> {
        let Held::Member(replica) = &mut self.held else { return Ok(()) };
        if replica.is_elected() {
            self.removable = None;
            return Ok(());
        }
        let committed = replica.commit();
        let log = replica.log_mut().log_mut();
        match self.removable.take() {
            Some((index, numbers)) if index <= committed => log.remove_segments(&numbers),
            Some(waiting) => {
                self.removable = Some(waiting);
                Ok(())
            }
            None => {
                let numbers = log.removable();
                self.removable = (!numbers.is_empty()).then(|| (log.last_index(), numbers));
                Ok(())
            }
        }
    }

    /// The time of the wall, never before that of an owner whose clock was ahead.
    fn now_us(&mut self) -> u64 {
        let now_us = self.clock_us.unwrap_or_else(|| self.clock.now_us());
        match &self.held {
            Held::Alone(_) => now_us,
            Held::Member(replica) => now_us.max(replica.log().log().stored_us()),
        }
    }
}

/// An open log that threads share, on a real disk or on a simulated one.
pub struct Shared<D: Disk> {
    disk: Arc<D>,
    inner: Mutex<Inner<D>>,
    /// Something is durable, or the log was closed.
    settled: Condvar,
    /// Something was appended that whoever appended it may not sync, or the log was closed.
    appended: Condvar,
    buffer_bytes_max: usize,
    frame_bytes: usize,
    /// Rung when the member of a group has something to send or to tell.
    bells: Bells,
    /// The copy of another member's log that is being fetched.
    pub(super) copying: Mutex<Option<Copying<D>>>,
    /// A sealed segment of a member that cannot be read whole.
    pub(super) damaged: Mutex<Option<u32>>,
}

impl<D: Disk> Shared<D> {
    /// Opens the log on a disk that nobody else uses, or makes one. With `clock_us` it is that time until
    /// [`Shared::set_clock_us`] says otherwise.
    pub fn on(
        disk: Arc<D>,
        options: Options,
        buffer_bytes_max: usize,
        fresh: Identity,
        clock_us: Option<u64>,
    ) -> Result<(Shared<D>, Recovery), LogError> {
        let mut clock = WallClock::new();
        let now_us = clock_us.unwrap_or_else(|| clock.now_us());
        let (log, recovery) = Log::open(disk.clone(), options, fresh, now_us)?;
        if log.is_grouped() {
            return Err(LogError::Refused(
                "the directory belongs to a member of a group: open it with the name of the group".into(),
            ));
        }
        Ok((
            Shared::holding(disk, Held::Alone(Box::new(log)), options, buffer_bytes_max, clock_us, clock),
            recovery,
        ))
    }

    /// Opens the log of a member of a group, or makes it if the group is being founded.
    pub fn on_member(
        disk: Arc<D>,
        options: Options,
        buffer_bytes_max: usize,
        member: MemberOptions,
        clock_us: Option<u64>,
    ) -> Result<(Shared<D>, Recovery), LogError> {
        let (id, beginning) = (member.replica.id, member.beginning.as_ref());
        let (log, recovery) = MemberLog::open(disk.clone(), options, id, beginning)?;
        let epoch = Instant::now();
        let now = clock_us.map_or_else(|| epoch.elapsed(), Duration::from_micros);
        let replica = Replica::new(now, member.replica, log)
            .map_err(|error| LogError::Failed { why: error.to_string() })?;
        let held = Held::Member(Box::new(replica));
        let mut shared = Shared::holding(disk, held, options, buffer_bytes_max, clock_us, WallClock::new());
        let inner = shared.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.epoch = epoch;
        inner.look_at_member();
        Ok((shared, recovery))
    }

    /// Lets the last disk that is left of a group go on alone, as another member. Nobody has the log open. Returns the offset
    /// after its last message, and when its last frame was made.
    pub fn force(disk: Arc<D>, options: Options, member: u64) -> Result<(u64, u64), LogError> {
        let mut log = MemberLog::open_any(disk, options)?;
        log.force(member)?;
        Ok((log.log().end(), log.log().stored_us()))
    }

    fn holding(
        disk: Arc<D>,
        held: Held<D>,
        options: Options,
        buffer_bytes_max: usize,
        clock_us: Option<u64>,
        clock: WallClock,
    ) -> Shared<D> {
        let inner = Inner {
            held,
            epoch: Instant::now(),
            cuts: 0,
            removable: None,
            stats: SyncStats::default(),
            is_closed: false,
            waiting: 0,
            indexed_below: 0,
            recent: Recent::default(),
            clock,
            clock_us,
        };
        let frame_bytes = (options.segment_bytes / 8).min(FRAME_BYTES) as usize;
        let (inner, settled, appended) = (Mutex::new(inner), Condvar::new(), Condvar::new());
        let bells = Bells::default();
        let (copying, damaged) = (Mutex::new(None), Mutex::new(None));
        Shared { disk, inner, settled, appended, buffer_bytes_max, frame_bytes, bells, copying, damaged }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<D>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'a>(
        &self,
        mut inner: MutexGuard<'a, Inner<D>>,
        limit: Duration,
    ) -> MutexGuard<'a, Inner<D>> {
        inner.waiting += 1;
        let waited = self.settled.wait_timeout(inner, limit);
        let mut inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        inner.waiting -= 1;
        inner
    }

    fn open_log(&self) -> Result<MutexGuard<'_, Inner<D>>, LogError> {
        let inner = self.lock();
        if inner.is_closed {
            return Err(LogError::Refused("the log is closed".into()));
        }
        inner.log().check()?;
        inner.elected()?;
        Ok(inner)
    }

    /// A frame of many messages is closed when its rows are so long: it is read whole, and fits into a segment
    /// several times.
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Whether it takes nothing more because somebody closed it.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Looks at the log.
    pub fn look<R>(&self, look: impl FnOnce(&Log<D>) -> R) -> R {
        look(self.lock().log())
    }

    /// Appends something; it is durable after [`Shared::sync`].
    pub fn with<R>(
        &self,
        append: impl FnOnce(&mut Log<D>, u64) -> Result<R, LogError>,
    ) -> Result<R, LogError> {
        let result = self.with_own_sync(append);
        self.appended.notify_all();
        result
    }

    /// Appends something, and syncs next: nobody else is woken to do it.
    fn with_own_sync<R>(
        &self,
        append: impl FnOnce(&mut Log<D>, u64) -> Result<R, LogError>,
    ) -> Result<R, LogError> {
        let mut inner = self.open_log()?;
        while inner.log().pending_bytes() >= self.buffer_bytes_max
            || inner.log().open_bytes() >= OPEN_BYTES_MAX
        {
            drop(inner);
            self.sync()?;
            inner = self.open_log()?;
        }
        let now_us = inner.now_us();
        let term = inner.elected()?;
        inner.log_mut().set_term(term)?;
        let appended = append(inner.log_mut(), now_us);
        inner.propose_born()?;
        let has_output = inner.look_at_member();
        drop(inner);
        if has_output {
            self.bells.ring();
        }
        appended
    }

    /// Appends messages.
    pub fn append(&self, rows: &RowsWriter) -> Result<(u64, u64), LogError> {
        self.with(|log, now| log.append(now, rows))
    }

    /// Appends all of a turn, in one frame, and syncs next.
    pub fn append_turn(&self, turn: &Turn) -> Result<Appended, LogError> {
        // Copied while nobody waits for it.
        let rows = (!turn.rows().is_empty()).then(|| Arc::new(turn.rows().bytes().to_vec()));
        let appended = self.with_own_sync(|log, now| log.append_turn(now, turn))?;
        if let Some(rows) = rows {
            let Appended { first, end, stored_us } = appended;
            self.lock().recent.push(RecentFrame { first, end, stored_us, rows });
        }
        Ok(appended)
    }

    /// Messages that are durable, from an offset on.
    pub fn source(&self, from: u64) -> Source<D> {
        let inner = self.lock();
        let end = inner.log().durable().end;
        match inner.recent.between(from, end) {
            Some(frames) if frames.last().is_some_and(|last| last.end >= end) => {
                Source::recent(self.disk.clone(), frames, end)
            }
            _ => Source::stored(self.disk.clone(), inner.log().snapshot()),
        }
    }

    /// From now on it is this time.
    pub fn set_clock_us(&self, clock_us: u64) {
        self.lock().clock_us = Some(clock_us);
    }

    /// What time it is for the log.
    pub fn clock_us(&self) -> u64 {
        self.lock().now_us()
    }

    /// Appends messages of one recorder, and raises its marks.
    pub fn append_recorded(
        &self,
        rows: &RowsWriter,
        numbers: &[(MarkKey, u64)],
    ) -> Result<(u64, u64), LogError> {
        self.with(|log, now| log.append_recorded(now, rows, numbers))
    }

    /// Finds out how far each chain is recorded. Before recorders of these patterns begin, and nobody else records.
    pub fn begin_recording(&self, patterns: &[TopicPattern]) -> Result<Marks, LogError> {
        self.sync()?;
        let (snapshot, known) = self.look(|log| (log.snapshot(), log.state().marks().clone()));
        let marks = find_marks(&self.disk, &snapshot, &known, patterns)?;
        self.with(|log, now| log.begin_recording(now, marks.clone()))?;
        Ok(marks)
    }

    /// Adds rows to a staging. They are durable with the commit at the latest.
    pub fn stage(&self, id: &str, rows: &RowsWriter) -> Result<(), LogError> {
        self.with(|log, now| log.stage(now, id, rows))
    }

    /// Makes stagings visible, and returns when they are durable.
    pub fn commit(&self, scope: Option<&str>, number: u64, ids: &[&str]) -> Result<CommitOutcome, LogError> {
        let outcome = self.with(|log, now| log.commit(now, scope, number, ids))?;
        self.sync()?;
        Ok(outcome)
    }

    /// Returns when everything that was appended before is durable, with the offset after the last message that is: on this
    /// disk, and on those of a majority where a group keeps the log. In a simulation it does not wait for other members.
    pub fn sync(&self) -> Result<u64, LogError> {
        let mut inner = self.lock();
        let wanted = inner.log().appended();
        let term = inner.elected()?;
        loop {
            inner.log().check()?;
            let Durable { segment, position, end } = inner.log().durable();
            if (segment, position) >= wanted {
                return Ok(end);
            }
            if inner.elected()? != term {
                return Err(LogError::Refused("another store owned the group meanwhile".into()));
            }
            let is_simulated = inner.clock_us.is_some();
            inner = match self.flush(inner)? {
                (inner, true) => inner,
                (inner, false) if is_simulated => return Ok(inner.log().durable().end),
                (inner, false) => self.wait(inner, Duration::from_secs(1)),
            };
        }
    }

    /// Writes and syncs what was appended. False if there is nothing, or another thread does it.
    fn flush<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner<D>>,
    ) -> Result<(MutexGuard<'a, Inner<D>>, bool), LogError> {
        let number = inner.member().and_then(|replica| replica.poll_sync());
        let Some(flush) = inner.log_mut().begin_flush() else {
            // What a member has to keep beside its log is durable already.
            let is_done = number.is_some() && !inner.log().is_flushing();
            if is_done {
                inner.note_synced(number);
                self.tell(&mut inner);
            }
            return Ok((inner, is_done));
        };
        drop(inner);
        let began = Instant::now();
        let result = flush.run();
        let took = began.elapsed();
        let mut inner = self.lock();
        let stats = &mut inner.stats;
        stats.count += 1;
        stats.bytes += flush.bytes() as u64;
        stats.total += took;
        stats.longest = stats.longest.max(took);
        stats.last = took;
        let finished = inner.log_mut().finish_flush(flush, result);
        match (&finished, inner.member()) {
            (Err(error), Some(replica)) => {
                replica.handle_failure(shoal_replica::LogError(error.to_string()));
            }
            _ => inner.note_synced(number),
        }
        self.tell(&mut inner);
        finished.map(|()| (inner, true))
    }

    /// Something may be durable, or have to be sent.
    pub(super) fn tell(&self, inner: &mut Inner<D>) {
        if inner.look_at_member() {
            self.bells.ring();
        }
        if inner.waiting > 0 {
            self.settled.notify_all();
        }
    }

    /// Waits until something was appended, at most for `limit`, and makes it durable. False if nothing was.
    pub fn sync_next(&self, limit: Duration) -> Result<bool, LogError> {
        let deadline = Instant::now() + limit;
        let mut inner = self.lock();
        while inner.log().is_settled() && !inner.is_closed {
            inner.log().check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let waited = self.appended.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_settled = inner.log().is_settled();
        drop(inner);
        if !is_settled {
            self.sync()?;
        }
        Ok(!is_settled)
    }

    /// Waits until a message behind this offset is durable, at most until `deadline`; the offset after the last one.
    pub fn wait_for(&self, offset: u64, deadline: Instant) -> Result<u64, LogError> {
        let mut inner = self.lock();
        loop {
            let end = inner.log().durable().end;
            let left = deadline.saturating_duration_since(Instant::now());
            if end > offset || left.is_zero() || inner.is_closed {
                return Ok(end);
            }
            inner.log().check()?;
            inner = self.wait(inner, left);
        }
    }

    /// What making durable has cost so far.
    pub fn sync_stats(&self) -> SyncStats {
        self.lock().stats
    }

    /// Begins a new incarnation.
    pub fn renew(&self, incarnation: Incarnation) -> Result<(), LogError> {
        self.with(|log, now| log.renew(now, incarnation))?;
        self.sync().map(drop)
    }

    /// Makes the next index that is missing. False if there is none.
    pub fn build_next_index(&self) -> Result<bool, LogError> {
        let inner = self.lock();
        inner.log().check()?;
        let (below, snapshot) = (inner.indexed_below, inner.log().snapshot());
        drop(inner);
        // What lies below the floor is read no more, and rows of its commits may be gone already.
        let sealed = |segment: &&shoal_log::Segment| {
            segment.sealed && segment.number >= below && segment.end_offset > snapshot.floor
        };
        let last = snapshot.segments.last().map_or(0, |segment| segment.number);
        let Some(segment) = snapshot.segments.iter().filter(sealed).find(|segment| segment.number < last)
        else {
            return Ok(false);
        };
        let result = if shoal_log::has_index(&self.disk, snapshot.store, segment)? {
            Ok(())
        } else {
            build_index(&self.disk, snapshot.store, segment)
        };
        let mut inner = self.lock();
        let is_through = matches!(result, Ok(()) | Err(LogError::Corrupt { .. }));
        if is_through && inner.indexed_below == below {
            inner.indexed_below = segment.number + 1;
        }
        result.map(|()| true)
    }

    /// Lets history begin at the start of a segment, at the most at this offset, and removes what nobody needs below.
    /// Returns where history begins then, and the segments that are gone.
    pub fn trim(&self, offset: u64) -> Result<(u64, Vec<u32>), LogError> {
        let offset = offset.min(self.needed_by_members());
        let (floor, removable) = self.with(|log, now| {
            let floor = log.raise_floor(now, offset)?;
            Ok((floor, log.removable()))
        })?;
        self.sync()?;
        let mut inner = self.open_log()?;
        if !inner.log().is_settled() && inner.member().is_some() {
            // The floor may be taken back as long as it is not committed.
            return Ok((floor, Vec::new()));
        }
        inner.log_mut().remove_segments(&removable)?;
        Ok((floor, removable))
    }

    /// Writes a segment anew without the messages on these topics, and without dead stagings. False if it has neither,
    /// or cannot be written anew as long as other segments refer to it.
    pub fn compact(&self, number: u32, topics: &HashSet<Vec<u8>>) -> Result<bool, LogError> {
        if !self.open_log()?.log().can_compact(number) {
            return Ok(false);
        }
        self.sync()?;
        let inner = self.open_log()?;
        let (snapshot, has_dead) = (inner.log().snapshot(), inner.log().dead_bytes(number) > 0);
        drop(inner);
        let compacted = compact(&self.disk, &snapshot, number, has_dead, |row| {
            MessageView::parse(row.record).map_or(true, |view| !topics.contains(view.name_bytes()))
        })?;
        let Some(segment) = compacted else { return Ok(false) };
        self.lock().log_mut().replace_segment(segment.clone());
        build_index(&self.disk, snapshot.store, &segment)?;
        Ok(true)
    }

    /// The topics of one segment; none of what lies below the floor.
    pub fn segment_topics(&self, number: u32) -> Result<Vec<TopicEntry>, LogError> {
        let snapshot = self.snapshot();
        let found = snapshot.segments.iter().find(|segment| segment.number == number);
        let segment = found.ok_or_else(|| LogError::Refused(format!("there is no segment {number}")))?;
        let query = Query::range(segment.first_offset, segment.end_offset);
        topics(&self.disk, &snapshot, &query)
    }

    /// What a cursor reads.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().log().snapshot()
    }

    /// Reads what is durable now.
    pub fn cursor(&self, query: &Query) -> Result<Cursor<D>, LogError> {
        Cursor::new(self.disk.clone(), &self.snapshot(), query)
    }

    /// Counts the messages of a query, up to so many and so many bytes.
    pub fn extent(&self, query: &Query, rows_max: u64, bytes_max: u64) -> Result<Extent, LogError> {
        extent(&self.disk, &self.snapshot(), query, rows_max, bytes_max)
    }

    /// Cuts a query into parts of about the same size.
    pub fn split(&self, query: &Query, parts: usize) -> Result<Vec<(u64, u64)>, LogError> {
        split(&self.disk, &self.snapshot(), query, parts)
    }

    /// The first offset at a time or later.
    pub fn offset_at(&self, time_us: u64, clock: Clock) -> Result<u64, LogError> {
        offset_at(&self.disk, &self.snapshot(), time_us, clock)
    }

    /// The topics of a query.
    pub fn topics(&self, query: &Query) -> Result<Vec<TopicEntry>, LogError> {
        topics(&self.disk, &self.snapshot(), query)
    }

    /// The gaps between two offsets.
    pub fn gaps(&self, start: u64, end: u64) -> Result<Vec<GapRow>, LogError> {
        gaps(&self.disk, &self.snapshot(), start, end)
    }

    /// The disk.
    pub fn disk(&self) -> &Arc<D> {
        &self.disk
    }

    /// Makes everything durable and takes nothing more. What failed stays failed. False if that was done before.
    pub fn close(&self) -> Result<bool, LogError> {
        if std::mem::replace(&mut self.lock().is_closed, true) {
            return Ok(false);
        }
        self.settled.notify_all();
        self.appended.notify_all();
        if self.is_member() {
            // Nothing may be appended that nobody replicates.
            self.sync_own()?;
        } else {
            self.sync()?;
            let mut inner = self.lock();
            let now_us = inner.now_us();
            inner.log_mut().mark(now_us)?;
            drop(inner);
            self.sync()?;
        }
        self.lock().log_mut().let_spares_go();
        Ok(true)
    }

    // The member of a group.

    /// Whether a group keeps the log.
    pub fn is_member(&self) -> bool {
        matches!(self.lock().held, Held::Member(_))
    }

    /// Rings when there is something for [`Shared::take_transmits`] or [`Shared::take_events`].
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Looks at the replica; none if no group keeps the log.
    pub fn look_at_replica<R>(
        &self,
        look: impl FnOnce(&mut Replica<MemberLog<D>>, Duration) -> R,
    ) -> Option<R> {
        let mut inner = self.lock();
        let now = inner.now();
        inner.member().map(|replica| look(replica, now))
    }

    /// A segment is another file now.
    pub(super) fn forget_segment(&self, number: u32) {
        let mut inner = self.lock();
        inner.recent = Recent::default();
        inner.indexed_below = inner.indexed_below.min(number);
    }

    /// Bytes came from another member.
    pub fn handle_message(&self, bytes: &[u8]) {
        let mut inner = self.lock();
        // What another owner appended may cut the log off, and that must not meet a flush.
        while inner.log().is_flushing()
            && inner
                .member()
                .is_some_and(|replica| !replica.is_elected() || term_of(bytes) > Some(replica.term()))
        {
            inner = self.wait(inner, Duration::from_secs(1));
        }
        let now = inner.now();
        if let Some(replica) = inner.member() {
            // Bytes that are no message are counted.
            let _ = replica.handle_message(now, bytes);
        }
        self.tell(&mut inner);
    }

    /// Time has passed: when to call this again.
    pub fn handle_timeout(&self) -> Result<Duration, LogError> {
        let mut inner = self.lock();
        let now = inner.now();
        if let Some(replica) = inner.member() {
            replica.handle_timeout(now);
        }
        self.tell(&mut inner);
        inner.trim_as_follower()?;
        let next = inner.member().map_or(now, |replica| replica.poll_timeout());
        Ok(next.saturating_sub(now))
    }

    /// Makes this member's disk durable, whether or not the group has it.
    pub fn sync_own(&self) -> Result<(), LogError> {
        let mut inner = self.lock();
        loop {
            inner = match self.flush(inner)? {
                (inner, true) => inner,
                (inner, false) if inner.log().is_flushing() => self.wait(inner, Duration::from_secs(1)),
                _ => return Ok(()),
            };
        }
    }

    /// What to send to other members.
    pub fn take_transmits(&self) -> Vec<Transmit> {
        let take = |replica: &mut Replica<MemberLog<D>>, now| {
            std::iter::from_fn(|| replica.poll_transmit(now)).collect()
        };
        self.look_at_replica(take).unwrap_or_default()
    }

    /// What happened in the group.
    pub fn take_events(&self) -> Vec<Event> {
        let take =
            |replica: &mut Replica<MemberLog<D>>, _| std::iter::from_fn(|| replica.poll_event()).collect();
        self.look_at_replica(take).unwrap_or_default()
    }

    /// A command for the replica.
    pub fn command(
        &self,
        command: impl FnOnce(&mut Replica<MemberLog<D>>, Duration) -> Result<(), Refused>,
    ) -> Result<(), LogError> {
        let mut inner = self.lock();
        let now = inner.now();
        let result = inner.member().map(|replica| command(replica, now));
        self.tell(&mut inner);
        match result {
            Some(result) => result.map_err(|refused| LogError::Refused(refused.to_string())),
            None => Err(LogError::Refused("no group keeps this log".into())),
        }
    }

    /// Up to which offset every member that is here has the log: what lies behind has to stay for those that are behind.
    fn needed_by_members(&self) -> u64 {
        let mut inner = self.lock();
        let now = inner.now();
        let Some(replica) = inner.member() else { return u64::MAX };
        let away = replica.election_timeout() * AWAY_TIMEOUTS;
        let least = replica.present(now, away).into_iter().map(|(_, index)| index).min();
        least.map_or(0, |index| inner.log().floor_for(index + 1))
    }
}
