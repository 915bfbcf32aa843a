//! Routers between hubs.

#[path = "support/net.rs"]
mod net;
#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use net::{LANE, Net};
use shoal_node::Origin;
use shoal_node::hub::{Consumer, FlushState};
use support::read;

fn bodies(read: &[(Origin, Vec<u8>)]) -> Vec<String> {
    read.iter().map(|(_, body)| String::from_utf8_lossy(body).into_owned()).collect()
}

#[test]
fn a_message_keeps_its_publisher_number_and_time_behind_three_routers() {
    let mut net = Net::row(5);
    let (_, near) = net.subscribe(0, "prices/*", None);
    let (_, far) = net.subscribe(4, "prices/*", None);
    net.run();
    for number in 0..3 {
        net.publish(0, "prices/ACME", format!("{number}").as_bytes());
        net.wait(Duration::from_millis(3));
        net.run();
    }
    let (near, far) = (read(&near), read(&far));
    assert_eq!(bodies(&far), ["0", "1", "2"]);
    for ((here, _), (there, _)) in near.iter().zip(&far) {
        let identity = |origin: &Origin| (origin.publisher, origin.chain, origin.number, origin.timestamp_us);
        assert_eq!(identity(here), identity(there));
        assert_eq!(there.chain, LANE as u32);
    }
    assert_eq!(net.lost(4), []);
}

#[test]
fn what_nobody_behind_wants_is_dropped_where_it_is_published_and_is_not_lost_to_anybody() {
    let mut net = Net::row(4);
    let (_, reader) = net.subscribe(3, "prices/*", Some("region = 'EU'"));
    net.run();
    let quiet = net.cable(0, 1).bytes;
    for _ in 0..100 {
        net.offer(0, "orders/1", "EU", b"another topic", None).unwrap();
        net.offer(0, "prices/ACME", "US", b"another region", None).unwrap();
    }
    net.run();
    assert_eq!(net.cable(0, 1).bytes, quiet, "no byte crosses the first cable");
    net.offer(0, "prices/ACME", "EU", b"wanted", None).unwrap();
    net.run();
    let read = read(&reader);
    assert_eq!((bodies(&read), read[0].0.number), (vec!["wanted".to_owned()], 201));
    assert_eq!(net.lost(3), []);
    assert_eq!(net.cable(1, 2).messages, 1);
}

#[test]
fn each_neighbour_is_told_what_all_others_want_and_no_more() {
    // A star: 0 is the router.
    let mut net = Net::new(4, &[0]);
    for leaf in 1..4 {
        net.join(0, leaf);
    }
    let (one, _) = net.subscribe(1, "a/*", None);
    net.subscribe(2, "b", None);
    net.subscribe(0, "own", None);
    net.run();
    assert_eq!(net.asked(1, 0).0, ["b", "own"]);
    assert_eq!(net.asked(2, 0).0, ["a/*", "own"]);
    assert_eq!(net.asked(3, 0).0, ["a/*", "b", "own"]);
    net.hubs[1].unsubscribe(one);
    net.run();
    assert_eq!(net.asked(3, 0).0, ["b", "own"], "unsubscribing shrinks it");
    net.part(0, 2);
    net.run();
    assert_eq!(net.asked(3, 0).0, ["own"], "so does a neighbour that goes");
}

#[test]
fn a_filter_disappears_under_one_who_wants_everything_and_comes_back_without_him() {
    let mut net = Net::new(4, &[0]);
    for leaf in 1..4 {
        net.join(0, leaf);
    }
    net.subscribe(1, "prices/ACME", Some("region = 'EU'"));
    net.subscribe(1, "prices/ACME", Some("region = 'EU'"));
    let (everything, _) = net.subscribe(2, "prices/ACME", None);
    net.run();
    assert_eq!(net.asked(3, 0), (vec!["prices/ACME".to_owned()], 0));
    assert_eq!(net.asked(2, 0), (vec!["prices/ACME".to_owned()], 1), "he is asked for what others want");
    let (wider, _) = net.subscribe(2, "prices/>", None);
    net.run();
    assert_eq!(net.asked(3, 0), (vec!["prices/>".to_owned()], 0));
    net.hubs[2].unsubscribe(everything);
    net.hubs[2].unsubscribe(wider);
    net.run();
    assert_eq!(net.asked(3, 0), (vec!["prices/ACME".to_owned()], 1));
}

