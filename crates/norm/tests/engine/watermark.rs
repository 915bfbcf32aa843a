//! Watermarks and the receiver window together.

use std::net::SocketAddr;
use std::time::Duration;

use shoal_norm::wire::Message;
use shoal_norm::{Config, Event, Session, Source, StreamOptions, SyncPolicy, Time};

fn deliver(now: Time, from: &mut Session, to: &mut Session, address: SocketAddr) {
    deliver_if(now, from, to, address, |_| true);
}

fn deliver_if(
    now: Time,
    from: &mut Session,
    to: &mut Session,
    address: SocketAddr,
    arrives: impl Fn(&[u8]) -> bool,
) {
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    while let Some(out) = from.poll_transmit(now) {
        datagrams.extend(out.datagrams().map(<[u8]>::to_vec));
    }
    for datagram in datagrams.into_iter().filter(|datagram| arrives(datagram)) {
        to.handle_datagram(now, Source { address, unicast: false, waited: Duration::ZERO }, &datagram);
    }
}

#[test]
fn a_watermark_asked_for_while_the_window_is_full_does_not_stop_the_window() {
    let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let mut sender = Session::new(Config::new(1, 1, 1)).unwrap();
    let mut receiver = Session::new(Config { sync: SyncPolicy::Start, ..Config::new(2, 1, 2) }).unwrap();
    sender.set_ackers(&[2]);
    let options = StreamOptions { window_bytes: Some(100_000), cache_bytes: 4 << 20, ..Default::default() };
    let object = sender.open_stream(&options).unwrap();
    let mut now = Time::from_nanos(1_000_000_000);
    assert_eq!(sender.write(now, object, &[7; 2_000_000], true), Ok(2_000_000));
    sender.request_watermark(now, object).unwrap();
    let mut settled = None;
    let mut read = 0;
    while settled.is_none() && now < Time::from_nanos(11_000_000_000) {
        now += Duration::from_millis(1);
        deliver(now, &mut sender, &mut receiver, address);
        while let Some(event) = receiver.poll_event() {
            if let Event::Readable { stream } = event {
                while let Some(bytes) = receiver.read(stream).map(|chunk| chunk.bytes.len()) {
                    receiver.consume(now, stream, bytes);
                    read += bytes;
                }
            }
        }
        deliver(now, &mut receiver, &mut sender, address);
        while let Some(event) = sender.poll_event() {
            if let Event::WatermarkDone(watermark) = event {
                settled = Some(watermark);
            }
        }
    }
    assert_eq!(read, 2_000_000);
    assert_eq!(settled.expect("the watermark is settled").acked, [2]);
    assert_eq!(receiver.stats().nacks_sent, 0, "nothing was lost, so nothing may be asked for");
}

#[test]
fn a_stream_that_was_announced_often_enough_is_not_quiet_before_its_acker_says_so() {
    let mut config = Config::new(1, 1, 1);
    (config.robust_factor, config.acker_patience) = (3, Duration::from_secs(1));
    let mut sender = Session::new(config).unwrap();
    sender.set_ackers(&[2]);
    let object = sender.open_stream(&StreamOptions::default()).unwrap();
    let start = Time::from_nanos(1_000_000_000);
    sender.write(start, object, b"message", true).unwrap();
    sender.close_stream(start, object).unwrap();
    let mut quiet_after = None;
    for millis in 0..3000 {
        let now = start + Duration::from_millis(millis);
        while sender.poll_transmit(now).is_some() {}
        while sender.poll_event().is_some() {}
        if sender.is_quiet() && quiet_after.is_none() {
            quiet_after = Some(millis);
        }
    }
    let quiet_after = quiet_after.expect("who never answers is not waited for in the end");
    assert!(quiet_after >= 1000, "quiet after {quiet_after} ms, though the acker may still answer");
    assert!(!sender.is_acknowledged(), "it never answered");
}

