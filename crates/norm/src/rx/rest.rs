//! Giving back the memory of a sender that is not expected to say more, without forgetting where its streams are:
//! should it speak again they go on from there, with nothing twice.

use super::entry::StreamEntry;
use super::remote::Remote;
use super::scope::Scope;
use super::stream::RxStream;
use super::window::{EMPTY, Slot, Window};

impl Remote {
    /// Gives back what is not needed to go on reading where the readers are. False if something waits to be read.
    pub fn rest(&mut self, scope: &mut Scope<'_>) -> bool {
        let is_drained = self.is_drained();
        if is_drained {
            self.rest_streams(scope);
        }
        is_drained
    }

    pub(super) fn rest_streams(&mut self, scope: &mut Scope<'_>) {
        let open = self.streams.iter_mut().filter_map(StreamEntry::open_mut);
        *scope.memory_left += open.map(RxStream::rest).sum::<usize>();
    }
}

impl RxStream {
    /// Keeps its place, and what can be read, and nothing else. Returns how many bytes that gives back.
    pub(super) fn rest(&mut self) -> usize {
        let held = self.memory();
        self.window.shrink();
        if let Some(parity) = &mut self.blocks.parity {
            parity.clear();
        }
        held - self.memory()
    }
}

impl Window {
    /// Keeps only what lies before the first gap. What came after it is missing again.
    pub(super) fn shrink(&mut self) {
        let slots = ((self.complete - self.base) as usize).max(1).next_power_of_two();
        if slots >= self.entries.len() {
            return;
        }
        for segment in self.complete..self.end.min(self.base + self.entries.len() as u64) {
            let slot = self.slot(segment);
            self.present -= u64::from(self.entries[slot].slot == Slot::Present);
            self.missing += u64::from(self.entries[slot].slot != Slot::Missing);
            self.entries[slot] = EMPTY;
        }
        self.resize(slots);
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::Insert;
    use super::super::window::tests::{SEGMENT, SLOT, missing, put, window};

    #[test]
    fn a_window_that_shrank_goes_on_where_its_reader_is() {
        let mut window = window(0);
        for segment in [0, 1, 2, 5, 40] {
            put(&mut window, segment);
        }
        (0..3).for_each(|_| window.release_first());
        window.shrink();
        assert_eq!(window.memory(), SLOT);
        assert_eq!(
            (window.first, missing(&window)),
            (3, vec![(3, 41)]),
            "what lay beyond the gap is missing"
        );
        for segment in [5, 3, 40, 4] {
            assert_eq!(put(&mut window, segment), Insert::New);
        }
        assert_eq!(window.run(0).len(), 3 * SEGMENT);
        assert_eq!(put(&mut window, 2), Insert::Duplicate, "what was read is not read twice");
    }

    #[test]
    fn a_window_that_shrinks_keeps_what_can_be_read() {
        let mut window = window(0);
        (0..40).for_each(|segment| assert_eq!(put(&mut window, segment), Insert::New));
        (0..37).for_each(|_| window.release_first());
        window.shrink();
        assert_eq!(window.memory(), 4 * SLOT);
        let read: Vec<u8> = (37..40u32).flat_map(u32::to_be_bytes).collect();
        assert_eq!(window.run(0), read);
    }
}
