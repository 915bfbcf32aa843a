//! Rows that a store forwards to the next one: of many publishers, each row under the identity its publisher gave it.

use std::collections::HashMap;

use shoal_wire::MessageView;

use crate::row::Row;
use crate::rows::{Meta, RowsPlace, RowsWriter};
use crate::turn::{IntakeError, count_for};

/// The first chain of transactions: rows of such a chain that were stored together are committed together.
const FIRST_TRANSACTION: u32 = 6;

/// Rows of one publisher and chain that follow each other in a request, with numbers that grow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NumberRun {
    /// Who published them.
    pub publisher: u64,
    /// On which ordered path.
    pub chain: u32,
    /// The lowest number.
    pub first: u64,
    /// The highest number.
    pub last: u64,
}

/// Rows that another store forwarded, looked through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Whose they are, in their order. Rows without a number are in none of them.
    pub runs: Vec<NumberRun>,
    /// The longest record.
    pub longest: usize,
}

/// Numbers of a chain that a store has: each from after the first up to and with the second.
pub type Known = HashMap<(u64, u32), Vec<(u64, u64)>>;

/// Name, messages and bytes of records, of each destination.
pub type Destinations = Vec<(String, u64, u64)>;

impl Forwarded {
    /// Looks through rows of any publishers.
    pub fn check(payload: &[u8]) -> Result<Forwarded, IntakeError> {
        let unreadable = |at: u32, why: &dyn std::fmt::Display| IntakeError::Unreadable(at, why.to_string());
        let mut place = RowsPlace::new(payload, 0, 0).ok_or_else(|| unreadable(0, &"it is cut off"))?;
        let (mut found, mut at) = (Forwarded::default(), 0);
        while let Some(row) = place.next(payload).map_err(|()| unreadable(at, &"it is cut off"))? {
            let record = &payload[row.start..row.start + row.length];
            let view = MessageView::parse(record).map_err(|error| unreadable(at, &error))?;
            view.check().map_err(|error| unreadable(at, &error))?;
            found.longest = found.longest.max(record.len());
            if let Some(number) = row.meta.number {
                found.note(row.meta.publisher, row.meta.chain, number);
            }
            at += 1;
        }
        Ok(found)
    }

    fn note(&mut self, publisher: u64, chain: u32, number: u64) {
        match self.runs.last_mut() {
            Some(run) if (run.publisher, run.chain) == (publisher, chain) && run.last < number => {
                run.last = number;
            }
            _ => self.runs.push(NumberRun { publisher, chain, first: number, last: number }),
        }
    }

    /// The rows that are not known, and where they go. They were [checked](Forwarded::check).
    pub fn sift(payload: &[u8], known: &Known) -> (RowsWriter, Destinations) {
        let (mut rows, mut destinations) = (RowsWriter::default(), Vec::new());
        let Some(mut place) = RowsPlace::new(payload, 0, 0) else { return (rows, destinations) };
        while let Ok(Some(row)) = place.next(payload) {
            let is_known = row.meta.number.is_some_and(|number| {
                let runs = known.get(&(row.meta.publisher, row.meta.chain));
                runs.is_some_and(|runs| runs.iter().any(|&(after, last)| after < number && number <= last))
            });
            if is_known {
                continue;
            }
            let record = &payload[row.start..row.start + row.length];
            if let Ok(view) = MessageView::parse(record) {
                count_for(&mut destinations, view.name_bytes(), record.len() as u64);
                rows.push(&row.meta, record);
            }
        }
        (rows, destinations)
    }
}

/// What a store sends to the next one in one request.
#[derive(Clone, Debug, Default)]
pub struct Portion {
    /// The rows.
    pub rows: RowsWriter,
    /// The offset after the last row that was looked at.
    pub next: u64,
    /// Messages and bytes of records that were passed, also those that expired.
    pub messages: u64,
    /// The bytes.
    pub bytes: u64,
    /// The transaction of the last row.
    last: Option<(u64, u32, u64)>,
}

impl Portion {
    /// Nothing yet, from an offset on.
    pub fn new(start: u64) -> Portion {
        Portion { next: start, ..Portion::default() }
    }

    /// Takes a row; false if the portion is full and the row belongs to the next one. Messages that are not persistent and
    /// those that expired are left out. What has a time to live, or a delay, says how long it was held here.
    pub fn take(&mut self, row: &Row<'_>, now_us: u64, rows_max: u32, bytes_max: usize) -> bool {
        // Rows of one transaction lie in one frame, which has one time.
        let unit = (row.chain >= FIRST_TRANSACTION).then_some((row.publisher, row.chain, row.stored_us));
        let is_full = self.rows.count() >= rows_max || self.rows.bytes().len() >= bytes_max;
        if is_full && (unit.is_none() || unit != self.last) {
            return false;
        }
        self.next = row.offset + 1;
        let Ok(view) = MessageView::parse(row.record) else { return true };
        if !view.is_persistent() {
            return true;
        }
        self.messages += 1;
        self.bytes += row.record.len() as u64;
        let meta = Meta {
            publisher: row.publisher,
            chain: row.chain,
            number: row.number,
            timestamp_us: row.timestamp_us,
        };
        match held(row, &view, now_us) {
            Held::Expired => return true,
            Held::Record(record) => self.rows.push(&meta, &record),
            Held::Unchanged => self.rows.push(&meta, row.record),
        }
        self.last = unit;
        true
    }
}

enum Held {
    Unchanged,
    Record(Vec<u8>),
    Expired,
}

