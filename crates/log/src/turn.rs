//! What is done in one go: messages and changes of the state in one frame, there together or not at all.
//!
//! ```text
//! u32   bytes of the changes
//!       the changes
//!       the messages, as in a frame of messages
//! ```

use shoal_wire::MessageView;

use crate::bytes::{Reader, u32_at};
use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::Kind;
use crate::log::{Class, Log};
use crate::rows::{Meta, RowsPlace, RowsWriter};
use crate::state::Change;

/// The changes in a turn's payload, and where its rows begin.
pub(crate) fn changes_of(payload: &[u8]) -> Option<(&[u8], usize)> {
    let mut reader = Reader(payload);
    let changes = reader.blob()?;
    Some((changes, 4 + changes.len()))
}

/// Where the rows of a frame with messages begin.
pub(crate) fn rows_start(kind: Kind, payload: &[u8]) -> Option<usize> {
    match kind {
        Kind::Turn => (payload.len() >= 4).then(|| 4 + u32_at(payload, 0) as usize),
        _ => Some(0),
    }
}

/// Why rows that somebody sent are not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntakeError {
    /// They are not what they should be; how many could be read before.
    Unreadable(u32, String),
    /// One is of another publisher or chain than was said.
    Foreign(u32),
    /// A number is missing, or not higher than the one before.
    Unordered(u32),
}

impl std::fmt::Display for IntakeError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IntakeError::Unreadable(at, why) => {
                write!(out, "message {at} of the batch cannot be read: {why}")
            }
            IntakeError::Foreign(at) => {
                write!(out, "message {at} of the batch is of another publisher or chain")
            }
            IntakeError::Unordered(at) => {
                write!(out, "message {at} of the batch has no number, or none above the one before")
            }
        }
    }
}

/// Rows of one chain that somebody sent, looked through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// The first and the last number.
    pub numbers: (u64, u64),
    /// How many of them are new.
    pub new: u32,
    /// Where the new ones go: name, messages, bytes of their records.
    pub destinations: Vec<(String, u64, u64)>,
    /// The longest record.
    pub longest: usize,
}

impl Intake {
    /// Looks through rows that must be of one chain, with numbers that grow. Those above `mark` are new.
    pub fn check(payload: &[u8], publisher: u64, chain: u32, mark: u64) -> Result<Intake, IntakeError> {
        let unreadable = |at: u32, why: &dyn std::fmt::Display| IntakeError::Unreadable(at, why.to_string());
        let mut place = RowsPlace::new(payload, 0, 0).ok_or_else(|| unreadable(0, &"it is cut off"))?;
        let mut intake = Intake::default();
        let mut at = 0;
        while let Some(row) = place.next(payload).map_err(|()| unreadable(at, &"it is cut off"))? {
            if (row.meta.publisher, row.meta.chain) != (publisher, chain) {
                return Err(IntakeError::Foreign(at));
            }
            let number = row.meta.number.filter(|&number| number > intake.numbers.1);
            let number = number.ok_or(IntakeError::Unordered(at))?;
            if at == 0 {
                intake.numbers.0 = number;
            }
            intake.numbers.1 = number;
            let record = &payload[row.start..row.start + row.length];
            let view = MessageView::parse(record).map_err(|error| unreadable(at, &error))?;
            view.check().map_err(|error| unreadable(at, &error))?;
            intake.longest = intake.longest.max(record.len());
            if number > mark {
                intake.new += 1;
                count_for(&mut intake.destinations, view.name_bytes(), record.len() as u64);
            }
            at += 1;
        }
        Ok(intake)
    }
}

/// Counts a message for its destination among (name, messages, bytes).
pub(crate) fn count_for(destinations: &mut Vec<(String, u64, u64)>, name: &[u8], bytes: u64) {
    // Most batches have one destination.
    match destinations.iter_mut().rev().find(|known| known.0.as_bytes() == name) {
        Some((_, messages, total)) => (*messages, *total) = (*messages + 1, *total + bytes),
        None => destinations.push((String::from_utf8_lossy(name).into_owned(), 1, bytes)),
    }
}

/// What one turn makes durable.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// In their order, each with whether it makes sense only with the rows.
    changes: Vec<(Change, bool)>,
    rows: RowsWriter,
    /// Runs of rows that the store publishes: the first, and how many.
    publish: Vec<(u32, u32)>,
    /// Runs of rows that a reader's consumer gets as soon as they are durable: the first, the one after the last, its lease.
    grants: Vec<(String, u32, u32, u64)>,
}

/// Where a turn came to lie.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of its first message.
    pub first: u64,
    /// The offset after its last.
    pub end: u64,
    /// When it was stored.
    pub stored_us: u64,
}

