//! One side of a long transfer, for profiling:
//! `bulk send|receive LOSS_PERCENT GIGABYTES [WINDOW_MB] [BACKOFF] [PARITY] [AUTO_PARITY] [INTERLEAVE]`.

use std::time::Duration;

use shoal_bench::{receive_bulk, send_bulk};
use shoal_io::interfaces::Interface;
use shoal_io::norm::LinkOptions;
use shoal_io::udp::LinkAddress;
use shoal_norm::{Config, SyncPolicy};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number =
        |at: usize, default: f64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let receives = arguments.get(1).is_some_and(|side| side == "receive");
    let group = "239.192.74.9:7474".parse().unwrap();
    let address = LinkAddress { group, interface: Interface::Name("lo".into()) };
    let mut norm = Config::new(if receives { 2 } else { 1 }, 1, 7);
    norm.sync = SyncPolicy::Start;
    norm.backoff_factor = number(5, 0.0) as u8;
    norm.parity_symbols = number(6, 0.0) as u16;
    norm.auto_parity = number(7, 0.0) as u16;
    norm.interleave_blocks = number(8, 1.0) as u16;
    let mut options = LinkOptions::new(address, norm);
    options.drop_received = if receives { number(2, 0.0) / 100.0 } else { 0.0 };
    options.sockets.receive_buffer_bytes = 32 << 20;
    let window = (number(4, 8.0) * 1e6) as usize;
    options.lanes[0].window_bytes = Some(window);
    options.lanes[0].cache_bytes = 2 * window;
    let bytes = (number(3, 2.0) * 1e9) as u64;
    let report = if receives {
        receive_bulk(options, 65_536, Duration::from_secs(3), |_| ())
    } else {
        options.ackers = vec![2];
        send_bulk(options, bytes, 65_536, Duration::from_secs(5), |_| ())
    }
    .unwrap();
    println!(
        "{}: {:.2} Gbit/s, fault {:?}, {:?}",
        arguments[1],
        report.bytes as f64 * 8e-9 / report.seconds,
        report.fault,
        report.stats
    );
}
