//! What one node announces, and what another one makes of it.

use std::collections::BTreeSet;

use proptest::prelude::*;
use shoal_wire::{Announce, DestinationKind, Filter, FilterKind, InterestEntry};

use super::*;

const ANNOUNCER: Announcer = Announcer {
    domain: 7,
    publisher: 9,
    heartbeat_ms: 1000,
    groups: shoal_wire::JoinedGroups { count: 0, joined: 0 },
};
const BOUNDS: InterestBounds = InterestBounds { bytes_max: 16 << 20 };

fn topic(pattern: &str) -> InterestEntry<'_> {
    InterestEntry::new(DestinationKind::Topic, pattern)
}

/// Hands all parts over; what the last of them did.
fn apply(reader: &mut AnnouncedInterest, records: &[Vec<u8>]) -> Applied {
    let applied = records.iter().map(|record| reader.apply(&Announce::read(record).unwrap()));
    applied.last().unwrap()
}

fn names(reader: &AnnouncedInterest) -> BTreeSet<String> {
    reader.entries().map(|(_, entry)| entry.pattern.clone()).collect()
}

#[test]
fn a_change_costs_as_much_as_it_says_however_many_subscriptions_there_are() {
    let (mut own, mut reader) = (OwnInterest::new(), AnnouncedInterest::new(BOUNDS));
    for number in 0..1000 {
        own.subscribe(&topic(&format!("prices/{number}"))).unwrap();
    }
    apply(&mut reader, &own.full(ANNOUNCER, &[]));
    let since = own.version();
    own.subscribe(&topic("news")).unwrap();
    let change = own.increment(ANNOUNCER, since, &[]).unwrap();
    assert!(change.len() == 1 && change[0].len() < 80, "{} bytes", change[0].len());
    let Applied::Changed { added, removed } = apply(&mut reader, &change) else { panic!("not applied") };
    assert_eq!((added[0].1.pattern.as_str(), added.len(), removed.len()), ("news", 1, 0));
    assert_eq!(reader.entries().count(), 1001);
}

#[test]
fn everything_an_entry_asks_arrives() {
    let (mut own, mut reader) = (OwnInterest::new(), AnnouncedInterest::new(BOUNDS));
    let filters = vec![Filter { kind: FilterKind::Selector, bytes: &[1, 1] }];
    let entry = InterestEntry {
        persistent_only: true,
        no_local: Some(3),
        filters,
        ..InterestEntry::new(DestinationKind::Queue, "orders")
    };
    own.subscribe(&entry).unwrap();
    apply(&mut reader, &own.full(ANNOUNCER, &[]));
    let (_, found) = reader.entries().next().unwrap();
    assert_eq!((found.kind, found.pattern.as_str()), (DestinationKind::Queue, "orders"));
    assert_eq!((found.persistent_only, found.no_local), (true, Some(3)));
    assert_eq!(found.filters, [(FilterKind::Selector, vec![1, 1])]);
}

#[test]
fn equal_subscriptions_are_announced_once_and_withdrawn_with_the_last() {
    let mut own = OwnInterest::new();
    let id = own.subscribe(&topic("a")).unwrap();
    assert_eq!(own.subscribe(&topic("a")), Ok(id));
    let version = own.version();
    own.unsubscribe(id);
    assert_eq!((own.version(), own.len()), (version, 1));
    own.unsubscribe(id);
    assert_eq!((own.version(), own.is_empty()), (version + 1, true));
    own.unsubscribe(id);
    assert_eq!(own.version(), version + 1, "one that is gone is no change");
    assert_ne!(own.subscribe(&topic("a")), Ok(id), "a number is never used again");
}

#[test]
fn a_reader_that_missed_a_change_knows_it_and_everything_heals_it() {
    let (mut own, mut reader) = (OwnInterest::new(), AnnouncedInterest::new(BOUNDS));
    for name in ["a", "b", "c"] {
        own.subscribe(&topic(name)).unwrap();
    }
    apply(&mut reader, &own.full(ANNOUNCER, &[]));
    own.subscribe(&topic("d")).unwrap();
    let missed = own.version();
    let late = own.subscribe(&topic("e")).unwrap();
    let change = own.increment(ANNOUNCER, missed, &[]).unwrap();
    assert_eq!(apply(&mut reader, &change), Applied::Lacking);
    assert_eq!(names(&reader).len(), 3, "nothing was changed");
    assert!(matches!(apply(&mut reader, &own.full(ANNOUNCER, &[])), Applied::Changed { .. }));
    assert_eq!(names(&reader).len(), 5);
    assert_eq!(apply(&mut reader, &change), Applied::Old);
    own.unsubscribe(late);
    assert!(own.increment(ANNOUNCER, own.version() + 1, &[]).is_none(), "from the future");
    assert!(own.increment(ANNOUNCER, 0, &[]).is_none(), "from nothing");
}

