//! JMS message selectors: the language, its evaluator and the index over many of them.
