//! The method `publish` of a connection: one of the extension, so that a message costs no call of Python, and one of a
//! class, so that programs can override it, replace it in tests, and call it on a connection that they keep nowhere.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use super::Node;
use crate::errors;

/// The base class of `shoal.Bus`.
#[pyclass(name = "Bus", module = "shoal._core", frozen, subclass)]
pub struct Publisher {
    node: PyOnceLock<Py<Node>>,
}

#[pymethods]
impl Publisher {
    /// Python's `__init__` takes the arguments.
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> Publisher {
        Publisher { node: PyOnceLock::new() }
    }

    /// Publishes through this node, from now on.
    fn _publish_through(&self, py: Python<'_>, node: Py<Node>) {
        let _ = self.node.set(py, node);
    }

    /// Publish a message. It is on its way when this returns, and kept if it is persistent.
    ///
    /// Returns the message's number, or a `Receipt` if it is persistent. The Python API of the documentation describes each
    /// argument, and what is raised.
    #[pyo3(signature = (
        topic, body = None, *, properties = None, priority = None, ttl_s = None, correlation_id = None,
        reply_to = None, r#type = None, persistent = None, delivery_delay_s = None, timestamp = None,
        connection = None, window = None, timeout_s = None, retain = None, trace = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn publish<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        body: Option<&Bound<'py, PyAny>>,
        properties: Option<&Bound<'_, PyAny>>,
        priority: Option<&Bound<'_, PyAny>>,
        ttl_s: Option<&Bound<'_, PyAny>>,
        correlation_id: Option<&Bound<'_, PyAny>>,
        reply_to: Option<&Bound<'_, PyAny>>,
        r#type: Option<&Bound<'_, PyAny>>,
        persistent: Option<&Bound<'_, PyAny>>,
        delivery_delay_s: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        connection: Option<&Bound<'_, PyAny>>,
        window: Option<&Bound<'_, PyAny>>,
        timeout_s: Option<&Bound<'_, PyAny>>,
        retain: Option<&Bound<'_, PyAny>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let node = self.node.get(py).ok_or_else(errors::closed)?.get();
        node.publish(
            py,
            topic,
            body,
            properties,
            priority,
            ttl_s,
            correlation_id,
            reply_to,
            r#type,
            persistent,
            delivery_delay_s,
            timestamp,
            connection,
            window,
            timeout_s,
            retain,
            None,
            0.0,
            None,
            trace,
        )
    }
}
