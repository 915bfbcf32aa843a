//! Which of several queues goes next: deficit round robin within one precedence (Shreedhar and Varghese, 1996).
//!
//! A queue with a smaller precedence always goes first. Queues of one precedence go in rounds. In each round a queue may send its
//! weight times the quantum, and what it sent beyond that counts against its next round. Within a round the queues go in
//! their order, so that an urgent queue that has sent little waits for nothing but the run that is being sent; and the least
//! urgent one sends in every round. A queue that is empty saves nothing up for later rounds.

/// One queue's part of what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Queues with a smaller one go first.
    pub precedence: u8,
    weight: i64,
    /// Bytes that it may still send in this round; less than 0 if its last run was longer than it might be.
    credit: i64,
}

impl Default for Share {
    fn default() -> Share {
        Share::new(0, 1)
    }
}

impl Share {
    /// A queue's part, with a weight from 1 on.
    pub fn new(precedence: u8, weight: u16) -> Share {
        Share { precedence, weight: i64::from(weight.max(1)), credit: 0 }
    }

    /// It sent so many bytes.
    pub fn charge(&mut self, bytes: usize) {
        self.credit -= i64::try_from(bytes).unwrap_or(i64::MAX);
    }

    fn begin_round(&mut self, quantum: i64, wants: bool) {
        let full = self.weight * quantum;
        self.credit = if wants { (self.credit + full).min(full) } else { full };
    }
}

/// The place of the queue that goes next, of those that want to send; [`Share::charge`] it with what it sends. A quantum is
/// about what is sent at once.
pub fn next_to_send<T>(
    queues: &mut [T],
    quantum: usize,
    share: impl Fn(&mut T) -> &mut Share,
    wants: impl Fn(&T) -> bool,
) -> Option<usize> {
    let quantum = i64::try_from(quantum).unwrap_or(i64::MAX >> 16).clamp(1, i64::MAX >> 16);
    let mut precedence = None;
    for queue in queues.iter_mut() {
        if wants(queue) {
            let own = share(queue).precedence;
            precedence = Some(precedence.map_or(own, |least: u8| least.min(own)));
        }
    }
    let precedence = precedence?;
    loop {
        for (place, queue) in queues.iter_mut().enumerate() {
            if wants(queue) {
                let share = share(queue);
                if share.precedence == precedence && share.credit > 0 {
                    return Some(place);
                }
            }
        }
        for queue in queues.iter_mut() {
            let wants = wants(queue);
            let share = share(queue);
            if share.precedence == precedence {
                share.begin_round(quantum, wants);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: usize = 1000;

    /// A queue with so many bytes to send.
    struct Queue(Share, usize);

    fn queues(parts: [(u8, u16, usize); 3]) -> Vec<Queue> {
        parts.map(|(precedence, weight, bytes)| Queue(Share::new(precedence, weight), bytes)).into()
    }

    fn next(queues: &mut [Queue]) -> Option<usize> {
        next_to_send(queues, QUANTUM, |queue| &mut queue.0, |queue| queue.1 > 0)
    }

    /// Sends runs of `run` bytes until so many were sent, and says how many each queue sent.
    fn send(queues: &mut [Queue], run: usize, total: usize) -> Vec<usize> {
        let mut sent = vec![0; queues.len()];
        while sent.iter().sum::<usize>() < total
            && let Some(place) = next(queues)
        {
            let bytes = run.min(queues[place].1);
            queues[place].0.charge(bytes);
            queues[place].1 -= bytes;
            sent[place] += bytes;
        }
        sent
    }

    #[test]
    fn queues_of_one_precedence_share_by_weight_whatever_their_runs() {
        for run in [1, 100, 999, 1000, 1700, 64_000] {
            let mut all = queues([(2, 16, usize::MAX), (2, 4, usize::MAX), (2, 1, usize::MAX)]);
            let sent = send(&mut all, run, 210_000_000);
            for (sent, share) in sent.iter().zip([160e6, 40e6, 10e6]) {
                assert!((*sent as f64 / share - 1.0).abs() < 0.02, "{sent} of {share} in runs of {run}");
            }
        }
    }

    #[test]
    fn a_smaller_precedence_goes_first_and_alone() {
        let mut all = queues([(2, 16, usize::MAX), (1, 1, 5000), (2, 1, usize::MAX)]);
        assert_eq!(send(&mut all, 1000, 5000), [0, 5000, 0]);
        assert_eq!(send(&mut all, 1000, 17_000), [16_000, 0, 1000]);
    }

    #[test]
    fn an_urgent_queue_that_was_empty_goes_next() {
        let mut all = queues([(2, 16, 0), (2, 4, usize::MAX), (2, 1, usize::MAX)]);
        for spent in 0..50 {
            send(&mut all, 1000, 1000);
            all[0].1 = 100;
            assert_eq!(next(&mut all), Some(0), "after {spent} runs of others");
            assert_eq!(send(&mut all, 1000, 100)[0], 100);
        }
    }

    #[test]
    fn one_that_is_empty_saves_nothing_up() {
        let mut all = queues([(2, 16, 0), (2, 4, 0), (2, 1, usize::MAX)]);
        send(&mut all, 1000, 10_000_000);
        all[0].1 = usize::MAX;
        let sent = send(&mut all, 1000, 17_000);
        assert!((16_000..=17_000).contains(&sent[0]), "{sent:?}");
        assert!(send(&mut all, 1000, 17_000)[2] >= 1000, "and the others are not starved");
    }

    #[test]
    fn a_queue_alone_sends_without_waiting_for_rounds() {
        let mut all = queues([(2, 1, 0), (2, 1, 0), (2, 1, 1_000_000)]);
        assert_eq!(send(&mut all, 64_000, 2_000_000), [0, 0, 1_000_000]);
        assert_eq!(next(&mut all), None);
    }
}
