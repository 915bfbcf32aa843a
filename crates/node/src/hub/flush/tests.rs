use super::*;

fn poll(flushes: &mut Flushes) -> Vec<(Router, Saying)> {
    let nobody = flushes.over().into_iter().map(|(id, ..)| (id, Vec::new())).collect();
    flushes.poll(&nobody, &[])
}

fn hear(flushes: &mut Flushes, number: u64, router: Router, silent: &[NodeId], is_stale: bool) {
    let (from, silent) = (router.1, silent.to_vec());
    flushes.hear(
        router,
        &Answer { from, to: 0, number, is_pending: false, silent, is_stale, losers: Vec::new() },
    );
}

#[test]
fn whoever_lost_something_for_good_is_named_by_every_flush_that_began_before_one_told_of_it() {
    let mut flushes = Flushes::default();
    let begin = |flushes: &mut Flushes, published: &[u64]| {
        let id = flushes.begin(About::Messages, [], [((0, 77), 7)], None);
        flushes.set_published(id, published.to_vec());
        poll(flushes);
        id
    };
    let [first, second] = [0, 1].map(|_| begin(&mut flushes, &[0, 20, 5]));
    let losers = vec![Loser { node: 70, chain: 1, number: 12 }];
    let answer = |number| Answer {
        is_pending: false,
        from: 77,
        to: 0,
        number,
        silent: Vec::new(),
        is_stale: false,
        losers: losers.clone(),
    };
    let here = [Loser { node: 8, chain: 2, number: 5 }];
    flushes.hear((0, 77), &answer(first));
    assert_eq!(flushes.losers(first, &here), BTreeSet::from([8, 70]));
    flushes.end(first);
    flushes.hear((0, 77), &answer(second));
    assert_eq!(flushes.losers(second, &here), BTreeSet::from([8, 70]), "it began before that was told");
    flushes.end(second);
    let third = begin(&mut flushes, &[0, 30, 5]);
    flushes.hear((0, 77), &answer(third));
    assert_eq!(flushes.losers(third, &here), BTreeSet::new(), "it was told");
    let later = [Loser { node: 8, chain: 1, number: 35 }];
    assert_eq!(flushes.losers(third, &later), BTreeSet::from([8]), "that was published after it began");
    flushes.end(third);
    let fourth = begin(&mut flushes, &[0, 40, 5]);
    assert_eq!(flushes.losers(fourth, &later), BTreeSet::from([8]), "the one that waits for it says it, too");
}

#[test]
fn whoever_was_silent_is_named_when_it_answers_if_it_lost_something() {
    let mut flushes = Flushes::default();
    let begin = |flushes: &mut Flushes| {
        let id = flushes.begin(About::Messages, [], [((0, 77), 7)], None);
        flushes.set_published(id, vec![0, 20]);
        poll(flushes);
        id
    };
    let first = begin(&mut flushes);
    hear(&mut flushes, first, (0, 77), &[8], false);
    let other = [Loser { node: 9, chain: 1, number: 15 }];
    assert_eq!(flushes.losers(first, &other), BTreeSet::from([9]));
    flushes.end(first);
    let second = begin(&mut flushes);
    let both = [other[0], Loser { node: 8, chain: 1, number: 12 }];
    assert_eq!(flushes.losers(second, &both), BTreeSet::from([8, 9]));
}

#[test]
fn a_flush_that_was_given_up_or_not_asked_told_nobody_of_losses() {
    let mut flushes = Flushes::default();
    let id = flushes.begin(About::Messages, [], [((0, 77), 7)], None);
    flushes.set_published(id, vec![0, 20]);
    flushes.end(id);
    let unasked = flushes.begin(About::Messages, [], [], None);
    flushes.set_published(unasked, vec![0, 20]);
    flushes.end(unasked);
    let id = flushes.begin(About::Messages, [], [], None);
    assert_eq!(flushes.losers(id, &[Loser { node: 8, chain: 1, number: 12 }]), BTreeSet::from([8]));
}

