//! Messages inside a frame.
//!
//! ```text
//! u32      how many messages
//! then runs of messages of one publisher and chain, up to the end:
//!   u64      publisher
//!   u32      chain
//!   u32      how many messages
//!   then each message:
//!     varint   offsets left out before it (0, except where retention removed some)
//!     varint   number: 0 if not known, otherwise 1 + zigzag(number − the number after the last known one)
//!     varint   zigzag(timestamp − the timestamp before), microseconds since 1970
//!     varint   length of the record
//!              the record, as it travels on the wire
//! ```
//!
//! At the start of a run the number expected is 0, and so is the timestamp before.

use crate::bytes::{Reader, put_varint, u32_at, unzigzag, zigzag};

/// What is known of a message besides its record.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Who published it.
    pub publisher: u64,
    /// Which ordered path of the publisher.
    pub chain: u32,
    /// Its number there, if known.
    pub number: Option<u64>,
    /// When it was published, microseconds since 1970; 0 if not known.
    pub timestamp_us: u64,
}

const RUN_BYTES: usize = 16;

/// Messages on their way into a frame.
#[derive(Clone, Debug)]
pub struct RowsWriter {
    bytes: Vec<u8>,
    count: u32,
    run: Option<Run>,
}

#[derive(Clone, Debug)]
struct Run {
    publisher: u64,
    chain: u32,
    count_at: usize,
    count: u32,
    expected: u64,
    timestamp_us: u64,
}

impl Default for RowsWriter {
    fn default() -> RowsWriter {
        RowsWriter { bytes: vec![0; 4], count: 0, run: None }
    }
}

impl RowsWriter {
    /// Adds a message.
    #[inline]
    pub fn push(&mut self, meta: &Meta, record: &[u8]) {
        self.push_after(0, meta, record);
    }

    /// Adds a message before which some offsets are left out.
    pub fn push_after(&mut self, skipped: u64, meta: &Meta, record: &[u8]) {
        if !self.run.as_ref().is_some_and(|run| run.publisher == meta.publisher && run.chain == meta.chain) {
            self.begin_run(meta);
        }
        let Some(run) = &mut self.run else { return };
        put_varint(&mut self.bytes, skipped);
        match meta.number {
            Some(number) => {
                let difference = number.wrapping_sub(run.expected) as i64;
                // The one number whose code does not fit is as good as unknown: nobody counts that far.
                put_varint(&mut self.bytes, zigzag(difference).checked_add(1).unwrap_or(0));
                run.expected = number.wrapping_add(1);
            }
            None => put_varint(&mut self.bytes, 0),
        }
        let difference = meta.timestamp_us.wrapping_sub(run.timestamp_us) as i64;
        put_varint(&mut self.bytes, zigzag(difference));
        run.timestamp_us = meta.timestamp_us;
        put_varint(&mut self.bytes, record.len() as u64);
        self.bytes.extend_from_slice(record);
        run.count += 1;
        let (count, at) = (run.count, run.count_at);
        self.bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
        self.count += 1;
        self.bytes[..4].copy_from_slice(&self.count.to_le_bytes());
    }

    fn begin_run(&mut self, meta: &Meta) {
        self.bytes.extend_from_slice(&meta.publisher.to_le_bytes());
        self.bytes.extend_from_slice(&meta.chain.to_le_bytes());
        let count_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.run = Some(Run {
            publisher: meta.publisher,
            chain: meta.chain,
            count_at,
            count: 0,
            expected: 0,
            timestamp_us: 0,
        });
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of all.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets them all, but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0; 4]);
        self.count = 0;
        self.run = None;
    }
}

/// A message in a payload: where its record is, and what is known of it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Found {
    pub offset: u64,
    pub meta: Meta,
    pub start: usize,
    pub length: usize,
}

/// The place of a reader in the rows of a payload, which is given with every call.
#[derive(Clone, Debug)]
pub(crate) struct RowsPlace {
    at: usize,
    left: u32,
    left_in_run: u32,
    next_offset: u64,
    expected: u64,
    meta: Meta,
}

/// How many rows a payload says it has.
pub(crate) fn count_of(payload: &[u8]) -> Option<u32> {
    (payload.len() >= 4).then(|| u32_at(payload, 0))
}

impl RowsPlace {
    /// At the first row of a payload whose rows begin at byte `start`.
    pub fn new(payload: &[u8], start: usize, first_offset: u64) -> Option<RowsPlace> {
        let left = count_of(payload.get(start..)?)?;
        Some(RowsPlace {
            at: start + 4,
            left,
            left_in_run: 0,
            next_offset: first_offset,
            expected: 0,
            meta: Meta::default(),
        })
    }

