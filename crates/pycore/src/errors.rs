//! The exceptions of `shoal.errors`, as Rust raises them.

use pyo3::exceptions::{PyException, PyMemoryError, PySystemExit, PyValueError};
use pyo3::prelude::*;
use shoal_io::norm::{LinkError, SendError};
use shoal_log::LogError;
use shoal_node::hub::Refusal;
use shoal_wire::{Topic, TopicError, TopicPattern};

use crate::bus::exit::is_abandoned;

mod python {
    #![allow(missing_docs, reason = "they are documented where they are defined, in Python")]
    pyo3::import_exception!(shoal.errors, ClosedError);
    pyo3::import_exception!(shoal.errors, ConfigError);
    pyo3::import_exception!(shoal.errors, ForkedError);
    pyo3::import_exception!(shoal.errors, FullError);
    pyo3::import_exception!(shoal.errors, InvalidTopicError);
    pyo3::import_exception!(shoal.errors, LinkError);
    pyo3::import_exception!(shoal.errors, MessageFormatError);
    pyo3::import_exception!(shoal.errors, MessageTooLongError);
    pyo3::import_exception!(shoal.errors, StoreCorruptError);
    pyo3::import_exception!(shoal.errors, StoreError);
    pyo3::import_exception!(shoal.errors, StoreFailedError);
    pyo3::import_exception!(shoal.errors, StoreFullError);
    pyo3::import_exception!(shoal.errors, StoreLockedError);
    pyo3::import_exception!(shoal.errors, StoreRefusedError);
    pyo3::import_exception!(shoal.errors, TrimmedError);
}

/// An option cannot work.
pub fn config(message: String) -> PyErr {
    python::ConfigError::new_err(message)
}

/// The connection was closed. A thread that goes on while the interpreter exits is ended by it, silently.
pub fn closed() -> PyErr {
    if is_abandoned() {
        return PySystemExit::new_err(());
    }
    python::ClosedError::new_err("the connection is closed")
}

/// The handle was made before a fork, and this is the child.
pub fn forked() -> PyErr {
    python::ForkedError::new_err(
        "this connection was made before a fork, and does not work in the child: connect in the process that uses it",
    )
}

/// The subscription was closed, or its connection, and everything was read.
pub fn subscription_closed() -> PyErr {
    if is_abandoned() {
        return PySystemExit::new_err(());
    }
    python::ClosedError::new_err("the subscription is closed, and everything that arrived was received")
}

/// Nobody takes more, and a callback must not wait.
fn full_in_callback(message: &'static str) -> PyErr {
    python::FullError::new_err((message, true))
}

/// Whether an error says that nobody takes more.
pub fn is_full(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<python::FullError>(py)
}

/// Whether an error says that a message is longer than any may be.
pub fn is_too_long(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<python::MessageTooLongError>(py)
}

/// The most of a text that an error shows.
const SHOWN_CHARS_MAX: usize = 80;

/// A text is no topic, or no pattern.
fn no_name(kind: &str, text: &str, error: &TopicError) -> PyErr {
    let cut = text.char_indices().nth(SHOWN_CHARS_MAX).map(|(at, _)| at);
    let (shown, more) = cut.map_or((text, ""), |at| (&text[..at], "…"));
    python::InvalidTopicError::new_err(format!("{shown:?}{more} is no {kind}: {error}"))
}

/// A text as a topic.
pub fn checked_topic(text: &str) -> PyResult<Topic<'_>> {
    Topic::new(text).map_err(|error| no_name("topic", text, &error))
}

/// A text as a pattern of topics.
pub fn checked_pattern(text: &str) -> PyResult<TopicPattern> {
    TopicPattern::new(text).map_err(|error| no_name("pattern", text, &error))
}

/// A message is longer than any may be.
pub fn too_long(bytes: usize, bytes_max: usize) -> PyErr {
    python::MessageTooLongError::new_err(format!(
        "the message has {bytes} bytes, more than message_bytes_max ({bytes_max})"
    ))
}

