//! What a turn of TCP links costs: the sessions that have something to do are visited, and no others.

#[path = "support/wires.rs"]
mod wires;

use std::time::Duration;

use shoal_node::hub::FlushState;
use shoal_node::tcp::{ConnectionId, TcpConfig};
use shoal_norm::Time;
use wires::{HEARTBEAT, Node, World, hub_config, numbers, tcp_config};

const LEAVES: usize = 30;
const LANE: usize = 2;
/// A ping, or its answer: a block's head and a clock.
const PING_BYTES: usize = 12;
const MEETING: Duration = Duration::from_secs(10);

/// A node and leaves that connected to it.
fn star() -> World {
    let tcp = || TcpConfig { peers_max: 100, ..tcp_config() };
    let node = |number: u64| Node::made(&hub_config(number, number as u32), tcp(), 4 << 20);
    let mut world = World::new(7, (1..=LEAVES as u64 + 1).map(node).collect());
    (1..=LEAVES).for_each(|leaf| world.dialler(leaf, 0));
    assert!(world.run_until(MEETING, |world| world.is_meshed(LEAVES)));
    world.run_until(HEARTBEAT, |_| false);
    world
}

/// The connection of a leaf.
fn wire(world: &World, leaf: usize) -> ConnectionId {
    world.diallers[leaf - 1].connection.unwrap()
}

/// Turns the first node until nothing is left to do. Returns how many sessions it visited, and how many connections it asked for bytes.
fn settle(world: &mut World, now: Time) -> (usize, usize) {
    let links = &mut world.nodes[0].links;
    let (mut visited, mut asked) = (0, 0);
    loop {
        visited += links.handle_timeout(now);
        let unsent = links.take_unsent();
        if unsent.is_empty() && links.poll_timeout() > now {
            return (visited, asked);
        }
        asked += unsent.len();
        for id in unsent {
            let bytes = links.transmit(now, id).len();
            links.written(now, id, bytes);
        }
    }
}

#[test]
fn a_message_from_one_of_many_costs_a_visit_to_its_session_alone() {
    let mut world = star();
    let now = world.now;
    settle(&mut world, now);
    let id = wire(&world, 3);
    assert!(world.nodes[3].publish(now, LANE, 100));
    let bytes = world.nodes[3].links.transmit(now, id).to_vec();
    world.nodes[0].links.handle_bytes(now, id, &bytes);
    assert_eq!(settle(&mut world, now), (1, 1));
    world.nodes[0].take();
    assert_eq!(numbers(&world.nodes[0], 4, LANE), [1]);
}

#[test]
fn a_published_message_asks_for_bytes_the_connections_that_it_goes_to_and_visits_nobody() {
    let mut world = star();
    let now = world.now;
    settle(&mut world, now);
    assert!(world.nodes[0].publish(now, LANE, 100));
    assert_eq!(settle(&mut world, now), (0, LEAVES));
    assert_eq!(settle(&mut world, now), (0, 0));
}

#[test]
fn idle_sessions_are_visited_at_their_heartbeats_and_not_between() {
    let mut world = star();
    let (mut now, heartbeats) = (world.now, 20);
    let (end, mut visited, mut turns, mut said) = (now + HEARTBEAT * heartbeats, 0, 0, 0);
    while now < end {
        // Everybody is heard, and says nothing but that it is there.
        for leaf in 1..=LEAVES {
            let id = wire(&world, leaf);
            world.nodes[leaf].links.handle_timeout(now);
            for (from, to) in [(leaf, 0), (0, leaf)] {
                let bytes = world.nodes[from].links.transmit(now, id).to_vec();
                world.nodes[from].links.written(now, id, bytes.len());
                said += bytes.len();
                if !bytes.is_empty() {
                    world.nodes[to].links.handle_bytes(now, id, &bytes);
                }
            }
        }
        visited += settle(&mut world, now).0;
        turns += 1;
        let next = world.nodes.iter().map(|node| node.links.poll_timeout()).min().unwrap();
        now = next.max(now + Duration::from_micros(100));
    }
    assert_eq!(world.ups, LEAVES, "nobody was taken for dead");
    // In an interval: our ping is due, and its answer comes. At every eighth answer the other end measures.
    let intervals = LEAVES * heartbeats as usize;
    let most = intervals * 5 / 2 + LEAVES;
    assert!(visited <= most, "{visited} visits in {turns} turns, and not {most}");
    assert!(visited >= intervals, "{visited}");
    let most = PING_BYTES * (intervals * 5 / 2 + 2 * LEAVES);
    assert!(said <= most, "{said} bytes, and not {most}");
    let knows = |node: &Node| node.links.states(now).iter().all(|state| state.round_trip.is_some());
    assert!(world.nodes.iter().all(knows), "both ends know how long an answer takes");
}

#[test]
fn the_end_that_connected_says_that_it_is_there_though_the_end_that_listens_asks_seldom() {
    let seldom = TcpConfig { heartbeat: 8 * HEARTBEAT, ..tcp_config() };
    let nodes = [seldom, tcp_config()].into_iter().enumerate();
    let node = |(at, tcp)| Node::made(&hub_config(at as u64 + 1, at as u32 + 1), tcp, 4 << 20);
    let mut world = World::new(7, nodes.map(node).collect());
    world.dialler(1, 0);
    assert!(world.run_until(MEETING, |world| world.is_meshed(1)));
    world.run_until(100 * HEARTBEAT, |_| false);
    assert_eq!(world.ups, 1, "nobody was taken for dead");
}

#[test]
fn a_flush_and_an_end_reach_every_session() {
    let mut world = star();
    let now = world.now;
    assert!(world.nodes[0].publish(now, LANE, 100));
    let flush = world.nodes[0].hub.begin_flush();
    let done = |world: &World| world.nodes[0].hub.flush_state(flush) == FlushState::Done(vec![]);
    assert!(world.run_until(MEETING, done));
    let now = world.now;
    world.nodes[0].links.leave(now, now + MEETING);
    world.diallers.clear();
    assert!(world.run_until(MEETING, |world| world.nodes[0].links.connections() == 0));
}
