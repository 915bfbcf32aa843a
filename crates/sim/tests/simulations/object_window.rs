//! Objects of known length with ackers: what is not acknowledged is kept, held back, and not forgiven.

use std::time::Duration;

use shoal_norm::{Config, Event, NodeId, ObjectId, SyncPolicy, Time, Watermark};
use shoal_sim::node::Clock;
use shoal_sim::{Conditions, Port, Simulation};

const CLOCK: Clock = Clock { offset: Duration::from_secs(100), skew: 0.0 };

/// A sender, node 1, and one receiver, node 2.
fn network(seed: u64, ackers: &[NodeId], loss: f64, adjust: impl Fn(&mut Config)) -> Simulation {
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    let delay = Duration::from_millis(1);
    simulation.set_conditions(Conditions { loss, delay, ..Default::default() }).unwrap();
    for id in 1..=2 {
        let mut config = Config::new(id, 1, seed + u64::from(id));
        config.rate_bytes_per_s = Some(1e7);
        config.sync = SyncPolicy::All;
        adjust(&mut config);
        simulation.add(config, CLOCK, Port::default()).unwrap();
    }
    simulation.act(1, |node, now| node.command(now, |session, _| session.set_ackers(ackers))).unwrap();
    simulation
}

fn send_data(simulation: &mut Simulation, content: &[u8]) -> Option<ObjectId> {
    let sent = simulation
        .act(1, |node, now| node.command(now, |session, local| session.send_data(local, content, b"")));
    sent.unwrap().unwrap()
}

fn cancel(simulation: &mut Simulation, object: ObjectId) -> bool {
    simulation.act(1, |node, now| node.command(now, |session, _| session.cancel_object(object))).unwrap()
}

fn request_watermark(simulation: &mut Simulation, object: ObjectId) {
    let asked = simulation
        .act(1, |node, now| node.command(now, |session, local| session.request_watermark(local, object)));
    asked.unwrap().unwrap();
}

fn is_acknowledged(simulation: &Simulation) -> bool {
    let session = simulation.node(1).unwrap().session();
    session.is_quiet() && session.is_acknowledged()
}

fn count(simulation: &Simulation, id: NodeId, wanted: impl Fn(&Event) -> bool) -> usize {
    simulation.node(id).unwrap().occurrences.iter().filter(|occurrence| wanted(&occurrence.event)).count()
}

fn run_for(simulation: &mut Simulation, millis: u64) {
    let until = simulation.now() + Duration::from_millis(millis);
    simulation.run_until(until);
}

#[test]
fn a_hundred_thousand_small_objects_all_arrive_with_the_usual_bounds_whatever_the_loss() {
    for (seed, loss) in [(1, 0.01), (2, 0.05)] {
        let mut simulation = network(seed, &[2], loss, |config| config.rate_bytes_per_s = None);
        let (mut sent, mut got, mut given_up) = (0u32, 0u32, 0);
        let limit = Time::ZERO + Duration::from_secs(600);
        while got < 100_000 && given_up == 0 && simulation.now() < limit {
            while sent < 100_000 && send_data(&mut simulation, &sent.to_be_bytes()).is_some() {
                sent += 1;
            }
            run_for(&mut simulation, 2);
            for id in 1..=2 {
                let occurrences = simulation.act(id, |node, _| std::mem::take(&mut node.occurrences));
                for occurrence in occurrences.unwrap() {
                    got += u32::from(matches!(occurrence.event, Event::DataReceived { .. }));
                    given_up += u32::from(matches!(occurrence.event, Event::ObjectAborted { .. }));
                }
            }
        }
        assert_eq!((sent, got, given_up), (100_000, 100_000, 0), "seed {seed}");
        let stats = simulation.node(1).unwrap().session().stats();
        let asked = stats.commands_sent;
        assert!(asked < 40_000, "seed {seed}: {asked} commands for 100,000 objects");
    }
}

#[test]
fn no_more_than_the_window_is_sent_before_it_is_acknowledged() {
    const WINDOW: usize = 400_000;
    for as_file in [false, true] {
        let mut simulation = network(3, &[2], 0.0, |config| config.object_window_bytes = WINDOW);
        simulation.set_conditions(Conditions { cut: true, ..Default::default() }).unwrap();
        let bytes = vec![7; 3_000_000];
        if as_file {
            simulation.act(1, |node, now| node.send_file(now, bytes, b"")).unwrap().unwrap().unwrap();
        } else {
            send_data(&mut simulation, &bytes).unwrap();
        }
        run_for(&mut simulation, 200);
        let sent = simulation.node(1).unwrap().session().stats().payload_bytes_sent;
        assert!((300_000..=WINDOW as u64 + 1400).contains(&sent), "{sent} bytes sent, none acknowledged");
        simulation
            .set_conditions(Conditions { delay: Duration::from_millis(1), ..Default::default() })
            .unwrap();
        run_for(&mut simulation, 5000);
        assert!(is_acknowledged(&simulation), "the window moves on when it is acknowledged");
    }
}

