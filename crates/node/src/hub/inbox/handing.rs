//! From a source's buffer into the queues.

use std::sync::Arc;

use shoal_norm::Time;

use super::super::consumer::Batch;
use super::super::routes::Routes;
use super::staged::Staged;
use super::{BUFFER_BYTES, Inbox};

/// Less than this is copied when it is handed over, so that a few bytes that wait for long hold no whole buffer.
const SHARED_BYTES_MIN: usize = BUFFER_BYTES / 4;
/// Buffers handed over that may come back for their memory.
const LENT_MAX: usize = 64;
/// Lists of staged messages kept for their memory, one for each subscription.
const LISTS_MAX: usize = 4096;

impl Inbox {
    /// Puts what is staged into the queues.
    pub fn hand_over(&mut self, now: Time, routes: &Routes) {
        let Staged { entries, ids, ages, sources, .. } = &mut self.staged;
        if ids.is_empty() {
            return;
        }
        let Some(Some(stream)) = self.current.and_then(|id| self.streams.get_mut(id)) else {
            return;
        };
        // What is copied is the smaller part, so that it is never long.
        let bytes = if stream.reader.kept() < SHARED_BYTES_MIN.max(stream.reader.carried()) {
            Arc::new(stream.reader.copy_kept())
        } else {
            let bytes = Arc::new(stream.reader.take_kept(spare(&mut self.lent)));
            if bytes.capacity() <= 2 * BUFFER_BYTES && self.lent.len() < LENT_MAX {
                self.lent.push(bytes.clone());
            }
            bytes
        };
        let ages = (!ages.is_empty()).then(|| Arc::new(std::mem::take(ages)));
        for id in ids.drain(..) {
            let Some(staged) = entries.get_mut(&id) else { continue };
            let Some(consumer) = routes.consumer(id) else {
                entries.remove(&id);
                continue;
            };
            let mut entries = std::mem::replace(staged, consumer.spare_entries());
            let mut fills = false;
            for (at, &(_, source)) in sources.iter().enumerate() {
                // Mostly there is one publisher, and all is its.
                let rest = match sources.get(at + 1) {
                    Some(&(end, _)) => {
                        entries.split_off(entries.partition_point(|entry| entry.start() < end))
                    }
                    None => Vec::new(),
                };
                let of_source = std::mem::replace(&mut entries, rest);
                if !of_source.is_empty() {
                    let (bytes, ages) = (bytes.clone(), ages.clone());
                    let batch = Batch { bytes, entries: of_source, source, arrived: now, ages };
                    fills |= consumer.put_batch(batch.without_waste());
                }
            }
            if fills && !stream.filled.contains(&id) {
                stream.filled.push(id);
            }
        }
        sources.clear();
        if entries.len() > LISTS_MAX {
            // Most are of subscriptions that ended.
            entries.clear();
        }
    }
}

/// A buffer that everybody is through with, the last one first, because it is the most likely to be in the
/// processor's cache; or a new one.
fn spare(lent: &mut Vec<Arc<Vec<u8>>>) -> Vec<u8> {
    let free = lent.iter_mut().rposition(|buffer| Arc::get_mut(buffer).is_some());
    free.and_then(|at| Arc::into_inner(lent.remove(at)))
        .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES + SHARED_BYTES_MIN))
}
