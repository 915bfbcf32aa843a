//! Rate control through simulated bottlenecks: a cable with a queue that drops what it cannot hold.

use std::time::Duration;

use shoal_norm::{Config, CongestionControl, StreamOptions, SyncPolicy};
use shoal_sim::node::Clock;
use shoal_sim::{Conditions, Port, Simulation};

const CLOCK: Clock = Clock { offset: Duration::from_secs(100), skew: 0.0 };
const BOTTLENECK_BYTES_PER_S: f64 = 1.25e6;
/// What a host keeps for a program that does not read.
const SOCKET_BYTES: usize = 4 << 20;

fn network(seed: u64, senders: u32, receivers: u32, adjust: impl Fn(&mut Config)) -> Simulation {
    open_network(seed, senders, receivers, adjust, None)
}

/// Senders that only their receivers' window holds back, as those of the bus are.
fn unpaced_network(seed: u64, senders: u32, receivers: u32) -> Simulation {
    let unpaced = |config: &mut Config| (config.rate_bytes_per_s, config.backoff_factor) = (None, 1);
    open_network(seed, senders, receivers, unpaced, Some(1 << 20))
}

fn open_network(
    seed: u64,
    senders: u32,
    receivers: u32,
    adjust: impl Fn(&mut Config),
    window_bytes: Option<usize>,
) -> Simulation {
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    let conditions = Conditions { delay: Duration::from_millis(10), ..Default::default() };
    simulation.set_conditions(conditions).unwrap();
    for id in 1..=senders + receivers {
        let mut config = Config::new(id, 1, seed + u64::from(id));
        config.sync = SyncPolicy::Start;
        config.backoff_factor = 2;
        config.receive = id > senders;
        adjust(&mut config);
        let port = if id > senders {
            Port {
                ingress_bytes_per_s: Some(BOTTLENECK_BYTES_PER_S),
                // About what a router holds: the path's rate times its round-trip time, doubled.
                ingress_queue_bytes: 50_000,
                ..Default::default()
            }
        } else {
            Port::default()
        };
        simulation.add(config, CLOCK, port).unwrap();
    }
    let receivers: Vec<u32> = (senders + 1..=senders + receivers).collect();
    for id in 1..=senders {
        if window_bytes.is_some() {
            simulation
                .act(id, |node, now| node.command(now, |session, _| session.set_ackers(&receivers)))
                .unwrap();
        }
        let options = StreamOptions { cache_bytes: 4 << 20, window_bytes, ..StreamOptions::default() };
        let object = simulation.act(id, |node, _| node.open_stream(options)).unwrap().unwrap();
        feed(&mut simulation, id, object, 2000);
    }
    simulation
}

fn feed(simulation: &mut Simulation, id: u32, object: u16, messages: usize) {
    simulation
        .act(id, |node, _| {
            for _ in 0..messages {
                node.publish(object, &[7; 1300], false).unwrap();
            }
        })
        .unwrap();
}

/// Lets time pass with senders that always have something to send. Returns how many bytes per second each
/// delivered to node `receiver`.
fn goodput(simulation: &mut Simulation, senders: u32, receiver: u32, seconds: u64) -> Vec<f64> {
    let count = |simulation: &Simulation| -> Vec<usize> {
        let deliveries = &simulation.node(receiver).unwrap().deliveries;
        (1..=senders).map(|id| deliveries.iter().filter(|got| got.stream.node == id).count()).collect()
    };
    let before = count(simulation);
    for _ in 0..seconds * 10 {
        for id in 1..=senders {
            let backlog = simulation.node(id).unwrap().backlog();
            feed(simulation, id, 0, 2000usize.saturating_sub(backlog));
        }
        let until = simulation.now() + Duration::from_millis(100);
        simulation.run_until(until);
    }
    let after = count(simulation);
    let rate = |(after, before): (&usize, &usize)| (after - before) as f64 * 1300.0 / seconds as f64;
    after.iter().zip(&before).map(rate).collect()
}

fn rate_of(simulation: &Simulation, id: u32) -> f64 {
    simulation.node(id).unwrap().session().rate_bytes_per_s().unwrap()
}

