//! What an index spares a reader: it opens and reads only what has its topics.

use std::sync::Arc;

use shoal_log::{Cursor, Identity, Log, LogError, Meta, Options, Query, RowsWriter, build_index, topics};
use shoal_sim::{DiskFaults, SimDisk};
use shoal_wire::{BodyKind, Destination, Outgoing, Topic, TopicPattern};

const SEGMENT_BYTES: u64 = 1 << 20;

fn log(disk: &Arc<SimDisk>) -> Log<SimDisk> {
    let options = Options { segment_bytes: SEGMENT_BYTES, ..Options::default() };
    Log::open(disk.clone(), options, Identity { store: 7, incarnation: [7; 16] }, 1).unwrap().0
}

fn rows(topic: &str, count: usize) -> RowsWriter {
    let mut rows = RowsWriter::default();
    let mut record = Vec::new();
    let destination = Destination::topic(Topic::new(topic).unwrap());
    Outgoing::new(destination, BodyKind::Bytes, &[1; 1000]).encode_into(&mut record).unwrap();
    for _ in 0..count {
        rows.push(&Meta::default(), &record);
    }
    rows
}

/// How many messages a query finds, and how many bytes it reads.
fn read(disk: &Arc<SimDisk>, log: &Log<SimDisk>, topic: &str) -> (usize, u64) {
    let patterns = vec![TopicPattern::new(topic).unwrap()];
    let query = Query { start: 0, end: u64::MAX, patterns, selector: None };
    let before = disk.bytes_read();
    let found = count(disk, log, &query).unwrap();
    (found, disk.bytes_read() - before)
}

fn count(disk: &Arc<SimDisk>, log: &Log<SimDisk>, query: &Query) -> Result<usize, LogError> {
    let mut cursor = Cursor::new(disk.clone(), &log.snapshot(), query)?;
    let mut found = 0;
    while cursor.next()?.is_some() {
        found += 1;
    }
    Ok(found)
}

fn index_all(disk: &Arc<SimDisk>, log: &Log<SimDisk>) {
    let snapshot = log.snapshot();
    for segment in snapshot.segments.iter().filter(|segment| segment.sealed) {
        build_index(disk, snapshot.store, segment).unwrap();
    }
}

#[test]
fn a_rare_topic_among_recorded_messages_is_found_without_reading_the_others() {
    let disk = Arc::new(SimDisk::new(1));
    let mut log = log(&disk);
    for number in 0..200 {
        log.append(number, &rows(if number == 77 { "rare" } else { "often" }, 100)).unwrap();
        log.flush().unwrap();
    }
    let whole = read(&disk, &log, "rare");
    index_all(&disk, &log);
    let indexed = read(&disk, &log, "rare");
    assert_eq!((whole.0, indexed.0), (100, 100));
    assert_eq!(read(&disk, &log, "often").0, 199 * 100);
    assert!(indexed.1 * 5 < whole.1, "{} bytes instead of {}", indexed.1, whole.1);
}

#[test]
fn a_rare_topic_in_a_large_commit_is_found_without_reading_the_others() {
    let disk = Arc::new(SimDisk::new(1));
    let mut log = log(&disk);
    for number in 0..200 {
        log.stage(number, "s", &rows(if number % 100 == 77 { "rare" } else { "often" }, 100)).unwrap();
    }
    log.commit(200, Some("q"), 1, &["s"]).unwrap();
    log.append(201, &rows("rare", 3)).unwrap();
    log.seal(202).unwrap();
    log.flush().unwrap();
    let whole = read(&disk, &log, "rare");
    index_all(&disk, &log);
    let indexed = read(&disk, &log, "rare");
    assert_eq!((whole.0, indexed.0), (203, 203));
    assert_eq!(read(&disk, &log, "often").0, 198 * 100);
    assert!(indexed.1 * 5 < whole.1, "{} bytes instead of {}", indexed.1, whole.1);
}

#[test]
fn a_rare_topic_in_the_segment_that_takes_messages_is_looked_for_once() {
    let disk = Arc::new(SimDisk::new(1));
    let options = Options { segment_bytes: 64 << 20, ..Options::default() };
    let identity = Identity { store: 7, incarnation: [7; 16] };
    let mut log = Log::open(disk.clone(), options, identity, 1).unwrap().0;
    for number in 0..100 {
        log.append(number, &rows(if number == 77 { "rare" } else { "often" }, 100)).unwrap();
    }
    log.flush().unwrap();
    let before = log.snapshot();
    let first = read(&disk, &log, "rare");
    let again = read(&disk, &log, "rare");
    assert_eq!((first.0, again.0), (100, 100));
    assert!(again.1 * 5 < first.1, "{} bytes instead of {}", again.1, first.1);
    // What comes later is looked at when it is asked for, and readers that began earlier do not see it.
    log.append(101, &rows("rare", 7)).unwrap();
    log.stage(102, "s", &rows("rare", 5)).unwrap();
    log.commit(103, Some("q"), 1, &["s"]).unwrap();
    log.flush().unwrap();
    assert_eq!(read(&disk, &log, "rare").0, 112);
    assert_eq!(read(&disk, &log, "often").0, 99 * 100);
    let patterns = vec![TopicPattern::new("rare").unwrap()];
    let query = Query { start: 0, end: u64::MAX, patterns, selector: None };
    let mut cursor = Cursor::new(disk.clone(), &before, &query).unwrap();
    let mut found = 0;
    while cursor.next().unwrap().is_some() {
        found += 1;
    }
    assert_eq!(found, 100);
    let counted = topics(&disk, &log.snapshot(), &Query::range(0, u64::MAX)).unwrap();
    let counts: Vec<_> = counted.iter().map(|topic| (&*topic.name, topic.count)).collect();
    assert_eq!(counts, [(&b"often"[..], 9900), (&b"rare"[..], 112)]);
}

#[test]
fn a_read_that_fails_leaves_the_index_of_the_last_segment_as_if_it_had_not_been_asked_for() {
    let mut failed = 0;
    for reads in 0..20 {
        let disk = Arc::new(SimDisk::new(1));
        let mut log = log(&disk);
        // Frames of a staging lie in another segment than the commit that shows them.
        for number in 0..12 {
            log.stage(number, "s", &rows("staged", 100)).unwrap();
        }
        log.append(20, &rows("a", 100)).unwrap();
        log.commit(30, Some("q"), 1, &["s"]).unwrap();
        log.append(40, &rows("a", 100)).unwrap();
        log.flush().unwrap();
        let patterns = vec![TopicPattern::new("a").unwrap()];
        let query = Query { start: 0, end: u64::MAX, patterns, selector: None };
        disk.set_faults(DiskFaults { fail_read_in: Some(reads), ..DiskFaults::default() });
        failed += u32::from(count(&disk, &log, &query).is_err());
        disk.set_faults(DiskFaults::default());
        assert_eq!(read(&disk, &log, "a").0, 200, "after {reads} reads");
        assert_eq!(read(&disk, &log, "staged").0, 1200, "after {reads} reads");
        let known = topics(&disk, &log.snapshot(), &Query::range(0, u64::MAX)).unwrap();
        let messages: u64 = known.iter().map(|topic| topic.count).sum();
        assert_eq!(messages, 1400, "after {reads} reads");
    }
    assert!(failed > 0, "some read failed");
}
