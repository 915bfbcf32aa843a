//! How long messages waited, where that counts: a time to live and a delivery delay begin when a message is sent, and every
//! place where it waits says in it for how long.

use std::time::Duration;

use shoal_log::{RowsReader, RowsWriter};
use shoal_wire::MessageView;

/// What waited for less is as old as it was.
pub const UNAGED: Duration = Duration::from_millis(1);
/// What it takes to say in a record how long it waited.
pub const AGE_BYTES: usize = 16;

/// A record that waited for `age` more than it says; `None` where nobody has to know.
pub fn aged(record: &[u8], age: Duration) -> Option<Vec<u8>> {
    if age < UNAGED {
        return None;
    }
    held(record, |before| before.saturating_add(age))
}

/// A record that is so old; `None` where nobody has to know.
pub fn of_age(record: &[u8], age: Duration) -> Option<Vec<u8>> {
    if age < UNAGED {
        return None;
    }
    held(record, |_| age)
}

fn held(record: &[u8], age: impl FnOnce(Duration) -> Duration) -> Option<Vec<u8>> {
    let mut message = timed(record)?.to_outgoing().ok()?;
    let age = age(Duration::from_micros(message.fields.held_us.unwrap_or(0)));
    message.fields.held_us = Some(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
    let mut aged = Vec::with_capacity(record.len() + AGE_BYTES);
    message.encode_into(&mut aged).ok()?;
    Some(aged)
}

/// Rows, each of which waited for as much more as `age` says of its number; `None` where nobody has to know.
pub fn aged_rows(rows: &[u8], mut age: impl FnMut(u64) -> Duration) -> Option<Vec<u8>> {
    let mut reader = RowsReader::new(rows, 0)?;
    while timed(reader.next_row().ok()??.2).is_none() {}
    let (mut reader, mut writer) = (RowsReader::new(rows, 0)?, RowsWriter::default());
    while let Some((_, meta, record)) = reader.next_row().ok()? {
        let aged = aged(record, age(meta.number.unwrap_or_default()));
        writer.push(&meta, aged.as_deref().unwrap_or(record));
    }
    Some(writer.bytes().to_vec())
}

/// A message whose age counts.
fn timed(record: &[u8]) -> Option<MessageView<'_>> {
    let view = MessageView::parse(record).ok()?;
    view.ttl_us().ok()?.or(view.delivery_delay_us().ok()?)?;
    Some(view)
}