#[test]
fn what_an_earlier_run_sent_is_not_acknowledged_to_the_next() {
    let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let mut receiver = Session::new(Config { sync: SyncPolicy::All, ..Config::new(2, 1, 2) }).unwrap();
    let mut now = Time::from_nanos(1_000_000_000);
    let mut is_acknowledged = |instance: u16, data_arrives: bool| {
        let mut sender = Session::new(Config::new(1, instance, 1)).unwrap();
        sender.set_ackers(&[2]);
        let object = sender.open_stream(&StreamOptions::default()).unwrap();
        sender.write(now, object, b"message", true).unwrap();
        sender.request_watermark(now, object).unwrap();
        let is_data = |datagram: &[u8]| matches!(shoal_norm::wire::parse(datagram), Ok(Message::Data(_)));
        for _ in 0..100 {
            now += Duration::from_millis(1);
            deliver_if(now, &mut sender, &mut receiver, address, |datagram| {
                data_arrives || !is_data(datagram)
            });
            deliver(now, &mut receiver, &mut sender, address);
        }
        sender.is_acknowledged()
    };
    assert!(is_acknowledged(1, true));
    assert!(!is_acknowledged(2, false), "it has the place of the first run only");
    assert!(is_acknowledged(3, true));
    assert!(is_acknowledged(3, false), "of the same run it has what it has");
}

#[test]
fn a_stream_is_told_of_before_anything_of_it_is_read() {
    let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let mut sender = Session::new(Config::new(1, 1, 1)).unwrap();
    let mut receiver = Session::new(Config { sync: SyncPolicy::Start, ..Config::new(2, 1, 2) }).unwrap();
    let object = sender.open_stream(&StreamOptions::default()).unwrap();
    let now = Time::from_nanos(1_000_000_000);
    sender.write(now, object, &[7; 10_000], true).unwrap();
    let mut taken = 0;
    while let Some(out) = sender.poll_transmit(now) {
        for datagram in out.datagrams() {
            let from = Source { address, unicast: false, waited: Duration::ZERO };
            receiver.handle_datagram_with(now, from, datagram, &mut |_, chunk| {
                taken += chunk.bytes.len();
                true
            });
        }
    }
    assert_eq!(taken, 0);
    let events = std::iter::from_fn(|| receiver.poll_event());
    let order: Vec<bool> = events
        .filter_map(|event| match event {
            Event::StreamOpened { .. } => Some(true),
            Event::Readable { .. } => Some(false),
            _ => None,
        })
        .collect();
    assert_eq!(order, [true, false], "it is opened, and then read");
}

#[test]
fn an_object_that_is_cancelled_while_it_is_asked_for_leaves_nothing_to_do() {
    let mut sender = Session::new(Config::new(1, 1, 1)).unwrap();
    sender.set_ackers(&[2]);
    let mut now = Time::from_nanos(1_000_000_000);
    let object = sender.send_data(now, &[7; 1000], b"").unwrap().unwrap();
    for step in 0..2000 {
        now += Duration::from_millis(1);
        if step == 100 {
            assert!(sender.cancel_object(object));
        }
        while sender.poll_transmit(now).is_some() {}
        while sender.poll_event().is_some() {}
        assert!(sender.poll_timeout() > now, "it would be polled without end");
    }
    assert!(sender.is_quiet());
}

#[test]
fn a_new_acker_that_owes_more_than_the_window_is_asked_and_holds_nobody_up_for_long() {
    let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let mut sender = Session::new(Config::new(1, 1, 1)).unwrap();
    let mut receiver = Session::new(Config { sync: SyncPolicy::Start, ..Config::new(2, 1, 2) }).unwrap();
    sender.set_ackers(&[2]);
    let options = StreamOptions { window_bytes: Some(20_000), cache_bytes: 1 << 20, ..Default::default() };
    let object = sender.open_stream(&options).unwrap();
    let mut now = Time::from_nanos(1_000_000_000);
    for round in 0..10 {
        if round == 9 {
            // Everything is acknowledged, and nothing is being asked for.
            assert!(sender.is_acknowledged());
            sender.set_ackers_from_oldest(&[2, 3]);
        }
        assert_eq!(sender.write(now, object, &[7; 14_000], true), Ok(14_000));
        for _ in 0..1000 {
            now += Duration::from_millis(1);
            deliver(now, &mut sender, &mut receiver, address);
            while let Some(event) = receiver.poll_event() {
                if let Event::Readable { stream } = event {
                    while let Some(bytes) = receiver.read(stream).map(|chunk| chunk.bytes.len()) {
                        receiver.consume(now, stream, bytes);
                    }
                }
            }
            deliver(now, &mut receiver, &mut sender, address);
            while sender.poll_event().is_some() {}
        }
    }
    assert_eq!(sender.stats().payload_bytes_sent, 140_000);
}

