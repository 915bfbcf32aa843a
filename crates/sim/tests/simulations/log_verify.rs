//! What a damaged log is said to have lost, and what not.

use std::sync::Arc;

use shoal_log::{Change, Cursor, Identity, Log, Meta, Options, Query, RowsWriter, Verification, verify};
use shoal_sim::SimDisk;
use shoal_wire::{BodyKind, Destination, Outgoing, Topic};

fn rows(count: usize) -> RowsWriter {
    let mut rows = RowsWriter::default();
    let mut record = Vec::new();
    let destination = Destination::topic(Topic::new("t").unwrap());
    Outgoing::new(destination, BodyKind::Bytes, &[1; 1000]).encode_into(&mut record).unwrap();
    for _ in 0..count {
        rows.push(&Meta::default(), &record);
    }
    rows
}

/// Five segments and a bit, each append a frame of ten messages, two commits, everything durable and closed.
fn log(disk: &Arc<SimDisk>) -> u64 {
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    let mut log = Log::open(disk.clone(), options, Identity { store: 7, incarnation: [7; 16] }, 1).unwrap().0;
    for number in 0..30 {
        log.append(number, &rows(10)).unwrap();
        if number % 10 == 5 {
            log.stage(number, "s", &rows(10)).unwrap();
        }
        if number % 10 == 9 {
            log.commit(number, Some("q"), number, &["s"]).unwrap();
        }
        log.flush().unwrap();
    }
    log.mark(31).unwrap();
    log.flush().unwrap();
    log.end()
}

fn verified(disk: &Arc<SimDisk>) -> Verification {
    let before = disk.contents();
    let found = verify(disk).unwrap();
    assert_eq!(before, disk.contents(), "verifying changes nothing");
    found
}

fn messages(found: &Verification) -> u64 {
    found.segments.iter().map(|segment| segment.messages).sum()
}

#[test]
fn a_whole_log_has_no_damage_and_all_of_its_messages() {
    let disk = Arc::new(SimDisk::new(1));
    let end = log(&disk);
    let found = verified(&disk);
    assert_eq!((found.damages.len(), found.missing.len()), (0, 0));
    assert_eq!((messages(&found), found.store, found.incarnation), (end, 7, [7; 16]));
    assert_eq!((found.segments[0].first, found.segments.last().unwrap().end), (0, end));
    assert!(found.segments.len() > 4);
}

#[test]
fn a_flipped_bit_anywhere_costs_the_messages_of_its_frame_and_no_others() {
    let disk = Arc::new(SimDisk::new(1));
    let end = log(&disk);
    let whole = verified(&disk);
    for segment in &whole.segments {
        let name = format!("{:010}.log", segment.number);
        for at in (0..segment.bytes).step_by(997) {
            disk.flip(&name, at as usize * 8 + 3);
            let found = verified(&disk);
            disk.flip(&name, at as usize * 8 + 3);
            // Padding belongs to no frame, and the very last frame cannot be told from a torn tail.
            let Some(damage) = found.damages.first() else { continue };
            assert_eq!(damage.file, name);
            assert!(damage.from <= at && at < damage.to, "byte {at} is not in {damage:?}");
            let lost: u64 = found.damages.iter().map(|one| one.end - one.first).sum();
            assert_eq!(messages(&found) + lost, end, "byte {at} of {name}: {:?}", found.damages);
            assert!(lost <= 10, "byte {at} of {name} costs {lost} messages");
        }
    }
    assert_eq!(verified(&disk), whole);
}

#[test]
fn a_file_that_is_cut_or_missing_is_named() {
    let disk = Arc::new(SimDisk::new(1));
    let end = log(&disk);
    disk.cut("0000000002.log", 30_000);
    let found = verified(&disk);
    assert_eq!(found.damages.last().unwrap().file, "0000000002.log");
    let lost: u64 = found.damages.iter().map(|one| one.end - one.first).sum();
    assert!(lost > 0);
    assert_eq!(messages(&found) + lost, end);
    disk.cut("0000000002.log", 0);
    assert_eq!(verified(&disk).damages[0].from, 0);
    shoal_log::Disk::remove(&*disk, "0000000002.log").unwrap();
    assert_eq!(verified(&disk).missing, [2]);
}

#[test]
fn a_staging_whose_discard_a_crash_takes_back_still_has_its_rows() {
    let disk = Arc::new(SimDisk::new(1));
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    let open = || Log::open(disk.clone(), options, Identity { store: 7, incarnation: [7; 16] }, 1).unwrap().0;
    let mut log = open();
    log.stage(1, "s", &rows(10)).unwrap();
    log.seal(2).unwrap();
    log.flush().unwrap();
    log.change(3, vec![Change::Discard("s".into())]).unwrap();
    // It may go or be written anew, but not before the discard is durable; here the crash comes first.
    assert!(log.can_compact(1));
    assert_eq!(log.removable(), [1]);
    drop(log);
    disk.restart();
    let mut log = open();
    assert!(!log.can_compact(1));
    assert!(log.removable().is_empty());
    log.commit(4, Some("q"), 1, &["s"]).unwrap();
    log.flush().unwrap();
    let mut cursor = Cursor::new(disk.clone(), &log.snapshot(), &Query::range(0, 10)).unwrap();
    let mut found = 0;
    while cursor.next().unwrap().is_some() {
        found += 1;
    }
    assert_eq!(found, 10);
}
