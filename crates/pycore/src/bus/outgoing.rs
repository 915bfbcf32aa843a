//! A message on its way out: what its publisher gave, and its encoded head.

use std::borrow::Cow;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use shoal_wire::limits::{TRACE_BYTES_MAX, TRACE_STATE_BYTES_MAX};
use shoal_wire::{Destination, HeaderFields, Outgoing, Priority, PropertiesWriter, Topic};

use super::body::{Encoded, encode_error};
use super::properties;
use super::typed::is_queue_name;
use crate::convert::{argument, duration, text_argument};

/// Kept for its memory.
#[derive(Default)]
pub struct Scratch {
    pub head: Vec<u8>,
    pub properties: PropertiesWriter,
}

/// Header fields a publisher may give.
pub struct Extras<'a> {
    pub properties: Option<&'a Bound<'a, PyAny>>,
    pub ttl: Option<Duration>,
    /// By the link's clock; only with a time to live or a delivery delay.
    pub published_us: Option<u64>,
    pub correlation_id: Option<&'a [u8]>,
    pub reply_to: Option<&'a Bound<'a, PyString>>,
    pub message_type: Option<&'a str>,
    pub persistent: bool,
    pub delivery_delay: Option<Duration>,
    /// When it was published, if not now: microseconds since 1970.
    pub timestamp_us: Option<u64>,
    /// Messages of one group go to one receiver.
    pub group: Option<&'a str>,
    /// Which of the publisher's connections sends it.
    pub connection: Option<u64>,
    /// The trace and span it is sent in, and what tracing systems add to that.
    pub trace: Option<(&'a [u8], &'a str)>,
    /// How long its publisher held it before.
    pub held: Option<Duration>,
}

/// What a call was given for them, of any type.
pub struct Given<'a, 'py> {
    pub properties: Option<&'a Bound<'py, PyAny>>,
    pub ttl_s: Option<&'a Bound<'py, PyAny>>,
    pub correlation_id: Option<&'a [u8]>,
    pub reply_to: Option<&'a Bound<'py, PyAny>>,
    pub message_type: Option<&'a Bound<'py, PyAny>>,
    pub persistent: Option<&'a Bound<'py, PyAny>>,
    pub delivery_delay_s: Option<&'a Bound<'py, PyAny>>,
}

impl<'a> Given<'a, '_> {
    /// The same, checked. An argument of a wrong type is named.
    #[inline(always)]
    pub fn check(self) -> PyResult<Extras<'a>> {
        let span = |name: &str, value: Option<&Bound<'_, PyAny>>| {
            value.map(|value| duration(name, argument(name, value)?)).transpose()
        };
        Ok(Extras {
            properties: self.properties,
            ttl: span("ttl_s", self.ttl_s)?,
            published_us: None,
            correlation_id: self.correlation_id,
            reply_to: self.reply_to.map(|topic| text_argument("reply_to", topic)).transpose()?,
            message_type: match self.message_type {
                Some(name) => Some(text_argument("type", name)?.to_str()?),
                None => None,
            },
            persistent: self.persistent.map_or(Ok(false), |mark| argument("persistent", mark))?,
            delivery_delay: span("delivery_delay_s", self.delivery_delay_s)?,
            timestamp_us: None,
            group: None,
            connection: None,
            trace: None,
            held: None,
        })
    }
}

impl Extras<'_> {
    /// Whether it matters how old it is.
    pub fn is_timed(&self) -> bool {
        self.ttl.is_some() || self.delivery_delay.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.properties.is_none()
            && self.ttl.is_none()
            && self.correlation_id.is_none()
            && self.reply_to.is_none()
            && self.message_type.is_none()
            && !self.persistent
            && self.delivery_delay.is_none()
            && self.timestamp_us.is_none()
            && self.group.is_none()
            && self.connection.is_none()
            && self.trace.is_none()
            && self.held.is_none()
    }
}

/// Writes the properties of a message, which may run Python.
pub fn write_properties(extras: &Extras<'_>, scratch: &mut Scratch) -> PyResult<()> {
    scratch.properties.clear();
    match extras.properties {
        Some(mapping) => properties::write(mapping, &mut scratch.properties),
        None => Ok(()),
    }
}

