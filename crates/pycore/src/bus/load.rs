//! What a node counted, for Python.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use shoal_node::norm::lane_name;
use shoal_node::{Load, LoadPlace, LoadRow};

/// Totals under their names, `cpu_ns`, and under `rows` each place and lane that counted anything.
pub fn load_to_python<'py>(py: Python<'py>, found: &[LoadRow], cpu_ns: u64) -> PyResult<Bound<'py, PyDict>> {
    let rows = PyList::empty(py);
    for LoadRow { place, lane, load } in found {
        if *load == Load::default() {
            continue;
        }
        let row = PyDict::new(py);
        let (name, link, peer) = match place {
            LoadPlace::Here => ("here", None, None),
            LoadPlace::Link(link, kind, peer) => (kind.as_str(), Some(*link), *peer),
            LoadPlace::Closed => ("closed", None, None),
        };
        row.set_item("place", name)?;
        row.set_item("link", link)?;
        row.set_item("peer", peer)?;
        row.set_item("lane", lane_name(*lane))?;
        set_counters(&row, load)?;
        rows.append(row)?;
    }
    let told = PyDict::new(py);
    set_counters(&told, &total_load(found))?;
    told.set_item("cpu_ns", cpu_ns)?;
    told.set_item("rows", rows)?;
    Ok(told)
}

/// All places and lanes together.
pub fn total_load(found: &[LoadRow]) -> Load {
    let mut total = Load::default();
    for LoadRow { place, load, .. } in found {
        // A message that crosses no link is dropped once, however many links there are.
        let dropped_at_source = if *place == LoadPlace::Here { load.dropped_at_source } else { 0 };
        total += Load { dropped_at_source, ..*load };
    }
    total
}

fn set_counters(into: &Bound<'_, PyDict>, load: &Load) -> PyResult<()> {
    load.named().into_iter().try_for_each(|(name, count)| into.set_item(name, count))
}
