//! From `publish` to the subscriptions of this process and to the network.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyString;
use shoal_io::bus::{Bus, Lane};
use shoal_io::norm::{Full, SendError};
use shoal_node::Origin;
use shoal_wire::{MessageView, Priority, PropertiesWriter};

use super::body;
use super::delivery::{Patience, WhenFull, make_room};
use super::exit::{check, detached};
use super::message::Message;
use super::node::{Node, SIGNAL_CHECK};
use super::outgoing::{Extras, write_head, write_properties};
use super::properties;
use super::topic_cache::TopicCache;
use crate::errors;

/// How long publishing may wait.
#[derive(Copy, Clone)]
pub struct Wait {
    /// When to give up.
    pub deadline: Option<Instant>,
    /// When a publisher that comes back began to wait for a queue of this process.
    pub began: Option<Instant>,
}

impl Node {
    /// Publishes a message. True unless it was dropped because nobody takes more.
    pub fn publish_message(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        body: Option<&Bound<'_, PyAny>>,
        priority: Priority,
        mut extras: Extras<'_>,
        wait: Wait,
    ) -> PyResult<bool> {
        let inner = self.open()?;
        let none = py.None().into_bound(py);
        let body = body.unwrap_or(&none);
        let encoded = body::encode(body)?;
        extras.published_us = extras.ttl.and(inner.bus.as_ref()).map(|bus| bus.link().clock_us());
        let mut topics = self.topics();
        let known = topics.get(topic)?;
        let wanted = match &inner.bus {
            Some(bus) => {
                let version = bus.interest_version();
                match known.wanted {
                    Some((seen, wanted)) if seen == version => wanted,
                    _ => {
                        let wanted = bus.is_wanted(known.topic.as_topic().as_str().as_bytes());
                        known.wanted = Some((version, wanted));
                        wanted
                    }
                }
            }
            None => false,
        };
        let lane = Lane::of(known.topic.as_topic().as_str().as_bytes(), priority.class());
        let here = !inner.local.is_empty();
        if !wanted && !here {
            drop(topics);
            // What cannot be published is refused whether somebody listens or not.
            if let Some(mapping) = extras.properties {
                properties::write(mapping, &mut PropertiesWriter::default())?;
            }
            return Ok(true);
        }
        let mut scratch = std::mem::take(&mut *self.scratch.lock().unwrap_or_else(PoisonError::into_inner));
        scratch.head.clear();
        if extras.is_empty() && encoded.detail.is_empty() {
            scratch.head.extend_from_slice(known.head_for(encoded.kind, priority));
            drop(topics);
        } else {
            // A mapping may run Python, and Python may let another thread publish.
            drop(topics);
            write_properties(&extras, &mut scratch)?;
            let mut topics = self.topics();
            write_head(topics.get(topic)?.topic.as_topic(), priority, &encoded, &extras, &mut scratch)?;
        }
        let mut origin = Origin { node: inner.node, ..Origin::default() };
        if here {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            origin.timestamp_us = now.as_micros() as u64;
            origin.number = Some(self.delivered.fetch_add(1, Ordering::Relaxed));
            let view = MessageView::parse(&scratch.head).map_err(|error| errors::unreadable(&error))?;
            inner.local.wanting(&view, &origin, &mut scratch.consumers);
        }
        let content = encoded.bytes.as_slice();
        let bytes = scratch.head.len() + content.len();
        if bytes > self.message_bytes_max {
            return Err(errors::send(SendError::TooLong(bytes, self.message_bytes_max)));
        }
        let mut sent = true;
        // Room is made here before anything is sent, so that what is refused reached nobody.
        if !scratch.consumers.is_empty() {
            let patience = Patience {
                when_full: self.full,
                deadline: wait.deadline,
                began: wait.began,
                patience: self.patience,
                on_network: inner.bus.is_some(),
            };
            sent = make_room(py, &mut scratch.consumers, patience)?;
        }
        if let (Some(bus), true) = (&inner.bus, wanted) {
            sent &= self.send(py, bus, lane, &[&scratch.head, content], wait.deadline)?;
        }
        if !scratch.consumers.is_empty() {
            let topic = topic.clone().unbind();
            let message = Message::local(py, &scratch.head, &encoded, body, topic, origin, extras.ttl)?;
            let message = Py::new(py, message)?;
            for consumer in scratch.consumers.drain(..) {
                consumer.put_local(message.clone_ref(py), bytes);
            }
        }
        *self.scratch.lock().unwrap_or_else(PoisonError::into_inner) = scratch;
        Ok(sent)
    }

    fn topics(&self) -> MutexGuard<'_, TopicCache> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(
        &self,
        py: Python<'_>,
        bus: &Bus<Py<Message>>,
        lane: Lane,
        parts: &[&[u8]],
        deadline: Option<Instant>,
    ) -> PyResult<bool> {
        match bus.publish(lane, parts, Full::Refuse) {
            Ok(()) => return Ok(true),
            Err(SendError::Full) => {}
            Err(error) => return Err(errors::send(error)),
        }
        match self.full {
            WhenFull::Drop => return Ok(false),
            WhenFull::Error => return Err(errors::send(SendError::Full)),
            WhenFull::Block => {}
        }
        loop {
            let left = deadline.map_or(SIGNAL_CHECK, |at| at.saturating_duration_since(Instant::now()));
            let wait = Full::Wait(Some(left.min(SIGNAL_CHECK)));
            match detached(py, || bus.publish(lane, parts, wait)) {
                Ok(()) => return Ok(true),
                Err(SendError::Full) if deadline.is_none_or(|at| at > Instant::now()) => check(py)?,
                Err(error) => return Err(errors::send(error)),
            }
        }
    }
}
