//! Tests of acknowledgement.

use super::*;

const STEP: Duration = Duration::from_millis(2);

fn process_of(robust_factor: u32, patience: Duration) -> AckProcess {
    AckProcess::new(&Config { robust_factor, acker_patience: patience, ..Config::new(1, 1, 1) })
}

fn process(nodes: &[NodeId]) -> AckProcess {
    let mut acks = process_of(3, 2 * STEP);
    acks.set_ackers(nodes, 0);
    acks
}

#[test]
fn a_watermark_settles_when_the_last_node_has_it() {
    let mut acks = process(&[1, 2]);
    let mut asked = Vec::new();
    acks.want(10);
    acks.request(Time::ZERO, 10);
    assert_eq!(acks.poll(Time::ZERO, STEP, &mut asked), Some(10));
    assert_eq!(asked, [1, 2]);
    acks.on_ack(Time::ZERO, 1, 10, 0);
    assert_eq!(acks.poll_outcome(), None);
    assert_eq!(acks.poll(Time::ZERO + STEP, STEP, &mut asked), Some(10));
    assert_eq!(asked, [2]);
    acks.on_ack(Time::ZERO, 2, 12, 0);
    assert_eq!(acks.poll_outcome(), Some(AckOutcome::Settled(vec![1, 2], vec![])));
    assert_eq!(acks.acked(), Some(10));
    assert_eq!(acks.next_request, Time::NEVER);
}

#[test]
fn whoever_is_listed_later_owes_nothing_but_has_confirmed_nothing() {
    let mut acks = process(&[]);
    assert!(!acks.is_confirmed(10), "nobody counts");
    acks.set_ackers(&[1], 10);
    assert_eq!((acks.acked(), acks.is_owed(10)), (Some(10), false));
    assert!(!acks.is_confirmed(10));
    acks.on_ack(Time::ZERO, 1, 12, 0);
    assert!(acks.is_confirmed(12));
    assert!(!acks.is_confirmed(13));
}

#[test]
fn a_node_that_never_answers_is_named_and_stops_counting() {
    let mut acks = process(&[1, 2]);
    let mut asked = Vec::new();
    acks.want(10);
    acks.request(Time::ZERO, 10);
    acks.on_ack(Time::ZERO, 1, 10, 0);
    let mut now = Time::ZERO;
    for _ in 0..4 {
        acks.poll(now, STEP, &mut asked);
        now += STEP;
    }
    assert_eq!(acks.poll_outcome(), Some(AckOutcome::Silent(2)));
    assert_eq!(acks.poll_outcome(), Some(AckOutcome::Settled(vec![1], vec![2])));
    assert_eq!(acks.poll_outcome(), None);
    assert_eq!(acks.acked(), Some(10));
}

#[test]
fn a_node_asked_often_but_not_for_long_still_counts() {
    let mut acks = process_of(3, Duration::from_millis(500));
    acks.set_ackers(&[1], 0);
    let mut asked = Vec::new();
    acks.want(10);
    acks.request(Time::ZERO, 10);
    let mut now = Time::ZERO;
    while now < Time::ZERO + Duration::from_millis(499) {
        acks.poll(now, STEP, &mut asked);
        now += STEP;
    }
    assert_eq!(acks.poll_outcome(), None);
    acks.poll(now + STEP, STEP, &mut asked);
    assert_eq!(acks.poll_outcome(), Some(AckOutcome::Silent(1)));
    acks.on_ack(Time::ZERO, 1, 5, 0);
    assert_eq!(acks.acked(), Some(5), "it counts again once it gets on");
}

#[test]
fn however_long_the_round_trip_a_node_holds_the_window_for_a_few_requests_only() {
    let mut acks = process_of(20, Duration::from_millis(500));
    acks.set_ackers(&[1, 2], 0);
    acks.request(Time::ZERO, 10);
    let interval = Duration::from_millis(400);
    let mut now = Time::ZERO;
    while acks.is_waiting() {
        acks.poll(now, interval, &mut Vec::new());
        acks.on_ack(Time::ZERO, 2, 10, 0);
        now += interval;
    }
    assert!(now.since(Time::ZERO) <= 2 * Duration::from_secs(1), "{now:?}");
}

