//! The log: appends, and what becomes durable.
//!
//! Methods come in three kinds. *Getters* tell; *commands* append frames to a buffer, give offsets and change the
//! state at once; [`Log::begin_flush`], [`Flush::run`] and [`Log::finish_flush`] make them durable, the middle one
//! without the log, so that others append meanwhile. Nothing is visible to a [`Cursor`](crate::Cursor) before it is
//! durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::commit::Commit;
use crate::cursor::Snapshot;
use crate::disk::Disk;
use crate::error::LogError;
use crate::flush::{Chunk, Durable, Flush};
use crate::frame::{HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, Place, frame_bytes};
use crate::gap::Gap;
use crate::marks::{MARK_BYTES, MARKS_MAX, MarkKey, Marks};
use crate::numbering::{Indexed, Numbering};
use crate::rows::RowsWriter;
use crate::segment::{INFO_BYTES, Incarnation, Segment, SegmentInfo, Start};
use crate::spares::{Spare, Spares};
use crate::state::{Change, StagedFrame, State, check_name};
use crate::tail::Tail;

/// How a log is kept.
#[derive(Copy, Clone, Debug)]
pub struct Options {
    /// How long a segment is, unless a single message is longer.
    pub segment_bytes: u64,
    /// The state is no larger. It is written at the start of every segment.
    pub state_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { segment_bytes: 64 << 20, state_bytes_max: 8 << 20 }
    }
}

/// Stagings that are open at once.
pub const STAGINGS_MAX: usize = 10_000;

/// What a frame may use: messages leave the spare segments to changes of the state.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Messages,
    State,
}

/// The segment that takes frames.
pub(crate) struct Active<D: Disk> {
    pub number: u32,
    pub file: Arc<D::File>,
    pub capacity: u64,
    pub position: u64,
    /// The file was written up to here, with zeros behind the frames.
    pub written: u64,
}

/// What a commit came to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Its rows have these offsets, from the first up to before the second.
    Done(u64, u64),
    /// It was made before, with these.
    Repeated(u64, u64),
    /// One with a higher number was made: this one must have been, too.
    Older,
}

/// An open log.
pub struct Log<D: Disk> {
    pub(crate) disk: Arc<D>,
    pub(crate) options: Options,
    pub(crate) store: u64,
    pub(crate) incarnation: Incarnation,
    pub(crate) segments: BTreeMap<u32, Segment>,
    pub(crate) active: Option<Active<D>>,
    pub(crate) spares: Spares<D>,
    pub(crate) state: State,
    pub(crate) end: u64,
    /// What is visible: on this disk, and committed where a group keeps the log.
    pub(crate) durable: Durable,
    /// What is on this disk.
    pub(crate) synced: Durable,
    pub(crate) stored_us: u64,
    pub(crate) marked: bool,
    /// Whether the last segment begins with the whole state. A follower may have nothing of a segment but its first frame.
    pub(crate) is_stated: bool,
    /// Where frames stand in the log of a group; none if no group keeps it.
    pub(crate) numbering: Option<Box<Numbering>>,
    pub(crate) pending: Vec<Chunk<D>>,
    pending_bytes: usize,
    pub(crate) flushing: bool,
    failed: Option<String>,
    tail: Arc<Tail>,
    /// Bytes of discarded stagings, by segment, as far as they were discarded since the log was opened: nothing but a
    /// reason to write a segment anew.
    pub(crate) dead: BTreeMap<u32, u64>,
}

impl<D: Disk> Log<D> {
    pub(crate) fn empty(disk: Arc<D>, options: Options, store: u64, incarnation: Incarnation) -> Log<D> {
        Log {
            spares: Spares::new(disk.clone(), options.segment_bytes),
            disk,
            options,
            store,
            incarnation,
            segments: BTreeMap::new(),
            active: None,
            state: State::default(),
            end: 0,
            durable: Durable::default(),
            synced: Durable::default(),
            stored_us: 0,
            marked: true,
            is_stated: true,
            numbering: None,
            pending: Vec::new(),
            pending_bytes: 0,
            flushing: false,
            failed: None,
            tail: Arc::default(),
            dead: BTreeMap::new(),
        }
    }

    // Getters.

    /// Which store this is.
    pub fn store(&self) -> u64 {
        self.store
    }

    /// Which life of the store.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// How it is kept.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The offset that the next message gets.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Up to where it is durable.
    pub fn durable(&self) -> Durable {
        self.durable
    }