impl Turn {
    /// A change that holds whatever becomes of the rows.
    pub fn change(&mut self, change: Change) {
        self.changes.push((change, false));
    }

    /// A change that holds together with the rows.
    pub fn change_with_rows(&mut self, change: Change) {
        self.changes.push((change, true));
    }

    /// Takes the rows over whose number is above `mark`. They were [checked](Intake::check). Those are to be published by the
    /// store whose destination does not begin with `unpublished`, if that is given.
    pub fn push_rows(&mut self, payload: &[u8], mark: u64, unpublished: Option<&[u8]>) {
        let Some(mut place) = RowsPlace::new(payload, 0, 0) else { return };
        while let Ok(Some(row)) = place.next(payload) {
            if row.meta.number.is_none_or(|number| number <= mark) {
                continue;
            }
            let record = &payload[row.start..row.start + row.length];
            self.push_published(&row.meta, record, unpublished);
        }
    }

    /// Takes rows over that another store [forwarded](crate::Forwarded), all of them; those are to be published as above.
    pub fn push_forwarded(&mut self, payload: &[u8], unpublished: Option<&[u8]>) {
        let Some(mut place) = RowsPlace::new(payload, 0, 0) else { return };
        while let Ok(Some(row)) = place.next(payload) {
            let record = &payload[row.start..row.start + row.length];
            self.push_published(&row.meta, record, unpublished);
        }
    }

    fn push_published(&mut self, meta: &Meta, record: &[u8], unpublished: Option<&[u8]>) {
        if let Some(prefix) = unpublished
            && MessageView::parse(record).is_ok_and(|view| !view.name_bytes().starts_with(prefix))
        {
            self.publish_next();
        }
        self.rows.push(meta, record);
    }

    /// Takes rows over that a store [heard](crate::Hearing), but for those to some destinations.
    pub fn push_heard(&mut self, payload: &[u8], without: &[String]) {
        let Some(mut place) = RowsPlace::new(payload, 0, 0) else { return };
        while let Ok(Some(row)) = place.next(payload) {
            let record = &payload[row.start..row.start + row.length];
            let is_without = |view: MessageView<'_>| {
                without.iter().any(|destination| destination.as_bytes() == view.name_bytes())
            };
            if without.is_empty() || !MessageView::parse(record).is_ok_and(is_without) {
                self.rows.push(&row.meta, record);
            }
        }
    }

    /// Takes one message over.
    pub fn push(&mut self, meta: &Meta, record: &[u8]) {
        self.rows.push(meta, record);
    }

    /// The next row is to be published by the store.
    fn publish_next(&mut self) {
        let at = self.rows.count();
        match self.publish.last_mut() {
            Some((first, count)) if *first + *count == at => *count += 1,
            _ => self.publish.push((at, 1)),
        }
    }

    /// A reader's consumer gets these rows as soon as they are durable, under a lease.
    pub fn grant(&mut self, reader: String, first: u32, end: u32, lease: u64) {
        self.grants.push((reader, first, end, lease));
    }

    /// There was no room for the rows: what belongs to them goes, too.
    pub fn drop_rows(&mut self) {
        self.changes.retain(|(_, is_bound)| !is_bound);
        self.rows.clear();
        self.publish.clear();
        self.grants.clear();
    }

    /// Whether there is nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.rows.is_empty()
    }

    /// Whether it has nothing but what readers are done with, or were granted. If that is lost, those messages come again,
    /// marked; deliveries wait for their grants by themselves.
    pub fn may_wait(&self) -> bool {
        let may = |change: &(Change, bool)| {
            let is_late = matches!(change.0, Change::Done(..) | Change::Granted(..) | Change::Revoked(..));
            is_late && !change.1
        };
        self.rows.is_empty() && self.changes.iter().all(may)
    }

    /// The messages.
    pub fn rows(&self) -> &RowsWriter {
        &self.rows
    }

    fn all_changes(&self, first: u64) -> Vec<Change> {
        let published = self.publish.iter().map(|&(from, count)| {
            let from = first + u64::from(from);
            Change::Publish(from, from + u64::from(count))
        });
        let granted = self.grants.iter().map(|(reader, from, to, lease)| {
            Change::Granted(reader.clone(), first + u64::from(*from), first + u64::from(*to), *lease)
        });
        self.changes.iter().map(|(change, _)| change.clone()).chain(published).chain(granted).collect()
    }
}

