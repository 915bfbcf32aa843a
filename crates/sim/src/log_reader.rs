//! Everything that can be asked of a log on a simulated disk, compared with what a model says.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use shoal_log::{Clock, Cursor, Log, LogError, Meta, Query, gaps, offset_at, split, topics};
use shoal_wire::{MessageView, TopicPattern};

use crate::disk::SimDisk;
use crate::log_model::{Model, ModelRow};
use crate::log_run::{TOPICS, topic_name};

/// Asks a log.
pub struct LogReader<'a> {
    /// Where it is.
    pub disk: &'a Arc<SimDisk>,
    /// Which.
    pub log: &'a Log<SimDisk>,
}

impl LogReader<'_> {
    /// Every row there is.
    pub fn read_all(&self) -> Result<Vec<ModelRow>, LogError> {
        self.read(&Query::range(self.log.floor(), u64::MAX))
    }

    /// What a query finds.
    pub fn read(&self, query: &Query) -> Result<Vec<ModelRow>, LogError> {
        let mut cursor = Cursor::new(self.disk.clone(), &self.log.snapshot(), query)?;
        let mut rows = Vec::new();
        while let Some(row) = cursor.next()? {
            let name =
                MessageView::parse(row.record).map(|view| view.name_bytes().to_vec()).unwrap_or_default();
            let meta = Meta {
                publisher: row.publisher,
                chain: row.chain,
                number: row.number,
                timestamp_us: row.timestamp_us,
            };
            rows.push(ModelRow {
                offset: row.offset,
                stored_us: row.stored_us,
                meta,
                topic: String::from_utf8_lossy(&name).into_owned(),
                record: row.record.to_vec(),
            });
        }
        Ok(rows)
    }

    /// Compares everything a reader can ask with what the model says.
    pub fn check(&self, durable: &Model, rng: &mut Rng, now_us: u64) -> Result<(), String> {
        let log = self.log;
        let text = |error: LogError| error.to_string();
        let floor = log.floor();
        let expected: Vec<_> = durable.rows.iter().filter(|row| row.offset >= floor).cloned().collect();
        for _ in 0..2 {
            let rows = self.read_all().map_err(text)?;
            if rows != expected {
                let first = rows.iter().zip(&expected).position(|(is, due)| is != due);
                let (is, due) = (rows.len(), expected.len());
                return Err(format!("{is} rows instead of {due}, the first that differs: {first:?}"));
            }
        }
        let (start, end) = (rng.u64(floor..=log.end()), rng.u64(floor..=log.end() + 3));
        let name = topic_name(rng.u64(..TOPICS));
        let patterns = vec![TopicPattern::new(&name).map_err(|error| error.to_string())?];
        let query = Query { start, end, patterns, selector: None };
        let some: Vec<_> = self.read(&query).map_err(text)?;
        let wanted = |row: &&ModelRow| row.offset >= start && row.offset < end && row.topic == name;
        if !some.iter().eq(expected.iter().filter(wanted)) {
            return Err(format!("{name} from {start} to {end}: {} rows, which is wrong", some.len()));
        }
        self.check_topics(&expected)?;
        self.check_split(&expected, start, end, rng.usize(1..6))?;
        self.check_times(&expected, rng.u64(990_000..=now_us + 1000))?;
        self.check_gaps(durable)
    }

    fn check_topics(&self, expected: &[ModelRow]) -> Result<(), String> {
        let mut counts: BTreeMap<Vec<u8>, (u64, u64, u64)> = BTreeMap::new();
        for row in expected {
            let count = counts.entry(row.topic.clone().into_bytes()).or_insert((0, row.offset, row.offset));
            *count = (count.0 + 1, count.1, row.offset);
        }
        let all = Query::range(0, u64::MAX);
        let found = topics(self.disk, &self.log.snapshot(), &all).map_err(|error| error.to_string())?;
        let found: BTreeMap<_, _> =
            found.into_iter().map(|one| (one.name.to_vec(), (one.count, one.first, one.last))).collect();
        if found != counts {
            return Err("the list of topics is wrong".into());
        }
        Ok(())
    }

    fn check_split(&self, expected: &[ModelRow], start: u64, end: u64, count: usize) -> Result<(), String> {
        let parts = split(self.disk, &self.log.snapshot(), &Query::range(start, end), count)
            .map_err(|error| error.to_string())?;
        let joined = parts.windows(2).all(|pair| pair[0].1 == pair[1].0);
        let inside = expected.iter().filter(|row| row.offset >= start && row.offset < end);
        let covered = |row: &ModelRow| parts.iter().any(|part| part.0 <= row.offset && row.offset < part.1);
        if !joined || !inside.clone().all(covered) {
            return Err(format!("{start} to {end} is split into {parts:?}"));
        }
        Ok(())
    }

    fn check_times(&self, expected: &[ModelRow], time_us: u64) -> Result<(), String> {
        let (log, snapshot) = (self.log, self.log.snapshot());
        for (clock, time) in [
            (Clock::Stored, (|row: &ModelRow| row.stored_us) as fn(&ModelRow) -> u64),
            (Clock::Published, |row: &ModelRow| row.meta.timestamp_us),
        ] {
            let found = offset_at(self.disk, &snapshot, time_us, clock).map_err(|error| error.to_string())?;
            let due = expected.iter().find(|row| time(row) >= time_us).map_or(log.end(), |row| row.offset);
            if found != due {
                return Err(format!("{clock:?} {time_us} is at {found}, and should be at {due}"));
            }
        }
        Ok(())
    }

    fn check_gaps(&self, durable: &Model) -> Result<(), String> {
        let log = self.log;
        let lost =
            gaps(self.disk, &log.snapshot(), log.floor(), u64::MAX).map_err(|error| error.to_string())?;
        let lost: Vec<_> =
            lost.into_iter().map(|row| (row.offset, row.gap)).filter(|gap| gap.0 > log.floor()).collect();
        let due: Vec<_> = durable.gaps.iter().copied().filter(|gap| gap.0 > log.floor()).collect();
        if lost != due {
            return Err(format!("gaps {lost:?} instead of {due:?}"));
        }
        Ok(())
    }

    /// Behind the last frame there is nothing that could ever be taken for one.
    pub fn check_tail(&self) -> Result<(), String> {
        let durable = self.log.durable();
        let contents = self.disk.contents();
        let last =
            contents.get(&format!("{:010}.log", durable.segment)).ok_or("the last segment has no file")?;
        if last[durable.position as usize..].iter().any(|&byte| byte != 0) {
            return Err(format!("bytes are left behind position {}", durable.position));
        }
        Ok(())
    }
}
