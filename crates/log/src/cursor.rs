//! Reads messages back, in the order of their offsets.
//!
//! A cursor has a picture of the segments from when it was made, and needs neither the log nor its lock: it opens
//! files itself. What retention removes under it is an error, [`LogError::Trimmed`].

use std::io;
use std::sync::Arc;

use shoal_selector::Selector;
use shoal_wire::TopicPattern;

use crate::commit::Commit;
use crate::disk::Disk;
use crate::error::{LogError, MEANINGLESS};
use crate::filter::Filter;
use crate::frame::{Header, Kind};
use crate::frames::Frames;
use crate::gap::Gap;
use crate::plan::Plan;
use crate::row::Row;
use crate::rows::{Found, Meta, RowsPlace};
use crate::segment::Segment;
use crate::state::StagedFrame;
use crate::tail::Tail;
use crate::turn;

/// Which messages to read.
#[derive(Clone, Debug)]
pub struct Query {
    /// The first offset.
    pub start: u64,
    /// The offset after the last.
    pub end: u64,
    /// Topics that match one of them; if there is none, all.
    pub patterns: Vec<TopicPattern>,
    /// A condition on headers and properties.
    pub selector: Option<Selector>,
}

impl Query {
    /// Everything between two offsets.
    pub fn range(start: u64, end: u64) -> Query {
        Query { start, end, patterns: Vec::new(), selector: None }
    }
}

/// The segments that a cursor reads.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Whose they are.
    pub store: u64,
    /// Where history begins.
    pub floor: u64,
    /// Oldest first, as far as they are durable.
    pub segments: Vec<Segment>,
    /// Which topics the last of them has, as far as somebody asked.
    pub tail: Arc<Tail>,
}

impl Snapshot {
    /// The offset after the last message.
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.end_offset)
    }

    /// The segments that have some of the offsets, and segments with gaps between them.
    pub(crate) fn between(&self, start: u64, end: u64) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |one| one.first_offset < end && start < one.end_offset)
    }
}

/// Reads what a query asks for.
pub struct Cursor<D: Disk> {
    disk: Arc<D>,
    store: u64,
    floor: u64,
    segments: std::vec::IntoIter<Segment>,
    tail: Arc<Tail>,
    filter: Filter,
    end: u64,
    position: u64,
    source: Option<Source<D>>,
    staged: Option<Frames<D>>,
    rows: Option<Rows>,
}

/// The segment being read, and which of its frames are still to be.
struct Source<D: Disk> {
    frames: Frames<D>,
    plan: Plan,
    /// The offset and the position after the last.
    ends: (u64, u64),
}

/// The frame whose rows are being read, and what a commit has besides it.
struct Rows {
    place: RowsPlace,
    stored_us: u64,
    /// In the file of a staging, not in that of the segment.
    is_staged: bool,
    /// Each with the offset of its first row.
    commit: std::vec::IntoIter<(u64, StagedFrame)>,
}

impl<D: Disk> Cursor<D> {
    /// A cursor over what was durable when the snapshot was taken.
    pub fn new(disk: Arc<D>, snapshot: &Snapshot, query: &Query) -> Result<Cursor<D>, LogError> {
        let end = query.end.min(snapshot.end());
        if query.start < snapshot.floor && query.start < end {
            return Err(LogError::Trimmed { offset: query.start, floor: snapshot.floor });
        }
        Cursor::unbounded(disk, snapshot, query)
    }

    /// The same, also for what lies below the floor and is not removed yet.
    pub(crate) fn unbounded(disk: Arc<D>, snapshot: &Snapshot, query: &Query) -> Result<Cursor<D>, LogError> {
        let end = query.end.min(snapshot.end());
        let segments: Vec<_> = snapshot.between(query.start, end).cloned().collect();
        Ok(Cursor {
            disk,
            store: snapshot.store,
            floor: snapshot.floor,
            segments: segments.into_iter(),
            tail: snapshot.tail.clone(),
            filter: Filter::new(query.patterns.clone(), query.selector.clone()),
            end,
            position: query.start,
            source: None,
            staged: None,
            rows: None,
        })
    }