#[test]
fn an_acker_that_never_answers_is_told_and_holds_objects_no_longer_than_its_patience() {
    let mut simulation = network(4, &[2, 99], 0.0, |config| {
        config.send_objects_max = 8;
        config.acker_patience = Duration::from_millis(300);
    });
    let mut sent = 0;
    let began = simulation.now();
    while sent < 100 {
        sent += usize::from(send_data(&mut simulation, b"object").is_some());
        run_for(&mut simulation, 1);
        assert!(simulation.now().since(began) < Duration::from_secs(5), "{sent} sent");
        if sent < 8 {
            assert_eq!(count(&simulation, 1, |event| matches!(event, Event::AckerSilent { .. })), 0);
        }
    }
    run_for(&mut simulation, 2000);
    assert_eq!(count(&simulation, 2, |event| matches!(event, Event::DataReceived { .. })), 100);
    assert_eq!(count(&simulation, 1, |event| matches!(event, Event::AckerSilent { node: 99, .. })), 1);
    let session = simulation.node(1).unwrap().session();
    assert!(session.is_quiet() && !session.is_acknowledged(), "it is not waited for, and not forgiven");
}

#[test]
fn an_acker_that_is_no_longer_waited_for_is_nobodys_timing() {
    const NEAR: Duration = Duration::from_millis(10);
    let mut simulation =
        network(9, &[2, 3], 0.0, |config| config.acker_patience = Duration::from_millis(300));
    let mut config = Config::new(3, 1, 12);
    config.sync = SyncPolicy::All;
    simulation.add(config, CLOCK, Port::default()).unwrap();
    let send_for = |simulation: &mut Simulation, millis: u64| {
        for _ in 0..millis / 10 {
            while send_data(simulation, &[7; 50_000]).is_some() {}
            run_for(simulation, 10);
        }
        let session = simulation.node(1).unwrap().session();
        (session.grtt(), session.stats().nacks_received)
    };
    let (together, _) = send_for(&mut simulation, 500);
    simulation.set_path(1, 3, Some(Conditions { cut: true, ..Default::default() })).unwrap();
    send_for(&mut simulation, 1500);
    let far = Conditions { delay: Duration::from_millis(200), ..Default::default() };
    simulation.set_path(1, 3, Some(far)).unwrap();
    let (apart, nacks) = send_for(&mut simulation, 1000);
    assert!(nacks > 0, "it asks for what it missed");
    assert!(together < NEAR && apart < NEAR, "{together:?}, then {apart:?}");
}

#[test]
fn objects_are_acknowledged_only_if_every_acker_has_every_one_of_them() {
    for (ackers, expected) in [(&[][..], true), (&[2], true), (&[99], false), (&[2, 99], false)] {
        let mut simulation = network(5, ackers, 0.1, |_| ());
        for number in 0..20 {
            send_data(&mut simulation, &[number; 5000]).unwrap();
        }
        assert!(!is_acknowledged(&simulation), "nothing went yet");
        run_for(&mut simulation, 10_000);
        assert_eq!(is_acknowledged(&simulation), expected, "{ackers:?}");
    }
}

#[test]
fn an_acker_that_refuses_an_object_does_not_acknowledge_it_by_what_comes_later() {
    for explicit in [false, true] {
        let mut simulation = network(6, &[2], 0.0, |config| config.object_bytes_max = 10_000);
        send_data(&mut simulation, &[1; 1000]).unwrap();
        let refused = send_data(&mut simulation, &[2; 100_000]).unwrap();
        if explicit {
            request_watermark(&mut simulation, refused);
        }
        run_for(&mut simulation, 3000);
        for _ in 0..3 {
            let later = send_data(&mut simulation, &[3; 1000]).unwrap();
            request_watermark(&mut simulation, later);
            run_for(&mut simulation, 3000);
        }
        assert_eq!(count(&simulation, 2, |event| matches!(event, Event::DataReceived { .. })), 4);
        assert!(!is_acknowledged(&simulation), "explicit {explicit}");
    }
}