#[test]
fn routers_tell_on_who_lost_something_behind_others_and_behind_themselves() {
    let mut flushes = Flushes::default();
    let asker = Some(Asker { router: (0, 77), number: 5, origin: (55, 3) });
    let id = flushes.begin(About::Messages, [], [((1, 99), 9)], asker);
    poll(&mut flushes);
    let (far, near) = (Loser { node: 70, chain: 1, number: 12 }, Loser { node: 8, chain: 1, number: 4 });
    let silent = Vec::new();
    let answer =
        Answer { from: 99, to: 0, number: id, is_pending: false, silent, is_stale: false, losers: vec![far] };
    flushes.hear((1, 99), &answer);
    assert_eq!(flushes.over(), [(id, (55, 3), 0)]);
    let said = flushes.poll(&BTreeMap::from([(id, vec![near])]), &[]);
    assert_eq!(said, [((0, 77), Saying::Answer(5, vec![], false, vec![near, far]))]);
    assert!(flushes.flushes.is_empty());
}

#[test]
fn a_flush_is_over_when_every_lane_of_every_link_was_sent_asked_for_and_answered() {
    let mut flushes = Flushes::default();
    let id = flushes.begin(About::Messages, [((0, 1), 100), ((0, 2), 0), ((1, 1), 50)], [], None);
    assert!(flushes.is_waiting(0) && flushes.is_waiting(1));
    flushes.ask(0, |_| 99, |_| true);
    flushes.answered(0, 1, &[]);
    assert_eq!(flushes.state(id), FlushState::Pending, "the answer is to an earlier question");
    flushes.ask(0, |_| 100, |_| true);
    assert!(!flushes.is_waiting(0));
    flushes.answered(0, 1, &[7]);
    assert_eq!(flushes.state(id), FlushState::Pending);
    flushes.ask(1, |_| 50, |_| true);
    flushes.answered(1, 1, &[]);
    assert_eq!(flushes.state(id), FlushState::Done(vec![7]));
    flushes.end(id);
    assert!(flushes.flushes.is_empty());
}

#[test]
fn only_a_flush_that_everybody_answered_confirms_what_was_published_before_it() {
    let mut flushes = Flushes::default();
    let begin = |flushes: &mut Flushes, published| {
        let id = flushes.begin(About::Messages, [], [((0, 77), 7)], None);
        flushes.set_published(id, vec![0, published]);
        poll(flushes);
        id
    };
    let [waiting, silent, good] = [30, 20, 10].map(|published| begin(&mut flushes, published));
    flushes.end(waiting);
    hear(&mut flushes, silent, (0, 77), &[70], false);
    flushes.end(silent);
    assert_eq!(flushes.confirmed(), 0);
    hear(&mut flushes, good, (0, 77), &[], false);
    flushes.end(good);
    assert_eq!(flushes.confirmed(), 10);
}

#[test]
fn a_link_that_fails_ends_the_flushes_that_wait_for_it_and_one_that_closes_does_not_hold_them() {
    let mut flushes = Flushes::default();
    let [one, two] = [0, 1].map(|link| flushes.begin(About::Messages, [((link, 1), 1)], [], None));
    flushes.lose(0, Some(&Arc::from("cut")));
    flushes.lose(1, None);
    assert_eq!(flushes.state(one), FlushState::Failed("cut".into()));
    assert_eq!(flushes.state(two), FlushState::Done(vec![]));
}

