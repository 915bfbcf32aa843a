//! TCP links on wires without sockets: connections that break at any byte, come late, and are made from both ends at once.
//!
//! `TCP_SEEDS=10000 cargo test -p shoal-node --test tcp` searches for longer; a failure names its seed.

#[path = "../../norm/tests/support/counting.rs"]
mod counting;
#[path = "support/wires.rs"]
mod wires;

use std::time::Duration;

use fastrand::Rng;
use shoal_node::hub::{Departure, FlushState};
use shoal_node::tcp::{Role, TcpConfig};
use shoal_node::{HubConfig, HubEvent};
use shoal_norm::Time;
use wires::{FOR_EVER, Node, World, hub_config, numbers, tcp_config};

const LANES: [usize; 2] = [2, 4];

fn seeds(usual: u64) -> u64 {
    std::env::var("TCP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn whatever_breaks_every_message_arrives_once_and_in_order_as_long_as_sessions_last() {
    for seed in 0..seeds(100) {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(2..4);
        let queue = if rng.bool() { 300 } else { 1 << 20 };
        let mut nodes: Vec<Node> =
            (0..count).map(|number| Node::new(rng.u64(1..), number, FOR_EVER, "desk", queue)).collect();
        rng.shuffle(&mut nodes);
        let mut world = World::new(seed, nodes);
        let mut links = 0;
        for from in 0..count {
            for to in from + 1..count {
                links += 1;
                match rng.u8(0..3) {
                    0 => world.dialler(from, to),
                    1 => world.dialler(to, from),
                    _ => {
                        world.dialler(from, to);
                        world.dialler(to, from);
                    }
                }
            }
        }
        assert!(
            world.run_until(Duration::from_secs(10), |world| world.is_meshed(links)),
            "seed {seed}: no mesh"
        );
        for _ in 0..rng.usize(50..600) {
            let node = rng.usize(0..count);
            match rng.u8(..) {
                0..=3 if !world.wires.is_empty() => {
                    let wire = rng.usize(0..world.wires.len());
                    world.break_wire(wire);
                }
                4..=10 => world.nodes[node].reading ^= true,
                _ => {
                    let (lane, length) = (*rng.choice(LANES.iter()).unwrap(), rng.usize(0..400));
                    let now = world.now;
                    world.nodes[node].publish(now, lane, length);
                }
            }
            world.step();
        }
        world.nodes.iter_mut().for_each(|node| node.reading = true);
        let flushes: Vec<_> = world.nodes.iter().map(|node| node.hub.begin_flush()).collect();
        let flushed = |world: &World| {
            let over = |(node, id): (&Node, &u64)| node.hub.flush_state(*id) == FlushState::Done(vec![]);
            world.nodes.iter().zip(&flushes).all(over)
        };
        assert!(
            world.run_until(Duration::from_secs(120), flushed),
            "seed {seed}: not everybody has everything"
        );
        // Everybody has it, and reads it.
        for _ in 0..5 {
            world.step();
        }
        for publisher in &world.nodes {
            for (&lane, &last) in &publisher.published {
                for reader in
                    world.nodes.iter().filter(|node| node.hub.publisher() != publisher.hub.publisher())
                {
                    let read = numbers(reader, publisher.hub.publisher(), lane);
                    assert_eq!(read, (1..=last).collect::<Vec<_>>(), "seed {seed}");
                }
            }
        }
        for node in &world.nodes {
            assert_eq!(node.lost(), [], "seed {seed}");
            let gone = node.events.iter().filter(|event| matches!(event, HubEvent::Gone(..)));
            assert_eq!(gone.count(), 0, "seed {seed}: {:?}", node.events);
        }
    }
}

#[test]
fn where_sessions_end_what_is_missing_is_told_and_nothing_comes_twice() {
    let (mut ended, mut told) = (0, 0);
    for seed in 0..seeds(40) {
        let mut rng = Rng::with_seed(seed);
        let resume = Duration::from_millis(rng.u64(20..400));
        let mut nodes: Vec<Node> =
            (0..2).map(|number| Node::new(rng.u64(1..), number, resume, "desk", 1 << 20)).collect();
        rng.shuffle(&mut nodes);
        let mut world = World::new(seed, nodes);
        world.dialler(0, 1);
        if rng.bool() {
            world.dialler(1, 0);
        }
        assert!(world.run_until(Duration::from_secs(10), |world| world.is_meshed(1)), "seed {seed}");
        for _ in 0..rng.usize(100..500) {
            let node = rng.usize(0..2);
            match rng.u8(..) {
                0..=5 if !world.wires.is_empty() => {
                    let wire = rng.usize(0..world.wires.len());
                    world.break_wire(wire);
                    if rng.bool() {
                        world
                            .diallers
                            .iter_mut()
                            .for_each(|dialler| dialler.dial_at += Duration::from_millis(500));
                    }
                }
                _ => {
                    let now = world.now;
                    world.nodes[node].publish(now, 2, rng.usize(0..400));
                }
            }
            world.step();
        }
        assert!(world.run_until(Duration::from_secs(60), |world| world.is_meshed(1)), "seed {seed}");
        // Whatever is half open is found out, and nothing breaks any more.
        world.run_until(Duration::from_secs(15), |_| false);
        for node in 0..2 {
            let now = world.now;
            assert!(world.nodes[node].publish(now, 2, 1), "seed {seed}");
        }
        let lasts: Vec<u64> = world.nodes.iter().map(|node| node.published[&2]).collect();
        let has_last = |world: &World| {
            (0..2).all(|node| {
                let other = &world.nodes[1 - node];
                numbers(&world.nodes[node], other.hub.publisher(), 2).last() == Some(&lasts[1 - node])
            })
        };
        assert!(
            world.run_until(Duration::from_secs(60), has_last),
            "seed {seed}: the last message did not come"
        );
        for node in 0..2 {
            let (reader, publisher) = (&world.nodes[node], world.nodes[1 - node].hub.publisher());
            let read = numbers(reader, publisher, 2);
            assert!(read.is_sorted_by(|one, two| one < two), "seed {seed}: {read:?}");
            let mut known = read.clone();
            for (_, _, first, last) in
                reader.lost().into_iter().filter(|lost| (lost.0, lost.1) == (publisher, 2))
            {
                known.extend(first..=last);
                told += 1;
            }
            known.sort_unstable();
            known.dedup();
            let first = known[0];
            assert_eq!(
                known,
                (first..=lasts[1 - node]).collect::<Vec<_>>(),
                "seed {seed}: {:?}",
                reader.lost()
            );
            let gone = |event: &&HubEvent| matches!(event, HubEvent::Gone(_, Departure::Failed));
            ended += reader.events.iter().filter(gone).count();
        }
    }
    assert!(ended > 10 && told > 10, "{ended} sessions ended, {told} losses");
}

fn pair(domains: [&str; 2]) -> World {
    let nodes = (0..2).map(|at| Node::new(at as u64 + 1, at, Duration::from_secs(1), domains[at], 1 << 20));
    let mut world = World::new(1, nodes.collect());
    world.dialler(0, 1);
    world
}

#[test]
fn nobody_of_another_domain_is_let_in_and_the_refusal_names_both() {
    let mut world = pair(["desk", "floor"]);
    assert!(world.run_until(Duration::from_secs(5), |world| world.diallers[0].refused.is_some()));
    assert_eq!(world.diallers[0].refused.as_deref(), Some("its domain is \"floor\", and ours \"desk\""));
    assert_eq!(world.nodes[1].hub.members(), []);
}

#[test]
fn whoever_leaves_says_so_and_is_gone_at_once() {
    let mut world = pair(["desk", "desk"]);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(1)));
    let now = world.now;
    assert!(world.nodes[0].publish(now, 2, 100));
    world.nodes[0].hub.stop_publishing();
    world.nodes[0].links.leave(now, now + Duration::from_secs(5));
    let left = |world: &World| {
        world.nodes[1].events.iter().any(|event| matches!(event, HubEvent::Gone(1, Departure::Left)))
    };
    assert!(world.run_until(Duration::from_secs(1), left));
    assert_eq!(numbers(&world.nodes[1], 1, 2), [1]);
    assert_eq!(world.nodes[1].lost(), []);
}

