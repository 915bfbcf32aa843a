//! Topics a publisher uses: checked once, their message heads written once.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyString;
use shoal_node::Hub;
use shoal_node::hub::Plan;
use shoal_wire::{BodyKind, Destination, Outgoing, Priority, TopicBuf};

/// Topics remembered at the most.
const TOPICS_MAX: usize = 10_000;

/// A topic that was published on.
pub struct Known {
    pub topic: TopicBuf,
    /// The head of a message with nothing but topic and body; priority and kind are in its second byte.
    pub head: Vec<u8>,
    /// Who gets it, as of an interest version.
    pub plan: Arc<Plan>,
}

impl Known {
    /// Sets what a message of this kind and urgency has in its head.
    #[inline]
    pub fn set_kind(&mut self, kind: BodyKind, priority: Priority) {
        self.head[1] = priority.get() << 4 | kind as u8;
    }

    /// Makes the plan the one that holds now. False if that has to wait for somebody else.
    #[inline]
    pub fn renew_plan(&mut self, hub: &Hub) -> bool {
        if self.plan.version != hub.interest_version() {
            let Some(plan) = hub.try_plan(self.topic.as_topic().as_str().as_bytes()) else { return false };
            self.plan = Arc::new(plan);
        }
        true
    }
}

/// The topics.
#[derive(Default)]
pub struct TopicCache {
    known: Vec<Known>,
    by_name: HashMap<String, usize>,
    /// The string object used last, which is kept alive so that its address stays its own.
    last: Option<(Py<PyString>, usize)>,
}

impl TopicCache {
    /// The topic of this name; a string object used again is found by its address.
    #[inline]
    pub fn get(&mut self, name: &Bound<'_, PyString>) -> PyResult<&mut Known> {
        let index = match &self.last {
            Some((last, index)) if last.as_ptr() == name.as_ptr() => *index,
            _ => self.remember(name)?,
        };
        Ok(&mut self.known[index])
    }

    #[inline(never)]
    fn remember(&mut self, name: &Bound<'_, PyString>) -> PyResult<usize> {
        let index = self.look_up(name.to_str()?)?;
        self.last = Some((name.clone().unbind(), index));
        Ok(index)
    }

    fn look_up(&mut self, name: &str) -> PyResult<usize> {
        if let Some(&index) = self.by_name.get(name) {
            return Ok(index);
        }
        let topic = crate::errors::checked_topic(name)?;
        if self.known.len() >= TOPICS_MAX {
            *self = TopicCache::default();
        }
        let mut head = Vec::new();
        Outgoing::new(Destination::topic(topic), BodyKind::Bytes, &[])
            .encode_head_into(&mut head)
            .map_err(super::body::encode_error)?;
        self.known.push(Known { topic: topic.into(), head, plan: Arc::default() });
        self.by_name.insert(name.to_owned(), self.known.len() - 1);
        Ok(self.known.len() - 1)
    }
}
