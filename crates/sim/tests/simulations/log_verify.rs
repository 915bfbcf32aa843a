//! What a damaged log is said to have lost, and what not.

use std::sync::Arc;

use shoal_log::{
    Change, Cursor, Damage, Disk, HEADER_BYTES, Identity, Log, LogError, Meta, Options, Query, RowsWriter,
    Verification, verify,
};
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

fn open(disk: &Arc<SimDisk>) -> Result<Log<SimDisk>, LogError> {
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    Log::open(disk.clone(), options, Identity { store: 7, incarnation: [7; 16] }, 1).map(|opened| opened.0)
}

/// Five segments and a bit, each append a frame of ten messages, two commits, everything durable and closed.
fn log(disk: &Arc<SimDisk>) -> u64 {
    let mut log = open(disk).unwrap();
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
    Disk::remove(&*disk, "0000000002.log").unwrap();
    assert_eq!(verified(&disk).missing, [2]);
}

#[test]
fn a_staging_whose_discard_a_crash_takes_back_still_has_its_rows() {
    let disk = Arc::new(SimDisk::new(1));
    let mut log = open(&disk).unwrap();
    log.stage(1, "s", &rows(10)).unwrap();
    log.seal(2).unwrap();
    log.flush().unwrap();
    log.change(3, vec![Change::Discard("s".into())]).unwrap();
    // It may go or be written anew, but not before the discard is durable; here the crash comes first.
    assert!(log.can_compact(1));
    assert_eq!(log.removable(), [1]);
    drop(log);
    disk.restart();
    let mut log = open(&disk).unwrap();
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

/// A start that was refused for damage.
fn refused(disk: &Arc<SimDisk>) -> Option<Damage> {
    match open(disk) {
        Ok(_) => None,
        Err(LogError::Corrupt { file, from, to, first, end, why }) => {
            Some(Damage { file, from, to, first, end, why })
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_start_names_damage_as_verifying_does() {
    let disk = Arc::new(SimDisk::new(1));
    log(&disk);
    let segments = verified(&disk).segments;
    let newest = segments.last().unwrap();
    let mut places: Vec<(u32, u64)> = segments.iter().map(|segment| (segment.number, 20)).collect();
    places.extend((0..newest.bytes - 64).step_by(2999).map(|at| (newest.number, at)));
    let mut named = 0;
    for (number, at) in places {
        for cuts in [false, true] {
            let disk = Arc::new(SimDisk::new(1));
            log(&disk);
            let name = format!("{number:010}.log");
            if cuts {
                disk.cut(&name, at as usize)
            } else {
                disk.flip(&name, at as usize * 8 + 3)
            }
            let damages = verified(&disk).damages;
            if let Some(damage) = refused(&disk) {
                assert!(damages.contains(&damage), "byte {at} of {name}: {damage:?} is none of {damages:?}");
                named += 1;
            }
        }
    }
    assert!(named > 20, "{named}");
}

#[test]
fn a_damaged_first_frame_does_not_say_whose_log_it_is() {
    for wrong in [1, 2] {
        let disk = Arc::new(SimDisk::new(1));
        let mut log = open(&disk).unwrap();
        log.append(1, &rows(10)).unwrap();
        log.seal(2).unwrap();
        log.append(3, &rows(10)).unwrap();
        log.flush().unwrap();
        // A bit of the store's id, in one of two files.
        let name = format!("{wrong:010}.log");
        disk.flip(&name, 8 * 8 + 5);
        let found = verified(&disk);
        assert_eq!((found.store, messages(&found)), (7, 20));
        assert_eq!(found.damages.len(), 1);
        assert_eq!(refused(&disk).unwrap().file, name);
    }
}

#[test]
fn a_frame_without_meaning_is_damage_though_its_checksum_is_right() {
    let disk = Arc::new(SimDisk::new(1));
    log(&disk);
    let whole = verified(&disk);
    let mut kinds = 0;
    for (name, bytes) in disk.contents().into_iter().filter(|(name, _)| name.starts_with('0')) {
        let mut seen = Vec::new();
        let mut at = 0;
        while let Some(frame) = bytes.get(at..at + HEADER_BYTES).filter(|frame| frame[20] > 0) {
            let length = u32::from_le_bytes(frame[4..8].try_into().unwrap()) as usize;
            let next = at + (HEADER_BYTES + length).next_multiple_of(8);
            // Every kind but the first frame of a file, once for each file.
            if at > 0 && length > 0 && !seen.contains(&frame[20]) {
                seen.push(frame[20]);
                let disk = Arc::new(SimDisk::new(1));
                log(&disk);
                let mut broken = bytes[at..next].to_vec();
                broken[HEADER_BYTES..HEADER_BYTES + length].fill(0xff);
                let sum = crc32c::crc32c(&broken[4..HEADER_BYTES + length]);
                broken[..4].copy_from_slice(&sum.to_le_bytes());
                let file = disk.open(&name).unwrap();
                disk.write(&file, at as u64, &broken).unwrap();
                let found = verified(&disk);
                let damage = &found.damages[0];
                assert_eq!((&damage.file, damage.from, damage.to), (&name, at as u64, next as u64));
                assert_eq!(damage.why, "a frame whose checksum is right has no meaning");
                let lost: u64 = found.damages.iter().map(|one| one.end - one.first).sum();
                assert_eq!(messages(&found) + lost, messages(&whole), "{:?}", found.damages);
                kinds += 1;
            }
            at = next;
        }
    }
    assert!(kinds > 10, "{kinds}");
}
