//! The Reed-Solomon code for Python, over lists of `bytes`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use shoal_fec::{CodeError, Kernel, Symbol, Workspace};

/// One code, frozen; may be shared between threads.
#[pyclass(frozen, module = "shoal._core")]
pub struct ReedSolomon(pub shoal_fec::ReedSolomon);

#[pymethods]
impl ReedSolomon {
    #[new]
    #[pyo3(signature = (source_symbols, parity_symbols, *, kernel=None))]
    fn new(source_symbols: usize, parity_symbols: usize, kernel: Option<&str>) -> PyResult<Self> {
        let kernel = kernel.map_or_else(|| Ok(Kernel::fastest()), kernel_named)?;
        shoal_fec::ReedSolomon::with_kernel(source_symbols, parity_symbols, kernel).map(Self).map_err(refusal)
    }

    /// The kernels of this processor, slowest first.
    #[staticmethod]
    fn kernels() -> Vec<&'static str> {
        Kernel::available().into_iter().map(Kernel::name).collect()
    }

    #[getter]
    fn kernel(&self) -> &'static str {
        self.0.kernel().name()
    }

    #[getter]
    fn source_symbols(&self) -> usize {
        self.0.source_symbols()
    }

    #[getter]
    fn parity_symbols(&self) -> usize {
        self.0.parity_symbols()
    }

    /// The block's parity symbols, each as long as its longest source symbol.
    fn encode<'py>(&self, py: Python<'py>, source: Vec<PyBackedBytes>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let parity = py.detach(|| {
            let longest = source.iter().map(|symbol| symbol.len()).max().unwrap_or(0);
            let mut parity = vec![vec![0; longest]; self.0.parity_symbols()];
            self.0.encode(source.iter().map(|symbol| Symbol::from(&symbol[..])), &mut parity)?;
            Ok(parity)
        });
        Ok(parity.map_err(refusal)?.iter().map(|symbol| PyBytes::new(py, symbol)).collect())
    }

    /// All source symbols of a block; `None` marks what is missing, among source and parity symbols.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        source: Vec<Option<PyBackedBytes>>,
        parity: Vec<Option<PyBackedBytes>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let missing: Vec<usize> = (0..source.len()).filter(|index| source[*index].is_none()).collect();
        let used: Vec<usize> =
            (0..parity.len()).filter(|index| parity[*index].is_some()).take(missing.len()).collect();
        let recovered = py.detach(|| {
            let mut buffers: Vec<Vec<u8>> =
                used.iter().filter_map(|index| parity[*index].as_deref().map(<[u8]>::to_vec)).collect();
            let present = source.iter().enumerate();
            let present = present.filter_map(|(at, symbol)| Some((at, Symbol::from(symbol.as_deref()?))));
            self.0.recover(&mut Workspace::new(), &missing, &used, present, &mut buffers)?;
            Ok(buffers)
        });
        let mut recovered = recovered.map_err(refusal)?.into_iter();
        let whole = source.iter().map(|symbol| match symbol {
            Some(symbol) => PyBytes::new(py, symbol),
            None => PyBytes::new(py, &recovered.next().unwrap_or_default()),
        });
        Ok(whole.collect())
    }
}

fn kernel_named(name: &str) -> PyResult<Kernel> {
    let found = Kernel::available().into_iter().find(|kernel| kernel.name() == name);
    found.ok_or_else(|| {
        let names = ReedSolomon::kernels().join(", ");
        PyValueError::new_err(format!("this processor has no kernel '{name}', but {names}"))
    })
}

fn refusal(error: CodeError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