#[test]
fn whoever_leaves_with_everything_is_not_named_by_a_flush() {
    for seed in 0..20 {
        let mut world = pair(["desk", "desk"]);
        world.rng = Rng::with_seed(seed);
        assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(1)));
        let now = world.now;
        assert!(world.nodes[0].publish(now, 2, 100));
        let has_all = |world: &World| {
            let ends = || world.wires.iter().flat_map(|wire| &wire.ends).filter(|end| end.node == 1);
            let written = world.wires.iter().all(|wire| !world.nodes[0].links.has_unwritten(wire.id));
            numbers(&world.nodes[1], 1, 2) == [1] && written && ends().all(|end| end.coming.is_empty())
        };
        assert!(world.run_until(Duration::from_secs(5), has_all), "seed {seed}");
        let now = world.now;
        world.nodes[1].hub.stop_publishing();
        world.nodes[1].links.leave(now, now + Duration::from_secs(5));
        let flush = world.nodes[0].hub.begin_flush();
        let is_over = |world: &World| world.nodes[0].hub.flush_state(flush) != FlushState::Pending;
        assert!(world.run_until(Duration::from_secs(5), is_over), "seed {seed}");
        assert_eq!(world.nodes[0].hub.flush_state(flush), FlushState::Done(vec![]), "seed {seed}");
    }
}

