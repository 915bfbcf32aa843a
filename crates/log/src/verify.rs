//! Reads every frame of a log and says what is damaged. Changes nothing, and goes on behind damage: what follows it can
//! still be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::behind::look_behind;
use crate::commit::Commit;
use crate::cursor::rows_start;
use crate::disk::Disk;
use crate::error::{LogError, MEANINGLESS};
use crate::frame::{BadFrame, HEADER_BYTES, Header, Kind};
use crate::frames::{Frames, NEAR_BYTES};
use crate::gap::Gap;
use crate::recovery::store_of;
use crate::rows::RowsPlace;
use crate::segment::{Incarnation, Name, SegmentInfo, segment_name};
use crate::state::{Change, StagedFrame};
use crate::turn;

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
    let survey = Survey::new(disk)?;
    let mut walks = Walks::default();
    let mut segments: Vec<SegmentReport> = Vec::new();
    for &number in &survey.numbers {
        let before = segments.last().map_or(0, |segment| segment.end);
        segments.push(survey.walk(number, before, &mut walks)?);
    }
    let floor = walks.floor;
    walks.damages.extend(walks.removed.into_iter().filter(|damage| damage.end > floor));
    let (&oldest, &newest) = (&survey.numbers[0], &survey.numbers[survey.numbers.len() - 1]);
    Ok(Verification {
        store: survey.store,
        incarnation: survey.starts.last_key_value().map_or([0; 16], |(_, (_, info))| info.incarnation),
        segments,
        missing: (oldest..=newest).filter(|number| survey.numbers.binary_search(number).is_err()).collect(),
        damages: walks.damages,
    })
}

/// Damage that recovery met, with the range that [`verify`] names.
pub(crate) fn damage_at<D: Disk>(disk: &Arc<D>, met: LogError) -> LogError {
    let LogError::Corrupt { file, from, .. } = &met else { return met };
    let Name::Segment(number) = Name::of(file) else { return met };
    let examined = Survey::new(disk).and_then(|survey| {
        let mut walks = Walks::default();
        let mut before = 0;
        // Where it begins is known from the one before, if its own first frame is damaged.
        if let Some(previous) = number.checked_sub(1)
            && survey.numbers.binary_search(&previous).is_ok()
            && !survey.starts.contains_key(&number)
        {
            before = survey.walk(previous, 0, &mut walks)?.end;
        }
        survey.walk(number, before, &mut walks)?;
        Ok(walks.damages)
    });
    let mut damages = examined.unwrap_or_default();
    damages.retain(|damage| damage.file == *file);
    let at = damages.iter().position(|damage| damage.from <= *from && *from < damage.to).unwrap_or(0);
    match damages.into_iter().nth(at) {
        Some(Damage { file, from, to, first, end, why }) => {
            LogError::Corrupt { file, from, to, first, end, why }
        }
        None => met,
    }
}

/// Which segments there are, and what their first frames say.
struct Survey<'a, D: Disk> {
    disk: &'a Arc<D>,
    store: u64,
    numbers: Vec<u32>,
    starts: BTreeMap<u32, (Header, SegmentInfo)>,
}

/// What walks through segments have found.
#[derive(Default)]
struct Walks {
    damages: Vec<Damage>,
    /// Rows of commits in segments that are not there any more, which retention removes only below the floor.
    removed: Vec<Damage>,
    floor: u64,
}

