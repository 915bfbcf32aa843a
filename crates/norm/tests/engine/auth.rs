//! EXT_AUTH in every message, made and checked by an authenticator.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Loss, START, drain_events, from, session, step};
use shoal_norm::{
    AuthLabel, Authenticator, Config, Event, FecId, Reject, Session, StreamOptions, SyncPolicy,
};

const CONTENT_BYTES: usize = 10;

/// A keyed checksum of the whole message: enough to see that every byte counts, and no more.
#[derive(Debug)]
struct Checksum(u64);

impl Checksum {
    fn of(&self, message: &[u8], content: &Range<usize>) -> [u8; CONTENT_BYTES] {
        let mut sum = self.0;
        for (at, &byte) in message.iter().enumerate() {
            let byte = if content.contains(&at) { 0 } else { byte };
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut bytes = [0xa0; CONTENT_BYTES];
        bytes[2..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

impl Authenticator for Checksum {
    fn content_bytes(&self) -> usize {
        CONTENT_BYTES
    }

    fn seal(&self, message: &mut [u8], content: Range<usize>) {
        assert!(message[content.clone()].iter().all(|byte| *byte == 0), "what was there before is gone");
        let sum = self.of(message, &content);
        message[content].copy_from_slice(&sum);
    }

    fn accepts(&self, message: &[u8], content: Option<Range<usize>>) -> bool {
        content.is_some_and(|content| message[content.clone()] == self.of(message, &content))
    }
}

fn checksum(key: u64) -> Option<Arc<dyn Authenticator>> {
    Some(Arc::new(Checksum(key)))
}

fn adjust(config: &mut Config, auth: Option<Arc<dyn Authenticator>>) {
    config.auth = auth;
    config.sync = SyncPolicy::Start;
    config.segment_bytes = 100;
    config.block_symbols = 8;
    (config.parity_symbols, config.auto_parity) = (4, 1);
    config.grtt_min = Duration::from_millis(2);
    config.rate_bytes_per_s = Some(1e6);
}

/// A stream, an object and a watermark over a lossy wire. Returns what arrived, and every datagram.
struct Outcome {
    bytes: usize,
    objects: usize,
    acknowledged: bool,
    datagrams: Vec<Vec<u8>>,
}

fn exchange(sender: &mut Session, receiver: &mut Session, share: f64) -> Outcome {
    let options = StreamOptions { info: b"info".to_vec(), ..StreamOptions::default() };
    let stream = sender.open_stream(&options).unwrap();
    sender.set_ackers(&[receiver.node()]);
    let mut outcome = Outcome { bytes: 0, objects: 0, acknowledged: false, datagrams: Vec::new() };
    let (mut loss, mut now) = (Loss::new(7, share), START);
    for round in 0..2_000 {
        match round {
            0 => assert_eq!(sender.write(now, stream, &[7; 9_000], true), Ok(9_000)),
            1 => drop(sender.flush(now, stream)),
            2 => drop(sender.send_data(now, &[9; 3_000], b"object")),
            3 => drop(sender.request_watermark(now, stream)),
            1_990 => sender.leave(now),
            _ => {}
        }
        for at in 0..2 {
            let (speaker, other) =
                if at == 0 { (&mut *sender, &mut *receiver) } else { (&mut *receiver, &mut *sender) };
            let source = from(speaker.node());
            while let Some(transmit) = speaker.poll_transmit(now) {
                for datagram in transmit.datagrams() {
                    outcome.datagrams.push(datagram.to_vec());
                    if !loss.strikes() {
                        other.handle_datagram(now, source, datagram);
                    }
                }
            }
        }
        drain_events(sender, |event| {
            outcome.acknowledged |= matches!(event, Event::WatermarkDone(mark) if !mark.acked.is_empty());
        });
        let mut readable = Vec::new();
        drain_events(receiver, |event| match event {
            Event::Readable { stream } => readable.push(stream),
            Event::DataReceived { content, .. } => {
                assert_eq!(content, [9; 3_000]);
                outcome.objects += 1;
            }
            _ => {}
        });
        for stream in readable {
            while let Some(chunk) = receiver.read(stream) {
                let length = chunk.bytes.len();
                outcome.bytes += length;
                receiver.consume(now, stream, length);
            }
        }
        now = step(now, 500);
    }
    outcome
}

#[test]
fn every_message_of_sender_and_receiver_carries_what_the_authenticator_made() {
    for fec_id in [FecId::ReedSolomon8, FecId::SmallBlock, FecId::NoCode] {
        let scheme = |config: &mut Config| {
            adjust(config, checksum(1));
            config.fec_id = fec_id;
            if fec_id == FecId::NoCode {
                (config.parity_symbols, config.auto_parity) = (0, 0);
            }
        };
        let (mut sender, mut receiver) = (session(1, scheme), session(2, scheme));
        let outcome = exchange(&mut sender, &mut receiver, 0.1);
        assert_eq!((outcome.bytes, outcome.objects, outcome.acknowledged), (9_000, 1, true), "{fec_id:?}");
        for datagram in &outcome.datagrams {
            let end = usize::from(datagram[1]) * 4;
            let content = end - CONTENT_BYTES..end;
            assert_eq!(datagram[content.start - 2..content.start], [1, 3], "type and words");
            assert!(Checksum(1).accepts(datagram, Some(content)), "{datagram:?}");
        }
        let kinds: std::collections::BTreeSet<_> =
            outcome.datagrams.iter().map(|datagram| crate::support::corpus::kind(datagram)).collect();
        for kind in [(1, 0), (2, 0), (3, 1), (3, 2), (3, 4), (4, 0), (5, 1), (5, 2)] {
            assert!(kinds.contains(&kind), "{kind:?} is missing in {fec_id:?}");
        }
        assert_eq!(receiver.stats().count(Reject::Authentication), 0);
        assert_eq!(sender.stats().count(Reject::Authentication), 0);
    }
}

#[test]
fn a_message_changed_anywhere_is_refused_and_has_no_effect() {
    let (mut sender, mut receiver) =
        (session(1, |config| adjust(config, checksum(1))), session(2, |config| adjust(config, checksum(1))));
    let outcome = exchange(&mut sender, &mut receiver, 0.05);
    let mut random = fastrand::Rng::with_seed(3);
    let mut victim = session(1, |config| adjust(config, checksum(1)));
    let mut bystander = session(9, |config| adjust(config, checksum(1)));
    for original in &outcome.datagrams {
        let mut changed = original.clone();
        let at = random.usize(0..changed.len());
        changed[at] ^= 1 << random.u8(0..8);
        victim.handle_datagram(START, from(2), &changed);
        bystander.handle_datagram(START, from(1), &changed);
    }
    let refused: u64 = bystander.stats().rejected.iter().sum();
    assert_eq!(refused, outcome.datagrams.len() as u64);
    assert!(bystander.stats().count(Reject::Authentication) > refused * 9 / 10);
    assert_eq!((bystander.senders().count(), bystander.receive_bytes()), (0, 0));
    assert_eq!((victim.stats().nacks_received, victim.stats().acks_received), (0, 0));
}

#[test]
fn with_another_key_or_with_none_nothing_is_believed() {
    for auth in [checksum(2), None] {
        let mut sender = session(1, |config| adjust(config, auth));
        let mut receiver = session(2, |config| adjust(config, checksum(1)));
        let outcome = exchange(&mut sender, &mut receiver, 0.0);
        assert_eq!((outcome.bytes, outcome.objects, outcome.acknowledged), (0, 0, false));
        assert_eq!(receiver.stats().count(Reject::Authentication), receiver.stats().datagrams_received);
    }
}

#[test]
fn whoever_has_no_authenticator_passes_over_the_extension() {
    let mut sender = session(1, |config| adjust(config, Some(Arc::new(AuthLabel::new(b"desk", false)))));
    let mut receiver = session(2, |config| adjust(config, None));
    let outcome = exchange(&mut sender, &mut receiver, 0.1);
    assert_eq!((outcome.bytes, outcome.objects, outcome.acknowledged), (9_000, 1, true));
}

#[test]
fn a_label_refuses_other_labels_and_if_required_messages_without_one() {
    let (desk, floor) = (AuthLabel::new(b"desk", false), AuthLabel::new(b"floor", true));
    let mut message = vec![0; 20];
    desk.seal(&mut message, 4..4 + desk.content_bytes());
    assert!(desk.accepts(&message, Some(4..4 + desk.content_bytes())));
    assert!(!floor.accepts(&message, Some(4..4 + floor.content_bytes())));
    assert!(desk.accepts(&message, None) && !floor.accepts(&message, None));
    assert_eq!((desk.content_bytes(), floor.content_bytes()), (6, 6));
}

#[test]
fn an_authenticator_of_an_impossible_length_is_refused() {
    #[derive(Debug)]
    struct Odd(usize);
    impl Authenticator for Odd {
        fn content_bytes(&self) -> usize {
            self.0
        }
        fn seal(&self, _: &mut [u8], _: Range<usize>) {}
        fn accepts(&self, _: &[u8], _: Option<Range<usize>>) -> bool {
            true
        }
    }
    for (bytes, works) in [(0, false), (2, true), (4, false), (510, true), (514, false)] {
        let mut config = Config::new(1, 1, 1);
        config.auth = Some(Arc::new(Odd(bytes)));
        assert_eq!(Session::new(config).is_ok(), works, "{bytes}");
    }
}