#[test]
fn a_connection_that_one_end_gives_up_takes_its_session_with_it_at_both() {
    let mut world = pair(["desk", "desk"]);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(1)));
    let now = world.now;
    assert!(world.nodes[0].publish(now, 2, 100));
    let id = world.diallers[0].connection.expect("it is up");
    world.diallers.clear();
    world.nodes[0].links.part(now, id, now + Duration::from_secs(5));
    let left = |at: usize, node: u32| {
        move |world: &World| {
            let gone =
                |event: &HubEvent| matches!(event, HubEvent::Gone(who, Departure::Left) if *who == node);
            world.nodes[at].events.iter().any(gone)
        }
    };
    assert!(world.run_until(Duration::from_secs(1), left(1, 1)));
    assert!(world.run_until(Duration::from_secs(5), left(0, 2)));
    assert_eq!(numbers(&world.nodes[1], 1, 2), [1]);
    assert_eq!(world.nodes[1].lost(), []);
    let now = world.now;
    assert!(world.nodes.iter().all(|node| node.links.states(now).is_empty()), "no session waits");
}

#[test]
fn a_peer_that_takes_nothing_holds_nobody_back_while_another_does_and_is_told_what_it_lost() {
    let patience = Duration::from_millis(500);
    let nodes = (0..3).map(|at| Node::with_patience(at as u64 + 1, at, FOR_EVER, "desk", 500, patience));
    let mut world = World::new(3, nodes.collect());
    world.dialler(0, 1);
    world.dialler(2, 0);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(2)));
    world.nodes[2].reading = false;
    let mut published = 0;
    let end = world.now + Duration::from_secs(20);
    while published < 500 && world.now < end {
        let now = world.now;
        published += usize::from(world.nodes[0].publish(now, 2, 100));
        world.step();
    }
    assert_eq!(published, 500, "the publisher is held back");
    assert!(world.nodes[0].events.contains(&HubEvent::Slow(3, None)));
    assert!(!world.nodes[0].events.contains(&HubEvent::Slow(2, None)));
    world.nodes[2].reading = true;
    assert!(world.run_until(Duration::from_secs(5), |world| {
        numbers(&world.nodes[1], 1, 2).len() == 500 && world.nodes[0].links.held_bytes() == 0
    }));
    let now = world.now;
    assert!(world.nodes[0].publish(now, 2, 1));
    assert!(
        world.run_until(Duration::from_secs(5), |world| numbers(&world.nodes[2], 1, 2).last() == Some(&501))
    );
    let read = numbers(&world.nodes[2], 1, 2);
    let lost: u64 = world.nodes[2].lost().iter().map(|lost| lost.3 - lost.2 + 1).sum();
    assert!(lost > 0);
    assert_eq!(read.len() as u64 + lost, 501);
}

#[test]
fn a_reader_behind_a_router_that_takes_nothing_is_noticed_though_little_waits_for_it() {
    let tcp = || TcpConfig { patience: Duration::from_millis(500), window_bytes: 50_000, ..tcp_config() };
    let node = |at: u64| {
        let config = HubConfig { lane_bytes_max: 1 << 20, ..hub_config(at + 1, at as u32 + 1) };
        Node::made(&config, tcp(), if at == 3 { 500 } else { 1 << 20 })
    };
    let mut world = World::new(3, (0..4).map(node).collect());
    world.nodes[0].hub.set_router();
    (1..4).for_each(|leaf| world.dialler(leaf, 0));
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(3)));
    world.nodes[3].reading = false;
    let mut published = 0;
    let end = world.now + Duration::from_secs(60);
    while published < 500 && world.now < end {
        let now = world.now;
        published += usize::from(world.nodes[1].publish(now, 2, 5000));
        world.step();
    }
    let arrived = world.run_until(Duration::from_secs(60), |world| {
        numbers(&world.nodes[2], 2, 2).len() == published && published == 500
    });
    assert!(arrived, "the publisher, or the other reader, is held back");
    assert!(world.nodes[0].events.contains(&HubEvent::Slow(4, None)));
    world.nodes[3].reading = true;
    let known = |world: &World| {
        let lost: u64 = world.nodes[3].lost().iter().map(|lost| lost.3 - lost.2 + 1).sum();
        (numbers(&world.nodes[3], 2, 2).len() as u64, lost)
    };
    let told = world.run_until(Duration::from_secs(5), |world| known(world).0 + known(world).1 == 500);
    let (read, lost) = known(&world);
    assert!(told, "it read {read} of 500, and was told of {lost}");
    assert!(lost > 0);
}

