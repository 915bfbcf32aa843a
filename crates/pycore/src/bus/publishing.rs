//! From `publish` to the hub.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::PyString;
use shoal_io::bus::Bus;
use shoal_node::hub::{Attempt, Consumer, Patience, Plan, Publication, Unrung};
use shoal_wire::{MessageView, Priority, PropertiesWriter};

use super::body;
use super::delivery::calling;
use super::exit::{check, detached};
use super::node::{Node, SIGNAL_CHECK};
use super::outgoing::{Extras, write_head, write_properties};
use super::properties;
use super::topic_cache::TopicCache;
use crate::errors;

/// How long publishing may wait.
#[derive(Copy, Clone)]
pub struct Wait<'a> {
    /// When to give up.
    pub deadline: Option<Instant>,
    /// When a publisher that comes back began to wait for a queue of this process.
    pub began: Option<Instant>,
    /// The queue whose callback publishes, if a thread of its own does not tell.
    pub caller: Option<&'a Arc<Consumer>>,
}

/// Rings links whose ring takes a system call, without Python.
#[inline]
fn ring(py: Python<'_>, unrung: Unrung) {
    if !unrung.is_empty() {
        detached(py, || unrung.ring());
    }
}

/// A message that has to wait for room, in its own memory.
struct Waiting<'a> {
    topic: &'a Bound<'a, PyString>,
    plan: Arc<Plan>,
    head: &'a [u8],
    body: &'a [u8],
    lane: usize,
    expires: bool,
    wait: Wait<'a>,
}

impl Node {
    /// Publishes a message. Returns its number, or 0 if it was dropped because nobody takes more.
    pub fn publish_message(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        body: Option<&Bound<'_, PyAny>>,
        priority: Priority,
        mut extras: Extras<'_>,
        wait: Wait<'_>,
    ) -> PyResult<u64> {
        let bus = &self.open()?.bus;
        let none;
        let encoded = body::encode(match body {
            Some(body) => body,
            None => {
                none = py.None().into_bound(py);
                &none
            }
        })?;
        let content = encoded.bytes.as_slice();
        let expires = extras.is_timed();
        extras.published_us = expires.then(|| self.clock_us()).transpose()?;
        let mut topics = self.planned(py, bus, topic)?;
        let known = topics.get(topic)?;
        let lane = bus.groups().lane(known.topic.as_topic().as_str().as_bytes(), priority.class());
        let plain = extras.is_empty() && encoded.detail.is_empty();
        if known.plan.is_idle()
            && let Some(mapping) = extras.properties
        {
            drop(topics);
            // What cannot be published is refused whether somebody listens or not.
            properties::write(mapping, &mut PropertiesWriter::default())?;
            topics = self.topics();
        }
        let known = topics.get(topic)?;
        if plain || known.plan.is_idle() {
            known.set_kind(encoded.kind, priority);
            let mut unrung = Unrung::default();
            let attempt = bus.hub().try_publish(
                bus.clock(),
                &known.plan,
                &mut self.publication(bus, lane, [&known.head, content], expires, wait),
                &mut unrung,
            );
            match attempt {
                Some(Attempt::Done(number)) => {
                    drop(topics);
                    ring(py, unrung);
                    return Ok(number);
                }
                Some(Attempt::Refused(why)) => return Err(errors::refused(why)),
                Some(Attempt::Wait(_) | Attempt::Outdated) | None => {}
            }
            let (plan, head) = (known.plan.clone(), known.head.clone());
            drop(topics);
            let waiting = Waiting { topic, plan, head: &head, body: content, lane, expires, wait };
            return self.publish_waiting(py, bus, waiting);
        }
        // A mapping may run Python, and Python may let another thread publish.
        drop(topics);
        let mut scratch = std::mem::take(&mut *self.scratch.lock().unwrap_or_else(PoisonError::into_inner));
        scratch.head.clear();
        write_properties(&extras, &mut scratch)?;
        let mut topics = self.topics();
        let known = topics.get(topic)?;
        write_head(known.topic.as_topic(), priority, &encoded, &extras, &mut scratch)?;
        let plan = known.plan.clone();
        drop(topics);
        let waiting = Waiting { topic, plan, head: &scratch.head, body: content, lane, expires, wait };
        let published = self.publish_waiting(py, bus, waiting);
        *self.scratch.lock().unwrap_or_else(PoisonError::into_inner) = scratch;
        published
    }