/// Writes the head of a message that has more than topic and body; its properties are written already.
pub fn write_head(
    topic: Topic<'_>,
    priority: Priority,
    encoded: &Encoded<'_>,
    extras: &Extras<'_>,
    scratch: &mut Scratch,
) -> PyResult<()> {
    let reply_to = extras.reply_to.map(reply_destination).transpose()?;
    let outgoing = Outgoing {
        priority,
        persistent: extras.persistent,
        properties: scratch.properties.properties(),
        fields: HeaderFields {
            timestamp_us: extras.timestamp_us,
            ttl_us: extras.ttl.map(|span| span.as_micros() as u64),
            delivery_delay_us: extras.delivery_delay.map(|span| span.as_micros() as u64),
            published_us: extras.published_us,
            correlation_id: extras.correlation_id,
            reply_to,
            message_type: extras.message_type,
            group: extras.group,
            connection: extras.connection,
            trace: extras.trace.map(|(trace, _)| trace),
            trace_state: extras.trace.map(|(_, state)| state).filter(|state| !state.is_empty()),
            held_us: extras.held.map(|span| span.as_micros() as u64),
            body_detail: (!encoded.detail.is_empty()).then_some(&encoded.detail[..]),
            ..HeaderFields::default()
        },
        ..Outgoing::new(Destination::topic(topic), encoded.kind, &[])
    };
    scratch.head.clear();
    outgoing.encode_head_into(&mut scratch.head).map_err(encode_error)
}

fn reply_destination<'a>(name: &'a Bound<'_, PyString>) -> PyResult<Destination<'a>> {
    let valid =
        Topic::new(name.to_str()?).map_err(|error| PyValueError::new_err(format!("reply_to: {error}")))?;
    let is_queue = is_queue_name(name)?;
    Ok(if is_queue { Destination::queue(valid) } else { Destination::topic(valid) })
}

/// Microseconds since 1970.
pub fn timestamp_us(timestamp: &Bound<'_, PyAny>) -> PyResult<u64> {
    let seconds: f64 = argument("timestamp", timestamp)?;
    let us = (seconds * 1e6).round();
    if !(0.0..9e15).contains(&us) {
        return Err(PyValueError::new_err(format!(
            "timestamp is {seconds}, and must be seconds since 1970, as time.time() gives them"
        )));
    }
    Ok(us as u64)
}

/// The priority that a call was given, or the usual one.
#[inline(always)]
pub fn given_priority(priority: Option<&Bound<'_, PyAny>>) -> PyResult<Priority> {
    priority_of(priority.map_or(Ok(4), |priority| argument("priority", priority))?)
}

pub fn priority_of(priority: i64) -> PyResult<Priority> {
    let valid = u8::try_from(priority).ok().and_then(|priority| Priority::new(priority).ok());
    valid.ok_or_else(|| PyValueError::new_err(format!("priority is {priority}, and must be 0 to 9")))
}

/// A trace context as Python gives it: bytes, and the trace state.
pub type GivenTrace = (Vec<u8>, String);

/// The trace context that a call was given.
pub fn given_trace(trace: Option<&Bound<'_, PyAny>>) -> PyResult<Option<GivenTrace>> {
    let Some(trace) = trace else { return Ok(None) };
    let given: GivenTrace = argument("trace", trace)?;
    if given.0.len() != TRACE_BYTES_MAX || given.1.len() > TRACE_STATE_BYTES_MAX {
        let (length, state) = (given.0.len(), given.1.len());
        return Err(PyValueError::new_err(format!(
            "trace is {length} bytes and a state of {state}: it must be {TRACE_BYTES_MAX} bytes, and a state of at \
             most {TRACE_STATE_BYTES_MAX}"
        )));
    }
    Ok(Some(given))
}

pub fn correlation_bytes<'a>(id: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(text) = id.cast::<PyString>() {
        return Ok(Cow::Borrowed(text.to_str()?.as_bytes()));
    }
    if let Ok(bytes) = id.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    let bytes = id.extract::<Vec<u8>>();
    bytes
        .map(Cow::Owned)
        .map_err(|_| PyValueError::new_err(format!("correlation_id must be str or bytes, not {id:?}")))
}
