//! Messages over real sockets and pipes: what the system tells about them is enough to move everything, and to wait for the rest.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use shoal_io::Pipe;
use shoal_io::bus::{Bus, Reader, TcpOptions};
use shoal_io::tcp::{Door, Place, TcpNet};
use shoal_node::hub::{Attempt, Overflow, Patience, Publication, WhenFull};
use shoal_node::tcp::{TcpConfig, TcpNews};
use shoal_node::{Interest, Moment};
use shoal_wire::{BodyKind, Destination, Outgoing, Topic, TopicPattern};

/// Nothing here takes as long, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(60);
const TOPIC: &str = "numbers";
const LANE: usize = 2;
const DOOR: Door = Door { connections_max: 100, asks: false };

fn bus(number: u64) -> Bus {
    let links = TcpConfig {
        domain: "desk".to_owned(),
        domain_number: 7,
        software: "shoal".to_owned(),
        heartbeat: Duration::from_secs(1),
        missed_heartbeats_max: 60,
        resume: PATIENCE,
        patience: PATIENCE,
        window_bytes: 1 << 20,
        peers_max: 100,
    };
    let options = TcpOptions {
        node: number as u32,
        publisher: number,
        message_bytes_max: 1 << 20,
        assembly_bytes_max: 64 << 20,
        seed: 1,
        links,
        router: false,
    };
    Bus::open_tcp(options).unwrap()
}

fn subscribe(bus: &Bus) -> Reader {
    bus.subscribe(Interest::topics(TopicPattern::new(TOPIC).unwrap()), 4 << 20, Overflow::Wait, true).unwrap()
}

/// Waits until something holds, and fails if it does not in time.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn wait_for_link(bus: &Bus, links: usize) {
    let tcp = bus.tcp().unwrap();
    until("a link", || tcp.states().iter().filter(|(state, _)| state.connection.is_some()).count() == links);
}

/// Publishes one message; waits while there is no room.
fn publish(bus: &Bus, body: &[u8]) -> u64 {
    let mut head = Vec::new();
    let to = Destination::topic(Topic::new(TOPIC).unwrap());
    Outgoing::new(to, BodyKind::Bytes, &[]).encode_head_into(&mut head).unwrap();
    let mut number = None;
    until("room for a message", || {
        let patience = Patience { when_full: WhenFull::Error, patience: PATIENCE, deadline: None };
        let mut publication = Publication {
            lane: LANE,
            parts: [&head, body],
            expires: false,
            patience,
            caller: None,
            began: None,
            without: Vec::new(),
        };
        let moment = Moment { now: bus.clock().now(), wall_us: 1_700_000_000_000_000 };
        let hub = bus.hub();
        if let Attempt::Done(given) = hub.publish(&moment, &hub.plan(TOPIC.as_bytes()), &mut publication) {
            number = Some(given);
        }
        number.is_some()
    });
    number.unwrap()
}

/// Reads so many messages: their numbers.
fn read(reader: &Reader, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    until("messages", || {
        reader.wait_for_items(Duration::from_millis(100));
        for batch in reader.take().unwrap().batches {
            numbers.extend(batch.entries.iter().map(|entry| batch.origin(entry).number));
        }
        numbers.len() >= count
    });
    numbers
}

/// Has both publish at once, more than fits into any buffer between them, and then one message after a silence.
fn exchange(near: &Bus, far: &Bus) {
    const COUNT: usize = 2000;
    let body = vec![7; 10_000];
    let readers = [subscribe(near), subscribe(far)];
    until("the other's interest", || {
        let knows =
            |one: &Bus, other: &Bus| one.hub().interested(TOPIC.as_bytes()).contains(&other.hub().node());
        knows(near, far) && knows(far, near)
    });
    thread::scope(|scope| {
        for bus in [near, far] {
            scope.spawn(|| (0..COUNT).map(|_| publish(bus, &body)).last());
        }
        for reader in &readers {
            scope.spawn(|| assert_eq!(read(reader, COUNT), (1..=COUNT as u64).collect::<Vec<_>>()));
        }
    });
    for (bus, reader) in [(near, &readers[1]), (far, &readers[0])] {
        assert_eq!(read_after(bus, reader), [COUNT as u64 + 1]);
    }
}

