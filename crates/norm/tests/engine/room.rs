//! An application without room for objects and commands is spared them, and gets the objects later.

use std::time::Duration;

use crate::support::{Loss, START, carry, session};
use shoal_norm::{Config, Event, Reject, Session, SyncPolicy, Time};

const OBJECTS: usize = 20;

/// A sender, a receiver, and the time.
fn scene() -> (Session, Session, Time) {
    let adjust = |config: &mut Config| {
        config.rate_bytes_per_s = Some(1e7);
        config.acker_patience = Duration::from_secs(10);
    };
    let mut sender = session(1, adjust);
    sender.set_ackers(&[2]);
    for number in 0..OBJECTS {
        sender.send_data(START, &vec![number as u8; 10_000], b"info").unwrap().unwrap();
    }
    (sender, session(2, adjust), START)
}

/// Lets time pass; returns how many objects and commands arrived.
fn run(sender: &mut Session, receiver: &mut Session, now: &mut Time, millis: u64) -> (usize, usize) {
    let (mut objects, mut commands) = (0, 0);
    let mut no_loss = Loss::new(1, 0.0);
    for _ in 0..millis {
        *now += Duration::from_millis(1);
        carry(sender, receiver, *now, &mut no_loss);
        carry(receiver, sender, *now, &mut no_loss);
        while sender.poll_event().is_some() {}
        while let Some(event) = receiver.poll_event() {
            objects += usize::from(matches!(event, Event::DataReceived { .. }));
            commands += usize::from(matches!(event, Event::CommandReceived { .. }));
        }
    }
    (objects, commands)
}

#[test]
fn objects_that_came_while_there_was_no_room_arrive_when_there_is() {
    let (mut sender, mut receiver, mut now) = scene();
    let (before, _) = run(&mut sender, &mut receiver, &mut now, 5);
    assert!((1..OBJECTS).contains(&before), "{before}");
    receiver.set_room(now, false);
    let nacks_before = receiver.stats().nacks_sent;
    assert_eq!(run(&mut sender, &mut receiver, &mut now, 500), (0, 0));
    assert!(receiver.stats().count(Reject::NoRoom) > 0);
    assert_eq!(receiver.stats().nacks_sent, nacks_before, "nothing is asked for that would be refused");
    assert!(!sender.is_acknowledged());
    receiver.set_room(now, true);
    let (after, _) = run(&mut sender, &mut receiver, &mut now, 1000);
    assert_eq!(before + after, OBJECTS);
    assert!(sender.is_quiet() && sender.is_acknowledged());
}

#[test]
fn what_is_known_to_be_missing_is_asked_for_when_there_is_room_though_nothing_is_heard() {
    let (mut sender, mut receiver, mut now) = scene();
    let mut loss = Loss::new(1, 0.5);
    carry(&mut sender, &mut receiver, now, &mut loss);
    now += Duration::from_millis(2);
    carry(&mut sender, &mut receiver, now, &mut loss);
    receiver.set_room(now, false);
    let mut nacks_after = |receiver: &mut Session| {
        now += Duration::from_secs(1);
        while receiver.poll_transmit(now).is_some() {}
        (receiver.stats().nacks_sent, now)
    };
    let (before, now) = nacks_after(&mut receiver);
    assert_eq!(before, 0);
    receiver.set_room(now, true);
    assert_eq!(nacks_after(&mut receiver).0, 1);
}

#[test]
fn commands_for_which_there_is_no_room_are_refused_and_counted() {
    let (mut sender, mut receiver, mut now) = scene();
    run(&mut sender, &mut receiver, &mut now, 500);
    receiver.set_room(now, false);
    assert_eq!(sender.send_command(now, b"stop", 3), Ok(true));
    assert_eq!(run(&mut sender, &mut receiver, &mut now, 500), (0, 0));
    assert_eq!(receiver.stats().count(Reject::NoRoom), 3);
    receiver.set_room(now, true);
    assert_eq!(sender.send_command(now, b"go on", 3), Ok(true));
    assert_eq!(run(&mut sender, &mut receiver, &mut now, 500), (0, 3));
}

#[test]
fn whoever_takes_no_objects_does_not_ask_for_them_again_and_again() {
    for (sync, is_acker) in
        [(SyncPolicy::Current, true), (SyncPolicy::Start, false), (SyncPolicy::All, false)]
    {
        for takes_objects in [false, true] {
            let (mut sender, _, mut now) = scene();
            sender.set_ackers(if is_acker { &[2] } else { &[] });
            let mut receiver = session(2, |config| {
                config.sync = sync;
                config.receive_objects = takes_objects;
            });
            receiver.set_room(now, !takes_objects);
            run(&mut sender, &mut receiver, &mut now, 3000);
            let nacks = receiver.stats().nacks_sent;
            assert!(nacks <= OBJECTS as u64, "{nacks} with {sync:?}, takes objects: {takes_objects}");
            if takes_objects {
                receiver.set_room(now, true);
                let (objects, _) = run(&mut sender, &mut receiver, &mut now, 40_000);
                assert!(objects > 0, "they are asked for when there is room: {sync:?}");
            }
        }
    }
}
