//! What becomes known of a source beside its bytes.

use shoal_norm::Time;
use shoal_wire::{Mark, frame};

use super::super::chain::LinkId;
use super::super::notes::Hold;
use super::super::origins::Holder;
use super::super::passing::{Chain, HOPS_UNKNOWN};
use super::taking::Taking;
use super::{Inbox, SourceId, Told};

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
    /// What becomes known of a source beside its bytes. What is lost thereby is passed on to the links that ask for
    /// something.
    pub fn note(
        &mut self,
        now: Time,
        id: SourceId,
        news: SourceNews,
        asking: &[LinkId],
        mut told: impl FnMut(Told),
    ) {
        if let SourceNews::NotCounted(_, end) = news {
            self.doubt_passed(now, id, end, asking, &mut told);
        }
        let passes = self.passes;
        let Some(Some(stream)) = self.streams.get_mut(id) else { return };
        let own = stream.own;
        let notes = stream.own_notes();
        let (source, passed) = (notes.source, Chain { hops: HOPS_UNKNOWN, ..notes.chain() });
        let outbound = &mut self.staged.outbound;
        let mut hear = |news: Told| {
            if let (Told::Lost(_, first, last), true) = (news, passes && source.publisher > 0) {
                outbound.add_lost(&passed, (first, last), asking);
            }
            told(news);
        };
        let mut begins = false;
        if !matches!(news, SourceNews::Begins(_)) {
            let mut touched = Vec::new();
            let mut taking = Taking {
                now,
                place: &self.place,
                source: id,
                own,
                touched: &mut touched,
                begins: false,
                passes,
                reads_since: Time::NEVER,
            };
            if notes.hold == Hold::Free || notes.hold == Hold::Ours && !notes.busy {
                let _ = taking.ask(notes, notes.awaited(), &mut hear);
            }
            begins = taking.begins;
            // Nothing of it waits to be delivered then.
            notes.busy &= touched.is_empty();
        }
        let (is_ours, holder) = (notes.hold == Hold::Ours, Holder { link: self.place.link, source: id });
        match news {
            SourceNews::Begins(number) if notes.awaited() == 0 => notes.expected = number,
            SourceNews::Begins(_) => {}
            SourceNews::NotCounted(first, end) => {
                if notes.awaited() == 0 {
                    notes.expected = first;
                }
                // Skips are noted only while the chain is taken from here, so nobody else brought what they stand for.
                notes.skips.not_counted(first, end, |(first, last)| hear(Told::Lost(source, first, last)));
            }
            SourceNews::Ends(last) => {
                notes.reach(last.saturating_add(1), &mut hear);
                if is_ours {
                    self.place.origins().end(now, own, holder);
                }
                if begins && passes && last > 0 && source.publisher > 0 {
                    outbound.add_begins(&passed, notes.number, asking);
                }
            }
        }
        if is_ours && !notes.busy {
            // What was told as lost now, nobody tells again.
            self.place.origins().progress(now, own, holder, notes.awaited().max(notes.floor));
        }
    }

    /// What a stream says that ends after this number: in order with its messages, whether or not the mark before them is here.
    pub fn ending(&self, id: SourceId, last: u64) -> Option<Vec<u8>> {
        let stream = self.streams.get(id)?.as_ref().filter(|stream| stream.unnumbered.len() > 0)?;
        let (mut record, mut bytes) = (Vec::new(), Vec::new());
        let (source, chain, number, version) = (None, stream.own.1, last.checked_add(1)?, stream.version);
        let (timestamp_us, clock_us, earlier_us, answered) = (0, 0, 0, None);
        Mark { source, chain, number, timestamp_us, clock_us, version, earlier_us, answered }
            .write(&mut record);
        frame::write(&record, &mut bytes);
        Some(bytes)
    }

    /// A source did not count on us before this number of its own. Of what it passes on it does not say for which numbers that was.
    fn doubt_passed(
        &mut self,
        now: Time,
        id: SourceId,
        end: u64,
        asking: &[LinkId],
        told: &mut impl FnMut(Told),
    ) {
        let Some(Some(stream)) = self.streams.get_mut(id) else { return };
        if stream.own_notes().skips.knows_absence(end) {
            return;
        }
        let (own, passes, outbound) = (stream.own, self.passes, &mut self.staged.outbound);
        let all = stream.others.values_mut().chain([&mut stream.notes]);
        for notes in all.filter(|notes| notes.key() != own) {
            let chain = Chain { hops: HOPS_UNKNOWN, ..notes.chain() };
            notes.doubt_recent(now, &mut |news| {
                if let (Told::Lost(_, first, last), true) = (news, passes) {
                    outbound.add_lost(&chain, (first, last), asking);
                }
                told(news);
            });
        }
    }
}
