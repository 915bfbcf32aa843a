//! The log of a member of a group: frames that another member appended, frames for other members, and the end of it cut
//! off where an owner appended something else.
//!
//! The owner appends as a store alone does, and every frame gets an index. A follower appends the same frames at the
//! same places; only what is synced differs, which each member says of its own disk. An owner also appends frames that the
//! group needs itself: they begin no segment, because their index is decided before they are here.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::LogError;
use crate::flush::Durable;
use crate::frame::{self, HEADER_BYTES, Header, Kind, Place, TERM_MAX};
use crate::frames::Frames;
use crate::log::{Class, Log, Options};
use crate::numbering::{FIRST_INDEX, Indexed, Numbering};
use crate::recovery::{Identity, Recovery, apply};
use crate::retention::remove_file;
use crate::segment::{Name, SegmentInfo, index_name, segment_name};

/// Zeros that are written at a time.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// How much is read at a time when frames are read one after the other.
const AHEAD_BYTES: u64 = 1 << 20;

impl<D: Disk> Log<D> {
    /// Makes the log of a member of a new group. The members of a group make the same one: its identity and its time are
    /// those of the group.
    pub fn found(
        disk: Arc<D>,
        options: Options,
        identity: Identity,
        now_us: u64,
    ) -> Result<Log<D>, LogError> {
        let mut log = Log::empty(disk, options, identity.store, identity.incarnation);
        log.stored_us = now_us;
        log.numbering = Some(Box::new(Numbering::first(1)));
        log.spares.fill()?;
        log.roll(Class::State, 0)?;
        log.flush()?;
        log.drop_born();
        log.commit_to(FIRST_INDEX - 1);
        Ok(log)
    }

    /// Whether a group keeps it.
    pub fn is_grouped(&self) -> bool {
        self.numbering.is_some()
    }

    fn numbers(&self) -> Result<&Numbering, LogError> {
        self.numbering.as_deref().ok_or_else(|| LogError::Refused("no group keeps this log".into()))
    }

    /// The index of the first frame that can be read; the one after the last if there is none.
    pub fn first_index(&self) -> u64 {
        let oldest = self.numbering.as_ref().and_then(|numbers| numbers.starts.values().next().copied());
        oldest.unwrap_or(FIRST_INDEX).max(FIRST_INDEX)
    }

    /// The index of the frame that was appended last.
    pub fn last_index(&self) -> u64 {
        self.numbering.as_ref().map_or(0, |numbers| numbers.next.saturating_sub(1))
    }

    /// The index of the last frame that is on this disk.
    pub fn synced_index(&self) -> u64 {
        self.numbering.as_ref().map_or(0, |numbers| numbers.synced_index(self.synced))
    }

    /// The term of a frame, also of the one before the first.
    pub fn term_of(&self, index: u64) -> Option<u32> {
        self.numbering.as_ref()?.term_of(index)
    }

    /// Frames that are appended from now on have this term.
    pub fn set_term(&mut self, term: u64) -> Result<(), LogError> {
        if term > TERM_MAX {
            return Err(LogError::Refused(format!("the term {term} is above {TERM_MAX}")));
        }
        if let Some(numbers) = &mut self.numbering {
            numbers.term = term as u32;
        }
        Ok(())
    }

    /// Frames that this member appended as the owner since the last call.
    pub fn take_born(&mut self) -> Vec<Indexed> {
        self.numbering.as_mut().map(|numbers| numbers.take_born()).unwrap_or_default()
    }

    fn drop_born(&mut self) {
        drop(self.take_born());
    }

    /// Frames up to an index are committed: on the disks of a majority. They are visible once this disk has them, too.
    pub fn commit_to(&mut self, index: u64) {
        if let Some(numbers) = &mut self.numbering {
            numbers.commit(index);
            self.look_how_far();
        }
    }

    /// The first offset of the segment that has a frame: what lies below needs no frame from there on.
    pub fn floor_for(&self, index: u64) -> u64 {
        let number = self.numbering.as_ref().and_then(|numbers| numbers.segment_of(index));
        number.and_then(|(number, _)| self.segments.get(&number)).map_or(0, |segment| segment.first_offset)
    }

    /// Bytes of frames that are not visible yet.
    pub fn open_bytes(&self) -> usize {
        self.numbering.as_ref().map_or(0, |numbers| numbers.open_bytes())
    }

    /// The term and the index of the first change of members behind an index.
    pub fn change_behind(&self, index: u64) -> Result<Option<u64>, LogError> {
        let numbers = self.numbers()?;
        let last = numbers.starts.last_key_value().map_or(0, |(_, first)| *first);
        let mut next = (index + 1).max(self.first_index());
        while next < last {
            for found in self.frames_from(next, last, ZEROS.len() as u64)? {
                if found.kind == Kind::Members {
                    return Ok(Some(found.index));
                }
                next = found.index + 1;
            }
        }
        Ok(numbers.changes.iter().copied().find(|&change| change > index))
    }

