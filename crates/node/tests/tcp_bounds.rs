//! TCP links of nodes that differ, or want more than there is: ids, lengths of messages, memory.

#[path = "support/wires.rs"]
mod wires;

use std::time::Duration;

use shoal_node::hub::{Attempt, Refusal, SendError};
use shoal_node::tcp::{Over, Role, TcpConfig, TcpNews};
use shoal_node::{HubConfig, HubEvent};
use shoal_norm::Time;
use wires::{Node, World, hub_config, numbers, tcp_config};

const QUEUE: usize = 4 << 20;
const MEETING: Duration = Duration::from_secs(5);

/// The first node and others that connect to it.
fn star(nodes: Vec<Node>) -> World {
    let leaves = nodes.len() - 1;
    let mut world = World::new(7, nodes);
    (1..=leaves).for_each(|leaf| world.dialler(leaf, 0));
    assert!(world.run_until(MEETING, |world| world.is_meshed(leaves)));
    world
}

fn node(config: &HubConfig) -> Node {
    Node::made(config, tcp_config(), QUEUE)
}

#[test]
fn whoever_connects_with_an_id_that_somebody_has_takes_another() {
    for ids in [[5, 5, 6], [5, 6, 6], [5, 5, 5]] {
        let nodes = ids.iter().zip(1..).map(|(&id, publisher)| node(&hub_config(publisher, id)));
        let world = star(nodes.collect());
        let [hub, one, two] = [0, 1, 2].map(|at| world.nodes[at].hub.node());
        assert!(hub == 5 && one != hub && two != hub && one != two, "{hub} {one} {two}");
        assert_eq!(world.nodes[0].hub.members().len(), 2);
        let renamed =
            |node: &Node| node.events.iter().filter(|event| matches!(event, HubEvent::Renamed(..))).count();
        let told: usize = world.nodes.iter().map(renamed).sum();
        assert_eq!(told, if ids == [5, 5, 5] { 2 } else { 1 });
    }
}

/// Gives each of two ends what the other says, until neither says anything.
fn talk(ends: &mut [Node; 2], now: Time) {
    loop {
        let mut said = false;
        for (from, to) in [(0, 1), (1, 0)] {
            let bytes = ends[from].links.transmit(now, 1).to_vec();
            ends[from].links.written(now, 1, bytes.len());
            ends[to].links.handle_bytes(now, 1, &bytes);
            ends[to].links.handle_timeout(now);
            said |= !bytes.is_empty();
        }
        if !said {
            return;
        }
    }
}

#[test]
fn heartbeats_alone_tell_that_the_other_end_is_heard_until_its_connection_ends() {
    let now = Time::from_nanos(1_000_000_000);
    let mut ends = [1, 2].map(|number| node(&hub_config(number, number as u32)));
    ends[0].links.open(now, 1, Role::Accepted, 5);
    ends[1].links.open(now, 1, Role::Dialled(None), 5);
    assert_eq!(ends[0].links.heard(now), [], "nobody said who it is");
    talk(&mut ends, now);
    let later = now + Duration::from_secs(2);
    assert_eq!(ends[0].links.heard(later), [(2, Duration::from_secs(2))]);
    assert!(ends[1].links.poll_timeout() <= later, "its heartbeat is due");
    talk(&mut ends, later);
    assert_eq!(ends[0].links.heard(later), [(2, Duration::ZERO)]);
    ends[0].links.handle_end(later, 1, "the other end died");
    assert_eq!(ends[0].links.heard(later), []);
}

#[test]
fn a_guest_waits_until_it_is_decided_whether_it_is_let_in_and_hears_why_not() {
    let now = Time::from_nanos(1_000_000_000);
    let news = |node: &mut Node| std::iter::from_fn(|| node.links.poll_news()).collect::<Vec<_>>();
    for refused in [None, Some("it is not on the list")] {
        let mut ends = [1, 2].map(|number| node(&hub_config(number, number as u32)));
        ends[0].links.open(now, 1, Role::Guest, 5);
        ends[1].links.open(now, 1, Role::Dialled(None), 5);
        talk(&mut ends, now);
        assert_eq!(news(&mut ends[0]), [TcpNews::Asks { connection: 1, publisher: 2, node: 2 }]);
        assert_eq!((news(&mut ends[1]), ends[0].hub.members().len()), (vec![], 0), "nothing is decided");
        ends[0].links.admit(now, 1, refused, None);
        talk(&mut ends, now);
        let told = ends.each_mut().map(news);
        match refused {
            None => assert!(matches!(told, [ref one, ref two] if matches!(one[..], [TcpNews::Up { .. }])
                && matches!(two[..], [TcpNews::Up { .. }]))),
            Some(why) => {
                let over = |why| vec![TcpNews::Over { connection: 1, peer: None, why }];
                assert_eq!(told, [over(Over::Turned(why.into())), over(Over::Refused(why.into()))]);
            }
        }
        // It is decided once.
        ends[0].links.admit(now, 1, Some("changed our mind"), None);
        assert_eq!(news(&mut ends[0]), []);
    }
}

