//! A node that was away for a while, with a socket that kept what came, holds nobody up when it is back.

use std::time::Duration;

use shoal_norm::{Config, Event, StreamOptions, SyncPolicy, Time};
use shoal_sim::{Clock, Conditions, Port, Simulation};

const PUBLISHER: u32 = 1;
const AWAKE: u32 = 2;
const FROZEN: u32 = 3;
const SLOW_AFTER: Duration = Duration::from_millis(500);
const WINDOW_BYTES: usize = 64 << 10;
const SOCKET_BYTES: usize = 256 << 10;
/// With such a seed the publisher has a rate.
const PACED_SEED: u64 = 1;
const STEP: Duration = Duration::from_millis(10);

/// A publisher with more to say than it ever can, and two subscribers whose acknowledgements it waits for.
fn busy_group(seed: u64, conditions: &Conditions) -> (Simulation, u16) {
    busy_group_with(seed, conditions, |_| ())
}

fn busy_group_with(seed: u64, conditions: &Conditions, adjust: impl Fn(&mut Config)) -> (Simulation, u16) {
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    simulation.set_conditions(conditions.clone()).unwrap();
    for id in [PUBLISHER, AWAKE, FROZEN] {
        let mut config = Config::new(id, 1, simulation.random());
        config.acker_patience = SLOW_AFTER;
        config.backoff_factor = 1;
        config.sync = SyncPolicy::All;
        adjust(&mut config);
        // By turns the cable and the rate keep it from going faster.
        config.rate_bytes_per_s = (seed % 2 == PACED_SEED).then_some(2e6);
        let port = Port { egress_bytes_per_s: Some(2e6), ..Port::default() };
        let clock = Clock { offset: Duration::from_secs(100 * u64::from(id)), skew: 0.0 };
        simulation.add(config, clock, port).unwrap();
    }
    let options = StreamOptions {
        window_bytes: Some(WINDOW_BYTES),
        // Two seconds of what it can send: whoever has to catch up with it takes as long.
        cache_bytes: 64 * WINDOW_BYTES,
        ..StreamOptions::default()
    };
    let object = simulation.act(PUBLISHER, |node, _| node.open_stream(options)).unwrap().unwrap();
    simulation
        .act(PUBLISHER, |node, now| {
            node.command(now, |session, _| session.set_ackers(&[AWAKE, FROZEN]));
        })
        .unwrap();
    (simulation, object)
}

/// Publishes for a while, and tells for how long at a time the publisher got nothing away.
fn longest_wait(simulation: &mut Simulation, object: u16, span: Duration) -> Duration {
    let end = simulation.now() + span;
    let (mut moved_at, mut longest) = (simulation.now(), Duration::ZERO);
    while simulation.now() < end {
        simulation
            .act(PUBLISHER, |node, _| {
                // No more than it can send by the next turn: what waits takes room from what can be repaired.
                if node.session().segments_waiting(object) < 32 {
                    (0..32).for_each(|_| node.publish(object, &[7; 1000], false).unwrap());
                }
            })
            .unwrap();
        let sent = |simulation: &Simulation| {
            simulation.node(PUBLISHER).map_or(0, |node| node.session().segments_sent(object))
        };
        let before = sent(simulation);
        simulation.run_until(simulation.now() + STEP);
        if sent(simulation) > before {
            moved_at = simulation.now();
        }
        longest = longest.max(simulation.now().since(moved_at));
    }
    longest
}

fn grtt(simulation: &Simulation) -> Duration {
    simulation.node(PUBLISHER).unwrap().session().grtt()
}

fn rate(simulation: &Simulation) -> Option<f64> {
    simulation.node(PUBLISHER).unwrap().session().rate_bytes_per_s()
}

#[test]
fn a_subscriber_that_was_away_holds_the_publisher_up_for_no_longer_than_one_that_is_slow() {
    for seed in 0..3 {
        for pause in [300, 700, 1000, 2000, 4000, 20_000].map(Duration::from_millis) {
            for loss in [0.0, 0.02] {
                let weather = Conditions { delay: Duration::from_millis(1), loss, ..Default::default() };
                let (mut simulation, object) = busy_group(seed, &weather);
                longest_wait(&mut simulation, object, Duration::from_secs(2));
                let (before, rate_before) = (grtt(&simulation), rate(&simulation));
                simulation.freeze(FROZEN, SOCKET_BYTES).unwrap();
                let during = longest_wait(&mut simulation, object, pause);
                simulation.thaw(FROZEN).unwrap();
                let after = longest_wait(&mut simulation, object, Duration::from_secs(5));
                let case = format!("seed {seed}, away for {pause:?}, loss {loss}");
                assert!(during < 2 * SLOW_AFTER, "{case}: waited {during:?} while it was away");
                // Once nobody waits for it any more, nobody waits until it has caught up.
                let bound = if pause > SLOW_AFTER { SLOW_AFTER / 2 } else { 2 * SLOW_AFTER };
                assert!(after < bound, "{case}: waited {after:?} after it was back");
                assert!(grtt(&simulation) < 4 * before, "{case}: {before:?} became {:?}", grtt(&simulation));
                assert_eq!(rate(&simulation), rate_before, "{case}: what it asked for slowed everybody down");
            }
        }
    }
}

