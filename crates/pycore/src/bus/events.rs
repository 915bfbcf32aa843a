//! Events of a bus as Python sees them.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_io::bus::BusEvent;
use shoal_node::Departure;
use shoal_norm::NodeId;

/// What kind of event, which node it is about, and its details.
pub type EventTuple<'py> = (&'static str, NodeId, Bound<'py, PyDict>);

pub fn event_to_python<'py>(py: Python<'py>, event: &BusEvent) -> PyResult<EventTuple<'py>> {
    let details = PyDict::new(py);
    let (kind, node) = match event {
        BusEvent::Joined(node) => ("joined", node),
        BusEvent::Gone(node, departure) => {
            details.set_item("failed", *departure == Departure::Failed)?;
            ("gone", node)
        }
        BusEvent::Subscriptions(node, added, removed) => {
            details.set_item("added", added)?;
            details.set_item("removed", removed)?;
            ("subscriptions", node)
        }
        BusEvent::Lost(node, lane, segments) => {
            details.set_item("lane", lane)?;
            details.set_item("segments", segments)?;
            ("lost", node)
        }
        BusEvent::Slow(node) => ("slow", node),
        BusEvent::Unreadable(node, why) => {
            details.set_item("why", why)?;
            ("unreadable", node)
        }
    };
    Ok((kind, *node, details))
}
