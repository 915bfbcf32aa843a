//! Members that share a key hear each other; nobody else is heard, nothing is heard twice, and no recording is believed.

use std::net::SocketAddr;
use std::time::Duration;

use shoal_seal::{GroupKey, Keys, Notice, OVERHEAD_BYTES, Seal};

fn keys(bytes: &[u8]) -> Keys {
    let lines: Vec<String> = bytes.iter().map(|byte| GroupKey::new([*byte; 32]).to_text()).collect();
    Keys::parse(&lines.join("\n")).unwrap()
}

fn member(name: u8, group: &[u8]) -> Seal {
    let mut random = fastrand::Rng::with_seed(name.into());
    Seal::new(keys(group), move || std::array::from_fn(|_| random.u8(..)))
}

fn address(name: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, name], 7400))
}

/// Datagrams as one member puts them on the network.
fn say(seal: &mut Seal, words: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let each = seal.seal_run(words, 4, &mut out);
    out.chunks(each).map(<[u8]>::to_vec).collect()
}

/// What a member reads of datagrams.
fn hear(seal: &mut Seal, from: u8, datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let now = Duration::from_secs(1);
    let read = datagrams.iter().filter_map(|datagram| {
        let mut datagram = datagram.clone();
        seal.open(now, address(from), &mut datagram).map(<[u8]>::to_vec)
    });
    let mut read: Vec<Vec<u8>> = read.collect();
    read.extend(std::iter::from_fn(|| seal.poll_released()).map(|(_, bytes)| bytes));
    read
}

/// Carries challenges and answers until there are none. Returns what is read by each.
fn acquaint(one: (u8, &mut Seal), other: (u8, &mut Seal)) -> [Vec<Vec<u8>>; 2] {
    let mut read = [Vec::new(), Vec::new()];
    for _ in 0..4 {
        while let Some((_, datagram)) = one.1.poll_transmit() {
            read[1].extend(hear(other.1, one.0, &[datagram]));
        }
        while let Some((_, datagram)) = other.1.poll_transmit() {
            read[0].extend(hear(one.1, other.0, &[datagram]));
        }
    }
    read
}

#[test]
fn members_hear_each_other_after_a_challenge_and_lose_nothing() {
    let (mut one, mut two) = (member(1, &[7]), member(2, &[7]));
    let first = say(&mut one, b"helloworld");
    assert_eq!(first[0].len(), 4 + OVERHEAD_BYTES, "equally long ones stay so");
    assert_eq!(first.len(), 3);
    assert!(hear(&mut two, 1, &first).is_empty(), "it may be a recording");
    let [_, read] = acquaint((1, &mut one), (2, &mut two));
    assert_eq!(read.concat(), b"helloworld");
    let second = say(&mut one, b"again");
    assert_eq!(hear(&mut two, 1, &second).concat(), b"again", "from now on at once");
}

#[test]
fn nothing_is_read_that_was_changed_or_said_before() {
    let (mut one, mut two) = (member(1, &[7]), member(2, &[7]));
    let first = say(&mut one, b"word");
    hear(&mut two, 1, &first);
    acquaint((1, &mut one), (2, &mut two));
    let word = say(&mut one, b"more");
    for at in 0..word[0].len() {
        for bit in 0..8 {
            let mut changed = word[0].clone();
            changed[at] ^= 1 << bit;
            assert!(hear(&mut two, 1, &[changed]).is_empty(), "byte {at}, bit {bit}");
        }
    }
    assert_eq!(hear(&mut two, 1, &word).concat(), b"more");
    for _ in 0..3 {
        assert!(hear(&mut two, 1, &word).is_empty(), "it was read already");
        assert!(hear(&mut two, 1, &first).is_empty());
    }
    let own = say(&mut two, b"mine");
    assert!(hear(&mut two, 1, &own).is_empty(), "nobody tells us what we said");
}

#[test]
fn a_recorded_session_is_not_believed_by_a_newcomer() {
    let (mut one, mut two) = (member(1, &[7]), member(2, &[7]));
    let mut recorded = say(&mut one, b"buy!");
    hear(&mut two, 1, &recorded);
    // Everything is recorded, the answer to the challenge too.
    while let Some((_, datagram)) = two.poll_transmit() {
        hear(&mut one, 2, &[datagram]);
    }
    while let Some((_, datagram)) = one.poll_transmit() {
        recorded.push(datagram);
    }
    assert_eq!(hear(&mut two, 1, &recorded[1..]).concat(), b"buy!");
    let mut newcomer = member(3, &[7]);
    for _ in 0..10 {
        assert!(hear(&mut newcomer, 1, &recorded).is_empty());
    }
    assert!(newcomer.poll_transmit().is_some(), "it asks, and nobody answers");
}

