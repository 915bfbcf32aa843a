//! What is lost comes back, also where the last thing to be lost was the news of a loss.

use std::time::Duration;

use shoal_norm::{Config, Event, FecId, StreamOptions, SyncPolicy, Time};
use shoal_sim::{Clock, Conditions, Port, Simulation};

const CLOCK: Clock = Clock { offset: Duration::from_secs(100), skew: 0.0 };

fn network(seed: u64, loss: f64) -> Simulation {
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    let weather = Conditions { loss, delay: Duration::from_millis(1), ..Default::default() };
    simulation.set_conditions(weather).unwrap();
    simulation
}

fn add(simulation: &mut Simulation, id: u32, adjust: impl FnOnce(&mut Config)) {
    let mut config = Config::new(id, 1, simulation.random());
    config.rate_bytes_per_s = Some(1e6);
    adjust(&mut config);
    simulation.add(config, CLOCK, Port::default()).unwrap();
}

fn publish(simulation: &mut Simulation, object: u16, count: usize) {
    for _ in 0..count {
        simulation.act(1, |node, _| node.publish(object, &[7; 300], true)).unwrap().unwrap();
    }
}

fn open(simulation: &mut Simulation, options: StreamOptions) -> u16 {
    simulation.act(1, |node, _| node.open_stream(options)).unwrap().unwrap()
}

fn run_for(simulation: &mut Simulation, seconds: u64) {
    simulation.run_until(simulation.now() + Duration::from_secs(seconds));
}

#[test]
fn a_late_joiner_that_wants_everything_gets_old_streams_to_their_last_segment() {
    for seed in 0..30 {
        for fec_id in [FecId::NoCode, FecId::ReedSolomon8, FecId::SmallBlock] {
            let mut simulation = network(seed, 0.2);
            add(&mut simulation, 1, |config| config.fec_id = fec_id);
            let old = open(&mut simulation, StreamOptions::default());
            publish(&mut simulation, old, 50);
            run_for(&mut simulation, 5);
            add(&mut simulation, 2, |config| config.sync = SyncPolicy::All);
            let new = open(&mut simulation, StreamOptions::default());
            publish(&mut simulation, new, 50);
            let all = simulation.run_until_delivered(Time::ZERO + Duration::from_secs(60), &[(2, 100)]);
            let joiner = simulation.node(2).unwrap();
            assert!(all, "seed {seed}, {fec_id:?}: {} of 100", joiner.delivered);
        }
    }
}

#[test]
fn a_stream_that_was_asked_for_before_it_began_arrives_when_it_begins() {
    for seed in 0..20 {
        let mut simulation = network(seed, 0.1);
        add(&mut simulation, 1, |_| ());
        let (silent, first) = (
            open(&mut simulation, StreamOptions::default()),
            open(&mut simulation, StreamOptions::default()),
        );
        add(&mut simulation, 2, |config| config.sync = SyncPolicy::All);
        publish(&mut simulation, first, 20);
        // It asks for the silent stream, and is refused.
        run_for(&mut simulation, seed % 3);
        publish(&mut simulation, silent, 20);
        let all = simulation.run_until_delivered(Time::ZERO + Duration::from_secs(60), &[(2, 40)]);
        assert!(all, "seed {seed}: {} of 40", simulation.node(2).unwrap().delivered);
        let events = &simulation.node(2).unwrap().occurrences;
        let closed = events.iter().any(|told| matches!(told.event, Event::StreamClosed { .. }));
        assert!(!closed, "seed {seed}: a refusal ended a stream that had begun");
    }
}

#[test]
fn the_information_of_a_stream_that_ended_is_still_asked_for_and_then_there_is_peace() {
    for seed in 0..40 {
        let mut simulation = network(seed, 0.3);
        add(&mut simulation, 1, |_| ());
        add(&mut simulation, 2, |config| config.sync = SyncPolicy::Start);
        let options = StreamOptions { info: b"about".to_vec(), ..StreamOptions::default() };
        let object = open(&mut simulation, options);
        publish(&mut simulation, object, 5);
        simulation.act(1, |node, _| node.close_stream(object)).unwrap().unwrap();
        run_for(&mut simulation, 10);
        let told = |event: &Event| matches!(event, Event::Info { content, .. } if content == b"about");
        let receiver = simulation.node(2).unwrap();
        assert!(
            receiver.occurrences.iter().any(|told_at| told(&told_at.event)),
            "seed {seed}: no information"
        );
        let before = receiver.session().stats().clone();
        run_for(&mut simulation, 10);
        let after = simulation.node(2).unwrap().session().stats();
        assert_eq!(
            (after.nacks_sent, after.nacks_suppressed),
            (before.nacks_sent, before.nacks_suppressed),
            "seed {seed}: it goes on asking"
        );
    }
}

