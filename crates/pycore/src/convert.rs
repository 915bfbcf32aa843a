//! Times and events as Python has them.

use std::path::PathBuf;
use std::time::Duration;

use crate::bus::body::to_python;
use crate::errors;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use shoal_norm::{AbortReason, CloseReason, Event, GapReason, ObjectKind, StreamId, Time};

pub fn seconds(time: Time) -> f64 {
    Duration::from_nanos(time.as_nanos()).as_secs_f64()
}

pub fn duration(field: &str, seconds: f64) -> PyResult<Duration> {
    let wanted =
        || errors::config(format!("{field} is {seconds}, and must be a number of seconds from 0 on"));
    Duration::try_from_secs_f64(seconds).map_err(|_| wanted())
}

/// How long closing may take; longer than anybody waits is as good as for ever.
pub fn linger(field: &str, seconds: f64) -> PyResult<Duration> {
    const LONGEST: Duration = Duration::from_secs(1 << 30);
    Ok(duration(field, seconds)?.min(LONGEST))
}

/// A type that options have, in words.
pub trait Described {
    /// What would be accepted.
    const WANTED: &str;
}

macro_rules! described {
    ($($type:ty: $wanted:literal),* $(,)?) => {
        $(impl Described for $type {
            const WANTED: &str = $wanted;
        })*
    };
}

described! {
    u8: "a whole number from 0 to 255",
    u16: "a whole number from 0 to 65535",
    Option<u16>: "a whole number from 0 to 65535, or None",
    u32: "a whole number from 0 to 4294967295",
    Option<u32>: "a whole number from 0 to 4294967295, or None",
    u64: "a whole number from 0 on, of 64 bits",
    i64: "a whole number",
    usize: "a whole number from 0 on, of 64 bits",
    Option<usize>: "a whole number from 0 on, of 64 bits, or None",
    f64: "a number",
    Option<f64>: "a number, or None",
    bool: "True or False",
    String: "a text",
    Option<String>: "a text, or None",
    Vec<u8>: "bytes",
    Vec<String>: "a list of texts",
    Vec<u32>: "a list of node ids, each from 0 to 4294967295",
    Option<PathBuf>: "a path, or None",
    Option<Vec<(u8, u8)>>: "pairs of a DSCP and a priority, or None",
    (Vec<u8>, String): "a pair of bytes and a text",
    (Vec<u8>, bool): "a pair of bytes and True or False",
}

/// The value of an option.
pub fn extract<'py, T>(field: &str, value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py> + Described,
{
    value.extract().map_err(|_| errors::config(format!("{field} is {value:?}, and must be {}", T::WANTED)))
}

/// The value of an argument of a call.
pub fn argument<'py, T>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py> + Described,
{
    value.extract().map_err(|_| unsuited(name, value, T::WANTED))
}

/// A text that is an argument of a call.
#[inline]
pub fn text_argument<'a, 'py>(
    name: &str,
    value: &'a Bound<'py, PyAny>,
) -> PyResult<&'a Bound<'py, PyString>> {
    value.cast::<PyString>().map_err(|_| unsuited(name, value, "a str"))
}

#[cold]
fn unsuited(name: &str, value: &Bound<'_, PyAny>, wanted: &str) -> PyErr {
    PyTypeError::new_err(format!("{name} is {value:?}, and must be {wanted}"))
}

pub fn time(field: &str, seconds: f64) -> PyResult<Time> {
    Ok(Time::ZERO + duration(field, seconds)?)
}

fn close_reason(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Ended => "ended",
        CloseReason::Restarted => "restarted",
        CloseReason::Dropped => "dropped",
        CloseReason::Idle => "idle",
    }
}

fn abort_reason(reason: AbortReason) -> &'static str {
    match reason {
        AbortReason::Squelched => "squelched",
        AbortReason::Expired => "expired",
        AbortReason::Overrun => "overrun",
        AbortReason::TooLarge => "too_large",
        AbortReason::SenderGone => "sender_gone",
        AbortReason::Abandoned => "abandoned",
    }
}

fn put_stream(fields: &Bound<'_, PyDict>, stream: &StreamId) -> PyResult<()> {
    fields.set_item("sender", stream.node)?;
    fields.set_item("instance", stream.instance)?;
    fields.set_item("stream", stream.object)
}

