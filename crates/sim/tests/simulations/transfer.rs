//! Whole transfers through the simulated network.

use std::time::Duration;

use shoal_norm::{Config, FeedbackMode, RepairPolicy, StreamOptions, Time};
use shoal_sim::node::Clock;
use shoal_sim::{Conditions, Port, Simulation};

const CLOCK: Clock = Clock { offset: Duration::from_secs(100), skew: 0.0 };
const MESSAGES: u32 = 2000;

/// Sends numbered messages from node 1 to `receivers` others, and checks that each gets all, in order.
fn transfer(seed: u64, receivers: u32, conditions: Conditions, adjust: impl Fn(&mut Config)) -> Simulation {
    let mut simulation = Simulation::new(seed);
    simulation.set_conditions(conditions).unwrap();
    for id in 1..=receivers + 1 {
        let mut config = Config::new(id, 1, seed + u64::from(id));
        config.rate_bytes_per_s = Some(1e7);
        adjust(&mut config);
        simulation.add(config, CLOCK, Port::default()).unwrap();
    }
    let object = simulation.act(1, |node, _| node.open_stream(StreamOptions::default())).unwrap().unwrap();
    for number in 0..MESSAGES {
        let body = [&number.to_be_bytes()[..], &vec![number as u8; (number % 700) as usize]].concat();
        simulation.act(1, |node, _| node.publish(object, &body, true)).unwrap().unwrap();
    }
    let somebody_waits = |simulation: &Simulation| {
        (2..=receivers + 1).any(|id| simulation.node(id).unwrap().deliveries.len() < MESSAGES as usize)
    };
    let done = simulation.run_while(Time::ZERO + Duration::from_secs(60), somebody_waits);
    for id in 2..=receivers + 1 {
        let node = simulation.node(id).unwrap();
        let number = |body: &[u8]| u32::from_be_bytes(body[..4].try_into().unwrap());
        let numbers: Vec<u32> = node.deliveries.iter().map(|delivery| number(&delivery.body)).collect();
        assert!(done, "seed {seed}, node {id}: {} messages, {:?}", numbers.len(), node.session().stats());
        assert_eq!(numbers, (0..MESSAGES).collect::<Vec<_>>(), "seed {seed}, node {id}");
    }
    simulation
}

#[test]
fn everything_arrives_in_order_without_loss() {
    transfer(1, 2, Conditions { delay: Duration::from_millis(1), ..Default::default() }, |_| ());
}

#[test]
fn everything_arrives_in_order_despite_loss_duplication_and_reordering() {
    let conditions = Conditions {
        loss: 0.2,
        duplication: 0.05,
        reordering: 0.05,
        delay: Duration::from_millis(2),
        jitter: Duration::from_millis(1),
        ..Default::default()
    };
    for seed in 0..20 {
        let simulation = transfer(seed, 3, conditions.clone(), |config| {
            // A first segment that is lost would otherwise be before the receiver's time.
            config.sync = shoal_norm::SyncPolicy::Start;
            if seed % 2 == 0 {
                config.repair = RepairPolicy::Aggregated;
            }
            if seed % 3 == 0 {
                config.feedback = FeedbackMode::Unicast;
            }
        });
        println!("seed {seed}: took {:?}, datagrams {:?}", simulation.now(), simulation.traffic());
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let conditions = Conditions { loss: 0.1, delay: Duration::from_millis(1), ..Default::default() };
    let start = |config: &mut Config| config.sync = shoal_norm::SyncPolicy::Start;
    let runs: Vec<u64> = [7, 7, 8].map(|seed| transfer(seed, 2, conditions.clone(), start).digest()).to_vec();
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