#[test]
fn a_reader_that_fell_behind_by_more_than_its_window_catches_up_while_the_sender_goes_on() {
    let mut simulation = network(1, 0.0);
    add(&mut simulation, 1, |config| config.rate_bytes_per_s = Some(2e5));
    add(&mut simulation, 2, |config| {
        config.sync = SyncPolicy::Start;
        config.receive_window_bytes = 64 << 10;
    });
    let object = open(&mut simulation, StreamOptions::default());
    publish(&mut simulation, object, 6_000);
    simulation.act(2, |node, _| node.set_reading(false)).unwrap();
    run_for(&mut simulation, 2);
    simulation.act(2, |node, _| node.set_reading(true)).unwrap();
    run_for(&mut simulation, 4);
    let sender = simulation.node(1).unwrap();
    assert!(sender.session().segments_waiting(object) > 0, "the sender must not be through yet");
    let read = simulation.node(2).unwrap().delivered;
    assert!(read > 800, "only {read} messages");
    assert!(simulation.run_until_delivered(Time::ZERO + Duration::from_secs(60), &[(2, 6_000)]));
}

#[test]
fn a_sender_that_forgets_faster_than_it_can_be_asked_is_followed_with_gaps_that_are_told() {
    const PATH_BYTES_PER_S: f64 = 12.5e6;
    let mut simulation = network(7, 0.0);
    let far = Conditions { delay: Duration::from_millis(40), ..Default::default() };
    simulation.set_conditions(far).unwrap();
    add(&mut simulation, 1, |config| config.rate_bytes_per_s = Some(1.87 * PATH_BYTES_PER_S));
    add(&mut simulation, 2, |config| config.sync = SyncPolicy::Start);
    let port = Port {
        ingress_bytes_per_s: Some(PATH_BYTES_PER_S),
        ingress_queue_bytes: 1_000_000,
        ..Default::default()
    };
    simulation.set_port(2, port).unwrap();
    // It can repair more than the receiver keeps.
    let stream = open(&mut simulation, StreamOptions { cache_bytes: 64 << 20, ..Default::default() });
    let state = |simulation: &Simulation| {
        let receiver = simulation.node(2).unwrap();
        let told = receiver.occurrences.iter().map(|occurrence| &occurrence.event);
        (receiver.delivered, told.filter(|event| matches!(event, Event::Gap { .. })).count())
    };
    let mut before = (0, 0);
    for seconds in [6, 6, 6] {
        for _ in 0..seconds * 10 {
            simulation
                .act(1, |node, _| {
                    while node.backlog() < 4800 {
                        node.publish(stream, &[7; 1300], false).unwrap();
                    }
                })
                .unwrap();
            simulation.run_until(simulation.now() + Duration::from_millis(100));
        }
        let now = state(&simulation);
        assert!(now.0 > before.0 && now.1 > before.1, "{before:?} messages and gaps, then {now:?}");
        before = now;
    }
}

#[test]
fn a_slow_sender_that_waits_for_an_acker_has_its_rate_for_data() {
    const MESSAGES: usize = 300;
    let mut simulation = network(8, 0.2);
    // A round trip takes a hundredth of what a segment takes.
    let near = Conditions { loss: 0.2, delay: Duration::from_micros(100), ..Default::default() };
    simulation.set_conditions(near).unwrap();
    add(&mut simulation, 1, |config| {
        (config.rate_bytes_per_s, config.segment_bytes) = (Some(1e4), 200);
        config.acker_patience = Duration::from_secs(10);
    });
    add(&mut simulation, 2, |config| config.sync = SyncPolicy::Start);
    // Node 9 never answers.
    simulation.act(1, |node, now| node.command(now, |session, _| session.set_ackers(&[2, 9]))).unwrap();
    let stream = open(&mut simulation, StreamOptions { window_bytes: Some(4000), ..Default::default() });
    publish(&mut simulation, stream, MESSAGES);
    let asked = |session: &mut shoal_norm::Session, now| session.request_watermark(now, stream).unwrap();
    simulation.act(1, |node, now| node.command(now, asked)).unwrap();
    // 300 bytes a message, a fifth of them twice, and ten seconds for the acker.
    let all = simulation.run_until_delivered(Time::ZERO + Duration::from_secs(40), &[(2, MESSAGES)]);
    let stats = simulation.node(1).unwrap().session().stats();
    assert!(all, "{} of {MESSAGES}: {stats:?}", simulation.node(2).unwrap().delivered);
}

