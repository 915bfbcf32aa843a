//! Readers that are alike, on a machine that stops each of them now and then: none of them is slow.

use std::time::Duration;

use shoal_norm::{Config, Event, NodeId, StreamOptions, SyncPolicy};
use shoal_sim::{Clock, Conditions, Port, Simulation};

const PUBLISHER: NodeId = 1;
const SLOW_AFTER: Duration = Duration::from_millis(500);
const WINDOW_BYTES: usize = 64 << 10;
const SOCKET_BYTES: usize = 256 << 10;
const STEP: Duration = Duration::from_millis(5);

/// A publisher with more to say than its cable carries, and readers that are stopped for 10 to 300 ms at a time, after they
/// ran for `runs` on the average. Returns who was no longer waited for, and how many messages the first reader got.
fn publish_to_equals(seed: u64, readers: u32, runs: Duration, span: Duration) -> (Vec<NodeId>, usize) {
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let weather = Conditions { delay: Duration::from_micros(200), ..Conditions::default() };
    simulation.set_conditions(weather).unwrap();
    let ids: Vec<NodeId> = (PUBLISHER + 1..=PUBLISHER + readers).collect();
    for id in [PUBLISHER].iter().chain(&ids) {
        let mut config = Config::new(*id, 1, simulation.random());
        (config.acker_patience, config.backoff_factor, config.sync) = (SLOW_AFTER, 1, SyncPolicy::All);
        let port = Port { egress_bytes_per_s: Some(2e6), ..Port::default() };
        let clock = Clock { offset: Duration::from_secs(10), skew: 0.0 };
        simulation.add(config, clock, port).unwrap();
    }
    let options = StreamOptions {
        window_bytes: Some(WINDOW_BYTES),
        cache_bytes: 64 * WINDOW_BYTES,
        ..StreamOptions::default()
    };
    let object = simulation.act(PUBLISHER, |node, _| node.open_stream(options)).unwrap().unwrap();
    let count_on = |session: &mut shoal_norm::Session, _| session.set_ackers(&ids);
    simulation.act(PUBLISHER, |node, now| node.command(now, count_on)).unwrap();
    let mut turns: Vec<_> = ids.iter().map(|id| (*id, simulation.now(), false)).collect();
    let end = simulation.now() + span;
    while simulation.now() < end {
        for (id, until, stopped) in &mut turns {
            if *until > simulation.now() {
                continue;
            }
            *stopped = !*stopped;
            if *stopped {
                simulation.freeze(*id, SOCKET_BYTES).unwrap();
                *until += Duration::from_millis(random.u64(10..=300));
            } else {
                simulation.thaw(*id).unwrap();
                *until += runs.mul_f64(-(1.0 - random.f64()).ln()) + STEP;
            }
        }
        let publish = |node: &mut shoal_sim::Node, _| {
            if node.session().segments_waiting(object) < 32 {
                (0..16).for_each(|_| node.publish(object, &[7; 1000], false).unwrap());
            }
        };
        simulation.act(PUBLISHER, publish).unwrap();
        simulation.run_until(simulation.now() + STEP);
    }
    let silent = |event: &Event| match event {
        Event::AckerSilent { node, .. } => Some(*node),
        _ => None,
    };
    let publisher = simulation.node(PUBLISHER).unwrap();
    let slow = publisher.occurrences.iter().filter_map(|occurrence| silent(&occurrence.event)).collect();
    (slow, simulation.node(ids[0]).unwrap().delivered)
}

#[test]
fn equal_readers_that_are_stopped_by_turns_are_all_waited_for() {
    for seed in 0..10 {
        let runs = Duration::from_millis([20, 60, 150, 400, 1500][seed as usize % 5]);
        let (slow, delivered) = publish_to_equals(seed, 2 + seed as u32 % 3, runs, Duration::from_secs(15));
        assert!(slow.is_empty(), "seed {seed}: {slow:?}");
        assert!(delivered > 500, "seed {seed}: {delivered} messages");
    }
}