/// A message that was made here, or only looked at, cannot be acknowledged or answered.
pub fn not_received(message: &Bound<'_, PyAny>) -> PyErr {
    PyValueError::new_err(format!(
        "{message:?} was not received from a subscription or a queue: it cannot be acknowledged or answered"
    ))
}

/// A received message cannot be read.
pub fn unreadable(error: &dyn std::error::Error) -> PyErr {
    python::MessageFormatError::new_err(format!("the message cannot be read: {error}"))
}

/// A body cannot be read. What is no fault of the bytes stays as it is: no memory, an interrupt.
pub fn unreadable_body(py: Python<'_>, error: PyErr) -> PyErr {
    let is_fault = error.is_instance_of::<PyException>(py) && !error.is_instance_of::<PyMemoryError>(py);
    if !is_fault || error.is_instance_of::<python::MessageFormatError>(py) {
        return error;
    }
    let why =
        error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    let kind = error.get_type(py).name().map_or_else(|_| String::new(), |name| name.to_string());
    let unreadable = python::MessageFormatError::new_err(format!("the body cannot be read: {kind}: {why}"));
    unreadable.set_cause(py, Some(error));
    unreadable
}

/// A stored message cannot be read.
pub fn unreadable_at(offset: u64, error: &dyn std::error::Error) -> PyErr {
    python::MessageFormatError::new_err(format!("the message at offset {offset} cannot be read: {error}"))
}

/// A link could not be opened.
pub fn link(error: LinkError) -> PyErr {
    match error {
        LinkError::Io(error) => python::LinkError::new_err(error.to_string()),
        error => python::ConfigError::new_err(error.to_string()),
    }
}

/// A link failed while it was in use.
pub fn link_failed(why: &str) -> PyErr {
    python::LinkError::new_err(format!("the link failed: {why}"))
}

/// A message was not published.
pub fn refused(refusal: Refusal) -> PyErr {
    match refusal {
        Refusal::Send(error) => send(error),
        Refusal::Unreadable(error) => unreadable(&error),
        Refusal::OwnQueue => full_in_callback(
            "the queue of this callback is full, and it cannot be waited for inside the callback itself",
        ),
        Refusal::Callbacks => full_in_callback(
            "a queue stayed full for slow_after_s, and a callback does not wait longer: two callbacks may be \
             waiting for each other",
        ),
    }
}

/// Nothing was sent.
pub fn send(error: SendError) -> PyErr {
    match error {
        SendError::Full => python::FullError::new_err(error.to_string()),
        SendError::Closed => closed(),
        SendError::Failed(why) => link_failed(&why),
        SendError::TooLong(..) | SendError::TooLongThere(..) => {
            python::MessageTooLongError::new_err(error.to_string())
        }
        SendError::NoLane => python::ConfigError::new_err(error.to_string()),
        SendError::NoMemory(_) => PyMemoryError::new_err(error.to_string()),
    }
}

/// A log could not do what it was asked.
pub fn store(error: LogError) -> PyErr {
    let text = error.to_string();
    match error {
        LogError::Io { .. } | LogError::Version { .. } => python::StoreError::new_err(text),
        LogError::Corrupt { .. } => python::StoreCorruptError::new_err(text),
        LogError::Full { .. } => python::StoreFullError::new_err(text),
        LogError::Failed { .. } => python::StoreFailedError::new_err(text),
        LogError::Trimmed { floor, .. } => python::TrimmedError::new_err((text, floor)),
        LogError::Refused(_) => python::StoreRefusedError::new_err(text),
    }
}

/// Somebody else has the directory.
pub fn store_locked(path: &std::path::Path, holder: &str) -> PyErr {
    let who = if holder.is_empty() { "another process" } else { holder };
    python::StoreLockedError::new_err(format!(
        "{} belongs to {who}: close that first, or use another directory",
        path.display()
    ))
}
