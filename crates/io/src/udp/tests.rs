use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::*;
use crate::interfaces::Interface;

const PATIENCE: Duration = Duration::from_secs(5);
const GROUP_V4: &str = "239.192.74.210";
const GROUP_V6: &str = "ff11::74:210";

fn free_port() -> u16 {
    UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

fn on_loopback(ip: &str, port: u16) -> LinkAddress {
    LinkAddress { group: SocketAddr::new(ip.parse().unwrap(), port), interface: Interface::Name("lo".into()) }
}

fn open(address: &LinkAddress) -> Sockets {
    Sockets::open(address, &SocketOptions::default()).unwrap()
}

/// Waits for `count` datagrams, and returns them with their sender.
fn receive(sockets: &Sockets, which: Which, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut buffers = ReceiveBuffers::new(16);
    let mut found = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while found.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} datagrams came", found.len());
        match sockets.receive(which, &mut buffers) {
            Ok(_) => found.extend(buffers.runs().flat_map(|run| {
                run.datagrams().map(move |datagram| (run.from, datagram.to_vec())).collect::<Vec<_>>()
            })),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sockets.wait(Some(PATIENCE), false).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    found
}

fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|position| (position / 7 % 251) as u8).collect()
}

/// Sends a run with a short last datagram and expects every receiver to get the same datagrams.
fn run_arrives_as_segments(address: &LinkAddress, options: &SocketOptions) {
    let sender = Sockets::open(address, options).unwrap();
    let receivers = [open(address), Sockets::open(address, options).unwrap()];
    let run = numbered(40 * 1400 + 100);
    assert_eq!(sender.send_run(address.group, &run, 1400).unwrap(), run.len());
    let expected: Vec<_> = run.chunks(1400).map(<[u8]>::to_vec).collect();
    for receiver in &receivers {
        let found = receive(receiver, Which::Group, expected.len());
        assert!(found.iter().all(|(from, _)| *from == sender.local_addr().unwrap()));
        assert_eq!(found.into_iter().map(|(_, datagram)| datagram).collect::<Vec<_>>(), expected);
    }
}

/// What `sockets` sends is not in its own buffer when what `other` sent later is.
#[cfg(target_os = "linux")]
fn hears_others_but_not_itself(address: &LinkAddress, options: &SocketOptions) {
    let [sockets, other] = [0, 1].map(|_| Sockets::open(address, options).unwrap());
    sockets.send_run(address.group, &numbered(3600), 1200).unwrap();
    assert_eq!(receive(&other, Which::Group, 3).len(), 3);
    other.send_run(address.group, b"other", 1200).unwrap();
    assert_eq!(receive(&sockets, Which::Group, 1)[0].1, b"other");
}

