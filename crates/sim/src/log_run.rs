//! A log on a simulated disk that stops, fails, fills up and forgets, checked against a model after every restart.
//!
//! The rule: what was durable is there, once, at its offset, and a range read twice gives the same rows; of what was
//! not, a beginning is there, in order. Everything in a run follows from its seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use shoal_log::{
    Change, CommitOutcome, Gap, Identity, Log, LogError, MarkKey, Meta, Options, Query, RowsWriter, Turn,
    build_index, compact, extent, find_marks, gaps, has_index, lane_of,
};
use shoal_wire::{BodyKind, Destination, MessageView, Outgoing, Topic, TopicPattern};

use crate::disk::{DiskFaults, SimDisk};
use crate::log_model::{Model, ModelRow, Step};
use crate::log_reader::LogReader;

pub(crate) const TOPICS: u64 = 12;
const STORE: u64 = 0xfeed_beef;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRun {
    /// Things done to the log.
    pub steps: u64,
    /// Times the disk stopped, or a sync failed.
    pub crashes: u64,
    /// Messages that were durable at the end.
    pub messages: u64,
    /// Torn tails that were cut.
    pub torn: u64,
    /// Refusals because the disk was full.
    pub full: u64,
    /// Segments that retention removed or wrote anew.
    pub retired: u64,
}

struct Driver {
    rng: Rng,
    disk: Arc<SimDisk>,
    options: Options,
    model: Model,
    /// What is certain, and what was done since.
    durable: Model,
    since: Vec<Step>,
    /// A segment was being written anew when the disk stopped: first offset, end offset, topic.
    compacting: Option<(u64, u64, String)>,
    now_us: u64,
    number: u64,
    run: LogRun,
}

/// Runs one seed. The error says what was wrong, and the seed repeats it.
pub fn run_log(seed: u64) -> Result<LogRun, String> {
    let mut rng = Rng::with_seed(seed);
    let options = Options { segment_bytes: rng.u64(4..24) << 10, state_bytes_max: 64 << 10 };
    let model = Model::new(STORE);
    let mut driver = Driver {
        disk: Arc::new(SimDisk::new(rng.u64(..))),
        rng,
        options,
        durable: model.clone(),
        model,
        since: Vec::new(),
        compacting: None,
        now_us: 1_000_000,
        number: 0,
        run: LogRun::default(),
    };
    for life in 0..driver.rng.u32(2..6) {
        driver.live().map_err(|why| format!("seed {seed}, life {life}: {why}"))?;
    }
    driver.damage().map_err(|why| format!("seed {seed}, damage: {why}"))?;
    driver.run.messages = driver.durable.end;
    Ok(driver.run)
}

/// What is recorded: by one recorder a single topic, by another the rest.
fn lanes() -> Vec<TopicPattern> {
    ["t/1", "t/>"].iter().filter_map(|pattern| TopicPattern::new(pattern).ok()).collect()
}

/// The mark of a topic's recorder.
fn mark_key(topic: &str, publisher: u64, chain: u32) -> MarkKey {
    let patterns = lanes();
    MarkKey { lane: lane_of(&patterns[usize::from(topic != "t/1")]), publisher, chain }
}

pub(crate) fn topic_name(number: u64) -> String {
    format!("t/{number}")
}

impl Driver {
    fn open(&mut self) -> Result<Log<SimDisk>, LogError> {
        let fresh = Identity { store: STORE, incarnation: [7; 16] };
        let (log, recovery) = Log::open(self.disk.clone(), self.options, fresh, self.now_us)?;
        self.run.torn += u64::from(recovery.bytes_torn > 0);
        Ok(log)
    }

