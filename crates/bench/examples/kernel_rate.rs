//! The kernel's own rate over loopback multicast: `kernel_rate receive` in one terminal, `kernel_rate send` in another.

use std::io;
use std::time::Duration;

use shoal_bench::raw;
use shoal_io::interfaces::Interface;
use shoal_io::udp::LinkAddress;

fn main() -> io::Result<()> {
    let group = "239.192.74.212:47412".parse().expect("a group and a port");
    let address = LinkAddress { group, interface: Interface::Name("lo".into()) };
    let side = std::env::args().nth(1).unwrap_or_default();
    let rate = match side.as_str() {
        "send" => raw::send_for(&address, 1400, Duration::from_secs(2))?,
        "receive" => raw::receive_until_end(&address, Duration::from_secs(10))?,
        _ => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "say send or receive"));
        }
    };
    println!("{side}: {:.1} Gbit/s, {} datagrams in {:.2} s", rate.gbit_s(), rate.datagrams, rate.seconds);
    Ok(())
}