    /// The offset after the last message that was looked at, whether it matched or not.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next message that matches.
    #[allow(
        clippy::should_implement_trait,
        reason = "a row borrows from the cursor, which no iterator can lend"
    )]
    pub fn next(&mut self) -> Result<Option<Row<'_>>, LogError> {
        let Some((found, stored_us, is_staged)) = self.find()? else { return Ok(None) };
        let payload =
            if is_staged { self.staged.as_ref() } else { self.source.as_ref().map(|one| &one.frames) };
        let payload = payload.map_or(&[][..], Frames::payload);
        Ok(Some(row_of(&found, stored_us, payload)))
    }

    fn find(&mut self) -> Result<Option<(Found, u64, bool)>, LogError> {
        loop {
            if self.position >= self.end {
                return Ok(None);
            }
            if self.rows.is_none() && !self.next_frame()? {
                self.position = self.end;
                return Ok(None);
            }
            if let Some(found) = self.next_row()? {
                return Ok(Some(found));
            }
        }
    }

    /// The next row of the frame that matches; none at its end.
    fn next_row(&mut self) -> Result<Option<(Found, u64, bool)>, LogError> {
        let (Some(rows), Some(source)) = (&mut self.rows, &self.source) else { return Ok(None) };
        let frames =
            if rows.is_staged { self.staged.as_ref().unwrap_or(&source.frames) } else { &source.frames };
        let payload = frames.payload();
        loop {
            match rows.place.next(payload) {
                Ok(Some(mut found)) => {
                    if found.offset < self.position {
                        continue;
                    }
                    if found.offset >= self.end {
                        self.position = self.end;
                        return Ok(None);
                    }
                    self.position = found.offset + 1;
                    if rows.is_staged {
                        // Nobody gave it an identity before its offset did.
                        found.meta.publisher = self.store;
                        found.meta.chain = 0;
                        found.meta.number = Some(found.offset);
                    }
                    let row = row_of(&found, rows.stored_us, payload);
                    if self.filter.wants(&row) {
                        return Ok(Some((found, rows.stored_us, rows.is_staged)));
                    }
                }
                Ok(None) => break,
                Err(()) => return Err(meaningless(frames.name(), self.position)),
            }
        }
        match rows.commit.next() {
            Some(frame) => {
                let place = self.open_staged(frame)?;
                if let Some(rows) = &mut self.rows {
                    rows.place = place;
                }
            }
            None => self.rows = None,
        }
        Ok(None)
    }

    /// Goes to the next frame with messages. False at the end.
    fn next_frame(&mut self) -> Result<bool, LogError> {
        loop {
            let Some(source) = &mut self.source else {
                let Some(segment) = self.segments.next() else { return Ok(false) };
                self.open_segment(&segment)?;
                continue;
            };
            let Some(position) = source.plan.next() else {
                self.source = None;
                continue;
            };
            let header = match read(&mut source.frames, position) {
                Ok(header) => header,
                Err(error) => return Err(error.up_to(self.position, source.ends)),
            };
            source.plan.passed(&header);
            match header.kind {
                Kind::Messages | Kind::Turn => {
                    let payload = source.frames.payload();
                    let place = turn::rows_start(header.kind, payload)
                        .and_then(|start| RowsPlace::new(payload, start, header.offset))
                        .ok_or_else(|| meaningless(source.frames.name(), header.offset))?;
                    self.rows = Some(Rows {
                        place,
                        stored_us: header.stored_us,
                        is_staged: false,
                        commit: Vec::new().into_iter(),
                    });
                    return Ok(true);
                }
                Kind::Commit => {
                    let commit = Commit::read(source.frames.payload())
                        .ok_or_else(|| meaningless(source.frames.name(), header.offset))?;
                    let wanted = source.plan.offsets();
                    if self.open_commit(&header, &commit, wanted)? {
                        return Ok(true);
                    }
                }
                _ => {}
            }
        }
    }

    fn open_segment(&mut self, segment: &Segment) -> Result<(), LogError> {
        let mut frames = match Frames::open(&self.disk, self.store, segment.number) {
            Ok(frames) => frames,
            Err(LogError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LogError::Trimmed {
                    offset: self.position,
                    floor: self.floor.max(segment.end_offset),
                });
            }
            Err(error) => return Err(error),
        };
        let range = (self.position, self.end);
        let plan = Plan::make(&self.disk, &mut frames, segment, &self.tail, &self.filter, range)?;
        self.source = Some(Source { frames, plan, ends: (segment.end_offset, segment.end_position) });
        Ok(())
    }

    /// Begins to read the staged rows of a commit that lie between two offsets. False if there are none.
    fn open_commit(
        &mut self,
        header: &Header,
        commit: &Commit,
        wanted: (u64, u64),
    ) -> Result<bool, LogError> {
        let (from, to) = (wanted.0.max(self.position), wanted.1.min(self.end));
        let mut offset = header.offset;
        let mut frames = Vec::new();
        for frame in commit.frames() {
            let first = offset;
            offset += u64::from(frame.rows);
            if first < to && from < offset {
                frames.push((first, *frame));
            }
        }
        let mut frames = frames.into_iter();
        let Some(first) = frames.next() else { return Ok(false) };
        let place = self.open_staged(first)?;
        self.rows = Some(Rows { place, stored_us: header.stored_us, is_staged: true, commit: frames });
        Ok(true)
    }

    /// Goes to a frame of staged rows.
    fn open_staged(&mut self, (offset, frame): (u64, StagedFrame)) -> Result<RowsPlace, LogError> {
        let name = crate::segment::segment_name(frame.segment);
        let mut staged = match self.staged.take() {
            Some(staged) if staged.name() == name => staged,
            _ => Frames::open(&self.disk, self.store, frame.segment)?,
        };
        let header = read(&mut staged, frame.position)?;
        let start = rows_start(staged.payload()).filter(|_| header.kind == Kind::Staged);
        let place = start.and_then(|start| RowsPlace::new(staged.payload(), start, offset));
        self.staged = Some(staged);
        place.ok_or_else(|| meaningless(&name, offset))
    }
}

