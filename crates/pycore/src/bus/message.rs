//! A message as Python sees it.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString, PyTuple};
use shoal_node::Origin;
use shoal_wire::{
    BodyKind, DecodeError, Destination, DestinationKind, HeaderFields, MessageId, MessageView, frame,
};

use super::outgoing::{
    Given, Scratch, correlation_bytes, given_priority, timestamp_us, write_head, write_properties,
};
use super::{body, typed};
use crate::convert::{argument, text_argument};
use crate::errors;

/// Where a record has its flags: without any, there is nothing in its head but topic, priority and kind.
const FLAGS_AT: usize = 2;

fn decode_error(error: DecodeError) -> PyErr {
    errors::unreadable(&error)
}

/// What `_header_fields` has.
type HeaderTuple<'py> = (
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyString>>,
    u64,
    Option<u64>,
    Option<u64>,
);

fn text_or_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
    match std::str::from_utf8(bytes) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, bytes).into_any(),
    }
}

fn destination<'py>(py: Python<'py>, to: Destination<'_>) -> PyResult<Bound<'py, PyAny>> {
    match to.kind {
        DestinationKind::Topic => Ok(PyString::new(py, to.name.as_str()).into_any()),
        DestinationKind::Queue => typed::queue_name(py, to.name.as_str()),
    }
}

/// To the nearest, and of two to the even one, as Python rounds.
fn milliseconds(us: u64) -> u64 {
    (us as f64 / 1000.0).round_ties_even() as u64
}

/// A message: what was published, and who published it.
///
/// Subscriptions give received ones; their parts are decoded when they are asked for, the body once. Programs make their
/// own to test handlers. Immutable but for a body that is a list or a mapping, and shared freely between threads. Two
/// are equal if topic, body and everything that was published beside them are.
#[pyclass(module = "shoal", frozen, freelist = 4096)]
pub struct Message {
    topic: Py<PyString>,
    body: Py<PyBytes>,
    /// The record up to its body, if there is more in it than topic and priority.
    head: Option<Box<[u8]>>,
    kind: u8,
    priority: u8,
    redelivered: bool,
    origin: Origin,
    decoded: PyOnceLock<Py<PyAny>>,
    /// Of one that a store delivered.
    delivery: Option<Box<Delivery>>,
    /// What it was received by: it acknowledges and answers.
    receiver: Option<Py<PyAny>>,
    /// When its time to live is over, if a subscription gave it one.
    expires: Option<Instant>,
}

/// What a store says of a delivery, and what an acknowledgement names again.
#[derive(Copy, Clone)]
pub struct Delivery {
    /// Which delivery of the message this is, from 1.
    pub count: u32,
    /// To whom.
    pub consumer: u64,
    /// Which message.
    pub offset: u64,
    /// Under which lease.
    pub lease: u64,
}

impl Message {
    /// A message that a store delivers.
    pub fn delivered(
        py: Python<'_>,
        record: &[u8],
        view: &MessageView<'_>,
        topic: Py<PyString>,
        origin: Origin,
        delivery: Delivery,
    ) -> PyResult<Message> {
        let mut message = Message::from_record(py, record, view, topic, origin)?;
        message.redelivered |= delivery.count > 1;
        message.delivery = Some(Box::new(delivery));
        Ok(message)
    }

    /// The same message, received by what acknowledges and answers it.
    pub fn received_by(mut self, receiver: Option<Py<PyAny>>) -> Message {
        self.receiver = receiver;
        self
    }

    /// The same message, with so much of its time to live left.
    pub fn living_for(mut self, left: Option<Duration>) -> Message {
        self.expires = left.and_then(|left| Instant::now().checked_add(left));
        self
    }

    /// Which message it is for the store that delivered it.
    pub fn offset(&self) -> Option<u64> {
        self.delivery.as_ref().map(|delivery| delivery.offset)
    }

    /// A message from its record.
    pub fn from_record(
        py: Python<'_>,
        record: &[u8],
        view: &MessageView<'_>,
        topic: Py<PyString>,
        origin: Origin,
    ) -> PyResult<Message> {
        let body = view.body();
        let head = &record[..record.len() - body.len()];
        let plain = head[FLAGS_AT] == 0;
        Ok(Message {
            topic,
            body: body::to_python(py, body)?.unbind(),
            head: (!plain).then(|| head.into()),
            kind: record[1] & 0x0f,
            priority: view.priority().get(),
            redelivered: view.is_redelivered(),
            origin,
            decoded: PyOnceLock::new(),
            delivery: None,
            receiver: None,
            expires: None,
        })
    }

