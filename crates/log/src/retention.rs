//! Giving room back without changing an offset: old segments go, or are written anew with what survives.
//!
//! Segments go oldest first, and only after the floor above them is durable, so there is never a hole. A segment with
//! staged rows stays as long as a commit in a later segment refers to them.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cursor::{Cursor, Query, Snapshot, meaningless, read};
use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{Header, Kind, Place};
use crate::frames::Frames;
use crate::gap::Gap;
use crate::log::Log;
use crate::plan::as_it_is;
use crate::queries::walk;
use crate::row::Row;
use crate::rows::{Meta, RowsWriter};
use crate::segment::{Segment, SegmentInfo, index_name, segment_name, unfinished_name};
use crate::state::Change;

/// A frame of survivors is closed when it is so long.
const FRAME_BYTES: usize = 256 << 10;

impl<D: Disk> Log<D> {
    /// Lets history begin at the start of a segment, at the most at this offset. Returns where it begins then.
    pub fn raise_floor(&mut self, now_us: u64, offset: u64) -> Result<u64, LogError> {
        let durable = self.durable();
        let starts = self.segments.range(..=durable.segment).map(|(_, segment)| segment.first_offset);
        let floor = starts.filter(|&start| start <= offset).max().unwrap_or(0);
        if floor > self.floor() {
            self.change(now_us, vec![Change::Floor(floor)])?;
        }
        Ok(self.floor())
    }

    /// Segments below the floor that nobody needs, oldest first. They may go once everything that was appended up to now is
    /// durable: a crash takes back what is not, a floor or the discard of a staging that has its rows there.
    pub fn removable(&self) -> Vec<u32> {
        let floor = self.floor();
        let last = self.durable().segment;
        let is_needed = |number: u32| {
            let by = self.state.needed_by(number);
            by.is_some_and(|by| self.segments.get(&by).is_none_or(|one| one.end_offset > floor))
        };
        // A segment without messages that begins at the floor may have frames that another member lacks: the floor of a
        // group is the beginning of the first segment that one lacks something of.
        let may_lack = |segment: &Segment| self.numbering.is_some() && segment.first_offset >= floor;
        let may_go = |&(&number, segment): &(&u32, &Segment)| {
            let is_below = segment.end_offset <= floor && !may_lack(segment);
            number < last && is_below && segment.sealed && !is_needed(number)
        };
        self.segments.iter().take_while(may_go).map(|(&number, _)| number).collect()
    }

    /// Removes segments that were [`Log::removable`] before a sync.
    pub fn remove_segments(&mut self, numbers: &[u32]) -> Result<(), LogError> {
        self.check()?;
        for &number in numbers {
            remove_file(&self.disk, number)?;
            self.segments.remove(&number);
            self.state.forget_segment(number);
            if let Some(numbers) = &mut self.numbering {
                numbers.forget_segment(number);
            }
            self.dead.remove(&number);
        }
        Ok(())
    }

    /// Whether a segment can be written anew: it is sealed, and no other refers to it. As with [`Log::removable`], it may be
    /// done once everything that was appended up to now is durable.
    pub fn can_compact(&self, number: u32) -> bool {
        let sealed = self.segments.get(&number).is_some_and(|segment| segment.sealed);
        // Members of a group have the same frames.
        sealed
            && self.numbering.is_none()
            && number < self.durable().segment
            && self.state.needed_by(number).is_none()
    }

    /// A segment was written anew.
    pub fn replace_segment(&mut self, segment: Segment) {
        self.dead.remove(&segment.number);
        if self.segments.contains_key(&segment.number) {
            self.segments.insert(segment.number, segment);
        }
    }
}

/// Removes the file of a segment, and its index.
pub(crate) fn remove_file<D: Disk>(disk: &Arc<D>, number: u32) -> Result<(), LogError> {
    let failed = |error| LogError::io(format!("removing {}", segment_name(number)), error);
    disk.remove(&segment_name(number)).map_err(failed)?;
    // There may be none.
    let _ = disk.remove(&index_name(number));
    disk.sync_directory().map_err(failed)
}