#[test]
fn however_many_want_it_for_the_same_reason_a_filter_is_evaluated_once_for_a_message() {
    let mut net = Net::new(12, &[0]);
    for leaf in 1..12 {
        net.join(0, leaf);
    }
    for leaf in 2..12 {
        for text in ["region LIKE 'E%'", "region LIKE 'U%'"] {
            net.subscribe(leaf, "prices/*", Some(text));
        }
    }
    net.run();
    let before = net.hubs[0].evaluations();
    net.publish(1, "prices/ACME", b"x");
    net.run();
    assert_eq!(net.hubs[0].evaluations() - before, 2);
    assert_eq!((2..12).map(|leaf| net.cable(0, leaf).messages).sum::<u64>(), 10);
    assert_eq!(net.cable(0, 1).messages, 1);
}

#[test]
fn what_a_router_lost_is_replayed_or_told_once_to_those_behind_it_with_its_numbers() {
    let mut net = Net::row(4);
    let (_, reader) = net.subscribe(3, "prices/*", None);
    net.run();
    net.publish(0, "prices/ACME", b"1");
    net.run();
    net.cable(0, 1).loses = true;
    net.publish(0, "prices/ACME", b"2");
    net.publish(0, "prices/ACME", b"3");
    net.run();
    net.cable(0, 1).loses = false;
    net.wait(Duration::from_millis(5));
    net.publish(0, "prices/ACME", b"4");
    net.run();
    assert_eq!(bodies(&read(&reader)), ["1", "2", "3", "4"]);
    assert_eq!(net.lost(3), [], "its publisher has it");
    net.cable(0, 1).loses = true;
    net.publish(0, "prices/ACME", b"5");
    net.run();
    net.leave(0, 1);
    net.run();
    assert_eq!(bodies(&read(&reader)), [""; 0]);
    assert_eq!(net.lost(3), [(0x1000, 5, 5)], "nobody has it");
    assert_eq!(net.lost(1), [], "who wants nothing itself lost nothing");
}

#[test]
fn publishers_that_take_turns_are_told_apart() {
    // Three publishers and a reader around one router.
    let mut net = Net::new(5, &[0]);
    for leaf in 1..5 {
        net.join(0, leaf);
    }
    let (_, all) = net.subscribe(4, "a/>", None);
    let (_, some) = net.subscribe(4, "a/2", None);
    net.run();
    for round in 0..50u32 {
        for place in [1, 2, 3, 0] {
            net.publish(place, &format!("a/{place}"), &round.to_be_bytes());
            if round % 7 == place as u32 {
                net.run();
            }
        }
        net.wait(Duration::from_micros(700));
    }
    net.run();
    let all = read(&all);
    assert_eq!(all.len(), 200);
    for place in 0..4u64 {
        let of = all.iter().filter(|(origin, _)| origin.publisher == 0x1000 + place);
        let numbers: Vec<(u64, u32)> = of
            .map(|(origin, body)| (origin.number, u32::from_be_bytes(body.as_slice().try_into().unwrap())))
            .collect();
        assert_eq!(numbers, (0..50).map(|n| (u64::from(n) + 1, n)).collect::<Vec<_>>(), "publisher {place}");
    }
    assert_eq!(read(&some).len(), 50);
    assert_eq!(net.lost(4), []);
}

/// Three routers in a circle, and a program at two of them.
fn circle() -> Net {
    let mut net = Net::new(5, &[0, 1, 2]);
    for (one, two) in [(0, 1), (1, 2), (2, 0), (0, 3), (2, 4)] {
        net.join(one, two);
    }
    net.run();
    net
}