#[inline]
fn row_of<'a>(found: &Found, stored_us: u64, payload: &'a [u8]) -> Row<'a> {
    let Meta { publisher, chain, number, timestamp_us } = found.meta;
    let record = &payload[found.start..found.start + found.length];
    Row { offset: found.offset, stored_us, publisher, chain, number, timestamp_us, record }
}

/// Where the rows of a staged frame begin: behind the id.
pub(crate) fn rows_start(payload: &[u8]) -> Option<usize> {
    let mut reader = crate::bytes::Reader(payload);
    reader.text()?;
    Some(payload.len() - reader.0.len())
}

/// Reads a frame that must be there.
pub(crate) fn read<D: Disk>(frames: &mut Frames<D>, position: u64) -> Result<Header, LogError> {
    frames.read(position)?.map_err(|bad| LogError::Corrupt {
        file: frames.name().to_owned(),
        from: position,
        to: position,
        first: 0,
        end: 0,
        why: bad.why().to_owned(),
    })
}

pub(crate) fn meaningless(file: &str, offset: u64) -> LogError {
    LogError::Corrupt {
        file: file.to_owned(),
        from: 0,
        to: 0,
        first: offset,
        end: offset,
        why: MEANINGLESS.into(),
    }
}

/// A gap, and where it lies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct GapRow {
    /// The offset of the message after it.
    pub offset: u64,
    /// When it was stored.
    pub stored_us: u64,
    /// What is lost.
    pub gap: Gap,
}
