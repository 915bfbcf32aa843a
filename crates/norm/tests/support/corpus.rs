//! Valid datagrams of every kind, captured from sessions that talk to each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use shoal_norm::{
    AuthLabel, Config, CongestionControl, Destination, FecId, FeedbackMode, RepairPolicy, Session,
    StreamOptions, SyncPolicy,
};

use super::{Loss, START, address, from, session, step};

/// The node that sends in the corpus, and its instance.
pub const SENDER: u32 = 1;
const RECEIVERS: [u32; 2] = [2, 3];

/// Type and, for commands and acknowledgements, flavor.
pub fn kind(datagram: &[u8]) -> (u8, u8) {
    let kind = datagram[0] & 0xf;
    match kind {
        3 => (kind, datagram[12]),
        5 => (kind, datagram[14]),
        _ => (kind, 0),
    }
}

/// Datagrams of a lossy transfer in every FEC scheme.
pub fn capture() -> Vec<Vec<u8>> {
    let mut corpus = Vec::new();
    for (seed, fec_id) in [FecId::NoCode, FecId::ReedSolomon8, FecId::SmallBlock].into_iter().enumerate() {
        for feedback in [FeedbackMode::Multicast, FeedbackMode::Unicast] {
            capture_transfer(seed as u64, fec_id, feedback, &mut corpus);
        }
    }
    let kinds: BTreeSet<(u8, u8)> = corpus.iter().map(|datagram| kind(datagram)).collect();
    // INFO, DATA, FLUSH, EOT, SQUELCH, CC, REPAIR_ADV, ACK_REQ, APPLICATION, NACK, ACK(CC), ACK(FLUSH), an
    // application's ACK
    let commands = [(3, 1), (3, 2), (3, 3), (3, 4), (3, 5), (3, 6), (3, 7)];
    let all = [(1, 0), (2, 0), (4, 0), (5, 1), (5, 2), (5, 16)];
    let all: BTreeSet<(u8, u8)> = all.into_iter().chain(commands).collect();
    assert_eq!(kinds, all, "the corpus lacks a kind of message");
    corpus
}

fn capture_transfer(seed: u64, fec_id: FecId, feedback: FeedbackMode, corpus: &mut Vec<Vec<u8>>) {
    let adjust = |config: &mut Config| {
        config.fec_id = fec_id;
        config.feedback = feedback;
        config.repair = RepairPolicy::Aggregated;
        config.sync = SyncPolicy::Start;
        config.segment_bytes = 100;
        config.block_symbols = 8;
        if fec_id != FecId::NoCode {
            (config.parity_symbols, config.auto_parity) = (4, 1);
        }
        config.congestion = CongestionControl::NormCc;
        config.rate_bytes_per_s = Some(2e5);
        config.robust_factor = 3;
        if fec_id == FecId::SmallBlock {
            config.auth = Some(Arc::new(AuthLabel::new(b"corpus", false)));
        }
        // The wire takes no time; without a floor most of the corpus would be NACKs.
        config.grtt_min = Duration::from_millis(10);
    };
    let mut sender = session(SENDER, adjust);
    let mut receivers = RECEIVERS.map(|node| session(node, adjust));
    let options =
        StreamOptions { cache_bytes: 64 * 150, info: b"text/plain".to_vec(), ..StreamOptions::default() };
    let object = sender.open_stream(&options).expect("the first stream");
    sender.set_ackers(&RECEIVERS);
    let mut loss = Loss::new(seed, 0.3);
    let mut now = START;
    for round in 0..4_000 {
        match round {
            0..1_000 => drop(sender.write(now, object, &[round as u8; 70], true)),
            1_000 => drop(sender.request_watermark(now, object)),
            1_010 | 1_030 | 1_050 => drop(sender.send_data(now, &[round as u8; 3_000], b"info")),
            1_060 => drop(sender.send_file(now, 5_000, b"file")),
            1_070 => drop(sender.send_command(now, b"command", 2)),
            1_080 => drop(sender.request_acks(now, 16, 1, &RECEIVERS)),
            3_000 => drop(sender.close_stream(now, object)),
            3_900 => sender.leave(now),
            _ => {}
        }
        // Out of reach for a while, so that it asks for what is no longer there.
        let reachable = !(200..600).contains(&round);
        exchange(&mut sender, &mut receivers, &mut loss, reachable, now, corpus);
        now = step(now, 500);
    }
}

fn exchange(
    sender: &mut Session,
    receivers: &mut [Session; 2],
    loss: &mut Loss,
    reachable: bool,
    now: shoal_norm::Time,
    corpus: &mut Vec<Vec<u8>>,
) {
    while let Some(read) = sender.poll_read() {
        sender.supply_file(read.object, read.offset, &vec![7; read.bytes]);
    }
    while let Some(transmit) = sender.poll_transmit(now) {
        for datagram in transmit.datagrams() {
            corpus.push(datagram.to_vec());
            for (at, receiver) in receivers.iter_mut().enumerate() {
                if !loss.strikes() && (reachable || at > 0) {
                    receiver.handle_datagram(now, from(SENDER), datagram);
                }
            }
        }
    }
    while sender.poll_event().is_some() {}
    for at in 0..receivers.len() {
        let [first, second] = receivers;
        let (speaker, other) = if at == 0 { (first, second) } else { (second, first) };
        while let Some(event) = speaker.poll_event() {
            if let shoal_norm::Event::Readable { stream } = event {
                while let Some(chunk) = speaker.read(stream) {
                    let length = chunk.bytes.len();
                    speaker.consume(now, stream, length);
                }
            }
        }
        let source = from(speaker.node());
        while let Some(transmit) = speaker.poll_transmit(now) {
            for datagram in transmit.datagrams() {
                corpus.push(datagram.to_vec());
                let unicast = transmit.to == Destination::Node(address(SENDER));
                sender.handle_datagram(now, shoal_norm::Source { unicast, ..source }, datagram);
                if !unicast {
                    other.handle_datagram(now, source, datagram);
                }
            }
        }
    }
}
