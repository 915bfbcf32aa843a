//! What nodes count of messages, exactly.

#[path = "support/net.rs"]
#[allow(dead_code, reason = "each test uses some of it")]
mod net;
#[path = "support/mod.rs"]
mod support;

use net::{LANE, Net};
use shoal_node::{Load, LoadPlace};
use support::read;

/// The counters of a place in the lane that messages are published in.
fn of(net: &Net, hub: usize, is_place: impl Fn(&LoadPlace) -> bool) -> Load {
    let rows = net.hubs[hub].load();
    let mut found = rows.into_iter().filter(|row| row.lane == LANE && is_place(&row.place));
    let row = found.next().expect("there is such a place");
    assert!(found.next().is_none(), "and only one");
    row.load
}

fn here(net: &Net, hub: usize) -> Load {
    of(net, hub, |place| *place == LoadPlace::Here)
}

/// The link whose other end is a hub.
fn link(net: &Net, hub: usize, to: usize) -> Load {
    of(net, hub, |place| matches!(place, LoadPlace::Link(.., Some(peer)) if *peer == to as u32 + 1))
}

#[test]
fn every_message_is_counted_where_it_came_from_and_where_it_went() {
    // 0 publishes, 1 routes, 2 and 3 subscribe; 1 subscribes twice itself.
    let mut net = Net::new(4, &[1]);
    for leaf in [0, 2, 3] {
        net.join(1, leaf);
    }
    let (_, all) = net.subscribe(2, "prices/*", None);
    let (_, some) = net.subscribe(3, "prices/*", Some("region = 'EU'"));
    net.subscribe(1, "prices/ACME", None);
    net.subscribe(1, "prices/ACME", Some("region = 'EU'"));
    net.run();
    let filters = net.hubs[1].evaluations();
    for _ in 0..10 {
        net.offer(0, "orders/1", "EU", b"nobody wants it", None).unwrap();
        net.offer(0, "prices/ACME", "EU", b"for three", None).unwrap();
        net.offer(0, "prices/ACME", "US", b"for two", None).unwrap();
        net.run();
    }
    assert_eq!((read(&all).len(), read(&some).len()), (20, 10));
    let published = here(&net, 0);
    assert_eq!((published.received, published.matched, published.dropped_at_source), (30, 20, 10));
    assert_eq!(published.delivered, 0);
    let sent = link(&net, 0, 1);
    assert_eq!((sent.delivered, sent.dropped_at_source, sent.received), (20, 10, 0));
    let came = link(&net, 1, 0);
    assert_eq!((came.received, came.matched, came.delivered), (20, 20, 0));
    assert_eq!(came.bytes_in, sent.bytes_out, "each byte that was sent came");
    assert_eq!(came.evaluated, net.hubs[1].evaluations() - filters);
    assert!(came.evaluated >= 20, "the router looks at a filter for each message");
    // Its two subscriptions: one gets all, the other half of them.
    let routed = here(&net, 1);
    assert_eq!((routed.delivered, routed.received), (30, 0));
    assert_eq!((link(&net, 1, 2).delivered, link(&net, 1, 3).delivered), (20, 10));
    assert_eq!(link(&net, 2, 1).received, 20);
    assert_eq!((link(&net, 3, 1).received, link(&net, 3, 1).matched), (10, 10));
    assert_eq!(here(&net, 3).delivered, 10);
}

#[test]
fn what_a_link_counted_stays_in_the_totals_when_it_closes() {
    let mut net = Net::row(3);
    net.subscribe(2, "prices/*", None);
    net.run();
    for _ in 0..7 {
        net.publish(0, "prices/ACME", b"x");
    }
    net.run();
    let total = |net: &Net| {
        let mut sum = Load::default();
        net.hubs[1].load().into_iter().filter(|row| row.lane == LANE).for_each(|row| sum += row.load);
        sum
    };
    let before = total(&net);
    assert_eq!((before.received, before.delivered), (7, 7));
    net.part(1, 2);
    net.part(0, 1);
    let after = total(&net);
    assert_eq!((after.received, after.delivered, after.bytes_in), (7, 7, before.bytes_in));
    assert!(after.bytes_out >= before.bytes_out);
    assert_eq!(of(&net, 1, |place| *place == LoadPlace::Closed).received, 7);
}

#[test]
fn a_message_for_queues_of_its_own_process_is_delivered_once_for_each() {
    let net = Net::new(1, &[]);
    net.subscribe(0, "prices/*", None);
    net.subscribe(0, "prices/ACME", Some("region = 'EU'"));
    for region in ["EU", "US", "EU"] {
        net.offer(0, "prices/ACME", region, b"12345", None).unwrap();
    }
    let counted = here(&net, 0);
    assert_eq!((counted.received, counted.matched, counted.delivered), (3, 3, 5));
    assert_eq!(counted.evaluated, net.hubs[0].evaluations());
    assert_eq!(counted.bytes_out * 3, counted.bytes_in * 5, "all three are of the same length");
}
