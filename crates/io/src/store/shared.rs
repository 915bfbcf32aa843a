//! The log between threads: many append, one syncs for all of them.
//!
//! Whoever needs durability and finds nobody syncing takes everything that was appended so far, writes and syncs it
//! without the lock, and wakes the others. So the number of syncs does not grow with the number of appenders.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_log::{
    Appended, Clock, CommitOutcome, Cursor, Disk, Durable, Extent, GapRow, Identity, Incarnation, Log,
    LogError, MarkKey, Marks, Options, Query, Recent, RecentFrame, Recovery, RowsWriter, Snapshot, Source,
    TopicEntry, Turn, build_index, compact, extent, find_marks, gaps, offset_at, split, topics,
};

use shoal_wire::{MessageView, TopicPattern};

use super::wall_clock::WallClock;

/// How long the rows of a frame are, unless segments are short.
const FRAME_BYTES: u64 = 256 << 10;

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

struct Inner<D: Disk> {
    log: Log<D>,
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
    fn now_us(&mut self) -> u64 {
        self.clock_us.unwrap_or_else(|| self.clock.now_us())
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
        let inner = Inner {
            log,
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
        Ok((Shared { disk, inner, settled, appended, buffer_bytes_max, frame_bytes }, recovery))
    }

    fn lock(&self) -> MutexGuard<'_, Inner<D>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, mut inner: MutexGuard<'a, Inner<D>>, limit: Duration) -> MutexGuard<'a, Inner<D>> {
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
        inner.log.check()?;
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
        look(&self.lock().log)
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
        while inner.log.pending_bytes() >= self.buffer_bytes_max {
            drop(inner);
            self.sync()?;
            inner = self.open_log()?;
        }
        let now_us = inner.now_us();
        append(&mut inner.log, now_us)
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
        let end = inner.log.durable().end;
        match inner.recent.between(from, end) {
            Some(frames) if frames.last().is_some_and(|last| last.end >= end) => {
                Source::recent(self.disk.clone(), frames, end)
            }
            _ => Source::stored(self.disk.clone(), inner.log.snapshot()),
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

    /// Returns when everything that was appended before is durable, with the offset after the last message that is.
    pub fn sync(&self) -> Result<u64, LogError> {
        let mut inner = self.lock();
        let wanted = inner.log.appended();
        loop {
            inner.log.check()?;
            let Durable { segment, position, end } = inner.log.durable();
            if (segment, position) >= wanted {
                return Ok(end);
            }
            inner = match inner.log.begin_flush() {
                None => self.wait(inner, Duration::from_secs(1)),
                Some(flush) => {
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
                    let finished = inner.log.finish_flush(flush, result);
                    if inner.waiting > 0 {
                        self.settled.notify_all();
                    }
                    finished?;
                    inner
                }
            };
        }
    }

    /// Waits until something was appended, at most for `limit`, and makes it durable. False if nothing was.
    pub fn sync_next(&self, limit: Duration) -> Result<bool, LogError> {
        let deadline = Instant::now() + limit;
        let mut inner = self.lock();
        while inner.log.is_settled() && !inner.is_closed {
            inner.log.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let waited = self.appended.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_settled = inner.log.is_settled();
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
            let end = inner.log.durable().end;
            let left = deadline.saturating_duration_since(Instant::now());
            if end > offset || left.is_zero() || inner.is_closed {
                return Ok(end);
            }
            inner.log.check()?;
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
        let inner = self.open_log()?;
        let (below, snapshot) = (inner.indexed_below, inner.log.snapshot());
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
        let (floor, removable) = self.with(|log, now| {
            let floor = log.raise_floor(now, offset)?;
            Ok((floor, log.removable()))
        })?;
        self.sync()?;
        self.open_log()?.log.remove_segments(&removable)?;
        Ok((floor, removable))
    }

    /// Writes a segment anew without the messages on these topics, and without dead stagings. False if it has neither,
    /// or cannot be written anew as long as other segments refer to it.
    pub fn compact(&self, number: u32, topics: &HashSet<Vec<u8>>) -> Result<bool, LogError> {
        if !self.open_log()?.log.can_compact(number) {
            return Ok(false);
        }
        self.sync()?;
        let inner = self.open_log()?;
        let (snapshot, has_dead) = (inner.log.snapshot(), inner.log.dead_bytes(number) > 0);
        drop(inner);
        let compacted = compact(&self.disk, &snapshot, number, has_dead, |row| {
            MessageView::parse(row.record).map_or(true, |view| !topics.contains(view.name_bytes()))
        })?;
        let Some(segment) = compacted else { return Ok(false) };
        self.lock().log.replace_segment(segment.clone());
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
        self.lock().log.snapshot()
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
        self.sync()?;
        let mut inner = self.lock();
        let now_us = inner.now_us();
        inner.log.mark(now_us)?;
        drop(inner);
        self.sync()?;
        self.lock().log.let_spares_go();
        Ok(true)
    }
}
