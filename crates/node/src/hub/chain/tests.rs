use shoal_wire::{Mark, RecordKind, Skip};

use super::*;
use crate::hub::passing::Chain;
use crate::hub::wake::Asleep;

struct At(u64);

impl Clock for At {
    fn now(&self) -> Time {
        Time::from_nanos(self.0 * 1000)
    }

    fn wall_us(&self) -> u64 {
        1_000_000 + self.0
    }
}

fn chains(lane_bytes_max: usize) -> Chains {
    let chains = Chains::new(2, lane_bytes_max, 1000, Arc::new(Asleep));
    chains.open(0);
    chains
}

/// The frames that wait for a link: marks with the number they give, and messages.
fn taken(chains: &Chains, link: LinkId) -> Vec<String> {
    let (mut bytes, mut reader) = (Vec::new(), frame::FrameReader::new(1000));
    chains.take(1, link, &mut bytes);
    let mut found = Vec::new();
    let each = |record: &[u8], _| {
        found.push(match RecordKind::of(record) {
            Ok(RecordKind::Mark) => format!("mark {}", Mark::read(record).unwrap().number),
            Ok(RecordKind::Skip) => {
                let Skip { reason, number, count } = Skip::read(record).unwrap();
                format!("{reason:?} {number}+{count}")
            }
            _ => String::from_utf8_lossy(record).into_owned(),
        });
        false
    };
    reader.read(&bytes, each).unwrap();
    found
}

fn publish(chains: &Chains, clock: &At, text: &str, links: &[LinkId]) -> u64 {
    let mut publishing = chains.publish(1);
    let stamp = publishing.stamp(clock, false);
    for &link in links {
        publishing.append(link, stamp, text.len(), &[text.as_bytes()]);
    }
    publishing.finish(text.len(), 1, 0)
}

#[test]
fn frames_come_out_as_they_went_in() {
    let chains = chains(100);
    chains.append(0, 0, &[b"ab", b"c"]).unwrap();
    chains.append(0, 0, &[b"d"]).unwrap();
    let mut bytes = Vec::new();
    assert!(chains.take(0, 0, &mut bytes));
    assert_eq!(bytes, b"\x03abc\x01d");
    assert!(!chains.take(0, 0, &mut bytes));
    assert_eq!(chains.appended(0), [6, 0]);
}

#[test]
fn a_full_buffer_refuses_but_takes_one_large_frame_when_empty() {
    let chains = chains(10);
    chains.append(0, 0, &[&[0; 500]]).unwrap();
    assert_eq!(chains.append(0, 0, &[b"x"]), Err(SendError::Full));
    assert_eq!(chains.append(0, 0, &[&[0; 1001]]), Err(SendError::TooLong(1001, 1000)));
    assert_eq!(chains.append(2, 0, &[b"x"]), Err(SendError::NoLane));
    assert_eq!(chains.append(0, 1, &[b"x"]), Err(SendError::NoLane));
    chains.close();
    assert_eq!(chains.append(0, 0, &[b"x"]), Err(SendError::Closed));
}

#[test]
fn every_message_takes_a_number_whichever_links_get_it() {
    let chains = chains(1000);
    chains.open(1);
    let clock = At(0);
    assert_eq!(publish(&chains, &clock, "#a", &[0]), 1);
    assert_eq!(publish(&chains, &clock, "#b", &[]), 2);
    assert_eq!(publish(&chains, &clock, "#c", &[1, 0]), 3);
    assert_eq!(publish(&chains, &clock, "#d", &[1, 0]), 4);
    assert_eq!(taken(&chains, 0), ["mark 1", "#a", "Unwanted 2+1", "#c", "#d", "mark 5"]);
    assert_eq!(taken(&chains, 1), ["Unwanted 1+2", "mark 3", "#c", "#d", "mark 5"]);
    assert_eq!(chains.last_numbers(), [0, 4]);
}

#[test]
fn how_far_a_chain_is_is_told_when_somebody_returns_and_at_the_end() {
    let chains = chains(1000);
    let clock = At(0);
    publish(&chains, &clock, "#a", &[0]);
    publish(&chains, &clock, "#b", &[]);
    assert_eq!(taken(&chains, 0), ["mark 1", "#a", "mark 2"]);
    chains.tell_position(0);
    chains.tell_position(0);
    assert_eq!(taken(&chains, 0), ["Unwanted 2+1", "mark 3"]);
    chains.tell_position(0);
    assert_eq!(taken(&chains, 0), ["mark 3"], "somebody else returned");
    let mut publishing = chains.publish(1);
    publishing.drop_for(0);
    publishing.finish(2, 1, 0);
    publish(&chains, &clock, "#d", &[]);
    chains.close();
    chains.close();
    assert_eq!(taken(&chains, 0), ["Dropped 3+2"]);
}

#[test]
fn a_new_millisecond_and_a_new_version_are_marked() {
    let chains = chains(1000);
    publish(&chains, &At(0), "#a", &[0]);
    publish(&chains, &At(999), "#b", &[0]);
    assert_eq!(taken(&chains, 0), ["mark 1", "#a", "#b", "mark 3"]);
    publish(&chains, &At(999), "#c", &[0]);
    publish(&chains, &At(1000), "#the clock was not read", &[0]);
    assert_eq!(taken(&chains, 0), ["#c", "#the clock was not read", "mark 5"]);
    publish(&chains, &At(1000), "#d", &[0]);
    chains.set_version(0, 1);
    publish(&chains, &At(1000), "#e", &[0]);
    assert_eq!(taken(&chains, 0), ["mark 5", "#d", "mark 6", "#e", "mark 7"]);
}