#[test]
fn a_node_that_fell_silent_is_asked_along_and_counts_again_when_it_has_caught_up() {
    let mut acks = process(&[1, 2]);
    let mut asked = Vec::new();
    let mut now = Time::ZERO;
    acks.request(now, 10);
    acks.on_ack(Time::ZERO, 2, 10, 0);
    while !acks.is_left_behind(1) {
        acks.poll(now, STEP, &mut asked);
        now += STEP;
    }
    assert_eq!(acks.poll(now, STEP, &mut asked), None, "it alone is no reason to ask");
    acks.request(now, 100);
    assert_eq!(acks.poll(now, STEP, &mut asked), Some(100));
    assert_eq!(asked, [1, 2]);
    acks.on_ack(Time::ZERO, 2, 100, 0);
    acks.on_ack(Time::ZERO, 1, 50, 80);
    assert_eq!(acks.acked(), Some(100), "it would hold everybody back");
    acks.on_ack(Time::ZERO, 1, 90, 80);
    assert_eq!(acks.acked(), Some(90));
}

#[test]
fn where_nobody_counts_whoever_acknowledges_something_counts_again() {
    let mut acks = process(&[1, 2]);
    let mut now = Time::ZERO;
    acks.request(now, 10);
    while acks.acked().is_some() {
        acks.poll(now, STEP, &mut Vec::new());
        now += STEP;
    }
    assert!(!acks.is_left_behind(1), "there is nobody it could be behind");
    acks.on_ack(Time::ZERO, 1, 5, 8);
    assert_eq!(acks.acked(), Some(5));
    acks.on_ack(Time::ZERO, 2, 7, 8);
    assert!(acks.is_left_behind(2));
}

#[test]
fn a_node_that_asks_for_ever_later_segments_counts_and_one_that_repeats_itself_does_not() {
    let ask_for = |segment_at: fn(u64) -> u64| {
        let mut acks = process(&[1]);
        acks.want(1000);
        acks.request(Time::ZERO, 1000);
        let mut now = Time::ZERO;
        for round in 1..100 {
            acks.poll(now, STEP, &mut Vec::new());
            acks.on_request(1, &(segment_at(round)..1000));
            acks.settle_requests();
            now += STEP;
        }
        acks.poll_outcome()
    };
    assert_eq!(ask_for(|round| round), None);
    assert_eq!(ask_for(|_| 7), Some(AckOutcome::Silent(1)));
}

/// Asks nodes for a while, of which the first answers that it is full, until it dies. Who is no longer waited for before
/// that, and after it.
fn ask_full(nodes: &[NodeId], others_have_room: bool) -> (Option<AckOutcome>, Option<AckOutcome>) {
    let mut acks = process(nodes);
    let mut now = Time::ZERO;
    acks.on_ack(now, 1, 5, 0);
    acks.request(now, 10);
    let mut ask = |acks: &mut AckProcess, answers: bool| {
        for _ in 0..100 {
            acks.poll(now, STEP, &mut Vec::new());
            for node in nodes {
                match (*node, others_have_room) {
                    (1, _) | (_, false) if answers => acks.on_full(*node),
                    (1, _) | (_, false) => {}
                    (_, true) => _ = acks.on_ack(now, *node, 10, 0),
                }
            }
            now += STEP;
        }
        acks.poll_outcome()
    };
    (ask(&mut acks, true), ask(&mut acks, false))
}

#[test]
fn who_is_full_and_alone_is_waited_for_while_it_answers() {
    assert_eq!(ask_full(&[1], false), (None, Some(AckOutcome::Silent(1))));
}

#[test]
fn those_who_are_full_together_are_waited_for_and_one_that_holds_others_back_is_not() {
    assert_eq!(ask_full(&[1, 2], false).0, None);
    assert_eq!(ask_full(&[1, 2], true).0, Some(AckOutcome::Silent(1)));
}