/// Writes a sealed segment anew with the messages that `keep` keeps, at their offsets, and puts it in the place of the
/// old one, without what else it has. None if all of them are kept, and nothing is done unless it is to be done `anyway`.
pub fn compact<D: Disk>(
    disk: &Arc<D>,
    snapshot: &Snapshot,
    number: u32,
    anyway: bool,
    mut keep: impl FnMut(&Row<'_>) -> bool,
) -> Result<Option<Segment>, LogError> {
    let found = snapshot.segments.iter().find(|segment| segment.number == number && segment.sealed);
    let segment = found.ok_or_else(|| LogError::Refused(format!("there is no sealed segment {number}")))?;
    let mut frames = Frames::open(disk, snapshot.store, number)?;
    let segment = as_it_is(&mut frames, segment)?;
    // Nobody reads below the floor, and rows of commits may be gone there.
    let range = Query::range(segment.first_offset.max(snapshot.floor), segment.end_offset);
    let mut cursor = Cursor::unbounded(disk.clone(), snapshot, &range)?;
    let mut loses = anyway;
    while !loses && let Some(row) = cursor.next()? {
        loses = !keep(&row);
    }
    if !loses {
        return Ok(None);
    }
    let mut copy = Copy::begin(disk, snapshot.store, number, &mut frames)?;
    let mut gaps = gaps_of(&mut frames, &segment)?.into_iter().peekable();
    let mut cursor = Cursor::unbounded(disk.clone(), snapshot, &range)?;
    while let Some(row) = cursor.next()? {
        while let Some((header, gap)) = gaps.next_if(|(header, _)| header.offset <= row.offset) {
            copy.add_gap(&header, &gap)?;
        }
        if keep(&row) {
            copy.add_row(&row)?;
        }
    }
    for (header, gap) in gaps {
        copy.add_gap(&header, &gap)?;
    }
    let end_position = copy.finish()?;
    Ok(Some(Segment { end_position, compacted: true, ..segment }))
}

fn gaps_of<D: Disk>(frames: &mut Frames<D>, segment: &Segment) -> Result<Vec<(Header, Gap)>, LogError> {
    let mut gaps = Vec::new();
    walk(frames, (0, segment.end_position), |header, payload, name| {
        if header.kind == Kind::Gap {
            let gap = Gap::read(payload).ok_or_else(|| meaningless(name, header.offset))?;
            gaps.push((*header, gap));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(gaps)
}

/// A segment that is being written anew.
struct Copy<'a, D: Disk> {
    disk: &'a Arc<D>,
    store: u64,
    number: u32,
    file: Arc<D::File>,
    info: SegmentInfo,
    first: Header,
    position: u64,
    rows: RowsWriter,
    /// The offset of the first of the rows, the one after the last, and when they were stored.
    run: (u64, u64, u64),
}

impl<'a, D: Disk> Copy<'a, D> {
    /// Takes over the first two frames.
    fn begin(
        disk: &'a Arc<D>,
        store: u64,
        number: u32,
        frames: &mut Frames<D>,
    ) -> Result<Copy<'a, D>, LogError> {
        let first = read(frames, 0)?;
        let info = SegmentInfo::read(frames.payload(), frames.name())?;
        let checkpoint = read(frames, first.end())?;
        let created = disk.create(&unfinished_name(number), 0);
        let file =
            created.map_err(|error| LogError::io(format!("making {}", unfinished_name(number)), error))?;
        let rows = RowsWriter::default();
        let position = first.end();
        let mut copy = Copy { disk, store, number, file, info, first, position, rows, run: (0, 0, 0) };
        copy.add_frame(&checkpoint, &[frames.payload()])?;
        Ok(copy)
    }

    fn failed(&self, error: std::io::Error) -> LogError {
        let name = unfinished_name(self.number);
        // It is removed when the log is opened, at the latest.
        let _ = self.disk.remove(&name);
        if error.kind() == std::io::ErrorKind::StorageFull {
            return LogError::Full { bytes: self.position };
        }
        LogError::io(format!("writing {name}"), error)
    }

    fn add_frame(&mut self, like: &Header, payload: &[&[u8]]) -> Result<(), LogError> {
        let length = payload.iter().map(|part| part.len()).sum::<usize>() as u32;
        let place = Place { store: self.store, segment: self.number, position: self.position };
        let header = Header { place, length, synced: 0, ..*like };
        let mut bytes = Vec::new();
        header.write(payload, &mut bytes);
        self.disk.write(&self.file, self.position, &bytes).map_err(|error| self.failed(error))?;
        self.position = header.end();
        Ok(())
    }

    fn add_row(&mut self, row: &Row<'_>) -> Result<(), LogError> {
        if self.run.2 != row.stored_us || self.rows.bytes().len() >= FRAME_BYTES {
            self.add_rows()?;
        }
        if self.rows.is_empty() {
            self.run = (row.offset, row.offset, row.stored_us);
        }
        let Row { publisher, chain, number, timestamp_us, .. } = *row;
        let meta = Meta { publisher, chain, number, timestamp_us };
        self.rows.push_after(row.offset - self.run.1, &meta, row.record);
        self.run.1 = row.offset + 1;
        Ok(())
    }

    fn add_rows(&mut self) -> Result<(), LogError> {
        if !self.rows.is_empty() {
            let mut rows = std::mem::take(&mut self.rows);
            let like =
                Header { kind: Kind::Messages, offset: self.run.0, stored_us: self.run.2, ..self.first };
            self.add_frame(&like, &[rows.bytes()])?;
            rows.clear();
            self.rows = rows;
        }
        Ok(())
    }

    fn add_gap(&mut self, header: &Header, gap: &Gap) -> Result<(), LogError> {
        self.add_rows()?;
        self.add_frame(header, &[&gap.write()])
    }

    /// Puts it in the place of the old file. Returns where it ends.
    fn finish(mut self) -> Result<u64, LogError> {
        self.add_rows()?;
        let end = std::mem::replace(&mut self.position, 0);
        let (first, info) = (self.first, SegmentInfo { compacted_end: Some(end), ..self.info }.write());
        self.add_frame(&first, &[&info])?;
        let name = segment_name(self.number);
        let put = || {
            self.disk.sync(&self.file)?;
            self.disk.rename(&unfinished_name(self.number), &name)?;
            self.disk.sync_directory()
        };
        put().map_err(|error| self.failed(error))?;
        Ok(end)
    }
}