fn read_after(bus: &Bus, reader: &Reader) -> Vec<u64> {
    publish(bus, b"one more");
    read(reader, 1)
}

#[test]
fn what_both_ends_of_a_socket_publish_at_once_arrives() {
    let (near, far) = (bus(1), bus(2));
    let (_, address) = far.tcp().unwrap().listen("127.0.0.1:0".parse().unwrap(), DOOR, None).unwrap();
    near.tcp().unwrap().dial(address, None, PATIENCE, None).unwrap();
    wait_for_link(&near, 1);
    exchange(&near, &far);
    near.tcp().unwrap().close(PATIENCE);
    until("the goodbye", || far.tcp().unwrap().states().is_empty());
}

#[test]
fn what_two_nodes_of_a_process_publish_at_once_arrives() {
    let (near, far) = (bus(1), bus(2));
    near.tcp().unwrap().join(&far.tcp().unwrap(), None).unwrap();
    wait_for_link(&near, 1);
    exchange(&near, &far);
}

/// Moves bytes one way, as a transport does that is not ours.
fn pump(mut from: Pipe, mut to: Pipe) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn adopt(tcp: &TcpNet, listener: Option<u64>) -> Pipe {
    let place = Place { address: "elsewhere".to_owned(), listener, ..Place::default() };
    tcp.adopt(place, None).unwrap().unwrap().1
}

#[test]
fn what_a_transport_of_somebody_else_carries_arrives() {
    let (near, far) = (bus(1), bus(2));
    let listener = far.tcp().unwrap().add_listener(DOOR);
    let (one, other) = (adopt(&near.tcp().unwrap(), None), adopt(&far.tcp().unwrap(), Some(listener)));
    let back = (other.try_clone().unwrap(), one.try_clone().unwrap());
    let pumps = [thread::spawn(|| pump(one, other)), thread::spawn(|| pump(back.0, back.1))];
    wait_for_link(&near, 1);
    exchange(&near, &far);
    near.tcp().unwrap().close(PATIENCE);
    drop((near, far));
    pumps.into_iter().for_each(|pump| pump.join().unwrap());
}

#[test]
fn many_clients_of_a_listener_hear_what_it_publishes() {
    const CLIENTS: usize = 40;
    let listener = bus(1);
    let (_, address) = listener.tcp().unwrap().listen("127.0.0.1:0".parse().unwrap(), DOOR, None).unwrap();
    let clients: Vec<Bus> = (0..CLIENTS as u64).map(|number| bus(100 + number)).collect();
    let readers: Vec<Reader> = clients.iter().map(subscribe).collect();
    for client in &clients {
        client.tcp().unwrap().dial(address, None, PATIENCE, None).unwrap();
    }
    wait_for_link(&listener, CLIENTS);
    until("all interest", || {
        publish(&listener, b"is anybody there");
        readers.iter().all(|reader| !reader.consumer().is_idle())
    });
    let last = publish(&listener, b"last");
    for reader in &readers {
        until("the last message", || {
            let batches = reader.take().unwrap().batches;
            batches.iter().any(|batch| batch.entries.iter().any(|entry| batch.origin(entry).number == last))
        });
    }
}

#[test]
fn a_port_where_no_program_listens_is_told() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bus = bus(1);
    let tcp = bus.tcp().unwrap();
    // Some systems say so at once.
    let Ok(connection) = tcp.dial(free, None, PATIENCE, None) else { return };
    let mut news = Vec::new();
    until("news", || {
        news.extend(tcp.take_news().into_iter().map(|(news, _)| news));
        !news.is_empty()
    });
    assert!(matches!(&news[..], [TcpNews::Over { connection: told, .. }] if *told == connection), "{news:?}");
}
