//! From the log onto the bus: rows that were committed are published under the identity that history gives them.

use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::PyString;
use shoal_log::{Query, Row};
use shoal_wire::{MessageId, MessageView, Outgoing};

use super::Log;
use crate::bus::Node;
use crate::bus::exit::detached;
use crate::convert::duration;
use crate::errors;

/// Publishes rows, in order, until so many are out or members take no more for `timeout_s`. Those below
/// `redelivered_before` may have been published before, and say so. Returns the offset after the last one, and if the next
/// one can never be published, why.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "positions in Python")]
pub fn publish_rows(
    py: Python<'_>,
    log: &Log,
    node: &Node,
    start: u64,
    end: u64,
    rows_max: usize,
    redelivered_before: u64,
    timeout_s: f64,
) -> PyResult<(u64, Option<String>)> {
    let deadline = Instant::now() + duration("timeout_s", timeout_s)?;
    let shared = log.here()?;
    let query = Query::range(start, end);
    let mut cursor = detached(py, || shared.cursor(&query)).map_err(errors::store)?;
    let mut topic: Option<Bound<'_, PyString>> = None;
    let mut record = Vec::new();
    let mut reached = start;
    for _ in 0..rows_max {
        let Some(row) = cursor.next().map_err(errors::store)? else { return Ok((cursor.position(), None)) };
        let view = MessageView::parse(row.record).map_err(|error| errors::unreadable(&error))?;
        let name = std::str::from_utf8(view.name_bytes()).map_err(|error| errors::unreadable(&error))?;
        let known = match topic.take() {
            Some(known) if known.to_str()? == name => known,
            _ => PyString::new(py, name),
        };
        record.clear();
        let is_again = row.offset < redelivered_before;
        as_passed_on(&row, shared.clock_us(), &view, is_again, node.clock_us()?, &mut record)?;
        match node.publish_record(py, &known, &record, deadline) {
            Ok(_) => reached = row.offset + 1,
            Err(error) if errors::is_full(py, &error) => break,
            Err(error) if errors::is_too_long(py, &error) => return Ok((reached, Some(error.to_string()))),
            Err(error) => return Err(error),
        }
        topic = Some(known);
    }
    Ok((reached, None))
}

/// The row as it travels: with its identity and its time, which it has from the store and not from the connection that
/// publishes it. Times count from when it was sent: it says how long the store had it, at `now_us` by the store's clock, and
/// when it is published, by that of its node.
pub fn as_passed_on(
    row: &Row<'_>,
    now_us: u64,
    view: &MessageView<'_>,
    redelivered: bool,
    published_us: u64,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    let stored = view.to_outgoing().map_err(|error| errors::unreadable(&error))?;
    let mut message = Outgoing { redelivered: redelivered || stored.redelivered, ..stored };
    message.fields.origin =
        row.number.map(|number| MessageId { publisher: row.publisher, chain: row.chain, number });
    message.fields.timestamp_us = (row.timestamp_us > 0).then_some(row.timestamp_us);
    message.fields.published_us = None;
    if message.fields.ttl_us.is_some() || message.fields.delivery_delay_us.is_some() {
        message.fields.published_us = Some(published_us);
        if row.stored_us > 0 {
            let held_us =
                now_us.saturating_sub(row.stored_us).saturating_add(message.fields.held_us.unwrap_or(0));
            message.fields.held_us = Some(held_us);
        }
    }
    message.encode_into(out).map_err(|error| errors::unreadable(&error))
}