#[test]
fn a_circle_of_routers_neither_doubles_nor_goes_round() {
    let mut net = circle();
    let readers: Vec<_> = (0..5).map(|place| net.subscribe(place, "a", None).1).collect();
    net.run();
    for number in 1..=20 {
        net.publish(3, "a", format!("{number}").as_bytes());
        net.publish(1, "a", format!("{number}").as_bytes());
        net.run();
    }
    for (place, reader) in readers.iter().enumerate() {
        let mut read = bodies(&read(reader));
        read.sort_by_key(|body| body.parse::<u32>().unwrap());
        let wanted: Vec<String> = (1..=20).flat_map(|n| [n.to_string(), n.to_string()]).collect();
        assert_eq!(read, wanted, "at {place}");
        assert_eq!(net.lost(place), []);
    }
    let sent: u64 =
        [(0, 1), (1, 2), (2, 0), (0, 3), (2, 4)].iter().map(|&(a, b)| net.cable(a, b).messages).sum();
    assert_eq!(sent, 2 * 20 * 4, "each message crosses each link of the tree once, and no other");
}

#[test]
fn unsubscribing_shrinks_what_is_asked_in_a_circle_too() {
    let mut net = circle();
    let (id, _) = net.subscribe(4, "a", None);
    net.run();
    assert_eq!(net.asked(3, 0).0, ["a"]);
    net.hubs[4].unsubscribe(id);
    net.run();
    for (one, two) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2), (3, 0), (4, 2)] {
        assert_eq!(net.asked(one, two).0, [""; 0], "{one} by {two}");
    }
}

#[test]
fn when_a_link_of_the_tree_goes_another_takes_over_and_what_lies_between_is_read_or_told_once() {
    let mut net = circle();
    let (_, reader) = net.subscribe(4, "a", None);
    net.run();
    for number in 1..=5 {
        net.publish(3, "a", format!("{number}").as_bytes());
    }
    net.run();
    net.part(2, 0);
    net.publish(3, "a", b"6");
    net.run();
    net.wait(Duration::from_millis(5));
    for number in 7..=10 {
        net.publish(3, "a", format!("{number}").as_bytes());
    }
    net.run();
    let read = read(&reader);
    let mut seen: Vec<u64> = read.iter().map(|(origin, _)| origin.number).collect();
    assert!(seen.is_sorted());
    seen.extend(net.lost(4).iter().flat_map(|&(_, first, last)| first..=last));
    seen.sort_unstable();
    assert_eq!(seen, (1..=10).collect::<Vec<_>>());
    assert!(read.len() >= 9, "{}", read.len());
}

#[test]
fn a_program_linked_to_two_routers_gets_everything_once_and_goes_on_with_the_other() {
    // Routers 0 and 1 are joined; 2 is linked to both, 3 publishes at 0.
    let mut net = Net::new(4, &[0, 1]);
    for (one, two) in [(0, 1), (0, 2), (1, 2), (0, 3)] {
        net.join(one, two);
    }
    let (_, reader) = net.subscribe(2, "a", None);
    let (_, other) = net.subscribe(3, "b", None);
    net.run();
    for number in 0..10 {
        net.publish(3, "a", format!("{number}").as_bytes());
        net.publish(2, "b", format!("{number}").as_bytes());
    }
    net.run();
    assert_eq!((read(&reader).len(), read(&other).len()), (10, 10));
    assert_eq!(net.cable(1, 2).messages, 0);
    net.part(0, 2);
    net.run();
    net.wait(Duration::from_millis(5));
    for number in 10..20 {
        net.publish(3, "a", format!("{number}").as_bytes());
        net.publish(2, "b", format!("{number}").as_bytes());
    }
    net.run();
    assert_eq!((read(&reader).len(), read(&other).len()), (10, 10));
    assert_eq!((net.lost(2), net.lost(3)), (vec![], vec![]));
    // What the way that is gone had delivered already is not replayed, but for the chain of which the other end knew nothing.
    let again = 10;
    assert_eq!((net.cable(1, 2).messages, net.cable(0, 1).messages), (20 + again, 20 + again));
}

