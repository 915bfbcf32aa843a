//! Streams with Reed-Solomon parity through the simulated network.

use std::time::Duration;

use shoal_norm::{Config, FecId, StreamOptions, SyncPolicy, Time};
use shoal_sim::node::Clock;
use shoal_sim::{Conditions, Port, Simulation};

const CLOCK: Clock = Clock { offset: Duration::from_secs(100), skew: 0.0 };

struct Run {
    simulation: Simulation,
    receivers: u32,
}

impl Run {
    fn sent(&self, name: &str) -> u64 {
        self.count(1, name)
    }

    fn received(&self, name: &str) -> u64 {
        (2..self.receivers + 2).map(|id| self.count(id, name)).sum()
    }

    fn count(&self, id: u32, name: &str) -> u64 {
        let stats = self.simulation.node(id).unwrap().session().stats();
        stats.named().find(|(known, _)| *known == name).map(|(_, count)| count).unwrap()
    }
}

/// Sends numbered messages from node 1, and checks that every other node gets all of them in order.
fn transfer(
    seed: u64,
    receivers: u32,
    messages: u32,
    conditions: Conditions,
    adjust: impl Fn(&mut Config),
) -> Run {
    let mut simulation = Simulation::new(seed);
    simulation.set_conditions(conditions).unwrap();
    for id in 1..=receivers + 1 {
        let mut config = Config::new(id, 1, seed + u64::from(id));
        config.rate_bytes_per_s = Some(1e7);
        config.sync = SyncPolicy::Start;
        config.block_symbols = 32;
        adjust(&mut config);
        simulation.add(config, CLOCK, Port::default()).unwrap();
    }
    let object = simulation.act(1, |node, _| node.open_stream(StreamOptions::default())).unwrap().unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bodies = Vec::new();
    for number in 0..messages {
        let body = [&number.to_be_bytes()[..], &vec![number as u8; random.usize(0..2000)]].concat();
        simulation.act(1, |node, _| node.publish(object, &body, number % 7 == 0)).unwrap().unwrap();
        bodies.push(body);
    }
    simulation.act(1, |node, _| node.publish(object, b"last", true)).unwrap().unwrap();
    bodies.push(b"last".to_vec());
    let somebody_waits = |simulation: &Simulation| {
        (2..=receivers + 1).any(|id| simulation.node(id).unwrap().deliveries.len() < bodies.len())
    };
    let done = simulation.run_while(Time::ZERO + Duration::from_secs(60), somebody_waits);
    for id in 2..=receivers + 1 {
        let node = simulation.node(id).unwrap();
        assert!(
            done,
            "seed {seed}, node {id}: {} messages, {:?}",
            node.deliveries.len(),
            node.session().stats()
        );
        assert!(node.deliveries.iter().map(|got| &got.body).eq(&bodies), "seed {seed}, node {id}");
    }
    Run { simulation, receivers }
}

fn lossy(loss: f64) -> Conditions {
    Conditions { loss, delay: Duration::from_millis(1), ..Default::default() }
}

#[test]
fn everything_arrives_whatever_the_parity_and_the_loss() {
    let mut seed = 0;
    for fec_id in [FecId::ReedSolomon8, FecId::SmallBlock] {
        for (parity, auto, interleave) in [(8, 0, 1), (8, 4, 1), (8, 8, 1), (4, 2, 4), (2, 2, 1)] {
            for loss in [0.0, 0.05, 0.3] {
                seed += 1;
                let conditions = Conditions { duplication: 0.02, reordering: 0.02, ..lossy(loss) };
                let run = transfer(seed, 2, 400, conditions, |config| {
                    config.fec_id = fec_id;
                    (config.parity_symbols, config.auto_parity) = (parity, auto);
                    config.interleave_blocks = interleave;
                });
                println!(
                    "seed {seed}, {parity} parity, {auto} unasked, {loss}: {} recovered, {} segments, {} repairs, {} NACKs",
                    run.received("segments_recovered"),
                    run.sent("segments_sent"),
                    run.sent("repairs_sent"),
                    run.received("nacks_sent")
                );
                assert!(loss == 0.0 || run.received("segments_recovered") > 0, "seed {seed}");
            }
        }
    }
}

