//! When publishers have to ring for a NORM link, and when what they publish gathers for it instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shoal_node::Chains;
use shoal_node::hub::Asleep;
use shoal_node::norm::{Application, Driver, Taken};
use shoal_norm::{Chunk, Config, Event, Session, StreamId, StreamOptions, Time};

const LINK: usize = 0;
const SEGMENT_BYTES: usize = 1000;
const RATE_BYTES_PER_S: f64 = 100_000.0;

/// Hears nothing, and holds back all lanes but the first while it is told to.
struct Silent(Arc<AtomicBool>);

impl Application for Silent {
    fn take(&mut self, _now: Time, _stream: StreamId, _chunk: Chunk<'_>) -> Taken {
        Taken::All
    }

    fn event(&mut self, _now: Time, _session: &mut Session, _event: &Event) {}

    fn batch_done(&mut self, _now: Time) {}

    fn holds_writes(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn fail(&mut self, why: &str) {
        panic!("{why}");
    }
}

/// A link with two lanes that sends at a low rate.
struct Link {
    driver: Driver,
    chains: Arc<Chains>,
    holds: Arc<AtomicBool>,
    now: Time,
}

impl Link {
    fn new(cache_bytes: usize) -> Link {
        let chains = Arc::new(Chains::new(2, 1 << 20, 1 << 20, Arc::new(Asleep)));
        chains.open(LINK);
        let config = Config {
            segment_bytes: SEGMENT_BYTES as u16,
            rate_bytes_per_s: Some(RATE_BYTES_PER_S),
            ..Config::new(1, 1, 1)
        };
        let streams = [(); 2].map(|()| StreamOptions { cache_bytes, ..StreamOptions::default() });
        let holds = Arc::new(AtomicBool::new(false));
        let (session, silent) = (Session::new(config).unwrap(), Box::new(Silent(holds.clone())));
        let driver = Driver::new(session, &[], &streams, chains.clone(), LINK, silent).unwrap();
        Link { driver, chains, holds, now: Time::from_nanos(1_000_000_000) }
    }

    /// Publishes so many bytes. Whether the publisher has to ring for them.
    fn publish(&self, lane: usize, bytes: usize) -> bool {
        self.chains.append(lane, LINK, &[&vec![7; bytes]]).unwrap().is_some()
    }

    /// Sends what can be sent at this moment, and returns what the link's thread is told: whether to look again.
    fn turn(&mut self) -> bool {
        self.driver.write(self.now);
        self.transmit()
    }

    fn transmit(&mut self) -> bool {
        while self.driver.poll_transmit(self.now).is_some() {}
        self.driver.settle()
    }

    fn is_waiting(&self, lane: u16) -> bool {
        self.driver.session.segments_waiting(lane) > 0
    }

    /// Lets time go by until a lane has sent its segments.
    fn send_all(&mut self, lane: u16) -> bool {
        for _ in 0..1000 {
            self.now += Duration::from_millis(10);
            let goes_on = self.transmit();
            if !self.is_waiting(lane) {
                return goes_on;
            }
        }
        panic!("its segments still wait");
    }
}

#[test]
fn publishers_ring_for_a_lane_only_while_none_of_its_segments_wait() {
    let mut link = Link::new(1 << 20);
    assert!(link.publish(0, 50 * SEGMENT_BYTES));
    assert!(!link.turn());
    assert!(link.is_waiting(0), "the rate does not let all of them go at once");
    assert!(!link.publish(0, 10), "they go along with those that wait");
    assert!(link.publish(1, 10), "another lane waits for nothing");
    assert_eq!(link.chains.sendable(LINK), link.chains.waiting(LINK) - 11);

    assert!(link.send_all(0), "something may have gathered");
    assert!(link.chains.waiting(LINK) > 0);
    link.turn();
    assert_eq!(link.chains.waiting(LINK), 0);
    link.send_all(0);
    assert!(!link.transmit(), "nothing changed since");
    assert!(link.publish(0, 10));
}

#[test]
fn publishers_do_not_ring_for_a_stream_that_is_full_and_what_gathered_follows_when_it_has_room() {
    let mut link = Link::new(64 * SEGMENT_BYTES);
    assert!(link.publish(0, 200 * SEGMENT_BYTES));
    assert!(!link.turn());
    assert!(link.driver.waiting() > 0, "the stream takes no more");
    assert!(!link.publish(0, 10));
    for _ in 0..1000 {
        link.now += Duration::from_millis(10);
        link.turn();
        if link.driver.waiting() == 0 {
            break;
        }
    }
    assert_eq!(link.driver.waiting(), 0, "nobody rang, and it was written all the same");
    link.send_all(0);
    assert!(link.publish(0, 10));
}

#[test]
fn publishers_do_not_ring_for_lanes_that_are_held_back() {
    let mut link = Link::new(1 << 20);
    link.holds.store(true, Ordering::Relaxed);
    assert!(!link.turn());
    assert!(link.publish(0, 10), "the first lane never is");
    assert!(!link.publish(1, 10));
    link.turn();
    assert_eq!(link.chains.waiting(LINK), 11);
    link.holds.store(false, Ordering::Relaxed);
    link.turn();
    assert_eq!(link.chains.waiting(LINK), 0);
    assert!(link.publish(1, 10));
}
