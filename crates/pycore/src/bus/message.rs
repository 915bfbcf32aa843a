//! A message as Python sees it.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use shoal_node::Origin;
use shoal_wire::{BodyKind, DecodeError, Destination, DestinationKind, HeaderFields, MessageView};

use super::{body, typed};
use crate::errors;

/// Where a record has its flags: without any, there is nothing in its head but topic, priority and kind.
const FLAGS_AT: usize = 2;

fn decode_error(error: DecodeError) -> PyErr {
    errors::unreadable(&error)
}

/// A received message. Its parts are decoded when they are asked for.
#[pyclass(module = "shoal._core", frozen, freelist = 4096)]
pub struct Message {
    topic: Py<PyString>,
    body: Py<PyBytes>,
    /// The record up to its body, if there is more in it than topic and priority.
    head: Option<Box<[u8]>>,
    kind: u8,
    priority: u8,
    redelivered: bool,
    origin: Origin,
}

impl Message {
    /// A message from its record.
    pub fn from_record(
        py: Python<'_>,
        record: &[u8],
        view: &MessageView<'_>,
        topic: Py<PyString>,
        origin: Origin,
    ) -> Message {
        let body = view.body();
        let head = &record[..record.len() - body.len()];
        let plain = head[FLAGS_AT] == 0;
        Message {
            topic,
            body: PyBytes::new(py, body).unbind(),
            head: (!plain).then(|| head.into()),
            kind: record[1] & 0x0f,
            priority: view.priority().get(),
            redelivered: view.is_redelivered(),
            origin,
        }
    }

    /// When it was published: as it says itself, or else as its stream says.
    fn timestamp_us(&self) -> PyResult<Option<u64>> {
        let own = self.with_fields(|fields| fields.timestamp_us)?.flatten();
        Ok(own.or((self.origin.timestamp_us > 0).then_some(self.origin.timestamp_us)))
    }

    fn view(&self) -> PyResult<Option<MessageView<'_>>> {
        self.head.as_deref().map(MessageView::parse).transpose().map_err(decode_error)
    }

    fn with_fields<R>(&self, take: impl FnOnce(&HeaderFields<'_>) -> R) -> PyResult<Option<R>> {
        match self.view()? {
            Some(view) => Ok(Some(take(&view.fields().map_err(decode_error)?))),
            None => Ok(None),
        }
    }
}

#[pymethods]
impl Message {
    #[getter]
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.topic.clone_ref(py)
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let body = self.body.bind(py);
        if self.kind == BodyKind::Bytes as u8 {
            return Ok(body.clone().into_any());
        }
        let kind = BodyKind::try_from(self.kind).map_err(decode_error)?;
        let detail = self.with_fields(|fields| fields.body_detail.map(<[u8]>::to_vec))?.flatten();
        body::decode(py, kind, &detail.unwrap_or_default(), body)
    }

    #[getter]
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let properties = PyDict::new(py);
        if let Some(view) = self.view()? {
            for property in view.properties().iter() {
                let (name, value) = property.map_err(decode_error)?;
                properties.set_item(name, body::scalar_to_python(py, value)?)?;
            }
        }
        Ok(properties)
    }

    /// Header fields by the names that selectors use for them.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        headers.set_item("JMSPriority", self.priority)?;
        headers
            .set_item("JMSDeliveryMode", if self.persistent()? { "PERSISTENT" } else { "NON_PERSISTENT" })?;
        headers.set_item("JMSTimestamp", self.timestamp_us()?.map(|us| us / 1000))?;
        headers.set_item("JMSMessageID", self.origin.message_id())?;
        headers.set_item("JMSCorrelationID", self.correlation_id(py)?)?;
        headers.set_item("JMSType", self.r#type()?)?;
        Ok(headers)
    }

    #[getter]
    fn priority(&self) -> u8 {
        self.priority
    }

    #[getter]
    fn redelivered(&self) -> bool {
        self.redelivered
    }

    #[getter]
    fn sender(&self) -> u32 {
        self.origin.node
    }

    /// Who published it; 0 if not known.
    #[getter]
    fn publisher(&self) -> u64 {
        self.origin.publisher
    }

    /// When it was published, seconds since 1970 by its publisher's clock; `None` if not known.
    #[getter]
    fn timestamp(&self) -> PyResult<Option<f64>> {
        Ok(self.timestamp_us()?.map(|us| us as f64 / 1e6))
    }

    /// Whether stores must keep it.
    #[getter]
    fn persistent(&self) -> PyResult<bool> {
        Ok(self.view()?.is_some_and(|view| view.is_persistent()))
    }

    /// How long it had to be kept back when it was sent, in seconds; `None` if not at all.
    #[getter]
    fn delivery_delay_s(&self) -> PyResult<Option<f64>> {
        Ok(self.with_fields(|fields| fields.delivery_delay_us)?.flatten().map(|delay| delay as f64 / 1e6))
    }

    #[getter]
    fn message_id(&self) -> Option<String> {
        self.origin.message_id()
    }

    #[getter]
    fn correlation_id<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let id = self.with_fields(|fields| fields.correlation_id.map(<[u8]>::to_vec))?.flatten();
        Ok(id.map(|id| match std::str::from_utf8(&id) {
            Ok(text) => PyString::new(py, text).into_any(),
            Err(_) => PyBytes::new(py, &id).into_any(),
        }))
    }

    #[getter]
    fn reply_to<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let to_python = |to: Destination<'_>| match to.kind {
            DestinationKind::Topic => Ok(PyString::new(py, to.name.as_str()).into_any()),
            DestinationKind::Queue => typed::queue_name(py, to.name.as_str()),
        };
        self.with_fields(|fields| fields.reply_to.map(to_python).transpose())?
            .transpose()
            .map(Option::flatten)
    }

    #[getter]
    fn r#type(&self) -> PyResult<Option<String>> {
        Ok(self.with_fields(|fields| fields.message_type.map(str::to_owned))?.flatten())
    }

    /// How long it might live when it was sent, in seconds; `None` if for ever.
    #[getter]
    fn ttl_s(&self) -> PyResult<Option<f64>> {
        Ok(self.with_fields(|fields| fields.ttl_us)?.flatten().map(|ttl| ttl as f64 / 1e6))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let body = self.body(py)?.repr()?;
        let text = body.to_str()?;
        let short = match text.char_indices().nth(60) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        Ok(format!("<shoal.Message {} {short}>", self.topic.bind(py).to_str()?))
    }
}