#[test]
fn what_was_on_a_way_that_broke_is_said_again_on_the_other_and_nothing_comes_twice() {
    // Routers 0 and 1 are joined; 2 is linked to both, 3 publishes at 1, 4 reads at 1 and subscribes late.
    let mut net = Net::new(5, &[0, 1]);
    for (one, two) in [(0, 1), (0, 2), (1, 2), (1, 3), (1, 4)] {
        net.join(one, two);
    }
    let (_, reader) = net.subscribe(2, "a", None);
    net.subscribe(3, "unrelated", None);
    net.run();
    for number in 1..=10 {
        net.publish(3, "a", format!("{number}").as_bytes());
        net.wait(Duration::from_millis(2));
    }
    net.run();
    assert_eq!((net.cable(0, 2).messages, net.cable(1, 2).messages), (10, 0));
    net.cable(0, 2).loses = true;
    for number in 11..=20 {
        net.publish(3, "a", format!("{number}").as_bytes());
        net.publish(3, "b", b"not for it");
        net.wait(Duration::from_millis(2));
        net.run();
    }
    net.part(0, 2);
    net.run();
    net.wait(Duration::from_millis(2));
    let (_, late) = net.subscribe(4, "a", None);
    net.run();
    net.publish(3, "a", b"21");
    net.run();
    let wanted: Vec<String> = (1..=21).map(|number| number.to_string()).collect();
    assert_eq!(bodies(&read(&reader)), wanted);
    assert_eq!(bodies(&read(&late)), ["21"], "who came later gets nothing of before");
    // Whoever takes over is doubted: numbers that it skips may have been for us.
    assert!(net.lost(2).iter().all(|&(_, first, last)| (11..=30).contains(&first) && first == last));
}

#[test]
fn what_a_router_read_before_it_activated_a_link_and_forwards_after_that_reaches_those_behind_it() {
    // Routers 0 and 1 are joined; 2 is linked to both and reads, 3 publishes at 1.
    let mut net = Net::new(4, &[0, 1]);
    for (one, two) in [(0, 1), (0, 2), (1, 2), (1, 3)] {
        net.join(one, two);
    }
    let (_, reader) = net.subscribe(2, "a", None);
    net.run();
    net.publish(3, "a", b"1");
    net.part(0, 2);
    // Router 1 hears that its own link is the only one left, and what is wanted there.
    net.turn(0, 1);
    net.turn(2, 1);
    net.turn(2, 1);
    net.feed(3, 1);
    net.settle(1, 2);
    net.hand_over(1, 3);
    net.run();
    assert_eq!(bodies(&read(&reader)), ["1"]);
    assert_eq!(net.lost(2), []);
}

