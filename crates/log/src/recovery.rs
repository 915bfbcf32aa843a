//! Opening a log: which files there are, where the last of them ends, and what the state is.
//!
//! Only the last segment is read: it begins with a checkpoint of the whole state. Of the others the first frame tells
//! what they are, and the next one's where they end.
//!
//! **A bad frame in the last segment** is either a *torn tail*, which a crash left of what nobody was promised, or
//! *damage*. Every frame says up to where the file was durable when it was made. If a valid frame behind the bad one
//! says that the bad one was durable, it is damage: nothing is changed, and the log is not opened. Otherwise
//! everything from the bad frame on was never acknowledged; it is overwritten with zeros, so that no part of it
//! is ever taken for something new, and the log goes on from there. Damage to the very last frames, with nothing
//! behind them, cannot be told from a torn tail, unless [`Log::mark`] put a frame there. A file that is shorter than it
//! was made is damaged, too.
//!
//! **What is read may not be on the disk**: the page cache has what a killed process wrote and never synced, and after a
//! sync that failed the system takes it for written. So recovery writes what no frame proves to be durable once more, and syncs
//! it and the directory, before anybody is told of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::behind::look_behind;
use crate::commit::Commit;
use crate::disk::Disk;
use crate::error::{LogError, MEANINGLESS};
use crate::flush::Durable;
use crate::frame::{BadFrame, HEADER_BYTES, Header, Kind};
use crate::frames::{Frames, NEAR_BYTES};
use crate::log::{Active, Class, Log, Options};
use crate::rows::count_of;
use crate::segment::{Incarnation, Name, Segment, SegmentInfo, Start, segment_name};
use crate::state::{Change, StagedFrame, State};
use crate::turn;
use crate::verify::damage_at;

/// What a new log is called.
#[derive(Copy, Clone, Debug)]
pub struct Identity {
    /// A random number.
    pub store: u64,
    /// Another.
    pub incarnation: Incarnation,
}

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// There was no log, and one was made.
    pub created: bool,
    /// Bytes of the last segment that were read.
    pub bytes_read: u64,
    /// Bytes of a torn tail that were overwritten.
    pub bytes_torn: u64,
}

/// How far apart zeros are written.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl<D: Disk> Log<D> {
    /// Opens the log in a directory that nobody else has open, or makes one.
    pub fn open(
        disk: Arc<D>,
        options: Options,
        fresh: Identity,
        now_us: u64,
    ) -> Result<(Log<D>, Recovery), LogError> {
        Log::recover(disk.clone(), options, fresh, now_us).map_err(|error| damage_at(&disk, error))
    }

    fn recover(
        disk: Arc<D>,
        options: Options,
        fresh: Identity,
        now_us: u64,
    ) -> Result<(Log<D>, Recovery), LogError> {
        let numbers = tidy(&*disk)?;
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
            return create(disk, options, fresh, now_us);
        };
        if let Some(missing) = (first..=last).zip(&numbers).find_map(|(due, &is)| (due != is).then_some(due))
        {
            return Err(LogError::Refused(format!(
                "{} is missing, though there are older and newer segments: restore it from a copy",
                segment_name(missing)
            )));
        }
        let store = store_of(&disk, &numbers)?;
        let mut log = Log::empty(disk.clone(), options, store, fresh.incarnation);
        let mut recovery = Recovery::default();
        for &number in &numbers {
            let mut frames = Frames::open(&disk, store, number)?;
            if number < last {
                frames.set_ahead(NEAR_BYTES);
            }
            let (header, info) = first_frame(&mut frames)?;
            seal_previous(&mut log, &header, &info, &disk)?;
            if let Some(start) = info.start {
                note_start(&mut log, &header, start)?;
            }
            log.incarnation = info.incarnation;
            log.segments.insert(
                number,
                Segment {
                    number,
                    first_offset: header.offset,
                    end_offset: header.offset,
                    begun_us: header.stored_us,
                    ended_us: header.stored_us,
                    end_position: info.compacted_end.unwrap_or(header.end()),
                    sealed: false,
                    compacted: info.compacted_end.is_some(),
                },
            );
            if number == last {
                log.is_stated = begins_with_state(&mut frames)?;
                if !log.is_stated {
                    log.state = state_before(&log, &disk, number)?;
                }
                recovery = replay(&mut log, &mut frames, info.file_bytes)?;
            }
        }
        log.bound_deliveries();
        log.spares
            .fill()
            .or_else(|error| if let LogError::Full { .. } = error { Ok(()) } else { Err(error) })?;
        disk.sync_directory().map_err(|error| LogError::io("syncing the directory", error))?;
        Ok((log, recovery))
    }
}