#[test]
fn a_guest_and_a_peer_are_sent_elsewhere() {
    let now = Time::from_nanos(1_000_000_000);
    let news = |node: &mut Node| std::iter::from_fn(|| node.links.poll_news()).collect::<Vec<_>>();
    let places = "tcp://10.0.0.2:7474 tls://b:7475";
    let mut ends = [1, 2].map(|number| node(&hub_config(number, number as u32)));
    ends[0].links.open(now, 1, Role::Guest, 5);
    ends[1].links.open(now, 1, Role::Dialled(None), 5);
    talk(&mut ends, now);
    ends[0].links.redirect(now, 1, places);
    talk(&mut ends, now);
    let over = |why| TcpNews::Over { connection: 1, peer: None, why };
    assert_eq!(news(&mut ends[0]).last(), Some(&over(Over::Turned(places.into()))));
    assert_eq!(news(&mut ends[1]), [over(Over::Elsewhere(places.into()))]);

    let mut ends = [1, 2].map(|number| node(&hub_config(number, number as u32)));
    ends[0].links.open(now, 1, Role::Accepted, 5);
    ends[1].links.open(now, 1, Role::Dialled(None), 5);
    talk(&mut ends, now);
    let _ = ends.each_mut().map(news);
    // A peer that says it again and again fills nothing.
    for _ in 0..3 {
        ends[0].links.redirect(now, 1, places);
    }
    talk(&mut ends, now);
    assert_eq!(news(&mut ends[1]), [TcpNews::Redirected { connection: 1, places: places.into() }]);
    assert_eq!(ends[1].hub.members().len(), 1, "the link stays until there is another one");
}

#[test]
fn a_guest_that_nobody_decides_about_may_come_again_later() {
    let now = Time::from_nanos(1_000_000_000);
    let mut ends = [1, 2].map(|number| node(&hub_config(number, number as u32)));
    ends[0].links.open(now, 1, Role::Guest, 5);
    ends[1].links.open(now, 1, Role::Dialled(None), 5);
    talk(&mut ends, now);
    let late = ends[0].links.poll_timeout();
    assert!(late <= now + MEETING);
    ends[0].links.handle_timeout(late);
    talk(&mut ends, late);
    let why = "nobody decided within 5 s whether to let it in";
    let over = |node: &mut Node| std::iter::from_fn(|| node.links.poll_news()).last();
    let expected = |why| Some(TcpNews::Over { connection: 1, peer: None, why });
    assert_eq!(over(&mut ends[0]), expected(Over::Turned(why.into())));
    assert_eq!(over(&mut ends[1]), expected(Over::Broken(why.into())));
    ends[0].links.admit(late, 1, None, None);
    assert_eq!(ends[0].hub.members().len(), 0);
}

#[test]
fn nothing_is_due_on_a_connection_that_takes_no_more_until_it_is_silent_for_too_long() {
    let now = Time::from_nanos(1_000_000_000);
    let mut ends = [1, 2].map(|number| node(&hub_config(number, number as u32)));
    ends[0].links.open(now, 1, Role::Guest, 5);
    ends[1].links.open(now, 1, Role::Dialled(None), 5);
    talk(&mut ends, now);
    ends[0].links.admit(now, 1, None, None);
    talk(&mut ends, now);

    let ping = ends[0].links.poll_timeout();
    ends[0].links.handle_timeout(ping);
    let said = ends[0].links.transmit(ping, 1).len();
    assert!(said > 0);
    ends[0].links.written(ping, 1, said);
    ends[0].links.clog(ping, 1);
    let silent = ends[0].links.poll_timeout();
    ends[0].links.handle_timeout(silent);
    let news: Vec<TcpNews> = std::iter::from_fn(|| ends[0].links.poll_news()).collect();
    assert!(silent > ping && matches!(news[..], [.., TcpNews::Over { .. }]), "{news:?}");
}

