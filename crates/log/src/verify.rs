//! Reads every frame of a log and says what is damaged. Changes nothing, and goes on behind damage: what follows it can
//! still be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::commit::Commit;
use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{BadFrame, HEADER_BYTES, Header, Kind};
use crate::frames::Frames;
use crate::recovery::{candidates, store_of};
use crate::rows::count_of;
use crate::segment::{Incarnation, Name, SegmentInfo, segment_name};
use crate::state::StagedFrame;

/// Bytes that are not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file's name.
    pub file: String,
    /// The first byte that cannot be read.
    pub from: u64,
    /// The byte after the last.
    pub to: u64,
    /// The first offset that cannot be read for it.
    pub first: u64,
    /// The offset after the last; the same as the first if no message is affected.
    pub end: u64,
    /// What is wrong.
    pub why: String,
}

/// What was found in one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its number.
    pub number: u32,
    /// Where its frames end.
    pub bytes: u64,
    /// Frames that can be read.
    pub frames: u64,
    /// Messages that can be read.
    pub messages: u64,
    /// The first offset it can hold.
    pub first: u64,
    /// The offset after the last.
    pub end: u64,
    /// Bytes behind the last frame that a crash left, and that nobody was promised.
    pub torn: u64,
}

/// What was found in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Whose log it is.
    pub store: u64,
    /// Which life of the store.
    pub incarnation: Incarnation,
    /// Oldest first.
    pub segments: Vec<SegmentReport>,
    /// Segments that are missing between others.
    pub missing: Vec<u32>,
    /// What is damaged, in the order of the files.
    pub damages: Vec<Damage>,
}

/// Reads a whole log that nobody has open.
pub fn verify<D: Disk>(disk: &Arc<D>) -> Result<Verification, LogError> {
    let files = disk.list().map_err(|error| LogError::io("listing the directory", error))?;
    let mut numbers: Vec<u32> = Vec::new();
    for (name, _) in &files {
        if let Name::Segment(number) = Name::of(name) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    let (Some(&oldest), Some(&newest)) = (numbers.first(), numbers.last()) else {
        return Err(LogError::Refused("there is no log".into()));
    };
    let store = store_of(&**disk, &numbers)?;
    let mut found = Verification { store, ..Verification::default() };
    found.missing = (oldest..=newest).filter(|number| numbers.binary_search(number).is_err()).collect();
    let mut starts = BTreeMap::new();
    for &number in &numbers {
        let mut frames = Frames::open(disk, store, number)?;
        if let Ok(header) = frames.read(0)?
            && header.kind == Kind::Segment
        {
            let info = SegmentInfo::read(frames.payload(), frames.name())?;
            found.incarnation = info.incarnation;
            starts.insert(number, (header, info));
        }
    }
    for &number in &numbers {
        let frames = Frames::open(disk, store, number)?;
        let before = found.segments.last().map_or(0, |segment| segment.end);
        let mut walk = Walk {
            disk,
            staged: None,
            report: SegmentReport { number, ..SegmentReport::default() },
            frames,
            offset: starts.get(&number).map_or(before, |(header, _)| header.offset),
            is_newest: number == newest,
            damages: &mut found.damages,
        };
        let end = end_of(&starts, number, newest);
        walk.run(end, starts.get(&(number + 1)).map(|(header, _)| header.offset))?;
        if number == newest
            && let Some((_, info)) = starts.get(&number)
        {
            walk.check_length(info.file_bytes)?;
        }
        found.segments.push(walk.report);
    }
    Ok(found)
}

/// Where a segment's frames end, if anybody says: it does itself if it was written anew, or the next one does.
fn end_of(starts: &BTreeMap<u32, (Header, SegmentInfo)>, number: u32, newest: u32) -> Option<u64> {
    let own = starts.get(&number).and_then(|(_, info)| info.compacted_end);
    let next = starts.get(&(number + 1)).map(|(_, info)| info.previous_end);
    own.or(if number < newest { next } else { None })
}

/// One segment being read.
struct Walk<'a, D: Disk> {
    disk: &'a Arc<D>,
    frames: Frames<D>,
    staged: Option<(u32, Frames<D>)>,
    report: SegmentReport,
    /// The offset of the next message.
    offset: u64,
    is_newest: bool,
    damages: &'a mut Vec<Damage>,
}

