//! What a log must contain: the plainest store there is, as the oracle of simulated runs.

use std::collections::BTreeMap;

use shoal_log::{Disk, Gap, Log, Meta};

/// A message as it was given to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRow {
    /// Where it must be.
    pub offset: u64,
    /// When it was stored.
    pub stored_us: u64,
    /// What is known of it.
    pub meta: Meta,
    /// Its topic.
    pub topic: String,
    /// The message itself.
    pub record: Vec<u8>,
}

/// Something that was done to the log.
#[derive(Clone, Debug)]
pub enum Step {
    /// Messages were appended.
    Append(Vec<ModelRow>),
    /// Messages were appended, and a key got a value, in one frame.
    Turn(Vec<ModelRow>, String, Vec<u8>),
    /// A gap was noted.
    Gap(Gap),
    /// Rows were staged.
    Stage(String, Vec<ModelRow>),
    /// Stagings were committed, at this time.
    Commit(Option<String>, u64, Vec<String>, u64),
    /// A staging was discarded.
    Discard(String),
    /// A key got a value, or lost it.
    Put(String, Option<Vec<u8>>),
    /// Committed rows were published.
    Published(u64),
    /// History begins later.
    Floor(u64),
    /// Nothing that anybody sees.
    Mark,
}

/// What a log must contain.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The store's id, which is the publisher of committed rows.
    pub store: u64,
    /// The messages, in order.
    pub rows: Vec<ModelRow>,
    /// Gaps, and the offset of the message behind each.
    pub gaps: Vec<(u64, Gap)>,
    /// The offset of the next message.
    pub end: u64,
    /// Where history begins.
    pub floor: u64,
    /// By topic, publisher and chain: the highest number that was appended.
    pub numbers: BTreeMap<(String, u64, u32), u64>,
    values: BTreeMap<String, Vec<u8>>,
    stagings: BTreeMap<String, Vec<ModelRow>>,
    scopes: BTreeMap<String, (u64, u64, u64)>,
    unpublished: Vec<(u64, u64)>,
}

impl Model {
    /// What a new log must contain.
    pub fn new(store: u64) -> Model {
        Model { store, ..Model::default() }
    }

    /// Takes a step.
    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Append(rows) => self.append(rows),
            Step::Turn(rows, key, value) => {
                self.append(rows);
                self.values.insert(key.clone(), value.clone());
            }
            Step::Gap(gap) => self.gaps.push((self.end, *gap)),
            Step::Stage(id, rows) => self.stagings.entry(id.clone()).or_default().extend_from_slice(rows),
            Step::Commit(scope, number, ids, stored_us) => {
                self.commit(scope.as_deref(), *number, ids, *stored_us)
            }
            Step::Discard(id) => drop(self.stagings.remove(id)),
            Step::Put(key, Some(value)) => drop(self.values.insert(key.clone(), value.clone())),
            Step::Put(key, None) => drop(self.values.remove(key)),
            Step::Published(offset) => {
                self.unpublished.retain_mut(|run| {
                    run.0 = run.0.max(*offset);
                    run.0 < run.1
                });
            }
            Step::Floor(offset) => self.floor = self.floor.max(*offset),
            Step::Mark => {}
        }
    }

    fn append(&mut self, rows: &[ModelRow]) {
        self.rows.extend_from_slice(rows);
        self.end += rows.len() as u64;
        for ModelRow { meta, topic, .. } in rows {
            if let Some(number) = meta.number {
                self.numbers.insert((topic.clone(), meta.publisher, meta.chain), number);
            }
        }
    }

    fn commit(&mut self, scope: Option<&str>, number: u64, ids: &[String], stored_us: u64) {
        let first = self.end;
        for id in ids {
            for mut row in self.stagings.remove(id).unwrap_or_default() {
                row.offset = self.end;
                row.stored_us = stored_us;
                row.meta.publisher = self.store;
                row.meta.chain = 0;
                row.meta.number = Some(self.end);
                self.end += 1;
                self.rows.push(row);
            }
        }
        if let Some(scope) = scope {
            self.scopes.insert(scope.to_owned(), (number, first, self.end));
        }
        if first < self.end {
            match self.unpublished.last_mut() {
                Some(last) if last.1 == first => last.1 = self.end,
                _ => self.unpublished.push((first, self.end)),
            }
        }
    }

    /// Retention removed a topic from a range of offsets.
    pub fn compact(&mut self, first: u64, end: u64, topic: &str) {
        self.rows.retain(|row| !(row.offset >= first && row.offset < end && row.topic == topic));
    }

    /// Stagings that are open.
    pub fn staging_ids(&self) -> Vec<String> {
        self.stagings.keys().cloned().collect()
    }

    /// The last commit of a scope.
    pub fn committed(&self, scope: &str) -> Option<(u64, u64, u64)> {
        self.scopes.get(scope).copied()
    }

    /// The first committed row that is not published.
    pub fn first_unpublished(&self) -> Option<(u64, u64)> {
        self.unpublished.first().copied()
    }

    /// What differs between this and the state of a log; none if nothing does. Messages are not compared.
    pub fn difference<D: Disk>(&self, log: &Log<D>) -> Option<String> {
        let state = log.state();
        let values = state.values("").map(|(key, value)| (key.to_owned(), value.to_vec())).collect();
        let stagings: BTreeMap<_, _> =
            state.stagings().map(|(id, staging)| (id.to_owned(), staging.rows() as usize)).collect();
        let scopes =
            state.scopes().map(|(scope, last)| (scope.to_owned(), (last.number, last.first, last.end)));
        let expected_stagings = self.stagings.iter().map(|(id, rows)| (id.clone(), rows.len())).collect();
        let checks = [
            ("end", self.end != log.end()),
            ("floor", self.floor != log.floor()),
            ("values", self.values != values),
            ("stagings", stagings != expected_stagings),
            ("scopes", self.scopes != scopes.collect()),
            ("unpublished", self.unpublished != state.unpublished().collect::<Vec<_>>()),
        ];
        let different: Vec<_> = checks.iter().filter(|check| check.1).map(|check| check.0).collect();
        (!different.is_empty()).then(|| different.join(", "))
    }
}