#[test]
fn who_is_full_is_asked_less_often() {
    let mut acks = process(&[1]);
    acks.request(Time::ZERO, 10);
    let mut asked = Vec::new();
    let mut now = Time::ZERO;
    for interval in [STEP, STEP, STEP, FULL_PAUSE, FULL_PAUSE] {
        assert_eq!(acks.poll(now, STEP, &mut asked), Some(10));
        assert_eq!(acks.next_request, now + interval);
        acks.on_full(1);
        now += interval;
    }
    acks.on_ack(now, 1, 5, 0);
    acks.on_full(1);
    acks.poll(now, STEP, &mut asked);
    assert_eq!(acks.next_request, now + STEP, "an acknowledgement that came twice says nothing");
}

#[test]
fn a_new_node_owes_only_what_comes_after_it_and_holds_the_window_there() {
    let mut acks = process(&[1]);
    acks.on_ack(Time::ZERO, 1, 50, 0);
    acks.set_ackers(&[1, 2], 40);
    assert_eq!(acks.acked(), Some(40), "what it has not acknowledged is kept");
    acks.on_ack(Time::ZERO, 2, 45, 0);
    assert_eq!(acks.acked(), Some(45));
    acks.set_ackers(&[1], 0);
    assert_eq!(acks.acked(), Some(50));
}

#[test]
fn new_nodes_that_never_answer_hold_the_window_once_and_again_when_a_new_one_answered() {
    for patience in [Duration::from_millis(500), Duration::from_secs(3600)] {
        let mut acks = process_of(20, patience);
        acks.set_ackers(&[1], 0);
        let mut now = Time::ZERO;
        // Lists a new node, and asks until the window waits for it no longer: for how long it did.
        let mut welcome = |acks: &mut AckProcess, nodes: &[NodeId], segment: u64, answers: &[NodeId]| {
            acks.set_ackers(nodes, segment);
            let began = now;
            acks.request(now, segment + 10);
            acks.on_ack(now, 1, segment + 10, 0);
            while acks.acked() < Some(segment + 10) {
                acks.poll(now, STEP, &mut Vec::new());
                answers.iter().for_each(|node| _ = acks.on_ack(now, *node, segment + 10, 0));
                now += STEP;
            }
            while acks.poll_outcome().is_some() {}
            now.since(began)
        };
        let bound = patience.min(Duration::from_secs(10));
        let first = welcome(&mut acks, &[1, 2], 10, &[]);
        assert!((bound..bound + 10 * STEP).contains(&first), "{first:?}");
        assert_eq!(welcome(&mut acks, &[1, 2, 3], 20, &[]), Duration::ZERO, "2 was waited for in vain");
        assert_eq!(welcome(&mut acks, &[1, 4], 30, &[]), Duration::ZERO);
        acks.on_ack(Time::ZERO, 4, 40, 0);
        assert_eq!(welcome(&mut acks, &[1, 4, 5], 50, &[4, 5]), STEP, "4 answered");
    }
}

/// Asks for a watermark of everybody until it is settled: how long that took, and who did not answer.
fn flush(
    acks: &mut AckProcess,
    now: &mut Time,
    segment: u64,
    answering: &[NodeId],
) -> (Duration, Vec<NodeId>) {
    let began = *now;
    acks.want(segment);
    loop {
        acks.request(*now, segment);
        acks.poll(*now, STEP, &mut Vec::new());
        for node in answering {
            acks.on_ack(*now, *node, segment, segment);
        }
        while let Some(outcome) = acks.poll_outcome() {
            if let AckOutcome::Settled(_, silent) = outcome {
                return (now.since(began), silent);
            }
        }
        *now += STEP;
    }
}

