//! Steps of loops whose length others decide: nothing in a program, and counted where a test asks.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One turn of such a loop.
#[inline(always)]
pub fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// How many steps something takes.
#[cfg(test)]
pub fn steps_of<R>(act: impl FnOnce() -> R) -> (u64, R) {
    STEPS.set(0);
    let result = act();
    (STEPS.get(), result)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use super::steps_of;
    use crate::wire::command::{self, Position};
    use crate::wire::feedback::{self, FeedbackHeader};
    use crate::wire::repair::RepairWriter;
    use crate::wire::{Nack, PayloadId, RepairFlags, SenderHeader};
    use crate::{Config, NodeId, Session, Source, StreamOptions, Time};

    const START: Time = Time::from_nanos(1_000_000_000);
    const STREAMS: usize = 4;
    const ACKERS: u32 = 300;
    /// What is looked at of an object for one request: what was repaired lately, and what waits to be.
    const OBJECT_STEPS_MAX: u64 = 1024 + 4096;
    /// Requests that fit into one NACK.
    const REQUESTS_MAX: u64 = 100;

    fn from(node: NodeId) -> Source {
        let address = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 | node), 7400));
        Source { address, unicast: false, waited: Duration::ZERO }
    }

    fn config() -> Config {
        let mut config = Config::new(1, 1, 1);
        config.segment_bytes = 100;
        config.grtt_initial = Duration::from_millis(1);
        config
    }

    /// Sends all that may go; returns the most steps that one poll took.
    fn poll_all(session: &mut Session, now: Time) -> u64 {
        let mut most = 0;
        loop {
            let (steps, sent) = steps_of(|| session.poll_transmit(now).is_some());
            most = most.max(steps);
            while session.poll_event().is_some() {}
            if !sent {
                return most;
            }
        }
    }

    /// A sender with full caches, four thousand objects and many ackers; and how many segments its caches have.
    fn sender() -> (Session, u64) {
        let mut sender = Session::new(config()).unwrap();
        sender.set_ackers(&(2..2 + ACKERS).collect::<Vec<_>>());
        for _ in 0..STREAMS {
            let object = sender.open_stream(&StreamOptions::default()).unwrap();
            for _ in 0..20 {
                sender.write(START, object, &[7; 100_000], true).unwrap();
                poll_all(&mut sender, START);
            }
        }
        for _ in 0..4_000 {
            sender.send_data(START, &[7; 1000], b"").unwrap();
            poll_all(&mut sender, START);
        }
        let segments = (0..STREAMS as u16)
            .map(|object| sender.segments_sent(object) - sender.oldest_segment(object))
            .sum();
        (sender, segments)
    }

    fn header(node: NodeId) -> FeedbackHeader {
        FeedbackHeader {
            sequence: 0,
            source: node,
            sender: 1,
            instance: 1,
            probe_response: Time::ZERO,
            cc: None,
        }
    }

    /// A NACK as long as a datagram may be that asks for everything again and again: whole streams and objects, blocks
    /// and segments.
    fn greedy_nack(node: NodeId, round: u16) -> Vec<u8> {
        let mut requests = RepairWriter::default();
        requests.reset(1400);
        let item = |object: u16, block: u32, symbol: u16| Position {
            fec_id: crate::FecId::ReedSolomon8,
            object,
            payload_id: PayloadId { block, block_len: 0, symbol },
        };
        for object in 0.. {
            let object = object % (STREAMS as u16 + 50);
            let fits = match (object + round) % 4 {
                0 => requests.push(RepairFlags::OBJECT, item(object, 0, 0), item(object, 0, 0)),
                1 => requests.push(RepairFlags::BLOCK, item(object, 0, 0), item(object, 0x00ff_ffff, 0)),
                2 => requests.push(RepairFlags::SEGMENT, item(object, 0, 0), item(object, 3, 200)),
                _ => requests.push(RepairFlags::OBJECT, item(4, 0, 0), item(60_000, 0, 0)),
            };
            if !fits {
                break;
            }
        }
        let mut out = Vec::new();
        Nack::write(&header(node), requests.content(), &mut out);
        out
    }

    #[test]
    fn a_nack_costs_a_sender_no_more_than_one_pass_over_what_it_keeps() {
        let (mut sender, segments) = sender();
        let per_nack = segments + 65_536 + REQUESTS_MAX * OBJECT_STEPS_MAX + 64 * u64::from(ACKERS);
        let (mut now, mut most) = (START, 0);
        for round in 0..12 {
            let datagram = greedy_nack(2 + u32::from(round) % ACKERS, round);
            let (steps, ()) = steps_of(|| sender.handle_datagram(now, from(2), &datagram));
            most = most.max(steps);
            assert!(steps <= per_nack, "round {round}: {steps} steps, {segments} segments");
            poll_all(&mut sender, now);
            now += Duration::from_millis(3);
        }
        assert!(sender.stats().repairs_requested > segments / 2, "nothing was asked for");
        assert!(most > segments / 2, "the steps of a NACK are not counted: {most}");
    }

    #[test]
    fn a_poll_costs_a_sender_no_more_than_a_look_at_its_ackers_and_what_waits_to_be_repaired() {
        let (mut sender, segments) = sender();
        let mut now = START;
        for round in 0..12 {
            sender.handle_datagram(now, from(2), &greedy_nack(2 + u32::from(round) % ACKERS, round));
            // It is asked for again while repairs go out, so that everything that can be due is due.
            let most = poll_all(&mut sender, now);
            let per_poll = segments + 4_000 + 64 * u64::from(ACKERS);
            assert!(most <= per_poll, "round {round}: {most} steps in one poll, {segments} segments");
            let (steps, _) = steps_of(|| sender.poll_timeout());
            assert!(steps <= 64 * STREAMS as u64, "round {round}: {steps} steps for a deadline");
            now += Duration::from_millis(3);
        }
    }

    #[test]
    fn acknowledgements_of_many_cost_no_more_than_a_look_at_all_of_them_each() {
        let (mut sender, _) = sender();
        let position = Position {
            fec_id: crate::FecId::ReedSolomon8,
            object: 0,
            payload_id: PayloadId { block: 2, block_len: 0, symbol: 5 },
        };
        for node in 2..2 + ACKERS {
            let mut out = Vec::new();
            feedback::write_flush_ack(&header(node), position, &mut out);
            let (steps, ()) = steps_of(|| sender.handle_datagram(START, from(node), &out));
            assert!(steps <= 16 * u64::from(ACKERS), "{steps} steps for an acknowledgement");
        }
    }

    #[test]
    fn polls_of_a_receiver_look_only_at_those_senders_that_have_something_to_do() {
        let (mut receiver, mut out) = (Session::new(config()).unwrap(), Vec::new());
        for node in 2..1002 {
            let header =
                SenderHeader { sequence: 0, source: node, instance: 1, grtt: 0, backoff: 4, group_size: 1 };
            command::write_application(&header, b"hello", &mut out);
            receiver.handle_datagram(START, from(node), &out);
        }
        assert_eq!(receiver.senders().count(), 1000);
        poll_all(&mut receiver, START);
        let now = START + Duration::from_millis(1);
        let header = SenderHeader { sequence: 1, source: 2, instance: 1, grtt: 0, backoff: 4, group_size: 1 };
        command::write_application(&header, b"hello", &mut out);
        receiver.handle_datagram(now, from(2), &out);
        let (steps, _) = steps_of(|| receiver.poll_timeout());
        assert!(steps <= 8, "{steps} steps for a deadline");
        let most = poll_all(&mut receiver, now);
        assert!(most <= 8, "{most} steps in one poll");
    }
}