impl<D: Disk> Walk<'_, D> {
    /// Reads up to `end`; where nobody says where that is, up to the last valid frame.
    fn run(&mut self, end: Option<u64>, next_offset: Option<u64>) -> Result<(), LogError> {
        let length = self.frames.length()?;
        let limit = end.unwrap_or(length).min(length);
        self.report.first = self.offset;
        let mut position = 0;
        while position < limit {
            match self.frames.read(position)? {
                Ok(header) => {
                    self.take(&header)?;
                    position = header.end();
                }
                Err(bad) => match (self.behind(position, limit)?, end) {
                    (Some(next), _) => {
                        self.damage(position, next.place.position, next.offset, bad);
                        position = next.place.position;
                    }
                    (None, None) if position == 0 => {
                        // Not even the frame that says what it is: no crash leaves that under this name.
                        self.damage(0, length, next_offset.unwrap_or(self.offset), bad);
                        position = length;
                    }
                    (None, None) => {
                        self.report.torn = self.written_behind(position, limit)?;
                        break;
                    }
                    (None, Some(end)) => {
                        self.damage(position, end, next_offset.unwrap_or(self.offset), bad);
                        position = end;
                    }
                },
            }
        }
        if length == 0 && end.is_none() {
            self.damage(0, 0, next_offset.unwrap_or(self.offset), BadFrame::Short);
        }
        if let Some(end) = end.filter(|end| *end > position) {
            self.damage(position, end, next_offset.unwrap_or(self.offset), BadFrame::Short);
        }
        self.report.bytes = position;
        self.report.end = next_offset.unwrap_or(self.offset).max(self.offset);
        Ok(())
    }

    /// The last segment is as long as it was made; if it is not, its end may be gone with the rest.
    fn check_length(&mut self, made: u64) -> Result<(), LogError> {
        let length = self.frames.length()?;
        if length < made {
            self.damage(length, made, self.offset, BadFrame::Short);
        }
        Ok(())
    }

    fn damage(&mut self, from: u64, to: u64, end: u64, bad: BadFrame) {
        let (file, why) = (self.frames.name().to_owned(), bad.why().to_owned());
        let (first, end) = (self.offset, end.max(self.offset));
        self.damages.push(Damage { file, from, to, first, end, why });
        self.offset = end;
    }

    fn take(&mut self, header: &Header) -> Result<(), LogError> {
        self.report.frames += 1;
        self.offset = self.offset.max(header.offset);
        match header.kind {
            Kind::Messages => {
                let count = u64::from(count_of(self.frames.payload()).unwrap_or(0));
                self.report.messages += count;
                self.offset = header.offset + count;
            }
            Kind::Commit => {
                let Some(commit) = Commit::read(self.frames.payload()) else { return Ok(()) };
                self.offset = header.offset;
                for frame in commit.frames() {
                    self.look_at_staged(frame)?;
                    self.offset += u64::from(frame.rows);
                }
            }
            Kind::Segment | Kind::Checkpoint | Kind::Staged | Kind::Gap | Kind::Change => {}
        }
        Ok(())
    }

    /// The rows of a commit lie elsewhere.
    fn look_at_staged(&mut self, frame: &StagedFrame) -> Result<(), LogError> {
        if self.staged.as_ref().is_none_or(|(number, _)| *number != frame.segment) {
            let opened = Frames::open(self.disk, self.frames.store(), frame.segment);
            self.staged = opened.ok().map(|frames| (frame.segment, frames));
        }
        let bad = match &mut self.staged {
            Some((_, frames)) => frames.read(frame.position)?.err(),
            None => Some(BadFrame::Short),
        };
        match bad {
            None => self.report.messages += u64::from(frame.rows),
            Some(bad) => self.damages.push(Damage {
                file: segment_name(frame.segment),
                from: frame.position,
                to: frame.position + HEADER_BYTES as u64 + u64::from(frame.bytes),
                first: self.offset,
                end: self.offset + u64::from(frame.rows),
                why: bad.why().to_owned(),
            }),
        }
        Ok(())
    }

    /// The next valid frame behind a bad one. In the newest segment only if one proves that the bad one was durable.
    fn behind(&mut self, position: u64, limit: u64) -> Result<Option<Header>, LogError> {
        let (store, segment) = (self.frames.store(), self.report.number);
        let mut first = None;
        let mut at = position + 8;
        while at < limit {
            let window = self.frames.bytes(at, HEADER_BYTES.min((limit - at) as usize))?;
            let length = window.len();
            let found = candidates(window, store, segment, at);
            for candidate in found {
                if let Ok(header) = self.frames.read(candidate)? {
                    if !self.is_newest {
                        return Ok(Some(header));
                    }
                    let next = *first.get_or_insert(header);
                    if header.synced > position {
                        return Ok(Some(next));
                    }
                }
            }
            // A window overlaps the next by a header, which may begin in its last bytes.
            at += (length.saturating_sub(HEADER_BYTES - 8)).max(8) as u64 & !7;
        }
        Ok(None)
    }

    /// How many bytes behind a position are not zero, up to the last of them.
    fn written_behind(&mut self, position: u64, limit: u64) -> Result<u64, LogError> {
        let (mut at, mut written) = (position, position);
        while at < limit {
            let window = self.frames.bytes(at, 1)?;
            let Some(length) = Some(window.len()).filter(|length| *length > 0) else { break };
            if let Some(last) = window.iter().rposition(|&byte| byte != 0) {
                written = at + last as u64 + 1;
            }
            at += length as u64;
        }
        Ok(written.min(limit).saturating_sub(position))
    }
}
