//! Moving datagrams costs no allocation once the sockets are open.

use std::net::UdpSocket;
use std::time::Duration;

use shoal_io::interfaces::Interface;
use shoal_io::udp::{LinkAddress, ReceiveBuffers, SocketOptions, Sockets, Which};

fn exchange(
    sender: &Sockets,
    receiver: &Sockets,
    to: &LinkAddress,
    run: &[u8],
    buffers: &mut ReceiveBuffers,
) {
    let waker = receiver.waker();
    let mut expected = run.len();
    assert_eq!(sender.send_run(to.group, run, 1400).unwrap(), run.len());
    waker.wake();
    while expected > 0 {
        if receiver.wait(Some(Duration::from_secs(5)), true).unwrap().group {
            receiver.receive(Which::Group, buffers).unwrap();
            expected -= buffers.runs().flat_map(|run| run.datagrams()).map(<[u8]>::len).sum::<usize>();
        }
    }
}

#[test]
fn sending_waiting_waking_and_receiving_allocate_nothing() {
    let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let group = format!("239.192.74.213:{port}").parse().unwrap();
    let address = LinkAddress { group, interface: Interface::Name("lo".into()) };
    let run = vec![7; 46 * 1400];
    for offload in [true, false] {
        let options = SocketOptions { offload, ..SocketOptions::default() };
        let [sender, receiver] = [0, 1].map(|_| Sockets::open(&address, &options).unwrap());
        let mut buffers = ReceiveBuffers::new(8);
        let counted = allocation_counter::measure(|| {
            for _ in 0..100 {
                exchange(&sender, &receiver, &address, &run, &mut buffers);
            }
        });
        assert_eq!(counted.count_total, 0, "with offload {offload}");
    }
}
