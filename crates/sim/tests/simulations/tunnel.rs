//! NORM between two ends of a long path that loses: 50 Mbit/s, 40 ms there and back, one datagram in a hundred lost.

use std::time::Duration;

use shoal_norm::{Config, CongestionControl, StreamOptions, SyncPolicy};
use shoal_sim::node::Clock;
use shoal_sim::{Conditions, Port, Simulation};

const CLOCK: Clock = Clock { offset: Duration::from_secs(100), skew: 0.0 };
const PATH_BYTES_PER_S: f64 = 6.25e6;
const MESSAGE: [u8; 1300] = [7; 1300];

/// Senders, each with its own rate control, and behind one path the receiver, which has the last number.
fn path(seed: u64, controls: &[CongestionControl], queue_ms: usize, loss: f64) -> Simulation {
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    let delay = Duration::from_millis(20);
    simulation.set_conditions(Conditions { delay, loss, ..Default::default() }).unwrap();
    let receiver = controls.len() as u32 + 1;
    for id in 1..=receiver {
        let mut config = Config::new(id, 1, seed + u64::from(id));
        config.sync = SyncPolicy::Start;
        config.backoff_factor = 0;
        config.receive = id == receiver;
        (config.block_symbols, config.parity_symbols, config.auto_parity) = (64, 16, 2);
        if let Some(control) = controls.get(id as usize - 1) {
            config.congestion = *control;
        }
        let port = Port {
            ingress_bytes_per_s: (id == receiver).then_some(PATH_BYTES_PER_S),
            ingress_queue_bytes: (PATH_BYTES_PER_S / 1e3) as usize * queue_ms,
            ..Default::default()
        };
        simulation.add(config, CLOCK, port).unwrap();
    }
    for id in 1..receiver {
        simulation
            .act(id, |node, now| node.command(now, |session, _| session.set_ackers(&[receiver])))
            .unwrap();
        let options =
            StreamOptions { cache_bytes: 8 << 20, window_bytes: Some(4 << 20), ..StreamOptions::default() };
        simulation.act(id, |node, _| node.open_stream(options)).unwrap().unwrap();
    }
    simulation
}

/// Lets time pass with senders that always have more to send than goes. The share of the path that each had.
fn shares(simulation: &mut Simulation, senders: u32, seconds: u64) -> Vec<f64> {
    let count = |simulation: &Simulation| -> Vec<usize> {
        let deliveries = &simulation.node(senders + 1).unwrap().deliveries;
        (1..=senders).map(|id| deliveries.iter().filter(|got| got.stream.node == id).count()).collect()
    };
    let before = count(simulation);
    for _ in 0..seconds * 10 {
        for id in 1..=senders {
            let missing = 3000usize.saturating_sub(simulation.node(id).unwrap().backlog());
            simulation
                .act(id, |node, _| (0..missing).for_each(|_| node.publish(0, &MESSAGE, false).unwrap()))
                .unwrap();
        }
        let until = simulation.now() + Duration::from_millis(100);
        simulation.run_until(until);
    }
    let share = |(after, before): (&usize, &usize)| {
        (after - before) as f64 * MESSAGE.len() as f64 / seconds as f64 / PATH_BYTES_PER_S
    };
    count(simulation).iter().zip(&before).map(share).collect()
}

#[test]
fn control_by_delivery_uses_a_lossy_path_and_control_by_loss_does_not() {
    for (seed, queue_ms) in [(1, 20), (2, 50)] {
        let mut simulation = path(seed, &[CongestionControl::Delivery], queue_ms, 0.01);
        let first = shares(&mut simulation, 1, 2)[0];
        let steady = shares(&mut simulation, 1, 4)[0];
        let stats = simulation.node(1).unwrap().session().stats();
        let repairs = stats.repairs_sent as f64 / stats.segments_sent as f64;
        println!(
            "queue {queue_ms} ms: {first:.2} then {steady:.2} of the path, {repairs:.3} repairs a segment"
        );
        assert!(first > 0.5, "{first} of the path in the first two seconds, queue {queue_ms} ms");
        assert!(steady > 0.85, "{steady} of the path, queue {queue_ms} ms");
        assert!(repairs < 0.1, "{repairs} repairs a segment, queue {queue_ms} ms");
    }
    let mut simulation = path(4, &[CongestionControl::NormCc], 50, 0.01);
    shares(&mut simulation, 1, 2);
    let steady = shares(&mut simulation, 1, 4)[0];
    println!("NORM-CC: {steady:.2} of the path");
    assert!(steady < 0.2, "{steady} of the path: then there is no need for another control");
}

#[test]
fn a_tcp_friendly_flow_beside_control_by_delivery_keeps_a_quarter() {
    for (seed, queue_ms) in [(5, 20), (6, 50)] {
        let controls = [CongestionControl::Delivery, CongestionControl::NormCc];
        let mut simulation = path(seed, &controls, queue_ms, 0.0);
        shares(&mut simulation, 2, 10);
        let shares = shares(&mut simulation, 2, 20);
        println!("queue {queue_ms} ms: {shares:.2?} of the path");
        assert!(shares[1] > 0.25, "queue {queue_ms} ms: {shares:.2?}");
        assert!(shares[0] > 0.2, "queue {queue_ms} ms: {shares:.2?}");
        assert!(shares[0] + shares[1] > 0.8, "queue {queue_ms} ms: {shares:.2?}");
    }
}

#[test]
fn two_flows_with_control_by_delivery_share_a_lossy_path() {
    let controls = [CongestionControl::Delivery; 2];
    let mut simulation = path(8, &controls, 50, 0.01);
    shares(&mut simulation, 2, 5);
    let shares = shares(&mut simulation, 2, 15);
    println!("{shares:.2?} of the path");
    assert!(shares[0] + shares[1] > 0.8, "{shares:.2?}");
    assert!(shares[0].max(shares[1]) < 3.0 * shares[0].min(shares[1]), "{shares:.2?}");
}

#[test]
fn a_path_that_was_cut_is_found_again() {
    let mut simulation = path(9, &[CongestionControl::Delivery], 50, 0.01);
    shares(&mut simulation, 1, 2);
    simulation.set_conditions(Conditions { cut: true, ..Default::default() }).unwrap();
    shares(&mut simulation, 1, 20);
    let delay = Duration::from_millis(20);
    simulation.set_conditions(Conditions { delay, loss: 0.01, ..Default::default() }).unwrap();
    shares(&mut simulation, 1, 3);
    let again = shares(&mut simulation, 1, 4)[0];
    assert!(again > 0.8, "{again} of the path after it was cut");
}