#[test]
fn the_clock_is_read_now_and_then_though_nobody_takes_anything() {
    let chains = chains(1000);
    for number in 0..u64::from(STAMP_MESSAGES) * 2 {
        publish(&chains, &At(number * 1000), "x", &[0]);
    }
    let marks = taken(&chains, 0).into_iter().filter(|text| text.starts_with("mark")).count();
    assert_eq!(marks, 3, "two for the time, and one that ends the buffer");
}

#[test]
fn a_chain_without_links_gives_numbers_and_one_that_failed_says_why() {
    let chains = chains(1000);
    chains.shut(0);
    assert_eq!(publish(&chains, &At(0), "#a", &[0]), 1);
    chains.fail(&Arc::from("the cable is cut"));
    let error = chains.publish(1).check_open().unwrap_err();
    assert_eq!(error.to_string(), "the link failed: the cable is cut");
}

#[test]
fn a_chain_that_comes_from_where_it_was_passed_on_to_is_left_there_and_nothing_of_it_is_skipped() {
    let chains = chains(1000);
    chains.open(1);
    let chain = Chain { publisher: 7, chain: 0, hops: 1, clock: None, again: None };
    let pass = |from, number| {
        let mut outbound = Outbound::default();
        outbound.add_message(&chain, (0, 2), (number, 0), &[1 - from]);
        chains
            .pass_on(Time::ZERO, (1, from), &outbound, b"#a", |_, _, _| None, &|_, skipped| !skipped.begins);
    };
    pass(0, 30);
    assert_eq!(taken(&chains, 1), ["mark 30", "#a", "mark 31"]);
    pass(1, 31);
    assert_eq!(taken(&chains, 1), ["mark 31", "Rests 31+0"]);
    pass(1, 40);
    assert!(taken(&chains, 1).is_empty(), "it was said");
    pass(0, 41);
    assert_eq!(taken(&chains, 1), ["mark 41", "#a", "mark 42"]);

    let mut lost = Outbound::default();
    lost.add_lost(&chain, (42, 50), &[]);
    chains.pass_on(Time::ZERO, (1, 1), &lost, b"", |_, _, _| None, &|_, skipped| !skipped.begins);
    assert_eq!(taken(&chains, 1), ["mark 42", "Rests 42+0"]);
}

#[test]
fn a_link_that_rests_is_told_nothing_of_what_is_lost_meanwhile() {
    let chains = chains(1000);
    chains.open(1);
    let chain = Chain { publisher: 7, chain: 0, hops: 1, clock: None, again: None };
    let mut outbound = Outbound::default();
    outbound.add_message(&chain, (0, 2), (30, 0), &[1]);
    chains.pass_on(Time::ZERO, (1, 0), &outbound, b"#a", |_, _, _| None, &|_, skipped| !skipped.begins);
    chains.rest(1);
    assert_eq!(taken(&chains, 1), ["mark 30", "#a", "mark 31", "Rests 0+0"]);
    outbound.clear();
    outbound.add_lost(&chain, (40, 50), &[]);
    chains.pass_on(Time::ZERO, (1, 0), &outbound, b"", |_, _, _| None, &|_, skipped| !skipped.begins);
    assert!(taken(&chains, 1).is_empty());
}

#[test]
fn nobody_waits_for_room_on_a_link_that_nothing_more_is_sent_on() {
    let chains = chains(1000);
    chains.open(1);
    let chain = Chain { publisher: 7, chain: 0, hops: 1, clock: None, again: None };
    let mut outbound = Outbound::default();
    outbound.add_message(&chain, (0, 1000), (1, 0), &[1]);
    let done = chains
        .pass_on(Time::ZERO, (1, 0), &outbound, &[b'x'; 1000], |_, _, _| None, &|_, skipped| !skipped.begins);
    assert_eq!((done.full, chains.is_full_for(1, 1, 0)), (vec![1], true));
    chains.stop(1);
    assert!(!chains.is_full_for(1, 1, 0));
    let done = chains
        .pass_on(Time::ZERO, (1, 0), &outbound, &[b'x'; 1000], |_, _, _| None, &|_, skipped| !skipped.begins);
    assert_eq!((done.full, done.given), (vec![], vec![]));
}

#[test]
fn what_is_replayed_to_many_links_is_bounded_and_the_rest_is_reported_as_lost() {
    let chains = Chains::new(2, 1 << 20, 2000, Arc::new(Asleep));
    chains.begin_keeping();
    (0..100).for_each(|link| chains.open(link));
    let body = [b'x'; 1000];
    for number in 1..=1500 {
        let mut publishing = chains.publish(1);
        let stamp = publishing.stamp(&At(number * 2000), true);
        publishing.keep(9, stamp, &[&body]);
        assert_eq!(publishing.finish(body.len(), 1, 0), number);
    }
    let now = Time::from_nanos(4_000_000_000);
    let waiting = || (0..100).map(|link| chains.waiting(link)).sum::<usize>();
    for _ in 0..20 {
        for link in 0..100 {
            let request = Request { key: (9, 1), first: 1, since: now, answered: None };
            chains.replay(now, (link, 9), &request, None, |_, _| Serve::Whole, |_| true);
            assert!(waiting() < REPLAYED_BYTES_MAX + (1 << 20), "{} bytes wait", waiting());
        }
    }
    let (first, last) = (taken(&chains, 0), taken(&chains, 99));
    assert!(first.iter().filter(|record| record.starts_with('x')).count() >= 1500, "the first link has all");
    assert!(last.contains(&"Lost 1+1500".to_owned()), "the last one is told what it lacks");
    assert_eq!(chains.losers(0).iter().filter(|(link, _)| *link == 99).count(), 1, "and so is a flush");
}