#[test]
fn a_long_announcement_holds_once_all_its_parts_are_there() {
    let (mut own, mut reader) = (OwnInterest::new(), AnnouncedInterest::new(BOUNDS));
    for number in 0..4000 {
        own.subscribe(&topic(&format!("prices/of/some/market/{number}"))).unwrap();
    }
    let records = own.full(ANNOUNCER, &[]);
    assert!(records.len() > 3);
    let read: Vec<Announce<'_>> = records.iter().map(|record| Announce::read(record).unwrap()).collect();
    assert_eq!(reader.apply(&read[0]), Applied::Partly);
    assert_eq!(reader.apply(&read[0]), Applied::Partly, "doubled: begins again");
    assert_eq!(reader.apply(&read[2]), Applied::Lacking, "one is missing");
    assert_eq!(reader.apply(&read[1]), Applied::Lacking, "and the rest is no use");
    assert_eq!((reader.entries().count(), reader.bytes()), (0, 0));
    assert!(matches!(apply(&mut reader, &records), Applied::Changed { .. }));
    assert_eq!(reader.entries().count(), 4000);
}

#[test]
fn more_than_the_bound_is_refused_and_nothing_of_it_kept() {
    let mut own = OwnInterest::new();
    let mut reader = AnnouncedInterest::new(InterestBounds { bytes_max: 10_000 });
    own.subscribe(&topic("kept")).unwrap();
    apply(&mut reader, &own.full(ANNOUNCER, &[]));
    for number in 0..4000 {
        own.subscribe(&topic(&format!("prices/of/some/market/{number}"))).unwrap();
    }
    let records = own.full(ANNOUNCER, &[]);
    let applied: Vec<Applied> =
        records.iter().map(|record| reader.apply(&Announce::read(record).unwrap())).collect();
    assert_eq!(applied[0], Applied::TooMuch);
    assert_eq!(names(&reader), BTreeSet::from(["kept".to_owned()]));
    assert!(reader.bytes() < 10_000);
}

#[test]
fn a_digest_that_does_not_fit_is_noticed() {
    let (mut own, mut reader) = (OwnInterest::new(), AnnouncedInterest::new(BOUNDS));
    own.subscribe(&topic("a")).unwrap();
    let records = own.full(ANNOUNCER, &[]);
    let mut announce = Announce::read(&records[0]).unwrap();
    announce.header.digest ^= 1;
    assert_eq!(reader.apply(&announce), Applied::Lacking);
    announce.header.digest ^= 1;
    announce.header.total += 1;
    assert_eq!(reader.apply(&announce), Applied::Lacking);
    assert_eq!(reader.version(), 0);
}

proptest! {
    /// Any changes, of which any announcements are lost, and readers that ask for everything when they must.
    #[test]
    fn whatever_is_lost_a_reader_agrees_or_knows_that_it_does_not(
        steps in prop::collection::vec((0..12u8, any::<bool>(), any::<bool>(), any::<bool>()), 1..120),
    ) {
        let (mut own, mut reader) = (OwnInterest::new(), AnnouncedInterest::new(BOUNDS));
        let mut ids = [None; 12];
        let mut wanted = BTreeSet::new();
        let mut announced = 0;
        for (which, doubled, lost, since_reader) in steps {
            let name = format!("topic/{which}");
            match ids[usize::from(which)].take() {
                Some(id) => {
                    own.unsubscribe(id);
                    wanted.remove(&name);
                }
                None => {
                    ids[usize::from(which)] = Some(own.subscribe(&topic(&name)).unwrap());
                    wanted.insert(name);
                }
            }
            let since = if since_reader { reader.version() } else { announced };
            let records = own.increment(ANNOUNCER, since, &[]).unwrap_or_else(|| own.full(ANNOUNCER, &[]));
            announced = own.version();
            if lost {
                continue;
            }
            let mut applied = apply(&mut reader, &records);
            if doubled && matches!(applied, Applied::Changed { .. }) {
                prop_assert_eq!(apply(&mut reader, &records), Applied::Old);
            }
            if applied == Applied::Lacking {
                applied = apply(&mut reader, &own.full(ANNOUNCER, &[]));
            }
            let changed = matches!(applied, Applied::Changed { .. });
            prop_assert!(changed);
            prop_assert_eq!(reader.version(), own.version());
            prop_assert_eq!(names(&reader), wanted.clone());
        }
    }
}