    /// Whether members change behind an index and up to another one, both of which were appended since the log was opened or
    /// are in its last segment.
    pub fn change_between(&self, index: u64, last: u64) -> bool {
        let changes = self.numbering.iter().flat_map(|numbers| &numbers.changes);
        changes.into_iter().any(|&change| index < change && change <= last)
    }

    /// Appends a frame that the group needs itself, with this payload: it begins no segment and takes no time.
    pub fn append_own(&mut self, kind: Kind, term: u64, payload: &[u8]) -> Result<(), LogError> {
        self.check()?;
        let own = self.numbers()?.term;
        self.set_term(term)?;
        let appended = self.write_frame(kind, &[payload], payload.len() as u32);
        self.drop_born();
        if let Some(numbers) = &mut self.numbering {
            numbers.term = numbers.term.max(own);
        }
        self.marked = false;
        appended.map(drop)
    }

    /// Appends a frame of the owner, at the place where the owner has it.
    pub fn follow(&mut self, frame: &[u8]) -> Result<(), LogError> {
        self.check()?;
        let bad = |why: &str| LogError::Refused(format!("the owner sent a frame that does not fit: {why}"));
        let header = frame::read_anywhere(frame, self.store).map_err(|error| bad(error.why()))?;
        let payload = &frame[HEADER_BYTES..];
        let (segment, position) = self.appended();
        let is_next =
            header.kind == Kind::Segment && header.place.segment == segment + 1 && header.place.position == 0;
        if is_next {
            let info = SegmentInfo::read(payload, &segment_name(segment + 1))?;
            let spare = self.spares.take(Class::State, info.file_bytes)?;
            self.incarnation = info.incarnation;
            self.stored_us = self.stored_us.max(header.stored_us);
            self.begin_segment(spare);
        } else if (header.place.segment, header.place.position) != (segment, position) {
            return Err(bad(&format!(
                "it is of byte {} of segment {}, and this log ends at byte {position} of segment {segment}",
                header.place.position, header.place.segment
            )));
        }
        if header.offset != self.end {
            return Err(bad("its offset is another"));
        }
        self.stored_us = self.stored_us.max(header.stored_us);
        self.set_term(header.term.into())?;
        self.write_frame(header.kind, &[payload], header.length)?;
        self.drop_born();
        self.marked = header.kind == Kind::Change && header.length == 0;
        self.end =
            apply(&mut self.state, &header, payload, self.end).ok_or_else(|| bad("it has no meaning"))?;
        self.bound_deliveries();
        self.note_end();
        Ok(())
    }

    /// Frames from an index on and below another, as many as fit, and at least one.
    pub fn frames_from(&self, first: u64, end: u64, bytes_max: u64) -> Result<Vec<Indexed>, LogError> {
        let numbers = self.numbers()?;
        if let Some(found) = numbers.in_memory(first, end, bytes_max) {
            return Ok(found);
        }
        let gone = || LogError::Refused(format!("frame {first} of the log is not here"));
        let (number, start) = numbers.segment_of(first).ok_or_else(gone)?;
        let mut frames = Frames::open(&self.disk, self.store, number)?;
        let (mut index, mut position) = match numbers.place.get() {
            Some((segment, index, position)) if segment == number && index <= first => (index, position),
            _ => (start, 0),
        };
        let limit = self.segments.get(&number).map_or(0, |segment| segment.end_position);
        let (mut found, mut size) = (Vec::new(), 0);
        while position < limit && index < end {
            let header = frames.read(position)?.map_err(|bad| self.damage(number, position, bad.why()))?;
            if index >= first {
                size += u64::from(header.length) + HEADER_BYTES as u64;
                if size > bytes_max && !found.is_empty() {
                    break;
                }
                let bytes = Arc::new(frames.frame().to_vec());
                found.push(Indexed { index, term: header.term, kind: header.kind, bytes });
            }
            (index, position) = (index + 1, header.end());
        }
        numbers.place.set(Some((number, index, position)));
        if found.is_empty() { Err(gone()) } else { Ok(found) }
    }

    fn damage(&self, number: u32, position: u64, why: &str) -> LogError {
        let segment = self.segments.get(&number);
        LogError::Corrupt {
            file: segment_name(number),
            from: position,
            to: segment.map_or(position, |segment| segment.end_position),
            first: segment.map_or(0, |segment| segment.first_offset),
            end: segment.map_or(0, |segment| segment.end_offset),
            why: why.to_owned(),
        }
    }

    /// Where a frame begins: its segment and its position.
    pub fn place_of(&self, index: u64) -> Result<(u32, u64), LogError> {
        let frame = self.frames_from(index, index + 1, 0)?.pop();
        let frame =
            frame.ok_or_else(|| LogError::Refused(format!("frame {index} of the log is not here")))?;
        let header = frame::read_anywhere(&frame.bytes, self.store)
            .map_err(|bad| LogError::Refused(format!("frame {index}: {}", bad.why())))?;
        Ok((header.place.segment, header.place.position))
    }
}