impl<D: Disk> Log<D> {
    /// Appends all of a turn, in one frame.
    pub fn append_turn(&mut self, now_us: u64, turn: &Turn) -> Result<Appended, LogError> {
        self.check()?;
        let first = self.end();
        let changes = turn.all_changes(first);
        let mut head = vec![0; 4];
        for change in &changes {
            change.check()?;
            change.write(&mut head);
        }
        let length = (head.len() - 4) as u32;
        head[..4].copy_from_slice(&length.to_le_bytes());
        if turn.rows.is_empty() {
            self.add(Kind::Change, &[&head[4..]], Class::State, now_us)?;
        } else {
            self.add(Kind::Turn, &[&head, turn.rows.bytes()], Class::Messages, now_us)?;
        }
        changes.into_iter().for_each(|change| self.state.apply(change));
        self.bound_deliveries();
        self.end += u64::from(turn.rows.count());
        self.note_end();
        Ok(Appended { first, end: self.end, stored_us: self.stored_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_wire::{BodyKind, Destination, Outgoing, Topic};

    fn record(name: &str) -> Vec<u8> {
        let mut record = Vec::new();
        let destination = Destination::topic(Topic::new(name).unwrap());
        Outgoing::new(destination, BodyKind::Bytes, b"body").encode_into(&mut record).unwrap();
        record
    }

    fn rows(numbers: &[u64]) -> RowsWriter {
        let mut rows = RowsWriter::default();
        for &number in numbers {
            let meta = Meta { publisher: 7, chain: 5, number: Some(number), timestamp_us: 1 };
            rows.push(&meta, &record(if number % 2 == 0 { "a" } else { "_queue/b" }));
        }
        rows
    }

    #[test]
    fn what_came_before_is_counted_out() {
        let intake = Intake::check(rows(&[3, 4, 6, 7]).bytes(), 7, 5, 4).unwrap();
        assert_eq!((intake.numbers, intake.new), ((3, 7), 2));
        let names: Vec<_> =
            intake.destinations.iter().map(|(name, count, _)| (name.as_str(), *count)).collect();
        assert_eq!(names, [("a", 1), ("_queue/b", 1)]);
        let mut turn = Turn::default();
        turn.push_rows(rows(&[3, 4, 6, 7]).bytes(), 4, None);
        assert_eq!(turn.rows().bytes(), rows(&[6, 7]).bytes());
    }

    #[test]
    fn what_was_heard_is_taken_but_for_what_has_no_room() {
        let mut turn = Turn::default();
        turn.push_heard(rows(&[3, 4, 5]).bytes(), &["_queue/b".into()]);
        assert_eq!(turn.rows().bytes(), rows(&[4]).bytes());
        turn.push_heard(rows(&[5]).bytes(), &[]);
        assert_eq!(turn.rows().bytes(), rows(&[4, 5]).bytes());
    }

    #[test]
    fn rows_that_are_not_in_order_or_of_another_chain_are_refused() {
        assert_eq!(Intake::check(rows(&[3, 3]).bytes(), 7, 5, 0), Err(IntakeError::Unordered(1)));
        assert_eq!(Intake::check(rows(&[3]).bytes(), 7, 6, 0), Err(IntakeError::Foreign(0)));
        let whole = rows(&[3, 4]);
        for length in 0..whole.bytes().len() {
            assert!(Intake::check(&whole.bytes()[..length], 7, 5, 0).is_err(), "{length}");
        }
    }

    #[test]
    fn rows_without_room_take_what_belongs_to_them_along() {
        let mut turn = Turn::default();
        turn.change(Change::Came("a".into(), 1, 1));
        turn.change_with_rows(Change::Came("b".into(), 1, 1));
        turn.push_rows(rows(&[1, 2, 4, 5]).bytes(), 0, Some(b"_queue/"));
        turn.grant("a".into(), 1, 3, 9);
        let granted = Change::Granted("a".into(), 11, 13, 9);
        assert_eq!(turn.all_changes(10)[2..], [Change::Publish(11, 13), granted], "queues are not published");
        turn.drop_rows();
        assert_eq!(turn.all_changes(0), [Change::Came("a".into(), 1, 1)]);
        assert!(!turn.is_empty() && turn.rows().is_empty());
    }

    #[test]
    fn changes_keep_their_order_whether_they_belong_to_rows_or_not() {
        let changes = ["a", "b", "c", "d"].map(|name| Change::ForgetReader(name.into()));
        let mut turn = Turn::default();
        for (at, change) in changes.iter().enumerate() {
            let note = if at % 2 == 0 { Turn::change_with_rows } else { Turn::change };
            note(&mut turn, change.clone());
        }
        assert_eq!(turn.all_changes(0), changes);
        turn.drop_rows();
        assert_eq!(turn.all_changes(0), [changes[1].clone(), changes[3].clone()]);
    }
}