#[test]
fn a_last_message_sent_into_an_outage_arrives_when_the_outage_ends() {
    let mut simulation = network(1, 0.0);
    add(&mut simulation, 1, |_| ());
    add(&mut simulation, 2, |_| ());
    let object = open(&mut simulation, StreamOptions::default());
    publish(&mut simulation, object, 1);
    run_for(&mut simulation, 1);
    let cut = Conditions { cut: true, ..Default::default() };
    simulation.set_path(1, 2, Some(cut)).unwrap();
    publish(&mut simulation, object, 1);
    run_for(&mut simulation, 60);
    simulation.set_path(1, 2, None).unwrap();
    run_for(&mut simulation, 60);
    assert_eq!(simulation.node(2).unwrap().delivered, 2);
}

#[test]
fn a_sender_that_died_is_asked_for_a_bounded_number_of_times_and_again_when_it_is_back() {
    for seed in 0..20 {
        let mut simulation = network(seed, 0.3);
        add(&mut simulation, 1, |_| ());
        add(&mut simulation, 2, |config| config.sync = SyncPolicy::Start);
        let object = open(&mut simulation, StreamOptions::default());
        publish(&mut simulation, object, 200);
        // It dies while something is missing.
        let missing = |simulation: &Simulation| {
            simulation.node(2).is_some_and(|node| node.session().stats().nacks_sent > 0)
        };
        assert!(simulation.run_while(Time::ZERO + Duration::from_secs(10), |now| !missing(now)));
        simulation.stop(1).unwrap();
        let nacks = |simulation: &Simulation| simulation.node(2).unwrap().session().stats().nacks_sent;
        let before = nacks(&simulation);
        run_for(&mut simulation, 3600);
        let robust_factor = u64::from(Config::new(1, 1, 1).robust_factor);
        let asked = nacks(&simulation) - before;
        assert!(asked <= 2 * robust_factor, "seed {seed}: asked {asked} times in an hour");
        simulation.resume(1).unwrap();
        let end = simulation.now() + Duration::from_secs(60);
        let all = simulation.run_until_delivered(end, &[(2, 200)]);
        let receiver = simulation.node(2).unwrap();
        assert!(all, "seed {seed}: {} of 200", receiver.delivered);
    }
}

#[test]
fn the_end_is_announced_to_ackers_that_were_listed_after_it_was_sent() {
    for as_object in [false, true] {
        let mut simulation = network(1, 0.0);
        add(&mut simulation, 1, |_| {});
        add(&mut simulation, 2, |config| config.sync = SyncPolicy::All);
        let stream = open(&mut simulation, StreamOptions::default());
        let say = |simulation: &mut Simulation| {
            if as_object {
                let sent = simulation.act(1, |node, now| {
                    node.command(now, |session, local| session.send_data(local, &[7; 300], b""))
                });
                sent.unwrap().unwrap().unwrap();
            } else {
                publish(simulation, stream, 1);
            }
        };
        say(&mut simulation);
        run_for(&mut simulation, 5);
        let weather = Conditions { delay: Duration::from_millis(1), ..Default::default() };
        simulation.set_conditions(Conditions { cut: true, ..weather }).unwrap();
        say(&mut simulation);
        simulation.run_until(simulation.now() + Duration::from_millis(1));
        simulation.act(1, |node, now| node.command(now, |session, _| session.set_ackers(&[2]))).unwrap();
        simulation.set_conditions(weather).unwrap();
        run_for(&mut simulation, 5);
        let receiver = simulation.node(2).unwrap();
        let is_data = |event: &&Event| matches!(event, Event::DataReceived { .. });
        let objects = receiver.occurrences.iter().map(|occurrence| &occurrence.event).filter(is_data).count();
        assert_eq!(receiver.delivered + objects, 2, "as an object: {as_object}");
    }
}