#[test]
fn a_router_is_asked_once_it_has_everything_and_those_behind_it_count() {
    let mut flushes = Flushes::default();
    let id = flushes.begin(About::Messages, [((0, 1), 10)], [((0, 77), 7), ((0, 88), 8)], None);
    assert_eq!(poll(&mut flushes), []);
    flushes.ask(0, |_| 10, |_| true);
    flushes.answered(0, 1, &[]);
    let asks = |router| ((0, router), Saying::Ask(id, About::Messages, None));
    assert_eq!(poll(&mut flushes), [asks(77), asks(88)]);
    assert_eq!(poll(&mut flushes), [], "once");
    hear(&mut flushes, id, (0, 77), &[70], false);
    assert_eq!(flushes.state(id), FlushState::Pending);
    flushes.keep_routers(0, |router| router == 77);
    assert_eq!(flushes.state(id), FlushState::Done(vec![8, 70]), "one that is gone has not answered");
}

#[test]
fn a_neighbour_that_is_no_router_is_asked_and_nobody_misses_it_when_it_goes() {
    let mut flushes = Flushes::default();
    let id = flushes.begin(About::Interest, [], [((0, 77), 7)], None);
    flushes.add_leaves(id, [((1, 88), 8), ((2, 99), 9)]);
    let asks = |router| (router, Saying::Ask(id, About::Interest, None));
    assert_eq!(poll(&mut flushes), [asks((0, 77)), asks((1, 88)), asks((2, 99))]);
    hear(&mut flushes, id, (0, 77), &[], false);
    hear(&mut flushes, id, (1, 88), &[], false);
    assert_eq!(flushes.state(id), FlushState::Pending);
    flushes.lose(2, None);
    assert_eq!(flushes.state(id), FlushState::Done(vec![]));
}

#[test]
fn a_question_is_answered_when_all_behind_us_have_and_forgotten() {
    let mut flushes = Flushes::default();
    let asker = |number| Some(Asker { router: (0, 77), number, origin: (55, 3) });
    let asked = flushes.begin(About::Interest, [], [((1, 99), 9)], asker(5));
    assert_eq!(poll(&mut flushes), [((1, 99), Saying::Ask(asked, About::Interest, Some((55, 3))))]);
    hear(&mut flushes, asked, (1, 99), &[], false);
    assert_eq!(poll(&mut flushes), [((0, 77), Saying::Answer(5, vec![], false, vec![]))]);
    assert!(flushes.flushes.is_empty());
    flushes.begin(About::Interest, [], [], asker(6));
    assert_eq!(
        poll(&mut flushes),
        [((0, 77), Saying::Answer(6, vec![], false, vec![]))],
        "nobody is behind us"
    );
}

#[test]
fn a_question_that_comes_again_is_known_and_so_is_one_that_came_round() {
    let mut flushes = Flushes::default();
    let asker = Asker { router: (0, 77), number: 5, origin: (55, 3) };
    assert_eq!(flushes.find(&asker), Heard::New);
    flushes.begin(About::Messages, [], [((1, 99), 9)], Some(asker));
    assert_eq!(flushes.find(&asker), Heard::Again);
    assert_eq!(flushes.find(&Asker { router: (1, 88), ..asker }), Heard::Elsewhere);
    assert_eq!(flushes.find(&Asker { origin: (55, 4), ..asker }), Heard::New);
}