/// Cuts the log of a member off at a place, and opens what is left. Doing it again does no harm: so a crash in between does
/// none, if it is done again before the log is opened.
pub fn cut_off<D: Disk>(disk: &Arc<D>, store: u64, (segment, position): (u32, u64)) -> Result<(), LogError> {
    let failed = |what: String| move |error| LogError::io(what, error);
    let files = disk.list().map_err(failed("listing the directory".into()))?;
    let mut later: Vec<u32> = files
        .iter()
        .filter_map(|(name, _)| match Name::of(name) {
            // A segment that begins at the place goes whole.
            Name::Segment(number) if number > segment || (number == segment && position == 0) => Some(number),
            _ => None,
        })
        .collect();
    later.sort_unstable_by(|one, other| other.cmp(one));
    for number in later {
        remove_file(disk, number)?;
    }
    if position == 0 {
        return end_is_open(disk, store, segment - 1);
    }
    let name = segment_name(segment);
    let file = disk.open(&name).map_err(failed(format!("opening {name}")))?;
    let length = disk.length(&file).map_err(failed(format!("reading {name}")))?;
    let mut at = position;
    while at < length {
        let count = ZEROS.len().min((length - at) as usize);
        disk.write(&file, at, &ZEROS[..count]).map_err(failed(format!("cutting {name} off")))?;
        at += count as u64;
    }
    disk.sync(&file).map_err(failed(format!("cutting {name} off")))?;
    end_is_open(disk, store, segment)
}

/// A segment is the last one again: its file has to be as long as it was made.
fn end_is_open<D: Disk>(disk: &Arc<D>, store: u64, number: u32) -> Result<(), LogError> {
    let name = segment_name(number);
    let failed = |error| LogError::io(format!("giving {name} its length"), error);
    // Its index is of what it had when it was sealed. There may be none.
    let _ = disk.remove(&index_name(number));
    disk.sync_directory().map_err(failed)?;
    let mut frames = Frames::open(disk, store, number)?;
    let info = match frames.read(0)? {
        Ok(Header { kind: Kind::Segment, .. }) => SegmentInfo::read(frames.payload(), &name)?,
        _ => return Err(LogError::Refused(format!("{name} has no beginning"))),
    };
    if frames.length()? < info.file_bytes {
        disk.write(frames.file(), info.file_bytes - 1, &[0]).map_err(failed)?;
        disk.sync(frames.file()).map_err(failed)?;
    }
    Ok(())
}

impl<D: Disk> Log<D> {
    /// Opens the log of a member, whose frames up to an index are known to be committed.
    pub fn open_member(
        disk: Arc<D>,
        options: Options,
        identity: Identity,
        committed: u64,
    ) -> Result<(Log<D>, Recovery), LogError> {
        let (mut log, recovery) = Log::open(disk, options, identity, 0)?;
        log.numbers()?;
        if log.last_index() < committed {
            return Err(LogError::Refused(format!(
                "the log of this member ends at {}, and {committed} was committed: its disk lost something. Erase \
                 the directory and let it join as a new member",
                log.last_index()
            )));
        }
        log.hide_behind(committed)?;
        log.commit_to(committed);
        Ok((log, recovery))
    }

    /// Frames behind an index are on this disk, and nobody knows yet if they are committed: they are not visible.
    fn hide_behind(&mut self, committed: u64) -> Result<(), LogError> {
        let last = self.last_index();
        let mut hidden: Vec<(u64, usize, Durable)> = Vec::new();
        let mut index = committed.max(self.first_index() - 1) + 1;
        let mut visible: Option<Durable> = None;
        while index <= last {
            for frame in self.frames_from(index, last + 1, AHEAD_BYTES)? {
                let header = frame::read_anywhere(&frame.bytes, self.store)
                    .map_err(|bad| self.damage(self.appended().0, 0, bad.why()))?;
                let Place { segment, position, .. } = header.place;
                // Where the frame begins is where the one before ends.
                let begins = Durable { segment, position, end: header.offset };
                match hidden.last_mut() {
                    Some((.., end)) if position > 0 => *end = begins,
                    Some((.., end)) => end.end = header.offset,
                    None => visible = Some(begins),
                }
                let end = Durable { segment, position: header.end(), end: header.offset };
                hidden.push((frame.index, frame.bytes.len(), end));
                index = frame.index + 1;
            }
        }
        if let Some((.., end)) = hidden.last_mut() {
            *end = self.synced;
        }
        let ends = |number: u32| self.segments.get(&number).map_or(0, |one| one.end_position);
        if let (Some(begins), Some(numbers)) = (visible, &mut self.numbering) {
            let Durable { segment, position, end } = begins;
            let before = if position > 0 { (segment, position) } else { (segment - 1, ends(segment - 1)) };
            self.durable = Durable { segment: before.0, position: before.1, end };
            numbers.hide(hidden);
        }
        Ok(())
    }
}