#[test]
fn a_watermark_waits_for_who_fell_silent_but_does_not_let_it_hold_the_window_again() {
    let mut acks = process_of(20, Duration::from_millis(500));
    acks.set_ackers(&[1, 2], 0);
    let mut now = Time::ZERO;
    let (first, silent) = flush(&mut acks, &mut now, 10, &[1]);
    assert!(first >= Duration::from_millis(500) && silent == [2], "{first:?} {silent:?}");
    acks.want(20);
    assert_eq!(acks.acked(), Some(10), "only who answers holds the window");
    let (again, silent) = flush(&mut acks, &mut now, 20, &[1]);
    assert!(again <= 2 * REQUESTS_MIN * STEP && silent == [2], "{again:?} {silent:?}");
    // Something is heard of it, so it has all the time again that everybody has.
    acks.on_heard(2);
    let (third, _) = flush(&mut acks, &mut now, 30, &[1]);
    assert!(third >= Duration::from_millis(500), "{third:?}");
    let (fourth, silent) = flush(&mut acks, &mut now, 40, &[1, 2]);
    assert!(fourth <= STEP && silent.is_empty(), "{fourth:?} {silent:?}");
    assert_eq!(acks.acked(), Some(40));
}

#[test]
fn more_nodes_than_a_segment_lists_are_asked_in_several_requests() {
    let mut acks = process_of(3, STEP);
    let nodes: Vec<NodeId> = (1..=1000).collect();
    acks.set_ackers(&nodes, 0);
    acks.request(Time::ZERO, 10);
    let (mut listed, mut asked) = (Vec::new(), Vec::new());
    for lists in [350, 350, 300] {
        assert_eq!(acks.poll(Time::ZERO, STEP, &mut asked), Some(10));
        assert_eq!(asked.len(), lists);
        listed.append(&mut asked);
    }
    assert_eq!(listed, nodes);
    assert_eq!(acks.poll(Time::ZERO, STEP, &mut asked), None, "everybody was asked");
    assert_eq!(acks.next_request, Time::ZERO + STEP);
}

/// A sender that always has something to send, with a window of forty, and ackers that acknowledge what they are asked
/// for once they took it. In each millisecond `takes` says whether an acker, by its place in the list, takes one more
/// segment. Returns who was no longer waited for, and how much was sent.
fn hold(
    nodes: &[NodeId],
    seconds: u64,
    indispensable: &[NodeId],
    mut takes: impl FnMut(usize, u64) -> bool,
) -> (Vec<NodeId>, u64) {
    let mut acks = process_of(20, Duration::from_millis(500));
    acks.set_ackers(nodes, 0);
    acks.set_indispensable(indispensable);
    let mut took = vec![0; nodes.len()];
    let (mut sent, mut since, mut slow) = (40, Time::ZERO, Vec::new());
    for millis in 1..=1000 * seconds {
        let now = Time::ZERO + Duration::from_millis(millis);
        acks.on_held(since, now, None, |reached| reached.acked + 40 <= sent);
        since = now;
        acks.request(now, sent);
        let asked = acks.requested.unwrap();
        for (at, (node, took)) in nodes.iter().zip(&mut took).enumerate() {
            *took = sent.min(*took + u64::from(takes(at, millis)));
            if *took >= asked {
                acks.on_ack(now, *node, asked, sent.saturating_sub(40));
            }
        }
        sent = sent.max(acks.acked().unwrap() + 40);
        while let Some(AckOutcome::Silent(node)) = acks.poll_outcome() {
            slow.push(node);
        }
    }
    (slow, sent)
}

/// The same for ackers that each take a segment in so many milliseconds, for ten seconds.
fn hold_back(paces: &[(NodeId, u64)]) -> (Vec<NodeId>, u64) {
    let nodes: Vec<NodeId> = paces.iter().map(|(node, _)| *node).collect();
    hold(&nodes, 10, &[], |at, millis| millis % paces[at].1 == 0)
}

#[test]
fn who_holds_back_others_that_have_room_is_waited_for_no_longer() {
    for pace in [5, 10, 20] {
        let (slow, sent) = hold_back(&[(1, 1), (2, pace), (3, 1)]);
        assert_eq!(slow, [2], "at a {pace}th of the others' rate");
        assert!(sent > 5000, "{sent} segments at a {pace}th of the others' rate");
    }
}