    /// The segment and the position in it up to which something was appended.
    pub fn appended(&self) -> (u32, u64) {
        self.active.as_ref().map_or((0, 0), |active| (active.number, active.position))
    }

    /// When the last frame was made, microseconds since 1970.
    pub fn stored_us(&self) -> u64 {
        self.stored_us
    }

    /// Where history begins.
    pub fn floor(&self) -> u64 {
        self.state.floor()
    }

    /// The state with everything that was appended.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Runs of committed rows that are durable and still to be published.
    pub fn unpublished(&self) -> impl Iterator<Item = (u64, u64)> {
        let visible = self.durable.end;
        let runs = self.state.unpublished().take_while(move |&(first, _)| first < visible);
        runs.map(move |(first, end)| (first, end.min(visible)))
    }

    /// Bytes of discarded stagings in a segment, as far as is known.
    pub fn dead_bytes(&self, segment: u32) -> u64 {
        self.dead.get(&segment).copied().unwrap_or(0)
    }

    /// Bytes that were appended and are not being written yet.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Whether everything that was appended is durable.
    pub fn is_settled(&self) -> bool {
        let is_open = self.numbering.as_ref().is_some_and(|numbering| !numbering.is_settled());
        !is_open && self.pending.is_empty() && !self.flushing
    }

    /// Whether something that was appended is being written.
    pub fn is_flushing(&self) -> bool {
        self.flushing
    }