#[test]
fn a_run_arrives_as_equal_datagrams_at_every_member_of_an_ipv4_group() {
    let address = on_loopback(GROUP_V4, free_port());
    run_arrives_as_segments(&address, &SocketOptions::default());
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_says_how_long_it_lay_unread() {
    let address = on_loopback(GROUP_V4, free_port());
    let [sender, receiver] = [0, 1].map(|_| open(&address));
    let began = Instant::now();
    sender.send_run(address.group, &numbered(3600), 1200).unwrap();
    assert!(receiver.wait(Some(PATIENCE), false).unwrap().group);
    let arrived = Instant::now();
    thread::sleep(Duration::from_millis(50));
    let mut buffers = ReceiveBuffers::new(4);
    let at_least = arrived.elapsed();
    receiver.receive(Which::Group, &mut buffers).unwrap();
    let waited = buffers.runs().next().unwrap().waited;
    // Two clocks that may run a little differently.
    let slack = Duration::from_millis(5);
    assert!(waited + slack >= at_least && waited <= began.elapsed() + slack, "{waited:?} of {at_least:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_link_does_not_hear_itself() {
    hears_others_but_not_itself(&on_loopback(GROUP_V4, free_port()), &SocketOptions::default());
}

#[test]
fn a_run_arrives_as_equal_datagrams_at_every_member_of_an_ipv6_group() {
    // Of interface-local scope, so that nothing leaves the machine whichever interface it is.
    let address = LinkAddress { interface: Interface::Auto, ..on_loopback(GROUP_V6, free_port()) };
    match Sockets::open(&address, &SocketOptions::default()) {
        Ok(_) => {
            run_arrives_as_segments(&address, &SocketOptions::default());
            #[cfg(target_os = "linux")]
            hears_others_but_not_itself(&address, &SocketOptions::default());
        }
        Err(error) => {
            println!("{error}");
            let no_network = [ErrorKind::NetworkUnreachable, ErrorKind::AddrNotAvailable];
            assert!(no_network.contains(&error.kind()), "{error}");
        }
    }
}

#[test]
fn without_offload_a_run_arrives_the_same() {
    let options = SocketOptions { offload: false, ..SocketOptions::default() };
    run_arrives_as_segments(&on_loopback(GROUP_V4, free_port()), &options);
}

#[test]
#[cfg(target_os = "linux")]
fn a_kernel_that_refuses_to_cut_runs_is_asked_once() {
    let address = on_loopback(GROUP_V4, free_port());
    let (sender, receiver) = (open(&address), open(&address));
    // Segmentation offload needs checksums, so a socket without them is refused it.
    crate::sys::linux::set_option(sender.sending(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    assert!(sender.cuts_runs_of(1400));
    assert_eq!(sender.send_run(address.group, &numbered(4200), 1400).unwrap(), 4200);
    assert_eq!(receive(&receiver, Which::Group, 3).len(), 3);
    assert!(!sender.cuts_runs_of(1400) && sender.cuts_runs_of(1000));
}

#[test]
fn an_empty_datagram_and_a_single_one_are_runs_too() {
    let address = on_loopback(GROUP_V4, free_port());
    let (sender, receiver) = (open(&address), open(&address));
    sender.send_run(address.group, b"", 1400).unwrap();
    sender.send_run(address.group, b"one", 1400).unwrap();
    let found: Vec<_> = receive(&receiver, Which::Group, 2).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(found, [b"".to_vec(), b"one".to_vec()]);
}

#[test]
fn another_group_on_the_same_port_is_not_heard() {
    let port = free_port();
    let (ours, theirs) = (on_loopback(GROUP_V4, port), on_loopback("239.192.74.211", port));
    let (receiver, neighbour) = (open(&ours), open(&theirs));
    let theirs_too = open(&theirs);
    neighbour.send_run(theirs.group, b"theirs", 1400).unwrap();
    assert_eq!(receive(&theirs_too, Which::Group, 1)[0].1, b"theirs");
    neighbour.send_run(ours.group, b"ours", 1400).unwrap();
    assert_eq!(receive(&receiver, Which::Group, 1)[0].1, b"ours");
}

#[test]
fn a_unicast_reply_reaches_the_sender_and_nobody_else() {
    let address = on_loopback(GROUP_V4, free_port());
    let (asker, answerer) = (open(&address), open(&address));
    asker.send_run(address.group, b"question", 1400).unwrap();
    let (from, _) = receive(&answerer, Which::Group, 1).remove(0);
    answerer.send_run(from, b"answer", 1400).unwrap();
    let (from, answer) = receive(&asker, Which::Own, 1).remove(0);
    assert_eq!((from, answer), (answerer.local_addr().unwrap(), b"answer".to_vec()));
    let nothing = answerer.receive(Which::Own, &mut ReceiveBuffers::new(1)).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_unicast_link_hears_its_port_and_says_when_it_is_taken() {
    let port = free_port();
    let here = "127.0.0.1".parse().unwrap();
    let link = LinkAddress {
        group: SocketAddr::new("127.0.0.2".parse().unwrap(), port),
        interface: Interface::Address(here),
    };
    let sockets = open(&link);
    let peer = UdpSocket::bind("127.0.0.2:0").unwrap();
    peer.send_to(b"hello", SocketAddr::new(here, port)).unwrap();
    assert_eq!(receive(&sockets, Which::Group, 1)[0].1, b"hello");
    let error = Sockets::open(&link, &SocketOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&format!("listening on 127.0.0.1:{port}")), "{error}");
}

#[test]
fn two_unicast_links_answer_each_other_from_the_ports_they_listen_on() {
    let (left_port, right_port) = (free_port(), free_port());
    let here = Interface::Address("127.0.0.1".parse().unwrap());
    let end = |listen_port, peer_port| {
        let address = LinkAddress { interface: here.clone(), ..on_loopback("127.0.0.1", peer_port) };
        let options = SocketOptions { listen_port: Some(listen_port), ..SocketOptions::default() };
        Sockets::open(&address, &options).unwrap()
    };
    let (left, right) = (end(left_port, right_port), end(right_port, left_port));
    left.send_run(left.destination(), b"question", 1400).unwrap();
    let (from, _) = receive(&right, Which::Group, 1).remove(0);
    assert_eq!((from, left.local_addr().unwrap()), (right.destination(), from));
    right.send_run(from, b"answer", 1400).unwrap();
    assert_eq!(receive(&left, Which::Group, 1)[0].1, b"answer");
    assert_eq!(left.wait(Some(PATIENCE), true).unwrap(), Ready { writable: true, ..Ready::default() });
}

#[test]
fn a_port_to_listen_on_is_refused_with_a_multicast_group() {
    let options = SocketOptions { listen_port: Some(7475), ..SocketOptions::default() };
    let error = Sockets::open(&on_loopback(GROUP_V4, free_port()), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("listen_port is 7475, but only a unicast link has one"), "{error}");
}

#[test]
fn a_unicast_link_that_cannot_work_says_why() {
    let port = free_port();
    let refused = |ip: &str, port, interface| {
        let address = LinkAddress { interface, ..on_loopback(ip, port) };
        Sockets::open(&address, &SocketOptions::default()).unwrap_err().to_string()
    };
    let v4 = || Interface::Address("127.0.0.1".parse().unwrap());
    for interface in [Interface::Auto, v4(), Interface::Name("lo".into())] {
        let error = refused("127.0.0.1", port, interface);
        assert!(error.contains("is where this link itself listens"), "{error}");
    }
    let error = refused("0.0.0.0", port, Interface::Auto);
    assert!(error.contains("is no peer"), "{error}");
    let error = refused("127.0.0.2", 0, Interface::Auto);
    assert!(error.contains("is no peer"), "{error}");
    let error = refused("::1", port, v4());
    assert!(error.contains("one is IPv4, the other IPv6"), "{error}");
    let error = refused("127.0.0.2", port, Interface::Address("203.0.113.7".parse().unwrap()));
    assert!(error.contains(&format!("listening on 203.0.113.7:{port} for 127.0.0.2:{port}")), "{error}");
    let error = refused("203.0.113.7", port, v4());
    assert!(error.contains("sending to 203.0.113.7") && error.contains("from 127.0.0.1"), "{error}");
}

#[test]
fn a_waker_ends_the_wait_from_another_thread() {
    let sockets = open(&on_loopback(GROUP_V4, free_port()));
    let waker = sockets.waker();
    let other = thread::spawn(move || (0..1000).for_each(|_| waker.wake()));
    let ready = sockets.wait(Some(PATIENCE), false).unwrap();
    assert_eq!(ready, Ready { woken: true, ..Ready::default() });
    other.join().unwrap();
}

#[test]
fn wake_ups_before_the_wait_are_one_and_later_ones_are_not_lost() {
    let sockets = open(&on_loopback(GROUP_V4, free_port()));
    for _ in 0..3 {
        sockets.waker().wake();
        sockets.waker().wake();
        assert!(sockets.wait(Some(PATIENCE), false).unwrap().woken);
        assert_eq!(sockets.wait(Some(Duration::ZERO), false).unwrap(), Ready::default());
    }
}

#[test]
fn waiting_ends_when_the_time_is_over_and_says_what_is_ready() {
    let address = on_loopback(GROUP_V4, free_port());
    let sockets = open(&address);
    let began = Instant::now();
    assert_eq!(sockets.wait(Some(Duration::from_micros(300)), false).unwrap(), Ready::default());
    assert!(began.elapsed() >= Duration::from_micros(300));
    assert!(sockets.wait(None, true).unwrap().writable);
    open(&address).send_run(address.group, b"x", 1400).unwrap();
    assert!(sockets.wait(Some(PATIENCE), false).unwrap().group);
}

#[test]
fn options_reach_the_sockets() {
    let options = SocketOptions { ttl: 3, receive_buffer_bytes: 300_000, ..SocketOptions::default() };
    let sockets = Sockets::open(&on_loopback(GROUP_V4, free_port()), &options).unwrap();
    let own = SockRef::from(sockets.sending());
    assert_eq!(own.multicast_ttl_v4().unwrap(), 3);
    assert!(sockets.receive_buffer_bytes(Which::Group).unwrap() >= 300_000);
    assert_eq!(sockets.interface().unwrap().name, "lo");
}

#[test]
#[cfg(target_os = "linux")]
fn each_lane_has_its_mark_and_what_is_of_none_has_the_first() {
    let marks = [(46, 6), (34, 4), (0, 0)].map(|(dscp, priority)| Mark { dscp, priority });
    let options = SocketOptions { marks: marks.into(), ..SocketOptions::default() };
    let sockets = Sockets::open(&on_loopback(GROUP_V4, free_port()), &options).unwrap();
    let own = SockRef::from(sockets.sending());
    for (lane, mark) in [(Some(1), 1), (Some(1), 1), (None, 0), (Some(2), 2), (Some(9), 0), (Some(0), 0)] {
        sockets.mark(lane).unwrap();
        let priority = crate::sys::linux::get_option(&*own, libc::SOL_SOCKET, libc::SO_PRIORITY).unwrap();
        assert_eq!(own.tos_v4().unwrap(), u32::from(marks[mark].dscp) << 2, "of {lane:?}");
        assert_eq!(priority, i32::from(marks[mark].priority), "of {lane:?}");
    }
}

#[test]
fn errors_say_what_was_asked_and_what_would_do() {
    let said = |result: io::Result<Sockets>| result.unwrap_err().to_string();
    let options = SocketOptions::default();
    let nowhere = LinkAddress { interface: Interface::Name("nowhere0".into()), ..on_loopback(GROUP_V4, 1) };
    let error = said(Sockets::open(&nowhere, &options));
    assert!(error.contains("no interface \"nowhere0\"") && error.contains("lo (127.0.0.1"), "{error}");
    let address = on_loopback(GROUP_V4, free_port());
    let marks = vec![Mark { dscp: 64, priority: 0 }];
    let error = said(Sockets::open(&address, &SocketOptions { marks, ..options }));
    assert!(error.contains("DSCP 64 and priority 0, and they must be 0 to 63 and 0 to 6"), "{error}");
    let sockets = open(&address);
    let error = sockets.send_run(address.group, &numbered(65 * 100), 100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("6500 bytes in segments of 100: at most 64 segments"), "{error}");
    assert_eq!(sockets.send_run(address.group, b"x", 0).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn the_plain_fallbacks_receive() {
    let sockets = open(&on_loopback(GROUP_V4, free_port()));
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(b"one", sockets.local_addr().unwrap()).unwrap();
    other.send_to(b"two", sockets.local_addr().unwrap()).unwrap();
    let mut buffers = ReceiveBuffers::new(4);
    let own = sockets.sending();
    buffers.filled = plain::receive_batch(own, &mut buffers.storage, &mut buffers.entries).unwrap();
    assert_eq!(buffers.runs().map(|run| run.bytes).collect::<Vec<_>>(), [b"one", b"two"]);
    let refused = plain::send_segmented(own, &other.local_addr().unwrap(), b"xx", 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(plain::refuses_to_cut(&refused));
}
