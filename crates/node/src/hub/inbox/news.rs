//! What becomes known of a source beside its bytes.

use shoal_norm::Time;
use shoal_wire::{Mark, frame};

use super::{Inbox, SourceId};

/// What a link learns of a source beside its bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SourceNews {
    /// The first message that counts has this number.
    Begins(u64),
    /// From the first number up to the end, which is not among them, its sender did not count on us: what it did not
    /// send may have been for us.
    NotCounted(u64, u64),
    /// Nothing comes after this number.
    Ends(u64),
}

impl Inbox {
    /// What becomes known of a source beside its bytes, which were read.
    pub fn note(&mut self, now: Time, id: SourceId, news: SourceNews, reads: bool) {
        let Some(Some(stream)) = self.streams.get_mut(id) else { return };
        let own = stream.own;
        if own.0 == 0 {
            return;
        }
        match news {
            SourceNews::Begins(number) => {
                // Its sender counts us as a member from there on. Of a chain that is known it may have skipped something before.
                let mut accept = self.place.accept();
                if number > 1 && reads && accept.is_routed() && accept.next(own) == 0 {
                    // What was before may be on another path.
                    accept.need(now, own, Some((self.place.link, own.0)), number);
                } else if number > 0 && accept.begin(now, own, number, self.staged.outbound.version) {
                    drop(accept);
                    stream.own_notes().trust = Some(0);
                }
            }
            SourceNews::NotCounted(first, end) => {
                self.place.accept().begin(now, own, first.max(1), self.staged.outbound.version);
                stream.distrust();
                stream.own_notes().doubt = end;
            }
            SourceNews::Ends(last) => {
                let mut accept = self.place.accept();
                accept.end(now, own, last);
                if (1..=last).contains(&accept.next(own)) {
                    // What waited for a queue, or was cut off, comes another way, or is lost.
                    accept.need(now, own, None, last + 1);
                }
            }
        }
    }

    /// What a stream says that ends after this number: in order with its messages, whether or not the mark before them is here.
    pub fn ending(&self, id: SourceId, last: u64) -> Option<Vec<u8>> {
        let stream = self.streams.get(id)?.as_ref()?;
        let (mut record, mut bytes) = (Vec::new(), Vec::new());
        let (source, chain, number, version) = (None, stream.own.1, last.checked_add(1)?, stream.version);
        let (timestamp_us, clock_us, earlier_us, answered) = (0, 0, 0, None);
        Mark { source, chain, number, timestamp_us, clock_us, version, earlier_us, answered }
            .write(&mut record);
        frame::write(&record, &mut bytes);
        Some(bytes)
    }
}