#[test]
fn a_publisher_says_again_what_the_router_that_broke_did_not_pass_on() {
    // 2 is linked to both routers and publishes; 3 reads at 1.
    let mut net = Net::new(4, &[0, 1]);
    for (one, two) in [(0, 1), (0, 2), (1, 2), (1, 3)] {
        net.join(one, two);
    }
    let (_, reader) = net.subscribe(3, "a", None);
    net.run();
    net.publish(2, "a", b"1");
    net.run();
    net.cable(0, 1).cut = true;
    for number in 2..=5 {
        net.publish(2, "a", format!("{number}").as_bytes());
    }
    net.run();
    net.part(0, 1);
    net.part(0, 2);
    net.run();
    net.publish(2, "a", b"6");
    net.run();
    assert_eq!(bodies(&read(&reader)), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(net.lost(3), []);
}

/// A publisher, a router and a reader, who read five messages. Then the router is gone, and four more are published.
fn router_gone() -> (Net, Arc<Consumer>) {
    let mut net = Net::new(5, &[1, 3, 4]);
    net.join(0, 1);
    net.join(1, 2);
    let (_, reader) = net.subscribe(2, "a", None);
    net.run();
    (1..=5).for_each(|_| assert!(net.publish(0, "a", b"read") > 0));
    net.run();
    assert_eq!(read(&reader).len(), 5);
    net.part(0, 1);
    net.part(1, 2);
    (6..=9).for_each(|_| assert!(net.publish(0, "a", b"nobody is there") > 0));
    (net, reader)
}

#[test]
fn what_was_published_while_the_only_router_was_gone_comes_when_there_is_another_though_nothing_more_is() {
    for order in [[(0, 3), (3, 2)], [(3, 2), (0, 3)]] {
        let (mut net, reader) = router_gone();
        for (one, two) in order {
            net.join(one, two);
            net.run();
        }
        assert_eq!(read(&reader).len(), 4, "{order:?}");
        assert_eq!(net.lost(2), []);
    }
    // Behind two routers.
    let (mut net, reader) = router_gone();
    for (one, two) in [(4, 2), (3, 4), (0, 3)] {
        net.join(one, two);
        net.run();
    }
    assert_eq!(read(&reader).len(), 4);
    assert_eq!(net.lost(2), []);
}

#[test]
fn a_goodbye_tells_those_behind_a_new_router_how_many_were_published() {
    for is_first in [true, false] {
        let (mut net, reader) = router_gone();
        if is_first {
            net.join(3, 2);
            net.run();
        }
        net.join(0, 3);
        net.leave(0, 3);
        net.run();
        if !is_first {
            net.join(3, 2);
            net.run();
        }
        assert_eq!(bodies(&read(&reader)), [""; 0]);
        assert_eq!(net.lost(2), [(0x1000, 6, 9)], "{is_first}");
        net.run();
        assert_eq!(net.lost(2).len(), 1, "it is told once");
    }
}

#[test]
fn whoever_subscribes_later_lost_nothing_of_what_was_before() {
    let mut net = Net::row(4);
    net.subscribe(3, "a", None);
    net.run();
    (1..=5).for_each(|_| assert!(net.publish(0, "a", b"before") > 0));
    net.run();
    let (_, late) = net.subscribe(2, "a", None);
    net.run();
    net.publish(0, "a", b"after");
    net.run();
    assert_eq!(bodies(&read(&late)), ["after"]);
    assert_eq!((net.lost(2), net.lost(3)), (vec![], vec![]));
}

#[test]
fn what_is_said_again_to_a_router_that_knew_nothing_of_it_reaches_whoever_did() {
    // 2 publishes and 3 reads, each linked to both routers; 4 comes later.
    let mut net = Net::new(5, &[0, 1]);
    for (one, two) in [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 4)] {
        net.join(one, two);
    }
    let (_, reader) = net.subscribe(3, "a", None);
    net.run();
    (1..=5).for_each(|_| assert!(net.publish(2, "a", b"x") > 0));
    net.run();
    assert_eq!(net.cable(1, 2).messages, 0);
    for (one, two) in [(0, 1), (0, 2), (0, 3)] {
        net.cable(one, two).cut = true;
    }
    (6..=9).for_each(|_| assert!(net.publish(2, "a", b"x") > 0));
    net.run();
    net.wait(Duration::from_secs(1));
    for (one, two) in [(0, 1), (0, 2), (0, 3)] {
        net.part(one, two);
    }
    let (_, late) = net.subscribe(4, "a", None);
    net.run();
    net.publish(2, "a", b"x");
    net.run();
    let numbers = |read: Vec<(Origin, Vec<u8>)>| read.iter().map(|read| read.0.number).collect::<Vec<_>>();
    assert_eq!(numbers(read(&reader)), (1..=10).collect::<Vec<_>>());
    assert_eq!(numbers(read(&late)), [10], "who came later gets nothing of before");
    assert_eq!((net.lost(3), net.lost(4)), (vec![], vec![]));
}