/// The event's name and its fields.
pub fn event_to_python<'py>(py: Python<'py>, event: &Event) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
    let fields = PyDict::new(py);
    let kind = match event {
        Event::SenderHeard { node, instance } => {
            fields.set_item("sender", node)?;
            fields.set_item("instance", instance)?;
            "sender_heard"
        }
        Event::SenderGone { node, instance, reason } => {
            fields.set_item("sender", node)?;
            fields.set_item("instance", instance)?;
            fields.set_item("reason", close_reason(*reason))?;
            "sender_gone"
        }
        Event::StreamHeard { stream } => {
            put_stream(&fields, stream)?;
            "stream_heard"
        }
        Event::StreamOpened { stream } => {
            put_stream(&fields, stream)?;
            "stream_opened"
        }
        Event::Info { stream, content } => {
            put_stream(&fields, stream)?;
            fields.set_item("content", PyBytes::new(py, content))?;
            "info"
        }
        Event::Readable { stream } => {
            put_stream(&fields, stream)?;
            "readable"
        }
        Event::Gap { stream, first_segment, segments, reason: GapReason::Squelched } => {
            put_stream(&fields, stream)?;
            fields.set_item("first_segment", first_segment)?;
            fields.set_item("segments", segments)?;
            fields.set_item("reason", "squelched")?;
            "gap"
        }
        Event::StreamClosed { stream, reason } => {
            put_stream(&fields, stream)?;
            fields.set_item("reason", close_reason(*reason))?;
            "stream_closed"
        }
        Event::ObjectOpened { object, kind, bytes } => {
            put_stream(&fields, object)?;
            fields.set_item("kind", if *kind == ObjectKind::File { "file" } else { "data" })?;
            fields.set_item("bytes", bytes)?;
            "object_opened"
        }
        Event::DataReceived { object, content } => {
            put_stream(&fields, object)?;
            fields.set_item("content", to_python(py, content)?)?;
            "data_received"
        }
        Event::FileChunk { object, offset, bytes } => {
            put_stream(&fields, object)?;
            fields.set_item("offset", offset)?;
            fields.set_item("content", to_python(py, bytes)?)?;
            "file_chunk"
        }
        Event::FileReceived { object, bytes } => {
            put_stream(&fields, object)?;
            fields.set_item("bytes", bytes)?;
            "file_received"
        }
        Event::ObjectAborted { object, reason } => {
            put_stream(&fields, object)?;
            fields.set_item("reason", abort_reason(*reason))?;
            "object_aborted"
        }
        Event::ObjectSent { object } => {
            fields.set_item("stream", object)?;
            "object_sent"
        }
        Event::ObjectReleased { object } => {
            fields.set_item("stream", object)?;
            "object_released"
        }
        Event::ObjectRoom => "object_room",
        Event::CommandReceived { node, content, .. } => {
            fields.set_item("sender", node)?;
            fields.set_item("content", PyBytes::new(py, content))?;
            "command_received"
        }
        Event::AckGiven { node, ack_type, ack_id } => {
            fields.set_item("sender", node)?;
            fields.set_item("ack_type", ack_type)?;
            fields.set_item("ack_id", ack_id)?;
            "ack_given"
        }
        Event::AcksDone { ack_type, ack_id, acked, silent } => {
            fields.set_item("ack_type", ack_type)?;
            fields.set_item("ack_id", ack_id)?;
            fields.set_item("acked", acked)?;
            fields.set_item("silent", silent)?;
            "acks_done"
        }
        Event::Writable { object } => {
            fields.set_item("stream", object)?;
            "writable"
        }
        Event::WatermarkDone(watermark) => {
            fields.set_item("stream", watermark.object)?;
            fields.set_item("acked", &watermark.acked)?;
            fields.set_item("silent", &watermark.silent)?;
            "watermark_done"
        }
        Event::AckerSilent { object, node } => {
            fields.set_item("stream", object)?;
            fields.set_item("node", node)?;
            "acker_silent"
        }
        Event::AckerLost { object, node, .. } => {
            fields.set_item("stream", object)?;
            fields.set_item("node", node)?;
            "acker_lost"
        }
        Event::NodeIdTaken => "node_id_taken",
        Event::Flushed { object } => {
            fields.set_item("stream", object)?;
            "flushed"
        }
    };
    Ok((kind, fields))
}