#[test]
fn where_a_link_broke_and_another_is_taken_up_that_one_is_waited_for() {
    let mut flushes = Flushes::default();
    let id = flushes.begin(About::Messages, [((0, 1), 100)], [((0, 77), 7)], None);
    let asker = Some(Asker { router: (1, 55), number: 5, origin: (55, 3) });
    let asked = flushes.begin(About::Messages, [((0, 1), 100)], [], asker);
    flushes.await_link(1);
    flushes.give_up(0);
    assert_eq!(flushes.state(id), FlushState::Pending, "what goes over the other link is not known yet");
    assert_eq!(flushes.state(asked), FlushState::Done(vec![]), "it was asked over the other one");
    flushes.ask(1, |_| 1 << 40, |_| true);
    flushes.take_up(1, &[0, 50, 0], &[((1, 88), 8)]);
    assert_eq!(poll(&mut flushes).len(), 1, "the answer to the second");
    flushes.ask(1, |_| 50, |_| true);
    flushes.answered(1, 1, &[]);
    assert_eq!(poll(&mut flushes), [((1, 88), Saying::Ask(id, About::Messages, None))]);
    hear(&mut flushes, id, (1, 88), &[], false);
    assert_eq!(
        flushes.state(id),
        FlushState::Pending,
        "somebody may be behind a router now that was not asked for it"
    );
    assert_eq!(flushes.to_restart(), [(id, About::Messages)]);
    flushes.restart(id, [((1, 1), 50)], [((1, 88), 8)]);
    assert_eq!(flushes.to_restart(), []);
    flushes.ask(1, |_| 50, |_| true);
    flushes.answered(1, 1, &[]);
    let [(router, Saying::Ask(question, ..))] = poll(&mut flushes)[..] else { panic!("one is asked") };
    assert_ne!(question, id, "it is another question to everybody");
    hear(&mut flushes, id, router, &[], false);
    assert_eq!(flushes.state(id), FlushState::Pending, "an answer to the question before");
    hear(&mut flushes, question, router, &[], false);
    assert_eq!(flushes.state(id), FlushState::Done(vec![]), "the router that broke is not named");
}

#[test]
fn whoever_waited_for_a_link_that_rests_now_says_so_and_who_asked_at_first_asks_again() {
    let mut flushes = Flushes::default();
    let asker = Some(Asker { router: (1, 55), number: 5, origin: (55, 3) });
    flushes.begin(About::Messages, [((0, 1), 100), ((2, 1), 100)], [], asker);
    flushes.note_resting(0);
    for link in [0, 2] {
        flushes.ask(link, |_| 100, |_| true);
        flushes.answered(link, 1, &[]);
    }
    assert_eq!(poll(&mut flushes), [((1, 55), Saying::Answer(5, vec![], true, vec![]))]);
    let id = flushes.begin(About::Messages, [], [((0, 77), 7)], None);
    for attempt in 0..=ATTEMPTS_MAX {
        assert_eq!(flushes.state(id), FlushState::Pending, "attempt {attempt}");
        let [(router, Saying::Ask(question, ..))] = poll(&mut flushes)[..] else { panic!("one is asked") };
        hear(&mut flushes, question, router, &[], true);
        if attempt < ATTEMPTS_MAX {
            assert_eq!(flushes.to_restart(), [(id, About::Messages)]);
            flushes.restart(id, [], [((0, 77), 7)]);
        }
    }
    assert_eq!(flushes.state(id), FlushState::Pending, "answers about other paths confirm nothing");
    assert_eq!(flushes.to_restart(), [], "it does not go on without a pause");
    assert!(flushes.is_unsettled(id) && flushes.is_asking(0));
    flushes.ask_again(0);
    assert_eq!(flushes.to_restart(), [(id, About::Messages)]);
    flushes.restart(id, [], [((0, 77), 7)]);
    let [(router, Saying::Ask(question, ..))] = poll(&mut flushes)[..] else { panic!("one is asked") };
    hear(&mut flushes, question, router, &[], false);
    assert_eq!(flushes.state(id), FlushState::Done(vec![]));
}

#[test]
fn a_router_that_failed_before_a_flush_is_named_by_the_next_one_alone_and_not_for_ever() {
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    let mut flushes = Flushes::default();
    let flush = |flushes: &mut Flushes| {
        let id = flushes.begin(About::Messages, [], [], None);
        flushes.set_published(id, vec![0, 3]);
        let state = flushes.state(id);
        flushes.end(id);
        state
    };
    let failed = |at| Failed { at, publisher: 77, is_ours: true };
    flushes.note_failed(7, failed(at(1)));
    let sync = flushes.begin(About::Interest, [], [], None);
    assert_eq!(flushes.state(sync), FlushState::Done(vec![]), "it is not about messages");
    assert_eq!(flush(&mut flushes), FlushState::Done(vec![7]));
    assert_eq!(flush(&mut flushes), FlushState::Done(vec![]), "it was named");
    flushes.note_failed(7, failed(at(5)));
    flushes.forget_failed(at(34));
    assert_eq!(flush(&mut flushes), FlushState::Done(vec![7]));
    flushes.note_failed(7, failed(at(5)));
    flushes.forget_failed(at(35));
    assert_eq!(flush(&mut flushes), FlushState::Done(vec![]));
}

