//! From the log onto the bus: rows that were committed are published as they are.

use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::PyString;
use shoal_log::Query;
use shoal_wire::MessageView;

use super::Log;
use crate::bus::Node;
use crate::bus::exit::detached;
use crate::convert::duration;
use crate::errors;

/// Publishes rows, in order, until so many are out or members take no more for `timeout_s`. Returns the offset after the
/// last one.
#[pyfunction]
pub fn publish_rows(
    py: Python<'_>,
    log: &Log,
    node: &Node,
    start: u64,
    end: u64,
    rows_max: usize,
    timeout_s: f64,
) -> PyResult<u64> {
    let deadline = Instant::now() + duration("timeout_s", timeout_s)?;
    let shared = log.here()?;
    let query = Query::range(start, end);
    let mut cursor = detached(py, || shared.cursor(&query)).map_err(errors::store)?;
    let mut topic: Option<Bound<'_, PyString>> = None;
    let mut reached = start;
    for _ in 0..rows_max {
        let Some(row) = cursor.next().map_err(errors::store)? else { return Ok(end) };
        let view = MessageView::parse(row.record).map_err(|error| errors::unreadable(&error))?;
        let name = std::str::from_utf8(view.name_bytes()).map_err(|error| errors::unreadable(&error))?;
        let known = match topic.take() {
            Some(known) if known.to_str()? == name => known,
            _ => PyString::new(py, name),
        };
        match node.publish_record(py, &known, row.record, deadline) {
            Ok(_) => reached = row.offset + 1,
            Err(error) if errors::is_full(py, &error) => break,
            Err(error) => return Err(error),
        }
        topic = Some(known);
    }
    Ok(reached)
}