#[test]
fn an_acker_that_was_away_gets_the_last_objects_when_it_is_back_though_all_others_have_them() {
    let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let source = Source { address, unicast: false, waited: Duration::ZERO };
    let mut sender = Session::new(Config::new(1, 1, 1)).unwrap();
    let mut receivers = [2, 3].map(|node| Session::new(Config::new(node, 1, u64::from(node))).unwrap());
    sender.set_ackers(&[2, 3]);
    let mut now = Time::from_nanos(1_000_000_000);
    let mut received = [0, 0];
    for millis in 0..60_000 {
        if millis == 0 || millis == 1000 {
            (0..3).for_each(|_| assert!(sender.send_data(now, &[7; 1000], b"").unwrap().is_some()));
        }
        now += Duration::from_millis(1);
        let is_away = |node: usize| node == 1 && (1000..5000).contains(&millis);
        while let Some(out) = sender.poll_transmit(now) {
            for datagram in out.datagrams() {
                let present = receivers.iter_mut().enumerate().filter(|(node, _)| !is_away(*node));
                present.for_each(|(_, receiver)| receiver.handle_datagram(now, source, datagram));
            }
        }
        for (node, receiver) in receivers.iter_mut().enumerate().filter(|(node, _)| !is_away(*node)) {
            deliver(now, receiver, &mut sender, address);
            while let Some(event) = receiver.poll_event() {
                received[node] += u32::from(matches!(event, Event::DataReceived { .. }));
            }
        }
        while sender.poll_event().is_some() {}
        if received == [6, 6] && sender.is_acknowledged() {
            return;
        }
    }
    panic!("{received:?} objects arrived, acknowledged: {}", sender.is_acknowledged());
}

#[test]
fn a_stream_there_is_no_place_for_is_not_acknowledged_as_an_object_that_is_done_with() {
    let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let mut config = Config::new(1, 1, 1);
    config.acker_patience = Duration::from_millis(500);
    let mut sender = Session::new(config).unwrap();
    sender.set_ackers(&[2]);
    let mut config = Config::new(2, 1, 2);
    (config.sync, config.streams_per_sender_max) = (SyncPolicy::All, 1);
    let mut receiver = Session::new(config).unwrap();
    let mut now = Time::from_nanos(1_000_000_000);
    let pass = |now: &mut Time, sender: &mut Session, receiver: &mut Session| {
        for _ in 0..20 {
            *now += Duration::from_millis(1);
            deliver(*now, sender, receiver, address);
        }
    };
    let refused = sender.open_stream(&StreamOptions::default()).unwrap();
    let taken = sender.open_stream(&StreamOptions::default()).unwrap();
    sender.write(now, taken, b"this one takes the place", true).unwrap();
    sender.flush(now, taken).unwrap();
    pass(&mut now, &mut sender, &mut receiver);
    sender.send_data(now, b"an object", b"").unwrap().unwrap();
    pass(&mut now, &mut sender, &mut receiver);
    sender.write(now, refused, b"and this one has none", true).unwrap();
    sender.flush(now, refused).unwrap();
    pass(&mut now, &mut sender, &mut receiver);
    sender.request_watermark(now, refused).unwrap();
    let mut outcome = None;
    while outcome.is_none() && now < Time::from_nanos(31_000_000_000) {
        now += Duration::from_millis(1);
        deliver(now, &mut sender, &mut receiver, address);
        deliver(now, &mut receiver, &mut sender, address);
        while let Some(event) = sender.poll_event() {
            if let Event::WatermarkDone(watermark) = event {
                outcome = Some(watermark);
            }
        }
    }
    let outcome = outcome.expect("the watermark is settled");
    assert_eq!((outcome.object, &outcome.acked[..], &outcome.silent[..]), (refused, &[][..], &[2][..]));
}

#[test]
fn what_an_acker_lacks_is_counted_in_bytes_however_small_its_segments() {
    let now = Time::from_nanos(1_000_000_000);
    let mut sender = Session::new(Config::new(1, 1, 1)).unwrap();
    sender.set_ackers(&[2]);
    let object = sender.open_stream(&StreamOptions::default()).unwrap();
    for _ in 0..9 {
        assert_eq!(sender.write(now, object, &[7; 100], true), Ok(100));
        sender.flush(now, object).unwrap();
    }
    assert_eq!(sender.write(now, object, &[7; 50], true), Ok(50));
    assert_eq!(sender.lacking(object), [(2, 950)]);
}