/// Removes what no log needs, and lists the numbers of its segments.
fn tidy<D: Disk>(disk: &D) -> Result<Vec<u32>, LogError> {
    let files = disk.list().map_err(|error| LogError::io("listing the directory", error))?;
    let mut numbers = Vec::new();
    for (name, _) in &files {
        match Name::of(name) {
            Name::Segment(number) => numbers.push(number),
            Name::Spare(_) | Name::Unfinished => {
                disk.remove(name).map_err(|error| LogError::io(format!("removing {name}"), error))?;
            }
            Name::Index(_) | Name::Other => {}
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn create<D: Disk>(
    disk: Arc<D>,
    options: Options,
    fresh: Identity,
    now_us: u64,
) -> Result<(Log<D>, Recovery), LogError> {
    let mut log = Log::empty(disk, options, fresh.store, fresh.incarnation);
    log.stored_us = now_us;
    log.spares.fill()?;
    log.roll(Class::State, 0)?;
    log.flush()?;
    log.spares.fill().or_else(|error| if let LogError::Full { .. } = error { Ok(()) } else { Err(error) })?;
    Ok((log, Recovery { created: true, ..Recovery::default() }))
}

/// The store whose log it is: what most of the files say whose first frame is valid. If none is, what most say at all.
pub(crate) fn store_of<D: Disk>(disk: &Arc<D>, numbers: &[u32]) -> Result<u64, LogError> {
    let mut said: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for &number in numbers {
        let mut frames = Frames::open(disk, 0, number)?;
        frames.set_ahead(NEAR_BYTES);
        let start = frames.bytes(0, HEADER_BYTES)?;
        if start.len() < HEADER_BYTES {
            continue;
        }
        let store = crate::bytes::u64_at(start, 8);
        frames.set_store(store);
        let files = said.entry(store).or_default();
        files.0 += usize::from(frames.read(0)?.is_ok());
        files.1 += 1;
    }
    Ok(said.into_iter().max_by_key(|(_, files)| *files).map_or(0, |(store, _)| store))
}

fn damaged(file: &str, from: u64, to: u64, first: u64, end: u64, bad: BadFrame) -> LogError {
    LogError::Corrupt { file: file.to_owned(), from, to, first, end, why: bad.why().to_owned() }
}

fn first_frame<D: Disk>(frames: &mut Frames<D>) -> Result<(Header, SegmentInfo), LogError> {
    match frames.read(0)? {
        Ok(header) if header.kind == Kind::Segment => {
            Ok((header, SegmentInfo::read(frames.payload(), frames.name())?))
        }
        Ok(_) => Err(LogError::Refused(format!("{} is no segment of a Shoal log", frames.name()))),
        Err(bad) => Err(damaged(frames.name(), 0, frames.length()?, 0, 0, bad)),
    }
}

/// A segment says where the one before it ends.
fn seal_previous<D: Disk>(
    log: &mut Log<D>,
    header: &Header,
    info: &SegmentInfo,
    disk: &D,
) -> Result<(), LogError> {
    let Some(mut previous) = log.segments.last_entry() else { return Ok(()) };
    let previous = previous.get_mut();
    previous.sealed = true;
    previous.end_offset = header.offset;
    previous.ended_us = header.stored_us;
    if !previous.compacted {
        previous.end_position = info.previous_end;
    }
    let name = segment_name(previous.number);
    let failed = |error| LogError::io(format!("reading {name}"), error);
    let length = disk.open(&name).and_then(|file| disk.length(&file)).map_err(failed)?;
    if length < previous.end_position {
        let (first, end) = (previous.first_offset, previous.end_offset);
        return Err(damaged(&name, length, previous.end_position, first, end, BadFrame::Short));
    }
    Ok(())
}

/// Where a segment begins in the log of a group, and which terms the one before it has: all of its frames have one, unless
/// an owner was elected meanwhile.
fn note_start<D: Disk>(log: &mut Log<D>, header: &Header, start: Start) -> Result<(), LogError> {
    let numbering = log.numbering.get_or_insert_default();
    let last = numbering.starts.last_key_value().map(|(&number, &index)| (number, index));
    match last {
        None => numbering.note_term(start.index.saturating_sub(1), start.term_before),
        Some((number, mut index)) if numbering.term != start.term_before => {
            let mut frames = Frames::open(&log.disk, log.store, number)?;
            let (mut position, limit) = (0, log.segments.get(&number).map_or(0, |one| one.end_position));
            while position < limit
                && let Ok(found) = frames.read(position)?
            {
                numbering.note_term(index, found.term);
                (index, position) = (index + 1, found.end());
            }
        }
        Some(_) => {}
    }
    numbering.starts.insert(header.place.segment, start.index);
    numbering.note_term(start.index, header.term);
    numbering.term = header.term;
    numbering.next = start.index;
    Ok(())
}

/// Whether a segment begins with the whole state. One of a group may have nothing of the log but the frames that the group
/// needs itself: its owner died before more of it was anywhere else.
fn begins_with_state<D: Disk>(frames: &mut Frames<D>) -> Result<bool, LogError> {
    let mut position = 0;
    while let Ok(header) = frames.read(position)? {
        if !matches!(header.kind, Kind::Segment | Kind::Noop | Kind::Members) {
            return Ok(header.kind == Kind::Checkpoint);
        }
        position = header.end();
    }
    Ok(false)
}

/// The state where a segment begins, from those before it.
fn state_before<D: Disk>(log: &Log<D>, disk: &Arc<D>, number: u32) -> Result<State, LogError> {
    let mut first = number;
    let mut is_stated = false;
    while !is_stated && log.segments.contains_key(&(first - 1)) {
        first -= 1;
        is_stated = begins_with_state(&mut Frames::open(disk, log.store, first)?)?;
    }
    let mut state = State::default();
    for (_, segment) in log.segments.range(first..number) {
        let mut frames = Frames::open(disk, log.store, segment.number)?;
        let mut end = segment.first_offset;
        let mut position = 0;
        while position < segment.end_position {
            let header = frames.read(position)?.map_err(|bad| {
                damaged(frames.name(), position, segment.end_position, end, segment.end_offset, bad)
            })?;
            end = apply(&mut state, &header, frames.payload(), end)
                .ok_or_else(|| unreadable(frames.name(), &header))?;
            position = header.end();
        }
    }
    Ok(state)
}

/// Reads the last segment up to its end, and makes the state from it.
fn replay<D: Disk>(log: &mut Log<D>, frames: &mut Frames<D>, file_bytes: u64) -> Result<Recovery, LogError> {
    let capacity = frames.length()?;
    if capacity < file_bytes {
        // Its end may be gone with the rest.
        return Err(damaged(frames.name(), capacity, file_bytes, 0, 0, BadFrame::Short));
    }
    let mut position = 0;
    let mut end = 0;
    let mut torn = 0;
    let mut proven = 0;
    while position < capacity {
        match frames.read(position)? {
            Ok(header) => {
                if position == 0 {
                    end = header.offset;
                }
                end = apply(&mut log.state, &header, frames.payload(), end)
                    .ok_or_else(|| unreadable(frames.name(), &header))?;
                log.stored_us = log.stored_us.max(header.stored_us);
                position = header.end();
                proven = header.synced.max(proven);
                log.marked = header.kind == Kind::Change && header.length == 0;
                if let Some(numbering) = &mut log.numbering {
                    numbering.note(numbering.next, header.term, header.kind);
                    numbering.term = header.term;
                }
            }
            Err(bad) => {
                torn = cut_tail(&*log.disk, frames, position, capacity, end, bad)?;
                break;
            }
        }
    }
    write_again(&*log.disk, frames, proven, position)?;
    let number = log.segments.last_key_value().map_or(0, |(number, _)| *number);
    log.end = end;
    log.durable = Durable { segment: number, position, end };
    log.synced = log.durable;
    if let Some(segment) = log.segments.get_mut(&number) {
        segment.end_offset = end;
        segment.end_position = position;
        segment.ended_us = log.stored_us;
    }
    log.active = Some(Active { number, file: frames.file().clone(), capacity, position, written: position });
    Ok(Recovery { created: false, bytes_read: position, bytes_torn: torn })
}

fn unreadable(file: &str, header: &Header) -> LogError {
    LogError::Corrupt {
        file: file.to_owned(),
        from: header.place.position,
        to: header.end(),
        first: header.offset,
        end: header.offset,
        why: MEANINGLESS.into(),
    }
}

/// What a frame does to the state; the offset of the next message.
pub(crate) fn apply(state: &mut State, header: &Header, payload: &[u8], end: u64) -> Option<u64> {
    match header.kind {
        Kind::Segment | Kind::Gap | Kind::Noop | Kind::Members => {}
        Kind::Checkpoint => {
            *state = State::default();
            Change::read_all(payload)?.into_iter().for_each(|change| state.apply(change));
        }
        Kind::Messages => return end.checked_add(count_of(payload)?.into()),
        Kind::Turn => {
            let (changes, start) = turn::changes_of(payload)?;
            Change::read_all(changes)?.into_iter().for_each(|change| state.apply(change));
            return end.checked_add(count_of(&payload[start..])?.into());
        }
        Kind::Staged => {
            let mut reader = crate::bytes::Reader(payload);
            let id = reader.text()?;
            let frame = StagedFrame {
                segment: header.place.segment,
                position: header.place.position,
                rows: count_of(reader.0)?,
                bytes: header.length,
            };
            state.add_staged(id, frame, header.stored_us);
        }
        Kind::Commit => {
            let commit = Commit::read(payload)?;
            commit.apply(header, state);
            return end.checked_add(commit.rows());
        }
        Kind::Change => Change::read_all(payload)?.into_iter().for_each(|change| state.apply(change)),
    }
    Some(end)
}

/// Makes frames durable that nothing proves to be: what was read may be in the page cache alone.
fn write_again<D: Disk>(disk: &D, frames: &Frames<D>, mut from: u64, to: u64) -> Result<(), LogError> {
    let failed = |error| LogError::io(format!("making the tail of {} durable", frames.name()), error);
    let mut bytes = vec![0; ZEROS.len()];
    while from < to {
        let count = bytes.len().min((to - from) as usize);
        let count = disk.read(frames.file(), from, &mut bytes[..count]).map_err(failed)?;
        if count == 0 {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        disk.write(frames.file(), from, &bytes[..count]).map_err(failed)?;
        from += count as u64;
    }
    disk.sync(frames.file()).map_err(failed)
}

/// Decides what a bad frame is. Returns how many bytes of a torn tail were overwritten.
fn cut_tail<D: Disk>(
    disk: &D,
    frames: &mut Frames<D>,
    position: u64,
    capacity: u64,
    offset: u64,
    bad: BadFrame,
) -> Result<u64, LogError> {
    let behind = look_behind(frames, position, capacity, true)?;
    if let Some(next) = behind.next {
        return Err(damaged(frames.name(), position, next.place.position, offset, next.offset, bad));
    }
    let failed = |error| LogError::io(format!("overwriting the torn tail of {}", frames.name()), error);
    let mut zeroed = position;
    while zeroed < behind.written {
        let count = ZEROS.len().min((behind.written - zeroed) as usize);
        disk.write(frames.file(), zeroed, &ZEROS[..count]).map_err(failed)?;
        zeroed += count as u64;
    }
    if zeroed > position {
        disk.sync(frames.file()).map_err(failed)?;
    }
    Ok(zeroed - position)
}