    fn receiver<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let receiver = slf.get().receiver.as_ref().map(|receiver| receiver.bind(slf.py()).clone());
        receiver.ok_or_else(|| errors::not_received(slf.as_any()))
    }

    /// When it was published: as it says itself, or else as its stream says.
    fn timestamp_us(&self) -> PyResult<Option<u64>> {
        let own = self.with_fields(|fields| fields.timestamp_us)?.flatten();
        Ok(own.or((self.origin.timestamp_us > 0).then_some(self.origin.timestamp_us)))
    }

    /// What was published beside topic, body and priority, by the names of the constructor.
    fn published_beside<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let named = PyDict::new(py);
        named.set_item("properties", self.properties(py)?)?;
        named.set_item("ttl_s", self.ttl_s()?)?;
        named.set_item("correlation_id", self.correlation_id(py)?)?;
        named.set_item("reply_to", self.reply_to(py)?)?;
        named.set_item("type", self.r#type()?)?;
        named.set_item("persistent", self.persistent()?)?;
        named.set_item("delivery_delay_s", self.delivery_delay_s()?)?;
        Ok(named)
    }

    /// Whether bodies of the same kind are equal: in their bytes, or else, where order may differ, in what they say.
    fn has_body_of(&self, py: Python<'_>, other: &Message) -> PyResult<bool> {
        let same = self.body.bind(py).as_bytes() == other.body.bind(py).as_bytes();
        let ordered = self.kind != BodyKind::Map as u8 && self.kind != BodyKind::List as u8;
        if same || ordered {
            return Ok(same);
        }
        self.body(py)?.eq(other.body(py)?)
    }

    /// Its identity, if somebody else than its publisher sent it here.
    fn passed_on(&self) -> PyResult<Option<MessageId>> {
        match self.view()? {
            Some(view) => view.origin().map_err(decode_error),
            None => Ok(None),
        }
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
    #[new]
    #[pyo3(signature = (
        topic, body = None, *, properties = None, priority = None, ttl_s = None, correlation_id = None,
        reply_to = None, r#type = None, persistent = None, delivery_delay_s = None, timestamp = None,
        redelivered = None, sender = None, publisher = None, chain = None, number = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        topic: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
        properties: Option<&Bound<'_, PyAny>>,
        priority: Option<&Bound<'_, PyAny>>,
        ttl_s: Option<&Bound<'_, PyAny>>,
        correlation_id: Option<&Bound<'_, PyAny>>,
        reply_to: Option<&Bound<'_, PyAny>>,
        r#type: Option<&Bound<'_, PyAny>>,
        persistent: Option<&Bound<'_, PyAny>>,
        delivery_delay_s: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        redelivered: Option<&Bound<'_, PyAny>>,
        sender: Option<&Bound<'_, PyAny>>,
        publisher: Option<&Bound<'_, PyAny>>,
        chain: Option<&Bound<'_, PyAny>>,
        number: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Message> {
        let topic = text_argument("topic", topic)?;
        let correlation = correlation_id.map(correlation_bytes).transpose()?;
        let correlation_id = correlation.as_deref();
        let message_type = r#type;
        let given =
            Given { properties, ttl_s, correlation_id, reply_to, message_type, persistent, delivery_delay_s };
        let extras = given.check()?;
        let none = py.None().into_bound(py);
        let encoded = body::encode(body.unwrap_or(&none))?;
        let mut scratch = Scratch::default();
        write_properties(&extras, &mut scratch)?;
        let name = errors::checked_topic(topic.to_str()?)?;
        write_head(name, given_priority(priority)?, &encoded, &extras, &mut scratch)?;
        let Scratch { head: mut record, .. } = scratch;
        frame::append(&mut record, encoded.bytes.as_slice())
            .map_err(|error| PyMemoryError::new_err(error.to_string()))?;
        let view = MessageView::parse(&record).map_err(decode_error)?;
        let timestamp_us = timestamp.map(timestamp_us).transpose()?.unwrap_or_default();
        let origin = Origin {
            publisher: publisher.map_or(Ok(0), |publisher| argument("publisher", publisher))?,
            chain: chain.map_or(Ok(0), |chain| argument("chain", chain))?,
            number: number.map_or(Ok(0), |number| argument("number", number))?,
            timestamp_us,
            node: sender.map_or(Ok(0), |sender| argument("sender", sender))?,
        };
        let mut message = Message::from_record(py, &record, &view, topic.clone().unbind(), origin)?;
        message.redelivered = redelivered.map_or(Ok(false), |mark| argument("redelivered", mark))?;
        Ok(message)
    }

    /// Where it was published.
    #[getter]
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.topic.clone_ref(py)
    }

    /// What was published: bytes, str, None, a number, list, mapping, numpy array, Arrow table, or an object of a type
    /// that `shoal.codecs` knows. Decoded when it is first asked for.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let body = self.body.bind(py);
        if self.kind == BodyKind::Bytes as u8 {
            return Ok(body.clone().into_any());
        }
        let decoded = self.decoded.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
            let kind = BodyKind::try_from(self.kind).map_err(decode_error)?;
            let detail = self.with_fields(|fields| fields.body_detail.map(<[u8]>::to_vec))?.flatten();
            Ok(body::decode(py, kind, &detail.unwrap_or_default(), body)?.unbind())
        })?;
        Ok(decoded.bind(py).clone())
    }

    /// Named values that were published beside the body.
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
        headers.set_item("JMSMessageID", self.message_id()?)?;
        headers.set_item("JMSCorrelationID", self.correlation_id(py)?)?;
        headers.set_item("JMSType", self.r#type()?)?;
        Ok(headers)
    }

    /// 0 to 9; a higher one overtakes lower ones on its way.
    #[getter]
    fn priority(&self) -> u8 {
        self.priority
    }

    /// Whether it may have been delivered before.
    #[getter]
    fn redelivered(&self) -> bool {
        self.redelivered
    }

    /// Which delivery of the message this is, from 1: more than that after a crash, or where it was given back.
    #[getter]
    fn delivery_count(&self) -> PyResult<u64> {
        match &self.delivery {
            Some(delivery) => Ok(delivery.count.into()),
            None => Ok(self.with_fields(|fields| fields.delivery_count)?.flatten().unwrap_or(1)),
        }
    }

    /// The trace and span it was sent in: version, trace, span and flags of W3C Trace Context in binary, and the trace
    /// state; none if it was sent in no trace.
    #[getter]
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, String)>> {
        let state = |fields: &HeaderFields<'_>| fields.trace_state.unwrap_or_default().to_owned();
        let found =
            self.with_fields(|fields| fields.trace.map(|trace| (PyBytes::new(py, trace), state(fields))))?;
        Ok(found.flatten())
    }

    /// Messages of one group go to one receiver, in order (JMSXGroupID); none if it is in no group.
    #[getter]
    fn group(&self) -> PyResult<Option<String>> {
        Ok(self.with_fields(|fields| fields.group.map(str::to_owned))?.flatten())
    }

    /// Which of its publisher's connections sent it: 0 where there is but one.
    #[getter]
    fn connection(&self) -> PyResult<u64> {
        Ok(self.with_fields(|fields| fields.connection)?.flatten().unwrap_or(0))
    }

    /// Header fields that are read together: correlation id, where answers go, type, and in milliseconds when it was
    /// published, how long it might live and how long it was kept back.
    #[getter]
    fn _header_fields<'py>(&self, py: Python<'py>) -> PyResult<HeaderTuple<'py>> {
        let view = self.view()?;
        let fields = view.as_ref().map(|view| view.fields().map_err(decode_error)).transpose()?;
        let fields = fields.as_ref();
        let timestamp_us = fields.and_then(|fields| fields.timestamp_us).unwrap_or(self.origin.timestamp_us);
        let reply_to = fields.and_then(|fields| fields.reply_to);
        Ok((
            fields.and_then(|fields| fields.correlation_id).map(|id| text_or_bytes(py, id)),
            reply_to.map(|to| destination(py, to)).transpose()?,
            fields.and_then(|fields| fields.message_type).map(|name| PyString::new(py, name)),
            milliseconds(timestamp_us),
            fields.and_then(|fields| fields.ttl_us).map(milliseconds),
            fields.and_then(|fields| fields.delivery_delay_us).map(milliseconds),
        ))
    }

    /// Its properties and its group, which are read together.
    #[getter]
    fn _properties_and_group<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyDict>, Option<String>)> {
        Ok((self.properties(py)?, self.group()?))
    }

    /// What kind of body it has, as the wire numbers them, without decoding it.
    #[getter]
    fn _body_kind(&self) -> u8 {
        self.kind
    }

    /// Seconds of its time to live that are left, if a subscription gave it.
    #[getter]
    fn _left_s(&self) -> Option<f64> {
        self.expires.map(|expires| expires.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    /// Acknowledges it.
    #[pyo3(signature = (*, timeout_s = None))]
    fn ack<'py>(
        slf: &Bound<'py, Self>,
        timeout_s: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let named = PyDict::new(slf.py());
        named.set_item("timeout_s", timeout_s)?;
        Message::receiver(slf)?.call_method("ack", (slf,), Some(&named))
    }

    /// Gives it back.
    #[pyo3(signature = (*, delay_s = None))]
    fn release<'py>(
        slf: &Bound<'py, Self>,
        delay_s: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let named = PyDict::new(slf.py());
        named.set_item("delay_s", delay_s)?;
        Message::receiver(slf)?.call_method("release", (slf,), Some(&named))
    }

    /// Answers it.
    #[pyo3(signature = (body = None, *, properties = None, more = None))]
    fn reply<'py>(
        slf: &Bound<'py, Self>,
        body: Option<&Bound<'py, PyAny>>,
        properties: Option<&Bound<'py, PyAny>>,
        more: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let named = PyDict::new(slf.py());
        named.set_item("properties", properties)?;
        if let Some(more) = more {
            named.set_item("more", more)?;
        }
        Message::receiver(slf)?.call_method("reply", (slf, body), Some(&named))
    }

    /// Of one that a store delivered: to which consumer, its offset, the lease.
    #[getter]
    fn _delivery(&self) -> Option<(u64, u64, u64)> {
        self.delivery.as_ref().map(|delivery| (delivery.consumer, delivery.offset, delivery.lease))
    }

    /// The id of the node that sent it here.
    #[getter]
    fn sender(&self) -> u32 {
        self.origin.node
    }

    /// Who published it; 0 if not known.
    #[getter]
    fn publisher(&self) -> PyResult<u64> {
        Ok(self.passed_on()?.map_or(self.origin.publisher, |id| id.publisher))
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

    /// Its identity, the same for every reader; `None` if it is not known.
    #[getter]
    fn message_id(&self) -> PyResult<Option<String>> {
        let passed_on = self.passed_on()?.map(|id| id.to_string());
        Ok(passed_on.or_else(|| self.origin.message_id()))
    }

    /// What it answers or belongs to: text, or bytes that are none.
    #[getter]
    fn correlation_id<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.with_fields(|fields| fields.correlation_id.map(|id| text_or_bytes(py, id)))?.flatten())
    }

    /// Where answers go; `None` if it is no request.
    #[getter]
    fn reply_to<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.with_fields(|fields| fields.reply_to.map(|to| destination(py, to)).transpose())?
            .transpose()
            .map(Option::flatten)
    }

    /// The application's name for its kind of message (JMSType).
    #[getter]
    fn r#type(&self) -> PyResult<Option<String>> {
        Ok(self.with_fields(|fields| fields.message_type.map(str::to_owned))?.flatten())
    }

    /// How long it might live when it was sent, in seconds; `None` if for ever.
    #[getter]
    fn ttl_s(&self) -> PyResult<Option<f64>> {
        Ok(self.with_fields(|fields| fields.ttl_us)?.flatten().map(|ttl| ttl as f64 / 1e6))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Message>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let equal = self.topic.bind(py).to_str()? == other.topic.bind(py).to_str()?
            && (self.priority, self.kind) == (other.priority, other.kind)
            && self.published_beside(py)?.eq(other.published_beside(py)?)?
            && self.has_body_of(py, other)?;
        Ok(PyBool::new(py, equal).to_owned().into_any().unbind())
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.topic.bind(py).hash()
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let named = self.published_beside(py)?;
        named.set_item("priority", self.priority)?;
        named.set_item("timestamp", self.timestamp()?)?;
        named.set_item("redelivered", self.redelivered)?;
        named.set_item("sender", self.origin.node)?;
        named.set_item("publisher", self.origin.publisher)?;
        named.set_item("chain", self.origin.chain)?;
        named.set_item("number", self.origin.number)?;
        Ok(((self.topic(py), self.body(py)?).into_pyobject(py)?, named))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = match self.body(py).and_then(|body| body.repr()) {
            Ok(body) => body.to_str()?.to_owned(),
            Err(error) => format!("(a body that cannot be read here: {})", error.value(py)),
        };
        let short = match text.char_indices().nth(60) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        };
        Ok(format!("<shoal.Message {} {short}>", self.topic.bind(py).to_str()?))
    }
}