#[test]
fn what_the_only_reader_cannot_take_is_refused_and_its_link_stays() {
    let short = HubConfig { message_bytes_max: 1000, assembly_bytes_max: 1000, ..hub_config(1, 1) };
    let mut world = star(vec![node(&short), node(&hub_config(2, 2))]);
    let now = world.now;
    let refused = world.nodes[1].try_publish(now, 2, 5000);
    assert!(
        matches!(refused, Attempt::Refused(Refusal::Send(SendError::TooLongThere(_, 1000)))),
        "{refused:?}"
    );
    assert!(world.nodes[1].publish(now, 2, 500));
    assert!(world.run_until(MEETING, |world| numbers(&world.nodes[0], 2, 2) == [1]));
    assert_eq!((world.ups, world.nodes[0].lost()), (1, vec![]));
}

#[test]
fn what_one_of_several_cannot_take_goes_to_the_others_and_is_told_to_it_as_lost() {
    let short = HubConfig { message_bytes_max: 1000, assembly_bytes_max: 1000, ..hub_config(2, 2) };
    let mut world = star(vec![node(&hub_config(1, 1)), node(&short), node(&hub_config(3, 3))]);
    let now = world.now;
    assert!(world.nodes[0].publish(now, 2, 5000));
    assert!(world.run_until(MEETING, |world| numbers(&world.nodes[2], 1, 2) == [1]));
    let now = world.now;
    assert!(world.nodes[0].publish(now, 2, 10));
    assert!(world.run_until(MEETING, |world| numbers(&world.nodes[2], 1, 2) == [1, 2]));
    assert!(world.run_until(MEETING, |world| numbers(&world.nodes[1], 1, 2) == [2]));
    assert_eq!((world.ups, world.nodes[1].lost()), (2, vec![(1, 2, 1, 1)]));
}

#[test]
fn what_many_send_while_nobody_reads_is_bounded_and_nothing_is_lost() {
    const BYTES_MAX: usize = 200_000;
    let tcp = || TcpConfig { window_bytes: 100_000, ..tcp_config() };
    let hub = HubConfig { assembly_bytes_max: BYTES_MAX, message_bytes_max: 10_000, ..hub_config(1, 1) };
    let mut nodes = vec![Node::made(&hub, tcp(), 500)];
    let leaf = |number: u64| Node::made(&hub_config(number, number as u32), tcp(), QUEUE);
    nodes.extend((2..10).map(leaf));
    let mut world = star(nodes);
    world.nodes[0].reading = false;
    let mut most = 0;
    for _ in 0..4000 {
        let now = world.now;
        for leaf in 1..9 {
            world.nodes[leaf].publish(now, 2, 1000);
            world.nodes[leaf].publish(now, 4, 1000);
        }
        world.step();
        most = most.max(world.nodes[0].links.held_bytes());
    }
    assert!(most > BYTES_MAX / 2, "only {most} bytes had to wait");
    assert!(most <= 2 * BYTES_MAX, "{most} bytes wait");
    world.nodes[0].reading = true;
    let published: Vec<_> = world.nodes.iter().map(|node| node.published.clone()).collect();
    let all_read = |world: &World| {
        (1..9).all(|leaf| {
            let of = |lane: &usize| numbers(&world.nodes[0], leaf as u64 + 1, *lane).len() as u64;
            published[leaf].iter().all(|(lane, last)| of(lane) == *last)
        })
    };
    assert!(world.run_until(Duration::from_secs(120), all_read));
    assert_eq!(world.nodes[0].lost(), []);
}

#[test]
fn half_a_message_whose_rest_does_not_come_makes_room_for_others() {
    let tcp = || TcpConfig { window_bytes: 100_000, ..tcp_config() };
    let nodes = (1..4).map(|number| Node::made(&hub_config(number, number as u32), tcp(), QUEUE));
    let mut world = star(nodes.collect());
    let now = world.now;
    assert!(world.nodes[1].publish(now, 2, 900_000));
    assert!(world.run_until(MEETING, |world| world.nodes[0].links.part_bytes() > 600_000));
    // Its other end is there, and says nothing more.
    let wire = world.diallers[0].connection;
    world.diallers[0].dial_at = shoal_norm::Time::NEVER;
    world.wires.iter_mut().filter(|one| Some(one.id) == wire).for_each(|one| one.cut = true);
    assert!(world.run_until(Duration::from_secs(20), |world| world.nodes[0].links.part_bytes() == 0));
    let now = world.now;
    assert!(world.nodes[2].publish(now, 2, 900_000));
    assert!(world.run_until(MEETING, |world| numbers(&world.nodes[0], 3, 2) == [1]));
}
