//! The log between threads, on a disk that forgets what was not synced.

use std::collections::HashSet;
use std::sync::Arc;

use shoal_io::store::Shared;
use shoal_log::{Change, Identity, Log, Meta, Options, RowsWriter};
use shoal_sim::SimDisk;
use shoal_wire::{BodyKind, Destination, Outgoing, Topic};

const FRESH: Identity = Identity { store: 7, incarnation: [7; 16] };

fn options() -> Options {
    Options { segment_bytes: 64 << 10, ..Options::default() }
}

fn open(disk: &Arc<SimDisk>) -> Shared<SimDisk> {
    Shared::on(disk.clone(), options(), 1 << 20, FRESH, None).unwrap().0
}

fn rows(count: usize) -> RowsWriter {
    let mut rows = RowsWriter::default();
    let mut record = Vec::new();
    let destination = Destination::topic(Topic::new("t").unwrap());
    Outgoing::new(destination, BodyKind::Bytes, &[1; 1000]).encode_into(&mut record).unwrap();
    (0..count).for_each(|_| rows.push(&Meta::default(), &record));
    rows
}

#[test]
fn a_segment_is_written_anew_only_once_the_reason_for_it_is_durable() {
    for seed in 0..20 {
        let disk = Arc::new(SimDisk::new(seed));
        let log = open(&disk);
        log.stage("s", &rows(10)).unwrap();
        log.with(Log::seal).unwrap();
        log.sync().unwrap();
        log.with(|log, now| log.change(now, vec![Change::Discard("s".into())])).unwrap();
        assert!(log.compact(1, &HashSet::new()).unwrap());
        drop(log);
        disk.restart();
        // Its rows are gone, so there must be no staging that has them.
        let stagings = open(&disk).look(|log| log.state().stagings().count());
        assert_eq!(stagings, 0, "seed {seed}");
    }
}

/// Staged in the first segment and committed in the third; the second has to stay for a commit in the fifth.
fn log_with_a_commit_whose_rows_are_gone(disk: &Arc<SimDisk>) -> Shared<SimDisk> {
    let log = open(disk);
    let seal = || {
        log.append(&rows(1)).unwrap();
        log.with(Log::seal).unwrap();
        log.sync().unwrap();
    };
    log.stage("early", &rows(5)).unwrap();
    seal();
    log.stage("late", &rows(5)).unwrap();
    seal();
    log.commit(Some("q"), 1, &["early"]).unwrap();
    seal();
    seal();
    let floor = log.look(Log::end);
    log.commit(Some("q"), 2, &["late"]).unwrap();
    seal();
    assert_eq!(log.trim(floor).unwrap(), (floor, vec![1]));
    log
}

#[test]
fn a_commit_below_the_floor_whose_rows_are_gone_stops_nothing() {
    let disk = Arc::new(SimDisk::new(1));
    drop(log_with_a_commit_whose_rows_are_gone(&disk));
    disk.sync_all();
    let found = shoal_log::verify(&disk).unwrap();
    assert_eq!((found.damages, found.missing), (vec![], vec![]));
    // Without indexes, as if somebody had removed them.
    let log = open(&disk);
    while log.build_next_index().unwrap() {}
    assert!(log.segment_topics(3).unwrap().is_empty());
    assert_eq!(log.segment_topics(5).unwrap()[0].count, 6);
    let patterns = [shoal_wire::TopicPattern::new("t").unwrap()];
    log.begin_recording(&patterns).unwrap();
    let topic = HashSet::from([b"t".to_vec()]);
    assert!(!log.compact(3, &topic).unwrap(), "nothing in it is read any more");
    assert!(log.compact(5, &topic).unwrap());
}

#[test]
fn rows_of_a_commit_that_nobody_removed_on_purpose_are_damage() {
    let disk = Arc::new(SimDisk::new(1));
    drop(log_with_a_commit_whose_rows_are_gone(&disk));
    disk.sync_all();
    shoal_log::Disk::remove(&*disk, "0000000002.log").unwrap();
    let found = shoal_log::verify(&disk).unwrap();
    let [damage] = &found.damages[..] else { panic!("{:?}", found.damages) };
    assert_eq!((damage.file.as_str(), damage.end - damage.first), ("0000000002.log", 5));
}