/// A message that leaves this store, where it spent some time.
fn held(row: &Row<'_>, view: &MessageView<'_>, now_us: u64) -> Held {
    let Ok(mut message) = view.to_outgoing() else { return Held::Unchanged };
    let fields = &mut message.fields;
    if fields.ttl_us.is_none() && fields.delivery_delay_us.is_none() {
        return Held::Unchanged;
    }
    let held_us = fields.held_us.unwrap_or(0).saturating_add(now_us.saturating_sub(row.stored_us));
    if fields.ttl_us.is_some_and(|ttl_us| ttl_us <= held_us) {
        return Held::Expired;
    }
    fields.held_us = Some(held_us);
    let mut record = Vec::with_capacity(row.record.len() + 16);
    match message.encode_into(&mut record) {
        Ok(()) => Held::Record(record),
        Err(_) => Held::Unchanged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_wire::{BodyKind, Destination, Outgoing, Topic};

    fn record(name: &str, change: impl FnOnce(&mut Outgoing<'_>)) -> Vec<u8> {
        let mut record = Vec::new();
        let destination = Destination::topic(Topic::new(name).unwrap());
        let mut message = Outgoing::new(destination, BodyKind::Bytes, b"body");
        message.persistent = true;
        change(&mut message);
        message.encode_into(&mut record).unwrap();
        record
    }

    fn row(offset: u64, chain: u32, stored_us: u64, record: &[u8]) -> Row<'_> {
        Row { offset, stored_us, publisher: 7, chain, number: Some(offset + 1), timestamp_us: 1, record }
    }

    fn rows(rows: &[(u64, u32, u64)]) -> RowsWriter {
        let mut writer = RowsWriter::default();
        for &(publisher, chain, number) in rows {
            let meta = Meta { publisher, chain, number: Some(number), timestamp_us: 1 };
            writer.push(&meta, &record(if number % 2 == 0 { "a" } else { "b" }, |_| ()));
        }
        writer
    }

    #[test]
    fn rows_of_many_publishers_come_as_runs_whose_numbers_grow() {
        let sent = rows(&[(1, 5, 11), (1, 5, 13), (2, 5, 1), (1, 5, 3), (1, 5, 4), (1, 6, 9)]);
        let found = Forwarded::check(sent.bytes()).unwrap();
        let runs: Vec<_> =
            found.runs.iter().map(|run| (run.publisher, run.chain, run.first, run.last)).collect();
        assert_eq!(runs, [(1, 5, 11, 13), (2, 5, 1, 1), (1, 5, 3, 4), (1, 6, 9, 9)]);
        for length in 0..sent.bytes().len() {
            assert!(Forwarded::check(&sent.bytes()[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn rows_that_a_store_has_are_left_out() {
        let sent = rows(&[(1, 5, 3), (1, 5, 4), (1, 5, 11), (2, 5, 4)]);
        let known = Known::from([((1, 5), vec![(3, 9)])]);
        let (new, destinations) = Forwarded::sift(sent.bytes(), &known);
        assert_eq!(new.bytes(), rows(&[(1, 5, 3), (1, 5, 11), (2, 5, 4)]).bytes());
        let names: Vec<_> = destinations.iter().map(|(name, count, _)| (name.as_str(), *count)).collect();
        assert_eq!(names, [("b", 2), ("a", 1)]);
    }

    #[test]
    fn a_transaction_is_never_cut_and_the_next_one_is_not_added() {
        let plain = record("a", |_| ());
        let mut portion = Portion::new(0);
        assert!(portion.take(&row(0, 6, 50, &plain), 60, 1, 1 << 20));
        assert!(portion.take(&row(1, 6, 50, &plain), 60, 1, 1 << 20));
        assert!(!portion.take(&row(2, 6, 51, &plain), 60, 1, 1 << 20));
        assert_eq!((portion.rows.count(), portion.next, portion.messages), (2, 2, 2));
        let mut portion = Portion::new(0);
        assert!(portion.take(&row(0, 5, 50, &plain), 60, 1, 1 << 20));
        assert!(!portion.take(&row(1, 5, 50, &plain), 60, 1, 1 << 20));
    }

    #[test]
    fn time_to_live_counts_custody_and_what_expired_is_passed_by() {
        let mortal = record("a", |message| message.fields.ttl_us = Some(100));
        let mut portion = Portion::new(0);
        assert!(portion.take(&row(0, 5, 1000, &mortal), 1040, 10, 1 << 20));
        let mut reader = crate::RowsReader::new(portion.rows.bytes(), 0).unwrap();
        let (_, _, first) = reader.next_row().unwrap().unwrap();
        assert_eq!(MessageView::parse(first).unwrap().fields().unwrap().held_us, Some(40));
        // The next store had it for 50 more, and the one behind that sees it expire.
        let mut portion = Portion::new(0);
        assert!(portion.take(&row(0, 5, 2000, first), 2050, 10, 1 << 20));
        assert_eq!(portion.rows.count(), 1);
        let mut portion = Portion::new(0);
        assert!(portion.take(&row(4, 5, 2000, first), 2060, 10, 1 << 20));
        assert_eq!((portion.rows.count(), portion.messages, portion.next), (0, 1, 5));
    }

    #[test]
    fn messages_that_are_not_persistent_are_not_forwarded() {
        let fleeting = record("a", |message| message.persistent = false);
        let mut portion = Portion::new(3);
        assert!(portion.take(&row(3, 5, 1, &fleeting), 1, 10, 1 << 20));
        assert_eq!((portion.rows.count(), portion.messages, portion.next), (0, 0, 4));
    }
}
