//! A node that starts over, and whose last words as the one before arrive late.

use std::net::SocketAddr;
use std::time::Duration;

use shoal_norm::{CloseReason, Config, Event, Session, Source, StreamOptions, SyncPolicy, Time};

/// What an instance of node 1 sends: a message in each datagram.
fn words(instance: u16, count: u8, now: Time) -> Vec<Vec<u8>> {
    let config = Config { segment_bytes: 16, ..Config::new(1, instance, instance.into()) };
    let mut session = Session::new(config).unwrap();
    let stream = session.open_stream(&StreamOptions::default()).unwrap();
    for number in 0..count {
        session.write(now, stream, &[&[instance as u8, number][..], &[0; 14]].concat(), true).unwrap();
    }
    let mut datagrams = Vec::new();
    while let Some(out) = session.poll_transmit(now) {
        datagrams.extend(out.datagrams().map(<[u8]>::to_vec));
    }
    datagrams
}

/// A receiver: which messages of which instance it read, and which instances it knows to be over.
struct Listener {
    session: Session,
    now: Time,
    read: Vec<(u8, u8)>,
    over: Vec<u16>,
}

impl Listener {
    fn new() -> Listener {
        let session = Session::new(Config { sync: SyncPolicy::Start, ..Config::new(2, 1, 7) }).unwrap();
        Listener { session, now: Time::from_nanos(1_000_000_000), read: Vec::new(), over: Vec::new() }
    }

    /// So long that whoever does not speak in the meantime is over.
    fn pause(&mut self) {
        self.now += Duration::from_secs(1);
    }

    fn hear(&mut self, datagrams: &[Vec<u8>]) {
        let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
        for datagram in datagrams {
            self.now += Duration::from_millis(1);
            self.session.handle_datagram(
                self.now,
                Source { address, unicast: false, waited: Duration::ZERO },
                datagram,
            );
            while let Some(event) = self.session.poll_event() {
                match event {
                    Event::Readable { stream } => {
                        while let Some(bytes) = self.session.read(stream).map(|chunk| chunk.bytes.to_vec()) {
                            self.session.consume(self.now, stream, bytes.len());
                            self.read.extend(bytes.chunks(16).map(|message| (message[0], message[1])));
                        }
                    }
                    Event::SenderGone { instance, reason: CloseReason::Restarted, .. } => {
                        self.over.push(instance);
                    }
                    _ => {}
                }
            }
        }
    }
}

fn all_of(instance: u8, count: u8) -> Vec<(u8, u8)> {
    (0..count).map(|number| (instance, number)).collect()
}

#[test]
fn late_words_of_an_earlier_run_do_not_make_a_receiver_deaf_to_the_one_that_runs() {
    let mut listener = Listener::new();
    let [first, second, third] = [1, 2, 3].map(|instance| words(instance, 20, listener.now));
    listener.hear(&first);
    listener.hear(&third[..1]);
    // It was started twice in a row, and this is the first that is heard of the run between.
    listener.hear(&second[..1]);
    listener.hear(&third[1..10]);
    listener.pause();
    listener.hear(&third[10..]);
    listener.read.retain(|(instance, _)| *instance != 2);
    assert_eq!(listener.read, [all_of(1, 20), all_of(3, 20)].concat());
    assert_eq!(listener.session.senders().count(), 1, "only the one that runs is left");
}

#[test]
fn many_late_words_of_the_run_before_do_not_win_against_the_one_that_runs() {
    let mut listener = Listener::new();
    let [first, second] = [1, 2].map(|instance| words(instance, 20, listener.now));
    listener.hear(&first[..10]);
    listener.hear(&second[..1]);
    listener.hear(&first[10..]);
    listener.hear(&second[1..10]);
    assert_eq!(listener.over, [0; 0], "anybody can speak as another run");
    listener.pause();
    listener.hear(&second[10..]);
    assert_eq!(listener.read.iter().filter(|(instance, _)| *instance == 2).count(), 20);
    assert_eq!(listener.over, [1]);
}

#[test]
fn a_run_is_over_once_the_next_one_was_heard_after_a_silence_and_its_late_words_are_refused() {
    let mut listener = Listener::new();
    let [first, second] = [1, 2].map(|instance| words(instance, 20, listener.now));
    listener.hear(&first[..10]);
    listener.hear(&second[..3]);
    assert_eq!(listener.over, [0; 0], "it may be somebody's late words");
    listener.pause();
    listener.hear(&second[3..10]);
    assert_eq!(listener.over, [1]);
    listener.hear(&first[10..]);
    listener.hear(&second[10..]);
    assert!(listener.read.iter().all(|(instance, number)| *instance == 2 || *number < 10));
    assert_eq!(listener.read.iter().filter(|(instance, _)| *instance == 2).count(), 20);
    assert_eq!(listener.over, [1]);
}
