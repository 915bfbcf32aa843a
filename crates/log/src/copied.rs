//! A copy of a member's log, for a member that has none or lacks too much: the files of its segments, up to a frame that is
//! committed.
//!
//! The files are put down beside the log, under names that no log reads. Once all of them are there and proved to be one log,
//! they take its place. Doing that again does no harm: so a crash in between does none, if it is done again before the log is
//! opened.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::LogError;
use crate::flush::Durable;
use crate::frame::Kind;
use crate::frames::Frames;
use crate::log::{Log, Options};
use crate::numbering::Numbering;
use crate::segment::{Name, SegmentInfo, index_name, segment_name, unfinished_name};

/// Segments of a log, at the most: a copy of more would not fit into one message.
pub const PARTS_MAX: usize = 1 << 20;

/// Which files a copy has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The number of the oldest segment.
    pub first: u32,
    /// How long each is, up to the newest.
    pub bytes: Vec<u64>,
    /// How long the file of the newest was made: it takes more frames.
    pub made: u64,
}

impl Parts {
    /// The number of the newest segment.
    pub fn last(&self) -> u32 {
        self.first + self.bytes.len().saturating_sub(1) as u32
    }

    /// How long a segment is, and how long its file is to be made. None if it has no part in it.
    pub fn of(&self, number: u32) -> Option<(u64, u64)> {
        let &bytes = self.bytes.get(number.checked_sub(self.first)? as usize)?;
        Some((bytes, if number == self.last() { bytes.max(self.made) } else { bytes }))
    }

    /// Their bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = self.first.to_le_bytes().to_vec();
        out.extend_from_slice(&self.made.to_le_bytes());
        self.bytes.iter().for_each(|bytes| out.extend_from_slice(&bytes.to_le_bytes()));
        out
    }

    /// From their bytes.
    pub fn read(bytes: &[u8]) -> Option<Parts> {
        let (first, rest) = bytes.split_first_chunk()?;
        let (made, rest) = rest.split_first_chunk()?;
        let (each, odd) = rest.as_chunks();
        let first = u32::from_le_bytes(*first);
        let is_possible = first > 0
            && odd.is_empty()
            && !each.is_empty()
            && each.len() <= PARTS_MAX
            && first.checked_add(each.len() as u32).is_some();
        let bytes = each.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        is_possible.then_some(Parts { first, bytes, made: u64::from_le_bytes(*made) })
    }
}

impl<D: Disk> Log<D> {
    /// The log of a member that has nothing yet: it becomes a copy of another member's.
    pub fn without_frames(disk: Arc<D>, options: Options, store: u64) -> Log<D> {
        let mut log = Log::empty(disk, options, store, Default::default());
        log.numbering = Some(Box::new(Numbering::default()));
        log
    }

    /// Whether it has nothing, not even its first segment.
    pub fn is_without_frames(&self) -> bool {
        self.segments.is_empty()
    }

    /// The index of the last frame that is visible.
    pub fn visible_index(&self) -> u64 {
        self.numbering.as_ref().map_or(0, |numbers| numbers.synced_index(self.durable))
    }

    /// The files of a copy of what is visible.
    pub fn parts(&self) -> Result<Parts, LogError> {
        let segments = self.segments();
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            return Err(LogError::Refused("the log has nothing yet".into()));
        };
        let mut frames = Frames::open(&self.disk, self.store, last.number)?;
        let made = match frames.read(0)? {
            Ok(_) => SegmentInfo::read(frames.payload(), frames.name())?.file_bytes,
            Err(bad) => return Err(LogError::Refused(format!("{}: {}", frames.name(), bad.why()))),
        };
        let bytes = segments.iter().map(|segment| segment.end_position).collect();
        Ok(Parts { first: first.number, bytes, made })
    }

    /// The part that a sealed segment is of the log, and the index and the term of its last frame. None if it takes more frames.
    pub fn sealed_part(&self, number: u32) -> Option<(Parts, (u64, u32))> {
        let segment = self.segments.get(&number).filter(|_| number < self.durable.segment)?;
        let numbers = self.numbering.as_ref()?;
        let last = numbers.starts.get(&(number + 1))? - 1;
        let parts = Parts { first: number, bytes: vec![segment.end_position], made: 0 };
        Some((parts, (last, numbers.term_of(last)?)))
    }

    /// The oldest sealed segment behind one.
    pub fn sealed_behind(&self, number: u32) -> Option<u32> {
        let (&next, _) = self.segments.range(number + 1..).next()?;
        (next < self.durable.segment).then_some(next)
    }

    /// How much of a segment's file is visible. None if it is not there.
    pub fn visible_bytes(&self, number: u32) -> Option<u64> {
        let Durable { segment, position, .. } = self.durable;
        let found = self.segments.get(&number).filter(|_| number <= segment)?;
        Some(if number == segment { position } else { found.end_position })
    }
}