#[test]
fn the_only_reader_behind_a_router_holds_its_publisher_back_however_long_it_takes_nothing() {
    let tcp = || TcpConfig { patience: Duration::from_millis(500), window_bytes: 50_000, ..tcp_config() };
    let node = |at: u64| {
        let config = HubConfig { lane_bytes_max: 1 << 20, ..hub_config(at + 1, at as u32 + 1) };
        Node::made(&config, tcp(), if at == 2 { 500 } else { 1 << 20 })
    };
    let mut world = World::new(3, (0..3).map(node).collect());
    world.nodes[0].hub.set_router();
    world.nodes[1].hub.unsubscribe(world.nodes[1].subscription);
    (1..3).for_each(|leaf| world.dialler(leaf, 0));
    let knows = |world: &World, at: usize, node| world.nodes[at].hub.interested(b"a").contains(&node);
    assert!(world.run_until(Duration::from_secs(5), |world| knows(world, 0, 3) && knows(world, 1, 1)));
    world.nodes[2].reading = false;
    let mut published = 0;
    let (reads, end) = (world.now + Duration::from_secs(10), world.now + Duration::from_secs(60));
    while published < 1000 && world.now < end {
        let now = world.now;
        world.nodes[2].reading = now >= reads;
        assert!(published < 1000 || now >= reads, "nobody waits for it");
        published += usize::from(world.nodes[1].publish(now, 2, 5000));
        world.step();
    }
    let arrived =
        world.run_until(Duration::from_secs(60), |world| numbers(&world.nodes[2], 2, 2).len() == 1000);
    assert!(arrived, "it got {} of {published}", numbers(&world.nodes[2], 2, 2).len());
    assert_eq!(world.nodes[2].lost(), []);
    assert!(!world.nodes[0].events.contains(&HubEvent::Slow(3, None)));
}

#[test]
fn where_there_is_no_memory_for_what_waits_a_connection_ends_and_another_brings_it_again() {
    let nodes = (0..2).map(|at| Node::new(at as u64 + 1, at, FOR_EVER, "desk", 500));
    let mut world = World::new(5, nodes.collect());
    world.dialler(0, 1);
    assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(1)));
    world.nodes[1].reading = false;
    let mut published = 0;
    let (refused, ()) = counting::without_pieces(16 << 10, || {
        for _ in 0..1000 {
            let now = world.now;
            published += u64::from(world.nodes[0].publish(now, 2, 100));
            world.step();
        }
    });
    assert!(refused > 0, "nothing had to wait");
    assert!(world.ups > 2, "no connection ended");
    world.nodes[1].reading = true;
    assert!(world.run_until(Duration::from_secs(20), |world| {
        numbers(&world.nodes[1], 1, 2).len() as u64 == published
    }));
    assert_eq!(numbers(&world.nodes[1], 1, 2), (1..=published).collect::<Vec<_>>());
    assert_eq!(world.nodes[1].lost(), []);
}

#[test]
fn a_silent_connection_is_closed_and_so_is_one_that_never_says_who_it_is() {
    let mut world = pair(["desk", "desk"]);
    let links = &mut world.nodes[1].links;
    let now = Time::from_nanos(1_000_000_000);
    for id in 1000..1200 {
        links.open(now, id, Role::Accepted, 1);
    }
    assert!(links.connections() <= 64, "{} strangers wait", links.connections());
    // A byte now and then does not help.
    for second in 1..8 {
        let now = now + Duration::from_secs(second);
        links.handle_bytes(now, 1199, &b"SHOAL/"[..1.min(second as usize)]);
        links.handle_timeout(now);
    }
    assert_eq!(links.connections(), 0);
}

#[test]
fn any_bytes_are_refused_without_harm_before_and_after_a_greeting() {
    for seed in 0..seeds(300) {
        let mut rng = Rng::with_seed(seed);
        let mut world = pair(["desk", "desk"]);
        assert!(world.run_until(Duration::from_secs(5), |world| world.is_meshed(1)));
        let now = world.now;
        // Real bytes of the session, changed somewhere, on another connection, or on the same one.
        world.nodes[0].publish(now, 2, 300);
        let id = world.wires[0].id;
        let mut bytes = world.nodes[0].links.transmit(now, id).to_vec();
        if rng.bool() {
            bytes = (0..rng.usize(1..2000)).map(|_| rng.u8(..)).collect();
        }
        for _ in 0..rng.usize(1..5) {
            if !bytes.is_empty() {
                let at = rng.usize(0..bytes.len());
                bytes[at] = rng.u8(..);
            }
        }
        let target = if rng.bool() { id } else { 9999 };
        if target == 9999 {
            world.nodes[1].links.open(now, target, Role::Accepted, 5);
        }
        for part in bytes.chunks(rng.usize(1..300)) {
            world.nodes[1].links.handle_bytes(now, target, part);
        }
        world.nodes[1].links.handle_timeout(now);
        world.nodes[1].take();
        assert!(world.nodes[1].links.held_bytes() < 100_000, "seed {seed}");
    }
}
