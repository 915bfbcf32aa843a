//! The load of a benchmark: a publisher of messages that were encoded in advance, and a sink that checks their numbers. Neither makes
//! a Python object for a message, so that the load takes as little as it can of the machine that is measured.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use shoal_node::hub::{Attempt, Patience, Plan, Publication, Refusal, WhenFull};
use shoal_node::norm::Groups;
use shoal_wire::{BodyKind, Destination, HeaderFields, Outgoing, PriorityClass, PropertiesWriter, TopicBuf};

use super::body::encode_error;
use super::exit::detached;
use super::node::{Inner, Node};
use super::properties;
use super::subscription::Subscription;
use crate::convert::duration;
use crate::errors;

/// Messages between two looks at the clock.
const RUN: usize = 64;
/// How long to wait for room before looking at the clock again.
const ROOM: Duration = Duration::from_millis(100);
/// How long a sink sleeps when nothing came. Publishers may share its core.
const PAUSE: Duration = Duration::from_micros(500);

/// A message without its body.
struct Prepared {
    topic: TopicBuf,
    head: Vec<u8>,
    lane: usize,
}

/// Topic, properties and correlation id of a message.
type Described<'py> = (String, Option<Bound<'py, PyAny>>, Option<String>);

/// Publishes messages in turn, as fast as the node takes them. May be shared between threads.
#[pyclass(module = "shoal._core", frozen)]
pub struct LoadPublisher {
    inner: Arc<Inner>,
    messages: Vec<Prepared>,
    body: Vec<u8>,
    sent: AtomicU64,
}

#[pymethods]
impl LoadPublisher {
    /// Encodes messages: (topic, properties, correlation id) of each, and the body of all.
    #[new]
    fn new(node: &Bound<'_, Node>, messages: Vec<Described<'_>>, body: Vec<u8>) -> PyResult<LoadPublisher> {
        let inner = node.get().inner()?.clone();
        let prepared = messages.into_iter().map(|described| prepare(described, inner.bus.groups()));
        let messages = prepared.collect::<PyResult<Vec<Prepared>>>()?;
        if messages.is_empty() {
            return Err(errors::config("there is no message to publish".to_owned()));
        }
        Ok(LoadPublisher { inner, messages, body, sent: AtomicU64::new(0) })
    }

    /// Publishes for so long, and waits for room where there is none. Returns how many messages were published.
    fn run(&self, py: Python<'_>, seconds: f64) -> PyResult<u64> {
        let until = Instant::now() + duration("seconds", seconds)?;
        detached(py, || self.publish(until)).map_err(errors::refused)?;
        Ok(self.sent())
    }

    /// Messages published so far.
    #[getter]
    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl LoadPublisher {
    fn publish(&self, until: Instant) -> Result<(), Refusal> {
        let mut plans: Vec<Plan> = self.messages.iter().map(|_| Plan::default()).collect();
        let mut turn = (0..self.messages.len()).cycle();
        while Instant::now() < until {
            for (sent, at) in turn.by_ref().take(RUN).enumerate() {
                if !self.offer(&self.messages[at], &mut plans[at], until)? {
                    self.sent.fetch_add(sent as u64, Ordering::Relaxed);
                    return Ok(());
                }
            }
            self.sent.fetch_add(RUN as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Publishes a message; false if there was no room until the end.
    fn offer(&self, message: &Prepared, plan: &mut Plan, until: Instant) -> Result<bool, Refusal> {
        let (bus, hub) = (&self.inner.bus, self.inner.bus.hub());
        let patience = Patience { when_full: WhenFull::Block, patience: Duration::MAX / 4, deadline: None };
        let mut publication = Publication {
            lane: message.lane,
            parts: [&message.head, &self.body],
            expires: false,
            patience,
            caller: None,
            began: None,
            without: Vec::new(),
        };
        loop {
            let seen = bus.seen();
            if plan.version != hub.interest_version() {
                *plan = hub.plan(message.topic.as_topic().as_str().as_bytes());
            }
            match hub.publish(bus.clock(), plan, &mut publication) {
                Attempt::Done(_) => return Ok(true),
                Attempt::Refused(why) => return Err(why),
                Attempt::Outdated => {}
                Attempt::Wait(_) if Instant::now() >= until => return Ok(false),
                Attempt::Wait(_) => {
                    bus.wait(seen, until.min(Instant::now() + ROOM));
                }
            }
        }
    }
}

fn prepare((topic, properties, correlation): Described<'_>, groups: &Groups) -> PyResult<Prepared> {
    let valid = errors::checked_topic(&topic)?;
    let mut written = PropertiesWriter::default();
    if let Some(mapping) = properties {
        properties::write(&mapping, &mut written)?;
    }
    let correlation_id = correlation.as_deref().map(str::as_bytes);
    let outgoing = Outgoing {
        properties: written.properties(),
        fields: HeaderFields { correlation_id, ..HeaderFields::default() },
        ..Outgoing::new(Destination::topic(valid), BodyKind::Bytes, &[])
    };
    let mut head = Vec::new();
    outgoing.encode_head_into(&mut head).map_err(encode_error)?;
    let lane = groups.lane(topic.as_bytes(), PriorityClass::Normal);
    Ok(Prepared { topic: valid.into(), head, lane })
}

/// Counts what subscriptions receive, and checks that the numbers of each publisher ascend. May be shared between threads.
#[pyclass(module = "shoal._core", frozen)]
pub struct LoadSink {
    subscriptions: Vec<Py<Subscription>>,
    received: AtomicU64,
    disordered: AtomicU64,
    over: AtomicBool,
}

#[pymethods]
impl LoadSink {
    /// A sink of these subscriptions, which nobody else reads.
    #[new]
    fn new(subscriptions: Vec<Py<Subscription>>) -> LoadSink {
        LoadSink { subscriptions, received: 0.into(), disordered: 0.into(), over: false.into() }
    }

    /// Reads until `finish` was called and nothing comes any more.
    fn run(&self, py: Python<'_>) {
        detached(py, || self.read());
    }

    /// Ends `run`.
    fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Messages received so far.
    #[getter]
    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Those whose number was not above the one before it, of the same publisher in the same subscription.
    #[getter]
    fn disordered(&self) -> u64 {
        self.disordered.load(Ordering::Relaxed)
    }
}

impl LoadSink {
    fn read(&self) {
        let mut last: Vec<HashMap<(u64, u32), u64>> = vec![HashMap::new(); self.subscriptions.len()];
        loop {
            let over = self.over.load(Ordering::SeqCst);
            let mut came = false;
            for (subscription, last) in self.subscriptions.iter().zip(&mut last) {
                let subscription = subscription.get();
                if subscription.is_idle() {
                    continue;
                }
                for batch in subscription.take_raw(Duration::ZERO).unwrap_or_default() {
                    came = true;
                    let last = last.entry((batch.source.publisher, batch.source.chain)).or_default();
                    let mut disordered = 0;
                    for entry in &batch.entries {
                        let number = batch.origin(entry).number;
                        disordered += u64::from(number <= *last);
                        *last = number;
                    }
                    self.received.fetch_add(batch.entries.len() as u64, Ordering::Relaxed);
                    self.disordered.fetch_add(disordered, Ordering::Relaxed);
                    subscription.recycle(batch);
                }
            }
            if !came {
                if over {
                    return;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}