#[test]
fn unasked_parity_makes_most_requests_needless() {
    let without = transfer(5, 3, 600, lossy(0.02), |_| ());
    let with = transfer(5, 3, 600, lossy(0.02), |config| {
        (config.parity_symbols, config.auto_parity) = (16, 4);
    });
    let (before, after) = (without.received("nacks_sent"), with.received("nacks_sent"));
    assert!(after * 4 <= before, "{before} NACKs without parity, {after} with it");
}

#[test]
fn a_lost_run_is_repaired_by_parity_alone_when_blocks_are_interleaved() {
    // Runs of about 45 segments, one in a hundred.
    let conditions = Conditions { run_loss: 0.01, delay: Duration::from_millis(1), ..Default::default() };
    let (mut nacks, mut recovered) = (0, 0);
    for seed in 0..10 {
        let run = transfer(seed, 1, 4000, conditions.clone(), |config| {
            (config.parity_symbols, config.auto_parity) = (16, 12);
            config.interleave_blocks = 16;
            config.rate_bytes_per_s = Some(1e8);
        });
        nacks += run.received("nacks_sent");
        recovered += run.received("segments_recovered");
    }
    println!("{nacks} NACKs, {recovered} segments recovered");
    assert!(recovered > 100, "{recovered} recovered");
    // At its end, where too few blocks wait to be mixed, a stream may need one.
    assert!(nacks <= 5, "{nacks} NACKs for {recovered} lost segments");
}

#[test]
fn a_run_lost_at_the_end_of_a_stream_where_no_blocks_are_mixed_is_asked_for() {
    let nacks = |last_run_lost: bool| {
        let mut simulation = Simulation::new(1);
        simulation.set_conditions(lossy(0.0)).unwrap();
        for id in 1..=2 {
            let mut config = Config::new(id, 1, id.into());
            (config.rate_bytes_per_s, config.sync) = (Some(1e8), SyncPolicy::Start);
            (config.block_symbols, config.interleave_blocks) = (32, 16);
            (config.parity_symbols, config.auto_parity) = (16, 12);
            simulation.add(config, CLOCK, Port::default()).unwrap();
        }
        let options = StreamOptions::default();
        let object = simulation.act(1, |node, _| node.open_stream(options)).unwrap().unwrap();
        // The receiver knows the stream; then comes less than the sixteen whole blocks it takes to mix.
        simulation.act(1, |node, _| node.publish(object, &[0; 1000], true)).unwrap().unwrap();
        simulation.run_until(Time::ZERO + Duration::from_secs(1));
        let cut = Conditions { cut: last_run_lost, ..lossy(0.0) };
        simulation.set_path(1, 2, Some(cut)).unwrap();
        for number in 0..45u8 {
            simulation.act(1, |node, _| node.publish(object, &[number; 1390], true)).unwrap().unwrap();
        }
        let sent = |simulation: &Simulation| simulation.node(1).unwrap().session().segments_sent(object);
        let end = simulation.now() + Duration::from_secs(30);
        assert!(simulation.run_while(end, |simulation| sent(simulation) < 46));
        simulation.set_path(1, 2, None).unwrap();
        simulation.run_until(end);
        let receiver = simulation.node(2).unwrap();
        assert_eq!(receiver.deliveries.len(), 46, "{:?}", receiver.session().stats());
        receiver.session().stats().nacks_sent
    };
    assert_eq!(nacks(false), 0);
    assert!(nacks(true) > 0, "a whole block and a half are more than parity repairs unasked");
}

#[test]
fn repair_traffic_grows_with_loss_and_not_with_receivers() {
    let repairs = |receivers: u32, loss: f64| {
        let run = transfer(3, receivers, 150, lossy(loss), |config| {
            config.parity_symbols = 24;
            config.repair = shoal_norm::RepairPolicy::Aggregated;
            config.group_size = receivers;
            // The first answers are few; a group of a thousand must not wait for its timer to be found out.
            config.grtt_initial = Duration::from_millis(5);
        });
        let (repairs, nacks) = (run.sent("repairs_sent"), run.received("nacks_sent"));
        println!(
            "{receivers} receivers, loss {loss}: {repairs} repairs, {nacks} NACKs, {} segments",
            run.sent("segments_sent")
        );
        repairs
    };
    let (few, many) = (repairs(10, 0.05), repairs(1000, 0.05));
    let little = repairs(100, 0.01);
    assert!(many < 3 * few, "{few} repairs for 10 receivers, {many} for 1000");
    assert!(little < many, "{little} repairs at 1 %, {many} at 5 %");
}
