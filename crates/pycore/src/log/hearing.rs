//! What a store hears on the bus for its subscriptions, for Python.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use shoal_log::{Filter, Meta, RowsWriter};

use super::{Log, patterns};
use crate::aging::of_age;
use crate::bus::Subscription;
use crate::bus::exit::detached;

/// The new rows, where they go (destination, messages, bytes), and how far their chains are (publisher, chain, number).
type Sifted<'py> = (Bound<'py, PyBytes>, Vec<(String, u64, u64)>, Vec<(u64, u32, u64)>);

/// Takes what a subscription has, as rows; none if it has nothing. They say how old they are, where that counts. For its
/// only reader.
#[pyfunction]
pub fn heard_rows<'py>(
    py: Python<'py>,
    subscription: &Subscription,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    subscription.check_here()?;
    let rows = detached(py, || {
        let mut rows = RowsWriter::default();
        for batch in subscription.take_raw(Duration::ZERO).unwrap_or_default() {
            let waited = subscription.now().since(batch.arrived);
            for entry in &batch.entries {
                let record = batch.record(entry);
                let aged = of_age(record, batch.age(entry) + waited);
                let record = aged.as_deref().unwrap_or(record);
                rows.push(&Meta::of(&batch.origin(entry), record), record);
            }
            subscription.recycle(batch);
        }
        rows
    });
    Ok((!rows.is_empty()).then(|| PyBytes::new(py, rows.bytes())))
}

/// What a store heard so far. For one thread at a time.
#[pyclass(module = "shoal._core", frozen)]
pub struct Hearing(Mutex<shoal_log::Hearing>);

#[pymethods]
impl Hearing {
    /// Topics of `unless` come into the log on another way.
    #[new]
    #[pyo3(signature = (unless = Vec::new()))]
    fn new(unless: Vec<String>) -> PyResult<Hearing> {
        Ok(Hearing(Mutex::new(shoal_log::Hearing::new(Filter::new(patterns(&unless)?, None)))))
    }

    /// Takes in rows, and returns what is new of them.
    fn sift<'py>(&self, py: Python<'py>, log: &Log, rows: PyBackedBytes) -> PyResult<Sifted<'py>> {
        let shared = log.here()?;
        let heard = detached(py, || {
            let stored = |publisher, chain| {
                shared.look(|log| log.state().chains().get(publisher, chain).map_or(0, |found| found.number))
            };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).sift(&rows, stored)
        });
        let chains = heard.chains.iter().map(|&((publisher, chain), number)| (publisher, chain, number));
        Ok((PyBytes::new(py, heard.rows.bytes()), heard.destinations, chains.collect()))
    }
}