#[test]
fn those_who_are_slow_together_are_waited_for_no_longer_together() {
    let (slow, sent) = hold_back(&[(1, 1), (2, 10), (3, 10)]);
    assert_eq!(slow, [2, 3]);
    assert!(sent > 5000, "{sent} segments");
}

#[test]
fn who_is_alone_or_as_slow_as_most_sets_the_pace() {
    assert_eq!(hold_back(&[(2, 10)]), (vec![], 1040));
    assert_eq!(hold_back(&[(2, 10), (3, 10)]), (vec![], 1040));
    assert_eq!(hold_back(&[(1, 1), (2, 10), (3, 10), (4, 10)]), (vec![], 1040));
}

#[test]
fn who_takes_more_than_half_of_what_others_could_is_waited_for() {
    assert_eq!(hold_back(&[(1, 3), (2, 4)]).0, Vec::<NodeId>::new());
    assert_eq!(hold_back(&[(1, 2), (2, 3), (3, 2)]).0, Vec::<NodeId>::new());
}

#[test]
fn who_is_indispensable_is_waited_for_however_slow() {
    let (slow, sent) = hold(&[1, 2, 3], 10, &[2], |at, millis| at != 1 || millis % 20 == 0);
    assert_eq!((slow, sent), (vec![], 520));
    let mut acks = process(&[1, 2]);
    acks.set_indispensable(&[2]);
    acks.on_ack(Time::ZERO, 1, 10, 0);
    acks.on_ack(Time::ZERO, 2, 5, 0);
    acks.want(10);
    acks.request(Time::ZERO, 10);
    for millis in 1..100_000 {
        acks.poll(Time::ZERO + Duration::from_millis(millis), STEP, &mut Vec::new());
    }
    assert_eq!((acks.poll_outcome(), acks.acked()), (None, Some(5)));
    acks.set_indispensable(&[]);
    acks.poll(Time::ZERO + Duration::from_secs(200), STEP, &mut Vec::new());
    assert_eq!(acks.poll_outcome(), Some(AckOutcome::Silent(2)));
    acks.set_indispensable(&[2]);
    assert_eq!(acks.acked(), Some(5), "it is waited for again");
}

#[test]
fn a_reader_is_not_too_slow_for_those_who_read_nothing() {
    let mut acks = process_of(20, Duration::from_millis(500));
    acks.set_ackers(&[1, 2, 3], 0);
    acks.set_bystanders(&[1, 3]);
    let run = |acks: &mut AckProcess, from: u64| {
        for millis in from + 1..=from + 4000 {
            let (since, now) =
                (Time::ZERO + Duration::from_millis(millis - 1), Time::ZERO + Duration::from_millis(millis));
            acks.request(now, 40);
            acks.on_ack(now, 1, 40, 0);
            acks.on_ack(now, 3, 40, 0);
            acks.on_ack(now, 2, 1 + millis / 1000, 0);
            acks.on_held(since, now, None, |reached| reached.acked < 40);
        }
    };
    run(&mut acks, 0);
    assert_eq!(acks.acked(), Some(5), "it is waited for");
    acks.set_bystanders(&[3]);
    run(&mut acks, 4000);
    assert_eq!(acks.acked(), Some(40), "somebody waits for it");
}

/// Equal readers on a machine that stops each of them by turns: for 10 to 300 ms, after it ran for `runs` of them on the
/// average. Returns who was no longer waited for.
fn stop_by_turns(seed: u64, readers: u32, runs: Duration, seconds: u64) -> Vec<NodeId> {
    let mut random = fastrand::Rng::with_seed(seed);
    let nodes: Vec<NodeId> = (1..=readers).collect();
    // When each of them stops or goes on, and whether it runs.
    let mut turns = vec![(0, false); nodes.len()];
    let takes = |at: usize, millis: u64| {
        let (until, running) = &mut turns[at];
        while *until <= millis {
            *running = !*running;
            let lasts = match *running {
                true => (runs.as_millis() as f64 * -(1.0 - random.f64()).ln()) as u64 + 1,
                false => random.u64(10..=300),
            };
            *until += lasts;
        }
        *running
    };
    hold(&nodes, seconds, &[], takes).0
}