#[test]
fn what_is_said_again_reaches_whoever_wanted_it_then_though_nothing_of_its_chain_came_before() {
    // 2 publishes for the first time when 0 is gone, and 3 has wanted it for long; 4 comes later.
    let mut net = Net::new(5, &[0, 1]);
    for (one, two) in [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 4)] {
        net.join(one, two);
    }
    let (_, reader) = net.subscribe(3, "a", None);
    net.run();
    for (one, two) in [(0, 1), (0, 2), (0, 3)] {
        net.cable(one, two).cut = true;
    }
    (1..=5).for_each(|_| assert!(net.publish(2, "a", b"x") > 0));
    net.run();
    net.wait(Duration::from_secs(1));
    let (_, late) = net.subscribe(3, "a", None);
    let (_, later) = net.subscribe(4, "a", None);
    for (one, two) in [(0, 1), (0, 2), (0, 3)] {
        net.part(one, two);
    }
    net.run();
    net.publish(2, "a", b"x");
    net.run();
    let numbers = |read: Vec<(Origin, Vec<u8>)>| read.iter().map(|read| read.0.number).collect::<Vec<_>>();
    assert_eq!(numbers(read(&reader)), (1..=6).collect::<Vec<_>>());
    assert_eq!((numbers(read(&late)), numbers(read(&later))), (vec![6], vec![6]), "those came later");
    assert_eq!((net.lost(3), net.lost(4)), (vec![], vec![]));
}

#[test]
fn a_reader_that_stops_holds_back_its_publisher_behind_routers_and_loses_nothing() {
    let mut net = Net::row(4);
    let (_, reader) = net.subscribe_within(3, "a", None, 10_000);
    net.run();
    let (mut published, mut found) = (0u64, Vec::new());
    let body = [7; 1000];
    while net.offer(0, "a", "EU", &body, None).is_some() {
        published += 1;
        net.run();
        assert!(published < 1000, "nobody is held back");
    }
    while found.len() < published as usize {
        found.extend(read(&reader));
        net.hubs[3].resume();
        net.run();
    }
    let numbers: Vec<u64> = found.iter().map(|(origin, _)| origin.number).collect();
    assert_eq!(numbers, (1..=published).collect::<Vec<_>>());
    assert_eq!(net.lost(3), []);
}

#[test]
fn what_outlived_its_time_is_not_passed_on() {
    let mut net = Net::row(3);
    let (_, reader) = net.subscribe(2, "a", None);
    net.run();
    net.publish(0, "a", b"first");
    net.run();
    net.cable(1, 2).cut = true;
    net.offer(0, "a", "EU", b"short", Some(Duration::from_millis(100))).unwrap();
    net.offer(0, "a", "EU", b"long", Some(Duration::from_secs(100))).unwrap();
    net.run();
    net.wait(Duration::from_secs(1));
    net.cable(1, 2).cut = false;
    net.publish(0, "a", b"last");
    net.run();
    assert_eq!(bodies(&read(&reader)), ["first", "long", "last"]);
    assert_eq!(net.lost(2), []);
}

#[test]
fn a_flush_is_over_when_those_behind_routers_have_it_and_names_those_who_may_not() {
    let mut net = Net::row(5);
    let (_, reader) = net.subscribe(4, "a", None);
    net.run();
    net.cable(2, 3).cut = true;
    net.publish(0, "a", b"x");
    let id = net.hubs[0].begin_flush();
    net.run();
    assert_eq!(
        net.hubs[0].flush_state(id),
        FlushState::Pending,
        "the first router has it, and the reader has not"
    );
    net.cable(2, 3).cut = false;
    net.run();
    assert_eq!(net.hubs[0].flush_state(id), FlushState::Done(vec![]));
    assert_eq!(bodies(&read(&reader)), ["x"]);
    net.cable(3, 4).cut = true;
    net.publish(0, "a", b"y");
    let id = net.hubs[0].begin_flush();
    net.run();
    net.part(2, 3);
    net.run();
    assert_eq!(
        net.hubs[0].flush_state(id),
        FlushState::Done(vec![4]),
        "the router behind which it is not known"
    );
}