#[test]
fn a_subscriber_that_was_away_is_waited_for_again_once_it_has_caught_up() {
    let weather = Conditions { delay: Duration::from_millis(1), ..Default::default() };
    let (mut simulation, object) = busy_group(1, &weather);
    longest_wait(&mut simulation, object, Duration::from_secs(1));
    simulation.freeze(FROZEN, SOCKET_BYTES).unwrap();
    longest_wait(&mut simulation, object, Duration::from_secs(2));
    simulation.thaw(FROZEN).unwrap();
    longest_wait(&mut simulation, object, Duration::from_secs(8));
    // It does not read any more, though it is there: only who counts can hold the publisher up.
    simulation.stop(FROZEN).unwrap();
    let wait = longest_wait(&mut simulation, object, Duration::from_secs(1));
    assert!(wait >= SLOW_AFTER / 2, "waited {wait:?} for it");
}

#[test]
fn a_subscriber_that_comes_back_when_all_is_said_gets_what_it_missed() {
    for socket_bytes in [0, 2_000, SOCKET_BYTES] {
        let weather = Conditions { delay: Duration::from_millis(1), ..Default::default() };
        let (mut simulation, object) = busy_group(1, &weather);
        longest_wait(&mut simulation, object, Duration::from_secs(1));
        simulation.run_until(simulation.now() + Duration::from_secs(1));
        simulation.freeze(FROZEN, socket_bytes).unwrap();
        // Less than the window, so that it falls silent only when everything was said.
        for _ in 0..20 {
            simulation.act(PUBLISHER, |node, _| node.publish(object, &[7; 1000], true)).unwrap().unwrap();
        }
        simulation.run_until(simulation.now() + Duration::from_secs(3));
        simulation.thaw(FROZEN).unwrap();
        simulation.run_until(simulation.now() + Duration::from_secs(60));
        let delivered = |id: u32| simulation.node(id).unwrap().delivered;
        assert_eq!(delivered(FROZEN), delivered(AWAKE), "with a socket of {socket_bytes} bytes");
    }
}

#[test]
fn what_is_owed_to_one_that_was_left_behind_buys_no_time_for_another() {
    let weather = Conditions { delay: Duration::from_millis(1), ..Default::default() };
    let (mut simulation, object) = busy_group(PACED_SEED, &weather);
    longest_wait(&mut simulation, object, Duration::from_secs(1));
    simulation.freeze(FROZEN, SOCKET_BYTES).unwrap();
    longest_wait(&mut simulation, object, Duration::from_secs(10));
    simulation.thaw(FROZEN).unwrap();
    longest_wait(&mut simulation, object, 2 * STEP);
    simulation.stop(AWAKE).unwrap();
    let wait = longest_wait(&mut simulation, object, Duration::from_secs(5));
    assert!(wait < SLOW_AFTER * 3 / 2, "waited {wait:?}");
}

#[test]
fn a_subscriber_that_nobody_waits_for_sets_nobody_s_timing() {
    let weather = Conditions { delay: Duration::from_millis(1), ..Default::default() };
    let (mut simulation, object) = busy_group(1, &weather);
    longest_wait(&mut simulation, object, Duration::from_secs(1));
    let before = grtt(&simulation);
    let far = Conditions { delay: Duration::from_secs(2), ..Default::default() };
    simulation.set_path(PUBLISHER, FROZEN, Some(far)).unwrap();
    let wait = longest_wait(&mut simulation, object, Duration::from_secs(10));
    assert!(wait < 2 * SLOW_AFTER, "waited {wait:?}");
    assert!(grtt(&simulation) < 4 * before, "{before:?} became {:?}", grtt(&simulation));
}

#[test]
fn a_publisher_that_was_away_believes_no_answer_that_waited_for_it() {
    let weather = Conditions { delay: Duration::from_millis(1), ..Default::default() };
    let (mut simulation, object) = busy_group(1, &weather);
    longest_wait(&mut simulation, object, Duration::from_secs(2));
    let before = grtt(&simulation);
    for millis in 0..20 {
        // At some of these moments an answer is under way.
        longest_wait(&mut simulation, object, Duration::from_millis(50));
        simulation.run_until(simulation.now() + Duration::from_millis(millis));
        simulation.freeze(PUBLISHER, SOCKET_BYTES).unwrap();
        simulation.run_until(simulation.now() + Duration::from_secs(3));
        simulation.thaw(PUBLISHER).unwrap();
        assert!(grtt(&simulation) < 4 * before, "{before:?} became {:?}", grtt(&simulation));
    }
}