#[test]
fn equal_readers_that_a_busy_machine_stops_by_turns_are_never_slow() {
    for seed in 0..100 {
        let runs = Duration::from_millis([20, 60, 150, 400, 1500][seed as usize % 5]);
        let slow = stop_by_turns(seed, 2 + (seed / 5) as u32 % 5, runs, 20);
        assert_eq!(slow, [], "seed {seed}");
    }
}

#[test]
fn who_is_to_blame_for_a_small_window_is_waited_for_no_longer_until_it_loses_nothing() {
    let patience = Duration::from_millis(500);
    let mut acks = process_of(20, patience);
    acks.set_ackers(&[1, 2], 0);
    let at = |millis: u64| Time::ZERO + Duration::from_millis(millis);
    for node in [1, 2] {
        acks.on_ack(at(0), node, 10, 0);
    }
    acks.request(at(0), 10);
    assert!(!acks.on_held(at(0), at(499), Some(2), |_| false));
    assert!(acks.on_held(at(499), at(500), Some(2), |_| false));
    assert!(acks.is_left_behind(2) && !acks.is_left_behind(1));
    // It keeps up from here on, but asks for much, later for little, and once for what is no longer there.
    for millis in 501..20_000 {
        acks.on_ack(at(millis), 2, millis, 0);
        if millis < 10_000 && millis % 4 == 0 || millis % 100 == 0 {
            acks.on_request(2, &(millis..millis + 1));
            acks.settle_requests();
        }
        if millis == 11_000 {
            acks.on_refused(at(millis), 2, 0);
        }
        let kept_up = Duration::from_millis(millis.saturating_sub(11_001));
        assert_eq!(acks.is_left_behind(2), kept_up < 4 * patience, "after {millis} ms");
    }
}

#[test]
fn that_somebody_lost_something_is_told_at_once_and_when_it_got_past_it_and_not_if_it_had_it() {
    let mut acks = process(&[1, 2]);
    let at = |millis: u64| Time::ZERO + Duration::from_millis(millis);
    acks.on_ack(at(1), 1, 50, 0);
    acks.on_refused(at(2), 1, 40);
    acks.on_refused(at(2), 7, 40);
    assert_eq!(acks.poll_outcome(), None, "its request crossed its acknowledgement, and 7 is nobody");
    acks.on_refused(at(2), 1, 60);
    acks.on_refused(at(3), 1, 61);
    let lost = Some(AckOutcome::Lost(1, at(1)));
    assert_eq!(acks.poll_outcome(), lost);
    assert_eq!(acks.poll_outcome(), None);
    acks.on_refused(at(1003), 1, 65);
    assert_eq!((acks.poll_outcome(), acks.poll_outcome()), (lost.clone(), None), "again, after a second");
    acks.on_ack(at(1004), 1, 64, 0);
    assert_eq!(acks.poll_outcome(), None);
    acks.on_ack(at(1005), 1, 65, 0);
    assert_eq!((acks.poll_outcome(), acks.poll_outcome()), (lost, None), "and when it is past that");
    acks.on_refused(at(1006), 1, 80);
    assert_eq!(acks.poll_outcome(), Some(AckOutcome::Lost(1, at(1005))));
}

#[test]
fn who_was_slow_and_is_alone_again_sets_the_pace_at_once() {
    let mut acks = process(&[1, 2]);
    acks.on_ack(Time::ZERO, 1, 100, 0);
    acks.request(Time::ZERO, 100);
    acks.on_held(Time::ZERO, Time::ZERO + 12 * STEP, None, |reached| reached.acked < 50);
    assert!(acks.is_left_behind(2));
    acks.set_ackers(&[2], 0);
    assert_eq!(acks.acked(), Some(0));
}
