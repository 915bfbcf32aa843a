//! A simulated network with one clock and one seed, for the sans-IO engines.