#[test]
fn a_router_names_those_that_are_missed_to_everybody_who_asks_about_messages() {
    let mut flushes = Flushes::default();
    let asker = |number| Some(Asker { router: (1, 55), number, origin: (55, number) });
    let (messages, interest) =
        (flushes.begin(About::Messages, [], [], asker(1)), flushes.begin(About::Interest, [], [], asker(2)));
    let said = flushes.poll(&BTreeMap::from([(messages, vec![]), (interest, vec![])]), &[7]);
    let answer = |number, silent| ((1, 55), Saying::Answer(number, silent, false, vec![]));
    assert_eq!(said, [answer(1, vec![7]), answer(2, vec![])]);
}

#[test]
fn a_link_that_is_about_to_be_taken_up_and_rests_after_all_holds_nobody() {
    let mut flushes = Flushes::default();
    let asker = Some(Asker { router: (1, 55), number: 5, origin: (55, 3) });
    flushes.begin(About::Messages, [((0, 0), u64::MAX)], [], asker);
    assert_eq!(poll(&mut flushes), [], "it is not known yet what goes over it");
    flushes.note_resting(0);
    assert_eq!(poll(&mut flushes), [((1, 55), Saying::Answer(5, vec![], true, vec![]))]);
}

#[test]
fn whoever_has_not_answered_is_asked_again() {
    let mut flushes = Flushes::default();
    let id = flushes.begin(About::Messages, [], [((0, 77), 7), ((1, 88), 8)], None);
    assert_eq!(poll(&mut flushes).len(), 2);
    hear(&mut flushes, id, (1, 88), &[], false);
    assert!(flushes.is_asking(0) && !flushes.is_asking(1));
    assert_eq!(flushes.awaited(id), [7]);
    flushes.ask_again(1);
    assert_eq!(poll(&mut flushes), []);
    flushes.ask_again(0);
    assert_eq!(poll(&mut flushes), [((0, 77), Saying::Ask(id, About::Messages, None))]);
}

#[test]
fn whoever_asks_again_learns_whom_a_router_waits_for_and_so_does_whoever_asked_that() {
    let mut middle = Flushes::default();
    let asker = Asker { router: (0, 1), number: 5, origin: (1, 5) };
    let lanes = [((1, 1), 100), ((2, 1), 0), ((3, 1), 100)];
    middle.begin(About::Messages, lanes, [((4, 99), 9)], Some(asker));
    let alone = BTreeMap::from([(1, 70), (2, 71)]);
    poll(&mut middle);
    assert_eq!(middle.awaited_for(&asker, &alone), [9, 70], "many are behind the third link");
    let says = |silent, is_pending| Answer {
        from: 99,
        to: 0,
        number: 1,
        is_pending,
        silent,
        is_stale: false,
        losers: Vec::new(),
    };
    middle.hear((4, 99), &says(vec![72], true));
    assert_eq!(middle.awaited_for(&asker, &alone), [70, 72]);
    assert_eq!(middle.awaited_for(&Asker { number: 6, ..asker }, &alone), [], "that was not asked");

    let mut first = Flushes::default();
    let id = first.begin(About::Messages, [], [((4, 99), 9)], None);
    poll(&mut first);
    assert_eq!(first.behind(id), []);
    first.hear((4, 99), &says(vec![70, 72], true));
    assert_eq!((first.behind(id), first.state(id)), (vec![(9, vec![70, 72])], FlushState::Pending));
    first.hear((4, 99), &says(vec![70], false));
    assert_eq!((first.behind(id), first.state(id)), (vec![], FlushState::Done(vec![70])));
}