/// Files of a copy while it is being fetched.
pub struct Copying<D: Disk> {
    disk: Arc<D>,
    parts: Parts,
    /// Whether the newest segment takes more frames.
    goes_on: bool,
    /// The file that was written to last.
    file: Option<(u32, Arc<D::File>)>,
    /// How many segments were read, the index and the term that follow on them, and where the last of them ends.
    checked: u32,
    next: Option<(u64, u32)>,
    previous_end: u64,
}

impl<D: Disk> Copying<D> {
    /// Begins with nothing; what is left of an earlier one goes. The newest segment takes more frames, if it `goes_on`.
    pub fn new(disk: Arc<D>, parts: Parts, goes_on: bool) -> Result<Copying<D>, LogError> {
        let copying = Copying { disk, parts, goes_on, file: None, checked: 0, next: None, previous_end: 0 };
        copying.remove()?;
        Ok(copying)
    }

    /// The files it is of.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Puts down bytes of a segment.
    pub fn put(&mut self, number: u32, position: u64, bytes: &[u8]) -> Result<(), LogError> {
        let beyond =
            || LogError::Refused(format!("bytes at {position} of segment {number} are no part of the copy"));
        let (length, made) = self.parts.of(number).ok_or_else(beyond)?;
        if position.checked_add(bytes.len() as u64).is_none_or(|end| end > length) {
            return Err(beyond());
        }
        let name = unfinished_name(number);
        let failed = |error: std::io::Error| {
            if error.kind() == std::io::ErrorKind::StorageFull {
                return LogError::Full { bytes: made };
            }
            LogError::io(format!("writing {name}"), error)
        };
        let file = match &self.file {
            Some((open, file)) if *open == number => file.clone(),
            _ => match self.disk.open(&name) {
                Ok(file) => file,
                Err(_) => self.disk.create(&name, made).map_err(failed)?,
            },
        };
        self.file = Some((number, file.clone()));
        self.disk.write(&file, position, bytes).map_err(failed)
    }

    /// Reads the oldest segment that was put down and not read yet, and makes it durable.
    pub fn check_next(&mut self, store: u64) -> Result<(), LogError> {
        let number = self.parts.first + self.checked;
        let Some((length, made)) = self.parts.of(number) else { return Ok(()) };
        let name = unfinished_name(number);
        let failed = |error| LogError::io(format!("reading {name}"), error);
        let wrong =
            |why: &str| LogError::Refused(format!("the copy of segment {number} is not whole: {why}"));
        let file = self.disk.open(&name).map_err(failed)?;
        self.disk.sync(&file).map_err(failed)?;
        let mut frames = Frames::new(&self.disk, file, name.clone(), store, number);
        let (mut position, mut next) = (0, self.next);
        while position < length {
            let header = frames.read(position)?.map_err(|bad| wrong(bad.why()))?;
            if (position == 0) != (header.kind == Kind::Segment) {
                return Err(wrong("it does not begin as a segment"));
            }
            if position == 0 {
                let info = SegmentInfo::read(frames.payload(), &name)?;
                let start = info.start.ok_or_else(|| wrong("no group keeps it"))?;
                let begins = (start.index, start.term_before, info.previous_end);
                let follows = next.is_none_or(|(index, term)| begins == (index, term, self.previous_end));
                let is_short = self.goes_on && number == self.parts.last() && made < info.file_bytes;
                if !follows || is_short {
                    return Err(wrong("it does not follow on the one before"));
                }
                next = Some((start.index, start.term_before));
            }
            next = next.map(|(index, _)| (index + 1, header.term));
            position = header.end();
        }
        if position != length {
            return Err(wrong("it ends within a frame"));
        }
        (self.next, self.previous_end, self.checked) = (next, length, self.checked + 1);
        Ok(())
    }

