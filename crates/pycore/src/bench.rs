//! What `shoal bench` measures with, for Python: `shoal_bench` does it.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_bench::{BulkReport, SelectorLoad, raw};
use shoal_norm::NodeId;

use crate::convert::duration;
use crate::errors;
use crate::fec::ReedSolomon;
use crate::link_options::{address, link_options};
use crate::norm::stats_to_python;

/// One block to be coded over and over, so that coding is measured and Python is not.
#[pyclass(module = "shoal._core")]
pub struct CodingLoad {
    code: Py<ReedSolomon>,
    load: shoal_bench::CodingLoad,
}

#[pymethods]
impl CodingLoad {
    /// A block of `code` with symbols of `symbol_bytes`.
    #[new]
    fn new(code: Py<ReedSolomon>, symbol_bytes: usize) -> PyResult<Self> {
        let load = shoal_bench::CodingLoad::new(&code.get().0, symbol_bytes).map_err(fault)?;
        Ok(Self { code, load })
    }

    /// Compute all parity of the block, `blocks` times.
    fn encode(&mut self, py: Python<'_>, blocks: usize) -> PyResult<()> {
        let Self { code, load } = self;
        let code = &code.get().0;
        py.detach(|| load.encode(code, blocks)).map_err(fault)
    }

    /// Recover as many source symbols, the block's first, as there is parity, `blocks` times.
    fn decode(&mut self, py: Python<'_>, blocks: usize) -> PyResult<()> {
        let Self { code, load } = self;
        let code = &code.get().0;
        py.detach(|| load.decode(code, blocks)).map_err(fault)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it maps errors")]
fn fault(fault: shoal_bench::CodingFault) -> PyErr {
    PyValueError::new_err(fault.to_string())
}

/// Filters and messages, and the index over the filters.
#[pyclass(module = "shoal._core")]
pub struct SelectorBench(SelectorLoad);

#[pymethods]
impl SelectorBench {
    /// `kind` is `distinct` (with a match rate), `identical`, `and` or `or` (with a number of terms).
    #[new]
    fn new(
        py: Python<'_>,
        kind: &str,
        count: usize,
        rate: f64,
        terms: usize,
        messages: usize,
        seed: u64,
    ) -> PyResult<Self> {
        let load = py.detach(|| SelectorLoad::new(kind, count, rate, terms, messages, seed));
        load.map(Self).ok_or_else(|| PyValueError::new_err(format!("{kind:?} is no kind of workload")))
    }

    /// Matches `count` messages with the index; returns nanoseconds per message and how many filters matched.
    fn index_round(&mut self, py: Python<'_>, count: usize) -> (f64, u64) {
        py.detach(|| self.0.index_round(count))
    }

    /// Matches `count` messages by evaluating every selector.
    fn scan_round(&self, py: Python<'_>, count: usize) -> (f64, u64) {
        py.detach(|| self.0.scan_round(count))
    }

    /// How many of the first `count` messages the index and the scan disagree on, subscriber by subscriber.
    fn disagreements(&mut self, py: Python<'_>, count: usize) -> usize {
        py.detach(|| self.0.disagreements(count))
    }

    /// Removes `count` selectors from the full index and adds them again; returns what each removal and each
    /// addition took, in nanoseconds.
    fn change_round(&mut self, py: Python<'_>, count: usize) -> (Vec<u64>, Vec<u64>) {
        py.detach(|| self.0.change_round(count))
    }

    /// What the index holds on the heap, the selectors' own canonical forms included.
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    /// Filters that are looked at per message, and predicates evaluated per message, since the start.
    fn work_per_message(&self) -> (f64, f64) {
        self.0.work_per_message()
    }
}

fn report_to_python<'py>(py: Python<'py>, report: &BulkReport) -> PyResult<Bound<'py, PyDict>> {
    let fields = stats_to_python(py, &report.stats)?;
    fields.set_item("bytes", report.bytes)?;
    fields.set_item("seconds", report.seconds)?;
    fields.set_item("fault", &report.fault)?;
    Ok(fields)
}

/// Calls back into Python a few times a second, and passes on what it raises.
fn report_progress(progress: Option<Py<PyAny>>) -> impl FnMut(u64) {
    let mut last = std::time::Instant::now();
    move |bytes| {
        if let Some(callback) = &progress
            && last.elapsed() >= Duration::from_millis(100)
        {
            last = std::time::Instant::now();
            Python::attach(|py| {
                if let Err(error) = callback.call1(py, (bytes,)) {
                    error.print(py);
                }
            });
        }
    }
}

/// Sends one long stream as fast as it goes.
#[pyfunction]
#[pyo3(signature = (node, bytes, message_bytes, *, group, port, interface = "lo", linger_s = 10.0, progress = None, **options))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn norm_send_bulk<'py>(
    py: Python<'py>,
    node: NodeId,
    bytes: u64,
    message_bytes: usize,
    group: &str,
    port: u16,
    interface: &str,
    linger_s: f64,
    progress: Option<Py<PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = link_options(address(group, port, interface)?, node, u64::from(node), options, py)?;
    let linger = duration("linger_s", linger_s)?;
    let report = py
        .detach(|| shoal_bench::send_bulk(options, bytes, message_bytes, linger, report_progress(progress)))
        .map_err(errors::link)?;
    report_to_python(py, &report)
}

/// Receives one long stream, and checks every byte of it.
#[pyfunction]
#[pyo3(signature = (node, message_bytes, *, group, port, interface = "lo", patience_s = 10.0, progress = None, **options))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn norm_receive_bulk<'py>(
    py: Python<'py>,
    node: NodeId,
    message_bytes: usize,
    group: &str,
    port: u16,
    interface: &str,
    patience_s: f64,
    progress: Option<Py<PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = link_options(address(group, port, interface)?, node, u64::from(node), options, py)?;
    let patience = duration("patience_s", patience_s)?;
    let report = py
        .detach(|| shoal_bench::receive_bulk(options, message_bytes, patience, report_progress(progress)))
        .map_err(errors::link)?;
    report_to_python(py, &report)
}

/// Sends datagrams with no protocol for a while: (bytes, seconds).
#[pyfunction]
#[pyo3(signature = (segment_bytes, duration_s, *, group, port, interface = "lo"))]
pub fn raw_send(
    py: Python<'_>,
    segment_bytes: usize,
    duration_s: f64,
    group: &str,
    port: u16,
    interface: &str,
) -> PyResult<(u64, f64)> {
    let address = address(group, port, interface)?;
    let span = duration("duration_s", duration_s)?;
    let rate = py.detach(|| raw::send_for(&address, segment_bytes, span))?;
    Ok((rate.bytes, rate.seconds))
}

/// Counts what [`raw_send`] sends: (bytes, seconds).
#[pyfunction]
#[pyo3(signature = (*, group, port, interface = "lo", patience_s = 10.0))]
pub fn raw_receive(
    py: Python<'_>,
    group: &str,
    port: u16,
    interface: &str,
    patience_s: f64,
) -> PyResult<(u64, f64)> {
    let address = address(group, port, interface)?;
    let patience = duration("patience_s", patience_s)?;
    let rate = py.detach(|| raw::receive_until_end(&address, patience))?;
    Ok((rate.bytes, rate.seconds))
}
