//! Events of a bus as Python sees them.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_node::HubEvent;
use shoal_node::hub::{Departure, Lost};
use shoal_norm::NodeId;

/// What kind of event, which node it is about, and its details.
pub type EventTuple<'py> = (&'static str, NodeId, Bound<'py, PyDict>);

pub fn event_to_python<'py>(
    py: Python<'py>,
    event: &HubEvent,
    patterns: impl FnOnce() -> Vec<String>,
) -> PyResult<EventTuple<'py>> {
    let details = PyDict::new(py);
    let (kind, node) = match event {
        HubEvent::Joined(node) => ("joined", node),
        HubEvent::Gone(node, departure) => {
            details.set_item("failed", *departure == Departure::Failed)?;
            ("gone", node)
        }
        HubEvent::Subscriptions(node, added, removed) => {
            details.set_item("added", added)?;
            details.set_item("removed", removed)?;
            ("subscriptions", node)
        }
        HubEvent::Lost(Lost { node, publisher, chain, first, last, segments }) => {
            details.set_item("publisher", publisher)?;
            details.set_item("chain", chain)?;
            details.set_item("first", first)?;
            details.set_item("last", last)?;
            details.set_item("segments", segments)?;
            details.set_item("subscriptions", patterns())?;
            ("lost", node)
        }
        HubEvent::Slow(node, process) => {
            let known = process.as_ref();
            details.set_item("host", known.map_or("", |process| &process.host))?;
            details.set_item("pid", known.map_or(0, |process| process.pid))?;
            ("slow", node)
        }
        HubEvent::Unreadable(node, why) => {
            details.set_item("why", why)?;
            ("unreadable", node)
        }
        HubEvent::Renamed(before, node) => {
            details.set_item("before", before)?;
            ("renamed", node)
        }
        HubEvent::LinkFailed(link, why) => {
            details.set_item("link", link)?;
            details.set_item("why", &**why)?;
            ("link_failed", &0)
        }
        HubEvent::LinkDown(link, why) => {
            details.set_item("link", link)?;
            details.set_item("why", why)?;
            ("link_down", &0)
        }
        HubEvent::LinkUp(link, address) => {
            details.set_item("link", link)?;
            details.set_item("address", address)?;
            ("link_up", &0)
        }
        HubEvent::Dropped(count) => {
            details.set_item("count", count)?;
            ("dropped", &0)
        }
    };
    Ok((kind, *node, details))
}
