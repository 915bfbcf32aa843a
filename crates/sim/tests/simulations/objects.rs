//! Objects of known length through the simulated network.

use std::time::Duration;

use shoal_norm::{
    AbortReason, Config, Event, FecId, FeedbackMode, NackingMode, RepairPolicy, StreamOptions, SyncPolicy,
    Time,
};
use shoal_sim::node::Clock;
use shoal_sim::{Conditions, Port, Simulation};

const CLOCK: Clock = Clock { offset: Duration::from_secs(100), skew: 0.0 };

fn network(seed: u64, receivers: u32, conditions: Conditions, adjust: impl Fn(&mut Config)) -> Simulation {
    println!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    simulation.set_conditions(conditions).unwrap();
    for id in 1..=receivers + 1 {
        let mut config = Config::new(id, 1, seed + u64::from(id));
        config.rate_bytes_per_s = Some(1e7);
        config.block_symbols = 16;
        adjust(&mut config);
        simulation.add(config, CLOCK, Port::default()).unwrap();
    }
    simulation
}

fn lossy(loss: f64) -> Conditions {
    Conditions { loss, delay: Duration::from_millis(1), ..Default::default() }
}

fn content(random: &mut fastrand::Rng, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| random.u8(..)).collect()
}

fn send_data(simulation: &mut Simulation, content: &[u8], info: &[u8]) -> Option<u16> {
    let sent = simulation
        .act(1, |node, now| node.command(now, |session, local| session.send_data(local, content, info)));
    sent.unwrap().unwrap()
}

/// What a node received as data objects, by number.
fn received(simulation: &Simulation, id: u32) -> Vec<(u16, Vec<u8>)> {
    let events = simulation.node(id).unwrap().occurrences.iter().map(|occurrence| &occurrence.event);
    let mut found: Vec<_> = events
        .filter_map(|event| match event {
            Event::DataReceived { object, content } => Some((object.object, content.clone())),
            _ => None,
        })
        .collect();
    found.sort_by_key(|(object, _)| *object);
    found
}

fn count(simulation: &Simulation, id: u32, wanted: impl Fn(&Event) -> bool) -> usize {
    simulation.node(id).unwrap().occurrences.iter().filter(|occurrence| wanted(&occurrence.event)).count()
}

fn is_data(event: &Event) -> bool {
    matches!(event, Event::DataReceived { .. })
}

fn is_info(event: &Event) -> bool {
    matches!(event, Event::Info { .. })
}