    /// From one start of the store to the next.
    fn live(&mut self) -> Result<(), String> {
        // Recovery, too, may be cut short, again and again.
        let mut log = loop {
            if self.rng.u32(..4) == 0 {
                let stop_at = Some(self.rng.u64(1..60));
                self.disk.set_faults(DiskFaults { stop_at, ..DiskFaults::default() });
            }
            match self.open() {
                Ok(log) => break log,
                Err(_) if self.disk.is_stopped() => self.crash(),
                Err(error) => return Err(format!("cannot be opened: {error}")),
            }
        };
        if self.disk.is_stopped() {
            self.crash();
            return Ok(());
        }
        self.disk.set_faults(DiskFaults::default());
        self.settle(&log)?;
        self.check(&log)?;
        self.begin_recording(&mut log)?;
        let faults = self.choose_faults();
        self.disk.set_faults(faults);
        for _ in 0..self.rng.u32(20..200) {
            self.run.steps += 1;
            self.now_us += self.rng.u64(0..1000);
            match self.step(&mut log) {
                Ok(()) => {}
                Err(LogError::Full { .. }) => self.run.full += 1,
                Err(_) if self.disk.is_stopped() || log.failure().is_some() => {
                    self.crash();
                    return Ok(());
                }
                Err(error) => return Err(format!("refused: {error}")),
            }
            if let Some(difference) = self.model.difference(&log) {
                return Err(format!("the log and the model differ in {difference}"));
            }
        }
        if self.disk.is_stopped() {
            // In a question about an index, which is no worse off without an answer.
            self.crash();
            return Ok(());
        }
        self.disk.set_faults(DiskFaults::default());
        self.flush(&mut log).map_err(|error| error.to_string())?;
        self.check(&log)?;
        if self.rng.bool() {
            self.crash();
        } else {
            log.mark(self.now_us).and_then(|()| log.flush()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Finds the marks of what is in the log, which a recorder goes by.
    fn begin_recording(&mut self, log: &mut Log<SimDisk>) -> Result<(), String> {
        let found = find_marks(&self.disk, &log.snapshot(), log.state().marks(), &lanes());
        let found = found.map_err(|error| error.to_string())?;
        let mut due = BTreeMap::new();
        for ((topic, publisher, chain), &number) in &self.durable.numbers {
            let highest = due.entry(mark_key(topic, *publisher, *chain)).or_insert(number);
            *highest = number.max(*highest);
        }
        let is: BTreeMap<_, _> = found.iter().map(|(key, mark)| (key, mark.number)).collect();
        if is != due {
            return Err(format!("marks {is:?} instead of {due:?}"));
        }
        log.begin_recording(self.now_us, found).map_err(|error| error.to_string())
    }

    fn choose_faults(&mut self) -> DiskFaults {
        let used: u64 = self.disk.contents().values().map(|bytes| bytes.len() as u64).sum();
        match self.rng.u32(..10) {
            0..5 => DiskFaults { stop_at: Some(self.rng.u64(1..400)), ..DiskFaults::default() },
            5..7 => DiskFaults { fail_sync_at: Some(self.rng.u64(1..400)), ..DiskFaults::default() },
            7..9 => {
                let more = self.rng.u64(0..8) * self.options.segment_bytes;
                DiskFaults { capacity_bytes: Some(used + more), ..DiskFaults::default() }
            }
            _ => DiskFaults::default(),
        }
    }

    fn crash(&mut self) {
        self.run.crashes += 1;
        if self.rng.bool() {
            self.disk.restart();
        } else {
            self.disk.kill();
        }
    }

    /// Finds out how much of what was not certain is there after a restart, and takes it for certain.
    fn settle(&mut self, log: &Log<SimDisk>) -> Result<(), String> {
        if let Some((first, end, topic)) = self.compacting.take() {
            self.settle_compaction(log, first, end, &topic)?;
        }
        self.reader(log).check_tail()?;
        let mut candidate = self.durable.clone();
        let mut found = None;
        let mut first_difference = None;
        for count in 0..=self.since.len() {
            match candidate.difference(log) {
                None => found = Some(candidate.clone()),
                Some(difference) => drop(first_difference.get_or_insert(difference)),
            }
            if let Some(step) = self.since.get(count) {
                candidate.take(step);
            }
        }
        let mut settled = found.ok_or_else(|| {
            format!(
                "after a restart the log is none of the {} states it could be in (first: {})",
                self.since.len() + 1,
                first_difference.unwrap_or_default()
            )
        })?;
        // Steps that change nothing but gaps look alike.
        let there = gaps(&self.disk, &log.snapshot(), 0, u64::MAX).map_err(|error| error.to_string())?;
        let there: Vec<_> = there.into_iter().map(|row| (row.offset, row.gap)).collect();
        let floor = settled.floor;
        let known: Vec<_> = settled.gaps.iter().copied().filter(|gap| gap.0 > floor).collect();
        let seen: Vec<_> = there.iter().copied().filter(|gap| gap.0 > floor).collect();
        let certain = self.durable.gaps.iter().filter(|gap| gap.0 > floor).count();
        if !known.starts_with(&seen) || seen.len() < certain {
            return Err(format!("gaps {seen:?} instead of {known:?}"));
        }
        settled.gaps = there;
        self.durable = settled.clone();
        self.model = settled;
        self.since.clear();
        Ok(())
    }

    fn reader<'a>(&'a self, log: &'a Log<SimDisk>) -> LogReader<'a> {
        LogReader { disk: &self.disk, log }
    }

    /// Compares everything a reader can ask with what the model says.
    fn check(&mut self, log: &Log<SimDisk>) -> Result<(), String> {
        LogReader { disk: &self.disk, log }.check(&self.durable, &mut self.rng, self.now_us)
    }

    fn settle_compaction(
        &mut self,
        log: &Log<SimDisk>,
        first: u64,
        end: u64,
        topic: &str,
    ) -> Result<(), String> {
        let query = Query {
            start: first.max(log.floor()),
            end,
            patterns: vec![TopicPattern::new(topic).map_err(|error| error.to_string())?],
            selector: None,
        };
        let extent = extent(&self.disk, &log.snapshot(), &query, u64::MAX, u64::MAX);
        if extent.map_err(|error| error.to_string())?.rows == 0 {
            self.durable.compact(first, end, topic);
            self.model.compact(first, end, topic);
        }
        Ok(())
    }

    fn did(&mut self, step: Step) {
        self.model.take(&step);
        self.since.push(step);
    }

    fn flush(&mut self, log: &mut Log<SimDisk>) -> Result<(), LogError> {
        log.flush()?;
        self.durable = self.model.clone();
        self.since.clear();
        Ok(())
    }

    fn row(&mut self, offset: u64, stored_us: u64) -> ModelRow {
        self.number += 1;
        let topic = topic_name(self.rng.u64(..TOPICS));
        let longest = if self.rng.u32(..200) == 0 { 30_000 } else { 300 };
        let body: Vec<u8> =
            (0..self.rng.usize(..longest)).map(|at| (at as u64 + self.number) as u8).collect();
        let mut record = Vec::new();
        if let Ok(name) = Topic::new(&topic) {
            // The name is short, and there are no other fields to be too long.
            let _ = Outgoing::new(Destination::topic(name), BodyKind::Bytes, &body).encode_into(&mut record);
        }
        let meta = Meta {
            publisher: self.rng.u64(1..4),
            chain: self.rng.u32(..3),
            number: (self.rng.u32(..8) > 0).then_some(self.number),
            timestamp_us: self.now_us.saturating_sub(self.rng.u64(..5000)),
        };
        ModelRow { offset, stored_us, meta, topic, record }
    }

    fn rows(&mut self, first: u64) -> (Vec<ModelRow>, RowsWriter) {
        let count = self.rng.u64(1..12);
        let rows: Vec<_> = (0..count).map(|at| self.row(first + at, self.now_us)).collect();
        let mut writer = RowsWriter::default();
        rows.iter().for_each(|row| writer.push(&row.meta, &row.record));
        (rows, writer)
    }

    /// One thing that a store does. An error leaves the model as the log was before, or the disk stopped.
    fn step(&mut self, log: &mut Log<SimDisk>) -> Result<(), LogError> {
        match self.rng.u32(..100) {
            0..40 => {
                let (rows, writer) = self.rows(log.end());
                let number = |row: &ModelRow| {
                    let key = mark_key(&row.topic, row.meta.publisher, row.meta.chain);
                    row.meta.number.map(|number| (key, number))
                };
                let numbers: Vec<_> = rows.iter().filter_map(number).collect();
                let (first, end) = log.append_recorded(self.now_us, &writer, &numbers)?;
                assert_eq!((first, end), (rows[0].offset, rows[0].offset + rows.len() as u64));
                self.did(Step::Append(rows));
                Ok(())
            }
            40..46 => self.turn(log),
            46..58 => self.flush(log),
            58..62 => {
                let (publisher, first) = (self.rng.u64(1..4), self.rng.bool().then_some(3));
                let gap = Gap { publisher, first, count: 1, ..Gap::default() };
                log.append_gap(self.now_us, &gap)?;
                self.did(Step::Gap(gap));
                Ok(())
            }
            62..70 => {
                let id = format!("s{}", self.rng.u32(..4));
                let (rows, writer) = self.rows(0);
                log.stage(self.now_us, &id, &writer)?;
                self.did(Step::Stage(id, rows));
                Ok(())
            }
            70..75 => self.commit(log),
            75..77 => {
                let Some(id) = self.model.staging_ids().pop() else { return Ok(()) };
                log.change(self.now_us, vec![Change::Discard(id.clone())])?;
                self.did(Step::Discard(id));
                Ok(())
            }
            77..83 => {
                let key = format!("k{}", self.rng.u32(..5));
                let value = self.rng.bool().then(|| vec![self.rng.u8(..); self.rng.usize(..50)]);
                let change = match &value {
                    Some(value) => Change::Put(key.clone(), value.clone()),
                    None => Change::Remove(key.clone()),
                };
                log.change(self.now_us, vec![change])?;
                self.did(Step::Put(key, value));
                Ok(())
            }
            83..86 => {
                let Some((first, end)) = self.model.first_unpublished() else { return Ok(()) };
                let offset = self.rng.u64(first..=end);
                log.change(self.now_us, vec![Change::Published(offset)])?;
                self.did(Step::Published(offset));
                Ok(())
            }
            86..88 => self.trim(log),
            88..91 => self.compact(log),
            91..95 => self.index(log),
            95..97 => {
                self.flush(log)?;
                log.mark(self.now_us)?;
                self.did(Step::Mark);
                Ok(())
            }
            _ => {
                // A reader at any time sees what is durable, and nothing else.
                let seen = self.reader(log).read_all()?;
                let durable: Vec<_> =
                    self.durable.rows.iter().filter(|row| row.offset >= log.floor()).collect();
                assert!(seen.iter().eq(durable), "a reader sees {} rows", seen.len());
                // Nothing else is published.
                let runs: Vec<_> = log.unpublished().collect();
                let visible = |&(first, end): &(u64, u64)| first < end && end <= self.durable.end;
                assert!(runs.iter().all(visible), "to publish: {runs:?} of {}", self.durable.end);
                Ok(())
            }
        }
    }

    /// Messages and changes of the state in one frame.
    fn turn(&mut self, log: &mut Log<SimDisk>) -> Result<(), LogError> {
        let (mut rows, _) = self.rows(log.end());
        // Marks are those of recorders alone.
        rows.iter_mut().for_each(|row| row.meta.number = None);
        let (key, value) = (format!("k{}", self.rng.u32(..5)), vec![self.rng.u8(..); 9]);
        let mut turn = Turn::default();
        turn.change(Change::Put(key.clone(), value.clone()));
        rows.iter().for_each(|row| turn.push(&row.meta, &row.record));
        let appended = log.append_turn(self.now_us, &turn)?;
        assert_eq!((appended.first, appended.end), (rows[0].offset, rows[0].offset + rows.len() as u64));
        self.did(Step::Turn(rows, key, value));
        Ok(())
    }

    fn commit(&mut self, log: &mut Log<SimDisk>) -> Result<(), LogError> {
        let ids: Vec<_> = self.model.staging_ids().into_iter().filter(|_| self.rng.bool()).collect();
        let names: Vec<_> = ids.iter().map(String::as_str).collect();
        let scope = (self.rng.u32(..4) > 0).then(|| format!("q{}", self.rng.u32(..3)));
        let last = scope.as_deref().and_then(|scope| self.model.committed(scope));
        let number = last.map_or(0, |last| last.0) + self.rng.u64(..2);
        match (log.commit(self.now_us, scope.as_deref(), number, &names)?, last) {
            (CommitOutcome::Repeated(first, end), Some(last)) => {
                assert_eq!((number, first, end), last, "a repeated commit has the same answer");
            }
            (CommitOutcome::Done(first, end), last) => {
                assert!(last.is_none_or(|last| last.0 < number), "a commit is made once");
                assert_eq!(first, self.model.end);
                self.did(Step::Commit(scope, number, ids, self.now_us));
                assert_eq!(end, self.model.end);
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn trim(&mut self, log: &mut Log<SimDisk>) -> Result<(), LogError> {
        let wanted = self.rng.u64(log.floor()..=log.end());
        let before = log.floor();
        let floor = log.raise_floor(self.now_us, wanted)?;
        if floor > before {
            self.did(Step::Floor(floor));
        }
        let removable = log.removable();
        self.flush(log)?;
        log.remove_segments(&removable)?;
        self.run.retired += removable.len() as u64;
        Ok(())
    }

    fn compact(&mut self, log: &mut Log<SimDisk>) -> Result<(), LogError> {
        let snapshot = log.snapshot();
        let candidates: Vec<_> = snapshot.segments.iter().filter(|one| log.can_compact(one.number)).collect();
        if candidates.is_empty() {
            return Ok(());
        }
        let segment = candidates[self.rng.usize(..candidates.len())];
        self.flush(log)?;
        let topic = topic_name(self.rng.u64(..TOPICS));
        self.compacting = Some((segment.first_offset, segment.end_offset, topic.clone()));
        let keep = |row: &shoal_log::Row<'_>| {
            MessageView::parse(row.record).is_ok_and(|view| view.name_bytes() != topic.as_bytes())
        };
        let result = compact(&self.disk, &snapshot, segment.number, self.rng.bool(), keep);
        if self.disk.is_stopped() {
            return Err(LogError::Refused("the disk stopped".into()));
        }
        match result {
            Ok(Some(new)) => {
                log.replace_segment(new);
                self.run.retired += 1;
                for model in [&mut self.model, &mut self.durable] {
                    model.compact(segment.first_offset, segment.end_offset, &topic);
                }
            }
            Ok(None) => {}
            // A sync that failed before the file got its name changed nothing.
            Err(LogError::Io { .. } | LogError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        self.compacting = None;
        Ok(())
    }

    fn index(&mut self, log: &mut Log<SimDisk>) -> Result<(), LogError> {
        let snapshot = log.snapshot();
        let last = snapshot.segments.last().map_or(0, |segment| segment.number);
        for segment in snapshot.segments.iter().filter(|one| one.sealed && one.number < last) {
            if !has_index(&self.disk, snapshot.store, segment)? && self.rng.bool() {
                match build_index(&self.disk, snapshot.store, segment) {
                    // A disk with no room, or one that fails once, leaves a segment without an index.
                    Err(LogError::Io { .. }) if !self.disk.is_stopped() => {}
                    result => result?,
                }
            }
        }
        Ok(())
    }

    /// Flips a bit, or cuts a file off. Either it is noticed, and nothing is changed, or it makes no difference.
    fn damage(&mut self) -> Result<(), String> {
        let mut log = self.open().map_err(|error| error.to_string())?;
        self.settle(&log)?;
        self.flush(&mut log)
            .and_then(|()| log.mark(self.now_us))
            .and_then(|()| log.flush())
            .map_err(|error| error.to_string())?;
        let expected = self.reader(&log).read_all().map_err(|error| error.to_string())?;
        let floor = log.floor();
        drop(log);
        self.disk.sync_all();
        let files: Vec<_> = self.disk.contents().into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        let (name, bytes) = &files[self.rng.usize(..files.len())];
        let bit = self.rng.usize(..bytes.len() * 8);
        if self.rng.u32(..4) == 0 {
            self.disk.cut(name, bit / 8);
        } else {
            self.disk.flip(name, bit);
        }
        let before = self.disk.contents();
        match self.open() {
            Err(LogError::Corrupt { .. } | LogError::Refused(_) | LogError::Version { .. }) => {
                let logs = |contents: &BTreeMap<String, Vec<u8>>| -> Vec<_> {
                    let segments = contents.iter().filter(|(name, _)| !name.starts_with("spare"));
                    segments.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
                };
                if logs(&before) != logs(&self.disk.contents()) {
                    return Err(format!("bit {bit} of {name}: refused, but something was changed"));
                }
                Ok(())
            }
            Err(error) => Err(format!("bit {bit} of {name}: {error}")),
            Ok(log) => match self.reader(&log).read(&Query::range(floor, u64::MAX)) {
                Err(LogError::Corrupt { .. } | LogError::Refused(_) | LogError::Version { .. }) => Ok(()),
                Ok(rows) if rows == expected => Ok(()),
                Ok(rows) => {
                    Err(format!("bit {bit} of {name}: {} rows instead of {}", rows.len(), expected.len()))
                }
                Err(error) => Err(format!("bit {bit} of {name}: {error}")),
            },
        }
    }
}
