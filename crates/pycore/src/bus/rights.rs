//! What programs at the other end of links may do, for Python, which reads the rules.

use std::sync::Arc;

use pyo3::prelude::*;
use shoal_node::tcp::{Action, Rights as Kept, Rule, Rules};
use shoal_wire::TopicPattern;

use crate::errors;

/// A rule: its name, whether it allows, its actions and topics.
type Line = (String, bool, Vec<String>, Vec<String>);

/// What one principal may do over links. May be shared between threads.
#[pyclass(module = "shoal._core", frozen)]
pub struct Rights(pub(super) Arc<Kept>);

#[pymethods]
impl Rights {
    /// With the rules that name the principal, in the order of their file; those about stores alone are left out.
    #[new]
    fn new(
        principal: String,
        source: String,
        rules: Vec<Line>,
        bytes_per_s: Option<u64>,
    ) -> PyResult<Rights> {
        Ok(Rights(Arc::new(Kept::new(read(principal, source, rules, bytes_per_s)?))))
    }

    /// Other rules count from now on; `TcpLinks.use_rules` has links look.
    fn replace(
        &self,
        principal: String,
        source: String,
        rules: Vec<Line>,
        bytes_per_s: Option<u64>,
    ) -> PyResult<()> {
        self.0.replace(read(principal, source, rules, bytes_per_s)?);
        Ok(())
    }
}

fn read(principal: String, source: String, rules: Vec<Line>, bytes_per_s: Option<u64>) -> PyResult<Rules> {
    let rule = |(name, allows, actions, topics): Line| {
        let topics: Result<_, _> = topics.iter().map(|topic| TopicPattern::new(topic)).collect();
        let topics = topics.map_err(|error| errors::config(error.to_string()))?;
        let actions = actions.iter().filter_map(|name| Action::named(name)).collect();
        Ok(Rule { name, allows, actions, topics })
    };
    let rules: PyResult<_> = rules.into_iter().map(rule).collect();
    Ok(Rules { principal, source, rules: rules?, bytes_per_s: bytes_per_s.filter(|&bytes| bytes > 0) })
}