#[test]
fn a_wrong_key_is_told_once_at_both_ends() {
    let (mut one, mut two) = (member(1, &[7]), member(2, &[8]));
    for _ in 0..5 {
        let (hello, hi) = (say(&mut one, b"hello"), say(&mut two, b"hi"));
        assert!(hear(&mut two, 1, &hello).is_empty() && hear(&mut one, 2, &hi).is_empty());
    }
    for (seal, from) in [(&mut one, 2), (&mut two, 1)] {
        let told: Vec<Notice> = std::iter::from_fn(|| seal.poll_notice()).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        let line = told[0].to_string();
        assert!(line.contains(&address(from).to_string()) && line.contains("key"), "{line}");
        assert!(seal.poll_transmit().is_none(), "a stranger is not challenged");
    }
    let norm = [vec![0x12, 4, 0, 1, 0, 0, 0, 9], vec![0; 60]].concat();
    assert!(hear(&mut one, 9, &[norm.clone(), norm]).is_empty());
    assert_eq!(one.poll_notice(), Some(Notice::NoKey { from: address(9) }));
    for byte in 0..=255 {
        assert!(hear(&mut one, 10, &[vec![byte; 60]]).is_empty());
    }
    assert_eq!(one.poll_notice(), None, "noise is nobody's");
}

#[test]
fn a_group_changes_its_key_without_stopping() {
    let (mut one, mut two) = (member(1, &[7]), member(2, &[7]));
    let talk = |one: &mut Seal, two: &mut Seal| {
        let words = say(one, b"word");
        let mut read = hear(two, 1, &words);
        let [_, more] = acquaint((1, one), (2, two));
        read.extend(more);
        read.concat()
    };
    assert_eq!(talk(&mut one, &mut two), b"word");
    for (first, second) in
        [(&[7, 8], &[7]), (&[7, 8], &[7, 8]), (&[8, 7], &[7, 8]), (&[8, 7], &[8, 7])] as [(&[u8], &[u8]); 4]
    {
        one.set_keys(keys(first));
        two.set_keys(keys(second));
        assert_eq!(talk(&mut one, &mut two), b"word", "{first:?} {second:?}");
    }
    one.set_keys(keys(&[8]));
    two.set_keys(keys(&[8]));
    assert_eq!(talk(&mut one, &mut two), b"word");
    let mut left_out = member(3, &[7]);
    let words = say(&mut left_out, b"word");
    assert!(hear(&mut two, 3, &words).is_empty(), "the old key opens nothing any more");
}

#[test]
fn recordings_of_many_runs_make_a_member_keep_no_more_than_it_may() {
    let mut victim = member(1, &[7]);
    let words = vec![9; 60_000];
    let mut sealed = Vec::new();
    for name in 0..2_000u64 {
        let mut random = fastrand::Rng::with_seed(1_000 + name);
        let mut old = Seal::new(keys(&[7]), move || std::array::from_fn(|_| random.u8(..)));
        old.seal_run(&words, words.len(), &mut sealed);
        assert!(victim.open(Duration::from_millis(name), address(9), &mut sealed).is_none());
    }
    let kept = victim.kept_bytes();
    assert!((8 << 20..=16 << 20).contains(&kept), "{kept} bytes");
    victim.set_keys(keys(&[8]));
    assert_eq!(victim.kept_bytes(), 0);
}

#[test]
fn two_runs_with_one_key_never_seal_alike() {
    let (mut one, mut two) = (member(1, &[7]), member(2, &[7]));
    assert_ne!(say(&mut one, b"same"), say(&mut two, b"same"));
    assert_ne!(say(&mut one, b"same"), say(&mut one, b"same"));
}

#[test]
fn whatever_comes_nothing_panics_and_nothing_grows_without_bound() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut seal = member(1, &[7]);
    for round in 0..200_000u32 {
        let length = random.usize(..120);
        let mut datagram: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        if length > 4 && round % 2 == 0 {
            datagram[0] |= 0xf0;
            datagram[1..4].copy_from_slice(&GroupKey::new([7; 32]).id().0);
        }
        let from = SocketAddr::from(([10, 1, random.u8(..), random.u8(..)], 1));
        assert!(seal.open(Duration::from_millis(round.into()), from, &mut datagram).is_none());
    }
    assert!(std::iter::from_fn(|| seal.poll_notice()).count() <= 64);
    assert_eq!(seal.refused, 200_000);
}