#[test]
fn the_socket_of_a_frozen_node_takes_what_fits_and_keeps_it_until_it_is_read() {
    let (mut simulation, object) = busy_group(1, &Conditions::default());
    simulation.freeze(FROZEN, 10_000).unwrap();
    longest_wait(&mut simulation, object, 2 * STEP);
    let received =
        |simulation: &Simulation| simulation.node(FROZEN).unwrap().session().stats().bytes_received;
    assert_eq!(received(&simulation), 0);
    assert!(simulation.traffic().1 > 0, "it was more than fits");
    simulation.stop(PUBLISHER).unwrap();
    simulation.thaw(FROZEN).unwrap();
    assert!((8_000..=10_000).contains(&received(&simulation)), "{} bytes", received(&simulation));
    assert_ne!(simulation.now(), Time::ZERO);
}

fn sent(simulation: &Simulation, object: u16) -> u64 {
    simulation.node(PUBLISHER).unwrap().session().segments_sent(object)
}

#[test]
fn asking_who_has_everything_lets_nobody_hold_the_publisher_up_again() {
    for seed in 0..3 {
        let weather = Conditions { delay: Duration::from_millis(1), ..Default::default() };
        let (mut simulation, object) = busy_group(seed, &weather);
        longest_wait(&mut simulation, object, Duration::from_secs(2));
        let (begun, before) = (simulation.now(), sent(&simulation, object));
        longest_wait(&mut simulation, object, Duration::from_secs(4));
        let usual = sent(&simulation, object) - before;
        simulation.stop(FROZEN).unwrap();
        longest_wait(&mut simulation, object, Duration::from_secs(1));
        let before = sent(&simulation, object);
        let mut longest = Duration::ZERO;
        for _ in 0..20 {
            simulation
                .act(PUBLISHER, |node, now| {
                    node.command(now, |session, local| session.request_watermark(local, object))
                })
                .unwrap()
                .unwrap();
            let wait = longest_wait(&mut simulation, object, Duration::from_millis(200));
            longest = longest.max(wait);
        }
        let asking = sent(&simulation, object) - before;
        assert!(longest < SLOW_AFTER / 4, "seed {seed}: it waited {longest:?}");
        assert!(asking * 10 > usual * 9, "seed {seed}: {asking} segments instead of {usual}");
        let node = simulation.node(PUBLISHER).unwrap();
        let named = node.occurrences.iter().filter(|occurrence| {
            let done = matches!(&occurrence.event, Event::WatermarkDone(done) if done.silent == [FROZEN]);
            done && occurrence.at > begun
        });
        assert!(named.count() >= 15, "seed {seed}: whoever does not answer is named each time");
    }
}

/// Publishes for a while to one subscriber that reads a little at a time, and to one that always reads if there `is
/// another`, once in so many steps. Returns how much was sent, and who was no longer waited for.
fn publish_to_slow_reader(is_another: bool, steps: usize) -> (u64, Vec<u32>) {
    let weather = Conditions { delay: Duration::from_millis(1), ..Default::default() };
    let (mut simulation, object) =
        busy_group_with(2, &weather, |config| config.receive_window_bytes = 2 * WINDOW_BYTES);
    if !is_another {
        let alone = |session: &mut shoal_norm::Session, _| session.set_ackers(&[FROZEN]);
        simulation.act(PUBLISHER, |node, now| node.command(now, alone)).unwrap();
    }
    for step in 0..600 {
        let reads = step % steps == 0;
        simulation.act(FROZEN, |node, _| node.set_reading(reads)).unwrap();
        longest_wait(&mut simulation, object, STEP);
    }
    let node = simulation.node(PUBLISHER).unwrap();
    let slow = node.occurrences.iter().filter_map(|occurrence| match occurrence.event {
        Event::AckerSilent { node, .. } => Some(node),
        _ => None,
    });
    (sent(&simulation, object), slow.collect())
}

#[test]
fn a_reader_that_holds_others_back_is_waited_for_no_longer_and_one_that_is_alone_sets_the_pace() {
    let (alone, slow) = publish_to_slow_reader(false, 20);
    assert_eq!(slow, Vec::<u32>::new(), "there is nobody it could hold back");
    let (together, slow) = publish_to_slow_reader(true, 20);
    assert_eq!(slow.first(), Some(&FROZEN));
    assert!(slow.len() <= 2, "it is not tried again and again: {slow:?}");
    assert!(together > 2 * alone, "{together} segments, and {alone} to it alone");
}

#[test]
fn a_reader_that_is_alone_sets_the_pace_though_it_pauses_for_longer_than_anybody_is_waited_for() {
    let steps = 3 * SLOW_AFTER.as_millis() / STEP.as_millis();
    let (_, slow) = publish_to_slow_reader(false, steps as usize);
    assert_eq!(slow, Vec::<u32>::new(), "it answers, and there is nobody it could hold back");
}