    /// The next row; `Ok(None)` at the end. An error means that the payload is not what it says.
    #[inline]
    pub fn next(&mut self, payload: &[u8]) -> Result<Option<Found>, ()> {
        if self.left == 0 {
            return Ok(None);
        }
        self.read(payload).map(Some).ok_or(())
    }

    #[inline]
    fn read(&mut self, payload: &[u8]) -> Option<Found> {
        let mut reader = Reader(payload.get(self.at..)?);
        if self.left_in_run == 0 {
            let mut run = Reader(reader.take(RUN_BYTES)?);
            self.meta.publisher = run.u64()?;
            self.meta.chain = run.u32()?;
            self.left_in_run = run.u32().filter(|&count| count > 0)?;
            self.meta.timestamp_us = 0;
            self.expected = 0;
        }
        let offset = self.next_offset.checked_add(reader.varint()?)?;
        self.meta.number = match reader.varint()? {
            0 => None,
            code => {
                let number = self.expected.wrapping_add(unzigzag(code - 1) as u64);
                self.expected = number.wrapping_add(1);
                Some(number)
            }
        };
        self.meta.timestamp_us = self.meta.timestamp_us.wrapping_add(unzigzag(reader.varint()?) as u64);
        let length = usize::try_from(reader.varint()?).ok()?;
        let start = payload.len() - reader.0.len();
        reader.take(length)?;
        self.at = start + length;
        self.left -= 1;
        self.left_in_run -= 1;
        self.next_offset = offset.checked_add(1)?;
        Some(Found { offset, meta: self.meta, start, length })
    }
}

/// A row where it lies: its offset, what is known of it, its record.
pub type PlacedRow<'a> = (u64, Meta, &'a [u8]);

/// Rows read one by one where they lie.
#[derive(Clone, Debug)]
pub struct RowsReader<'a> {
    payload: &'a [u8],
    place: RowsPlace,
}

impl<'a> RowsReader<'a> {
    /// Reads rows whose first one has this offset, less what is left out before it; none if these are no rows.
    pub fn new(payload: &'a [u8], first_offset: u64) -> Option<RowsReader<'a>> {
        Some(RowsReader { payload, place: RowsPlace::new(payload, 0, first_offset)? })
    }

    /// The next row; `Ok(None)` at the end. An error means that these are no rows.
    #[allow(clippy::result_unit_err, reason = "there is nothing to say beyond that")]
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<PlacedRow<'a>>, ()> {
        let found = self.place.next(self.payload)?;
        Ok(found.map(|row| (row.offset, row.meta, &self.payload[row.start..][..row.length])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(payload: &[u8], first: u64) -> Vec<(u64, Meta, Vec<u8>)> {
        let mut place = RowsPlace::new(payload, 0, first).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = place.next(payload).unwrap() {
            rows.push((row.offset, row.meta, payload[row.start..][..row.length].to_vec()));
        }
        rows
    }

    fn meta() -> impl Strategy<Value = Meta> {
        (0..3u64, 0..2u32, prop::option::of(prop_oneof![0..9u64, any::<u64>()]), any::<u64>()).prop_map(
            |(publisher, chain, number, timestamp_us)| Meta { publisher, chain, number, timestamp_us },
        )
    }

    proptest! {
        #[test]
        fn rows_come_back_as_they_were_put_in(
            rows in prop::collection::vec((0..3u64, meta(), prop::collection::vec(any::<u8>(), 0..200)), 0..50),
            first in 0..1_000_000u64,
        ) {
            let mut writer = RowsWriter::default();
            let (mut expected, mut offset) = (Vec::new(), first);
            for (skipped, meta, record) in rows {
                // The one number that is taken for unknown.
                let meta = Meta { number: meta.number.filter(|number| *number < 1 << 62), ..meta };
                writer.push_after(skipped, &meta, &record);
                expected.push((offset + skipped, meta, record));
                offset += skipped + 1;
            }
            prop_assert_eq!(writer.count() as usize, expected.len());
            prop_assert_eq!(read_all(writer.bytes(), first), expected);
        }

        #[test]
        fn bytes_of_any_kind_never_panic(payload: Vec<u8>, first: u64) {
            if let Some(mut place) = RowsPlace::new(&payload, 0, first) {
                while let Ok(Some(_)) = place.next(&payload) {}
            }
        }
    }

    #[test]
    fn messages_of_one_publisher_in_a_row_cost_four_bytes_each() {
        let mut writer = RowsWriter::default();
        let mut sizes = Vec::new();
        for number in 0..3 {
            let meta =
                Meta { publisher: 1, chain: 2, number: Some(1_000_000 + number), timestamp_us: 1 << 50 };
            writer.push(&meta, b"record");
            sizes.push(writer.bytes().len());
        }
        assert_eq!(sizes[2] - sizes[1], 4 + b"record".len());
    }
}