#[test]
fn norm_cc_alone_uses_most_of_a_bottleneck_and_never_sits_at_a_crawl() {
    let mut simulation = network(1, 1, 2, |config| config.congestion = CongestionControl::NormCc);
    let first = goodput(&mut simulation, 1, 2, 2)[0];
    assert!(first > 0.5 * BOTTLENECK_BYTES_PER_S, "{first} bytes/s in the first two seconds");
    let steady = goodput(&mut simulation, 1, 2, 20)[0];
    let stats = simulation.node(1).unwrap().session().stats();
    println!(
        "{first} then {steady} bytes/s, {} repairs of {} segments",
        stats.repairs_sent, stats.segments_sent
    );
    assert!(steady > 0.9 * BOTTLENECK_BYTES_PER_S, "{steady} bytes/s");
    assert!(stats.repairs_sent * 10 < stats.segments_sent, "{} repairs", stats.repairs_sent);
}

#[test]
fn two_norm_cc_senders_share_a_bottleneck() {
    let mut simulation = network(2, 2, 1, |config| config.congestion = CongestionControl::NormCc);
    goodput(&mut simulation, 2, 3, 20);
    let shares = goodput(&mut simulation, 2, 3, 60);
    println!("{shares:?} bytes/s");

    let ratio = shares[0].max(shares[1]) / shares[0].min(shares[1]);
    assert!(ratio < 1.25, "{shares:?}");
}

#[test]
fn norm_cc_follows_its_slowest_receiver_and_recovers_when_it_leaves() {
    let mut simulation = network(3, 1, 2, |config| config.congestion = CongestionControl::NormCc);
    let lossy = Conditions { loss: 0.05, delay: Duration::from_millis(50), ..Default::default() };
    simulation.set_path(1, 3, Some(lossy)).unwrap();
    goodput(&mut simulation, 1, 2, 10);
    let held = rate_of(&simulation, 1);
    simulation.stop(3).unwrap();
    goodput(&mut simulation, 1, 2, 20);
    let recovered = rate_of(&simulation, 1);
    println!("{held} bytes/s with the slow receiver, {recovered} without it");
    assert!(held < 0.3 * BOTTLENECK_BYTES_PER_S);
    assert!(recovered > 0.7 * BOTTLENECK_BYTES_PER_S);
}

#[test]
fn nack_driven_control_slows_down_to_what_a_receiver_can_take() {
    let mut simulation = network(4, 1, 1, |config| {
        config.congestion = CongestionControl::NackDriven;
        config.rate_bytes_per_s = Some(12.5e6);
    });
    let start = rate_of(&simulation, 1);
    goodput(&mut simulation, 1, 2, 5);
    let steady = goodput(&mut simulation, 1, 2, 20)[0];
    println!("began at {start}, delivers {steady} bytes/s");
    assert!(rate_of(&simulation, 1) < start / 3.0);
    assert!(steady > 0.5 * BOTTLENECK_BYTES_PER_S, "{steady} bytes/s");
}

#[test]
fn norm_cc_keeps_a_queue_that_is_all_of_the_round_trip_from_swinging() {
    let mut simulation = network(5, 1, 1, |config| config.congestion = CongestionControl::NormCc);
    let near = Conditions { delay: Duration::from_micros(100), ..Default::default() };
    simulation.set_conditions(near).unwrap();
    goodput(&mut simulation, 1, 2, 5);
    let steady = goodput(&mut simulation, 1, 2, 20)[0];
    println!("{steady} bytes/s");
    assert!(steady > 0.9 * BOTTLENECK_BYTES_PER_S, "{steady} bytes/s");
}

