//! How fast this kernel moves runs of datagrams with no protocol at all: the bound a protocol is measured against.
//!
//! One process sends for a while, another counts. Nothing holds the sender back, so what the receiver's buffer cannot
//! take is lost; what counts is what arrived.

use std::io;
use std::time::{Duration, Instant};

use shoal_io::udp::{
    LinkAddress, RUN_BYTES_MAX, RUN_DATAGRAMS_MAX, ReceiveBuffers, SocketOptions, Sockets, Which,
};

/// Shorter than any segment of a measurement: says that the sender has finished.
const END: &[u8] = b"end";

/// What one side of a measurement saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RawRate {
    /// Payload bytes sent or received.
    pub bytes: u64,
    /// Datagrams sent or received.
    pub datagrams: u64,
    /// From the first to the last of them.
    pub seconds: f64,
}

impl RawRate {
    /// Payload in Gbit/s; 0 when nothing was moved.
    pub fn gbit_s(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8e-9 / self.seconds } else { 0.0 }
    }
}

/// Sends runs of datagrams of `segment_bytes` to the group for `duration`, as fast as the kernel takes them.
pub fn send_for(address: &LinkAddress, segment_bytes: usize, duration: Duration) -> io::Result<RawRate> {
    if segment_bytes <= END.len() || segment_bytes > RUN_BYTES_MAX {
        let problem =
            format!("segment_bytes is {segment_bytes}, and must be {} to {RUN_BYTES_MAX}", END.len() + 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let sockets = Sockets::open(address, &SocketOptions::default())?;
    let run = vec![0x5a; segment_bytes * (RUN_BYTES_MAX / segment_bytes).min(RUN_DATAGRAMS_MAX)];
    let mut rate = RawRate::default();
    let began = Instant::now();
    while began.elapsed() < duration {
        let sent = send_waiting(&sockets, address, &run, segment_bytes)? as u64;
        rate.bytes += sent;
        rate.datagrams += sent / segment_bytes as u64;
    }
    rate.seconds = began.elapsed().as_secs_f64();
    // The receiver's buffer may be full at first: the end is said until there must be room for it.
    for _ in 0..20 {
        send_waiting(&sockets, address, END, segment_bytes)?;
        sockets.wait(Some(Duration::from_millis(5)), false)?;
    }
    Ok(rate)
}

/// Counts what arrives until the sender says that it has finished, or nothing comes for `patience`.
pub fn receive_until_end(address: &LinkAddress, patience: Duration) -> io::Result<RawRate> {
    let sockets = Sockets::open(address, &SocketOptions::default())?;
    let mut buffers = ReceiveBuffers::new(16);
    let mut rate = RawRate::default();
    let mut first = None;
    loop {
        match sockets.receive(Which::Group, &mut buffers) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !sockets.wait(Some(patience), false)?.group {
                    return Ok(rate);
                }
                continue;
            }
            Err(error) => return Err(error),
        }
        let began = *first.get_or_insert_with(Instant::now);
        for run in buffers.runs() {
            if run.bytes == END {
                return Ok(rate);
            }
            rate.bytes += run.bytes.len() as u64;
            rate.datagrams += run.datagrams().count() as u64;
        }
        rate.seconds = began.elapsed().as_secs_f64();
    }
}

fn send_waiting(
    sockets: &Sockets,
    address: &LinkAddress,
    run: &[u8],
    segment_bytes: usize,
) -> io::Result<usize> {
    loop {
        match sockets.send_run(address.group, run, segment_bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sockets.wait(None, true)?,
            result => return result,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread;

    use shoal_io::interfaces::Interface;

    use super::*;

    fn address() -> LinkAddress {
        let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        LinkAddress {
            group: format!("239.192.74.212:{port}").parse().unwrap(),
            interface: Interface::Name("lo".into()),
        }
    }

    #[test]
    fn the_receiver_counts_whole_datagrams_and_stops_when_the_sender_does() {
        let address = address();
        let receiver = thread::spawn({
            let address = address.clone();
            move || receive_until_end(&address, Duration::from_secs(5)).unwrap()
        });
        // Sent until the receiver has heard it, because the two start in no order.
        let mut sent = RawRate::default();
        while !receiver.is_finished() {
            sent = send_for(&address, 1400, Duration::from_millis(50)).unwrap();
        }
        let received = receiver.join().unwrap();
        assert!(sent.datagrams > 0);
        assert_eq!(sent.bytes, sent.datagrams * 1400);
        assert_eq!(received.bytes, received.datagrams * 1400);
    }

    #[test]
    fn a_receiver_that_hears_nothing_gives_up() {
        let rate = receive_until_end(&address(), Duration::from_millis(20)).unwrap();
        assert_eq!(rate, RawRate::default());
        assert_eq!(rate.gbit_s(), 0.0);
    }

    #[test]
    fn a_segment_that_cannot_be_sent_is_refused() {
        let error = send_for(&address(), 70_000, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("segment_bytes is 70000"), "{error}");
    }
}