fn after(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

#[test]
fn data_objects_arrive_whole_with_their_info_whatever_the_loss_and_the_parity() {
    let mut seed = 0;
    for (fec_id, parity, auto) in [
        (FecId::NoCode, 0, 0),
        (FecId::ReedSolomon8, 6, 0),
        (FecId::ReedSolomon8, 6, 3),
        (FecId::SmallBlock, 4, 2),
    ] {
        for loss in [0.0, 0.05, 0.3] {
            seed += 1;
            let conditions = Conditions { duplication: 0.02, reordering: 0.02, ..lossy(loss) };
            let mut simulation = network(seed, 2, conditions, |config| {
                config.fec_id = fec_id;
                (config.parity_symbols, config.auto_parity) = (parity, auto);
                config.sync = SyncPolicy::All;
                if seed % 2 == 0 {
                    config.repair = RepairPolicy::Aggregated;
                    config.feedback = FeedbackMode::Unicast;
                }
            });
            let mut random = fastrand::Rng::with_seed(seed);
            let sent: Vec<Vec<u8>> =
                [1, 1400, 1401, 30_000, 200_000, 22_400].map(|bytes| content(&mut random, bytes)).to_vec();
            for (number, object) in sent.iter().enumerate() {
                let info = format!("object {number}");
                assert_eq!(send_data(&mut simulation, object, info.as_bytes()), Some(number as u16));
            }
            let done = simulation.run_while(after(60), |simulation| {
                (2..4).any(|id| {
                    count(simulation, id, is_data) < sent.len() || count(simulation, id, is_info) < sent.len()
                })
            });
            assert!(done, "seed {seed}: {:?}", simulation.node(2).unwrap().session().stats());
            for id in 2..4 {
                let got: Vec<Vec<u8>> =
                    received(&simulation, id).into_iter().map(|(_, bytes)| bytes).collect();
                assert!(got == sent, "seed {seed}, node {id}");
                assert_eq!(count(&simulation, id, is_info), sent.len(), "seed {seed}, node {id}");
                assert_eq!(simulation.node(id).unwrap().session().receive_bytes(), 0, "memory given back");
            }
        }
    }
}

/// Sends four megabytes as one object where one run in a hundred is lost whole. Returns how many NACKs that
/// cost, and how many segments parity brought back.
fn nacks_for_lost_runs(seed: u64, as_file: bool, interleave: u16) -> (u64, u64) {
    let conditions = Conditions { run_loss: 0.01, delay: Duration::from_millis(1), ..Default::default() };
    let mut simulation = network(seed, 1, Conditions::default(), |config| {
        config.block_symbols = 64;
        (config.parity_symbols, config.auto_parity) = (16, 10);
        config.interleave_blocks = interleave;
        // Fast enough that a run has as many segments as one call of the kernel takes.
        config.rate_bytes_per_s = Some(1e8);
    });
    simulation.set_path(1, 2, Some(conditions)).unwrap();
    let bytes = content(&mut fastrand::Rng::with_seed(seed), 4_000_000);
    if as_file {
        simulation.act(1, |node, now| node.send_file(now, bytes, b"")).unwrap().unwrap().unwrap();
    } else {
        send_data(&mut simulation, &bytes, b"").unwrap();
    }
    let arrived = |event: &Event| matches!(event, Event::DataReceived { .. } | Event::FileReceived { .. });
    assert!(simulation.run_while(after(60), |simulation| count(simulation, 2, arrived) == 0));
    let stats = simulation.node(2).unwrap().session().stats();
    (stats.nacks_sent, stats.segments_recovered)
}

#[test]
fn a_lost_run_of_an_object_is_repaired_by_parity_alone_when_blocks_are_interleaved() {
    for as_file in [false, true] {
        let (mut recovered, mut without) = (0, 0);
        for seed in 0..10 {
            let (nacks, by_parity) = nacks_for_lost_runs(seed, as_file, 16);
            assert_eq!(nacks, 0, "seed {seed}, {by_parity} segments by parity");
            recovered += by_parity;
            without += nacks_for_lost_runs(seed, as_file, 1).0;
        }
        println!("{recovered} segments by parity; {without} NACKs without interleaving");
        assert!(recovered > 200 && without >= 5, "{recovered} segments, {without} NACKs");
    }
}

#[test]
fn a_file_arrives_though_the_receiver_has_memory_for_a_few_blocks_only() {
    for seed in 0..20 {
        let mut simulation = network(seed, 1, lossy(0.1), |config| {
            (config.parity_symbols, config.auto_parity) = (4, 0);
            config.receive_bytes_max = 160 << 10;
            config.receive_window_bytes = 32 << 10;
        });
        let bytes = content(&mut fastrand::Rng::with_seed(seed), 1_000_000);
        simulation.act(1, |node, now| node.send_file(now, bytes, b"")).unwrap().unwrap().unwrap();
        let arrived = |event: &Event| matches!(event, Event::FileReceived { .. });
        let done = simulation.run_while(after(30), |simulation| count(simulation, 2, arrived) == 0);
        let stats = simulation.node(2).unwrap().session().stats();
        assert!(done, "seed {seed}: {stats:?}");
        let sent = simulation.node(1).unwrap().session().stats();
        assert!(sent.repairs_sent < 3 * sent.segments_sent, "seed {seed}: {} repairs", sent.repairs_sent);
    }
}

#[test]
fn objects_for_which_there_is_no_memory_together_arrive_one_after_the_other() {
    for seed in 0..20 {
        let mut simulation = network(seed, 1, lossy(0.1), |config| {
            config.receive_bytes_max = 400 << 10;
            config.receive_window_bytes = 32 << 10;
            config.sync = SyncPolicy::All;
        });
        for number in 0..6 {
            send_data(&mut simulation, &vec![number; 150_000], b"").unwrap();
        }
        let done = simulation.run_while(after(20), |simulation| count(simulation, 2, is_data) < 6);
        let node = simulation.node(2).unwrap();
        assert!(done, "seed {seed}: {:?}", node.session().stats());
        let whole = received(&simulation, 2).into_iter().enumerate();
        assert!(whole.into_iter().all(|(number, (_, content))| content == vec![number as u8; 150_000]));
        assert_eq!(node.session().receive_bytes(), 0, "seed {seed}: memory given back");
    }
}

#[test]
fn a_file_goes_through_block_by_block_and_is_never_held_whole() {
    for (seed, auto) in [(1, 0), (2, 2)] {
        let mut simulation = network(seed, 1, lossy(0.1), |config| {
            (config.parity_symbols, config.auto_parity) = (4, auto);
            config.receive_bytes_max = 1 << 20;
            config.receive_window_bytes = 1 << 18;
        });
        let bytes = content(&mut fastrand::Rng::with_seed(seed), 3_000_000);
        let file = bytes.clone();
        simulation.act(1, |node, now| node.send_file(now, file, b"big.bin")).unwrap().unwrap().unwrap();
        let arrived = |event: &Event| matches!(event, Event::FileReceived { bytes: 3_000_000, .. });
        assert!(simulation.run_while(after(60), |simulation| count(simulation, 2, arrived) == 0));
        let mut written = vec![0; bytes.len()];
        let node = simulation.node(2).unwrap();
        for occurrence in &node.occurrences {
            if let Event::FileChunk { offset, bytes, .. } = &occurrence.event {
                written[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        assert!(written == bytes, "seed {seed}");
        assert!(node.receive_bytes_peak < 1 << 20, "{} bytes held", node.receive_bytes_peak);
    }
}

#[test]
fn a_hundred_thousand_small_objects_in_a_row_stay_within_their_bounds() {
    let mut simulation = network(5, 1, lossy(0.01), |config| {
        config.rate_bytes_per_s = Some(2e6);
        // Enough for what is sent while a request for repair waits for its turn.
        config.send_objects_max = 8192;
        config.objects_per_sender_max = 16_384;
    });
    // What waits for its first transmission is never dropped, so the sender takes no more than it can send.
    let (mut sent, mut got) = (0u32, 0);
    while sent < 100_000 {
        let mut refused = false;
        while sent < 100_000 && !refused {
            refused = send_data(&mut simulation, &sent.to_be_bytes(), b"").is_none();
            sent += u32::from(!refused);
        }
        let until = simulation.now() + Duration::from_millis(20);
        simulation.run_until(until);
        simulation.act(2, |node, _| {
            for occurrence in node.occurrences.drain(..) {
                match occurrence.event {
                    Event::DataReceived { .. } => got += 1,
                    Event::ObjectAborted { reason, .. } => panic!("an object was given up: {reason:?}"),
                    _ => {}
                }
            }
        });
    }
    let end = simulation.now() + Duration::from_secs(2);
    simulation.run_until(end);
    got += count(&simulation, 2, is_data);
    let node = simulation.node(2).unwrap();
    assert_eq!(got, 100_000, "{:?}", node.session().stats());
    assert!(node.receive_bytes_peak < 1 << 20, "{} bytes held", node.receive_bytes_peak);
}

#[test]
fn what_the_sender_no_longer_has_is_refused_and_told() {
    let mut simulation = network(7, 1, lossy(0.0), |config| config.send_objects_max = 4);
    send_data(&mut simulation, &[1; 100], b"");
    simulation.run_until(after(1));
    simulation.set_conditions(Conditions { cut: true, ..lossy(0.0) }).unwrap();
    for number in 2..12 {
        send_data(&mut simulation, &[number; 100], b"");
        let until = simulation.now() + Duration::from_millis(50);
        simulation.run_until(until);
    }
    simulation.set_conditions(lossy(0.0)).unwrap();
    send_data(&mut simulation, &[12; 100], b"");
    simulation.run_until(after(10));
    let refused =
        |event: &Event| matches!(event, Event::ObjectAborted { reason: AbortReason::Squelched, .. });
    let numbers: Vec<u16> = received(&simulation, 2).into_iter().map(|(object, _)| object).collect();
    assert_eq!(numbers, [0, 8, 9, 10, 11]);
    assert_eq!(count(&simulation, 2, refused), 7);
}

#[test]
fn an_object_cancelled_halfway_is_given_up_by_its_receivers() {
    let mut simulation = network(8, 1, lossy(0.3), |config| config.rate_bytes_per_s = Some(1e6));
    let object = send_data(&mut simulation, &[7; 500_000], b"").unwrap();
    simulation.run_until(Time::ZERO + Duration::from_millis(200));
    assert!(
        simulation.act(1, |node, now| node.command(now, |session, _| session.cancel_object(object))).unwrap()
    );
    send_data(&mut simulation, b"next", b"").unwrap();
    simulation.run_until(after(20));
    assert_eq!(received(&simulation, 2), [(1, b"next".to_vec())]);
    assert_eq!(count(&simulation, 2, |event| matches!(event, Event::ObjectAborted { .. })), 1);
    assert_eq!(simulation.node(2).unwrap().session().receive_bytes(), 0);
}

#[test]
fn a_receiver_that_misses_nothing_is_told_of_an_object_cancelled_halfway() {
    for (seed, loss) in [(19, 0.0), (20, 0.3)] {
        let mut simulation = network(seed, 3, lossy(0.0), |config| config.rate_bytes_per_s = Some(1e6));
        let object = send_data(&mut simulation, &[7; 500_000], b"").unwrap();
        simulation.run_until(Time::ZERO + Duration::from_millis(200));
        simulation.set_conditions(lossy(loss)).unwrap();
        let cancelled = simulation
            .act(1, |node, now| node.command(now, |session, _| session.cancel_object(object)))
            .unwrap();
        assert!(cancelled);
        simulation.run_until(after(5));
        for id in 2..=4 {
            let aborted = count(&simulation, id, |event| matches!(event, Event::ObjectAborted { .. }));
            assert_eq!(aborted, 1, "seed {seed}, node {id}");
            assert_eq!(simulation.node(id).unwrap().session().receive_bytes(), 0, "seed {seed}, node {id}");
        }
        let squelches = simulation.node(1).unwrap().session().stats().commands_sent;
        simulation.run_until(after(6));
        let later = simulation.node(1).unwrap().session().stats().commands_sent;
        assert!(later - squelches < 3, "seed {seed}: it goes on saying so");
    }
}

#[test]
fn an_object_is_acknowledged_only_with_its_information() {
    for seed in 21..25 {
        let mut simulation = network(seed, 2, lossy(0.3), |config| {
            config.sync = SyncPolicy::All;
            config.send_objects_max = 8;
        });
        simulation.act(1, |node, now| node.command(now, |session, _| session.set_ackers(&[2, 3]))).unwrap();
        let (mut sent, objects) = (0, 300);
        while sent < objects && simulation.now() < after(300) {
            while sent < objects && send_data(&mut simulation, &[7; 100], b"its name").is_some() {
                sent += 1;
            }
            simulation.run_until(simulation.now() + Duration::from_millis(5));
        }
        simulation.run_until(simulation.now() + Duration::from_secs(20));
        for id in 2..4 {
            let got = (count(&simulation, id, is_data), count(&simulation, id, is_info));
            assert_eq!(got, (objects, objects), "seed {seed}, node {id}: objects and their information");
        }
    }
}

#[test]
fn an_object_of_which_nothing_more_comes_expires() {
    let mut simulation = network(9, 1, lossy(0.0), |config| {
        config.rate_bytes_per_s = Some(1e6);
        config.object_idle_after = Duration::from_secs(3);
    });
    send_data(&mut simulation, &[7; 500_000], b"");
    simulation.run_until(Time::ZERO + Duration::from_millis(200));
    simulation.stop(1).unwrap();
    simulation.run_until(after(10));
    let expired = |event: &Event| matches!(event, Event::ObjectAborted { reason: AbortReason::Expired, .. });
    assert_eq!(count(&simulation, 2, expired), 1);
    assert_eq!(simulation.node(2).unwrap().session().receive_bytes(), 0);
}

#[test]
fn a_receiver_asks_only_for_what_its_nacking_mode_says() {
    for (nacking, all, infos) in [
        (NackingMode::Full, true, true),
        (NackingMode::InfoOnly, false, true),
        (NackingMode::None, false, false),
    ] {
        let mut simulation = network(10, 1, lossy(0.3), |config| config.nacking = nacking);
        for number in 0..40 {
            send_data(&mut simulation, &[number; 20_000], b"info").unwrap();
        }
        simulation.run_until(after(10));
        let stats = simulation.node(2).unwrap().session().stats();
        assert_eq!(stats.nacks_sent > 0, nacking != NackingMode::None);
        let heard = count(&simulation, 2, |event| matches!(event, Event::ObjectOpened { .. }));
        let got = count(&simulation, 2, |event| matches!(event, Event::Info { .. }));
        assert_eq!(count(&simulation, 2, is_data) == heard, all, "{nacking:?}");
        assert_eq!(got == heard, infos, "{nacking:?}: {got} of {heard}");
    }
}

#[test]
fn objects_and_streams_of_one_sender_do_not_disturb_each_other() {
    let mut simulation = network(11, 2, lossy(0.1), |config| config.sync = SyncPolicy::Start);
    let early = simulation.act(1, |node, _| node.open_stream(StreamOptions::default())).unwrap().unwrap();
    for number in 0..20u8 {
        send_data(&mut simulation, &[number; 10_000], b"").unwrap();
        if number == 10 {
            // A stream between objects, which says nothing until the end.
            let late =
                simulation.act(1, |node, _| node.open_stream(StreamOptions::default())).unwrap().unwrap();
            assert_eq!(late, 12);
        }
        simulation.act(1, |node, _| node.publish(early, &[number; 3000], true)).unwrap().unwrap();
        let until = simulation.now() + Duration::from_millis(20);
        simulation.run_until(until);
    }
    simulation.run_until(after(5));
    simulation.act(1, |node, _| node.publish(12, b"late", true)).unwrap().unwrap();
    simulation.run_until(after(10));
    for id in 2..4 {
        assert!(received(&simulation, id).len() >= 19, "{}", received(&simulation, id).len());
        let deliveries = &simulation.node(id).unwrap().deliveries;
        assert_eq!(deliveries.iter().filter(|got| got.stream.object == early).count(), 20, "node {id}");
        assert_eq!(deliveries.iter().filter(|got| got.body == b"late").count(), 1, "node {id}");
    }
}

#[test]
fn a_stream_that_fills_every_request_does_not_keep_objects_from_being_asked_for() {
    // So short a segment makes requests short, and so much is lost that a stream never runs out of them.
    let mut simulation = network(18, 1, lossy(0.0), |config| {
        config.segment_bytes = 100;
        config.rate_bytes_per_s = Some(2e5);
        config.sync = SyncPolicy::All;
    });
    let stream = simulation.act(1, |node, _| node.open_stream(StreamOptions::default())).unwrap().unwrap();
    simulation.run_until(after(1));
    simulation.set_conditions(lossy(0.7)).unwrap();
    let objects = 3;
    for number in 0..objects {
        send_data(&mut simulation, &[number; 500], b"").unwrap();
    }
    while count(&simulation, 2, is_data) < usize::from(objects) && simulation.now() < after(120) {
        simulation
            .act(1, |node, _| {
                while node.backlog() < 100 {
                    node.publish(stream, &[7; 90], false).unwrap();
                }
            })
            .unwrap();
        simulation.run_until(simulation.now() + Duration::from_millis(10));
    }
    let received = count(&simulation, 2, is_data);
    println!("{received} objects after {:?}", simulation.now().since(Time::ZERO));
    assert_eq!(received, usize::from(objects));
}

#[test]
fn a_watermark_tells_who_has_an_object() {
    let mut simulation = network(12, 2, lossy(0.2), |_| ());
    let object = send_data(&mut simulation, &[3; 100_000], b"").unwrap();
    simulation
        .act(1, |node, now| {
            node.command(now, |session, local| {
                session.set_ackers(&[2, 3, 99]);
                session.request_watermark(local, object)
            })
        })
        .unwrap()
        .unwrap();
    simulation.run_until(after(20));
    let outcome =
        simulation.node(1).unwrap().occurrences.iter().find_map(|occurrence| match &occurrence.event {
            Event::WatermarkDone(watermark) => Some(watermark.clone()),
            _ => None,
        });
    let outcome = outcome.expect("the watermark is settled");
    assert_eq!((outcome.object, outcome.acked, outcome.silent), (object, vec![2, 3], vec![99]));
}

#[test]
fn commands_reach_everybody_and_questions_are_answered_by_those_who_are_asked() {
    let mut simulation = network(13, 2, lossy(0.2), |_| ());
    simulation
        .act(1, |node, now| {
            node.command(now, |session, local| {
                assert_eq!(session.send_command(local, b"stop the press", 10), Ok(true));
                assert!(session.request_acks(local, 16, 5, &[2, 3, 99]));
                assert!(!session.request_acks(local, 2, 5, &[2]), "that type is NORM's own");
            })
        })
        .unwrap();
    simulation.run_until(after(20));
    let done = Event::AcksDone { ack_type: 16, ack_id: 5, acked: vec![2, 3], silent: vec![99] };
    assert_eq!(count(&simulation, 1, |event| *event == done), 1);
    for id in 2..4 {
        let said = count(
            &simulation,
            id,
            |event| matches!(event, Event::CommandReceived { node: 1, content, .. } if content == b"stop the press"),
        );
        assert!((1..=10).contains(&said), "{said} of 10 repetitions");
        assert!(count(&simulation, id, |event| matches!(event, Event::AckGiven { .. })) >= 1);
    }
}

#[test]
fn short_objects_and_parity_repaired_together_stay_readable() {
    for seed in 20..40 {
        let mut simulation = network(seed, 2, lossy(0.4), |config| {
            config.parity_symbols = 8;
            config.sync = SyncPolicy::All;
        });
        for number in 0..20u8 {
            let bytes = if number % 2 == 0 { 1 } else { 20_000 };
            send_data(&mut simulation, &vec![number; bytes], b"").unwrap();
        }
        simulation.run_until(after(5));
        for id in 2..4 {
            let stats = simulation.node(id).unwrap().session().stats();
            assert_eq!(stats.rejected.iter().sum::<u64>(), 0, "seed {seed}: {stats:?}");
        }
    }
}

/// Sends so many tiny objects through 1 % loss to two receivers that keep the places of `places` objects at the most.
/// Returns how many came to each, and how many each gave up.
fn send_tiny(seed: u64, ackers: bool, total: u32, places: usize) -> Vec<(usize, usize)> {
    let mut simulation = network(seed, 2, lossy(0.01), |config| {
        config.rate_bytes_per_s = Some(2e7);
        config.sync = SyncPolicy::All;
        config.objects_per_sender_max = places;
    });
    if ackers {
        simulation.act(1, |node, now| node.command(now, |session, _| session.set_ackers(&[2, 3]))).unwrap();
    }
    let mut next = 0u32;
    while next < total {
        while next < total && send_data(&mut simulation, &next.to_be_bytes(), b"").is_some() {
            next += 1;
        }
        simulation.run_until(simulation.now() + Duration::from_millis(1));
        assert!(simulation.now() < after(3), "seed {seed}: {next} sent by {:?}", simulation.now());
    }
    let end = simulation.now() + Duration::from_secs(5);
    simulation.run_while(end, |simulation| {
        (2..4).any(|id| simulation.node(id).unwrap().occurrences.len() < 2 * total as usize)
    });
    let outcome = |id| {
        let given_up = count(&simulation, id, |event| matches!(event, Event::ObjectAborted { .. }));
        (count(&simulation, id, is_data), given_up)
    };
    (2..4).map(outcome).collect()
}

#[test]
fn tens_of_thousands_of_tiny_objects_arrive_through_a_little_loss() {
    let usual = Config::new(1, 1, 1).objects_per_sender_max;
    for (seed, ackers) in [(1, false), (2, true)] {
        assert_eq!(send_tiny(seed, ackers, 50_000, usual), [(50_000, 0); 2], "seed {seed}");
    }
}

#[test]
fn a_thousand_places_would_be_too_few_for_tiny_objects_through_a_little_loss() {
    let outcomes = send_tiny(1, false, 20_000, 1024);
    assert!(outcomes.iter().any(|(_, given_up)| *given_up > 0), "the test above says nothing: {outcomes:?}");
}