    /// Publishes a message that is encoded already. Returns its number.
    pub(crate) fn publish_record(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        record: &[u8],
        deadline: Instant,
    ) -> PyResult<u64> {
        let bus = &self.open()?.bus;
        let view = MessageView::parse(record).map_err(|error| errors::unreadable(&error))?;
        let (head, body) = record.split_at(record.len() - view.body().len());
        let lane = bus.groups().lane(view.name_bytes(), view.priority().class());
        let has = |field: Result<Option<u64>, _>| field.is_ok_and(|field| field.is_some());
        let expires = has(view.ttl_us()) || has(view.delivery_delay_us());
        let mut topics = self.planned(py, bus, topic)?;
        let plan = topics.get(topic)?.plan.clone();
        drop(topics);
        let wait = Wait { deadline: Some(deadline), began: None, caller: None };
        self.publish_waiting(py, bus, Waiting { topic, plan, head, body, lane, expires, wait })
    }

    /// What the clock shows that messages with a time to live carry.
    pub(crate) fn clock_us(&self) -> PyResult<u64> {
        Ok(self.open()?.bus.clock().now().as_nanos() / 1000)
    }

    /// Whether somebody subscribes to a topic, or may without having said so yet.
    pub(super) fn is_wanted(&self, py: Python<'_>, topic: &Bound<'_, PyString>) -> PyResult<bool> {
        let bus = &self.open()?.bus;
        Ok(!self.planned(py, bus, topic)?.get(topic)?.plan.is_empty())
    }

    /// The topics, of which this one has the plan that holds now. Waits without Python for whoever changes who wants what.
    fn planned(
        &self,
        py: Python<'_>,
        bus: &Bus,
        topic: &Bound<'_, PyString>,
    ) -> PyResult<MutexGuard<'_, TopicCache>> {
        loop {
            let mut topics = self.topics();
            if topics.get(topic)?.renew_plan(bus.hub()) {
                return Ok(topics);
            }
            // Whoever holds Python may want the topics.
            drop(topics);
            detached(py, || bus.hub().wait_for_routes());
        }
    }

    pub(super) fn topics(&self) -> MutexGuard<'_, TopicCache> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn publication<'a>(
        &self,
        bus: &Bus,
        lane: usize,
        parts: [&'a [u8]; 2],
        expires: bool,
        wait: Wait<'a>,
    ) -> Publication<'a> {
        Publication {
            lane,
            parts,
            expires,
            patience: Patience {
                when_full: self.full,
                patience: self.patience,
                deadline: wait.deadline.map(|at| bus.clock().at(at)),
            },
            caller: wait.caller,
            began: wait.began.map(|at| bus.clock().at(at)),
            without: Vec::new(),
        }
    }

    /// Publishes a message, and waits for room as long as it takes, without Python.
    fn publish_waiting(&self, py: Python<'_>, bus: &Bus, mut waiting: Waiting<'_>) -> PyResult<u64> {
        let caller = calling();
        let parts = [waiting.head, waiting.body];
        let mut publication = self.publication(bus, waiting.lane, parts, waiting.expires, waiting.wait);
        publication.caller = publication.caller.or(caller.as_ref());
        loop {
            let seen = bus.seen();
            if waiting.plan.version != bus.hub().interest_version() {
                waiting.plan = self.planned(py, bus, waiting.topic)?.get(waiting.topic)?.plan.clone();
            }
            let mut unrung = Unrung::default();
            match bus.hub().try_publish(bus.clock(), &waiting.plan, &mut publication, &mut unrung) {
                Some(Attempt::Done(number)) => {
                    ring(py, unrung);
                    return Ok(number);
                }
                Some(Attempt::Refused(why)) => return Err(errors::refused(why)),
                Some(Attempt::Outdated) => {}
                None => detached(py, || bus.hub().wait_for_routes()),
                Some(Attempt::Wait(until)) => {
                    let slice = Instant::now() + SIGNAL_CHECK;
                    let until = bus.clock().when(until).map_or(slice, |until| until.min(slice));
                    detached(py, || bus.wait(seen, until));
                    check(py)?;
                }
            }
        }
    }
}