#[test]
fn a_cancelled_object_settles_its_watermark_and_makes_room_and_is_owed_by_nobody() {
    let mut simulation = network(7, &[2], 0.0, |config| {
        config.send_objects_max = 1;
        config.rate_bytes_per_s = Some(1e6);
    });
    let first = send_data(&mut simulation, &[1; 1_000_000]).unwrap();
    request_watermark(&mut simulation, first);
    assert_eq!(send_data(&mut simulation, b"next"), None);
    run_for(&mut simulation, 100);
    assert!(cancel(&mut simulation, first));
    run_for(&mut simulation, 1);
    let done = Event::WatermarkDone(Watermark { object: first, acked: vec![], silent: vec![2] });
    assert_eq!(count(&simulation, 1, |event| *event == done), 1);
    assert_eq!(count(&simulation, 1, |event| *event == Event::ObjectRoom), 1);
    assert!(!cancel(&mut simulation, first), "it is gone");
    send_data(&mut simulation, b"next").expect("there is room");
    run_for(&mut simulation, 5000);
    assert_eq!(count(&simulation, 2, |event| matches!(event, Event::DataReceived { .. })), 1);
    assert!(is_acknowledged(&simulation));
}

#[test]
fn objects_cancelled_at_random_leave_the_window_and_the_others_as_they_should_be() {
    for seed in 10..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut simulation = network(seed, &[2], 0.05, |config| {
            config.send_objects_max = 16;
            config.object_window_bytes = 30_000;
            config.block_symbols = 8;
        });
        let (mut live, mut cancelled) = (Vec::new(), 0);
        while live.len() < 100 {
            let content = vec![1; random.usize(1..40_000)];
            live.extend(send_data(&mut simulation, &content));
            run_for(&mut simulation, random.u64(..5));
            if random.u8(..5) == 0 {
                let at = random.usize(live.len().saturating_sub(8)..live.len().max(1));
                if at < live.len() && cancel(&mut simulation, live[at]) {
                    live.remove(at);
                    cancelled += 1;
                }
            }
        }
        run_for(&mut simulation, 20_000);
        let got = count(&simulation, 2, |event| matches!(event, Event::DataReceived { .. }));
        assert!(got >= live.len(), "seed {seed}: {got} of {}", live.len());
        assert!(cancelled > 5 && is_acknowledged(&simulation), "seed {seed}, {cancelled} cancelled");
    }
}

/// Sends 100 MB to a receiver that takes 50 MB/s and holds so much more, with nothing that paces the sender. Returns
/// how long it took, and how many segments had to be repaired.
fn send_unpaced(seed: u64, ackers: &[NodeId], queue_bytes: usize) -> (Duration, u64) {
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    let delay = Duration::from_micros(200);
    simulation.set_conditions(Conditions { delay, ..Default::default() }).unwrap();
    for id in 1..=2 {
        let port = Port {
            egress_bytes_per_s: Some(1e9),
            ingress_bytes_per_s: Some(5e7),
            ingress_queue_bytes: queue_bytes,
        };
        simulation.add(Config::new(id, 1, seed + u64::from(id)), CLOCK, port).unwrap();
    }
    simulation.act(1, |node, now| node.command(now, |session, _| session.set_ackers(ackers))).unwrap();
    simulation.act(1, |node, now| node.send_file(now, vec![7; 100_000_000], b"")).unwrap().unwrap().unwrap();
    let began = simulation.now();
    let arrived = |event: &Event| matches!(event, Event::FileReceived { .. });
    let limit = began + Duration::from_secs(60);
    simulation.run_while(limit, |simulation| count(simulation, 2, arrived) == 0);
    (simulation.now().since(began), simulation.node(1).unwrap().session().stats().repairs_sent)
}

#[test]
fn a_file_that_nothing_paces_does_not_crawl_after_its_first_flood_was_lost() {
    for seed in 40..43 {
        let (took, repairs) = send_unpaced(seed, &[], 2_000_000);
        println!("{took:?}, {repairs} repairs");
        assert!(repairs > 10_000, "seed {seed}: there was no flood");
        let bound = Duration::from_secs(20);
        assert!(took < bound, "seed {seed}: {took:?}, though the path takes it in two seconds");
    }
}

#[test]
fn with_an_acker_that_has_room_for_the_window_nothing_is_lost() {
    for seed in 40..45 {
        let (took, repairs) = send_unpaced(seed, &[2], 8_000_000);
        assert_eq!(repairs, 0, "seed {seed}");
        let bound = Duration::from_millis(2_500);
        assert!(took < bound, "seed {seed}: {took:?}, though the path takes it in two seconds");
    }
}