#[test]
fn a_flush_names_routers_and_programs_that_lost_something_once() {
    let mut net = Net::row(4);
    let (_, reader) = net.subscribe(3, "a", None);
    net.run();
    net.publish(0, "a", b"1");
    net.run();
    net.cable(0, 1).loses = true;
    net.publish(0, "a", b"2");
    net.run();
    // Its ring has no room for so much, and forgets it.
    (0..100).for_each(|_| assert!(net.publish(0, "unwanted", &[0; 60_000]) > 0));
    net.cable(0, 1).loses = false;
    net.wait(Duration::from_millis(5));
    net.publish(0, "a", b"3");
    net.run();
    assert_eq!(bodies(&read(&reader)), ["1", "3"]);
    let mut losers = || {
        let id = net.hubs[0].begin_flush();
        net.run();
        assert_eq!(net.hubs[0].flush_state(id), FlushState::Done(vec![]));
        let losers: Vec<u32> = net.hubs[0].flush_losers(id).into_iter().collect();
        net.hubs[0].end_flush(id);
        losers
    };
    assert_eq!(losers(), [2, 3, 4], "both routers, and the program behind them");
    assert_eq!(losers(), []);
}

#[test]
fn what_was_on_a_way_that_broke_comes_from_farther_away_than_the_next_router() {
    // 0, 1 and 2 are routers in a row, 3 publishes at 0; 4 reads, and is linked to 0 and to 2.
    let mut net = Net::new(5, &[0, 1, 2]);
    for (one, two) in [(0, 1), (1, 2), (0, 3), (0, 4), (2, 4)] {
        net.join(one, two);
    }
    let (_, reader) = net.subscribe(4, "a", None);
    net.run();
    net.publish(3, "a", b"1");
    net.run();
    assert_eq!(bodies(&read(&reader)), ["1"]);
    net.cable(0, 4).loses = true;
    net.publish(3, "a", b"2");
    net.wait(Duration::from_millis(5));
    net.run();
    assert_eq!(net.cable(0, 1).messages, 0, "nobody there wants it");
    net.part(0, 4);
    net.run();
    net.publish(3, "a", b"3");
    net.run();
    assert_eq!(bodies(&read(&reader)), ["2", "3"]);
    assert_eq!(net.lost(4), []);
}

#[test]
fn a_flush_ends_though_routers_in_a_circle_do_not_know_yet_which_links_rest() {
    let mut net = Net::new(5, &[0, 1, 2]);
    for (one, two) in [(0, 1), (1, 2), (2, 0), (0, 3), (2, 4)] {
        net.join(one, two);
        net.cable(one, two).hides_shape = true;
    }
    let (_, reader) = net.subscribe(4, "a", None);
    net.run();
    net.publish(3, "a", b"x");
    let id = net.hubs[3].begin_flush();
    net.run();
    assert_eq!(net.hubs[3].flush_state(id), FlushState::Done(vec![]));
    assert_eq!(bodies(&read(&reader)), ["x"]);
}

#[test]
fn a_subscription_is_known_everywhere_once_every_router_said_so() {
    let mut net = Net::row(5);
    net.cable(0, 1).cut = true;
    net.subscribe(4, "a", None);
    let id = net.hubs[4].begin_sync();
    net.run();
    assert_eq!(net.hubs[4].flush_state(id), FlushState::Pending, "the last one publishes, too");
    net.cable(0, 1).cut = false;
    net.run();
    assert_eq!(net.hubs[4].flush_state(id), FlushState::Done(vec![]));
    assert!(net.hubs[0].interested(b"a").contains(&2));
    net.cable(1, 2).cut = true;
    net.subscribe(4, "b", None);
    let id = net.hubs[4].begin_sync();
    net.run();
    assert_eq!(net.hubs[4].flush_state(id), FlushState::Pending);
    net.cable(1, 2).cut = false;
    net.run();
    assert_eq!(net.hubs[4].flush_state(id), FlushState::Done(vec![]));
    assert!(net.hubs[1].interested(b"b").contains(&3));
}