#[test]
fn a_host_that_was_away_for_a_moment_does_not_leave_norm_cc_at_a_crawl() {
    let pauses = [20, 60, 150, 300].map(Duration::from_millis);
    for (seed, delay_us) in [(12, 50), (13, 100), (14, 5000)] {
        for away in [&[1][..], &[2], &[1, 2]] {
            for after in (5..125).step_by(15).map(Duration::from_millis) {
                for pause in pauses {
                    let mut simulation =
                        network(seed, 1, 1, |config| config.congestion = CongestionControl::NormCc);
                    let delay = Duration::from_micros(delay_us);
                    simulation.set_conditions(Conditions { delay, ..Default::default() }).unwrap();
                    simulation.run_until(simulation.now() + after);
                    away.iter().for_each(|id| simulation.freeze(*id, SOCKET_BYTES).unwrap());
                    simulation.run_until(simulation.now() + pause);
                    away.iter().for_each(|id| simulation.thaw(*id).unwrap());
                    let rates = [1, 1].map(|seconds| goodput(&mut simulation, 1, 2, seconds)[0]);
                    let shares = rates.map(|rate| rate / BOTTLENECK_BYTES_PER_S);
                    let case = format!("{away:?} away after {after:?} for {pause:?}, {delay:?}");
                    assert!(shares[0] > 0.4 && shares[1] > 0.6, "{case}: {shares:.2?} of the bottleneck");
                }
            }
        }
    }
}

#[test]
fn norm_cc_hears_of_losses_that_are_rare_because_much_is_on_its_way() {
    // 12.5 MB/s and 80 ms: at so many segments in flight TCP would lose one in a hundred thousand.
    const PATH_BYTES_PER_S: f64 = 12.5e6;
    let mut simulation = network(15, 1, 1, |config| config.congestion = CongestionControl::NormCc);
    simulation.set_conditions(Conditions { delay: Duration::from_millis(40), ..Default::default() }).unwrap();
    let port = Port {
        ingress_bytes_per_s: Some(PATH_BYTES_PER_S),
        ingress_queue_bytes: 1_000_000,
        ..Default::default()
    };
    simulation.set_port(2, port).unwrap();
    goodput(&mut simulation, 1, 2, 10);
    let steady = goodput(&mut simulation, 1, 2, 10)[0] / PATH_BYTES_PER_S;
    println!("{steady} of the path");
    assert!(steady > 0.5, "{steady} of the path");
}

#[test]
fn an_unpaced_sender_uses_a_bottleneck_and_wastes_little_of_it() {
    // The queue holds 40 ms; the longer the path beside it, the more a loss costs.
    for (seed, receivers, delay_us, wanted) in
        [(6, 1, 100, 0.8), (7, 1, 10_000, 0.6), (8, 8, 100, 0.8), (9, 8, 10_000, 0.6)]
    {
        let mut simulation = unpaced_network(seed, 1, receivers);
        let delay = Duration::from_micros(delay_us);
        simulation.set_conditions(Conditions { delay, ..Default::default() }).unwrap();
        let first = goodput(&mut simulation, 1, 2, 2)[0];
        let steady = goodput(&mut simulation, 1, 2, 20)[0];
        let stats = simulation.node(1).unwrap().session().stats();
        let repairs = stats.repairs_sent as f64 / stats.segments_sent as f64;
        println!(
            "{receivers} receivers, {delay:?}: {first} then {steady} bytes/s, {repairs} repairs a segment"
        );
        assert!(first > 0.4 * BOTTLENECK_BYTES_PER_S, "{first} bytes/s in the first two seconds");
        assert!(steady > wanted * BOTTLENECK_BYTES_PER_S, "{steady} bytes/s");
        assert!(repairs < 0.12, "{repairs} repairs a segment");
    }
}

#[test]
fn unpaced_senders_leave_room_for_each_other() {
    let mut simulation = unpaced_network(10, 2, 1);
    goodput(&mut simulation, 2, 3, 10);
    let shares = goodput(&mut simulation, 2, 3, 60);
    println!("{shares:?} bytes/s");
    assert!(shares[0] + shares[1] > 0.75 * BOTTLENECK_BYTES_PER_S, "{shares:?}");
    assert!(shares[0].max(shares[1]) < 2.0 * shares[0].min(shares[1]), "{shares:?}");
}

#[test]
fn random_loss_does_not_slow_an_unpaced_sender_to_a_crawl() {
    let mut simulation = unpaced_network(11, 1, 2);
    let lossy = Conditions { loss: 0.05, delay: Duration::from_millis(1), ..Default::default() };
    simulation.set_conditions(lossy).unwrap();
    goodput(&mut simulation, 1, 2, 5);
    let steady = goodput(&mut simulation, 1, 2, 20)[0];
    println!("{steady} bytes/s");
    assert!(steady > 0.5 * BOTTLENECK_BYTES_PER_S, "{steady} bytes/s");
}