    /// Reads what was not read yet, and makes the copy durable. Returns the index and the term of its last frame.
    pub fn check(&mut self, store: u64) -> Result<(u64, u32), LogError> {
        while (self.checked as usize) < self.parts.bytes.len() {
            self.check_next(store)?;
        }
        self.disk.sync_directory().map_err(|error| LogError::io("syncing the directory", error))?;
        let (next, term) = self.next.ok_or_else(|| LogError::Refused("the copy has nothing".into()))?;
        Ok((next - 1, term))
    }

    /// Removes what was put down.
    pub fn remove(&self) -> Result<(), LogError> {
        let failed = |error| LogError::io("removing a copy that is not wanted", error);
        for (name, _) in self.disk.list().map_err(failed)? {
            if name.ends_with(".log.new") {
                self.disk.remove(&name).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Puts a copy that was checked, of segments from the first number to the last, in the place of the log.
pub fn put_copy<D: Disk>(disk: &Arc<D>, first: u32, last: u32) -> Result<(), LogError> {
    let failed = |error| LogError::io("putting a copy in the place of the log", error);
    let files = disk.list().map_err(failed)?;
    let has = |name: &str| files.iter().any(|(found, _)| found == name);
    for (name, _) in &files {
        let goes = match Name::of(name) {
            Name::Segment(number) => !(first..=last).contains(&number),
            Name::Index(_) | Name::Spare(_) => true,
            Name::Unfinished | Name::Other => false,
        };
        if goes {
            disk.remove(name).map_err(failed)?;
        }
    }
    for number in first..=last {
        if has(&unfinished_name(number)) {
            disk.rename(&unfinished_name(number), &segment_name(number)).map_err(failed)?;
        }
    }
    disk.sync_directory().map_err(failed)
}

/// Whether every frame of a sealed segment can be read.
pub fn is_whole<D: Disk>(disk: &Arc<D>, store: u64, parts: &Parts) -> bool {
    let read = || -> Result<bool, LogError> {
        let mut frames = Frames::open(disk, store, parts.first)?;
        let (mut position, end) = (0, parts.bytes[0]);
        while position < end {
            match frames.read(position)? {
                Ok(header) => position = header.end(),
                Err(_) => return Ok(false),
            }
        }
        Ok(position == end)
    };
    // What the disk does not give is damaged, too.
    read().unwrap_or(false)
}

/// Puts a copy of one sealed segment, which is damaged here, in its place.
pub fn put_segment<D: Disk>(disk: &Arc<D>, number: u32) -> Result<(), LogError> {
    let failed =
        |error| LogError::io(format!("putting a copy in the place of {}", segment_name(number)), error);
    // Its index may be of what is damaged. There may be none.
    let _ = disk.remove(&index_name(number));
    disk.rename(&unfinished_name(number), &segment_name(number)).map_err(failed)?;
    disk.sync_directory().map_err(failed)
}

/// Removes every file of a log that has nothing yet, and of a copy that was not finished.
pub fn remove_all<D: Disk>(disk: &Arc<D>) -> Result<(), LogError> {
    let failed = |error| LogError::io("removing what is left of a copy", error);
    for (name, _) in disk.list().map_err(failed)? {
        if !matches!(Name::of(&name), Name::Other) && !name.starts_with("group.") {
            disk.remove(&name).map_err(failed)?;
        }
    }
    disk.sync_directory().map_err(failed)
}
