use super::*;

pub const SEGMENT: usize = 4;
/// What a slot for it costs.
pub const SLOT: usize = SLOT_BYTES_MIN;

pub fn window(first: u64) -> Window {
    Window::new(first, 1, SEGMENT, 64 * SLOT, &mut usize::MAX.clone()).unwrap()
}

pub fn put(window: &mut Window, segment: u64) -> Insert {
    let header = SegmentHeader { length: 4, message_start: 1, offset: segment as u32 * 4 };
    window.insert(segment, header, &(segment as u32).to_be_bytes(), &mut usize::MAX.clone())
}

pub fn missing(window: &Window) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    window.missing_runs(0, |Range { start: from, end: to }| {
        runs.push((from, to));
        true
    });
    runs
}

#[test]
fn full_segments_are_read_in_one_run() {
    let mut window = window(100);
    for segment in [100, 101, 102, 104] {
        assert_eq!(put(&mut window, segment), Insert::New);
    }
    assert_eq!(window.run(0).len(), 3 * SEGMENT);
    assert_eq!(window.run(2).len(), 3 * SEGMENT - 2);
    assert_eq!(missing(&window), [(103, 104)]);
    assert_eq!(put(&mut window, 104), Insert::Duplicate);
    assert_eq!(put(&mut window, 103), Insert::New);
    assert_eq!(window.run(0).len(), 5 * SEGMENT);
}

#[test]
fn a_copy_with_another_number_is_asked_for_again_and_what_says_the_same_twice_is_believed() {
    let mut window = window(0);
    let moved = SegmentHeader { length: 4, message_start: 1, offset: 400 };
    put(&mut window, 0);
    assert_eq!(window.insert(2, moved, b"copy", &mut usize::MAX.clone()), Insert::New);
    put(&mut window, 1);
    assert_eq!((window.complete, missing(&window)), (2, vec![(2, 3)]));
    assert_eq!(put(&mut window, 2), Insert::New, "this is the one that belongs there");
    assert_eq!(window.insert(3, moved, b"copy", &mut usize::MAX.clone()), Insert::Misplaced);
    assert_eq!(window.insert(3, moved, b"copy", &mut usize::MAX.clone()), Insert::New);
    assert_eq!((window.complete, missing(&window)), (4, vec![]));
}

#[test]
fn what_was_not_sent_after_all_is_not_missing() {
    let mut window = window(0);
    for segment in [0, 1, 3, 40] {
        put(&mut window, segment);
    }
    window.extend(5_000);
    window.retract(4);
    assert_eq!((window.end, missing(&window)), (4, vec![(2, 3)]));
    (4..60).for_each(|segment| assert_eq!(put(&mut window, segment), Insert::New));
    put(&mut window, 2);
    assert_eq!(window.complete, 60);
    assert!(!window.has_missing());
}

#[test]
fn grows_with_the_distance_and_refuses_beyond_its_bound() {
    let mut window = window(0);
    put(&mut window, 0);
    assert_eq!(put(&mut window, 40), Insert::New);
    assert_eq!(window.run(0), 0u32.to_be_bytes());
    assert_eq!(put(&mut window, 64), Insert::Beyond);
    assert_eq!(missing(&window), [(1, 40), (41, 64)]);
}

#[test]
fn a_reader_that_fell_behind_by_more_than_the_window_learns_what_it_misses() {
    let mut window = window(0);
    assert_eq!(put(&mut window, 100), Insert::Beyond);
    assert!(window.has_missing());
    assert_eq!(missing(&window), [(0, 64)]);
}

#[test]
fn a_window_without_memory_says_so() {
    let mut left = 20 * SLOT;
    let mut window = Window::new(0, 1, SEGMENT, 64 * SLOT, &mut left).unwrap();
    let header = SegmentHeader { length: 4, message_start: 0, offset: 0 };
    assert_eq!(window.insert(20, header, &[0; 4], &mut left), Insert::NoMemory);
    assert!(Window::new(0, 1, SEGMENT, 64 * SLOT, &mut left).is_none());
}

#[test]
fn starts_over_at_its_first_slot_when_all_was_read() {
    let mut window = window(0);
    for segment in 0..1000 {
        put(&mut window, segment);
        assert_eq!(window.run(0), (segment as u32).to_be_bytes());
        window.release_first();
        assert_eq!(window.slot(window.first), 0);
    }
}

#[test]
fn what_was_given_up_is_passed_by_the_reader() {
    let mut window = window(0);
    put(&mut window, 0);
    put(&mut window, 3);
    assert_eq!(window.give_up_before(3), 0);
    assert_eq!(window.complete, 4);
    assert!(window.reader_header().is_some());
    window.release_first();
    assert!(window.reader_header().is_none());
    assert!(!window.has_missing());
}

#[test]
fn a_refusal_far_ahead_moves_an_empty_window() {
    let mut window = window(10);
    window.extend(500);
    assert_eq!(window.give_up_before(400), 390);
    assert_eq!((window.first, window.complete), (400, 400));
    assert_eq!(missing(&window), [(400, 464)]);
}

#[test]
fn a_block_is_kept_until_nothing_of_it_is_missing_though_its_start_was_read() {
    let mut window = Window::new(0, 4, SEGMENT, 64 * SLOT, &mut usize::MAX.clone()).unwrap();
    for segment in [0, 1, 3] {
        put(&mut window, segment);
    }
    window.release_first();
    window.release_first();
    assert!(window.held(0).is_some() && window.held(1).is_some() && window.held(2).is_none());
    put(&mut window, 2);
    assert!(window.held(1).is_none(), "the block is complete, and this was read");
    assert!(window.held(3).is_some(), "this waits for the reader");
}

#[test]
fn it_grows_by_what_arrived_and_not_by_how_far_ahead_somebody_claims_to_be() {
    let mut window = Window::new(0, 1, SEGMENT, 1 << 20, &mut usize::MAX.clone()).unwrap();
    assert_eq!(put(&mut window, 10_000), Insert::Beyond);
    assert_eq!(window.memory(), 16 * SLOT);
    assert_eq!(missing(&window), [(0, 64)], "no more is asked for than could be kept");
    (0..1000).for_each(|segment| assert_eq!(put(&mut window, segment), Insert::New));
    assert_eq!(missing(&window), [(1000, 4096)]);
    assert_eq!(put(&mut window, 4000), Insert::New);
}

#[test]
fn what_there_is_to_know_of_short_segments_counts() {
    let mut left = 1 << 20;
    let mut window = Window::new(0, 1, 1, 16 << 20, &mut left).unwrap();
    let header = SegmentHeader { length: 1, message_start: 1, offset: 0 };
    let mut segment = 0;
    while window.insert(segment, header, b"x", &mut left) == Insert::New {
        segment += 1;
    }
    assert!(segment <= (1 << 20) / SLOT as u64, "{segment} segments");
    assert!(window.entries.capacity() * size_of::<Entry>() + window.bytes.capacity() <= 1 << 20);
}
