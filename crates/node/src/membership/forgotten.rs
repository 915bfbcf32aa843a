//! Members that are gone, and may return: what they were told, and from where on they were not counted on.

use std::collections::VecDeque;

use shoal_wire::Position;

/// So many are remembered; of others that return it is not known what they missed.
const FORGOTTEN_MAX: usize = 1024;

#[derive(Debug)]
struct Gone {
    publisher: u64,
    /// What it was told, and may not have heard.
    welcome: Vec<Position>,
    /// The first number of each chain for which it was not counted on.
    first: Vec<u64>,
}

/// The members that are gone, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Forgotten(VecDeque<Gone>);

impl Forgotten {
    /// A member just went.
    pub fn add(&mut self, publisher: u64, welcome: Vec<Position>) {
        if self.0.len() == FORGOTTEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Gone { publisher, welcome, first: Vec::new() });
    }

    /// Those that just went are not counted on from these numbers on.
    pub fn note(&mut self, first: impl Fn() -> Vec<u64>) {
        for gone in self.0.iter_mut().filter(|gone| gone.first.is_empty()) {
            gone.first = first();
        }
    }

    /// One returned: what it was told, and from which numbers on it was not counted on.
    pub fn take(&mut self, publisher: u64) -> Option<(Vec<Position>, Vec<u64>)> {
        let at = self.0.iter().position(|gone| gone.publisher == publisher)?;
        self.0.remove(at).map(|gone| (gone.welcome, gone.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_for_good_and_numbers_are_noted_once() {
        let mut forgotten = Forgotten::default();
        for publisher in 0..=FORGOTTEN_MAX as u64 {
            forgotten.add(publisher, Vec::new());
            forgotten.note(|| vec![publisher]);
        }
        assert_eq!(forgotten.take(0), None);
        assert_eq!(forgotten.take(7), Some((Vec::new(), vec![7])));
        assert_eq!(forgotten.take(7), None);
    }
}
