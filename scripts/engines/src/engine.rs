//! What is compared: records that become durable in batches, and are read in order.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use fjall::{Keyspace, PartitionCreateOptions, PartitionHandle, PersistMode};
use redb::{Database, ReadableTable, TableDefinition};
use shoal_io::store::Shared;
use shoal_log::{Identity, Meta, Options, Query, RowsWriter};

pub const ENGINES: [&str; 3] = ["log", "fjall", "redb"];

pub trait Engine: Sync {
    /// Returns when all of them are durable.
    fn commit(&self, batch: &[&[u8]]);
    /// How many records there are, and their bytes.
    fn read(&self) -> (usize, usize);
}

pub fn open(name: &str, path: &Path) -> Box<dyn Engine> {
    std::fs::create_dir_all(path).expect("a directory");
    match name {
        "log" => Box::new(Log::open(path)),
        "fjall" => Box::new(Fjall::open(path)),
        "redb" => Box::new(Redb::open(path)),
        other => panic!("no engine is called {other}; there are {ENGINES:?}"),
    }
}

struct Log(Shared);

impl Log {
    fn open(path: &Path) -> Log {
        let fresh = Identity { store: 7, incarnation: [7; 16] };
        let opened = Shared::open(path, "engines", Options::default(), 8 << 20, fresh);
        Log(opened.expect("a log").0)
    }
}

impl Engine for Log {
    fn commit(&self, batch: &[&[u8]]) {
        let mut rows = RowsWriter::default();
        batch.iter().for_each(|record| rows.push(&Meta::default(), record));
        self.0.append(&rows).expect("room");
        self.0.sync().expect("a disk");
    }

    fn read(&self) -> (usize, usize) {
        let mut cursor = self.0.cursor(&Query::range(0, u64::MAX)).expect("a log");
        let (mut count, mut bytes) = (0, 0);
        while let Some(row) = cursor.next().expect("whole rows") {
            count += 1;
            bytes += row.record.len();
        }
        (count, bytes)
    }
}

struct Fjall {
    keyspace: Keyspace,
    items: PartitionHandle,
    next: AtomicU64,
}

impl Fjall {
    fn open(path: &Path) -> Fjall {
        let keyspace = fjall::Config::new(path).open().expect("a keyspace");
        let items = keyspace.open_partition("items", PartitionCreateOptions::default()).expect("a partition");
        Fjall { keyspace, items, next: AtomicU64::new(0) }
    }
}

impl Engine for Fjall {
    fn commit(&self, batch: &[&[u8]]) {
        let first = self.next.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let mut writing = self.keyspace.batch();
        for (at, record) in (first..).zip(batch) {
            writing.insert(&self.items, at.to_be_bytes(), *record);
        }
        writing.commit().expect("a commit");
        self.keyspace.persist(PersistMode::SyncData).expect("a disk");
    }

    fn read(&self) -> (usize, usize) {
        let lengths = self.items.iter().map(|item| item.expect("a record").1.len());
        lengths.fold((0, 0), |(count, bytes), length| (count + 1, bytes + length))
    }
}

struct Redb {
    database: Database,
    next: AtomicU64,
}

const ITEMS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("items");

impl Redb {
    fn open(path: &Path) -> Redb {
        let database = Database::create(path.join("items.redb")).expect("a database");
        Redb { database, next: AtomicU64::new(0) }
    }
}

impl Engine for Redb {
    fn commit(&self, batch: &[&[u8]]) {
        let first = self.next.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let writing = self.database.begin_write().expect("a transaction");
        {
            let mut items = writing.open_table(ITEMS).expect("a table");
            for (at, record) in (first..).zip(batch) {
                items.insert(at, *record).expect("room");
            }
        }
        writing.commit().expect("a disk");
    }

    fn read(&self) -> (usize, usize) {
        let reading = self.database.begin_read().expect("a transaction");
        let items = reading.open_table(ITEMS).expect("a table");
        let lengths = items.iter().expect("records").map(|item| item.expect("a record").1.value().len());
        lengths.fold((0, 0), |(count, bytes), length| (count + 1, bytes + length))
    }
}
