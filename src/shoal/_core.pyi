"""Hand-written stubs of the Rust extension module (`crates/pycore`)."""

__version__: str
