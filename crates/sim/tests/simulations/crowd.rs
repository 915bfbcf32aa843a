//! Many nodes that start together: everybody hears everybody soon, and nobody drowns in requests.

use std::time::Duration;

use shoal_norm::{Config, FeedbackMode, StreamOptions, SyncPolicy, Time};
use shoal_sim::{Clock, Conditions, Port, Simulation};

/// So many nodes say something to all others within a tenth of a second, through loss. Returns when everybody had
/// heard everybody, and how many requests for repair were sent by then.
fn start_together(nodes: u32, loss: f64) -> (Time, u64) {
    let seed = u64::from(nodes);
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    let weather = Conditions { delay: Duration::from_micros(200), loss, ..Default::default() };
    simulation.set_conditions(weather).unwrap();
    for id in 1..=nodes {
        let mut config = Config::new(id, 1, simulation.random());
        // As a bus has it, but that everything is wanted from its start.
        config.sync = SyncPolicy::Start;
        config.feedback = FeedbackMode::UnicastAcks;
        config.backoff_factor = 1;
        config.receive_window_bytes = 256 << 10;
        let clock = Clock { offset: Duration::from_secs(10), skew: 0.0 };
        simulation.add(config, clock, Port::default()).unwrap();
    }
    for id in 1..=nodes {
        let options = StreamOptions { cache_bytes: 64 << 10, quiet: true, ..StreamOptions::default() };
        let object = simulation.act(id, |node, _| node.open_stream(options)).unwrap().unwrap();
        for part in 0..3 {
            simulation.act(id, |node, _| node.publish(object, &[part; 300], true)).unwrap().unwrap();
        }
        let wait = Duration::from_millis(100) / nodes;
        simulation.run_until(simulation.now() + wait);
    }
    let wanted: Vec<(u32, usize)> = (1..=nodes).map(|id| (id, 3 * (nodes as usize - 1))).collect();
    assert!(simulation.run_until_delivered(Time::ZERO + Duration::from_secs(60), &wanted), "seed {seed}");
    let nacks = (1..=nodes).map(|id| simulation.node(id).unwrap().session().stats().nacks_sent).sum();
    (simulation.now(), nacks)
}

#[test]
fn whoever_starts_together_with_many_hears_them_all_soon_and_few_ask_for_all() {
    for nodes in [30, 120] {
        let (took, nacks) = start_together(nodes, 0.02);
        println!("{nodes} nodes: {took:?}, {nacks} NACKs");
        assert!(took < Time::ZERO + Duration::from_secs(5), "{nodes} nodes needed {took:?}");
        let heard = f64::from(nodes) * took.since(Time::ZERO).as_secs_f64();
        assert!(nacks < 20 * u64::from(nodes), "{nodes} nodes sent {nacks} requests, {heard}");
    }
}