impl<'a, D: Disk> Survey<'a, D> {
    fn new(disk: &'a Arc<D>) -> Result<Survey<'a, D>, LogError> {
        let files = disk.list().map_err(|error| LogError::io("listing the directory", error))?;
        let segment = |(name, _): &(String, u64)| match Name::of(name) {
            Name::Segment(number) => Some(number),
            _ => None,
        };
        let mut numbers: Vec<u32> = files.iter().filter_map(segment).collect();
        numbers.sort_unstable();
        if numbers.is_empty() {
            return Err(LogError::Refused("there is no log".into()));
        }
        let store = store_of(disk, &numbers)?;
        let mut starts = BTreeMap::new();
        for &number in &numbers {
            let mut frames = Frames::open(disk, store, number)?;
            frames.set_ahead(NEAR_BYTES);
            if let Ok(header) = frames.read(0)?
                && header.kind == Kind::Segment
            {
                let info = SegmentInfo::read(frames.payload(), frames.name())?;
                starts.insert(number, (header, info));
            }
        }
        Ok(Survey { disk, store, numbers, starts })
    }

    /// Reads one segment. `before` is where the one before it ends.
    fn walk(&self, number: u32, before: u64, found: &mut Walks) -> Result<SegmentReport, LogError> {
        let start = self.starts.get(&number);
        let next = self.starts.get(&(number + 1));
        let is_newest = self.numbers.last() == Some(&number);
        let mut walk = Walk {
            survey: self,
            staged: None,
            report: SegmentReport { number, ..SegmentReport::default() },
            frames: Frames::open(self.disk, self.store, number)?,
            offset: start.map_or(before, |(header, _)| header.offset),
            is_newest,
            found,
        };
        // A segment that was written anew says where it ends; of another the next one does.
        let own_end = start.and_then(|(_, info)| info.compacted_end);
        let end = own_end.or(next.filter(|_| !is_newest).map(|(_, info)| info.previous_end));
        walk.run(end, next.map(|(header, _)| header.offset))?;
        if let Some((_, info)) = start.filter(|_| is_newest) {
            walk.check_length(info.file_bytes)?;
        }
        Ok(walk.report)
    }
}

/// One segment being read.
struct Walk<'a, D: Disk> {
    survey: &'a Survey<'a, D>,
    frames: Frames<D>,
    staged: Option<(u32, Frames<D>)>,
    report: SegmentReport,
    /// The offset of the next message.
    offset: u64,
    is_newest: bool,
    found: &'a mut Walks,
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
                Err(bad) => {
                    // No crash leaves a file under this name without the frame that says what it is.
                    let may_be_torn = self.is_newest && position > 0;
                    let behind = look_behind(&mut self.frames, position, limit, may_be_torn)?;
                    match (behind.next, end) {
                        (Some(next), _) => {
                            self.damage(position, next.place.position, next.offset, bad.why());
                            position = next.place.position;
                        }
                        (None, None) if position == 0 => {
                            self.damage(0, length, next_offset.unwrap_or(self.offset), bad.why());
                            position = length;
                        }
                        (None, None) => {
                            self.report.torn = behind.written - position;
                            break;
                        }
                        (None, Some(end)) => {
                            self.damage(position, end, next_offset.unwrap_or(self.offset), bad.why());
                            position = end;
                        }
                    }
                }
            }
        }
        let short = BadFrame::Short.why();
        if length == 0 && end.is_none() {
            self.damage(0, 0, next_offset.unwrap_or(self.offset), short);
        }
        if let Some(end) = end.filter(|end| *end > position) {
            self.damage(position, end, next_offset.unwrap_or(self.offset), short);
        }
        self.report.bytes = position;
        self.report.end = next_offset.unwrap_or(self.offset).max(self.offset);
        Ok(())
    }

    /// The last segment is as long as it was made; if it is not, its end may be gone with the rest.
    fn check_length(&mut self, made: u64) -> Result<(), LogError> {
        let length = self.frames.length()?;
        if length < made {
            self.damage(length, made, self.offset, BadFrame::Short.why());
        }
        Ok(())
    }

    fn damage(&mut self, from: u64, to: u64, end: u64, why: &str) {
        let (file, why) = (self.frames.name().to_owned(), why.to_owned());
        let (first, end) = (self.offset, end.max(self.offset));
        self.found.damages.push(Damage { file, from, to, first, end, why });
        self.offset = end;
    }

    /// Takes a frame in whose checksum is right.
    fn take(&mut self, header: &Header) -> Result<(), LogError> {
        self.offset = self.offset.max(header.offset);
        if header.kind == Kind::Commit
            && let Some(commit) = Commit::read(self.frames.payload())
        {
            self.report.frames += 1;
            self.offset = header.offset;
            for frame in commit.frames() {
                self.look_at_staged(frame)?;
                self.offset += u64::from(frame.rows);
            }
        } else if let Some((rows, end)) = self.meaning(header) {
            self.report.frames += 1;
            self.report.messages += rows;
            self.offset = end;
        } else {
            // How many messages it has only the next frame can say.
            let next = self.frames.read(header.end())?.map_or(self.offset, |next| next.offset);
            self.damage(header.place.position, header.end(), next, MEANINGLESS);
        }
        Ok(())
    }

    /// The messages of a frame that is no commit, and the offset after it; none if its payload means nothing.
    fn meaning(&mut self, header: &Header) -> Option<(u64, u64)> {
        let payload = self.frames.payload();
        match header.kind {
            Kind::Messages => return rows_in(payload, 0, header.offset),
            Kind::Turn => {
                let (changes, start) = turn::changes_of(payload)?;
                Change::read_all(changes)?;
                return rows_in(payload, start, header.offset);
            }
            Kind::Staged => {
                rows_in(payload, rows_start(payload)?, 0)?;
            }
            Kind::Gap => {
                Gap::read(payload)?;
            }
            Kind::Checkpoint | Kind::Change => {
                for change in Change::read_all(payload)? {
                    if let Change::Floor(floor) = change {
                        self.found.floor = self.found.floor.max(floor);
                    }
                }
            }
            Kind::Noop | Kind::Members => {}
            Kind::Segment if header.place.position == 0 => {}
            Kind::Segment | Kind::Commit => return None,
        }
        Some((0, self.offset))
    }

    /// The rows of a commit lie elsewhere.
    fn look_at_staged(&mut self, frame: &StagedFrame) -> Result<(), LogError> {
        if self.staged.as_ref().is_none_or(|(number, _)| *number != frame.segment) {
            let opened = Frames::open(self.survey.disk, self.survey.store, frame.segment);
            self.staged = opened.ok().map(|frames| (frame.segment, frames));
        }
        let why = match &mut self.staged {
            None => Some(BadFrame::Short.why()),
            Some((_, frames)) => match frames.read(frame.position)? {
                Err(bad) => Some(bad.why()),
                Ok(header) => {
                    let payload = frames.payload();
                    let rows = rows_start(payload).and_then(|start| rows_in(payload, start, 0));
                    let is_right = header.kind == Kind::Staged
                        && rows.is_some_and(|(count, _)| count == u64::from(frame.rows));
                    (!is_right).then_some(MEANINGLESS)
                }
            },
        };
        let Some(why) = why else {
            self.report.messages += u64::from(frame.rows);
            return Ok(());
        };
        let damage = Damage {
            file: segment_name(frame.segment),
            from: frame.position,
            to: frame.position + HEADER_BYTES as u64 + u64::from(frame.bytes),
            first: self.offset,
            end: self.offset + u64::from(frame.rows),
            why: why.to_owned(),
        };
        let is_removed = self.survey.numbers.first().is_some_and(|&oldest| frame.segment < oldest);
        if is_removed {
            self.found.removed.push(damage)
        } else {
            self.found.damages.push(damage)
        }
        Ok(())
    }
}

/// How many rows a payload has from a byte on, and the offset after the last; none if they cannot be read.
fn rows_in(payload: &[u8], start: usize, offset: u64) -> Option<(u64, u64)> {
    let mut place = RowsPlace::new(payload, start, offset)?;
    let (mut count, mut end) = (0, offset);
    while let Some(row) = place.next(payload).ok()? {
        count += 1;
        end = row.offset + 1;
    }
    Some((count, end))
}
