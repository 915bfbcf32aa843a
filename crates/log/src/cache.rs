//! Messages that were read from the log and are not delivered yet, their records one behind another in one buffer.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::row::Row;
use crate::rows::Meta;

/// Once what was taken out is so long, the rest moves together.
const HOLES_BYTES_MAX: usize = 1 << 20;

struct Place {
    meta: Meta,
    start: usize,
    length: usize,
}

/// Rows by their offset.
#[derive(Default)]
pub struct Cache {
    places: BTreeMap<u64, Place>,
    records: Vec<u8>,
    bytes: usize,
}

impl Cache {
    /// Bytes of the records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a row is here.
    pub fn has(&self, offset: u64) -> bool {
        self.places.contains_key(&offset)
    }

    /// Keeps a row, unless it is here already.
    pub fn put(&mut self, row: &Row<'_>) {
        let (start, length) = (self.records.len(), row.record.len());
        if let Entry::Vacant(place) = self.places.entry(row.offset) {
            let Row { publisher, chain, number, timestamp_us, .. } = *row;
            let meta = Meta { publisher, chain, number, timestamp_us };
            place.insert(Place { meta, start, length });
            self.records.extend_from_slice(row.record);
            self.bytes += length;
        }
    }

    /// Takes one out, and looks at it.
    pub fn take<R>(&mut self, offset: u64, look: impl FnOnce(&Meta, &[u8]) -> R) -> Option<R> {
        let Place { meta, start, length } = self.places.remove(&offset)?;
        let result = look(&meta, &self.records[start..start + length]);
        self.bytes -= length;
        if self.places.is_empty() {
            self.records.clear();
        } else if self.records.len() - self.bytes > HOLES_BYTES_MAX {
            self.move_together();
        }
        Some(result)
    }

    fn move_together(&mut self) {
        let mut records = Vec::with_capacity(self.bytes);
        for place in self.places.values_mut() {
            let start = records.len();
            records.extend_from_slice(&self.records[place.start..place.start + place.length]);
            place.start = start;
        }
        self.records = records;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(offset: u64, record: &[u8]) -> Row<'_> {
        Row { offset, stored_us: 0, publisher: 1, chain: 5, number: Some(offset), timestamp_us: 0, record }
    }

    #[test]
    fn records_are_the_same_after_others_were_taken_from_between_them() {
        let mut cache = Cache::default();
        let records: Vec<Vec<u8>> = (0..100u8).map(|at| vec![at; 60_000]).collect();
        for (offset, record) in records.iter().enumerate() {
            cache.put(&row(offset as u64, record));
        }
        for offset in (0..100).filter(|offset| offset % 3 > 0) {
            let taken = cache.take(offset, |_, record| record.to_vec());
            assert_eq!(taken.as_ref(), Some(&records[offset as usize]));
        }
        assert!(cache.records.len() - cache.bytes() <= HOLES_BYTES_MAX);
        for offset in (0..100).filter(|offset| offset % 3 == 0) {
            assert_eq!(cache.take(offset, |meta, _| meta.number), Some(Some(offset)));
        }
        assert_eq!((cache.bytes(), cache.records.len()), (0, 0));
    }

    #[test]
    fn a_record_is_kept_once() {
        let mut cache = Cache::default();
        cache.put(&row(7, &[1; 10]));
        cache.put(&row(7, &[2; 20]));
        assert_eq!((cache.bytes(), cache.has(7)), (10, true));
        assert_eq!(cache.take(7, |_, record| record.to_vec()), Some(vec![1; 10]));
        assert_eq!(cache.take(7, |_, _| ()), None);
    }
}