    /// Why it takes nothing more, if it does not.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Refuses once something failed.
    pub fn check(&self) -> Result<(), LogError> {
        match &self.failed {
            Some(why) => Err(LogError::Failed { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// What a cursor reads: everything that is durable now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            store: self.store,
            floor: self.state.floor(),
            segments: self.segments(),
            tail: self.tail.clone(),
        }
    }

    /// The segments, as far as they are durable, oldest first.
    pub fn segments(&self) -> Vec<Segment> {
        let durable = self.durable;
        let mut segments: Vec<_> =
            self.segments.range(..=durable.segment).map(|(_, one)| one.clone()).collect();
        if let Some(last) = segments.last_mut()
            && last.number == durable.segment
        {
            last.end_position = durable.position;
            last.end_offset = durable.end;
        }
        segments
    }

    // Commands.

    /// Appends messages. They have offsets from the first up to before the second number.
    pub fn append(&mut self, now_us: u64, rows: &RowsWriter) -> Result<(u64, u64), LogError> {
        let first = self.end;
        if !rows.is_empty() {
            self.add(Kind::Messages, &[rows.bytes()], Class::Messages, now_us)?;
            self.end += u64::from(rows.count());
            self.note_end();
        }
        Ok((first, self.end))
    }

    /// Appends messages of one recorder, and raises its marks: of each chain the number of the last message.
    pub fn append_recorded(
        &mut self,
        now_us: u64,
        rows: &RowsWriter,
        numbers: &[(MarkKey, u64)],
    ) -> Result<(u64, u64), LogError> {
        let offsets = self.append(now_us, rows)?;
        let (marks, stored_us) = (&mut self.state.marks, self.stored_us);
        for &(key, number) in numbers {
            if marks.has_lane(key.lane) {
                marks.raise(key, number, stored_us);
            }
        }
        marks.cover(offsets.1);
        marks.trim(MARKS_MAX.min(self.options.state_bytes_max / 4 / MARK_BYTES));
        Ok(offsets)
    }

    /// Recording begins, with the marks that were [found](crate::find_marks). They are written down, so that it does not
    /// matter how many segments begin before the next of them is raised.
    pub fn begin_recording(&mut self, now_us: u64, mut marks: Marks) -> Result<(), LogError> {
        marks.trim(MARKS_MAX.min(self.options.state_bytes_max / 4 / MARK_BYTES));
        if marks == self.state.marks {
            return self.check();
        }
        let mut payload = Vec::new();
        marks.changes().for_each(|change| change.write(&mut payload));
        self.add(Kind::Change, &[&payload], Class::State, now_us)?;
        self.state.marks = marks;
        Ok(())
    }

    /// Notes that messages are lost.
    pub fn append_gap(&mut self, now_us: u64, gap: &Gap) -> Result<(), LogError> {
        self.add(Kind::Gap, &[&gap.write()], Class::State, now_us).map(drop)
    }

    /// Adds rows to a staging, which the first of them begins.
    pub fn stage(&mut self, now_us: u64, id: &str, rows: &RowsWriter) -> Result<(), LogError> {
        check_name("staging id", id)?;
        if self.state.staging(id).is_none() && self.state.stagings().count() >= STAGINGS_MAX {
            return Err(LogError::Refused(format!(
                "{STAGINGS_MAX} stagings are open: commit or discard some first"
            )));
        }
        self.check_state_room(id.len() + 64)?;
        let mut head = Vec::new();
        crate::bytes::write_text(&mut head, id);
        let bytes = (head.len() + rows.bytes().len()) as u32;
        let place = self.add(Kind::Staged, &[&head, rows.bytes()], Class::Messages, now_us)?;
        let frame =
            StagedFrame { segment: place.segment, position: place.position, rows: rows.count(), bytes };
        self.state.add_staged(id, frame, self.stored_us);
        Ok(())
    }

    /// Makes stagings visible, in this order, under a number that is used once in its scope. Without a scope nothing
    /// is remembered, and repeating it finds no stagings.
    pub fn commit(
        &mut self,
        now_us: u64,
        scope: Option<&str>,
        number: u64,
        ids: &[&str],
    ) -> Result<CommitOutcome, LogError> {
        self.check()?;
        if let Some(scope) = scope {
            check_name("scope", scope)?;
        }
        let scope = scope.unwrap_or_default();
        match self.state.committed(scope) {
            Some(last) if last.number == number => return Ok(CommitOutcome::Repeated(last.first, last.end)),
            Some(last) if last.number > number => return Ok(CommitOutcome::Older),
            _ => {}
        }
        let mut stagings = Vec::with_capacity(ids.len());
        for &id in ids {
            if stagings.iter().any(|(seen, _)| seen == id) {
                return Err(LogError::Refused(format!("the commit names the staging {id:?} twice")));
            }
            let staging = self.state.staging(id).ok_or_else(|| {
                LogError::Refused(format!(
                    "there is no staging {id:?}: it was never made, was discarded, or expired"
                ))
            })?;
            stagings.push((id.to_owned(), staging.frames.clone()));
        }
        self.check_state_room(scope.len() + 64)?;
        let commit = Commit { scope: scope.to_owned(), number, stagings };
        let header = self.add_frame(Kind::Commit, &[&commit.write()], Class::State, now_us)?;
        commit.apply(&header, &mut self.state);
        let first = self.end;
        self.end += commit.rows();
        self.note_end();
        Ok(CommitOutcome::Done(first, self.end))
    }

    /// Changes the state.
    pub fn change(&mut self, now_us: u64, changes: Vec<Change>) -> Result<(), LogError> {
        let mut payload = Vec::new();
        for change in &changes {
            change.check()?;
            change.write(&mut payload);
        }
        let growth: usize = changes.iter().map(|change| self.growth(change)).sum();
        if growth > 0 {
            self.check_state_room(growth)?;
        }
        self.add(Kind::Change, &[&payload], Class::State, now_us)?;
        for change in changes {
            if let Change::Discard(id) = &change {
                for frame in self.state.staging(id).into_iter().flat_map(|staging| &staging.frames) {
                    *self.dead.entry(frame.segment).or_default() += u64::from(frame.bytes);
                }
            }
            self.state.apply(change);
        }
        Ok(())
    }

    /// Proves that everything before was durable: damage to it is then never taken for a torn tail. Worth its few
    /// bytes when the log is closed, or nothing was appended for a while.
    pub fn mark(&mut self, now_us: u64) -> Result<(), LogError> {
        if !self.marked && self.is_settled() {
            self.add(Kind::Change, &[], Class::State, now_us)?;
            self.marked = true;
        }
        Ok(())
    }

    /// Begins a new incarnation, in a new segment: the store was restored, and cursors of its former life mean
    /// something else.
    pub fn renew(&mut self, now_us: u64, incarnation: Incarnation) -> Result<(), LogError> {
        self.check()?;
        self.stored_us = self.stored_us.max(now_us);
        let former = std::mem::replace(&mut self.incarnation, incarnation);
        let rolled = self.roll(Class::State, 0);
        if rolled.is_err() {
            self.incarnation = former;
        }
        rolled
    }

    /// Lets the next message begin a new segment, so that retention can deal with the last one.
    pub fn seal(&mut self, now_us: u64) -> Result<(), LogError> {
        self.check()?;
        self.stored_us = self.stored_us.max(now_us);
        self.roll(Class::Messages, 0)
    }

    /// How many segments are made in advance, and their bytes.
    pub fn spares(&self) -> (usize, u64) {
        (self.spares.count(), self.spares.bytes())
    }

    /// Closes the spare segments of a log that nothing is appended to any more: an open file takes room on the disk though its
    /// directory was removed.
    pub fn let_spares_go(&mut self) {
        self.spares.let_go();
    }

    /// Has spare segments made, if some are missing and the disk has room.
    pub fn fill_spares(&mut self) -> Result<(), LogError> {
        self.spares.fill()
    }

    // Making durable.

    /// Takes everything that was appended, to be written. None if there is nothing, or a flush is under way.
    pub fn begin_flush(&mut self) -> Option<Flush<D>> {
        if self.flushing || self.pending.is_empty() || self.failed.is_some() {
            return None;
        }
        let active = self.active.as_mut()?;
        self.flushing = true;
        self.pending_bytes = 0;
        let mut chunks = std::mem::take(&mut self.pending);
        if let Some(last) = chunks.last_mut() {
            active.written = last.clear_ahead(active.written, active.capacity);
        }
        Some(Flush {
            disk: self.disk.clone(),
            chunks,
            reached: Durable { segment: active.number, position: active.position, end: self.end },
        })
    }

    /// Says how it went. After an error the log takes nothing more: what is on the disk is not known.
    pub fn finish_flush(&mut self, flush: Flush<D>, result: Result<(), LogError>) -> Result<(), LogError> {
        self.flushing = false;
        match result {
            Ok(()) => {
                self.synced = flush.reached;
                self.look_how_far();
                Ok(())
            }
            Err(error) => {
                self.failed = Some(error.to_string());
                self.check()
            }
        }
    }

    /// Makes everything durable at once, for whoever is alone with the log.
    pub fn flush(&mut self) -> Result<(), LogError> {
        self.check()?;
        match self.begin_flush() {
            Some(flush) => {
                let result = flush.run();
                self.finish_flush(flush, result)
            }
            None => Ok(()),
        }
    }

    // Frames.

    pub(crate) fn add(
        &mut self,
        kind: Kind,
        payload: &[&[u8]],
        class: Class,
        now_us: u64,
    ) -> Result<Place, LogError> {
        self.add_frame(kind, payload, class, now_us).map(|header| header.place)
    }

    fn add_frame(
        &mut self,
        kind: Kind,
        payload: &[&[u8]],
        class: Class,
        now_us: u64,
    ) -> Result<Header, LogError> {
        self.check()?;
        let length: usize = payload.iter().map(|part| part.len()).sum();
        if length > PAYLOAD_BYTES_MAX {
            return Err(LogError::Refused(format!(
                "{length} bytes at once are more than {PAYLOAD_BYTES_MAX}"
            )));
        }
        self.stored_us = self.stored_us.max(now_us);
        let bytes = frame_bytes(length);
        if class == Class::Messages {
            self.spares.check_kept()?;
        }
        let is_full = self.active.as_ref().is_none_or(|active| active.position + bytes > active.capacity);
        if is_full || !self.is_stated {
            self.roll(class, bytes)?;
        }
        self.marked = false;
        self.write_frame(kind, payload, length as u32)
    }

    pub(crate) fn write_frame(
        &mut self,
        kind: Kind,
        payload: &[&[u8]],
        length: u32,
    ) -> Result<Header, LogError> {
        let Some(active) = &mut self.active else {
            return Err(LogError::Refused("the log is closed".into()));
        };
        let synced = if self.synced.segment == active.number { self.synced.position } else { 0 };
        let place = Place { store: self.store, segment: active.number, position: active.position };
        let term = self.numbering.as_ref().map_or(0, |numbering| numbering.term);
        let (offset, stored_us) = (self.end, self.stored_us);
        let header = Header { place, kind, term, length, synced, offset, stored_us };
        if self.pending.last().is_none_or(|chunk| chunk.segment != active.number) {
            self.pending.push(Chunk {
                segment: active.number,
                file: active.file.clone(),
                position: active.position,
                bytes: Vec::new(),
                born_as: None,
                previous: None,
            });
        }
        if let Some(chunk) = self.pending.last_mut() {
            let start = chunk.bytes.len();
            header.write(payload, &mut chunk.bytes);
            if let Some(numbering) = &mut self.numbering {
                let bytes = chunk.bytes[start..start + HEADER_BYTES + length as usize].to_vec();
                let frame = Indexed { index: numbering.next, term, kind, bytes: Arc::new(bytes) };
                let end = Durable { segment: place.segment, position: header.end(), end: self.end };
                numbering.add(frame, end);
            }
        }
        self.is_stated |= kind == Kind::Checkpoint;
        self.pending_bytes += header.frame_bytes() as usize;
        active.position = header.end();
        if let Some(segment) = self.segments.get_mut(&active.number) {
            segment.end_position = active.position;
            segment.ended_us = self.stored_us;
        }
        Ok(header)
    }

    pub(crate) fn note_end(&mut self) {
        if let Some(mut last) = self.segments.last_entry() {
            last.get_mut().end_offset = self.end;
        }
        if let Some(numbering) = &mut self.numbering {
            numbering.note_end(self.end);
        }
    }

    /// Everything on this disk is visible, as far as it is committed.
    pub(crate) fn look_how_far(&mut self) {
        match &mut self.numbering {
            None => self.durable = self.synced,
            Some(numbering) => self.durable = numbering.reach(self.synced).unwrap_or(self.durable),
        }
    }

    /// Begins a segment that has room for so many bytes more than its own first frames, and as much room behind these as
    /// they take: a long state does not begin a segment with each message.
    pub(crate) fn roll(&mut self, class: Class, bytes: u64) -> Result<(), LogError> {
        let mut checkpoint = Vec::new();
        self.state.checkpoint().iter().for_each(|change| change.write(&mut checkpoint));
        let previous_end = self.active.as_ref().map_or(0, |active| active.position);
        let wanted =
            frame_bytes(INFO_BYTES) + frame_bytes(checkpoint.len()) + bytes.max(checkpoint.len() as u64);
        let spare = self.spares.take(class, wanted)?;
        let start = self.numbering.as_ref().map(|numbering| Start {
            index: numbering.next,
            term_before: numbering.next.checked_sub(1).and_then(|last| numbering.term_of(last)).unwrap_or(0),
        });
        let info = SegmentInfo {
            incarnation: self.incarnation,
            previous_end,
            compacted_end: None,
            file_bytes: spare.bytes,
            start,
        }
        .write();
        self.begin_segment(spare);
        self.write_frame(Kind::Segment, &[&info], info.len() as u32)?;
        self.write_frame(Kind::Checkpoint, &[&checkpoint], checkpoint.len() as u32)?;
        Ok(())
    }

    /// The next frame is the first of a segment in this file.
    pub(crate) fn begin_segment(&mut self, spare: Spare<D>) {
        let number = self.segments.last_key_value().map_or(1, |(number, _)| number + 1);
        if let Some(mut last) = self.segments.last_entry() {
            last.get_mut().sealed = true;
        }
        self.segments.insert(
            number,
            Segment {
                number,
                first_offset: self.end,
                end_offset: self.end,
                begun_us: self.stored_us,
                ended_us: self.stored_us,
                end_position: 0,
                sealed: false,
                compacted: false,
            },
        );
        if let Some(numbering) = &mut self.numbering {
            numbering.starts.insert(number, numbering.next);
        }
        self.is_stated = false;
        let old = self.active.replace(Active {
            number,
            file: spare.file.clone(),
            capacity: spare.bytes,
            position: 0,
            written: 0,
        });
        self.pending.push(Chunk {
            segment: number,
            file: spare.file,
            position: 0,
            bytes: Vec::new(),
            born_as: Some(spare.name),
            previous: old.map(|old| (old.file, old.position)),
        });
    }

    /// Bytes that the state grows by with a value. One that replaces another that is no shorter needs no room: a store that
    /// has none left still starts.
    fn growth(&self, change: &Change) -> usize {
        match change {
            Change::Put(key, value) => match self.state.value(key) {
                Some(old) => value.len().saturating_sub(old.len()),
                None => key.len() + value.len() + 16,
            },
            _ => 0,
        }
    }

    /// Whether offsets that readers are done with take more than a part of the state's bound: they come in too many runs.
    pub fn is_scattered(&self) -> bool {
        self.state.readers().done_bytes() > self.options.state_bytes_max / 4
    }

    /// Keeps deliveries, which grow with messages, within a part of the state's bound.
    pub(crate) fn bound_deliveries(&mut self) {
        self.state.bound_deliveries(self.options.state_bytes_max / 4);
    }

    fn check_state_room(&self, bytes: usize) -> Result<(), LogError> {
        let (holds, most) = (self.state.bytes() + bytes, self.options.state_bytes_max);
        if holds > most {
            return Err(LogError::Refused(format!(
                "the log's state would take {holds} bytes, and state_bytes_max is {most}: remove holds, or \
                 commit or discard stagings"
            )));
        }
        Ok(())
    }
}
